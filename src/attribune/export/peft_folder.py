"""Low-rank maps of fixed values as a folder of the peft library, which its users can load without this one."""

from __future__ import annotations

import warnings
from itertools import groupby
from pathlib import Path
from typing import cast

import torch
from safetensors.torch import save_file
from torch import Tensor, nn

from attribune.errors import ConfigError
from attribune.methods.merging import LowRank, MergedMethod, base_layer
from attribune.models.classifier import AttributeModel

__all__ = ["HEAD", "load_peft", "write_peft"]

HEAD = "head.safetensors"


def write_peft(model: AttributeModel, merged: MergedMethod, folder: Path) -> None:
    """Write ``adapter_config.json`` and ``adapter_model.safetensors``, and the classifier in a file of its own.

    ``scale (B A x + c)`` is LoRA whose second map has the bias c. Where one matrix makes queries, keys and values, the
    maps of two of them are one of twice the rank.

    Args:
        model: from which the method was merged.
        merged: of low-rank maps alone.
        folder: an existing folder.

    Raises:
        ConfigError: for a method or tuning with more than low-rank maps.
    """
    from peft import LoraConfig  # seconds to import, and rarely needed

    _check(model, merged)
    parts = sorted(merged.low_rank, key=lambda part: part.site.path)
    tensors: dict[str, Tensor] = {}
    paths, rank, scale = list[str](), 0, parts[0].scaling
    for path, group in groupby(parts, key=lambda part: part.site.path):
        A, B, bias = _joined(model.backbone, list(group))
        prefix, rank = f"base_model.model.{path}", A.shape[0]
        tensors |= {f"{prefix}.lora_A.weight": A, f"{prefix}.lora_B.weight": B, f"{prefix}.lora_B.bias": bias}
        paths.append(path)
    config = LoraConfig(
        r=rank,
        lora_alpha=cast(int, scale * rank),
        lora_bias=True,
        target_modules=paths,
        fan_in_fan_out=not isinstance(model.backbone.get_submodule(paths[0]), nn.Linear),
        base_model_name_or_path=model.config.backbone,
        inference_mode=True,
    )
    config.save_pretrained(str(folder))
    save_file(_contiguous(tensors), str(folder / "adapter_model.safetensors"), metadata={"format": "pt"})
    head = {"weight": model.head.weight if merged.head is None else merged.head, "bias": model.head.bias}
    save_file(_contiguous(head), str(folder / HEAD), metadata={"format": "pt"})
    pooling, name = model.config.pooling, model.config.backbone or "the backbone's folder"
    (folder / "README.md").write_text(_README.format(backbone=name, pooling=pooling), encoding="utf-8")


def _check(model: AttributeModel, merged: MergedMethod) -> None:
    if merged.config.points or merged.backbone:
        raise ConfigError("beside low-rank maps the method changes what a folder of peft does not hold")
    if model.link is not None:
        raise ConfigError(f"the task {model.task.kind!r} has cut points, which a folder of peft does not hold")
    if model.config.tuning != "frozen":
        raise ConfigError(
            f"the backbone learned as well (tuning {model.config.tuning}), and peft would put the low-rank maps beside "
            "its original weights"
        )


def _joined(backbone: nn.Module, parts: list[LowRank]) -> tuple[Tensor, Tensor, Tensor]:
    """Join the maps at one module: A (R, in), B (out, R) and the bias (out,) of all its outputs."""
    first = parts[0].lora_A
    module = base_layer(backbone, parts[0].site)
    shape = cast(Tensor, module.weight).shape
    out, R = shape[0] if isinstance(module, nn.Linear) else shape[1], sum(len(part.lora_A) for part in parts)
    B, bias, column = first.new_zeros(out, R), first.new_zeros(out), 0
    for site, A, own, c, _ in parts:
        rows = site.part_of(torch.arange(out))
        B[rows, column : column + len(A)] = own.detach()
        bias[rows] += 0 if c is None else c.detach()
        column += len(A)
    return torch.cat([part.lora_A for part in parts]), B, bias


def _contiguous(tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    return {name: tensor.detach().contiguous() for name, tensor in tensors.items()}


def load_peft(folder: Path, backbone: nn.Module) -> nn.Module:
    """Load the maps of a folder into the backbone, as any user of peft does."""
    from peft import PeftModel

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of names that transformers will give up, and that such maps cannot be merged
        return PeftModel.from_pretrained(backbone, str(folder)).get_base_model()


_README = """# A LoRA adapter for fixed attribute values

Load it with the peft library over `{backbone}`:

```python
from peft import PeftModel
from safetensors.torch import load_file
from transformers import AutoModel

model = PeftModel.from_pretrained(AutoModel.from_pretrained("{backbone}"), "this folder")
head = load_file("this folder/head.safetensors")
```

The document vector is the "{pooling}" state of the last layer (first token, last token, or mean over the real tokens);
the logits are `vector @ head["weight"].T + head["bias"]`.
"""

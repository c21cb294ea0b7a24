"""Fixed values as a folder of the peft library, which its users can load without this one."""

from __future__ import annotations

import warnings
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, cast

import torch
from safetensors.torch import save_file
from torch import Tensor, nn

from attribune.errors import ConfigError
from attribune.methods import Prefix
from attribune.methods.merging import LowRank, MergedMethod, base_layer
from attribune.models.base import ConditionedModel
from attribune.tasks.capabilities import PEFT, require

if TYPE_CHECKING:
    from peft import PeftConfig, PeftModel

HEAD = "head.safetensors"
_TASK_TYPES = {"AutoModelForCausalLM": "CAUSAL_LM", "AutoModelForSeq2SeqLM": "SEQ_2_SEQ_LM"}
_PROMPT = "prompt_embeddings"  # peft's name of the vectors of prompt tuning


def has_peft_form(model: ConditionedModel, merged: MergedMethod) -> bool:
    """Return whether peft has what the values made of the method: low-rank maps, or vectors before a prompt."""
    return bool(merged.low_rank) or (_is_prompt(model, merged) and model.config.tuning == "frozen")


def _is_prompt(model: ConditionedModel, merged: MergedMethod) -> bool:
    is_prefix = isinstance(merged.config, Prefix) and merged.config.place == "input"
    return is_prefix and _task_type(model) == "CAUSAL_LM"


def write_peft(model: ConditionedModel, merged: MergedMethod, folder: Path) -> str:
    """Write ``adapter_config.json``, ``adapter_model.safetensors`` and a README; return what peft calls it.

    ``scale (B A x + c)`` is LoRA whose second map has the bias c. Where one matrix makes queries, keys and values, the
    maps of two of them are one of twice the rank. The prefix before a text that is written is prompt tuning. The
    classifier of a model that has one is in a file of its own.

    Args:
        model: from which the method was merged.
        merged: of a method that `has_peft_form`.
        folder: an existing folder.

    Raises:
        ConfigError: for a method or tuning with more than low-rank maps.
    """
    if _is_prompt(model, merged):
        config, tensors = _prompt(model, merged)
        kind, readme = "prompt tuning", _PROMPT_README
    else:
        config, tensors = _lora(model, merged)
        kind, readme = "LoRA with biases", _LORA_README
    config.save_pretrained(str(folder))
    save_file(_contiguous(tensors), str(folder / "adapter_model.safetensors"), metadata={"format": "pt"})
    if model.head is not None:
        readme += _HEAD_README
        weight = model.head.weight if merged.head is None else merged.head
        head = {"weight": model.calibrated(weight), "bias": model.calibrated(model.head.bias)}
        save_file(_contiguous(head), str(folder / HEAD), metadata={"format": "pt"})
    name = model.config.backbone or "the backbone's folder"
    text = readme.format(backbone=name, auto=_auto_class(model), pooling=model.config.pooling)
    (folder / "README.md").write_text(text, encoding="utf-8")
    return kind


def _auto_class(model: ConditionedModel) -> str:
    return str(model.architecture.auto_class(model.config).__name__)


def _task_type(model: ConditionedModel) -> str | None:
    """Return what peft calls the use of the backbone; None where a head that it does not know reads the states."""
    return _TASK_TYPES.get(_auto_class(model))


def _prompt(model: ConditionedModel, merged: MergedMethod) -> tuple[PeftConfig, dict[str, Tensor]]:
    from peft import PromptTuningConfig  # seconds to import, and rarely needed

    (prompt,) = merged.tensors.values()
    config = PromptTuningConfig(
        task_type=_task_type(model),
        num_virtual_tokens=len(prompt),
        token_dim=prompt.shape[1],
        num_transformer_submodules=1,
        base_model_name_or_path=model.config.backbone,
        inference_mode=True,
    )
    return config, {_PROMPT: prompt}


def _lora(model: ConditionedModel, merged: MergedMethod) -> tuple[PeftConfig, dict[str, Tensor]]:
    from peft import LoraConfig

    _check_lora(model, merged)
    parts = sorted(merged.low_rank, key=lambda part: part.site.path)
    stack = model.architecture.stack_path(model.backbone)
    tensors: dict[str, Tensor] = {}
    paths, rank, scale = list[str](), 0, parts[0].scaling
    for path, group in groupby(parts, key=lambda part: part.site.path):
        A, B, bias = _joined(model.stack, list(group))
        whole = f"{stack}.{path}" if stack else path
        prefix, rank = f"base_model.model.{whole}", A.shape[0]
        tensors |= {f"{prefix}.lora_A.weight": A, f"{prefix}.lora_B.weight": B, f"{prefix}.lora_B.bias": bias}
        paths.append(whole)
    config = LoraConfig(
        task_type=_task_type(model),
        r=rank,
        lora_alpha=cast(int, scale * rank),
        lora_bias=True,
        target_modules=paths,
        fan_in_fan_out=not isinstance(model.backbone.get_submodule(paths[0]), nn.Linear),
        base_model_name_or_path=model.config.backbone,
        inference_mode=True,
    )
    config.target_modules = paths  # peft makes a set of them, whose order differs from process to process
    return config, tensors


def _check_lora(model: ConditionedModel, merged: MergedMethod) -> None:
    if merged.config.points or merged.backbone:
        raise ConfigError("beside low-rank maps the method changes what a folder of peft does not hold")
    require(model.task, PEFT)
    if model.config.added_tokens:
        raise ConfigError("the embeddings of added tokens are trained, which a folder of peft does not hold")
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


def load_peft(folder: Path, backbone: nn.Module) -> PeftModel:
    """Load a folder over the backbone, as any user of peft does; `get_base_model` has the backbone with the maps."""
    from peft import PeftModel

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of names that transformers will give up, and that such maps cannot be merged
        return PeftModel.from_pretrained(backbone, str(folder))


_LORA_README = """# A LoRA adapter for fixed attribute values

Load it with the peft library over `{backbone}`:

```python
from peft import PeftModel
from transformers import {auto}

model = PeftModel.from_pretrained({auto}.from_pretrained("{backbone}"), "this folder")
```
"""

_HEAD_README = """
The document vector is the "{pooling}" state of the last layer (first token, last token, or mean over the real tokens);
the logits are `vector @ head["weight"].T + head["bias"]`, with

```python
from safetensors.torch import load_file

head = load_file("this folder/head.safetensors")
```
"""

_PROMPT_README = """# Prompt embeddings for fixed attribute values

Vectors that stand before the embeddings of a text. Load them with the peft library over `{backbone}`:

```python
from peft import PeftModel
from transformers import {auto}

model = PeftModel.from_pretrained({auto}.from_pretrained("{backbone}"), "this folder")
```

or give them to a server that takes the embeddings of a prompt, such as vLLM with `enable_prompt_embeds=True`:

```python
import torch
from safetensors.torch import load_file

vectors = load_file("this folder/adapter_model.safetensors")["prompt_embeddings"]
prompt = {{"prompt_embeds": torch.cat([vectors, model.get_input_embeddings()(input_ids)])}}
```
"""

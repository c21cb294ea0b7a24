"""Tiny models with attributes, and what tests do with them: random parameters, vectors added up by hand."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import torch
from families import VOCABULARY, tiny_backbone
from torch import Tensor, nn
from transformers import PreTrainedModel

from attribune.methods import MethodConfig, Plain
from attribune.methods.attribute_method import AttributeMethod
from attribune.methods.condition import Slots
from attribune.models.model import AttributeModel
from attribune.schema import Categorical, MultiLabel, Schema
from attribune.tasks import Classification

CLASSES = 3
NUMBERS = (1, 2, 4)
"""How many attributes methods are tried with."""

_WIDTHS = {"tags": 3, "user": 1, "film": 1, "genres": 2}
_IDS = [  # tags, user, film, genres: several values, one twice, places left free, nothing at all
    [3, 2, 5, 1, 2, 1, 2],
    [0, 0, 0, 0, 0, 0, 0],
    [4, 0, 4, 3, 0, 0, 0],
    [0, 1, 0, 0, 3, 0, 3],
]
_PADDED = {
    "right": [[1, 1, 1, 1, 1], [1, 1, 0, 0, 0], [1, 1, 1, 0, 0], [1, 0, 0, 0, 0]],
    "left": [[1, 1, 1, 1, 1], [0, 0, 0, 1, 1], [0, 0, 1, 1, 1], [0, 0, 0, 0, 1]],
}


def make_schema(attributes: int) -> Schema:
    """The first so many of the attributes, each with five values."""
    columns: dict[str, list[Any]] = {
        name: [[f"v{(i + k) % 5}" for k in range(width)] for i in range(5)]
        if width > 1
        else [f"v{i}" for i in range(5)]
        for name, width in _WIDTHS.items()
    }
    kinds = [MultiLabel(name) if width > 1 else Categorical(name) for name, width in _WIDTHS.items()]
    return Schema.fit(columns, kinds[:attributes])


def make_batch(attributes: int, *, padding: str = "right", rows: Sequence[int] = (0, 1, 2, 3)) -> dict[str, Tensor]:
    """Four texts of at most five tokens, with the ids of the attributes of `make_schema`."""
    generator = torch.Generator().manual_seed(3)
    attention_mask = torch.tensor(_PADDED[padding])
    input_ids = torch.randint(5, VOCABULARY, attention_mask.shape, generator=generator) * attention_mask
    width = sum(list(_WIDTHS.values())[:attributes])
    batch = {"input_ids": input_ids, "attention_mask": attention_mask, "attribute_ids": torch.tensor(_IDS)[:, :width]}
    return {name: value[list(rows)] for name, value in batch.items()}


def make_model(
    family: str, method: MethodConfig, *, attributes: int = 2, backbone: Mapping[str, Any] | None = None, **options: Any
) -> AttributeModel:
    """A model over the tiny backbone of a family, which may have options, in evaluation mode."""
    network, task = tiny_backbone(family, options=backbone or {}), Classification(classes=CLASSES)
    return AttributeModel.build(network, make_schema(attributes), task=task, method=method, **options).eval()


def at_random(method: nn.Module, *, size: float = 1.0) -> nn.Module:
    """Fill every parameter, row 0 of the tables too, with random numbers, none of which is small."""
    with torch.no_grad():
        for parameter in method.parameters():
            sign = torch.randint_like(parameter, 2) * 2 - 1
            parameter.copy_(size * sign * (0.1 + 0.8 * torch.rand_like(parameter)))
    return method


def still(model: AttributeModel) -> AttributeModel:
    """Training mode without any dropout, so that passes can be compared."""
    for module in model.train().modules():
        if isinstance(module, nn.Dropout):
            module.p = 0.0
        if isinstance(module, AttributeMethod):
            module.attribute_dropout = 0.0
        for name in ("dropout", "dropout_prob", "attention_dropout"):
            if isinstance(getattr(module, name, None), float):
                setattr(module, name, 0.0)
    return model


def assert_starts_as_plain(family: str, config: MethodConfig, *, folder: Path) -> set[str]:
    """Check that a new model is the plain one to the last bit, and return which parameters of its method are zero.

    In evaluation, in the first step of training with the same dropout in the backbone, and after saving and loading.
    """
    tiny_backbone(family).save_pretrained(folder / "backbone")
    model, plain, batch = make_model(family, config), make_model(family, Plain()), make_batch(2)
    plain.head.load_state_dict(model.head.state_dict())
    model.save_pretrained(folder / "model")
    loaded = AttributeModel.from_pretrained(folder / "model", backbone=str(folder / "backbone"))
    zero = {name for name, parameter in model.method.named_parameters() if not parameter.any()}
    assert zero == {name for name, parameter in loaded.method.named_parameters() if not parameter.any()}
    expected = plain(**batch).logits
    assert torch.equal(model(**batch).logits, expected)
    assert torch.equal(loaded(**batch).logits, expected)
    model.method.attribute_dropout = 0.0
    first_steps = []
    for each in (model, plain):
        torch.manual_seed(5)
        first_steps.append(each.train()(**batch).logits)
    assert torch.equal(*first_steps)
    return zero


def exactly(model: nn.Module) -> nn.Module:
    """The model in float64 throughout: transformers computes the variance of an RMSNorm in float32 whatever it is."""
    for module in model.modules():
        if hasattr(module, "variance_epsilon"):
            module.forward = partial(_exact_norm, module)
    return in_float64(model)


def in_float64(model: nn.Module) -> nn.Module:
    """The model in float64, with one product after another for its experts: joint ones are in float32 at most."""
    for module in model.modules():
        if isinstance(module, PreTrainedModel):
            module.set_experts_implementation("eager")
    return model.double()


def _exact_norm(norm: nn.Module, x: Tensor) -> Tensor:
    return norm.weight * (x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + norm.variance_epsilon))


@contextmanager
def recorded(module: nn.Module) -> Iterator[list[Any]]:
    """What a module makes in a block, one entry for each call."""
    outputs: list[Any] = []
    handle = module.register_forward_hook(lambda _module, _args, output: outputs.append(output))
    try:
        yield outputs
    finally:
        handle.remove()


def slots_of(attributes: int) -> tuple[Slots, ...]:
    """The slots of the attributes of `make_schema`, for methods without a model."""
    return make_schema(attributes).layout


def row_vectors(
    tables: Sequence[Tensor], slots: Sequence[Slots], ids: Tensor, *, unknown: bool = False
) -> list[list[list[float]]]:
    """The vector of each attribute of each row: its values added up, nothing for id 0.

    Args:
        tables: of each attribute.
        slots: of each attribute.
        ids: (B, slots).
        unknown: whether an attribute without a value has the vector of id 0.
    """
    result = []
    for row in ids.tolist():
        vectors = []
        for table, attribute in zip(tables, slots, strict=True):
            numbers = table.tolist()
            total = [0.0] * len(numbers[0])
            mine = [value for value in row[attribute.start : attribute.start + attribute.count] if value != 0]
            for value in mine or ([0] if unknown else []):
                total = [a + b for a, b in zip(total, numbers[value], strict=True)]
            vectors.append(total)
        result.append(vectors)
    return result

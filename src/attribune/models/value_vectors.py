"""The vectors of values in a model's tables: their spread, other vectors in their place, and gradients."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from attribune.methods.attribute_method import AttributeMethod
from attribune.models.base import ConditionedModel
from attribune.schema.attributes import FittedAttribute

__all__ = [
    "first_gradients",
    "table_gradients",
    "with_first_values",
]


@contextmanager
def table_gradients(model: ConditionedModel, names: Sequence[str]) -> Iterator[dict[str, nn.Parameter]]:
    """Let these tables alone have gradients within a block, of the rows of a batch, and the model predict."""
    methods = [module for module in model.modules() if isinstance(module, AttributeMethod)]
    required = {name: parameter.requires_grad for name, parameter in model.named_parameters()}
    sparse = [method.sparse_gradients for method in methods]
    was_training = model.training
    try:
        model.eval()
        for method in methods:
            method.sparse_gradients = True
        parameters = dict(model.named_parameters())
        for name, parameter in parameters.items():
            parameter.requires_grad_(name in names)
        yield {name: parameters[name] for name in names}
    finally:
        model.train(was_training)
        for name, is_required in required.items():
            model.get_parameter(name).requires_grad_(is_required)
        for method, before in zip(methods, sparse, strict=True):
            method.sparse_gradients = before


@contextmanager
def with_first_values(
    model: ConditionedModel,
    attribute: FittedAttribute,
    vectors: Mapping[str, Tensor],
    described: npt.NDArray[np.int64],
    batch: Mapping[str, Tensor],
) -> Iterator[dict[str, Tensor]]:
    """Give each row of a batch a value with a vector and a description of its own within a block.

    They are the first values of the attribute, whose vectors are there again after it.

    Args:
        attribute: one that has as many values as the batch rows.
        vectors: by table, (B, ...).
        described: (B,) the id whose description each row has.

    Yields:
        What the model reads of the batch with these values, without its labels.
    """
    count, parameters = len(described), {name: model.get_parameter(name) for name in vectors}
    modules = [module for module, name in model.values.described() if name == attribute.name]
    features = [(module.features, module.own_ids) for module in modules]
    before = {name: parameter.detach()[1 : count + 1].clone() for name, parameter in parameters.items()}
    ids = batch["attribute_ids"].clone()
    ids[:, attribute.columns] = 0
    ids[:, attribute.columns.start] = torch.arange(1, count + 1, device=ids.device)
    try:
        with torch.no_grad():
            for name, parameter in parameters.items():
                parameter[1 : count + 1] = vectors[name].detach()
        for module in modules:
            module.features = module.features[torch.from_numpy(np.r_[0, described]).to(module.features.device)]
            module.own_ids = torch.arange(count + 1, device=module.features.device)
        yield {name: x for name, x in batch.items() if name != "labels"} | {"attribute_ids": ids}
    finally:
        with torch.no_grad():
            for name, parameter in parameters.items():
                parameter[1 : count + 1] = before[name]
        for module, known in zip(modules, features, strict=True):
            module.features, module.own_ids = known


def first_gradients(output: Tensor, parameters: Mapping[str, nn.Parameter], count: int) -> list[Tensor]:
    """Return the gradients (count, ...) of a number in the vectors of the first values, for each table."""
    gradients = torch.autograd.grad(
        output, list(parameters.values()), retain_graph=True, allow_unused=True, materialize_grads=True
    )
    return [_first_rows(gradient, count) for gradient in gradients]


def _first_rows(gradient: Tensor, count: int) -> Tensor:
    """Return the rows 1 to `count` of a gradient that may be sparse."""
    rows = torch.arange(1, count + 1, device=gradient.device)
    return (gradient.index_select(0, rows).to_dense() if gradient.is_sparse else gradient[rows]).detach()

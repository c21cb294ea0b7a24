"""How the logits of rows depend on the vectors of their values."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from attribune.data.rows import EncodedRows
from attribune.methods.attribute_method import AttributeMethod
from attribune.models.base import ConditionedModel
from attribune.schema.attributes import FittedAttribute

__all__ = ["ValueSlopes", "value_slopes", "value_spread"]

_SPREAD_VALUES = 10_000  # number of the most frequent values, from whose vectors the spread is computed


@dataclass(frozen=True, kw_only=True)
class ValueSlopes:
    """Logits of n rows, and their derivatives in the vector of one value of each row.

    Attributes:
        logits: (n, C) float64.
        J: (n, C, D) float64, of the vectors in all tables side by side, in units of `value_spread`.
        labels: of each row; empty where the rows have none.
    """

    logits: Tensor
    J: Tensor
    labels: list[Tensor]


def value_spread(parameter: nn.Parameter, counts: npt.NDArray[np.int64]) -> Tensor:
    """Return how far the vectors of the most frequent values are from the unknown one, root mean squares (...).

    Args:
        parameter: (ids, ...), a row for each id.
        counts: (known ids,) training rows of each of the first ids; those without any are not learned.
    """
    rows = parameter.detach()
    learned = np.flatnonzero(counts[1:_SPREAD_VALUES] > 0) + 1
    change = rows[torch.from_numpy(learned).to(rows.device)] - rows[0]
    return change.square().sum(dim=0).div(max(len(learned), 1)).sqrt()


def value_slopes(
    model: ConditionedModel,
    attribute: FittedAttribute,
    rows: EncodedRows,
    run: Callable[[], AbstractContextManager[Any]],
    *,
    own: npt.NDArray[np.int64],
    described: npt.NDArray[np.int64],
    batch_size: int = 32,
) -> ValueSlopes | None:
    """Compute the logits of rows and their derivatives, each in a vector of its own.

    Args:
        attribute: one that has vectors of values.
        rows: whose values of the attribute are not read.
        run: makes the context of a forward pass.
        own: (n,) the id whose own vector each row has.
        described: (n,) the id whose description each row has.

    Returns:
        None for logits that do not depend on the vectors, or are no finite numbers.
    """
    names = [name for name, owner in model.rows_of_values().items() if owner == attribute.name]
    methods = [module for module in model.modules() if isinstance(module, AttributeMethod)]
    with _sparse_gradients(model, methods, names) as parameters:
        spreads = [value_spread(p, attribute.counts).flatten().double().cpu() for p in parameters.values()]
        size, C, D = min(batch_size, attribute.size - 1), model.task.outputs, sum(map(len, spreads))
        found, slopes = torch.zeros(len(rows), C).double(), torch.zeros(len(rows), C, D).double()
        labels: list[Tensor] = [torch.empty(0)] * len(rows)
        for index, batch in model.batches(rows, size=size):
            ids = batch["attribute_ids"]
            ids[:, attribute.columns] = 0
            ids[:, attribute.columns.start] = torch.arange(1, len(index) + 1, device=ids.device)
            with _first_values(model, attribute, parameters, own[index], described[index]):
                with run():
                    logits = model(**{name: x for name, x in batch.items() if name != "labels"}).logits
                if not logits.requires_grad:
                    return None
                found[index] = logits.detach().double().cpu()
                slopes[index] = _derivatives(logits, parameters, spreads)
            if "labels" in batch:
                for row, label in zip(index.tolist(), batch["labels"].cpu(), strict=True):
                    labels[row] = label
    is_finite = bool(slopes.isfinite().all() and found.isfinite().all())
    return ValueSlopes(logits=found, J=slopes, labels=labels) if is_finite else None


def _derivatives(logits: Tensor, parameters: Mapping[str, nn.Parameter], spreads: Sequence[Tensor]) -> Tensor:
    """Return the derivatives (B, C, D) of logits (B, C) in the vectors of the first B values."""
    B, C = logits.shape
    slopes = torch.zeros(B, C, sum(map(len, spreads))).double()
    for output in range(C):
        gradients = torch.autograd.grad(
            logits[:, output].sum(),
            list(parameters.values()),
            retain_graph=True,
            allow_unused=True,
            materialize_grads=True,
        )
        parts = [
            spread * _first_rows(gradient, B).flatten(1).double().cpu()
            for spread, gradient in zip(spreads, gradients, strict=True)
        ]
        slopes[:, output] = torch.cat(parts, dim=1)
    return slopes


def _first_rows(gradient: Tensor, count: int) -> Tensor:
    """Return the rows 1 to `count` of a gradient that may be sparse."""
    rows = torch.arange(1, count + 1, device=gradient.device)
    return (gradient.index_select(0, rows).to_dense() if gradient.is_sparse else gradient[rows]).detach()


@contextmanager
def _first_values(
    model: ConditionedModel,
    attribute: FittedAttribute,
    parameters: Mapping[str, nn.Parameter],
    own: npt.NDArray[np.int64],
    described: npt.NDArray[np.int64],
) -> Iterator[None]:
    """Give the first values the vectors and the descriptions of others within a block."""
    count, source = len(own), torch.from_numpy(own)
    modules = [module for module, name in model.described_values() if name == attribute.name]
    features = [(module.features, module.own_ids) for module in modules]
    before = {name: parameter.detach()[1 : count + 1].clone() for name, parameter in parameters.items()}
    try:
        with torch.no_grad():
            for parameter in parameters.values():
                parameter[1 : count + 1] = parameter[source.to(parameter.device)].clone()
        for module in modules:
            module.features = module.features[torch.from_numpy(np.r_[0, described]).to(module.features.device)]
            module.own_ids = torch.arange(count + 1, device=module.features.device)
        yield
    finally:
        with torch.no_grad():
            for name, parameter in parameters.items():
                parameter[1 : count + 1] = before[name]
        for module, known in zip(modules, features, strict=True):
            module.features, module.own_ids = known


@contextmanager
def _sparse_gradients(
    model: ConditionedModel, methods: list[AttributeMethod], names: list[str]
) -> Iterator[dict[str, nn.Parameter]]:
    """Let these parameters alone have gradients within a block, of the rows of a batch."""
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
        for name, parameter in model.named_parameters():
            parameter.requires_grad_(required[name])
        for method, before in zip(methods, sparse, strict=True):
            method.sparse_gradients = before

"""How the logits of rows depend on the vectors of their values, and the most probable vectors of new values."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from attribune.data.readers.base import EncodedRows
from attribune.models.base import ConditionedModel
from attribune.models.model import AttributeModel
from attribune.models.value_tables import value_spread
from attribune.schema.attributes import FittedAttribute
from attribune.tasks import Task

__all__ = [
    "ValueSlopes",
    "first_gradients",
    "table_gradients",
    "value_mode",
    "value_slopes",
    "with_first_values",
]


@contextmanager
def table_gradients(model: ConditionedModel, names: Sequence[str]) -> Iterator[dict[str, nn.Parameter]]:
    """Let these tables alone have gradients within a block, of the rows of a batch, and the model predict."""
    methods = model.values.methods()
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


def value_slopes(
    model: AttributeModel,
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
    with table_gradients(model, model.values.names(attribute.name)) as parameters:
        spreads = [value_spread(p, attribute.counts).flatten().double().cpu() for p in parameters.values()]
        size, C, D = min(batch_size, attribute.size - 1), model.task.outputs, sum(map(len, spreads))
        found, slopes = torch.zeros(len(rows), C).double(), torch.zeros(len(rows), C, D).double()
        labels: list[Tensor] = [torch.empty(0)] * len(rows)
        for index, batch in model.batches(rows, size=size, strict=True):
            source = torch.from_numpy(own[index])
            vectors = {name: p.detach()[source.to(p.device)] for name, p in parameters.items()}
            with with_first_values(model, attribute, vectors, described[index], batch) as inputs:
                with run():
                    _, logits = model.documents_and_logits(**inputs)
                if not logits.requires_grad:
                    return None
                found[index] = logits.detach().double().cpu()
                slopes[index] = _derivatives(logits, parameters, spreads)
            for row, label in zip(index.tolist(), batch["labels"].cpu() if "labels" in batch else (), strict=False):
                labels[row] = label
    is_finite = bool(slopes.isfinite().all() and found.isfinite().all())
    if not is_finite:
        return None
    return ValueSlopes(logits=found, J=slopes, labels=labels)


def _derivatives(logits: Tensor, parameters: Mapping[str, nn.Parameter], spreads: Sequence[Tensor]) -> Tensor:
    """Return the derivatives (B, C, D) of logits (B, C) in the vectors of the first B values."""
    B, C = logits.shape
    slopes = torch.zeros(B, C, sum(map(len, spreads))).double()
    for output in range(C):
        gradients = first_gradients(logits[:, output].sum(), parameters, B)
        parts = [s * gradient.flatten(1).double().cpu() for s, gradient in zip(spreads, gradients, strict=True)]
        slopes[:, output] = torch.cat(parts, dim=1)
    return slopes


_STEPS = 30
_HALVINGS = 20
_TOLERANCE = 1e-9
_ROUNDING = 1e-14
_LEAST = 1e-6  # weight of a prior, so that there is a most probable vector


def value_mode(task: Task, logits: Tensor, J: Tensor, labels: Tensor, *, weight: float) -> Tensor:
    """Return the vector u (D,) that minimises ``Σ_i loss(logits_i + J_i u) + weight |u|²/2``, by Newton's method.

    Args:
        logits: (n, C) float64 of the rows at u = 0.
        J: (n, C, D) their derivatives.
        labels: (n, ...).
    """
    (n, C, D), weight = J.shape, max(weight, _LEAST)
    basis = torch.linalg.qr(J.reshape(n * C, D).T)[0]  # (D, m): u is a combination of the rows of J
    slopes = (J.reshape(n * C, D) @ basis).view(n, C, -1)
    v = J.new_zeros(basis.shape[1])

    def objective(v: Tensor) -> Tensor:
        losses = task.row_losses(logits + slopes @ v, labels).double().sum()
        found: Tensor = losses + weight * v.square().sum() / 2
        return found

    reached = objective(v)
    for _ in range(_STEPS):
        g, H = _posterior_derivatives(task, logits + slopes @ v, labels)
        gradient = torch.einsum("ncm,nc->m", slopes, g) + weight * v
        hessian = torch.einsum("ncm,ncd,ndk->mk", slopes, H, slopes) + weight * torch.eye(len(v)).to(v)
        step = -torch.linalg.solve(hessian, gradient)
        most = reached + _ROUNDING * (1 + reached.abs())  # the objective is flat where the gradient is not yet 0
        share, tried = 1.0, objective(v + step)
        while not tried <= most and share > 0.5**_HALVINGS:
            share /= 2
            tried = objective(v + share * step)
        if not tried <= most:
            break
        v, reached = v + share * step, tried
        if step.norm() <= _TOLERANCE * (1 + v.norm()):
            break
    found: Tensor = basis @ v
    return found


def _posterior_derivatives(task: Task, logits: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
    """Return the gradients (n, C) and Hessians (n, C, C) of the rows' losses in their logits."""
    with torch.enable_grad():
        at = logits.detach().requires_grad_()
        (g,) = torch.autograd.grad(task.row_losses(at, labels).sum(), at, create_graph=True)
        H = [torch.autograd.grad(g[:, output].sum(), at, retain_graph=True)[0] for output in range(at.shape[1])]
    return g.detach().double(), torch.stack(H, dim=1).double()

"""How far the vectors of new values are from the unknown one: learned from validation rows at the end of a training.

Trained vectors stay closer together than the values differ: they begin together, and a value's rows move them for a few
steps only. So the prior of a new value is learned from rows on which no vector was trained: those of known values
among the validation rows, as if the values were new. For each such row the logits are taken as linear in its value's
vector around the unknown one, and the evidence of all of them chooses the variance of the prior.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from attribune import functional
from attribune.data.rows import EncodedRows
from attribune.methods.attribute_method import AttributeMethod
from attribune.models.base import ConditionedModel
from attribune.runs.value_learning import value_spread
from attribune.schema.attributes import FittedAttribute
from attribune.schema.revision import is_listed
from attribune.tasks import Task

__all__ = ["learn_value_priors", "rows_to_learn_from"]

_ROWS, _EACH = 400, 8  # rows of all values and of one
_FEWEST = 10  # values with two rows, below which nothing is learned
_PASSES = 1600  # backward passes of a row, one for each output
_DERIVATIVES = 20_000_000  # numbers that are held at once
_SCALES = np.geomspace(0.1, 30, 16)  # of the prior's standard deviation over that of the trained vectors
_NEWTON_STEPS, _HALVINGS, _TOLERANCE = 20, 6, 1e-3


def rows_to_learn_from(
    attribute_ids: npt.NDArray[np.int64], attribute: FittedAttribute, *, outputs: int, numbers: int = 1
) -> npt.NDArray[np.int64] | None:
    """Choose rows of values with two rows or more, (n,); None if there are too few of these values.

    Args:
        outputs: of a row.
        numbers: size of a value's vectors.
    """
    most = min(_ROWS, _PASSES // outputs, _DERIVATIVES // (outputs * numbers))
    ids = attribute_ids[:, attribute.columns]
    single = np.flatnonzero((ids != 0).sum(axis=1) == 1)
    values = ids[single].max(axis=1)
    _, starts, counts = np.unique(np.sort(values), return_index=True, return_counts=True)
    by_value, generator = single[np.argsort(values, kind="stable")], np.random.default_rng(0)
    chosen: list[npt.NDArray[np.int64]] = []
    for value in generator.permutation(np.flatnonzero(counts > 1)):
        if sum(map(len, chosen)) >= most:
            break
        own = by_value[starts[value] : starts[value] + counts[value]]
        chosen.append(generator.permutation(own)[:_EACH])
    return np.sort(np.concatenate(chosen)) if len(chosen) >= _FEWEST else None


def learn_value_priors(
    model: ConditionedModel,
    rows: Callable[[npt.NDArray[np.int64]], EncodedRows],
    attribute_ids: npt.NDArray[np.int64],
    *,
    run: Callable[[], AbstractContextManager[Any]],
    batch_size: int = 32,
) -> dict[str, float]:
    """Return the weight of the prior for the new values of each attribute, where rows tell enough.

    Args:
        model: trained.
        rows: returns encoded rows with labels, by their indices.
        attribute_ids: (n, slots) of all rows that could be used.
        run: makes the context of a forward pass.
        batch_size: rows of one.
    """
    methods = [module for module in model.modules() if isinstance(module, AttributeMethod)]
    if any(method.reads_whole_tables or method.shards for method in methods):
        return {}
    found: dict[str, float] = {}
    for attribute in model.schema:
        names = [name for name, owner in model.rows_of_values().items() if owner == attribute.name]
        indices = (
            rows_to_learn_from(
                attribute_ids,
                attribute,
                outputs=model.task.outputs,
                numbers=sum(model.get_parameter(name)[0].numel() for name in names),
            )
            if names and is_listed(attribute)
            else None
        )
        if indices is None:
            continue
        with _sparse_gradients(model, methods, names) as parameters:
            slopes = _slopes(model, parameters, attribute, rows(indices), run, batch_size=batch_size)
        weight = None if slopes is None else slopes.prior_weight()
        if weight is not None:
            found[attribute.name] = weight
    return found


@dataclass(frozen=True, kw_only=True)
class _Slopes:
    """How the logits of V values' rows, m of each at most, depend on the vectors of their values.

    Attributes:
        logits: (V m, C) with the values unknown.
        J: (V, m C, D) derivatives in the vectors, in units of the trained vectors' deviations; 0 for rows beyond a
            value's own.
        labels: (V m, ...).
        real: (V m,), 1 for rows, and 0 beyond a value's own.
    """

    task: Task
    logits: Tensor
    J: Tensor
    labels: Tensor
    real: Tensor

    def prior_weight(self) -> float | None:
        """Return the weight at which the rows are likeliest; None where they do not depend on the vectors.

        Losses are divided by their dispersion, as the noise of a regression is not that of its loss.
        """
        if not float(self.J.abs().max()) > 0:
            return None
        dispersion = self._dispersion() if self.task.has_free_dispersion else 1.0
        products = self.J @ self.J.transpose(1, 2)
        evidence = [self._evidence(scale**2 * products, dispersion) for scale in _SCALES]
        return float(dispersion / _highest(_SCALES, np.array(evidence)) ** 2)

    def _evidence(self, K: Tensor, dispersion: float) -> float:
        """Return the sum of the values' evidences for a prior."""
        a = K.new_zeros(K.shape[:2])
        objective = self._losses(a, K) / dispersion
        for _ in range(_NEWTON_STEPS):
            g, W = self._derivatives(a, K)
            step = functional.value_mode_step(a, g / dispersion, K, W / dispersion) - a
            share = torch.ones_like(objective)
            for _ in range(_HALVINGS):  # for the values whose objective the step would raise
                tried = a + share[:, None] * step
                reached = self._losses(tried, K) / dispersion + 0.5 * torch.einsum("vi,vij,vj->v", tried, K, tried)
                lower = reached <= objective
                share = torch.where(lower, share, share / 2)
                if lower.all():
                    break
            gained = float(torch.where(lower, objective - reached, 0.0).sum())
            a, objective = torch.where(lower[:, None], tried, a), torch.where(lower, reached, objective)
            if gained < _TOLERANCE:
                break
        _, W = self._derivatives(a, K)
        losses = self._losses(a, K) / dispersion
        return float(functional.value_log_evidence(losses, a, K, W / dispersion).sum())

    def _logits(self, a: Tensor, K: Tensor) -> Tensor:
        return self.logits + (K @ a.unsqueeze(2)).view(self.logits.shape)

    @torch.no_grad()
    def _losses(self, a: Tensor, K: Tensor) -> Tensor:
        """Return the losses (V,) of the values' rows."""
        return (self.real * self.task.row_losses(self._logits(a, K), self.labels)).view(len(a), -1).sum(dim=1)

    def _derivatives(self, a: Tensor, K: Tensor) -> tuple[Tensor, Tensor]:
        """Return the gradients (V, n) and Hessians (V, n, n) of the losses in the logits."""
        (V, n), C = a.shape, self.logits.shape[1]
        logits = self._logits(a, K).requires_grad_()
        losses = self.real * self.task.row_losses(logits, self.labels)
        (g,) = torch.autograd.grad(losses.sum(), logits, create_graph=True)
        H = [torch.autograd.grad(g[:, output].sum(), logits, retain_graph=True)[0] for output in range(C)]
        W = a.new_zeros(V, n // C, C, n // C, C)
        rows = torch.arange(n // C)
        W[:, rows, :, rows] = torch.stack(H, dim=1).view(V, -1, C, C).transpose(0, 1).to(W.dtype)
        return g.detach().view(V, n), W.view(V, n, n)

    def _dispersion(self) -> float:
        """Return how much more the gradients vary among the rows of a value than the loss expects."""
        V, n, D = self.J.shape
        C = self.logits.shape[1]
        g, W = self._derivatives(self.J.new_zeros(V, n), self.J.new_zeros(V, n, n))
        J, real = self.J.view(V, -1, C, D), self.real.view(V, -1)
        slopes = torch.einsum("vrc,vrcd->vrd", g.view(V, -1, C), J)
        counts = real.sum(dim=1)
        mean = slopes.sum(dim=1) / counts[:, None]
        varied = (real[:, :, None] * (slopes - mean[:, None]).square()).sum()
        expected = torch.einsum("vid,vij,vjd->v", self.J, W, self.J) * (counts - 1) / counts
        return float(varied / expected.sum())


def _slopes(
    model: ConditionedModel,
    parameters: Mapping[str, nn.Parameter],
    attribute: FittedAttribute,
    rows: EncodedRows,
    run: Callable[[], AbstractContextManager[Any]],
    *,
    batch_size: int,
) -> _Slopes | None:
    """Compute the logits of all rows and their derivatives, each in a vector of its own that is the unknown one."""
    spreads = [value_spread(parameter).flatten().double() for parameter in parameters.values()]
    size, C, D = min(batch_size, attribute.size - 1), model.task.outputs, sum(map(len, spreads))
    found, slopes = torch.zeros(len(rows), C).double(), torch.zeros(len(rows), C, D).double()
    labels: list[Tensor] = [torch.empty(0)] * len(rows)
    owners = rows.attribute_ids[:, attribute.columns].max(axis=1)
    with _unknown_rows(parameters, size):
        for index, batch in model.batches(rows, size=size):
            ids = batch["attribute_ids"]
            ids[:, attribute.columns] = 0
            ids[:, attribute.columns.start] = torch.arange(1, len(index) + 1, device=ids.device)
            with run(), _described_as(model, attribute, owners[index]):
                logits = model(**{name: x for name, x in batch.items() if name != "labels"}).logits
            if not logits.requires_grad:
                return None
            found[index] = logits.detach().double().cpu()
            for row, label in zip(index.tolist(), batch["labels"].cpu(), strict=True):
                labels[row] = label
            for output in range(C):
                gradients = torch.autograd.grad(
                    logits[:, output].sum(),
                    list(parameters.values()),
                    retain_graph=True,
                    allow_unused=True,
                    materialize_grads=True,
                )
                parts = [
                    spread * _first_rows(gradient, len(index)).flatten(1).double().cpu()
                    for spread, gradient in zip(spreads, gradients, strict=True)
                ]
                slopes[index, output] = torch.cat(parts, dim=1)
    if not (slopes.isfinite().all() and found.isfinite().all()):
        return None
    _, first, value, counts = np.unique(owners, return_index=True, return_inverse=True, return_counts=True)
    m = int(counts.max())
    order = np.argsort(value, kind="stable")
    places = np.repeat(first, m)  # rows beyond a value's own stand for its first one, and count nothing
    inside = np.concatenate([np.arange(count) for count in counts])
    places[value[order] * m + inside] = order
    real = torch.zeros(len(places)).double()
    real[value[order] * m + inside] = 1
    J = (real[:, None, None] * slopes[places]).view(len(counts), m * C, D)
    stacked = torch.stack([labels[place] for place in places])
    return _Slopes(task=model.task, logits=found[places], J=J, labels=stacked, real=real)


def _highest(scales: npt.NDArray[np.float64], evidence: npt.NDArray[np.float64]) -> float:
    """Return where the parabola through the highest evidence and its neighbours has its top."""
    best = int(evidence.argmax())
    if best in (0, len(scales) - 1):
        return float(scales[best])
    low, top, high = evidence[best - 1 : best + 2]
    shift = 0.5 * (low - high) / (low - 2 * top + high)
    return float(scales[best] * (scales[1] / scales[0]) ** shift)


def _first_rows(gradient: Tensor, count: int) -> Tensor:
    """Return the rows 1 to `count` of a gradient that may be sparse."""
    rows = torch.arange(1, count + 1, device=gradient.device)
    return (gradient.index_select(0, rows).to_dense() if gradient.is_sparse else gradient[rows]).detach()


@contextmanager
def _unknown_rows(parameters: Mapping[str, nn.Parameter], count: int) -> Iterator[None]:
    """Give the first values the vectors of the unknown one within a block."""
    before = {name: parameter.detach()[1 : count + 1].clone() for name, parameter in parameters.items()}
    try:
        with torch.no_grad():
            for parameter in parameters.values():
                parameter[1 : count + 1] = parameter[0].clone()
        yield
    finally:
        with torch.no_grad():
            for name, parameter in parameters.items():
                parameter[1 : count + 1] = before[name]


@contextmanager
def _described_as(model: ConditionedModel, attribute: FittedAttribute, owners: npt.NDArray[np.int64]) -> Iterator[None]:
    """Let the first values have the descriptions of others within a block."""
    modules = [module for module, name in model.described_values() if name == attribute.name]
    before = [module.features for module in modules]
    try:
        for module in modules:
            module.features = module.features[torch.from_numpy(np.r_[0, owners]).to(module.features.device)]
        yield
    finally:
        for module, features in zip(modules, before, strict=True):
            module.features = features


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

"""The posterior of a new value's vector: the slopes of logits, the most probable vector, and the weight of the prior.

The logits of a row are taken as linear in the vector of its value. The prior is a normal distribution around the vector
of unknown values, or what a description says, with the spread of the trained vectors times a factor. Trained vectors
stay closer together than the values differ: they begin together, and a value's rows move them for a few steps only. So
the factor is learned at the end of a training from rows on which no vector was trained: those of known values among the
validation rows, as if the values were new. The evidence of all of them chooses it. Where the values are few, so that
their evidence says little, the weight of the prior stays near a typical one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from attribune import functional
from attribune.data.readers.base import EncodedRows
from attribune.models.base import ConditionedModel
from attribune.models.config import TYPICAL_PRIOR_WEIGHT
from attribune.models.model import AttributeModel
from attribune.models.value_tables import value_spread
from attribune.schema.attributes import FittedAttribute
from attribune.tasks import Task

MOST_DERIVATIVES = 20_000_000
"""Numbers that are held at once."""


@contextmanager
def _table_gradients(model: ConditionedModel, names: Sequence[str]) -> Iterator[dict[str, nn.Parameter]]:
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
def _with_first_values(
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


def _first_gradients(output: Tensor, parameters: Mapping[str, nn.Parameter], count: int) -> list[Tensor]:
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
    with _table_gradients(model, model.values.names(attribute.name)) as parameters:
        spreads = [value_spread(p, attribute.counts).flatten().double().cpu() for p in parameters.values()]
        size, C, D = min(batch_size, attribute.size - 1), model.task.outputs, sum(map(len, spreads))
        found, slopes = torch.zeros(len(rows), C).double(), torch.zeros(len(rows), C, D).double()
        labels: list[Tensor] = [torch.empty(0)] * len(rows)
        for index, batch in model.batches(rows, size=size, strict=True):
            source = torch.from_numpy(own[index])
            vectors = {name: p.detach()[source.to(p.device)] for name, p in parameters.items()}
            with _with_first_values(model, attribute, vectors, described[index], batch) as inputs:
                with run():
                    logits = model(**inputs).logits
                if not logits.requires_grad:
                    return None
                found[index] = logits.detach().double().cpu()
                slopes[index] = _derivatives(logits, parameters, spreads)
            for row, label in zip(index.tolist(), batch["labels"].cpu() if "labels" in batch else (), strict=False):
                labels[row] = label
    if not (slopes.isfinite().all() and found.isfinite().all()):
        return None
    return ValueSlopes(logits=found, J=slopes, labels=labels)


def _derivatives(logits: Tensor, parameters: Mapping[str, nn.Parameter], spreads: Sequence[Tensor]) -> Tensor:
    """Return the derivatives (B, C, D) of logits (B, C) in the vectors of the first B values."""
    B, C = logits.shape
    slopes = torch.zeros(B, C, sum(map(len, spreads))).double()
    for output in range(C):
        gradients = _first_gradients(logits[:, output].sum(), parameters, B)
        parts = [s * gradient.flatten(1).double().cpu() for s, gradient in zip(spreads, gradients, strict=True)]
        slopes[:, output] = torch.cat(parts, dim=1)
    return slopes


_MODE_STEPS = 30
_MODE_HALVINGS = 20
_MODE_TOLERANCE = 1e-9
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
    for _ in range(_MODE_STEPS):
        g, H = _loss_derivatives(task, logits + slopes @ v, labels)
        gradient = torch.einsum("ncm,nc->m", slopes, g) + weight * v
        hessian = torch.einsum("ncm,ncd,ndk->mk", slopes, H, slopes) + weight * torch.eye(len(v)).to(v)
        step = -torch.linalg.solve(hessian, gradient)
        most = reached + _ROUNDING * (1 + reached.abs())  # the objective is flat where the gradient is not yet 0
        share, tried = 1.0, objective(v + step)
        while not tried <= most and share > 0.5**_MODE_HALVINGS:
            share /= 2
            tried = objective(v + share * step)
        if not tried <= most:
            break
        v, reached = v + share * step, tried
        if step.norm() <= _MODE_TOLERANCE * (1 + v.norm()):
            break
    found: Tensor = basis @ v
    return found


def _loss_derivatives(task: Task, logits: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
    """Return the gradients (n, C) and Hessians (n, C, C) of the rows' losses in their logits."""
    with torch.enable_grad():
        at = logits.detach().requires_grad_()
        (g,) = torch.autograd.grad(task.row_losses(at, labels).sum(), at, create_graph=True)
        H = [torch.autograd.grad(g[:, output].sum(), at, retain_graph=True)[0] for output in range(at.shape[1])]
    return g.detach().double(), torch.stack(H, dim=1).double()


_ROWS = 400  # rows of all values
_EACH = 8  # rows of one value
_FEWEST = 4  # values with two rows, below which nothing is learned
_WIDTH = 1.1  # standard deviation of the logarithm of the weights that were learned for attributes with many values
_PASSES = 1600  # backward passes of a row, one for each output
_SCALES = np.geomspace(0.1, 30, 16)  # of the prior's standard deviation over that of the trained vectors
_EVIDENCE_STEPS = 20
_EVIDENCE_HALVINGS = 6
_EVIDENCE_TOLERANCE = 1e-3


def rows_to_learn_from(
    attribute_ids: npt.NDArray[np.int64], attribute: FittedAttribute, *, outputs: int, numbers: int = 1
) -> npt.NDArray[np.int64] | None:
    """Choose rows of values with two rows or more, (n,); None if there are too few of these values.

    Args:
        outputs: of a row.
        numbers: size of a value's vectors.
    """
    most = min(_ROWS, _PASSES // outputs, MOST_DERIVATIVES // (outputs * numbers))
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
    if not model.values.are_apart():
        return {}
    found: dict[str, float] = {}
    for attribute in model.schema:
        numbers = model.values.size(attribute.name)
        indices = (
            rows_to_learn_from(attribute_ids, attribute, outputs=model.task.outputs, numbers=numbers)
            if numbers and attribute.spec.lists_values
            else None
        )
        if indices is None:
            continue
        chosen = rows(indices)
        owners = chosen.attribute_ids[:, attribute.columns].max(axis=1)
        slopes = value_slopes(
            model, attribute, chosen, run, own=np.zeros_like(owners), described=owners, batch_size=batch_size
        )
        weight = None if slopes is None else _by_value(slopes, owners, model.task).prior_weight()
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
        dispersion = self._dispersion() if self.task.codec.has_free_dispersion else 1.0
        products = self.J @ self.J.transpose(1, 2)
        evidence = np.array([self._evidence(scale**2 * products, dispersion) for scale in _SCALES])
        unusual = np.log(dispersion / _SCALES**2 / TYPICAL_PRIOR_WEIGHT) / _WIDTH
        return float(dispersion / _highest(_SCALES, evidence - unusual**2 / 2) ** 2)

    def _evidence(self, K: Tensor, dispersion: float) -> float:
        """Return the sum of the values' evidences for a prior."""
        a = K.new_zeros(K.shape[:2])
        objective = self._losses(a, K) / dispersion
        for _ in range(_EVIDENCE_STEPS):
            g, W = self._derivatives(a, K)
            step = functional.value_mode_step(a, g / dispersion, K, W / dispersion) - a
            share = torch.ones_like(objective)
            for _ in range(_EVIDENCE_HALVINGS):  # for the values whose objective the step would raise
                tried = a + share[:, None] * step
                reached = self._losses(tried, K) / dispersion + 0.5 * torch.einsum("vi,vij,vj->v", tried, K, tried)
                lower = reached <= objective
                share = torch.where(lower, share, share / 2)
                if lower.all():
                    break
            gained = float(torch.where(lower, objective - reached, 0.0).sum())
            a, objective = torch.where(lower[:, None], tried, a), torch.where(lower, reached, objective)
            if gained < _EVIDENCE_TOLERANCE:
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
        g, H = _loss_derivatives(self.task, self._logits(a, K), self.labels)
        W = a.new_zeros(V, n // C, C, n // C, C)
        rows = torch.arange(n // C)
        W[:, rows, :, rows] = (self.real[:, None, None] * H).view(V, -1, C, C).transpose(0, 1)
        return (self.real[:, None] * g).view(V, n), W.view(V, n, n)

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


def _by_value(found: ValueSlopes, owners: npt.NDArray[np.int64], task: Task) -> _Slopes:
    """Put the rows of each value together.

    Args:
        owners: (n,) the values of the rows.
    """
    _, first, value, counts = np.unique(owners, return_index=True, return_inverse=True, return_counts=True)
    m, (_, C, D) = int(counts.max()), found.J.shape
    order = np.argsort(value, kind="stable")
    places = np.repeat(first, m)  # rows beyond a value's own stand for its first one, and count nothing
    inside = np.concatenate([np.arange(count) for count in counts])
    places[value[order] * m + inside] = order
    real = torch.zeros(len(places)).double()
    real[value[order] * m + inside] = 1
    J = (real[:, None, None] * found.J[places]).view(len(counts), m * C, D)
    stacked = torch.stack([found.labels[place] for place in places])
    return _Slopes(task=task, logits=found.logits[places], J=J, labels=stacked, real=real)


def _highest(scales: npt.NDArray[np.float64], evidence: npt.NDArray[np.float64]) -> float:
    """Return where the parabola through the highest evidence and its neighbours has its top."""
    best = int(evidence.argmax())
    if best in (0, len(scales) - 1):
        return float(scales[best])
    low, top, high = evidence[best - 1 : best + 2]
    shift = 0.5 * (low - high) / (low - 2 * top + high)
    return float(scales[best] * (scales[1] / scales[0]) ** shift)

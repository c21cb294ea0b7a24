"""What a trained model learns at the end for values that it has not seen: the weight of their prior.

Trained vectors stay closer together than the values differ: they begin together, and a value's rows move them for a few
steps only. So the prior of a new value is learned from rows on which no vector was trained: those of known values among
the validation rows, as if the values were new. For each such row the logits are taken as linear in its value's vector
around the unknown one, and the evidence of all of them chooses the variance of the prior. Where the values are few, so
that their evidence says little, the weight stays near a typical one.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from attribune import functional
from attribune.core.progress import Reporter
from attribune.data.readers.base import EncodedRows
from attribune.models.base import ConditionedModel
from attribune.models.config import TYPICAL_PRIOR_WEIGHT
from attribune.runs.recipe import TrainingRecipe
from attribune.schema.attributes import FittedAttribute
from attribune.schema.revision import is_listed
from attribune.tasks import Task
from attribune.tasks.capabilities import VALUE_PRIORS, can
from attribune.training.plan import DataPlan
from attribune.training.preparation import PreparedData, encode_labelled
from attribune.values.posterior import ValueSlopes, value_slopes

__all__ = [
    "learn_value_priors",
    "prepare_new_values",
    "rows_to_learn_from",
]

_ROWS = 400  # rows of all values
_EACH = 8  # rows of one value
_FEWEST = 4  # values with two rows, below which nothing is learned
_WIDTH = 1.1  # standard deviation of the logarithm of the weights that were learned for attributes with many values
_PASSES = 1600  # backward passes of a row, one for each output
_DERIVATIVES = 20_000_000  # numbers that are held at once
_SCALES = np.geomspace(0.1, 30, 16)  # of the prior's standard deviation over that of the trained vectors
_NEWTON_STEPS = 20
_HALVINGS = 6
_TOLERANCE = 1e-3


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
    if not model.values.are_apart():
        return {}
    found: dict[str, float] = {}
    for attribute in model.schema:
        numbers = model.values.size(attribute.name)
        indices = (
            rows_to_learn_from(attribute_ids, attribute, outputs=model.task.outputs, numbers=numbers)
            if numbers and is_listed(attribute)
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


_log = logging.getLogger(__name__)
_MANY_ROWS = 500  # from which on it takes some seconds
Run = Callable[[], AbstractContextManager[Any]]


def prepare_new_values(
    model: ConditionedModel,
    data: PreparedData,
    source: DataPlan,
    settings: TrainingRecipe,
    reporter: Reporter,
    *,
    run: Run,
) -> None:
    """Learn from validation rows how far new values are from the unknown one.

    Args:
        run: makes the context of a forward pass.
    """
    if not (can(model.task, VALUE_PRIORS) and model.rows_of_values()):
        return
    started, split = time.perf_counter(), data.splits["validation"]
    ids = model.schema.encode(split.table)[0]
    if len(ids) > _MANY_ROWS:
        reporter.note("learning from validation rows how far the vectors of new values may be from the others")

    def rows(index: npt.NDArray[np.int64]) -> EncodedRows:
        chosen = replace(split, table=split.table.select(index), rows=split.rows[index], labels=split.labels[index])
        return encode_labelled(chosen, source, model)

    try:
        priors = learn_value_priors(model, rows, ids, run=run, batch_size=min(32, settings.batch_size))
        model.config.value_priors = priors or None
    except RuntimeError as error:  # of torch: memory, or an operation without derivatives
        reporter.note(f"the prior of new values was not learned, and will have a typical weight ({error!s:.200})")
    _log.info("priors of new values learned in %.1f s: %s", time.perf_counter() - started, model.config.value_priors)

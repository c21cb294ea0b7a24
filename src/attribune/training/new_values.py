"""What a trained model learns at the end for values that it has not seen: the weight of their prior, and encoders.

Trained vectors stay closer together than the values differ: they begin together, and a value's rows move them for a few
steps only. So the prior of a new value is learned from rows on which no vector was trained: those of known values among
the validation rows, as if the values were new. For each such row the logits are taken as linear in its value's vector
around the unknown one, and the evidence of all of them chooses the variance of the prior. Where the values are few, so
that their evidence says little, the weight stays near a typical one.

Encoders turn the rows of a new value into its vector. They learn by episodes, the model frozen: a value of the training
rows is taken as if it were new, some of its rows are encoded, and the loss of others, whose vector is the encoding,
teaches the encoder. Logits are linear here too, so that the model reads every row once, and an episode costs nothing
more. Values that are left out say which step was the best, if any is better than no vector.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Self

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from attribune import functional
from attribune.core.progress import Reporter
from attribune.data.readers.base import EncodedRows
from attribune.errors import ConfigError
from attribune.models.base import ConditionedModel
from attribune.models.config import TYPICAL_PRIOR_WEIGHT
from attribune.models.model import AttributeModel
from attribune.models.set_encoder import LabelledDocuments, SetEncoder
from attribune.models.value_slopes import ValueSlopes, value_slopes
from attribune.runs.recipe import TrainingRecipe
from attribune.schema.attributes import FittedAttribute
from attribune.schema.revision import is_listed
from attribune.tasks import Task
from attribune.tasks.capabilities import SET_ENCODERS, VALUE_PRIORS, can
from attribune.training.plan import DataPlan
from attribune.training.preparation import PreparedData, PreparedSplit, encode_labelled

__all__ = [
    "LearnedEncoder",
    "can_encode_sets",
    "check_set_encoders",
    "learn_set_encoder",
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


_SET_ROWS = 6_000  # rows of all values
_SET_PASSES = 12_000  # backward passes of a row, one for each output
_SET_DERIVATIVES = 20_000_000  # numbers that are held at once
_MOST = 40  # rows of a value
_SET_FEWEST = 4  # rows of a value, where there are too many values
_VALUES = 20  # below which nothing is learned
_SUPPORT = 20  # rows of a value that are encoded, at most
_QUERIES = 4  # rows of a value that teach
_CHECKED = 20  # rows of a value that say which step is best
_BATCH = 32  # values of a step
_STEPS = 1_500
_EVERY = 50  # steps between two looks
_PATIENCE = 400  # steps without a better one
_HELD_OUT = 0.2  # share of the values that are left out
_DRAWS = 4  # episodes of each value that is left out
_RATE = 2e-3
_KAPPA_RATE = 2e-2
_DECAY = 0.1


@dataclass(frozen=True, kw_only=True)
class LearnedEncoder:
    """What came of it.

    Attributes:
        values: number of values that taught the encoder.
        loss_without: mean loss of rows of values that were left out, known by no vector.
        loss_with: with vectors from 1 to 20 other rows; not above `loss_without`.
    """

    values: int
    loss_without: float
    loss_with: float

    def __str__(self) -> str:
        return (
            f"trained on {self.values:,} values; rows of others have the loss {self.loss_with:.4f} with it, and "
            f"{self.loss_without:.4f} without"
        )


def can_encode_sets(model: ConditionedModel, attribute: FittedAttribute) -> bool:
    """Whether the vectors of an attribute's new values can be encoded from rows."""
    if not can(model.task, SET_ENCODERS):
        return False
    if not model.values.are_apart() or not is_listed(attribute):
        return False
    numbers = model.task.outputs * model.values.size(attribute.name)
    return 0 < numbers <= _SET_DERIVATIVES // (_VALUES * _SET_FEWEST)


def learn_set_encoder(
    model: AttributeModel,
    attribute: FittedAttribute,
    rows: Callable[[npt.NDArray[np.int64]], EncodedRows],
    attribute_ids: npt.NDArray[np.int64],
    *,
    run: Callable[[], AbstractContextManager[Any]],
    seed: int = 0,
    batch_size: int = 32,
) -> LearnedEncoder | None:
    """Add an encoder of an attribute's new values to a trained model, which does not change otherwise.

    Args:
        attribute: one for which `can_encode_sets`.
        rows: returns encoded rows with labels, by their indices.
        attribute_ids: (n, slots) of all training rows.
        run: makes the context of a forward pass.

    Returns:
        None for too few values with two rows, or predictions that do not depend on them; no encoder is added.
    """
    ids, C, D = attribute_ids[:, attribute.columns], model.task.outputs, model.values.size(attribute.name)
    limit = min(_SET_ROWS, _SET_PASSES // C, _SET_DERIVATIVES // (C * D))
    chosen = _rows_of_episodes(ids, np.random.default_rng(seed), limit=limit)
    if chosen is None:
        return None
    owners = ids[chosen].max(axis=1)
    hidden = np.zeros_like(owners)
    slopes = value_slopes(model, attribute, rows(chosen), run, own=hidden, described=owners, batch_size=batch_size)
    if slopes is None:
        return None
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return _learn(model, attribute, _Episodes.of(model.task, slopes, owners), np.random.default_rng(seed))


def _rows_of_episodes(
    ids: npt.NDArray[np.int64], chance: np.random.Generator, *, limit: int
) -> npt.NDArray[np.int64] | None:
    """Choose at most `limit` rows with one value, of values with two rows or more; (n,), or None."""
    single = np.flatnonzero((ids != 0).sum(axis=1) == 1)
    values = ids[single].max(axis=1)
    _, starts, counts = np.unique(np.sort(values), return_index=True, return_counts=True)
    several = chance.permutation(np.flatnonzero(counts > 1))
    if len(several) < _VALUES or limit < _VALUES * 2:
        return None
    by_value, each = single[np.argsort(values, kind="stable")], min(_MOST, max(_SET_FEWEST, limit // len(several)))
    of_value = [chance.permutation(by_value[starts[v] : starts[v] + counts[v]])[:each] for v in several]
    fitting = np.cumsum([len(rows) for rows in of_value]) <= limit
    return np.sort(np.concatenate([rows for rows, fits in zip(of_value, fitting, strict=True) if fits]))


@dataclass(frozen=True, kw_only=True)
class _Episodes:
    """Rows whose values are hidden: what an encoder reads of them, and how their losses depend on a vector.

    Attributes:
        logits: (n, C).
        J: (n, C, D).
        labels: (n, ...).
        of_value: the rows of each value.
    """

    task: Task
    documents: LabelledDocuments
    logits: Tensor
    J: Tensor
    labels: Tensor
    of_value: list[npt.NDArray[np.intp]]

    @classmethod
    def of(cls, task: Task, slopes: ValueSlopes, owners: npt.NDArray[np.int64]) -> _Episodes:
        logits, labels = slopes.logits.float(), torch.stack(slopes.labels)
        return cls(
            task=task,
            documents=LabelledDocuments.of(task, slopes.documents, logits, labels),
            logits=logits,
            J=slopes.J.float(),
            labels=labels,
            of_value=[np.flatnonzero(owners == value) for value in np.unique(owners)],
        )

    def draw(self, value: int, chance: np.random.Generator, *, queries: int) -> _Episode:
        """Draw rows of a value that are encoded, and others that are scored."""
        mixed = chance.permutation(self.of_value[value])
        k = int(chance.integers(1, min(_SUPPORT, len(mixed) - 1) + 1))
        return mixed[:k], mixed[k : k + queries]

    def loss(self, encoder: SetEncoder, drawn: list[_Episode]) -> Tensor:
        """Return the mean loss of the rows that are scored."""
        vectors = encoder.of_sets(self.documents, [support for support, _ in drawn])
        owner = np.repeat(np.arange(len(drawn)), [len(queries) for _, queries in drawn])
        rows = torch.from_numpy(np.concatenate([queries for _, queries in drawn]))
        logits = self.logits[rows] + torch.einsum("ncd,nd->nc", self.J[rows], vectors[torch.from_numpy(owner)])
        return self.task.row_losses(logits, self.labels[rows]).mean()


_Episode = tuple[npt.NDArray[np.intp], npt.NDArray[np.intp]]


def _learn(
    model: AttributeModel, attribute: FittedAttribute, episodes: _Episodes, chance: np.random.Generator
) -> LearnedEncoder:
    """Train an encoder, and add it to the model as it was at its best step."""
    values = chance.permutation(len(episodes.of_value))
    count = max(_VALUES // 4, int(_HELD_OUT * len(values)))
    held_out = [episodes.draw(int(v), chance, queries=_CHECKED) for v in values[:count] for _ in range(_DRAWS)]
    encoder = model.build_set_encoder(attribute.name)
    maps = [parameter for name, parameter in encoder.named_parameters() if name != "kappa"]
    groups: list[dict[str, Any]] = [
        {"params": maps},
        {"params": [encoder.kappa], "lr": _KAPPA_RATE, "weight_decay": 0.0},
    ]
    optimizer = torch.optim.AdamW(groups, lr=_RATE, weight_decay=_DECAY)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, _STEPS)
    with torch.no_grad():
        without = least = float(episodes.loss(encoder, held_out))
    best, state = 0, {name: x.clone() for name, x in encoder.state_dict().items()}
    for step in range(1, _STEPS + 1):
        drawn = chance.choice(values[count:], _BATCH)
        optimizer.zero_grad()
        loss = episodes.loss(encoder, [episodes.draw(int(value), chance, queries=_QUERIES) for value in drawn])
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        schedule.step()
        if step % _EVERY:
            continue
        with torch.no_grad():
            now = float(episodes.loss(encoder, held_out))
        if now < least:
            least, best, state = now, step, {name: x.clone() for name, x in encoder.state_dict().items()}
        elif step - best >= _PATIENCE:
            break
    encoder.load_state_dict(state)
    encoder.change_units(model.values.spread(attribute).cpu())
    model.add_set_encoder(attribute.name, encoder.eval().requires_grad_(False))
    return LearnedEncoder(values=len(values) - count, loss_without=without, loss_with=least)


_log = logging.getLogger(__name__)
_MANY_ROWS = 500  # from which on it takes some seconds
Run = Callable[[], AbstractContextManager[Any]]


def check_set_encoders(model: ConditionedModel, settings: TrainingRecipe) -> None:
    """Refuse to train encoders of new values for a model that can have none, before its training.

    Raises:
        ConfigError: naming method and task.
    """
    if settings.set_encoders and not any(can_encode_sets(model, attribute) for attribute in model.schema):
        raise ConfigError(
            f"training.set_encoders is on, but with method {model.method_config.name!r} and task "
            f"{model.task.kind!r} no attribute has vectors that could be encoded from rows: turn it off"
        )


def prepare_new_values(
    model: ConditionedModel,
    data: PreparedData,
    source: DataPlan,
    settings: TrainingRecipe,
    reporter: Reporter,
    *,
    run: Run,
) -> float:
    """Learn how far new values are from the unknown one, and encoders where the recipe has them.

    Args:
        run: makes the context of a forward pass.

    Returns:
        The seconds that the encoders took.
    """
    if not (can(model.task, VALUE_PRIORS) and model.rows_of_values()):
        return 0.0
    size, started = min(32, settings.batch_size), time.perf_counter()
    split = _Split.of(data.splits["validation"], source, model)
    if len(split.ids) > _MANY_ROWS:
        reporter.note("learning from validation rows how far the vectors of new values may be from the others")
    try:
        priors = learn_value_priors(model, split.rows, split.ids, run=run, batch_size=size)
        model.config.value_priors = priors or None
    except RuntimeError as error:  # of torch: memory, or an operation without derivatives
        reporter.note(f"the prior of new values was not learned, and will have a typical weight ({error!s:.200})")
    _log.info("priors of new values learned in %.1f s: %s", time.perf_counter() - started, model.config.value_priors)
    if not settings.set_encoders:
        return 0.0
    started, split = time.perf_counter(), _Split.of(data.splits["train"], source, model)
    for attribute in model.schema:
        if can_encode_sets(model, attribute):
            try:
                with reporter.training():
                    found = learn_set_encoder(
                        model, attribute, split.rows, split.ids, run=run, seed=settings.seed, batch_size=size
                    )
                what = "not trained, since too few values have two rows" if found is None else str(found)
            except RuntimeError as error:  # as above: the model is trained, and must not be lost
                what = f"not trained ({error!s:.200})"
            reporter.note(f"encoder of new values of {attribute.name!r}: {what}")
    return time.perf_counter() - started


@dataclass(frozen=True)
class _Split:
    """The attribute ids (n, slots) of a split, and what encodes some of its rows, by their indices."""

    ids: npt.NDArray[np.int64]
    rows: Callable[[npt.NDArray[np.int64]], EncodedRows]

    @classmethod
    def of(cls, split: PreparedSplit, source: DataPlan, model: ConditionedModel) -> Self:
        return cls(model.schema.encode(split.table)[0], partial(_encoded, split, source, model))


def _encoded(
    split: PreparedSplit, source: DataPlan, model: ConditionedModel, index: npt.NDArray[np.int64]
) -> EncodedRows:
    chosen = replace(split, table=split.table.select(index), rows=split.rows[index], labels=split.labels[index])
    return encode_labelled(chosen, source, model)

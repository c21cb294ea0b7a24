"""Ordered classes that one score decides, by cut points."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Self

import numpy as np
from pydantic import BeforeValidator

from attribune.core.arrays import Array
from attribune.core.config import checked_dataclass
from attribune.errors import ConfigError
from attribune.metrics import formulas as metric
from attribune.metrics.metric import Metric
from attribune.schema.columns import MISSING
from attribune.tasks.base import Decoded, ScoreBy, check_metrics, checked_logits
from attribune.tasks.heads import TaskHead
from attribune.tasks.labels import UNSEEN, Column, require_columns
from attribune.tasks.rating import Rating

if TYPE_CHECKING:
    from attribune.tasks.cut_points import Link

__all__ = ["Ordinal"]


def _numbers(values: Any) -> tuple[float, ...]:
    if not isinstance(values, list | tuple) or not all(isinstance(value, int | float) for value in values):
        raise ConfigError(f"cut_points is {values!r}: give numbers in order, or leave it out")
    found = tuple(float(value) for value in values)
    if not all(low < high for low, high in pairwise(found)) or not np.isfinite(found).all():
        raise ConfigError(f"cut_points is {list(values)}: give finite numbers in order, or leave it out")
    return found


_USUAL = ("rmse", "mae", "kappa", "accuracy")
_OF_NUMBERS = (metric.rmse, metric.mae, metric.r2, metric.pearson, metric.spearman)
_METRICS = {make.__name__: make for make in _OF_NUMBERS}
CutPointsOf = Annotated[tuple[float, ...], BeforeValidator(_numbers)]


@dataclass(frozen=True, kw_only=True)
class _Score(TaskHead):
    """One score, which cut points turn into logits; those at the beginning, and the attributes that move them."""

    initial: tuple[float, ...]
    personal: tuple[str, ...]

    def build_link(self, vector_sizes: Mapping[str, int] | None = None) -> Link:
        """Return the cut points of a model; ConfigError for personal ones of an attribute without vectors."""
        from attribune.tasks.cut_points import CutPoints

        sizes: dict[str, int] = {}
        known = {} if vector_sizes is None else vector_sizes
        for name in () if vector_sizes is None else self.personal:
            if name not in known:
                offered = f"it has those of {', '.join(known)}" if known else "choose another method, or leave it out"
                raise ConfigError(f"personal_cut_points names {name!r}, of which the method has no vectors: {offered}")
            sizes[name] = known[name]
        return CutPoints(self.initial, vector_sizes=sizes)


@checked_dataclass(kw_only=True)
class Ordinal(Rating):
    """Predict one of C ordered numbers per row from a single score: the cumulative logit model (McCullagh 1980).

    A model has one weight vector and C - 1 cut points, ``P(y <= k) = σ(θ_k - w·h)``; `Rating` has C weight
    vectors and ignores the order. Labels are those of `Rating`; logits are log-probabilities of the classes.
    Predictions are the most probable class and the expected number, whose errors are measured.

    Args:
        classes: the numbers, sorted.
        cut_points: C - 1 initial values; by default those at which the training labels are as frequent
            as they are.
        personal_cut_points: attributes whose values shift and scale the cut points, by a map of their vectors. Models
            without attributes have those of all.
        expected: see `Rating`.
        soft_labels: see `Rating`.
        missing: texts that mean a missing label.
        score_by: metrics that come first, beginning with the main one: ``rmse``, ``mae``, ``kappa`` (with quadratic
            weights), ``accuracy``, ``r2``, ``pearson`` or ``spearman``, and with `soft_labels` those of a rating.
    """

    kind: ClassVar[str] = "ordinal"
    cut_points: CutPointsOf = ()
    personal_cut_points: ScoreBy = ()

    def __post_init__(self) -> None:
        """Check the names of metrics and the number of cut points."""
        check_metrics(
            self.score_by, (*self.codec.share_metrics, *_METRICS, "kappa", "accuracy"), task="an ordinal task"
        )
        if self.cut_points and len(self.cut_points) != len(self.classes) - 1:
            raise ConfigError(
                f"{len(self.cut_points)} cut_points between {len(self.classes)} classes: give one less than classes"
            )

    @classmethod
    def fit(
        cls,
        label_columns: Sequence[Column],
        *,
        classes: Sequence[str] | None = None,
        cut_points: Sequence[float] | None = None,
        personal_cut_points: str | Sequence[str] = (),
        expected: bool | None = None,
        missing: Sequence[str] = MISSING,
        score_by: str | Sequence[str] = (),
        soft_labels: bool = False,
    ) -> Self:
        """Fit the classes and the first cut points, unless given, on training rows."""
        require_columns(label_columns, ["label"], task=cls.kind)
        rating = Rating.fit(label_columns, classes=classes, soft_labels=soft_labels, missing=missing)
        if cut_points is None:
            labels, _ = rating.encode_labels(label_columns)
            counts = rating.codec.positives(labels) + 0.5  # a class may have no row
            below = counts.cumsum()[:-1] / counts.sum()
            cut_points = np.log(below / (1 - below)).tolist()
        return cls(
            classes=rating.classes,
            cut_points=tuple(cut_points),
            personal_cut_points=personal_cut_points,  # type: ignore[arg-type]
            expected=expected,
            soft_labels=soft_labels,
            missing=tuple(missing),
            score_by=score_by,  # type: ignore[arg-type]
        )

    @property
    def main_metric(self) -> str:
        """The first of `score_by`, else `rmse`, or for distributions `cross_entropy`."""
        return (*self.score_by, *self.codec.share_metrics, *_USUAL)[0]

    @property
    def metrics_note(self) -> str:
        """Nothing: all errors are of the mean."""
        return ""

    @property
    def head(self) -> TaskHead:
        """One score, and cut points."""
        initial = self.cut_points or np.linspace(-1.5, 1.5, self.outputs - 1).tolist()
        return _Score(outputs=1, initial=tuple(initial), personal=self.personal_cut_points)

    def without_attributes(self) -> Self:
        """Return the task with the cut points of all."""
        return replace(self, personal_cut_points=())

    def decode(self, logits: Array) -> Decoded:
        """Return the most probable class as text, or the expected number, and the expected number beside it."""
        decoded = super().decode(logits)
        numbers = self._expected(checked_logits(logits, self.outputs))
        return Decoded(
            predictions={**decoded.predictions, "expected": numbers},
            probabilities=decoded.probabilities,
            probability_columns=decoded.probability_columns,
        )

    def _expected(self, logits: Array) -> Array:
        shifted = np.exp(logits - logits.max(axis=1, keepdims=True))
        return np.asarray(shifted @ self._values / shifted.sum(axis=1))

    def metrics(self, logits: Array, labels: Array) -> dict[str, Metric]:
        """Return the metrics of `score_by`, then RMSE and MAE of the expected number, kappa and accuracy."""
        logits, labels = checked_logits(logits, self.outputs), np.asarray(labels)
        of_shares = self.codec.of_shares(logits, labels)
        labels = self.codec.true_classes(labels, logits)
        numbers, values, predicted = self._expected(logits), self._values, logits.argmax(axis=1)
        # A class that no training row has is as far away as the scale is long.
        farthest = np.where(numbers - values[0] > values[-1] - numbers, 0, self.outputs - 1)
        known = np.where(labels == UNSEEN, farthest, labels)
        found = {
            "accuracy": lambda: metric.accuracy(labels, predicted),
            "kappa": lambda: metric.kappa(known, predicted),
        } | {name: lambda make=make: make(values[known], numbers) for name, make in _METRICS.items()}
        names = dict.fromkeys([*self.score_by, *self.codec.share_metrics, *_USUAL])
        return {name: of_shares[name] if name in of_shares else found[name]() for name in names}

"""Ordered classes, such as stars: each with a weight vector of its own, or on one scale with cut points."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Self

import numpy as np
from pydantic import BeforeValidator
from scipy.special import softmax

from attribune.core.arrays import Array
from attribune.core.config import checked_dataclass
from attribune.core.door import as_argument
from attribune.errors import ConfigError
from attribune.metrics import formulas as metric
from attribune.metrics.metric import Metric
from attribune.schema.columns import MISSING, NO_NUMBER
from attribune.tasks.base import Decoded, ScoreBy, Task, TaskHead, check_metrics, checked_logits
from attribune.tasks.codecs import ClassCodec, Level, Number, Shares, level_numbers
from attribune.tasks.labels import (
    UNSEEN,
    Column,
    Flag,
    MissingTexts,
    OptionalFlag,
    class_names,
    number_of,
    require_columns,
    require_flag,
    sorted_classes,
)

if TYPE_CHECKING:
    from attribune.tasks.losses import Link


def _sorted_ratings(classes: Any) -> tuple[str, ...]:
    values = {name: number_of(name) for name in class_names(classes, of="the rating")}
    wrong = [name for name, value in values.items() if value is None]
    if len(wrong) == len(values):
        return tuple(wrong)
    _refuse_names(wrong)
    if len(set(values.values())) < len(values):
        raise ConfigError(f"some of the ratings {list(values)} are the same number: give each once")
    return sorted_classes(values, of="the rating")


def _refuse_names(wrong: Sequence[str]) -> None:
    """Raise a ConfigError for names among numbers, or of which nothing tells the order."""
    if wrong:
        raise ConfigError(
            f"the ratings {list(wrong)} are not numbers: give numbers, name all in their order with "
            f"{as_argument('task.classes')}, or choose the classification task"
        )


Ratings = Annotated[tuple[str, ...], BeforeValidator(_sorted_ratings)]


@checked_dataclass(kw_only=True)
class Rating(Task):
    """Predict one of C numbers per row, learned by cross-entropy; errors are in the unit of the numbers.

    Labels are class ids int64 (n,), with `soft_labels` distributions float32 (n, C). Ratings are compared as numbers:
    4, "4.0" and "4.00" are one class. Those with names, such as ``low``, ``medium`` and ``high``, are numbered from 1.
    For a rating that no training row has, RMSE and MAE count the distance from the prediction to the farther end of
    the scale.

    Args:
        classes: the ratings, sorted by number, or names in their order, from the lowest; numbers are found in labels.
        expected: predict the expected rating instead of the most probable one, which still determines the accuracy. By
            default the prediction is the most probable rating, and the expected one, the mean under the probabilities,
            stands beside it and determines RMSE and correlations; False leaves it out of both.
        soft_labels: labels are distributions over the ratings, which the cross-entropy uses; metrics of single
            labels are against the most frequent rating.
        missing: texts that mean a missing label.
        score_by: metrics that come first, beginning with the main one: ``accuracy``, ``rmse``, ``mae``, ``kappa`` (with
            quadratic weights), ``pearson`` or ``spearman``. The last three are computed when they are named. With
            `soft_labels` also ``cross_entropy``, ``manhattan``, ``jensen_shannon`` or ``wasserstein``.
    """

    kind: ClassVar[str] = "rating"
    words: ClassVar[str] = "a rating"
    usual: ClassVar[tuple[str, ...]] = ("accuracy", "rmse", "mae")
    offered: ClassVar[tuple[str, ...]] = ("accuracy", "rmse", "mae", "pearson", "spearman", "kappa")
    no_label: ClassVar[tuple[str, ...]] = NO_NUMBER
    classes: Ratings
    expected: OptionalFlag = None
    soft_labels: Flag = False
    missing: MissingTexts = MISSING
    score_by: ScoreBy = ()

    def __post_init__(self) -> None:
        """Check the names of metrics."""
        check_metrics(self.score_by, (*self.codec.share_metrics, *self.offered), task=self.words)

    @classmethod
    def fit(
        cls,
        label_columns: Sequence[Column],
        *,
        classes: Sequence[str] | None = None,
        expected: bool | None = None,
        missing: Sequence[str] = MISSING,
        score_by: str | Sequence[str] = (),
        soft_labels: bool = False,
    ) -> Self:
        """Fit the ratings, unless given, on training rows; DataError for labels that are not numbers."""
        require_flag(soft_labels, name="soft_labels")
        if classes is None:
            require_columns(label_columns, ["label"], task=cls.kind)
            texts = cls.codec_for({"soft_labels": soft_labels, "missing": missing}).names(label_columns[0])
            classes = sorted_classes(texts, of="the label column")
            _refuse_names([name for name in classes if number_of(name) is None])
        names = class_names(classes, of="the rating")
        return cls(
            classes=names,
            expected=expected,
            soft_labels=soft_labels,
            missing=missing,
            score_by=score_by,  # type: ignore[arg-type]
        )

    @property
    def main_metric(self) -> str:
        """The first of `score_by`, else of the usual ones, or for distributions `cross_entropy`."""
        return (*self.score_by, *self.codec.share_metrics, *self.usual)[0]

    @classmethod
    def codec_for(cls, options: Mapping[str, Any]) -> ClassCodec:
        """Return what the labels are: one of the numbers, or a share of each."""
        classes, missing = options.get("classes"), options.get("missing", MISSING)
        names = () if classes is None else class_names(classes, of="the rating")
        if options.get("soft_labels"):
            return Shares(classes=names, missing=missing, as_numbers=True)
        are_levels = any(number_of(name) is None for name in names)
        return Level(classes=names, missing=missing) if are_levels else Number(classes=names, missing=missing)

    @property
    def codec(self) -> ClassCodec:
        """What the labels of a row are."""
        return self.codec_for(vars(self))

    @property
    def outputs(self) -> int:
        """Number of classes."""
        return len(self.classes)

    @property
    def _values(self) -> Array:
        return level_numbers(self.classes)

    def decode(self, logits: Array) -> Decoded:
        """Return the most probable rating as text, or the expected rating as a number, or both."""
        probabilities = self.codec.chances(checked_logits(logits, self.outputs))
        most_probable: list[Any] = [self.classes[i] for i in probabilities.argmax(axis=1)]
        expected = self._mean(logits)
        predictions = {"prediction": expected if self.expected else most_probable}
        return Decoded(
            predictions=predictions if self.expected is not None else {**predictions, "expected": expected},
            probabilities=probabilities,
            probability_columns=tuple(f"probability_{name}" for name in self.classes),
        )

    def metrics(self, logits: Array, labels: Array) -> dict[str, Metric]:
        """Return the metrics of `score_by`, then the usual ones.

        Unless `expected` says otherwise, RMSE and correlations are of the mean under the probabilities, which has the
        least squared error, and the MAE is of the most probable rating. Metrics of distributions go before; a tie of
        the most frequent ratings counts as the likeliest of them.
        """
        logits, labels = checked_logits(logits, self.outputs), np.asarray(labels)
        of_shares = self.codec.of_shares(logits, labels)
        labels = self.codec.true_classes(labels, logits)
        most_probable, values, mean = logits.argmax(axis=1), self._values, self._mean(logits)

        def made(name: str) -> Metric:
            if name == "accuracy":
                return metric.accuracy(labels, most_probable)
            predicted = mean if self._is_of_mean(name) else values[most_probable]
            true = self._true_numbers(labels, predicted)
            if name == "kappa":
                return metric.kappa(np.searchsorted(values, true), most_probable)
            return metric.OF_NUMBERS[name](true, predicted)

        names = dict.fromkeys([*self.score_by, *self.codec.share_metrics, *self.usual])
        return {name: of_shares[name] if name in of_shares else made(name) for name in names}

    def _mean(self, logits: Array) -> Array:
        """Return the means (n,) of the numbers under the probabilities."""
        return np.asarray(softmax(checked_logits(logits, self.outputs), axis=1) @ self._values)

    def _is_of_mean(self, name: str) -> bool:
        """Whether a metric is of the mean, rather than of the most probable number."""
        return name not in ("mae", "kappa") if self.expected is None else self.expected

    @property
    def metrics_note(self) -> str:
        """Which metrics are of the mean."""
        return "" if self.expected is not None else "rmse of the mean rating, accuracy and mae of the most probable one"

    def _true_numbers(self, labels: Array, predicted: Array) -> Array:
        """Return the numbers of class ids (n,); for a rating that no training row has the end farther from (n,)."""
        values = self._values
        farthest = np.where(predicted - values[0] > values[-1] - predicted, values[0], values[-1])
        return np.asarray(np.where(labels == UNSEEN, farthest, values[labels.clip(min=0)]))


def _numbers(values: Any) -> tuple[float, ...]:
    if not isinstance(values, list | tuple) or not all(isinstance(value, int | float) for value in values):
        raise ConfigError(f"cut_points is {values!r}: give numbers in order, or leave it out")
    found = tuple(float(value) for value in values)
    if not all(low < high for low, high in pairwise(found)) or not np.isfinite(found).all():
        raise ConfigError(f"cut_points is {list(values)}: give finite numbers in order, or leave it out")
    return found


CutPointsOf = Annotated[tuple[float, ...], BeforeValidator(_numbers)]


@dataclass(frozen=True, kw_only=True)
class _Score(TaskHead):
    """One score, which cut points turn into logits; those at the beginning, and the attributes that move them."""

    initial: tuple[float, ...]
    personal: tuple[str, ...]

    def build_link(self, vector_sizes: Mapping[str, int] | None = None) -> Link:
        """Return the cut points of a model; ConfigError for personal ones of an attribute without vectors."""
        from attribune.tasks.losses import CutPoints

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
        classes: see `Rating`.
        cut_points: C - 1 initial values; by default those at which the training labels are as frequent
            as they are.
        personal_cut_points: attributes whose values shift and scale the cut points, by a map of their vectors. Models
            without attributes have those of all.
        expected: whether to predict the expected number instead of the most probable class.
        soft_labels: see `Rating`.
        missing: texts that mean a missing label.
        score_by: metrics that come first, beginning with the main one: ``rmse``, ``mae``, ``kappa`` (with quadratic
            weights), ``accuracy``, ``r2``, ``pearson`` or ``spearman``, and with `soft_labels` those of a rating.
    """

    kind: ClassVar[str] = "ordinal"
    words: ClassVar[str] = "an ordinal task"
    usual: ClassVar[tuple[str, ...]] = ("rmse", "mae", "kappa", "accuracy")
    offered: ClassVar[tuple[str, ...]] = ("rmse", "mae", "r2", "pearson", "spearman", "kappa", "accuracy")
    cut_points: CutPointsOf = ()
    personal_cut_points: ScoreBy = ()

    def __post_init__(self) -> None:
        """Check the names of metrics and the number of cut points."""
        super().__post_init__()
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
        return replace(decoded, predictions={**decoded.predictions, "expected": self._mean(logits)})

    def _is_of_mean(self, name: str) -> bool:
        return True

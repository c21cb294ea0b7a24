"""Ordered classes, such as stars."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Self

import numpy as np
from pydantic import BeforeValidator
from scipy.special import softmax

from attribune.core.config import checked_dataclass
from attribune.errors import ConfigError
from attribune.metrics import formulas as metric
from attribune.metrics.metric import Metric
from attribune.schema.columns import MISSING, canonical
from attribune.tasks.base import Decoded, ScoreBy, Task, check_metrics, checked_logits, log_frequencies, unknown
from attribune.tasks.labels import (
    UNSEEN,
    Array,
    Column,
    Flag,
    MissingTexts,
    class_names,
    label_numbers,
    number_of,
    require_columns,
    sorted_classes,
)

if TYPE_CHECKING:
    import torch
    from torch import Tensor

__all__ = ["Rating"]


def _sorted_ratings(classes: Any) -> tuple[str, ...]:
    values = {name: number_of(name) for name in class_names(classes, of="the rating")}
    wrong = [name for name, value in values.items() if value is None]
    if wrong:
        raise ConfigError(f"the ratings {wrong} are not numbers: give numbers, or choose the classification task")
    if len(set(values.values())) < len(values):
        raise ConfigError(f"some of the ratings {list(values)} are the same number: give each once")
    return sorted_classes(values, of="the rating")


_USUAL = ("accuracy", "rmse", "mae")
_OF_NUMBERS = (metric.rmse, metric.mae, metric.pearson, metric.spearman)
_METRICS = {"accuracy": metric.accuracy, **{make.__name__: make for make in _OF_NUMBERS}}
Ratings = Annotated[tuple[str, ...], BeforeValidator(_sorted_ratings)]


@checked_dataclass(kw_only=True)
class Rating(Task):
    """One of C numbers per row, learned by cross-entropy, with errors measured in the unit of the numbers.

    Labels are class ids int64 (n,). Ratings are compared as numbers: 4, "4.0" and "4.00" are one class. For a rating
    that no training row has, RMSE and MAE count the distance from the prediction to the farther end of the scale.

    Args:
        classes: the ratings, sorted by number.
        expected: predict the expected rating instead of the most probable one, which still determines the accuracy.
        missing: texts that mean a missing label.
        score_by: metrics that come first, beginning with the main one: ``accuracy``, ``rmse``, ``mae``, ``pearson`` or
            ``spearman``. Correlations are computed when they are named.
    """

    kind: ClassVar[str] = "rating"
    classes: Ratings
    expected: Flag = False
    missing: MissingTexts = MISSING
    score_by: ScoreBy = ()

    def __post_init__(self) -> None:
        """Check the names of metrics."""
        check_metrics(self.score_by, _METRICS, task="a rating")

    @classmethod
    def fit(
        cls,
        label_columns: Sequence[Column],
        *,
        classes: Sequence[str] | None = None,
        expected: bool = False,
        missing: Sequence[str] = MISSING,
        score_by: str | Sequence[str] = (),
    ) -> Self:
        """Fit the ratings, unless given, on training rows; DataError for labels that are not numbers."""
        if classes is None:
            require_columns(label_columns, ["label"], task=cls.kind)
            values = label_numbers(label_columns[0], missing=missing)
            classes = sorted_classes(map(canonical, np.unique(values)), of="the label column")
        names = class_names(classes, of="the rating")
        return cls(classes=names, expected=expected, missing=missing, score_by=score_by)  # type: ignore[arg-type]

    @property
    def main_metric(self) -> str:
        """The first of `score_by`, else `accuracy`."""
        return (*self.score_by, *_USUAL)[0]

    @property
    def outputs(self) -> int:
        """Number of classes."""
        return len(self.classes)

    @property
    def _values(self) -> Array:
        return np.array([float(name) for name in self.classes])

    def encode_labels(self, columns: Sequence[Column], *, first_row: int = 1) -> tuple[Array, Array]:
        """Return class ids int64 (n,) and the mask of labelled rows; DataError for a label that is not a number."""
        require_columns(columns, ["label"], task=self.kind)
        numbers = label_numbers(columns[0], missing=self.missing, first_row=first_row)
        ids = np.clip(np.searchsorted(self._values, numbers), 0, self.outputs - 1)
        return np.where(self._values[ids] == numbers, ids, UNSEEN), ~np.isnan(numbers)

    def unseen_labels(self, columns: Sequence[Column]) -> Counter[str]:
        """Count the ratings that are not among the classes."""
        require_columns(columns, ["label"], task=self.kind)
        texts = [canonical(number) for number in label_numbers(columns[0], missing=self.missing)]
        return unknown(texts, [str(canonical(value)) for value in self._values])

    def loss(self, logits: Tensor, labels: Tensor) -> Tensor:
        """Return the cross-entropy of logits (B, C)."""
        from attribune.tasks.losses import cross_entropy

        return cross_entropy(logits, labels)

    def row_losses(self, logits: Tensor, labels: Tensor) -> Tensor:
        """Return the cross-entropy of each row; zero for a rating that no training row has."""
        from attribune.tasks.losses import row_cross_entropy

        return row_cross_entropy(logits, labels)

    def row_counts(self, labels: Tensor) -> Tensor:
        """Return 1 for rows with a known rating, and 0 for others."""
        from attribune.tasks.losses import known_weights

        return known_weights(labels)

    def sample_labels(self, logits: Tensor, generator: torch.Generator) -> Tensor:
        """Draw class ids (B,)."""
        from attribune.tasks.losses import sample_class

        return sample_class(logits, generator)

    def answer_probabilities(self, logits: Array) -> Array:
        """Return the probabilities (n, C) of the numbers."""
        return np.asarray(softmax(checked_logits(logits, self.outputs), axis=1))

    @property
    def positions(self) -> Array:
        """The numbers."""
        return self._values

    def decode(self, logits: Array) -> Decoded:
        """Return the most probable rating as text, or the expected rating as a number."""
        probabilities = self.answer_probabilities(logits)
        most_probable: list[Any] = [self.classes[i] for i in probabilities.argmax(axis=1)]
        return Decoded(
            predictions={"prediction": self._numbers(logits) if self.expected else most_probable},
            probabilities=probabilities,
            probability_columns=tuple(f"probability_{name}" for name in self.classes),
        )

    def _numbers(self, logits: Array) -> Array:
        values = self._values
        return np.asarray(softmax(logits, axis=1) @ values if self.expected else values[logits.argmax(axis=1)])

    def metrics(self, logits: Array, labels: Array) -> dict[str, Metric]:
        """Return the metrics of `score_by`, then the accuracy, and RMSE and MAE of the predicted number."""
        logits, labels = checked_logits(logits, self.outputs), np.asarray(labels)
        predicted, values = self._numbers(logits), self._values
        farthest = np.where(predicted - values[0] > values[-1] - predicted, values[0], values[-1])
        true = np.where(labels == UNSEEN, farthest, values[labels.clip(min=0)])
        names = dict.fromkeys([*self.score_by, *_USUAL])
        accuracy = metric.accuracy(labels, logits.argmax(axis=1))
        return {name: accuracy if name == "accuracy" else _METRICS[name](true, predicted) for name in names}

    def prior(self, train_labels: Array) -> Array:
        """Return the log frequencies of the ratings."""
        return log_frequencies(train_labels, self.outputs)

"""The values of a run's attributes: found by their names, their neighbours, and a map of them."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import islice

import numpy as np

from attribune.core.arrays import Array
from attribune.errors import ConfigError
from attribune.models.predictor import Predictor
from attribune.runs.labelled import LabelledRows
from attribune.schema import FittedAttribute
from attribune.tasks import Task

__all__ = ["AttributeValues", "ValueMap"]

_MAX_MAPPED = 2_000  # the most frequent values
_MAX_MATCHES = 50


@dataclass(frozen=True, kw_only=True)
class ValueMap:
    """The vectors of an attribute's most frequent values, projected on their first two principal components.

    Args:
        positions: (n, 2).
        rows: (n,), training rows of each value.
        means: (n,) mean labels of the training rows of each value, NaN without such rows, by label.
        explained_variance_ratio: of the two components together.
    """

    values: list[str]
    positions: Array
    rows: Array
    means: dict[str, Array]
    explained_variance_ratio: float


@dataclass(frozen=True, kw_only=True)
class AttributeValues:
    """What is known of the values of a model's attributes.

    Args:
        training: the training rows with labels; None where they cannot be read.
    """

    predictor: Predictor
    training: LabelledRows | None

    def search(self, attribute: str, query: str) -> list[tuple[str, int]]:
        """Find values that contain a query in any case, with their training rows, the most frequent first."""
        fitted, query = self.predictor.schema[attribute], query.strip().casefold()
        counts = zip(fitted.values, fitted.counts[1:], strict=False)
        matches = ((value, int(count)) for value, count in counts if query in value.casefold())
        return list(islice(matches, _MAX_MATCHES))

    def rows(self, attribute: str, value: str) -> int | None:
        """Return the number of training rows of a value; None for one that the model does not know."""
        fitted = self.predictor.schema[attribute]
        known = int(fitted.values.ids([value])[0])
        return int(fitted.counts[known]) if known else None

    def neighbours(self, attribute: str, value: str, *, limit: int = 5) -> list[tuple[str, float]]:
        """Find the values whose vectors are nearest by cosine similarity.

        Raises:
            ConfigError: for a value that has no vector.
        """
        fitted, vectors = self.predictor.schema[attribute], self._vectors(attribute)
        values = list(fitted.values[: len(vectors)])
        if value not in values:
            raise ConfigError(f"attribute {attribute!r} has no vector of {value!r} among its {len(values):,} first")
        normalized = vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-12)
        cosines = normalized @ normalized[values.index(value)]
        order = [index for index in np.argsort(-cosines, kind="stable").tolist() if values[index] != value]
        return [(values[index], float(cosines[index])) for index in order[:limit]]

    def map(self, attribute: str) -> ValueMap | None:
        """Project the vectors of an attribute's values on two principal components.

        The vector of a value concatenates everything that the model stores of it. None for a model without vectors, or
        with fewer than three.
        """
        vectors, fitted = self._vectors(attribute), self.predictor.schema[attribute]
        if len(vectors) < 3 or not vectors.shape[1]:
            return None
        centred = vectors - vectors.mean(axis=0)
        _, singular_values, components = np.linalg.svd(centred, full_matrices=False)
        positions = centred @ components[:2].T
        positions = np.pad(positions, ((0, 0), (0, 2 - positions.shape[1])))
        variances = singular_values**2
        total = float(variances.sum())
        return ValueMap(
            values=list(fitted.values[: len(vectors)]),
            positions=positions,
            rows=fitted.counts[1 : len(vectors) + 1],
            means=self._means(fitted, len(vectors)),
            explained_variance_ratio=float(variances[:2].sum()) / total if total else 0.0,
        )

    @property
    def mean_labels(self) -> list[str]:
        """Names of the labels whose means a map can show."""
        if self.training is None:
            return []
        return list(_label_numbers(self.predictor.task, self.training.labels[:1]))

    def _vectors(self, attribute: str) -> Array:
        """Concatenate what the model stores of each of the most frequent values: (values, numbers)."""
        count = min(_MAX_MAPPED, len(self.predictor.schema[attribute].values))
        return self.predictor.model.values.vectors(attribute, count=count)

    def _means(self, fitted: FittedAttribute, count: int) -> dict[str, Array]:
        if self.training is None:
            return {}
        ids = self.predictor.schema.encode(self.training.rows)[0][:, fitted.columns]
        rows, slots = np.nonzero((ids > 0) & (ids <= count))
        indices = ids[rows, slots] - 1
        counts = np.bincount(indices, minlength=count).astype(np.float64)
        counts[counts == 0] = np.nan
        return {
            name: np.bincount(indices, weights=numbers[rows], minlength=count) / counts
            for name, numbers in _label_numbers(self.predictor.task, self.training.labels).items()
        }


def _label_numbers(task: Task, labels: Array) -> dict[str, Array]:
    """Turn labels into numbers (n,) that can be averaged: the rating, the number, or the share of a class."""
    if (numbers := task.codec.numbers(labels)) is not None:
        return {"rating" if task.codec.choices else "number": numbers}
    return {
        " ".join(["share of", *filter(None, [choice.name]), label]): marks.astype(np.float64)
        for choice in task.codec.choices
        for label, marks in zip(choice.codec.classes, choice.codec.marks(choice.labels(labels)).T, strict=True)
    }

"""Scores of the same texts with other attributes; only rows that differ are scored again."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from attribune.core.arrays import FloatArray, IntArray
from attribune.data.clusters import Clusters, clustered
from attribune.data.readers.base import EncodedRows
from attribune.metrics.metric import Metric
from attribune.models.predictor import Predictor
from attribune.schema.attributes import FittedAttribute

__all__ = ["Rescored", "numbers_of"]


@dataclass(frozen=True, kw_only=True)
class Rescored:
    """Rows with their logits (n, outputs) and clusters, and the logits of the same texts with other attributes."""

    predictor: Predictor
    rows: EncodedRows
    logits: FloatArray
    clusters: Clusters = field(default_factory=dict)
    _hidden: dict[tuple[str, ...], FloatArray] = field(default_factory=dict, compare=False, repr=False)

    @classmethod
    def of(cls, predictor: Predictor, rows: EncodedRows, *, clusters: Clusters) -> Rescored:
        """Score the rows with their own attributes."""
        return cls(predictor=predictor, rows=rows, logits=predictor.score(rows), clusters=clusters)

    def metrics(self, logits: FloatArray, labels: npt.NDArray[Any], rows: Any = slice(None)) -> dict[str, Metric]:
        """Return the metrics of logits of these rows, or of some of them."""
        clusters = {name: kind[rows] for name, kind in self.clusters.items()}
        return clustered(self.predictor.task.metrics(logits[rows], labels[rows]), clusters)

    def with_ids(self, ids: IntArray) -> FloatArray:
        """Return the logits (n, outputs) of the same texts with other ids (n, slots)."""
        logits = self.logits.copy()
        changed = np.flatnonzero((ids != self.rows.attribute_ids).any(axis=1))
        if len(changed):
            logits[changed] = self.predictor.score(self.rows.take(changed).with_attribute_ids(ids[changed]))
        return logits

    def hidden(self, attributes: Sequence[FittedAttribute]) -> FloatArray:
        """Return the logits with attributes hidden in every row; they are cached, since several questions need them."""
        key = tuple(attribute.name for attribute in attributes)
        if key not in self._hidden:
            ids = self.rows.attribute_ids.copy()
            for attribute in attributes:
                ids[:, attribute.columns] = 0
            self._hidden[key] = self.with_ids(ids)
        return self._hidden[key]

    def shuffled(self, attributes: Sequence[FittedAttribute], *, seed: int) -> FloatArray:
        """Return the logits with the values of attributes permuted over the rows, those of one row together."""
        ids = self.rows.attribute_ids.copy()
        order = np.random.default_rng(seed).permutation(len(ids))
        for attribute in attributes:
            ids[:, attribute.columns] = self.rows.attribute_ids[order][:, attribute.columns]
        return self.with_ids(ids)


def numbers_of(predictor: Predictor, logits: FloatArray) -> tuple[npt.NDArray[np.float64], list[str]]:
    """Return predictions as numbers (n, k) with k names: probabilities, or the predicted number of a regression."""
    decoded = predictor.task.decode(logits)
    if decoded.probabilities is not None:
        names = [name.removeprefix("probability_") for name in decoded.probability_columns]
        return np.asarray(decoded.probabilities, dtype=np.float64), names
    columns = [np.asarray(values, dtype=np.float64) for values in decoded.predictions.values()]
    return np.stack(columns, axis=1), list(decoded.predictions)

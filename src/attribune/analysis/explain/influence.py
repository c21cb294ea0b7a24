"""Influence of values: how far each moves the predictions of the rows that have it."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from attribune.analysis.explain.scores import Rescored, numbers_of
from attribune.schema.attributes import FittedAttribute

__all__ = ["influential_values"]

_RESAMPLES = 2_000
_NORMAL_ROWS = 2_000  # with more rows, the mean is normally distributed
Array = npt.NDArray[Any]


def influential_values(scores: Rescored, *, min_rows: int, top: int) -> list[dict[str, Any]]:
    """Measure how far each value moves predictions, compared with the same rows without it.

    Args:
        min_rows: rows that a value must have.
        top: number of values listed for each attribute.

    Returns:
        For each attribute its values with the largest ``move``, the mean over their rows of the largest change of a
        predicted number; with the number of rows and of training rows, and the predicted number that changes most on
        average, ``of``, its mean ``change`` and the ends of its 95 % bootstrap interval over the rows.
    """
    records = []
    for attribute in scores.predictor.schema:
        influence = _Influence(scores, attribute)
        frequent = [index for index, rows in enumerate(influence.rows) if rows >= min_rows]
        frequent.sort(key=lambda index: -influence.moves[index])
        records.append(
            {
                "attribute": attribute.name,
                "values": len(influence.values),
                "enough_rows": len(frequent),
                "top": [influence.record(index) for index in frequent[:top]],
            }
        )
    return records


class _Influence:
    """The changes of predictions by the values of an attribute: the id, the rows and the mean move of each value."""

    def __init__(self, scores: Rescored, attribute: FittedAttribute) -> None:
        self.attribute = attribute
        predicted, self.names = numbers_of(scores.predictor, scores.logits)
        ids, changes = [np.zeros(0, dtype=np.int64)], [np.zeros((0, predicted.shape[1]))]
        for slot in range(*attribute.columns.indices(scores.rows.attribute_ids.shape[1])):
            own = scores.rows.attribute_ids[:, slot]
            without = scores.rows.attribute_ids.copy()
            without[:, slot] = 0
            rows = own > 0
            logits = scores.hidden([attribute]) if attribute.slots == 1 else scores.with_ids(without)
            numbers, _ = numbers_of(scores.predictor, logits)
            ids.append(own[rows])
            changes.append((predicted - numbers)[rows])
        all_ids = np.concatenate(ids)
        order = np.argsort(all_ids, kind="stable")
        self._changes = np.concatenate(changes)[order]
        self.values, self._starts, self.rows = np.unique(all_ids[order], return_index=True, return_counts=True)
        largest = np.abs(self._changes).max(axis=1)
        self.moves = np.add.reduceat(largest, self._starts) / self.rows if len(all_ids) else np.zeros(0)

    def record(self, index: int) -> dict[str, Any]:
        """Return the record of one value, by its index in ``values``."""
        value, rows = int(self.values[index]), int(self.rows[index])
        changes = self._changes[self._starts[index] : self._starts[index] + rows]
        means = changes.mean(axis=0)
        column = int(np.abs(means).argmax())
        low, high = _interval(changes[:, column])
        names = self.attribute.values
        return {
            "value": names[value - 1] if len(names) else f"id {value}",
            "rows": rows,
            "training_rows": int(self.attribute.counts[value]),
            "move": float(self.moves[index]),
            "of": self.names[column],
            "change": float(means[column]),
            "low": low,
            "high": high,
        }


def _interval(changes: Array) -> tuple[float, float]:
    """Return the 95 % bootstrap interval of a mean over rows; for many rows that of the normal distribution."""
    if len(changes) > _NORMAL_ROWS:
        margin = 1.96 * changes.std() / len(changes) ** 0.5
        return float(changes.mean() - margin), float(changes.mean() + margin)
    drawn = np.random.default_rng(0).integers(len(changes), size=(_RESAMPLES, len(changes)))
    low, high = np.quantile(changes[drawn].mean(axis=1), [0.025, 0.975])
    return float(low), float(high)

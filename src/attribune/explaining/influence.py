"""The values that move predictions most."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from attribune.explaining.scores import Rescored, columns_of, numbers_of
from attribune.schema.attributes import FittedAttribute

__all__ = ["influential_values"]

_RESAMPLES = 2_000
_MANY = 2_000  # rows of a value
Array = npt.NDArray[Any]


def influential_values(scores: Rescored, *, least: int, most: int) -> list[dict[str, Any]]:
    """How far each value of the rows moves what is predicted, against the same rows without it.

    Args:
        scores: of the rows.
        least: rows that a value must have.
        most: values of each attribute that are listed.

    Returns:
        For each attribute its values with the largest ``move``, the mean over their rows of the largest change of a
        predicted number; with the number of rows and of training rows, and the predicted number that changes most on
        average, ``of``, its mean ``change`` and the ends of its 95 % bootstrap interval over the rows.
    """
    found = []
    for attribute in scores.predictor.schema:
        moved = _Moves(scores, attribute)
        enough = [place for place, rows in enumerate(moved.rows) if rows >= least]
        first = sorted(enough, key=lambda place: -moved.moves[place])[:most]
        found.append(
            {
                "attribute": attribute.name,
                "values": len(moved.values),
                "enough_rows": len(enough),
                "top": [moved.of_value(place) for place in first],
            }
        )
    return found


class _Moves:
    """The changes that values make in the rows that have them: of each value its id, rows and mean move."""

    def __init__(self, scores: Rescored, attribute: FittedAttribute) -> None:
        self.attribute = attribute
        given, self.names = numbers_of(scores.predictor, scores.logits)
        ids, changes = [np.zeros(0, dtype=np.int64)], [np.zeros((0, given.shape[1]))]
        for slot in range(*columns_of(attribute).indices(scores.rows.attribute_ids.shape[1])):
            own = scores.rows.attribute_ids[:, slot]
            without = scores.rows.attribute_ids.copy()
            without[:, slot] = 0
            rows = own > 0
            logits = scores.hidden([attribute]) if attribute.slots == 1 else scores.with_ids(without)
            numbers, _ = numbers_of(scores.predictor, logits)
            ids.append(own[rows])
            changes.append((given - numbers)[rows])
        every = np.concatenate(ids)
        order = np.argsort(every, kind="stable")
        self._changes = np.concatenate(changes)[order]
        self.values, self._starts, self.rows = np.unique(every[order], return_index=True, return_counts=True)
        largest = np.abs(self._changes).max(axis=1)
        self.moves = np.add.reduceat(largest, self._starts) / self.rows if len(every) else np.zeros(0)

    def of_value(self, place: int) -> dict[str, Any]:
        """The record of one value, by its place among ``values``."""
        value, rows = int(self.values[place]), int(self.rows[place])
        changes = self._changes[self._starts[place] : self._starts[place] + rows]
        means = changes.mean(axis=0)
        most = int(np.abs(means).argmax())
        low, high = _interval(changes[:, most])
        names = self.attribute.values
        return {
            "value": names[value - 1] if len(names) else f"id {value}",
            "rows": rows,
            "training_rows": int(self.attribute.counts[value]),
            "move": float(self.moves[place]),
            "of": self.names[most],
            "change": float(means[most]),
            "low": low,
            "high": high,
        }


def _interval(changes: Array) -> tuple[float, float]:
    """Percentile interval of a mean over rows; that of the normal distribution, which it is then, for many rows."""
    if len(changes) > _MANY:
        reach = 1.96 * changes.std() / len(changes) ** 0.5
        return float(changes.mean() - reach), float(changes.mean() + reach)
    drawn = np.random.default_rng(0).integers(len(changes), size=(_RESAMPLES, len(changes)))
    low, high = np.quantile(changes[drawn].mean(axis=1), [0.025, 0.975])
    return float(low), float(high)

"""The values that move predictions most."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from attribune.explaining.scores import Rescored, columns_of, numbers_of
from attribune.schema.attributes import FittedAttribute

__all__ = ["influential_values"]

_RESAMPLES = 2_000
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
        ids, rows = np.unique(moved.ids, return_counts=True)
        listed = [moved.of_value(int(value)) for value in ids[rows >= least]]
        found.append(
            {
                "attribute": attribute.name,
                "values": len(ids),
                "enough_rows": len(listed),
                "top": sorted(listed, key=lambda one: -one["move"])[:most],
            }
        )
    return found


class _Moves:
    """The change that each value makes in each row that has it: ids (m,), changes (m, k)."""

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
        self.ids, self.changes = np.concatenate(ids), np.concatenate(changes)

    def of_value(self, value: int) -> dict[str, Any]:
        changes = self.changes[self.ids == value]
        means = changes.mean(axis=0)
        place = int(np.abs(means).argmax())
        low, high = _interval(changes[:, place])
        values = self.attribute.values
        return {
            "value": values[value - 1] if len(values) else f"id {value}",
            "rows": len(changes),
            "training_rows": int(self.attribute.counts[value]),
            "move": float(np.abs(changes).max(axis=1).mean()),
            "of": self.names[place],
            "change": float(means[place]),
            "low": low,
            "high": high,
        }


def _interval(changes: Array) -> tuple[float, float]:
    """Percentile interval of a mean over rows."""
    drawn = np.random.default_rng(0).integers(len(changes), size=(_RESAMPLES, len(changes)))
    low, high = np.quantile(changes[drawn].mean(axis=1), [0.025, 0.975])
    return float(low), float(high)

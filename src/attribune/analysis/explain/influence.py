"""Influence of values: how far each moves the predictions of the rows that have it."""

from __future__ import annotations

from typing import Any

import numpy as np

from attribune.analysis.explain.scores import Rescored, numbers_of
from attribune.core.arrays import Array
from attribune.schema.attributes import FittedAttribute

__all__ = ["influential_values"]

_RESAMPLES = 2_000
_NORMAL_ROWS = 2_000  # with more rows, the mean is normally distributed


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
    predicted, names = numbers_of(scores.predictor, scores.logits)
    records = []
    for attribute in scores.predictor.schema:
        ids, changes = _changes(scores, attribute, predicted)
        values, starts, rows = np.unique(ids, return_index=True, return_counts=True)
        largest = np.abs(changes).max(axis=1)
        moves = np.add.reduceat(largest, starts) / rows if len(ids) else np.zeros(0)
        frequent = np.flatnonzero(rows >= min_rows)
        frequent = frequent[np.argsort(-moves[frequent], kind="stable")]
        listed = [
            {
                "value": attribute.values[values[index] - 1] if len(attribute.values) else f"id {values[index]}",
                "rows": int(rows[index]),
                "training_rows": int(attribute.counts[values[index]]),
                "move": float(moves[index]),
                **_largest_change(changes[starts[index] : starts[index] + rows[index]], names),
            }
            for index in frequent[:top].tolist()
        ]
        records.append(
            {"attribute": attribute.name, "values": len(values), "enough_rows": len(frequent), "top": listed}
        )
    return records


def _changes(scores: Rescored, attribute: FittedAttribute, predicted: Array) -> tuple[Array, Array]:
    """Return the ids of an attribute's values, sorted, and the changes (n, numbers) of predictions by each."""
    ids, changes = [np.zeros(0, dtype=np.int64)], [np.zeros((0, predicted.shape[1]))]
    for slot in range(*attribute.columns.indices(scores.rows.attribute_ids.shape[1])):
        own = scores.rows.attribute_ids[:, slot]
        without = scores.rows.attribute_ids.copy()
        without[:, slot] = 0
        logits = scores.hidden([attribute]) if attribute.slots == 1 else scores.with_ids(without)
        numbers, _ = numbers_of(scores.predictor, logits)
        ids.append(own[own > 0])
        changes.append((predicted - numbers)[own > 0])
    all_ids = np.concatenate(ids)
    order = np.argsort(all_ids, kind="stable")
    return all_ids[order], np.concatenate(changes)[order]


def _largest_change(changes: Array, names: list[str]) -> dict[str, Any]:
    """Describe the predicted number that changes most on average."""
    means = changes.mean(axis=0)
    column = int(np.abs(means).argmax())
    low, high = _interval(changes[:, column])
    return {"of": names[column], "change": float(means[column]), "low": low, "high": high}


def _interval(changes: Array) -> tuple[float, float]:
    """Return the 95 % bootstrap interval of a mean over rows; for many rows that of the normal distribution."""
    if len(changes) > _NORMAL_ROWS:
        margin = 1.96 * changes.std() / len(changes) ** 0.5
        return float(changes.mean() - margin), float(changes.mean() + margin)
    drawn = np.random.default_rng(0).integers(len(changes), size=(_RESAMPLES, len(changes)))
    low, high = np.quantile(changes[drawn].mean(axis=1), [0.025, 0.975])
    return float(low), float(high)

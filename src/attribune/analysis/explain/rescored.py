"""What attributes contribute: scores of the same texts with other attributes, by attribute, frequency and value.

Only rows that differ are scored again.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from attribune.analysis.diagnostics import RESAMPLES
from attribune.core.arrays import Array, FloatArray, IntArray
from attribune.data.clusters import Clusters, clustered
from attribune.data.readers.base import EncodedRows
from attribune.metrics.bootstrap import PairedResult, interval, paired
from attribune.metrics.formulas import pooled
from attribune.metrics.metric import Metric
from attribune.models.predictor import Predictor
from attribune.schema.attributes import FittedAttribute, counts_of_rows


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


_SHUFFLES = 3


def attribute_importance(scores: Rescored, labels: Array) -> list[dict[str, Any]]:
    """Measure the loss of every metric without each attribute, and without all where there are several.

    Returns:
        Name of the attribute (None: all), and under ``hidden`` and ``shuffled`` the loss of every metric: the metric
        with the attribute less that without it, negated where lower is better, with its 95 % interval. Shuffled
        values are permuted over the rows (permutation importance); the loss is the mean of three permutations, over
        which an interval draws the copies of a row as one.
    """
    attributes = list(scores.predictor.schema)
    groups: list[tuple[str | None, list[FittedAttribute]]] = [(attribute.name, [attribute]) for attribute in attributes]
    if len(attributes) > 1:
        groups.append((None, attributes))
    baseline, records = scores.metrics(scores.logits, labels), []
    keys = [np.arange(len(labels))] * _SHUFFLES
    copies = {name: pooled([metric] * _SHUFFLES, keys) for name, metric in baseline.items()}
    for name, group in groups:
        hidden = scores.metrics(scores.hidden(group), labels)
        shuffles = [scores.metrics(scores.shuffled(group, seed=seed), labels) for seed in range(_SHUFFLES)]
        shuffled = {metric: pooled([shuffle[metric] for shuffle in shuffles], keys) for metric in baseline}
        losses = {"hidden": _losses(baseline, hidden), "shuffled": _losses(copies, shuffled)}
        records.append({"attribute": name, **losses})
    return records


def _losses(baseline: Mapping[str, Metric], without: Mapping[str, Metric]) -> dict[str, Any]:
    return {name: asdict(_loss(metric, without[name])) for name, metric in baseline.items()}


def _loss(baseline: Metric, without: Metric) -> PairedResult:
    return paired(baseline, without) if baseline.higher_is_better else paired(without, baseline)


def importance_by_frequency(scores: Rescored, labels: Array, *, rare: int) -> list[dict[str, Any]]:
    """Measure the loss of the main metric without each attribute, on rows by how often their value was trained on.

    Args:
        rare: training rows that a rare value has at most.

    Returns:
        One record for each attribute and bin that has rows: ``unseen`` (unknown or missing), ``rare``, ``frequent``.
    """
    records, main = [], scores.predictor.task.main_metric
    for attribute in scores.predictor.schema:
        counts = counts_of_rows(attribute.counts, scores.rows.attribute_ids[:, attribute.columns])
        hidden = scores.hidden([attribute])
        for name, rows in _bins(counts, rare):
            if rows.any():
                baseline, without = (scores.metrics(logits, labels, rows)[main] for logits in (scores.logits, hidden))
                records.append(
                    {
                        "attribute": attribute.name,
                        "bin": name,
                        "rows": int(rows.sum()),
                        "given": asdict(interval(baseline)),
                        "hidden": asdict(_loss(baseline, without)),
                    }
                )
    return records


def _bins(counts: Array, rare: int) -> Iterator[tuple[str, Array]]:
    yield "unseen", counts == 0
    yield "rare", (counts > 0) & (counts <= rare)
    yield "frequent", counts > rare


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
    drawn = np.random.default_rng(0).integers(len(changes), size=(RESAMPLES, len(changes)))
    low, high = np.quantile(changes[drawn].mean(axis=1), [0.025, 0.975])
    return float(low), float(high)

"""Importance of attributes: the metrics lost when one is hidden, or permuted over the rows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict
from typing import Any

import numpy as np

from attribune.analysis.explain.scores import Rescored
from attribune.core.arrays import Array
from attribune.metrics.bootstrap import PairedResult, interval, paired
from attribune.metrics.formulas import pooled
from attribune.metrics.metric import Metric
from attribune.schema.attributes import FittedAttribute, counts_of_rows

__all__ = ["attribute_importance", "importance_by_frequency"]

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

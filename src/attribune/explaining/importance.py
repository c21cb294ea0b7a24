"""What each attribute contributes to the metrics: what is lost when it is hidden, or belongs to another row."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict
from typing import Any

import numpy as np
import numpy.typing as npt

from attribune.evaluation.bootstrap import PairedResult, interval, paired
from attribune.explaining.scores import Rescored, columns_of
from attribune.metrics import Metric, pooled
from attribune.schema.attributes import FittedAttribute, counts_of_rows
from attribune.tasks import Task

__all__ = ["attribute_losses", "frequency_bins"]

_SHUFFLES = 3
Array = npt.NDArray[Any]


def attribute_losses(scores: Rescored, labels: Array) -> list[dict[str, Any]]:
    """For each attribute, and for all where there are several, the metrics lost without it.

    Args:
        scores: of rows with labels.
        labels: as the task encodes them.

    Returns:
        Name of the attribute (None: all), and under ``hidden`` and ``shuffled`` for every metric what is lost: the
        metric as given less that without the attribute, turned round where lower is better, with its 95 % interval.
        Shuffled values are those of another row; the loss is the mean of three shuffles, over which an interval draws
        the copies of a row as one.
    """
    attributes, task = list(scores.predictor.schema), scores.predictor.task
    groups: list[tuple[str | None, list[FittedAttribute]]] = [(one.name, [one]) for one in attributes]
    if len(attributes) > 1:
        groups.append((None, attributes))
    given, found = task.metrics(scores.logits, labels), []
    for name, group in groups:
        hidden = task.metrics(scores.hidden(group), labels)
        dealt = [task.metrics(scores.shuffled(group, seed=seed), labels) for seed in range(_SHUFFLES)]
        keys = [np.arange(len(labels))] * _SHUFFLES
        copies = {metric: pooled([given[metric]] * _SHUFFLES, keys) for metric in given}
        shuffled = {metric: pooled([one[metric] for one in dealt], keys) for metric in given}
        found.append(
            {"attribute": name, "hidden": _losses(given, hidden), "shuffled": _losses(copies, shuffled)},
        )
    return found


def _losses(given: Mapping[str, Metric], without: Mapping[str, Metric]) -> dict[str, Any]:
    return {name: asdict(_lost(given[name], without[name])) for name in given}


def _lost(given: Metric, without: Metric) -> PairedResult:
    return paired(given, without) if given.higher_is_better else paired(without, given)


def frequency_bins(scores: Rescored, labels: Array, *, rare: int) -> list[dict[str, Any]]:
    """For each attribute, the main metric and what hiding it loses, on rows by how often their value was trained on.

    Args:
        scores: of rows with labels.
        labels: as the task encodes them.
        rare: training rows that a rare value has at most.

    Returns:
        One record for each attribute and bin that has rows: ``unseen`` (unknown or missing), ``rare``, ``frequent``.
    """
    found = []
    for attribute in scores.predictor.schema:
        counts = counts_of_rows(attribute.counts, scores.rows.attribute_ids[:, columns_of(attribute)])
        hidden = scores.hidden([attribute])
        for name, rows in _bins(counts, rare):
            if rows.any():
                figures = _figures(scores.predictor.task, scores.logits[rows], hidden[rows], labels[rows])
                found.append({"attribute": attribute.name, "bin": name, "rows": int(rows.sum())} | figures)
    return found


def _bins(counts: Array, rare: int) -> Iterator[tuple[str, Array]]:
    yield "unseen", counts == 0
    yield "rare", (counts > 0) & (counts <= rare)
    yield "frequent", counts > rare


def _figures(task: Task, given: Array, hidden: Array, labels: Array) -> dict[str, Any]:
    name = task.main_metric
    as_given, without = (task.metrics(logits, labels)[name] for logits in (given, hidden))
    return {"given": asdict(interval(as_given)), "hidden": asdict(_lost(as_given, without))}

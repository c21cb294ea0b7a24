"""The scores by which the models of a task are compared."""

from __future__ import annotations

from collections.abc import Iterable

from attribune.core.arrays import Array
from attribune.errors import ConfigError
from attribune.metrics.metric import Metric
from attribune.tasks.base import Task

__all__ = [
    "AUTO",
    "LOSS",
    "MAIN_METRIC",
    "scored_metrics",
    "selection_score",
    "unknown_selection",
    "validation_score",
]

AUTO, LOSS, MAIN_METRIC = "auto", "loss", "main_metric"
"""What may be named to select by, beside the metrics of a task."""


def scored_metrics(task: Task, logits: Array, labels: Array) -> dict[str, Metric]:
    """Return the main metric, the proper score, if the task has one, and the other metrics."""
    metrics, proper = task.metrics(logits, labels), task.proper_score(logits, labels)
    first = {task.main_metric: metrics[task.main_metric]}
    return first | metrics if proper is None else {**first, proper.name: proper, **metrics}


def selection_score(task: Task, logits: Array, labels: Array, *, by: str = LOSS) -> Metric:
    """Return the score of validation rows by which models are compared that were trained on the same rows.

    Args:
        by: ``auto`` and ``loss`` are the proper score of the task, which distinguishes models on few rows better than
            an accuracy, or the main metric of a task without one; ``main_metric``, or the name of a metric.

    Raises:
        ConfigError: for a metric that the task does not compute.
    """
    metrics = task.metrics(logits, labels)
    if by in (AUTO, LOSS):
        proper = task.proper_score(logits, labels)
        return metrics[task.main_metric] if proper is None else proper
    if by == MAIN_METRIC:
        return metrics[task.main_metric]
    if by not in metrics:
        raise unknown_selection(by, task, metrics)
    return metrics[by]


def unknown_selection(by: str, task: Task, computed: Iterable[str]) -> ConfigError:
    """Return the error for a name that is no metric of the task."""
    return ConfigError(
        f"training.select_by is {by!r}: write auto, loss, main_metric, or a metric of the task {task.kind!r}, "
        f"{', '.join(computed)}; others are computed where task.score_by names them"
    )


def validation_score(task: Task, logits: Array, labels: Array, *, by: str = LOSS) -> float:
    """Return `selection_score` with such a sign that lower is better."""
    metric = selection_score(task, logits, labels, by=by)
    return -metric.value() if metric.higher_is_better else metric.value()

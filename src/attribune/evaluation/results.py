"""Results of a run: intervals of every metric on every part, and the paired comparison with the other models."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy.typing as npt

from attribune.evaluation.bootstrap import Interval, interval, paired
from attribune.evaluation.report import ResultRow
from attribune.metrics import Metric
from attribune.tasks import Task

__all__ = ["Scored", "compare", "intervals", "result_rows", "results_of"]

Array = npt.NDArray[Any]


@dataclass(frozen=True, kw_only=True)
class Scored:
    """One model, or the majority class, and its metrics on each part.

    Args:
        name: as the table shows it.
        metrics: part (``validation``, ``test``) to metric name to metric.
    """

    name: str
    metrics: Mapping[str, Mapping[str, Metric]]


def intervals(metrics: Mapping[str, Metric]) -> dict[str, Interval]:
    """Each metric with its 95 % interval."""
    return {name: interval(metric) for name, metric in metrics.items()}


def results_of(models: Sequence[Scored]) -> list[dict[str, Any]]:
    """Results as JSON holds them, the models in order."""
    return [
        {
            "name": model.name,
            "parts": {
                part: {name: asdict(value) for name, value in intervals(metrics).items()}
                for part, metrics in model.metrics.items()
            },
        }
        for model in models
    ]


def compare(models: Sequence[Scored], task: Task, *, part: str) -> list[dict[str, Any]]:
    """The first model against each of the others, by the task's main metric, with the paired bootstrap.

    Returns:
        For each pair the names, the difference (first minus other), its 95 % interval and its two-sided p-value.
    """
    first, *others = models
    name = task.main_metric
    return [
        {
            "a": first.name,
            "b": other.name,
            "part": part,
            "metric": name,
            **asdict(paired(first.metrics[part][name], other.metrics[part][name])),
        }
        for other in others
    ]


def result_rows(results: Sequence[Mapping[str, Any]], *, part: str) -> list[ResultRow]:
    """Rows of the table of one part, from what `results_of` wrote."""
    return [
        ResultRow(
            name=result["name"],
            metrics={name: Interval(**value) for name, value in result["parts"][part].items()},
        )
        for result in results
        if part in result["parts"]
    ]

"""What tests of many tasks ask of them."""

from __future__ import annotations

import json
from collections.abc import Mapping

from attribune.metrics.metric import Metric
from attribune.tasks import Task, task_from_dict


def figures(metrics: Mapping[str, Metric]) -> dict[str, float]:
    """The value of each metric."""
    return {name: metric.value() for name, metric in metrics.items()}


def through_json(task: Task) -> Task:
    """The task as a folder gives it back."""
    return task_from_dict(json.loads(json.dumps(task.to_dict())))

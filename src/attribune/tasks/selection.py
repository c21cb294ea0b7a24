"""What settings are chosen by, on validation rows."""

from __future__ import annotations

from typing import Any

import numpy.typing as npt

from attribune.metrics.formulas import log_loss
from attribune.tasks import Task

__all__ = ["validation_score"]


def validation_score(task: Task, logits: npt.NDArray[Any], labels: npt.NDArray[Any]) -> float:
    """Return the log loss of one class per row, else the task's main metric, so turned that lower is better.

    The loss tells settings apart that an accuracy over few rows cannot.
    """
    if labels.ndim == 1 and labels.dtype.kind == "i":
        known = labels >= 0
        metric = log_loss(labels[known], logits[known])
    else:
        metric = task.metrics(logits, labels)[task.main_metric]
    return -metric.value() if metric.higher_is_better else metric.value()

"""By which metric of the validation rows the weights of a training are chosen."""

from __future__ import annotations

from attribune.metrics.definitions import MetricInfo, metric_info
from attribune.runs.recipe import TrainingRecipe
from attribune.tasks import Task
from attribune.tasks.scores import AUTO, LOSS, MAIN_METRIC, unknown_selection
from attribune.training.preparation import PreparedData

__all__ = ["check_selection", "selection_metric"]


def selection_metric(task: Task, settings: TrainingRecipe) -> MetricInfo:
    """Return the metric of ``training.select_by``: ``loss``, or one that the task computes."""
    named = {AUTO: LOSS if task.codec.has_comparable_loss else task.main_metric, MAIN_METRIC: task.main_metric}
    return metric_info(named.get(settings.select_by, settings.select_by))


def check_selection(settings: TrainingRecipe, data: PreparedData) -> None:
    """Check the metric before anything is trained.

    Raises:
        ConfigError: for one that the task does not compute.
    """
    if settings.select_by in (AUTO, LOSS, MAIN_METRIC):
        return
    computed = data.task.majority(data.splits["train"].labels, data.splits["validation"].labels)
    if settings.select_by not in computed:
        raise unknown_selection(settings.select_by, data.task, computed)

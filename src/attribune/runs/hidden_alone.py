"""What a model loses without a single attribute: the scores of the same rows with one attribute hidden at a time."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from datasets import Dataset

from attribune.core.arrays import Array
from attribune.data.clusters import Clusters, clustered
from attribune.metrics.metric import Metric
from attribune.metrics.results import GivenAndHidden
from attribune.models.predictor import Predictor
from attribune.tasks import Task

__all__ = ["hidden_alone", "judged_metrics"]

_ROWS = 10_000  # are scored again for each attribute


def judged_metrics(task: Task, logits: Array, labels: Array, clusters: Clusters) -> list[Metric]:
    """Return the metrics that a verdict reads: the proper score, if the task has one, and the main metric."""
    main, proper = task.metrics(logits, labels)[task.main_metric], task.proper_score(logits, labels)
    found = [main] if proper is None or proper.name == main.name else [proper, main]
    return list(clustered({metric.name: metric for metric in found}, clusters).values())


def hidden_alone(
    predictor: Predictor, table: Dataset, labels: Array, clusters: Clusters, logits: Array
) -> Mapping[str, GivenAndHidden]:
    """Return for each attribute `judged_metrics` with all attributes, and with this one hidden.

    Of more than 10,000 rows, as many are drawn at random, the same ones for all attributes.

    Args:
        logits: of all rows with their attributes.
    """
    task = predictor.task
    if len(table) > _ROWS:
        chosen = np.sort(np.random.default_rng(0).permutation(len(table))[:_ROWS])
        table, labels, logits = table.select(chosen), labels[chosen], logits[chosen]
        clusters = {name: kind[chosen] for name, kind in clusters.items()}
    given = judged_metrics(task, logits, labels, clusters)
    found = {}
    for name in predictor.schema.columns:
        without = predictor.logits(table, hide_attributes=[name])[0]
        found[name] = given, judged_metrics(task, without, labels, clusters)
    return found

"""Metrics of texts that several people judged: the distribution of their answers, and single judges."""

from __future__ import annotations

import numpy as np

from attribune.data.clusters import TEXT, Clusters
from attribune.metrics.distributions import distribution_metrics, judge_metrics, shares
from attribune.metrics.metric import Array, Metric
from attribune.tasks import Task

__all__ = ["judgement_metrics"]


def judgement_metrics(task: Task, logits: Array, labels: Array, clusters: Clusters) -> dict[str, Metric]:
    """Return the metrics of texts with several judgements; none where there are none, or no answer of several.

    What is predicted of a text is the mean over its judgements of the probabilities, each for its judge. Answers that
    no training row has are left out.

    Args:
        logits: (n, outputs).
        labels: (n,) of single answers; others have no such metrics.
        clusters: of the rows; those of texts, and of judges if there are any.
    """
    is_single = TEXT in clusters and np.ndim(labels) == 1
    probabilities = task.answer_probabilities(logits) if is_single else None
    if probabilities is None:
        return {}
    _, texts, counts = np.unique(clusters[TEXT], return_inverse=True, return_counts=True)
    texts = texts.reshape(-1)
    used = (counts[texts] > 1) & (labels >= 0)
    if not used.any():
        return {}
    probabilities, labels = probabilities[used], labels[used]
    _, texts = np.unique(texts[used], return_inverse=True)
    texts = texts.reshape(-1)
    sums = np.zeros((int(texts.max()) + 1, probabilities.shape[1]))
    np.add.at(sums, texts, probabilities)
    predicted = sums / np.bincount(texts)[:, None]
    true, positions = shares(labels, texts, answers=probabilities.shape[1]), task.positions
    guesses = probabilities.argmax(axis=1)
    if positions is None:
        name, errors = "error_rate", (guesses != labels).astype(np.float64)
    else:
        steps = np.abs(positions[guesses] - positions[labels]) / np.diff(positions).mean()
        name, errors = "absolute_distance", steps / len(positions)
    judges = next((kind[used] for which, kind in clusters.items() if which != TEXT), None)
    return distribution_metrics(true, predicted, positions=positions) | judge_metrics(
        errors, texts=texts, judges=judges, name=name
    )

"""What a run gets wrong: precision, recall and F1 of each class, and the rows with the largest loss."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from attribune.analysis.diagnostics import ScoredRows, chosen
from attribune.core.arrays import Array
from attribune.core.wording import prediction_text
from attribune.data.clusters import Clusters, clustered
from attribune.metrics.bootstrap import Interval, interval
from attribune.metrics.formulas import f1_of_counts, ratio
from attribune.tasks import Classification

__all__ = ["ClassFigures", "Mistake", "class_figures", "largest_mistakes"]

_RESAMPLES = 2_000
_CLASS_LIMIT = 30  # classes that are measured: those that most rows have


@dataclass(frozen=True, kw_only=True)
class ClassFigures:
    """How well one class is predicted.

    Args:
        head: the aspect; empty for a task with one choice, or with several labels.
        rows: rows of the class.
        precision: share of the rows predicted as the class that are of it; None where none is predicted.
        recall: share of its rows that are predicted as the class; None where there are none.
        f1: the harmonic mean of the two.
    """

    head: str
    name: str
    rows: int
    precision: Interval | None
    recall: Interval | None
    f1: Interval


@dataclass(frozen=True, kw_only=True)
class Mistake:
    """A row that is predicted wrongly.

    Args:
        row: its number among the scored rows, from 0.
        predicted: what is predicted, in words.
        probability: of the true class; None for a task with more than one choice, or without probabilities.
    """

    row: int
    predicted: str
    probability: float | None


def class_figures(scored_rows: ScoredRows) -> list[ClassFigures]:
    """Return precision, recall and F1 of each class, or of the thirty that most rows have; none for numbers and texts.

    Of several labels, each is a class, predicted where its probability is above one half. Soft labels count as their
    most frequent class.
    """
    return [
        _figures_of(head, name, true[:, column], predicted[:, column], scored_rows.clusters)
        for head, classes, true, predicted in _cells(scored_rows)
        for column in np.sort(np.argsort(-true.sum(axis=0), kind="stable")[:_CLASS_LIMIT]).tolist()
        for name in [classes[column]]
    ]


def _cells(scored_rows: ScoredRows) -> list[tuple[str, tuple[str, ...], Array, Array]]:
    """Return for each choice its name and classes, and (n, C) which classes are true and which are predicted."""
    return [
        (choice.name, choice.codec.classes, *choice.codec.cells(labels, logits, probabilities))
        for choice, labels, logits, probabilities in chosen(scored_rows)
    ]


def _figures_of(head: str, name: str, true: Array, predicted: Array, clusters: Clusters) -> ClassFigures:
    hits = true & predicted
    metrics = {"f1": f1_of_counts("f1", hits, predicted, true)}
    if predicted.any():
        metrics["precision"] = ratio("precision", hits, predicted)
    if true.any():
        metrics["recall"] = ratio("recall", hits, true)
    found = {key: interval(metric, resamples=_RESAMPLES) for key, metric in clustered(metrics, clusters).items()}
    return ClassFigures(
        head=head,
        name=name,
        rows=int(true.sum()),
        precision=found.get("precision"),
        recall=found.get("recall"),
        f1=found["f1"],
    )


def largest_mistakes(scored_rows: ScoredRows, *, limit: int) -> list[Mistake]:
    """Return the wrong rows with the largest loss, largest first; of a regression all rows are wrong.

    The loss is that of the task, without class weights: where a row has one class, minus the logarithm of the
    probability of that class. Labels that no training row has have no loss, and come last. Texts and tags of words have
    no mistakes here.
    """
    wrong = _wrong(scored_rows)
    if wrong is None or not wrong.any():
        return []
    import torch  # here, since tables are also read without it

    rows = np.flatnonzero(wrong)
    logits = torch.as_tensor(np.asarray(scored_rows.logits)[rows], dtype=torch.float32)
    task = scored_rows.task
    task = replace(task, class_weights=None) if isinstance(task, Classification) else task
    losses = task.row_losses(logits, torch.as_tensor(np.asarray(scored_rows.labels)[rows])).numpy()
    rows = rows[np.argsort(-losses, kind="stable")[:limit]]
    decoded = scored_rows.task.decode(scored_rows.logits[rows]).predictions
    return [
        Mistake(
            row=row,
            predicted=prediction_text(
                {name.removeprefix("prediction_"): values[place] for name, values in decoded.items()}
            ),
            probability=_probability(scored_rows, row),
        )
        for place, row in enumerate(rows.tolist())
    ]


def _wrong(scored_rows: ScoredRows) -> Array | None:
    """Return (n,) which rows are predicted wrongly; None for a task that does not say."""
    task = scored_rows.task
    if not task.codec.choices:
        numbers = task.codec.numbers(np.asarray(scored_rows.labels))
        return None if numbers is None else np.ones(len(scored_rows), dtype=bool)
    wrong = [(true != predicted).any(axis=1) for _, _, true, predicted in _cells(scored_rows)]
    return np.asarray(np.any(wrong, axis=0))


def _probability(scored_rows: ScoredRows, row: int) -> float | None:
    task, logits = scored_rows.task, scored_rows.logits[[row]]
    probabilities = task.codec.answers(logits)
    if probabilities is None or not task.codec.choices:
        return None
    (choice,) = task.codec.choices
    (label,) = choice.codec.true_classes(np.asarray(scored_rows.labels)[[row]], logits)
    return float(probabilities[0, label]) if label >= 0 else None

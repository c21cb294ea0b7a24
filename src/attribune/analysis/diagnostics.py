"""Diagnostics of a run's predictions on labelled rows: confusion matrices, calibration, the metric by group of rows.

Calibration is measured in bins that hold about as many predictions each (Nixon et al. 2019, adaptive calibration
error); its mean gap over the bins is the expected calibration error of Guo et al. 2017.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Literal

import numpy as np
from scipy import sparse

from attribune.core.arrays import Array
from attribune.core.wording import prediction_text
from attribune.data.clusters import Clusters, clustered
from attribune.metrics.bootstrap import Interval, interval
from attribune.metrics.formulas import f1_of_counts, mean_of, ratio
from attribune.metrics.metric import Metric
from attribune.metrics.results import LEAST_ROWS, count_ranges, range_name
from attribune.schema.attributes import FittedAttribute
from attribune.tasks import Classification, Task
from attribune.tasks.codecs import Choice

RESAMPLES = 2_000
"""Of the intervals of diagnostics, of which there are many."""
_BINS = 10
VALUE_LIMIT = 50
"""Values of an attribute that are analysed: the most frequent in the rows."""
_DRAWS, _DRAW_CHUNK = 10_000, 500
_CELLS = 2_000_000  # numbers in an array of draws; those of a correlation are as many as there are rows


@dataclass(frozen=True, kw_only=True)
class ScoredRows:
    """Labelled rows with the scores of a run.

    Args:
        logits: (n, outputs).
        labels: as the task encodes them.
        counts: numbers (n,) by which rows are grouped, such as the words of each text, by name.
        ids: (n, slots) of attributes; None where they are not known.
        hidden: (n, outputs) logits with every attribute hidden; None where they are not known.
        clusters: those of rows that are not independent.
    """

    task: Task
    logits: Array
    labels: Array
    counts: Mapping[str, Array]
    ids: Array | None = None
    hidden: Array | None = None
    clusters: Clusters = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.labels)

    def select(self, mask: Array) -> ScoredRows:
        """Return the rows for which a mask (n,) holds, or those of some numbers."""
        return replace(
            self,
            logits=self.logits[mask],
            labels=self.labels[mask],
            counts={name: values[mask] for name, values in self.counts.items()},
            ids=None if self.ids is None else self.ids[mask],
            hidden=None if self.hidden is None else self.hidden[mask],
            clusters={name: kind[mask] for name, kind in self.clusters.items()},
        )

    @cached_property
    def metric(self) -> Metric:
        """The main metric of the task."""
        return self._metric(self.logits)

    def metric_of(self, mask: Array) -> Metric:
        """Return the main metric of the rows for which a mask (n,) holds; ranks are those among the texts of all."""
        return self.metric.select(mask) if len(self.metric) == len(self) else self.select(mask).metric

    def hidden_metric(self) -> Metric | None:
        """Return the same with every attribute hidden."""
        return None if self.hidden is None else self._metric(self.hidden)

    def _metric(self, logits: Array) -> Metric:
        return clustered(self.task.metrics(logits, self.labels), self.clusters)[self.task.main_metric]


@dataclass(frozen=True, kw_only=True)
class Head:
    """The predictions of one choice among classes.

    Args:
        name: of the aspect; empty for a task with one choice.
        true: (n,) class ids; below 0 for a label that no training row has.
        probabilities: (n, C).
    """

    name: str
    classes: tuple[str, ...]
    true: Array
    probabilities: Array

    @property
    def predicted(self) -> Array:
        """The predicted class ids (n,)."""
        return np.asarray(self.probabilities.argmax(axis=1))

    def confusion(self) -> Array:
        """Count rows (C, C) by true and predicted class; labels that no training row has are left out."""
        known = self.true >= 0
        labels = range(len(self.classes))
        from sklearn.metrics import confusion_matrix  # half a second to import, and rarely needed

        return np.asarray(confusion_matrix(self.true[known], self.predicted[known], labels=labels))


def heads(scored_rows: ScoredRows) -> list[Head]:
    """Return the choices that a task makes for each row; none for numbers, multi-label tasks and texts."""
    return [
        Head(
            name=choice.name,
            classes=choice.codec.classes,
            true=choice.codec.true_classes(labels, logits),
            probabilities=probabilities,
        )
        for choice, labels, logits, probabilities in chosen(scored_rows)
        if choice.codec.has_one_class
    ]


def chosen(scored_rows: ScoredRows) -> Iterator[tuple[Choice, Array, Array, Array]]:
    """Yield each choice of the task with its own labels, logits and probabilities."""
    task = scored_rows.task
    probabilities = task.decode(scored_rows.logits).probabilities if task.codec.choices else None
    for choice in task.codec.choices:
        assert probabilities is not None
        labels = choice.labels(np.asarray(scored_rows.labels))
        yield choice, labels, choice.scores(scored_rows.logits), choice.scores(probabilities)


@dataclass(frozen=True, kw_only=True)
class Bin:
    """A group of rows, named by the range of what they are grouped by.

    Args:
        rows: number of rows.
        figure: their main metric; for calibration the share or number that is true.
        predicted: for calibration, the mean of the predictions.
    """

    name: str
    rows: int
    figure: Interval
    predicted: float = 0.0


@dataclass(frozen=True, kw_only=True)
class Calibration:
    """Predictions compared with what is true.

    Args:
        quantity: the probability of the predicted class or of each label, or the predicted number.
        bins: from low to high predictions.
        gap: the mean of predictions less truth, with its interval.
        error: the mean distance of the two over the bins, weighted by rows: the expected calibration error.
    """

    quantity: Literal["probability", "number"]
    bins: tuple[Bin, ...]
    gap: Interval
    error: float


def calibration(scored_rows: ScoredRows) -> Calibration | None:
    """Compare predictions with what is true; None for texts and for fewer than twenty rows."""
    pair = _predicted_and_true(scored_rows)
    if pair is None or len(pair[0]) < LEAST_ROWS:
        return None
    return compared_in_bins(*pair, quantity="probability" if scored_rows.task.codec.choices else "number")


def compared_in_bins(predicted: Array, true: Array, *, quantity: Literal["probability", "number"]) -> Calibration:
    """Compare predictions with what is true, (n,) each, in bins of about equal size."""
    order = np.argsort(predicted, kind="stable")
    bins = tuple(
        Bin(
            name=f"{predicted[rows[0]]:.3g} to {predicted[rows[-1]]:.3g}",
            rows=len(rows),
            figure=interval(mean_of("true", true[rows]), resamples=RESAMPLES),
            predicted=float(predicted[rows].mean()),
        )
        for rows in np.array_split(order, min(_BINS, max(1, len(predicted) // LEAST_ROWS)))
    )
    return Calibration(
        quantity=quantity,
        bins=bins,
        gap=interval(mean_of("gap", predicted - true), resamples=RESAMPLES),
        error=float(sum(one.rows * abs(one.predicted - one.figure.value) for one in bins) / len(predicted)),
    )


def _predicted_and_true(scored_rows: ScoredRows) -> tuple[Array, Array] | None:
    if pairs := [
        choice.codec.calibrated(labels, probabilities) for choice, labels, _, probabilities in chosen(scored_rows)
    ]:
        predicted, true = map(np.concatenate, zip(*pairs, strict=True))
        return predicted, true
    task = scored_rows.task
    numbers = task.codec.numbers(np.asarray(scored_rows.labels))
    if numbers is None:
        return None
    return np.asarray(task.decode(scored_rows.logits).predictions["prediction"], dtype=np.float64), numbers


def row_bins(scored_rows: ScoredRows) -> dict[str, list[Bin]]:
    """Return the main metric over bins of rows by each of their counts; counts that make one bin are left out."""
    bins = {}
    for name, counts in scored_rows.counts.items():
        ranges = count_ranges(counts)
        if len(ranges) > 1:
            masks = {range_name(low, high): (counts >= low) & (counts <= high) for low, high in ranges}
            bins[name] = [
                Bin(
                    name=label,
                    rows=int(mask.sum()),
                    figure=interval(scored_rows.metric_of(mask), resamples=RESAMPLES),
                )
                for label, mask in masks.items()
            ]
    return bins


@dataclass(frozen=True, kw_only=True)
class ValueFigure:
    """The main metric, ``figure``, on the rows with one value of an attribute.

    ``low`` and ``high`` are the ends of the range of the metric over as many rows that are drawn at random from all.
    """

    value: str
    rows: int
    figure: float
    low: float
    high: float

    @property
    def stands_out(self) -> bool:
        """Whether rows drawn at random would show another metric."""
        return not self.low <= self.figure <= self.high


def value_figures(scored_rows: ScoredRows, attribute: FittedAttribute) -> list[ValueFigure]:
    """Return the main metric on the rows of each of the most frequent values with twenty rows or more, lowest first.

    The ranges are widened for the number of values that are analysed: the share of random draws within each is
    1 - 0.05 / values (Bonferroni).
    """
    if scored_rows.ids is None:
        return []
    ids = scored_rows.ids[:, attribute.columns]
    row_counts = np.bincount(ids.reshape(-1), minlength=len(attribute.values) + 1)[1 : len(attribute.values) + 1]
    by_rows = np.argsort(-row_counts, kind="stable").tolist()
    frequent = [index for index in by_rows if row_counts[index] >= LEAST_ROWS][:VALUE_LIMIT]
    metric, figures, rng = scored_rows.metric, [], np.random.default_rng(0)
    for index in frequent:
        mask = (ids == index + 1).any(axis=1)
        rows, figure = int(mask.sum()), scored_rows.metric_of(mask).value()
        low, high = random_row_range(metric, rows, rng, tests=len(frequent))
        value = str(attribute.values[index])
        figures.append(ValueFigure(value=value, rows=rows, figure=figure, low=low, high=high))
    return sorted(figures, key=lambda item: item.figure)


def random_row_range(metric: Metric, rows: int, rng: np.random.Generator, *, tests: int) -> tuple[float, float]:
    """Return the ends between which the metric of `rows` rows is that are drawn from all with replacement.

    Args:
        tests: number of ranges that are looked at together; the share of draws within each is 1 - 0.05 / tests.
    """
    tail = 0.025 / tests
    draws = _random_row_values(metric, rows, rng)
    low, high = np.quantile(draws, [tail, 1 - tail], method="closest_observation").tolist()
    return low, high


def _random_row_values(metric: Metric, rows: int, rng: np.random.Generator) -> Array:
    groups, size = metric.statistics.shape
    step, values = max(1, min(_DRAW_CHUNK, _CELLS // size)), []
    for _ in range(_DRAWS // _DRAW_CHUNK):
        drawn = metric.rows[rng.integers(len(metric), size=(_DRAW_CHUNK, rows))]
        for start in range(0, _DRAW_CHUNK, step):
            some = drawn[start : start + step]
            place = np.repeat(np.arange(len(some)), rows), some.reshape(-1)
            sums = sparse.csr_array((np.ones(some.size), place), shape=(len(some), groups)) @ metric.statistics
            values.append(metric.formula((sums.toarray() if sparse.issparse(sums) else sums) / rows))
    return np.concatenate(values)


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
    found = {key: interval(metric, resamples=RESAMPLES) for key, metric in clustered(metrics, clusters).items()}
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

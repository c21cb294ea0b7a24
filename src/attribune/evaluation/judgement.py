"""What the predictions of a run are like on labelled rows: what is taken for what, how sure, and for which rows.

Calibration is measured in bins that hold about as many predictions each (Nixon et al. 2019, adaptive calibration
error); its mean gap over the bins is the expected calibration error of Guo et al. 2017.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import sparse

from attribune.evaluation.bins import LEAST_ROWS, count_ranges, range_name
from attribune.evaluation.bootstrap import Interval, interval
from attribune.metrics import Metric, mean_of
from attribune.schema.attributes import FittedAttribute
from attribune.tasks import Aspects, Classification, Rating, Regression, Task

__all__ = ["Bin", "Calibration", "Head", "Judged", "ValueFigure", "calibration", "heads", "row_bins", "value_figures"]

Array = npt.NDArray[Any]
_RESAMPLES = 2_000
_BINS = 10
_MOST_VALUES = 50  # of an attribute, the most frequent in the rows
_DRAWS, _DRAWN_AT_ONCE = 10_000, 500


@dataclass(frozen=True, kw_only=True)
class Judged:
    """Rows with labels and what a run says of them.

    Args:
        task: of the run.
        logits: (n, outputs).
        labels: as the task encodes them.
        counts: what is known of a row beside its label, by what is counted, (n,) each.
        ids: (n, slots) of attributes; None where they are not known.
    """

    task: Task
    logits: Array
    labels: Array
    counts: Mapping[str, Array]
    ids: Array | None = None

    def __len__(self) -> int:
        """Number of rows."""
        return len(self.labels)

    def picked(self, rows: Array) -> Judged:
        """Some of the rows, by a mask (n,)."""
        return replace(
            self,
            logits=self.logits[rows],
            labels=self.labels[rows],
            counts={name: values[rows] for name, values in self.counts.items()},
            ids=None if self.ids is None else self.ids[rows],
        )

    def figure(self) -> Interval:
        """The main metric with its interval."""
        return interval(self.task.metrics(self.logits, self.labels)[self.task.main_metric], resamples=_RESAMPLES)


@dataclass(frozen=True, kw_only=True)
class Head:
    """One choice among classes.

    Args:
        name: of the aspect; empty where there is one choice alone.
        classes: their names.
        true: (n,) class ids; below 0 for a label that no training row has.
        probabilities: (n, C).
    """

    name: str
    classes: tuple[str, ...]
    true: Array
    probabilities: Array

    @property
    def predicted(self) -> Array:
        """Class ids (n,)."""
        return np.asarray(self.probabilities.argmax(axis=1))

    def confusion(self) -> Array:
        """Rows (C, C) of each true class, by what was predicted; labels that no training row has are left out."""
        found = np.zeros((len(self.classes), len(self.classes)), dtype=np.int64)
        known = self.true >= 0
        np.add.at(found, (self.true[known], self.predicted[known]), 1)
        return found


def heads(judged: Judged) -> list[Head]:
    """The choices that a task makes for each row; none for numbers, for several labels at once, and for texts."""
    task, labels = judged.task, np.asarray(judged.labels)
    if isinstance(task, Aspects):
        names, lists, columns = task.names, task.class_lists, list(labels.T)
    elif isinstance(task, Rating) or (isinstance(task, Classification) and not task.multi_label):
        classes = task.class_names if isinstance(task, Classification) else task.classes
        names, lists, columns = ("",), (classes,), [labels]
    else:
        return []
    probabilities = task.decode(judged.logits).probabilities
    assert probabilities is not None
    ends = np.cumsum([len(classes) for classes in lists])[:-1]
    return [
        Head(name=name, classes=classes, true=true, probabilities=one)
        for name, classes, true, one in zip(names, lists, columns, np.split(probabilities, ends, axis=1), strict=True)
    ]


@dataclass(frozen=True, kw_only=True)
class Bin:
    """Some of the rows and a figure over them.

    Args:
        name: of the bin.
        rows: how many.
        figure: with its interval.
        said: what was announced on average, for calibration.
    """

    name: str
    rows: int
    figure: Interval
    said: float = 0.0


@dataclass(frozen=True, kw_only=True)
class Calibration:
    """What is said beside what comes true.

    Args:
        of: what is said: ``probability`` of being right or of a label, or a ``number``.
        bins: from low to high.
        gap: the mean of what is said less what is true, with its interval.
        error: the mean distance of the two over the bins, weighted by rows.
    """

    of: str
    bins: tuple[Bin, ...]
    gap: Interval
    error: float


def calibration(judged: Judged) -> Calibration | None:
    """How far what a run says is what comes true; None for texts and for fewer than twenty rows."""
    pair = _said_and_true(judged)
    if pair is None or len(pair[1]) < LEAST_ROWS:
        return None
    of, said, true = pair
    order = np.argsort(said, kind="stable")
    parts = np.array_split(order, min(_BINS, max(1, len(said) // LEAST_ROWS)))
    bins = tuple(
        Bin(
            name=f"{said[part[0]]:.3g} to {said[part[-1]]:.3g}",
            rows=len(part),
            figure=interval(mean_of("true", true[part]), resamples=_RESAMPLES),
            said=float(said[part].mean()),
        )
        for part in parts
    )
    error = sum(one.rows * abs(one.said - one.figure.value) for one in bins) / len(said)
    gap = interval(mean_of("gap", said - true), resamples=_RESAMPLES)
    return Calibration(of=of, bins=bins, gap=gap, error=float(error))


def _said_and_true(judged: Judged) -> tuple[str, Array, Array] | None:
    task, labels = judged.task, np.asarray(judged.labels)
    if found := heads(judged):
        said = np.concatenate([head.probabilities.max(axis=1) for head in found])
        return "probability", said, np.concatenate([head.predicted == head.true for head in found]).astype(np.float64)
    if isinstance(task, Classification):  # several labels: of each its own
        each = task.decode(judged.logits).probabilities
        assert each is not None
        return "probability", each.reshape(-1), (labels[:, : task.outputs] > 0).reshape(-1).astype(np.float64)
    if isinstance(task, Regression):
        said = np.asarray(task.decode(judged.logits).predictions["prediction"], dtype=np.float64)
        return "number", said, labels.reshape(-1).astype(np.float64) * task.std + task.mean
    return None


def row_bins(judged: Judged) -> dict[str, list[Bin]]:
    """The main metric over bins of rows by each of their counts; what makes fewer than two bins is left out."""
    found = {}
    for name, counts in judged.counts.items():
        masks = {range_name(low, high): (counts >= low) & (counts <= high) for low, high in count_ranges(counts)}
        if len(masks) > 1:
            found[name] = [
                Bin(name=of, rows=int(mask.sum()), figure=judged.picked(mask).figure()) for of, mask in masks.items()
            ]
    return found


@dataclass(frozen=True, kw_only=True)
class ValueFigure:
    """The main metric on the rows of one value.

    Args:
        value: which.
        rows: that have it.
        figure: on these rows.
        low: of the range in which the figure of as many rows would lie that are drawn at random from all.
        high: of it.
    """

    value: str
    rows: int
    figure: float
    low: float
    high: float

    @property
    def stands_out(self) -> bool:
        """Whether the figure is not what rows drawn at random would show."""
        return not self.low <= self.figure <= self.high


def value_figures(judged: Judged, attribute: FittedAttribute) -> list[ValueFigure]:
    """The main metric on the rows of each of the most frequent values with twenty rows or more, the lowest first.

    The ranges are widened for the number of values that are looked at: the share of random draws within each is
    1 - 0.05 / values (Bonferroni).
    """
    if judged.ids is None:
        return []
    ids = judged.ids[:, attribute.start : attribute.start + attribute.slots]
    rows_of = np.bincount(ids.reshape(-1), minlength=len(attribute.values) + 1)[1 : len(attribute.values) + 1]
    many = [place for place in np.argsort(-rows_of, kind="stable").tolist() if rows_of[place] >= LEAST_ROWS]
    metric = judged.task.metrics(judged.logits, judged.labels)[judged.task.main_metric]
    found, rng = [], np.random.default_rng(0)
    for place in many[:_MOST_VALUES]:
        rows = (ids == place + 1).any(axis=1)
        drawn = _of_random_rows(metric, int(rows.sum()), rng)
        beyond = 0.025 / len(many[:_MOST_VALUES])
        low, high = np.quantile(drawn, [beyond, 1 - beyond], method="closest_observation").tolist()
        mine = judged.picked(rows)
        figure = judged.task.metrics(mine.logits, mine.labels)[metric.name].value()
        found.append(ValueFigure(value=str(attribute.values[place]), rows=len(mine), figure=figure, low=low, high=high))
    return sorted(found, key=lambda one: one.figure)


def _of_random_rows(metric: Metric, rows: int, rng: np.random.Generator) -> Array:
    """The metric of many sets of so many rows, drawn from all with replacement."""
    statistics = metric.statistics.toarray() if sparse.issparse(metric.statistics) else metric.statistics
    parts = []
    for _ in range(_DRAWS // _DRAWN_AT_ONCE):
        drawn = metric.rows[rng.integers(len(metric), size=(_DRAWN_AT_ONCE, rows))]
        parts.append(metric.formula(statistics[drawn].mean(axis=1)))
    return np.concatenate(parts)

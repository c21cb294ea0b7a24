"""The judgements of texts that several people judged, and how far these people disagree, as seen and as predicted.

Shapes: n judgements, T texts, K answers.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from attribune.analysis.diagnostics import RESAMPLES, Calibration, ScoredRows, compared_in_bins
from attribune.core.arrays import DoubleArray, IntArray
from attribune.data.clusters import TEXT, Clusters
from attribune.metrics.bootstrap import Interval, interval
from attribune.metrics.distributions import answer_distances, expected_distances, mean_differences
from attribune.metrics.formulas import mean_of, spearman
from attribune.metrics.results import LEAST_ROWS
from attribune.tasks import Regression, Task

_DIGITS = 4  # of labels that were standardised in single precision, in standard deviations


@dataclass(frozen=True, kw_only=True)
class Judgements:
    """Judgements of texts that two people or more judged, one for each person and text.

    Args:
        rows: (n,) their rows among those that were scored.
        texts: (n,) numbers of texts, 0 to T - 1.
        judges: (n,) what tells judges apart; None where it is not known.
        answers: (n,) numbers of answers; None for a regression.
        numbers: (n,) answers as numbers: those of ordered ones, or 1 for the second of two; None for classes without
            an order.
        probabilities: (n, K) predicted ones; None for a regression.
        predicted: (n,) predicted numbers of a regression.
        repeated: judgements that were left out, as those of a text that the same person had judged before.
    """

    task: Task
    rows: IntArray
    texts: IntArray
    judges: npt.NDArray[np.uint64] | None
    answers: IntArray | None
    numbers: DoubleArray | None
    probabilities: DoubleArray | None
    predicted: DoubleArray | None
    repeated: int

    @property
    def is_ordered(self) -> bool:
        """Whether answers are numbers, and not classes."""
        return self.answers is None or self.task.codec.positions is not None

    def differences(self) -> tuple[DoubleArray, DoubleArray]:
        """Return how far the people of each text disagree, as seen and as predicted, (T,) each.

        That is the mean distance of the answers of two of them: 1 for different classes, the difference of numbers.
        What is predicted of two people is what the model says of each. A regression says no more than two numbers.
        """
        if self.answers is None:
            assert self.numbers is not None
            assert self.predicted is not None
            return mean_differences(self.numbers, self.texts), mean_differences(self.predicted, self.texts)
        assert self.probabilities is not None
        answers = self.probabilities.shape[1]
        distances = answer_distances(answers, self.task.codec.positions)
        seen = expected_distances(np.identity(answers)[self.answers], self.texts, distances)
        return seen, expected_distances(self.probabilities, self.texts, distances)


def judge_column(clusters: Clusters) -> str | None:
    """Return the name of the column that says who judged a text, if one is known."""
    return next((name for name in clusters if name != TEXT), None)


def find_judgements(scored_rows: ScoredRows) -> Judgements | str:
    """Find the judgements of texts that several people judged, or say in a sentence why there are none."""
    task, labels, clusters = scored_rows.task, np.asarray(scored_rows.labels), scored_rows.clusters
    if TEXT not in clusters:
        return (
            "People who judge the same texts are not compared: fewer than a tenth of these rows share their text "
            "with another row, or evaluation.cluster does not name it."
        )
    has_numbers = task.codec.answers(scored_rows.logits[:1]) is None
    if labels.ndim != 1 or (has_numbers and task.codec.numbers(labels) is None):
        return "People who judge the same texts are compared for one answer of several or one number alone."
    known = np.flatnonzero(np.isfinite(labels) if has_numbers else labels >= 0)
    column = judge_column(clusters)
    rows = known if column is None else _first_of_each(known, clusters[TEXT], clusters[column])
    repeated = len(known) - len(rows)
    _, which, counts = np.unique(clusters[TEXT][rows], return_inverse=True, return_counts=True)
    rows = rows[counts[which.reshape(-1)] > 1]
    if not len(rows):
        return "People who judge the same texts are not compared: no text was judged by two of them."
    answers = None if has_numbers else labels[rows].astype(np.int64)
    return Judgements(
        task=task,
        rows=rows,
        texts=np.unique(clusters[TEXT][rows], return_inverse=True)[1].reshape(-1),
        judges=None if column is None else clusters[column][rows],
        answers=answers,
        numbers=_numbers(task, labels[rows], answers),
        probabilities=None if has_numbers else task.codec.answers(scored_rows.logits[rows]),
        predicted=np.asarray(task.decode(scored_rows.logits[rows]).predictions["prediction"], dtype=np.float64)
        if has_numbers
        else None,
        repeated=repeated,
    )


def _first_of_each(rows: IntArray, texts: npt.NDArray[np.uint64], judges: npt.NDArray[np.uint64]) -> IntArray:
    """Return the first row of each text and judge."""
    _, first = np.unique(np.stack([texts[rows], judges[rows]]), axis=1, return_index=True)
    return rows[np.sort(first)]


def _numbers(task: Task, labels: npt.NDArray[np.generic], answers: IntArray | None) -> DoubleArray | None:
    if isinstance(task, Regression):
        # Equal answers must stay equal, which rounding errors would tell apart.
        decimals = _DIGITS - math.floor(math.log10(task.std))
        return np.round(labels.astype(np.float64) * task.std + task.mean, decimals)
    assert answers is not None
    if task.codec.positions is not None:
        return np.asarray(task.codec.positions[answers], dtype=np.float64)
    return answers.astype(np.float64) if task.outputs == 2 else None


@dataclass(frozen=True, kw_only=True)
class TextFigures:
    """How far the people of each text disagree, see `Judgements.differences`.

    Args:
        rows: (T,) a row of each text.
        counts: (T,) judgements.
        seen: (T,).
        predicted: (T,).
        mean: of what is seen.
        calibration: of what is predicted; None for fewer than twenty texts.
        correlation: the rank correlation of both over the texts; None for fewer than twenty texts, and where one of
            the two is the same for all.
    """

    rows: IntArray
    counts: IntArray
    seen: DoubleArray
    predicted: DoubleArray
    mean: Interval
    calibration: Calibration | None
    correlation: Interval | None


def text_figures(judgements: Judgements) -> TextFigures:
    """Compare the disagreement about each text that is predicted with that which is seen.

    Intervals are over texts, of which each has all of its judgements.
    """
    seen, predicted = judgements.differences()
    is_many = len(seen) >= LEAST_ROWS
    quantity: Literal["number", "probability"] = "number" if judgements.is_ordered else "probability"
    varies = is_many and np.ptp(seen) > 0 and np.ptp(predicted) > 1e-9
    return TextFigures(
        rows=judgements.rows[np.unique(judgements.texts, return_index=True)[1]],
        counts=np.bincount(judgements.texts),
        seen=seen,
        predicted=predicted,
        mean=interval(mean_of("disagreement", seen), resamples=RESAMPLES),
        calibration=compared_in_bins(predicted, seen, quantity=quantity) if is_many else None,
        correlation=interval(spearman(seen, predicted), resamples=RESAMPLES) if varies else None,
    )

"""Single judges: how their answers differ from those of others, and how well a model predicts them.

The judges that are analysed are the most frequent ones with twenty judgements or more. Ranges are widened for their
number (Bonferroni), as those of `value_figures`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from attribune.analysis.diagnostics import RESAMPLES, VALUE_LIMIT, ScoredRows, random_row_range
from attribune.analysis.judgements import Judgements, judge_column
from attribune.core.arrays import DoubleArray, IntArray
from attribune.metrics.bootstrap import Interval, PairedResult, interval, paired
from attribune.metrics.distributions import others_means, shrunken_means, spread
from attribune.metrics.formulas import mean_of
from attribune.metrics.metric import Metric
from attribune.metrics.results import LEAST_ROWS
from attribune.schema.attributes import FittedAttribute


@dataclass(frozen=True, kw_only=True)
class RangedFigure:
    """A figure of a judge with its interval, and the range of the same figure of as many random rows.

    Args:
        value: of the judge's rows.
        interval: of the judge; for a bias its value is shrunken, and no resamples were drawn.
    """

    value: float
    interval: Interval
    low: float
    high: float

    @property
    def stands_out(self) -> bool:
        """Whether rows drawn at random would show another figure."""
        return self.distance > 0

    @property
    def distance(self) -> float:
        """How far the figure is outside of the range; 0 or less within."""
        return max(self.low - self.value, self.value - self.high)


@dataclass(frozen=True, kw_only=True)
class JudgeAnswers:
    """A judge's answers beside those of others to the same texts.

    Args:
        row: one of the judge among those that were scored.
        rows: judgements of texts that others judged.
        bias: the mean difference to the mean answer of the others; None for classes without an order.
        consistency: for classes the share of the others who gave the same answer, for numbers the standard deviation of
            the differences.
    """

    row: int
    rows: int
    bias: RangedFigure | None
    consistency: RangedFigure


def judge_answers(judgements: Judgements) -> list[JudgeAnswers]:
    """Compare the answers of each judge with those of others, the lowest first."""
    if judgements.judges is None:
        return []
    chosen = _frequent(judgements.judges)
    rng, numbers = np.random.default_rng(0), judgements.numbers
    differences = None if numbers is None else numbers - others_means(numbers, judgements.texts)
    bias = None if differences is None else _biases(differences, chosen, rng)
    if judgements.is_ordered:
        assert differences is not None
        consistency = _spreads(differences, chosen, rng)
    else:
        assert judgements.answers is not None
        same = _same_answers(judgements.answers, judgements.texts)
        consistency = _ranged([mean_of("agreement", same[rows]) for rows in chosen], mean_of("agreement", same), rng)
    found = [
        JudgeAnswers(
            row=int(judgements.rows[rows[0]]),
            rows=len(rows),
            bias=None if bias is None else bias[number],
            consistency=consistency[number],
        )
        for number, rows in enumerate(chosen)
    ]
    return sorted(found, key=lambda one: one.consistency.value if one.bias is None else one.bias.interval.value)


def _frequent(judges: npt.NDArray[np.uint64]) -> list[IntArray]:
    """Return the rows of each of the most frequent judges."""
    _, which, counts = np.unique(judges, return_inverse=True, return_counts=True)
    which = which.reshape(-1)
    by_rows = np.argsort(-counts, kind="stable")[:VALUE_LIMIT].tolist()
    return [np.flatnonzero(which == judge) for judge in by_rows if counts[judge] >= LEAST_ROWS]


def _same_answers(answers: IntArray, texts: IntArray) -> DoubleArray:
    """Return the share of the others of a text who gave the same answer, for each judgement."""
    others = others_means(np.identity(int(answers.max()) + 1)[answers], texts)
    return np.asarray(np.take_along_axis(others, answers[:, None], axis=1)[:, 0])


def _biases(differences: DoubleArray, chosen: Sequence[IntArray], rng: np.random.Generator) -> list[RangedFigure]:
    if not chosen:
        return []
    groups = np.repeat(np.arange(len(chosen)), [len(rows) for rows in chosen])
    found, all_rows = shrunken_means(differences[np.concatenate(chosen)], groups), mean_of("bias", differences)
    figures = []
    for number, rows in enumerate(chosen):
        shrunken, low, high = (float(ends[number]) for ends in (found.shrunken, found.low, found.high))
        ends = random_row_range(all_rows, len(rows), rng, tests=len(chosen))
        figures.append(
            RangedFigure(
                value=float(found.means[number]),
                interval=Interval(value=shrunken, low=low, high=high, resamples=0),
                low=ends[0],
                high=ends[1],
            )
        )
    return figures


def _spreads(differences: DoubleArray, chosen: Sequence[IntArray], rng: np.random.Generator) -> list[RangedFigure]:
    """Return the standard deviation of each judge, beside that of random rows of the judges without their biases."""
    own = [differences[rows] for rows in chosen]
    centred = np.concatenate([values - values.mean() for values in own]) if own else differences
    return _ranged([spread(values) for values in own], spread(centred), rng)


def _ranged(metrics: Sequence[Metric], all_rows: Metric, rng: np.random.Generator) -> list[RangedFigure]:
    figures = []
    for metric in metrics:
        low, high = random_row_range(all_rows, len(metric), rng, tests=len(metrics))
        found = interval(metric, resamples=RESAMPLES)
        figures.append(RangedFigure(value=found.value, interval=found, low=low, high=high))
    return figures


@dataclass(frozen=True, kw_only=True)
class JudgeMetric:
    """The main metric on a judge's rows, with the attributes and with all of them hidden.

    Args:
        row: one of the judge among those that were scored.
        rows: of the judge.
        training_rows: of the judge; None where the model does not read who judges.
        given: the metric.
        hidden: the same with every attribute hidden.
        gain: the first less the second, with an interval that is widened for the number of judges.
        is_better: whether it is shown that attributes help.
        is_worse: whether it is shown that they harm.
    """

    row: int
    rows: int
    training_rows: int | None
    given: float
    hidden: float
    gain: PairedResult
    is_better: bool
    is_worse: bool


def metrics_of_judges(scored_rows: ScoredRows, attributes: Sequence[FittedAttribute]) -> list[JudgeMetric]:
    """Compare the main metric of each judge with that without attributes, the lowest difference first.

    Empty where it is not known who judges, or what the model says without attributes.
    """
    column = judge_column(scored_rows.clusters)
    if column is None or scored_rows.hidden is None:
        return []
    attribute = next((one for one in attributes if one.name == column), None)
    chosen, found = _frequent(scored_rows.clusters[column]), []
    for rows in chosen:
        own = scored_rows.select(rows)
        given, hidden = own.metric, own.hidden_metric()
        assert hidden is not None
        gain = paired(given, hidden, level=1 - 0.05 / len(chosen))
        found.append(
            JudgeMetric(
                row=int(rows[0]),
                rows=len(rows),
                training_rows=_training_rows(scored_rows, attribute, int(rows[0])),
                given=given.value(),
                hidden=hidden.value(),
                gain=gain,
                is_better=gain.answer(given.name) == "yes",
                is_worse=gain.answer(given.name) == "no",
            )
        )
    return sorted(found, key=lambda one: one.gain.difference)


def _training_rows(scored_rows: ScoredRows, attribute: FittedAttribute | None, row: int) -> int | None:
    if attribute is None or scored_rows.ids is None:
        return None
    index = int(scored_rows.ids[row, attribute.columns.start])
    return int(attribute.counts[index]) if index else 0

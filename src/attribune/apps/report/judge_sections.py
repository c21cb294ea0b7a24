"""The parts of a run's page about people who judge the same texts: each judge, and the texts they disagree about."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np

from attribune.analysis.diagnostics import Calibration
from attribune.analysis.judgements import Judgements, TextFigures, find_judgements, judge_column, text_figures
from attribune.analysis.judges import JudgeAnswers, JudgeMetric, RangedFigure, judge_answers, metrics_of_judges
from attribune.analysis.run_rows import RunRows
from attribune.apps.report.page import Figure, Section
from attribune.apps.report.plots import Estimate, calibration_plot, forest_plot
from attribune.core.wording import counted, excerpt
from attribune.data.clusters import TEXT
from attribune.metrics.bootstrap import Interval
from attribune.metrics.metric import metric_info
from attribune.metrics.tables import format_difference, format_value
from attribune.schema.columns import canonical

_LISTED = 8  # judges at each end
_LISTED_TEXTS = 6  # as predicted, and as seen
_EXCERPT, _NAME = 140, 24  # characters


def judge_sections(rows: RunRows) -> Iterator[Section]:
    """Write the parts about judges and their texts, or one sentence on why there are none.

    Nothing is written of rows whose table could not be read, nor of those of which hardly any share a text.
    """
    scored_rows = rows.scored_rows
    if rows.table is None or TEXT not in scored_rows.clusters:
        return
    judgements = find_judgements(scored_rows)
    if isinstance(judgements, str):
        yield Section(title="Judges and their texts", sentences=[judgements])
        return
    figures, units = text_figures(judgements), _Units.of(judgements)
    if figures.seen.any():
        yield _answers(rows, judgements, units)
        yield _disagreement(figures, units)
        yield _disputed_texts(rows, judgements, figures, units)
    else:
        agreed = f"All people agree about all of the {len(figures.seen):,} texts that several judged."
        yield Section(title="Judges and their texts", sentences=[agreed])
    yield from _knowledge(rows)


@dataclass(frozen=True, kw_only=True)
class _Units:
    """How figures are named and scaled, by the kind of the answers.

    Args:
        scale: of disagreement and bias.
        unit: behind a number in a sentence.
        consistency: of single judges, as a column names it.
        bias: the same; empty for classes without an order.
        disagreement: what two judges of a text do, before its number.
        has_noise: whether what is predicted of two judges differs by chance too.
        note: how to read the figures of single judges.
    """

    scale: int
    unit: str
    consistency: str
    bias: str
    disagreement: str
    has_noise: bool
    note: str

    @classmethod
    def of(cls, judgements: Judgements) -> Self:
        is_ordered, named = judgements.is_ordered, judgements.task.answer_names
        same = "Agreement: the share of the other judges of the same texts who gave the same answer."
        spread = "Spread: the standard deviation of a judge's differences to the mean answer of the others."
        shrunken = (
            "Shrunken: the mean difference as a random intercept with its 95 % interval, which is for one judge alone. "
            "Random rows: the range of the figure over as many rows drawn from all, widened for the number of judges "
            "(Bonferroni). *: outside of this range."
        )
        bias = "difference" if is_ordered else f"{named[1]}, points" if len(named) == 2 else ""
        means = "Difference: a judge's answers less the mean answer of the others to the same texts."
        if bias and not is_ordered:
            means = f"{named[1]}: how much more often a judge says so than the others of the same texts."
        return cls(
            scale=1 if is_ordered else 100,
            unit="" if is_ordered else " %",
            consistency="spread" if is_ordered else "agreement (%)",
            bias=bias,
            disagreement="are apart by" if is_ordered else "give different answers in",
            has_noise=judgements.answers is not None,
            note=" ".join([means] * bool(bias) + [spread if is_ordered else same, shrunken]),
        )

    def interval(self, found: Interval, *, sign: bool = False) -> str:
        """Return a figure with its interval."""
        value, low, high = (self.number(number, sign=sign) for number in (found.value, found.low, found.high))
        return f"{value} [{low}, {high}]"

    def number(self, value: float, *, sign: bool = False) -> str:
        """Return a figure."""
        return f"{self.scale * value:{'+' if sign else ''}.{1 if self.scale > 1 else 2}f}"


def _answers(rows: RunRows, judgements: Judgements, units: _Units) -> Section:
    title, column = "Judges beside each other", judge_column(rows.scored_rows.clusters)
    if column is None:
        unknown = "Single judges are not compared: no attribute tells who judged a text."
        return Section(title=title, sentences=[unknown])
    found = judge_answers(judgements)
    if not found:
        few = f"Single judges are not compared: no value of {column} has twenty judgements of texts that others judged."
        return Section(title=title, sentences=[few])
    names = _names(rows, column, [one.row for one in found])
    places = _both_ends(len(found))
    biases = [one.bias for one in found if one.bias is not None]
    what = (
        "in how far they agree with others" if units.unit else "in the spread of their answers around those of others"
    )
    sentences = [_outliers(what, [one.consistency for one in found], names)]
    figures = []
    if biases:
        direction = (
            "higher or lower" if judgements.is_ordered else f"{judgements.task.answer_names[1]} more or less often"
        )
        sentences.insert(0, _outliers(f"in bias (they answer {direction} than others do)", biases, names))
        figures.append(_bias_plot(units, [(names[at], biases[at]) for at in places]))
    notes = [_who_is_analysed(len(found), "judgements"), units.note]
    if judgements.repeated:
        notes.append(f"{judgements.repeated:,} repeated judgements of a text by the same judge are left out.")
    head = [column, "judgements", *([units.bias, "random rows", "shrunken"] if biases else [])]
    table = [[*head, units.consistency, "random rows"], *(_answers_line(found[at], names[at], units) for at in places)]
    return Section(title=title, sentences=sentences, figures=figures, table=table, notes=notes)


def _answers_line(judge: JudgeAnswers, name: str, units: _Units) -> list[str]:
    cells = [name, f"{judge.rows:,}"]
    if (bias := judge.bias) is not None:
        cells += [_starred(units.number(bias.value, sign=True), bias), _range(bias, units, sign=True)]
        cells.append(units.interval(bias.interval, sign=True))
    consistency = judge.consistency
    return [*cells, _starred(units.interval(consistency.interval), consistency), _range(consistency, units)]


def _range(figure: RangedFigure, units: _Units, *, sign: bool = False) -> str:
    return f"{units.number(figure.low, sign=sign)} to {units.number(figure.high, sign=sign)}"


def _starred(text: str, figure: RangedFigure) -> str:
    return f"{text} *" if figure.stands_out else text


def _outliers(what: str, figures: Sequence[RangedFigure], names: Sequence[str]) -> str:
    """Say which judges differ from random rows, those who are farthest from their ranges first."""
    subject = f"Of {counted(len(figures), 'judge')}"
    farthest = sorted(zip(figures, names, strict=True), key=lambda one: -one[0].distance)
    out = [name for figure, name in farthest if figure.stands_out]
    if not out:
        return f"{subject}, none differs from random rows {what}."
    more = " ..." if len(out) > _LISTED else ""
    verb = "differs" if len(out) == 1 else "differ"
    return f"{subject}, {len(out)} {verb} from random rows {what}: {', '.join(out[:_LISTED])}{more}."


def _who_is_analysed(judges: int, what: str) -> str:
    some = "; the lowest and the highest are shown" if judges > 2 * _LISTED else ""
    return f"Of the judges with twenty {what} or more the most frequent are analysed, {judges} of them{some}."


def _bias_plot(units: _Units, judges: Sequence[tuple[str, RangedFigure]]) -> Figure:
    estimates = [
        Estimate.of(excerpt(name, _NAME), bias.interval, scale=units.scale, highlighted=bias.stands_out)
        for name, bias in judges
    ]
    return Figure(
        svg=forest_plot(estimates, label=f"shrunken {units.bias}", zero_line=True),
        caption="The bias of judges, shrunken, with 95 % intervals. In blue: outside of the range of random rows.",
    )


def _knowledge(rows: RunRows) -> Iterator[Section]:
    """Write how well the model predicts each judge with the attributes and without."""
    column, scored_rows = judge_column(rows.scored_rows.clusters), rows.scored_rows
    if column is None or not rows.attributes:
        return
    title = "Judges as the model knows them"
    if scored_rows.hidden is None:
        missing = "The run has no scores with hidden attributes, as earlier releases: give the table to score it again."
        yield Section(title=title, sentences=[missing])
        return
    found = metrics_of_judges(scored_rows, rows.attributes)
    if not found:
        yield Section(title=title, sentences=[f"No value of {column} has twenty rows."])
        return
    metric = scored_rows.task.main_metric
    info = metric_info(metric)
    names, places = _names(rows, column, [one.row for one in found]), _both_ends(len(found))
    estimates = [
        Estimate.of(excerpt(names[at], _NAME), one.gain, scale=info.scale, highlighted=one.is_better or one.is_worse)
        for at in places
        for one in [found[at]]
    ]
    yield Section(
        title=title,
        sentences=[_knowledge_sentence(found, info.words)],
        figures=[
            Figure(
                svg=forest_plot(estimates, label=f"{info.label}, with attributes less hidden", zero_line=True),
                caption=f"{info.words} of each judge's rows with the attributes less the same with all of them hidden, "
                "with intervals that are widened for the number of judges. In blue: the interval excludes zero.",
            )
        ],
        table=[
            [column, "rows", "training rows", info.label, "attributes hidden", "difference"],
            *(_knowledge_line(found[at], names[at], metric) for at in places),
        ],
        notes=[_who_is_analysed(len(found), "rows")],
    )


def _knowledge_line(judge: JudgeMetric, name: str, metric: str) -> list[str]:
    given, hidden = (format_value(metric, value) for value in (judge.given, judge.hidden))
    training = "-" if judge.training_rows is None else f"{judge.training_rows:,}"
    return [name, f"{judge.rows:,}", training, given, hidden, format_difference(metric, judge.gain)]


def _knowledge_sentence(found: Sequence[JudgeMetric], words: str) -> str:
    better, worse = sum(one.is_better for one in found), sum(one.is_worse for one in found)
    judges = counted(len(found), "judge")
    if not better + worse:
        return f"Of {judges}, none is shown to have another {words} with the attributes than without."
    rest = len(found) - better - worse
    undecided = f"; for the other {rest} no difference is shown" if rest else ""
    return f"With the attributes {words} is better for {better} of {judges}, and worse for {worse}{undecided}."


def _disagreement(figures: TextFigures, units: _Units) -> Section:
    average = (
        f"{len(figures.seen):,} texts were judged by several people. Two of them {units.disagreement} "
        f"{units.interval(figures.mean)}{units.unit}{' of the cases' if units.unit else ''}, in the mean over texts."
    )
    sentences, plots = [average], []
    if figures.calibration is None:
        sentences.append(
            "These are too few texts to compare the disagreement about each with the one that is predicted."
        )
    else:
        sentences += [_gap_sentence(figures.calibration.gap, units), _correlation_sentence(figures.correlation)]
        plots = [_disagreement_plot(figures.calibration, units)]
    return Section(
        title="Texts: predicted and seen disagreement",
        sentences=sentences,
        figures=plots,
        notes=[
            "Predicted: what the model says of each judge of a text, as if they answered independently. Intervals are "
            "over texts with all of their judgements. A few judgements tell little of a text, so that even a model "
            "that is right has a correlation below 1."
        ],
    )


def _gap_sentence(gap: Interval, units: _Units) -> str:
    if not units.has_noise:
        return (
            "A regression predicts one number of each judge and no chance: what is predicted is the difference of two "
            "of these, which is smaller than that of two answers."
        )
    shown = f"{units.interval(gap, sign=True)}{' points' if units.unit else ''}"
    if gap.low <= 0 <= gap.high:
        return f"It is predicted neither too high nor too low on average, as far as these texts show: {shown}."
    return f"It is predicted too {'high' if gap.value > 0 else 'low'} on average, by {shown}."


def _correlation_sentence(found: Interval | None) -> str:
    if found is None:
        return "Predicted or seen disagreement is the same for all texts, so that the two have no correlation."
    shown = f"rank correlation {found.value:+.2f} [{found.low:+.2f}, {found.high:+.2f}]"
    if found.low <= 0 <= found.high:
        return f"It is not shown that people disagree more about texts of which the model predicts it: {shown}."
    return (
        f"People disagree {'more' if found.value > 0 else 'less'} about texts of which the model predicts it: {shown}."
    )


def _disagreement_plot(found: Calibration, units: _Units) -> Figure:
    bins = [
        Estimate.of(one.name, one.figure, scale=units.scale, predicted=units.scale * one.predicted)
        for one in found.bins
    ]
    what = "share of pairs with different answers (%)" if units.unit else "distance of two answers"
    diagonal = (
        "on the diagonal both are equal" if units.has_noise else "on the diagonal the answers would have no chance"
    )
    return Figure(
        svg=calibration_plot(bins, xlabel=f"predicted {what}", ylabel="seen"),
        caption=f"Texts in bins of about equal size by predicted disagreement, with 95 % intervals; {diagonal}.",
    )


def _disputed_texts(rows: RunRows, judgements: Judgements, figures: TextFigures, units: _Units) -> Section:
    """List the texts about which people disagree most, as predicted and as seen."""
    lines = [["text", "most disputed", "judgements", "predicted", "seen", "answers"]]
    assert rows.table is not None
    for how, values in (("as predicted", figures.predicted), ("as seen", figures.seen)):
        places = np.argsort(-values, kind="stable")[:_LISTED_TEXTS]
        texts = judgements.task.input.read_texts(rows.recipe.data.text_input(), rows.table.select(figures.rows[places]))
        for place, text in zip(places.tolist(), texts, strict=True):
            shown = [units.number(float(one[place])) for one in (figures.predicted, figures.seen)]
            answers = _answers_of(judgements, place)
            lines.append([excerpt(text, _EXCERPT), how, f"{figures.counts[place]:,}", *shown, answers])
    return Section(title="Texts on which people disagree most", table=lines, notes=[_reading(units)])


def _reading(units: _Units) -> str:
    what = (
        "the share of pairs of judges with different answers, in per cent"
        if units.unit
        else "the mean distance of two answers"
    )
    return (
        f"Predicted and seen: {what}. Of many texts with few judgements, those that are seen to be disputed most are "
        "so by chance in part."
    )


def _answers_of(judgements: Judgements, text: int) -> str:
    """Return how often each answer was given to a text, the most frequent first for classes and by size for numbers."""
    chosen = judgements.texts == text
    if judgements.answers is None:
        assert judgements.numbers is not None
        values, counts = np.unique(judgements.numbers[chosen], return_counts=True)
        names = [f"{value:.6g}" for value in values.tolist()]
    else:
        values, counts = np.unique(judgements.answers[chosen], return_counts=True)
        names = [judgements.task.answer_names[value] for value in values.tolist()]
    order = range(len(names)) if judgements.is_ordered else np.argsort(-counts, kind="stable").tolist()
    return ", ".join(f"{names[at]} ({counts[at]:,})" if counts[at] > 1 else names[at] for at in order)


def _names(rows: RunRows, column: str, numbers: Sequence[int]) -> list[str]:
    """Return the cells of a column in some rows."""
    assert rows.table is not None
    return [canonical(cell) or "unknown" for cell in rows.table.select(numbers)[column]]


def _both_ends(count: int) -> list[int]:
    return list(range(count)) if count <= 2 * _LISTED else [*range(_LISTED), *range(count - _LISTED, count)]

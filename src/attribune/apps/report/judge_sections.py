"""The parts of a run's page about texts that several people judge: how far they disagree, and about which most."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Self

import numpy as np

from attribune.analysis.diagnostics import Calibration
from attribune.analysis.judgements import Judgements, TextFigures, find_judgements, text_figures
from attribune.analysis.run_rows import RunRows
from attribune.apps.report.page import Figure, Section
from attribune.apps.report.plots import Estimate, calibration_plot
from attribune.core.wording import excerpt
from attribune.data.clusters import TEXT
from attribune.metrics.bootstrap import Interval

__all__ = ["judge_sections"]

_LISTED_TEXTS = 6  # as predicted, and as seen
_EXCERPT = 140  # characters


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
        yield _disagreement(figures, units)
        yield _disputed_texts(rows, judgements, figures, units)
    else:
        agreed = f"All people agree about all of the {len(figures.seen):,} texts that several judged."
        yield Section(title="Judges and their texts", sentences=[agreed])


@dataclass(frozen=True, kw_only=True)
class _Units:
    """How figures are named and scaled, by the kind of the answers.

    Args:
        scale: of disagreement.
        unit: behind a number in a sentence.
        disagreement: what two judges of a text do, before its number.
        has_noise: whether what is predicted of two judges differs by chance too.
    """

    scale: int
    unit: str
    disagreement: str
    has_noise: bool

    @classmethod
    def of(cls, judgements: Judgements) -> Self:
        is_ordered = judgements.is_ordered
        return cls(
            scale=1 if is_ordered else 100,
            unit="" if is_ordered else " %",
            disagreement="are apart by" if is_ordered else "give different answers in",
            has_noise=judgements.answers is not None,
        )

    def interval(self, found: Interval, *, sign: bool = False) -> str:
        """Return a figure with its interval."""
        value, low, high = (self.number(number, sign=sign) for number in (found.value, found.low, found.high))
        return f"{value} [{low}, {high}]"

    def number(self, value: float, *, sign: bool = False) -> str:
        """Return a figure."""
        return f"{self.scale * value:{'+' if sign else ''}.{1 if self.scale > 1 else 2}f}"


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

"""The verdict on a run: whether the attributes help, whether a cheap baseline is as good, and which weights it has.

Every answer is that of a paired 95 % interval and its test, by the proper score of the task and then by its main
metric, and none says more than they show.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Literal

import numpy as np
import numpy.typing as npt
from pydantic import Field

from attribune.core.door import as_call
from attribune.core.wording import counted
from attribune.metrics.bins import LEAST_ROWS, range_name
from attribune.metrics.bootstrap import PairedResult, paired
from attribune.metrics.definitions import metric_info
from attribune.metrics.metric import Metric
from attribune.metrics.results import AttributeUse, Comparison, GivenAndHidden
from attribune.metrics.tables import could_be_shown, format_difference
from attribune.runs.training_record import SavedRecord, TrainingRecord
from attribune.schema import Schema
from attribune.schema.attributes import counts_of_rows, read_cells
from attribune.schema.columns import Table, canonical, column_batches

if TYPE_CHECKING:
    from attribune.runs.recipe import Recipe

__all__ = [
    "MAJORITY",
    "TEXT_ONLY",
    "WHOLE_TEXTS",
    "AttributeEffect",
    "AttributeGain",
    "BaselineResult",
    "CountGain",
    "GivenAway",
    "KeptWeights",
    "Verdict",
    "YesOrNo",
    "attribute_gains",
    "gains_by_count",
    "holm",
    "run_verdict",
    "value_counts",
]

YesOrNo = Literal["yes", "no", "not shown"]
"""Whether the first of two models is better: yes or no where the interval shows it."""

MAJORITY, WHOLE_TEXTS, TEXT_ONLY = "majority", "linear, whole texts", "linear, text only"
"""Baselines beside the methods, by their names in tables: the most frequent class, `linear` where texts are cut, and
`linear` without attributes."""

ATTRIBUTES_ONLY = "attributes-only"
_CHEAP = ("linear", WHOLE_TEXTS, TEXT_ONLY, ATTRIBUTES_ONLY, "intercept", "heads", MAJORITY)
_RESAMPLES = 2_000
_RIGHT, _USUAL = 0.99, 0.9  # what a baseline without texts reaches only if a column tells the label, and the majority
_ERROR_LEFT = 0.1  # of the majority's: 99 % of the variance is explained


class KeptWeights(SavedRecord):
    """The check on the validation rows whose weights the model has.

    Args:
        epoch: when it was made, of ``epochs`` that were trained.
        metric: by which it was chosen, and its ``value``; None where that is no finite number.
        checks: how many were made; None in early files.
        is_last: whether it was the last one.
        stopped_early: whether the patience ran out.
        setting: the one that says how long a training is, and its ``limit``.
    """

    epoch: float
    epochs: float
    metric: str
    value: float | None
    checks: int | None
    is_last: bool
    stopped_early: bool
    setting: Literal["training.epochs", "training.steps"]
    limit: float

    def sentences(self) -> Iterator[str]:
        """Say which weights were kept, and whether a longer training may be better."""
        when = f"epoch {self.epoch:.3g} of {self.epochs:.3g}"
        raised = f"raise {self.setting} (now {self.limit:g})"
        if self.checks == 1:
            yield (
                f"The weights are those after {when}, the only check ({self._figure()}). To see whether the model "
                f"still improves, {raised}."
            )
            return
        yield f"The weights are those after {when}, which had the best {self._figure()}."
        if self.is_last:
            yield f"That was the last check, so the model may still improve: {raised}."
        elif self.stopped_early:
            yield "The training stopped early, since no later check was better (training.patience)."

    def _figure(self) -> str:
        info = metric_info(self.metric)
        if self.value is None:
            return f"validation {info.words}"
        return f"validation {info.words}, {info.scale * self.value:.4g}{info.unit and f' {info.unit}'}"


class BaselineResult(SavedRecord):
    """The model against the best of the cheap baselines.

    Args:
        answer: whether the model is better.
        comparison: by the proper score of the task, or by the main metric if there is none.
        readable: by the main metric, if that is another one.
        advice: what to try where it is not.
    """

    answer: YesOrNo
    comparison: Comparison
    readable: Comparison | None = None
    advice: list[str] = Field(default_factory=list)

    @property
    def is_mixed(self) -> bool:
        """Whether the model is better by one of the two metrics and worse by the other."""
        return _Shown.of(self.comparison, self.readable).is_mixed

    @property
    def headline(self) -> str:
        """The answer without figures."""
        return {
            "yes": "The model is better than every cheap baseline.",
            "no": f"The cheap baseline {self.comparison.b} is better than the model.",
            "not shown": f"The cheap baseline {self.comparison.b} may be as good as the model.",
        }[self.answer]

    def sentences(self) -> Iterator[str]:
        """Say whether the model is better, and what to try otherwise."""
        name, shown = self.comparison.b, _Shown.of(self.comparison, self.readable)
        if shown.is_mixed:
            better, worse = shown.words if self.answer == "yes" else shown.words[::-1]
            yield (
                f"The model is better than the cheap baseline '{name}' on {better} and worse on {worse}: "
                f"{shown.figures}. Take the one that is better on what counts for you."
            )
        elif self.answer == "yes":
            yield (
                f"The model is better than every cheap baseline on {shown.on}; the best of them is '{name}': "
                f"{shown.figures}."
            )
        elif self.answer == "no":
            yield f"The model is worse than the cheap baseline '{name}' on {shown.on}: {shown.figures}."
        else:
            least = _could_be_shown(self.comparison)
            yield f"The model is not shown to differ from the cheap baseline '{name}': {shown.figures}.{least}"


class AttributeEffect(SavedRecord):
    """The model against one that does not know the attributes.

    Args:
        answer: whether the attributes help; no where the model is worse with them.
        against: the same model with its attributes ``hidden``, or another one that was ``trained without`` them.
        comparison: by the proper score of the task, or by the main metric if there is none.
        readable: by the main metric, if that is another one.
    """

    answer: YesOrNo
    against: Literal["hidden", "trained without"]
    comparison: Comparison
    readable: Comparison | None = None

    @property
    def is_mixed(self) -> bool:
        """Whether the attributes help by one of the two metrics and hurt by the other."""
        return _Shown.of(self.comparison, self.readable).is_mixed

    @property
    def headline(self) -> str:
        """The answer without figures."""
        return {
            "yes": "The attributes help.",
            "no": "The model is worse with its attributes.",
            "not shown": "It is not shown whether the attributes help.",
        }[self.answer]

    def sentences(self) -> Iterator[str]:
        """Say whether the attributes help."""
        other = (
            "the same model with its attributes hidden"
            if self.against == "hidden"
            else f"{self.comparison.b}, trained without attributes"
        )
        shown = _Shown.of(self.comparison, self.readable)
        compared = f"Against {other},"
        if shown.is_mixed:
            better, worse = shown.words if self.answer == "yes" else shown.words[::-1]
            yield (
                f"{compared} the attributes help on {better} and hurt on {worse}: {shown.figures}. "
                f"Keep them if {better} counts more for you."
            )
        elif self.answer == "not shown":
            least = _could_be_shown(self.comparison)
            yield f"{compared} the attributes are not shown to help or hurt: {shown.figures}.{least}"
        else:
            yield f"{compared} the attributes {_VERBS[self.answer]} on {shown.on}: {shown.figures}."
        if self.against == "hidden":
            yield (
                "With its attributes hidden, the model lacks values on which it has learned to rely, which can "
                "overstate what they are worth. To compare with a model that is trained without them, use "
                f"{as_call('train', compare='adapter')}."
            )


class AttributeGain(SavedRecord):
    """What one attribute changes: the model with all attributes against the same one with this attribute hidden.

    Args:
        metric: of the comparison, the proper score of the task, or the main metric if there is none.
        answer: whether the model is better with it, by `p_value`.
        gain: the difference, whose own p-value is not corrected.
        p_value: that of `gain` after Holm's correction for the number of attributes.
        readable: by the metric `readable_metric`, if that is another one.
        rows: how many rows were scored.
    """

    attribute: str
    metric: str
    answer: YesOrNo
    gain: PairedResult
    p_value: float
    readable_metric: str | None = None
    readable: PairedResult | None = None
    rows: int

    def sentence(self) -> str:
        """Say what the attribute changes."""
        figures = _figures(self.metric, self.gain, p_value=self.p_value)
        if self.answer == "not shown" and not self.gain.low <= 0 <= self.gain.high:
            figures += " (not conclusive after the correction)"
        if self.readable is not None and self.readable_metric is not None:
            figures += f"; {_figures(self.readable_metric, self.readable)}"
            if _answer(self.readable_metric, self.readable) not in ("not shown", self.answer):
                figures += f" ({metric_info(self.metric).words} decides)"
        return f"{self.attribute} {_VERBS_OF_ONE[self.answer]}: {figures}."


_VERBS = {"yes": "help", "no": "hurt"}
_VERBS_OF_ONE = {"yes": "helps", "no": "hurts", "not shown": "is not shown to help or hurt"}


class CountGain(SavedRecord):
    """What the attributes change in rows whose value of one attribute has some number of training rows.

    Args:
        low: the smallest number of training rows, and ``high`` the largest.
        rows: how many rows these are.
        answer: whether the model is better with its attributes than with all of them hidden.
        gain: the difference of the main metric.
    """

    attribute: str
    low: int
    high: int
    rows: int
    answer: YesOrNo
    gain: PairedResult

    def sentence(self, metric: str) -> str:
        """Say what the rows show."""
        count = "no training row" if self.high == 0 else f"{range_name(self.low, self.high)} training rows"
        count = count.removesuffix("s") if (self.low, self.high) == (1, 1) else count
        said = {"yes": "the attributes help", "no": "the model is worse with them", "not shown": "no difference shown"}
        return (
            f"Where the {self.attribute} has {count} ({counted(self.rows, 'row')}): {said[self.answer]}, "
            f"{_figures(metric, self.gain)}, against hidden attributes."
        )


class GivenAway(SavedRecord):
    """The baseline that reads no text is right nearly everywhere, since a column tells the label.

    Args:
        metric: the main one.
        value: of the baseline ``attributes-only``, and ``majority`` that of the majority class.
        columns: the attributes that tell it, as far as the figures say which.
    """

    metric: str
    value: float
    majority: float
    columns: list[str]

    def sentence(self) -> str:
        """Say it, and what to do."""
        info = metric_info(self.metric)
        figures = [f"{info.scale * one:.4g}{info.unit and f' {info.unit}'}" for one in (self.value, self.majority)]
        one_of = "the column" if len(self.columns) == 1 else "one of the columns"
        return (
            f"A column gives the label away: the baseline attributes-only, which reads no text, has the {info.words} "
            f"{figures[0]}, and the majority {figures[1]}. Look at {one_of} {', '.join(map(repr, self.columns))}: "
            "leave out what is not known before the label, and train again; until then no other figure says anything."
        )


class Verdict(SavedRecord):
    """What a run shows, in parts that are None or empty where it has no figures for them.

    Args:
        kept: None for baselines.
        attributes: None for a model that reads none, or shuffled ones.
        by_attribute: each attribute hidden alone.
        by_count: the attributes against none, from rare values to frequent ones, for the page of the run.
        given_away: None unless a column seems to tell the label.
    """

    metric: str
    kept: KeptWeights | None = None
    baseline: BaselineResult | None = None
    attributes: AttributeEffect | None = None
    by_attribute: list[AttributeGain] = Field(default_factory=list)
    by_count: list[CountGain] = Field(default_factory=list)
    given_away: GivenAway | None = None

    @property
    def headline(self) -> str:
        """The answers without figures, about the attributes first; empty without any."""
        if self.given_away is not None:
            return "A column gives the label away."
        return " ".join(part.headline for part in (self.attributes, self.baseline) if part is not None)

    def attribute_sentences(self) -> list[str]:
        """Return a sentence for each attribute; none for a single one whose effect was already compared."""
        if len(self.by_attribute) == 1 and (self.attributes is None or self.attributes.against == "hidden"):
            return []
        lines = [one.sentence() for one in self.by_attribute]
        if not lines:
            return []
        corrected = f" (p-values are corrected for {len(lines)} attributes, intervals are not)"
        begin = f"Each attribute hidden alone in the trained model{corrected if len(lines) > 1 else ''}:"
        helps = self.attributes is not None and self.attributes.answer == "yes"
        if helps and len(lines) > 1 and all(one.answer == "not shown" for one in self.by_attribute):
            lines.append("Together they help, and these rows do not show which one does: keep them all.")
        return [begin, *lines]

    def _next(self) -> Iterator[str]:
        """Say what to do, unless a column gives the label away, which says it."""
        if self.given_away is not None:
            return
        hurting = [one.attribute for one in self.by_attribute if one.answer == "no"]
        if hurting:
            yield f"What to do first: leave out {', '.join(hurting)}, and train again."
        elif self.attributes is not None and self.attributes.answer == "no" and not self.attributes.is_mixed:
            yield "What to do first: leave the columns of the attributes out, and train again."
        if self.baseline is None:
            return
        if self.baseline.advice:
            yield f"What to try: {'; '.join(self.baseline.advice)}."
        elif self.baseline.answer == "yes" and not (hurting or self.baseline.is_mixed):
            is_open = self.attributes is not None and self.attributes.answer == "not shown"
            yield f"What to do: use this model{', which may be as good without its attributes' if is_open else ''}."

    def _legend(self) -> Iterator[str]:
        """Say what the signs of the differences mean."""
        pairs = [pair for part in (self.attributes, self.baseline) if part for pair in (part.comparison, part.readable)]
        metrics = dict.fromkeys(pair.metric for pair in pairs if pair is not None)
        if metrics:
            better = {
                word: [metric_info(name).words for name in metrics if metric_info(name).higher_is_better == is_higher]
                for word, is_higher in (("less", False), ("more", True))
            }
            said = ", ".join(f"{word} is better for {' and '.join(names)}" for word, names in better.items() if names)
            yield f"Differences are the model minus what it is compared with; {said}."

    def sentences(self) -> list[str]:
        """Return the verdict as plain sentences: the answers first, then which weights were kept."""
        of_attributes = [] if self.attributes is None else list(self.attributes.sentences())
        return [
            *([] if self.given_away is None else [self.given_away.sentence()]),
            *of_attributes,
            *self.attribute_sentences(),
            *([] if self.baseline is None else self.baseline.sentences()),
            *self._next(),
            *self._legend(),
            *([] if self.kept is None else self.kept.sentences()),
        ]

    def text(self) -> str:
        """Return the sentences as a list for a terminal; empty without any."""
        sentences = self.sentences()
        return "\n".join(["Verdict", *(f"- {sentence}" for sentence in sentences)]) if sentences else ""


def run_verdict(
    recipe: Recipe,
    training: TrainingRecord,
    *,
    metric: str,
    comparisons: Sequence[Comparison],
    conditions: Mapping[str, AttributeUse],
    proper: Sequence[Comparison] = (),
    by_attribute: Sequence[AttributeGain] = (),
    by_count: Sequence[CountGain] = (),
    figures: Mapping[str, float] = MappingProxyType({}),
) -> Verdict:
    """Judge a run by the comparisons of its model with others: by the proper score first, then by the main metric.

    Args:
        metric: the main one.
        comparisons: by the main metric.
        conditions: the attributes that the compared models read, by their names.
        proper: the same by the proper score of the task; of models without one the main metric decides.
        by_attribute: from `attribute_gains`.
        by_count: from `gains_by_count`.
        figures: the main metric of each model by its name, if baselines are among them.
    """
    kept = _kept(recipe, training, metric) if recipe.learner.has_settings else None
    reads = recipe.learner.reads_attributes and bool(recipe.data.attributes) and not recipe.data.shuffled
    found = {pair.b: pair for pair in proper}
    pairs = [_Pair(found.get(pair.b), pair) for pair in comparisons]
    return Verdict(
        metric=metric,
        kept=kept,
        baseline=_baseline(recipe, pairs, kept),
        attributes=_attributes(recipe, pairs, conditions) if reads else None,
        by_attribute=list(by_attribute) if reads else [],
        by_count=list(by_count) if reads else [],
        given_away=_given_away(metric, figures, recipe.attribute_names, by_attribute),
    )


def _given_away(
    metric: str, figures: Mapping[str, float], attributes: Sequence[str], gains: Sequence[AttributeGain]
) -> GivenAway | None:
    """Compare the baseline that reads no text with the majority; of attributes those that count most are named."""
    value, majority = figures.get(ATTRIBUTES_ONLY), figures.get(MAJORITY)
    if value is None or majority is None or not attributes:
        return None
    info = metric_info(metric)
    if info.higher_is_better:
        is_told = info.is_share and value >= _RIGHT and majority < _USUAL
    else:
        is_told = metric in ("rmse", "mae") and value <= _ERROR_LEFT * majority
    if not is_told:
        return None
    shown = {one.attribute: abs(one.gain.difference) for one in gains if one.answer == "yes"}
    largest = [name for name, gain in shown.items() if gain >= max(shown.values()) / 2]
    return GivenAway(metric=metric, value=value, majority=majority, columns=largest or list(attributes))


def attribute_gains(alone: Mapping[str, GivenAndHidden]) -> list[AttributeGain]:
    """Compare a model with itself without each attribute, with p-values corrected for their number (Holm 1979).

    Args:
        alone: by attribute the metrics that decide with all attributes and with this one hidden, the first one first.
    """
    pairs = {
        name: [paired(first, second) for first, second in zip(given, hidden, strict=True)]
        for name, (given, hidden) in alone.items()
    }
    corrected = holm([found[0].p_value for found in pairs.values()])
    gains = []
    for (name, (gain, *rest)), p_value in zip(pairs.items(), corrected, strict=True):
        metric, *others = alone[name][0]
        gains.append(
            AttributeGain(
                attribute=name,
                metric=metric.name,
                answer=_answer(metric.name, gain) if p_value < 0.05 else "not shown",
                gain=gain,
                p_value=p_value,
                readable_metric=others[0].name if others else None,
                readable=rest[0] if rest else None,
                rows=len(metric),
            )
        )
    return gains


def holm(p_values: Sequence[float]) -> list[float]:
    """Return p-values corrected for their number: the smallest times m, the next times m - 1, and never decreasing."""
    order, corrected, highest = np.argsort(p_values, kind="stable"), [1.0] * len(p_values), 0.0
    for rank, index in enumerate(order):
        highest = max(highest, min(1.0, (len(p_values) - rank) * p_values[index]))
        corrected[index] = highest
    return corrected


def gains_by_count(given: Metric, hidden: Metric, counts: Mapping[str, npt.NDArray[np.int64]]) -> list[CountGain]:
    """Compare a model with itself without attributes, on rows with rare and with frequent values of each attribute.

    Values that no training row has are a group of their own; the others are two groups with about as many rows. Rows
    without a value are in none.

    Args:
        given: the main metric, and `hidden` that with every attribute hidden.
        counts: for each attribute the training rows with each row's value (n,), as `value_counts` has them.
    """
    gains = []
    for attribute, numbers in counts.items():
        ranges = _rare_and_frequent(numbers) if len(numbers) == len(given) else []
        for low, high in ranges if len(ranges) > 1 else ():
            rows = (numbers >= low) & (numbers <= high)
            gain = paired(given.select(rows), hidden.select(rows), resamples=_RESAMPLES)
            gains.append(
                CountGain(
                    attribute=attribute,
                    low=low,
                    high=high,
                    rows=int(rows.sum()),
                    answer=_answer(given.name, gain),
                    gain=gain,
                )
            )
    return gains


def value_counts(schema: Schema, table: Table) -> dict[str, npt.NDArray[np.int64]]:
    """Return the training rows with each row's value (n,), for each attribute whose values have ids of their own.

    A value that no training row has is counted 0, and a row without a value -1.
    """
    listed = [attribute for attribute in schema if attribute.spec.lists_values]
    ids = schema.encode(table)[0] if listed else np.zeros((0, 0), np.int64)
    counts = {attribute.name: counts_of_rows(attribute.counts, ids[:, attribute.columns]) for attribute in listed}
    for name, numbers in counts.items():
        numbers[~_has_value(schema, table, name)] = -1
    return counts


def _has_value(schema: Schema, table: Table, name: str) -> npt.NDArray[np.bool_]:
    """Return whether each row (n,) has a value of an attribute, known or not."""
    missing = frozenset(text for text in map(canonical, schema.missing) if text is not None)
    found = []
    for first, columns in column_batches(table, [name]):
        cells = read_cells(schema[name].spec, columns[name], missing=missing, first_row=first)
        given = np.zeros(len(columns[name]), dtype=bool)
        given[cells.rows] = True
        found.append(given)
    return np.concatenate(found) if found else np.zeros(0, dtype=bool)


def _rare_and_frequent(counts: npt.NDArray[np.int64]) -> list[tuple[int, int]]:
    """Return ranges of counts (n,), ends included: 0, and two with about as many rows; only those with enough rows."""
    levels, rows = np.unique(counts[counts > 0], return_counts=True)
    ends = np.cumsum(rows)
    unseen = [(0, 0)] if (counts == 0).sum() >= LEAST_ROWS else []
    if not len(levels) or ends[-1] < LEAST_ROWS:
        return unseen
    first, last = int(levels[0]), int(levels[-1])
    split = int(np.abs(ends - ends[-1] / 2).argmin())
    if min(ends[split], ends[-1] - ends[split]) < LEAST_ROWS:
        return [*unseen, (first, last)]
    return [*unseen, (first, int(levels[split])), (int(levels[split + 1]), last)]


def _kept(recipe: Recipe, training: TrainingRecord, main_metric: str) -> KeptWeights | None:
    if not training.steps:
        return None
    value, steps = training.best_value, recipe.training.steps
    return KeptWeights(
        epoch=training.epochs * training.best_step / training.steps,
        epochs=training.epochs,
        metric=training.selected_by or main_metric,
        value=value if value is not None and np.isfinite(value) else None,
        checks=training.checks,
        is_last=training.best_step == training.steps,
        stopped_early=training.stopped_early,
        setting="training.epochs" if steps is None else "training.steps",
        limit=recipe.training.epochs if steps is None else steps,
    )


@dataclass(frozen=True)
class _Pair:
    """The comparison of the model with another one by the proper score, if there is one, and by the main metric."""

    proper: Comparison | None
    main: Comparison

    @property
    def b(self) -> str:
        return self.main.b

    @property
    def first(self) -> Comparison:
        """The comparison that decides unless it shows no difference."""
        return self.main if self.proper is None else self.proper

    @property
    def readable(self) -> Comparison | None:
        """The main metric, if another one decides first."""
        return None if self.proper is None or self.proper.metric == self.main.metric else self.main

    @property
    def answer(self) -> YesOrNo:
        answer = _answer(self.first.metric, self.first)
        return _answer(self.main.metric, self.main) if answer == "not shown" else answer

    @property
    def advantage(self) -> float:
        """By how much the first model is ahead, in a metric of which more is better."""
        pair = self.first
        return pair.difference if metric_info(pair.metric).higher_is_better else -pair.difference


def _baseline(recipe: Recipe, pairs: Sequence[_Pair], kept: KeptWeights | None) -> BaselineResult | None:
    cheap = [pair for pair in pairs if pair.b in _CHEAP]
    if not cheap:
        return None
    best = _hardest(cheap)
    advice = [] if best.answer == "yes" or not recipe.learner.has_settings else list(_advice(recipe, best, kept))
    if best.first.can_show_none and best.main.can_show_none:
        advice = ["several hundred test rows, before anything else"]
    return BaselineResult(answer=best.answer, comparison=best.first, readable=best.readable, advice=advice)


def _advice(recipe: Recipe, best: _Pair, kept: KeptWeights | None) -> Iterator[str]:
    if best.b == TEXT_ONLY:
        yield "a training without the attributes, which this baseline does not read"
    if kept is not None and kept.is_last:
        yield f"a longer training ({kept.setting}, now {kept.limit:,g})"
    if best.b == WHOLE_TEXTS:
        yield f"a longer window (data.max_length, now {recipe.data.max_length:,})"
    if recipe.learner.tuning == "frozen":
        yield "a backbone that is trained as well (backbone.tuning=lora or full; it is frozen)"
    if best.b != MAJORITY and not _Shown.of(best.first, best.readable).is_mixed:
        without = ", without attributes" if best.b == TEXT_ONLY else ""
        yield f"or take the baseline, which costs less ({as_call('train', method=best.b.split(',')[0])}{without})"


def _attributes(
    recipe: Recipe, pairs: Sequence[_Pair], conditions: Mapping[str, AttributeUse]
) -> AttributeEffect | None:
    """Judge by the best model that was trained without attributes, or else by this one with its attributes hidden."""
    from attribune.methods import METHODS  # here, since results are also read without the models

    same = TEXT_ONLY if recipe.method["name"] == "linear" else None
    without = [pair for pair in pairs if pair.b == same or (pair.b in METHODS and not METHODS[pair.b].uses_attributes)]
    hidden = [pair for pair in pairs if conditions.get(pair.b) == "hidden"]
    if not (chosen := without or hidden):
        return None
    pair = _hardest(chosen)
    against: Literal["hidden", "trained without"] = "trained without" if without else "hidden"
    return AttributeEffect(answer=pair.answer, against=against, comparison=pair.first, readable=pair.readable)


def _hardest(pairs: Sequence[_Pair]) -> _Pair:
    """Return the comparison with the smallest advantage, of those that do not show one if there are any."""
    if len({pair.first.metric for pair in pairs}) > 1:  # some have no proper score
        pairs = [_Pair(None, pair.main) for pair in pairs]
    return min(pairs, key=lambda pair: (pair.answer == "yes", pair.advantage))


def _answer(metric: str, pair: PairedResult) -> YesOrNo:
    if not pair.shows_difference:
        return "not shown"
    return "yes" if (pair.difference > 0) == metric_info(metric).higher_is_better else "no"


@dataclass(frozen=True)
class _Shown:
    """What two comparisons of the same models show: first the one that decides, then by another metric, if any."""

    first: Comparison
    other: Comparison | None

    @classmethod
    def of(cls, proper: Comparison, readable: Comparison | None) -> _Shown:
        """The proper score decides, unless only the other metric shows a difference."""
        if readable is not None and not proper.shows_difference and readable.shows_difference:
            return cls(readable, proper)
        return cls(proper, readable)

    @property
    def words(self) -> list[str]:
        """The metrics that show a difference."""
        pairs = [self.first] if self.other is None or not self.other.shows_difference else [self.first, self.other]
        return [metric_info(pair.metric).words for pair in pairs]

    @property
    def on(self) -> str:
        """The same in a sentence."""
        return " and ".join(self.words)

    @property
    def is_mixed(self) -> bool:
        """Whether one metric shows that the model is better, and the other one that it is worse."""
        if self.other is None:
            return False
        return {_answer(pair.metric, pair) for pair in (self.first, self.other)} == {"yes", "no"}

    @property
    def figures(self) -> str:
        """The figures of both."""
        figures = _figures(self.first.metric, self.first)
        if self.other is None:
            return figures
        others = _figures(self.other.metric, self.other)
        is_open = self.first.shows_difference and not self.other.shows_difference
        return f"{figures}; {others}{' (not conclusive)' if is_open else ''}"


def _could_be_shown(pair: Comparison) -> str:
    least = could_be_shown(pair.metric, pair)
    if pair.can_show_none:
        return f" These are {least}."
    return least and f" On {metric_info(pair.metric).words}, {least}."


def _figures(metric: str, pair: PairedResult, *, p_value: float | None = None) -> str:
    """Return a difference with its interval and p-value as a sentence has them.

    Args:
        p_value: another one than that of the pair.
    """
    info, p_value = metric_info(metric), pair.p_value if p_value is None else p_value
    difference, rest = format_difference(metric, pair).split(" ", 1)
    p = f"p = {p_value:.3f}" if p_value >= 0.001 else "p < 0.001"
    return f"{info.words} {difference}{' points' if info.is_share else ''} {rest}, {p}"

"""The verdict on a run: which weights it has, whether a cheap baseline is as good, and whether the attributes help.

Every answer is that of a paired 95 % interval, and none says more than the interval shows.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Literal

import numpy as np
import numpy.typing as npt
from pydantic import Field

from attribune.core.wording import counted
from attribune.metrics.bins import LEAST_ROWS, range_name
from attribune.metrics.bootstrap import PairedResult, paired
from attribune.metrics.definitions import metric_info
from attribune.metrics.metric import Metric
from attribune.metrics.results import Comparison, Condition
from attribune.metrics.tables import format_difference
from attribune.runs.training_record import Record, TrainingRecord
from attribune.schema import Schema
from attribune.schema.attributes import counts_of_rows
from attribune.schema.columns import Table

if TYPE_CHECKING:
    from attribune.runs.recipe import Recipe

__all__ = [
    "MAJORITY",
    "WHOLE_TEXTS",
    "Answer",
    "AttributeEffect",
    "BaselineResult",
    "CountGain",
    "KeptWeights",
    "Verdict",
    "gains_by_count",
    "run_verdict",
    "value_counts",
]

Answer = Literal["yes", "no", "not shown"]
"""Whether the first of two models is better: yes or no where the interval shows it."""

MAJORITY, WHOLE_TEXTS = "majority", "linear, whole texts"
"""Baselines beside the methods, by their names in tables: the most frequent class, and `linear` where texts are cut."""

_CHEAP = ("linear", WHOLE_TEXTS, "attributes-only", "intercept", "heads", MAJORITY)
_RESAMPLES = 2_000


class KeptWeights(Record):
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
                f"The weights are those after {when}, the only check on the validation rows{self._figure()}. To see "
                f"whether the model still improves, {raised}."
            )
            return
        yield f"The weights are those after {when}, the best check on the validation rows{self._figure()}."
        if self.is_last:
            yield f"That was the last check, so the model may still improve: {raised}."
        elif self.stopped_early:
            yield "The training stopped early, since no later check was better (training.patience)."

    def _figure(self) -> str:
        info = metric_info(self.metric)
        if self.value is None:
            return f" by {info.words}"
        return f" by {info.words} ({info.scale * self.value:.4g}{info.unit and f' {info.unit}'})"


class BaselineResult(Record):
    """The model against the best of the cheap baselines.

    Args:
        answer: whether the model is better.
        advice: what to try where it is not.
    """

    answer: Answer
    comparison: Comparison
    advice: list[str] = Field(default_factory=list)

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
        name, figures = self.comparison.b, _figures(self.comparison.metric, self.comparison)
        if self.answer == "yes":
            yield f"The model is better than every cheap baseline, of which {name} is the best: {figures}."
        elif self.answer == "no":
            yield f"The cheap baseline {name} is better than the model: {figures}."
        else:
            yield f"The cheap baseline {name} may be as good, since no difference is shown: {figures}."
        if self.advice:
            yield f"What to try: {'; '.join(self.advice)}."


class AttributeEffect(Record):
    """The model against one that does not know the attributes.

    Args:
        answer: whether the attributes help; no where the model is worse with them.
        against: the same model with its attributes ``hidden``, or another one that was ``trained without`` them.
    """

    answer: Answer
    against: Literal["hidden", "trained without"]
    comparison: Comparison

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
        compared = f"{_figures(self.comparison.metric, self.comparison)}, against {other}"
        if self.answer == "yes":
            yield f"The attributes help: {compared}."
        elif self.answer == "no":
            yield f"The attributes do not help; the model is worse with them: {compared}."
        else:
            yield f"It is not shown whether the attributes help: {compared}. More test rows narrow the interval."
        if self.against == "hidden":
            yield "A model trained without attributes may differ from one that misses them: add `--compare adapter`."


class CountGain(Record):
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
    answer: Answer
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


class Verdict(Record):
    """What a run shows, in parts that are None or empty where it has no figures for them.

    Args:
        kept: None for baselines.
        attributes: None for a model that reads none, or shuffled ones.
        by_count: the attributes against none, from rare values to frequent ones.
    """

    metric: str
    kept: KeptWeights | None = None
    baseline: BaselineResult | None = None
    attributes: AttributeEffect | None = None
    by_count: list[CountGain] = Field(default_factory=list)

    @property
    def headline(self) -> str:
        """The answers without figures, about the attributes first; empty without any."""
        return " ".join(part.headline for part in (self.attributes, self.baseline) if part is not None)

    def sentences(self) -> list[str]:
        """Return the verdict as plain sentences."""
        parts = (part for part in (self.kept, self.baseline, self.attributes) if part is not None)
        return [
            *(sentence for part in parts for sentence in part.sentences()),
            *(gain.sentence(self.metric) for gain in self.by_count),
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
    conditions: Mapping[str, Condition],
    by_count: Sequence[CountGain] = (),
) -> Verdict:
    """Judge a run by the comparisons of its model with others.

    Args:
        metric: the main one.
        conditions: the attributes that the compared models read, by their names.
        by_count: from `gains_by_count`.
    """
    kept = None if recipe.is_baseline else _kept(recipe, training, metric)
    reads = recipe.reads_attributes and bool(recipe.data.attributes) and not recipe.data.shuffled
    return Verdict(
        metric=metric,
        kept=kept,
        baseline=_baseline(recipe, comparisons),
        attributes=_attributes(comparisons, conditions) if reads else None,
        by_count=list(by_count) if reads else [],
    )


def gains_by_count(given: Metric, hidden: Metric, counts: Mapping[str, npt.NDArray[np.int64]]) -> list[CountGain]:
    """Compare a model with itself without attributes, on rows with rare and with frequent values of each attribute.

    Values that no training row has are a group of their own; the others are two groups with about as many rows.

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
    """Return the training rows with each row's value (n,), for each attribute whose values have ids of their own."""
    listed = [attribute for attribute in schema if attribute.spec.lists_values]
    ids = schema.encode(table)[0] if listed else np.zeros((0, 0), np.int64)
    return {attribute.name: counts_of_rows(attribute.counts, ids[:, attribute.columns]) for attribute in listed}


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


def _baseline(recipe: Recipe, comparisons: Sequence[Comparison]) -> BaselineResult | None:
    cheap = [pair for pair in comparisons if pair.b in _CHEAP]
    if not cheap:
        return None
    best = _hardest(cheap)
    answer = _answer(best.metric, best)
    advice = [] if answer == "yes" or recipe.is_baseline else list(_advice(recipe, best.b))
    return BaselineResult(answer=answer, comparison=best, advice=advice)


def _advice(recipe: Recipe, baseline: str) -> Iterator[str]:
    steps = recipe.training.steps
    yield (
        f"a longer training (training.epochs, now {recipe.training.epochs:g})"
        if steps is None
        else f"a longer training (training.steps, now {steps:,})"
    )
    if baseline == WHOLE_TEXTS:
        yield f"a longer window (data.max_length, now {recipe.data.max_length:,})"
    if recipe.tuning == "frozen":
        yield "a backbone that is trained as well (backbone.tuning lora or full, now frozen)"
    if baseline != MAJORITY:
        yield f"or take the baseline, which costs less (`--method {baseline.removesuffix(', whole texts')}`)"


def _attributes(comparisons: Sequence[Comparison], conditions: Mapping[str, Condition]) -> AttributeEffect | None:
    """Judge by the best model that was trained without attributes, or else by this one with its attributes hidden."""
    from attribune.methods import METHODS  # here, since results are also read without the models

    without = [pair for pair in comparisons if pair.b in METHODS and not METHODS[pair.b].uses_attributes]
    hidden = [pair for pair in comparisons if conditions.get(pair.b) == "hidden"]
    if not (pairs := without or hidden):
        return None
    pair = _hardest(pairs)
    against: Literal["hidden", "trained without"] = "trained without" if without else "hidden"
    return AttributeEffect(answer=_answer(pair.metric, pair), against=against, comparison=pair)


def _hardest(pairs: Sequence[Comparison]) -> Comparison:
    """Return the comparison with the smallest advantage, of those that do not show one if there are any."""
    return min(pairs, key=lambda pair: (_answer(pair.metric, pair) == "yes", _advantage(pair)))


def _advantage(pair: Comparison) -> float:
    """Return by how much the first model is ahead, in a metric of which more is better."""
    return pair.difference if metric_info(pair.metric).higher_is_better else -pair.difference


def _answer(metric: str, pair: PairedResult) -> Answer:
    if not pair.shows_difference:
        return "not shown"
    return "yes" if (pair.difference > 0) == metric_info(metric).higher_is_better else "no"


def _figures(metric: str, pair: PairedResult) -> str:
    """Return a difference with its interval and p-value as a sentence has them."""
    info = metric_info(metric)
    difference, rest = format_difference(metric, pair).split(" ", 1)
    p = f"p = {pair.p_value:.3f}" if pair.p_value >= 0.001 else "p < 0.001"
    return f"{info.words} {difference}{' points' if info.is_share else ''} {rest}, {p}"

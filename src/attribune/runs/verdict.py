"""The verdict on a run: whether the attributes help, whether a cheap baseline is as good, and which weights it has.

Every answer is that of a paired 95 % interval and its test, by the proper score of the task and then by its main
metric, and none says more than they show.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from pydantic import Field

from attribune.core.flags import USUAL_LENGTH
from attribune.findings import Finding
from attribune.metrics.bootstrap import YesOrNo
from attribune.metrics.metric import metric_info
from attribune.metrics.results import ENOUGH_TO_LEAVE_OUT, AttributeUse, Comparison
from attribune.models.baselines import BASELINES
from attribune.runs.attribute_gains import AttributeGain, AttributesTogether, CountGain
from attribune.runs.training_record import SavedRecord, TrainingRecord, VerdictPart

if TYPE_CHECKING:
    from attribune.runs.recipe import Recipe

MAJORITY, WHOLE_TEXTS, TEXT_ONLY = "majority", "linear, whole texts", "linear, text only"
NOT_BLENDED = ", not blended"
"""Baselines beside the methods, by their names in tables: the most frequent class, `linear` where texts are cut, and
`linear` without attributes."""

ATTRIBUTES_ONLY = "attributes-only"
_CHEAP = {WHOLE_TEXTS, TEXT_ONLY, MAJORITY, *(name for name, config in BASELINES.items() if config.is_cheap)}
_RIGHT, _USUAL = 0.99, 0.9  # what a baseline without texts reaches only if a column tells the label, and the majority
_ERROR_LEFT = 0.1  # of the majority's: 99 % of the variance is explained


class KeptWeights(VerdictPart):
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

    def findings(self) -> Iterator[Finding]:
        """Yield which weights were kept, and whether a longer training may be better."""
        is_only = self.checks == 1
        yield Finding.of(
            "only-check" if is_only else "weights-kept",
            epoch=self.epoch,
            epochs=self.epochs,
            metric=self.metric,
            value=self.value,
            setting=self.setting,
            limit=self.limit,
        )
        if self.is_last and not is_only:
            yield Finding.of("last-check-best", setting=self.setting, limit=self.limit)
        elif self.stopped_early and not is_only:
            yield Finding("stopped-early")


class Calibration(VerdictPart):
    """The temperature of the probabilities, and the proper score of a part's rows with it and without.

    Args:
        metric: the name of the proper score.
        part: ``test``, or ``validation`` where there are no test rows.
    """

    temperature: float
    metric: str
    part: str
    before: float
    after: float

    def findings(self) -> Iterator[Finding]:
        """Yield it."""
        yield Finding.of("probabilities-calibrated", rows=self.part, **self.model_dump(exclude={"part"}))


class Blended(VerdictPart):
    """Simple models count beside the network, and what they change.

    Args:
        trees_weight: 0 where there are no trees.
        comparison: with the network alone, by the proper score of the task.
    """

    neural_weight: float
    linear_weight: float
    trees_weight: float = 0.0
    comparison: Comparison

    def findings(self) -> Iterator[Finding]:
        """Yield it."""
        weights = self.model_dump(exclude={"comparison"}, exclude_defaults=True)
        yield Finding.of("blended-with-linear", **weights, rows=self.comparison.part, figures=[asdict(self.comparison)])


class NotBlended(VerdictPart):
    """No model counts beside the network, though it was asked for; the fields are those of the record."""

    reason: str
    detail: str

    def findings(self) -> Iterator[Finding]:
        """Yield it."""
        yield Finding("blend-not-possible", self.model_dump())


class _Compared(VerdictPart):
    """The model against another one.

    Args:
        answer: whether the model is better.
        comparison: by the proper score of the task, or by the main metric if there is none.
        readable: by the main metric, if that is another one.
    """

    answer: YesOrNo
    comparison: Comparison
    readable: Comparison | None = None

    @property
    def _figures(self) -> list[Comparison]:
        """The comparison that decides first: the proper score, unless only the other metric shows a difference."""
        if self.readable is None:
            return [self.comparison]
        is_other = self.readable.shows_difference and not self.comparison.shows_difference
        return [self.readable, self.comparison] if is_other else [self.comparison, self.readable]

    @property
    def is_mixed(self) -> bool:
        """Whether the model is better by one of the two metrics and worse by the other."""
        return {"yes", "no"} <= {pair.answer(pair.metric) for pair in self._figures}

    def _found(self, code: str, **values: Any) -> Finding:
        answers = {pair.answer(pair.metric): pair.metric for pair in self._figures}
        return Finding.of(
            code,
            **values,
            figures=[asdict(pair) for pair in self._figures],
            shown_on=[pair.metric for pair in self._figures if pair.shows_difference],
            better_on=answers.get("yes"),
            worse_on=answers.get("no") if self.is_mixed else None,
        )


class BaselineResult(_Compared):
    """The model against the best of the cheap baselines; `advice` is what to try where it is not better."""

    advice: list[str] = Field(default_factory=list)

    def findings(self) -> Iterator[Finding]:
        """Yield whether the model is better."""
        codes = {"yes": "better-than-baselines", "no": "worse-than-baseline", "not shown": "baseline-not-shown"}
        yield self._found(codes[self.answer], baseline=self.comparison.b)


class AttributeEffect(_Compared):
    """The model against one that does not know the attributes.

    Args:
        against: the same model with its attributes ``hidden``, or another one that was ``trained without`` them.
    """

    against: Literal["hidden", "trained without"]

    def findings(self) -> Iterator[Finding]:
        """Yield whether the attributes help."""
        codes = {"yes": "attributes-help", "no": "attributes-hurt", "not shown": "attributes-not-shown"}
        yield self._found(codes[self.answer], against=self.against, other=self.comparison.b)
        if self.against == "hidden":
            yield Finding("hidden-overstates")


class GivenAway(VerdictPart):
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

    def findings(self) -> Iterator[Finding]:
        """Yield it."""
        yield Finding("label-given-away", self.model_dump())


class Verdict(SavedRecord):
    """What a run shows, in parts that are None or empty where it has no figures for them.

    Args:
        kept: None for baselines.
        blend: None for a model beside which no linear one counts, unless one was asked for.
        calibration: None for a model whose probabilities are not calibrated, if it has any.
        attributes: None for a model that reads none, or shuffled ones.
        by_attribute: each attribute hidden alone.
        together: those of them that show no gain alone, hidden together; None where there is none, or no other one.
        by_count: the attributes against none, from rare values to frequent ones, for the page of the run.
        given_away: None unless a column seems to tell the label.
    """

    metric: str
    kept: KeptWeights | None = None
    blend: Blended | NotBlended | None = None
    calibration: Calibration | None = None
    baseline: BaselineResult | None = None
    attributes: AttributeEffect | None = None
    by_attribute: list[AttributeGain] = Field(default_factory=list)
    together: AttributesTogether | None = None
    by_count: list[CountGain] = Field(default_factory=list)
    given_away: GivenAway | None = None

    @property
    def headline(self) -> str:
        """The answers without figures, about the attributes first; empty without any."""
        if self.given_away is not None:
            return self.given_away.headline
        return " ".join(part.headline for part in (self.attributes, self.baseline) if part is not None)

    def attribute_findings(self) -> list[Finding]:
        """Return a finding for each attribute; none for a single one whose effect was already compared."""
        gains = self.by_attribute
        if not gains or (len(gains) == 1 and (self.attributes is None or self.attributes.against == "hidden")):
            return []
        found = [Finding.of("each-attribute", attributes=len(gains))]
        found += [one for gain in gains for one in gain.findings()]
        return found + self.leave_out_findings()

    def leave_out_findings(self) -> list[Finding]:
        """Return what is to be left out of several attributes, or why none is; empty where nothing says so.

        Where a column gives the label away, no other one can show what it is worth.
        """
        gains = self.by_attribute
        if len(gains) < 2 or self.given_away is not None or self._hurts_as_a_whole:
            return []
        if self.together is not None:
            return list(self.together.findings())
        if self.attributes is None or any(gain.answer != "not shown" for gain in gains):
            return []
        if self.attributes.answer == "yes":
            return [Finding("attributes-together")]
        return list(self._none_shown(self.attributes)) if all(gain.shows_no_gain for gain in gains) else []

    def _none_shown(self, effect: AttributeEffect) -> Iterator[Finding]:
        """Yield what to do where no attribute shows anything, alone or with the others; nothing in early files."""
        names = [gain.attribute for gain in self.by_attribute]
        known = [gain.with_value for gain in self.by_attribute if gain.with_value is not None]
        if len(known) < len(names) or effect.comparison.can_show_none:
            return
        if max(known) < ENOUGH_TO_LEAVE_OUT:
            rows = self.by_attribute[0].rows
            values = {"attributes": names, "hurting": [], "rows": rows, "with_value": max(known)}
            yield Finding.of("too-few-to-leave-out", **values, differing=effect.comparison.differing)
        else:
            yield Finding.of("all-attributes-to-leave-out", attributes=names)

    @property
    def _hurts_as_a_whole(self) -> bool:
        """Whether the model is worse with its attributes, of which none is shown to be the cause."""
        hurting = any(one.answer == "no" for one in self.by_attribute)
        effect = self.attributes
        return not hurting and effect is not None and effect.answer == "no" and not effect.is_mixed

    def _next(self) -> Iterator[Finding]:
        """Yield what to do, unless a column gives the label away, which says it."""
        if self.given_away is not None:
            return
        hurting = [one.attribute for one in self.by_attribute if one.answer == "no"]
        without = self.together.attributes if self.together is not None and self.together.can_be_left_out else []
        if hurting:
            yield Finding.of("leave-out", attributes=[*hurting, *without])
        elif self._hurts_as_a_whole:
            yield Finding("leave-out-all")
        if self.baseline is None:
            return
        if self.baseline.advice:
            yield Finding.of("what-to-try", advice="; ".join(self.baseline.advice))
        elif self.baseline.answer == "yes" and not (hurting or self.baseline.is_mixed):
            is_open = self.attributes is not None and self.attributes.answer == "not shown"
            yield Finding.of("use-model", attributes_not_shown=is_open, without=without)

    def _signs(self) -> Iterator[Finding]:
        """Yield what the signs of the differences mean."""
        pairs = [pair for part in (self.attributes, self.baseline) if part for pair in (part.comparison, part.readable)]
        metrics = dict.fromkeys(pair.metric for pair in pairs if pair is not None)
        if metrics:
            more = [name for name in metrics if metric_info(name).higher_is_better]
            yield Finding.of("sign-of-differences", less=[name for name in metrics if name not in more], more=more)

    def findings(self) -> list[Finding]:
        """Return what the run shows: the answers first, then which weights were kept."""

        def of(part: VerdictPart | None) -> Iterator[Finding]:
            return iter(()) if part is None else part.findings()

        return [
            *of(self.given_away),
            *of(self.attributes),
            *self.attribute_findings(),
            *of(self.baseline),
            *self._next(),
            *self._signs(),
            *of(self.kept),
            *of(self.blend),
            *of(self.calibration),
        ]

    def sentences(self) -> list[str]:
        """Return the findings as plain sentences."""
        return [finding.text for finding in self.findings()]

    def text(self) -> str:
        """Return the sentences as a list for a terminal; empty without any."""
        sentences = self.sentences()
        return "\n".join(["Verdict", *(f"- {sentence}" for sentence in sentences)]) if sentences else ""


def run_verdict(
    recipe: Recipe,
    training: TrainingRecord | None,
    *,
    metric: str,
    comparisons: Sequence[Comparison],
    conditions: Mapping[str, AttributeUse],
    proper: Sequence[Comparison] = (),
    by_attribute: Sequence[AttributeGain] = (),
    together: AttributesTogether | None = None,
    by_count: Sequence[CountGain] = (),
    figures: Mapping[str, float] = MappingProxyType({}),
    calibration: Calibration | None = None,
    blend: Mapping[str, float] | None = None,
    no_blend: Mapping[str, str] | None = None,
) -> Verdict:
    """Judge a run by the comparisons of its model with others: by the proper score first, then by the main metric.

    Args:
        training: None where it does not matter which weights were kept.
        metric: the main one.
        comparisons: by the main metric.
        conditions: the attributes that the compared models read, by their names.
        proper: the same by the proper score of the task; of models without one the main metric decides.
        by_attribute: from `attribute_gains`.
        together: those of them that show no gain alone.
        by_count: from `gains_by_count`.
        figures: the main metric of each model by its name, if baselines are among them.
        calibration: of the model.
        blend: the weights of the network and of the models beside it.
        no_blend: the reason why there is none, where one was asked for.
    """
    kept = _kept(recipe, training, metric) if training is not None and recipe.learner.has_settings else None
    reads = recipe.learner.reads_attributes and bool(recipe.data.attributes) and not recipe.data.shuffled
    found = {pair.b: pair for pair in proper}
    pairs = [_Pair(found.get(pair.b), pair) for pair in comparisons]
    return Verdict(
        metric=metric,
        kept=kept,
        calibration=calibration,
        blend=_blended(pairs, blend) if no_blend is None else NotBlended(**no_blend),
        baseline=_baseline(recipe, pairs, kept),
        attributes=_attributes(recipe, pairs, conditions) if reads else None,
        by_attribute=list(by_attribute) if reads else [],
        together=_with_kept(recipe, together) if reads else None,
        by_count=list(by_count) if reads else [],
        given_away=_given_away(metric, figures, recipe.attribute_names, by_attribute),
    )


def _blended(pairs: Sequence[_Pair], weights: Mapping[str, float] | None) -> Blended | None:
    alone = next((pair for pair in pairs if pair.b.endswith(NOT_BLENDED)), None)
    return None if weights is None or alone is None else Blended(**weights, comparison=alone.first)


def _with_kept(recipe: Recipe, together: AttributesTogether | None) -> AttributesTogether | None:
    """Add the attributes that a training without these has."""
    if together is None:
        return None
    left_out = {*together.attributes, *together.hurting}
    kept = [dict(one) for one in recipe.data.attributes if one["name"] not in left_out]
    return together.model_copy(update={"kept": kept})


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


def _kept(recipe: Recipe, training: TrainingRecord, main_metric: str) -> KeptWeights | None:
    if not training.steps or training.keeps_last:
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
        limit=(recipe.training.epochs or training.epochs) if steps is None else steps,
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
        answer = self.first.answer(self.first.metric)
        return self.main.answer(self.main.metric) if answer == "not shown" else answer

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
    result = BaselineResult(answer=best.answer, comparison=best.first, readable=best.readable, advice=[])
    if best.first.can_show_none and best.main.can_show_none:
        advice = [Finding("try-more-rows")]
    elif best.answer != "yes" and recipe.learner.has_settings:
        advice = list(_advice(recipe, best.b, kept, is_mixed=result.is_mixed))
    else:
        return result
    return result.model_copy(update={"advice": [one.text for one in advice]})


def _advice(recipe: Recipe, baseline: str, kept: KeptWeights | None, *, is_mixed: bool) -> Iterator[Finding]:
    if baseline == TEXT_ONLY:
        yield Finding("try-without-attributes")
    if kept is not None and kept.is_last:
        yield Finding.of("try-longer-training", setting=kept.setting, limit=kept.limit)
    if baseline == WHOLE_TEXTS:
        yield Finding.of("try-longer-window", limit=recipe.data.max_length or USUAL_LENGTH)
    if recipe.learner.tuning == "frozen":
        yield Finding("try-trained-backbone")
    if baseline != MAJORITY and not is_mixed:
        yield Finding.of("try-baseline", method=baseline.split(",")[0], with_attributes=baseline != TEXT_ONLY)


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

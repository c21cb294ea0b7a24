"""The sentences of a verdict: what attributes and models are worth, and what to do."""

from __future__ import annotations

from collections.abc import Sequence

from attribune.core.door import as_attributes, as_call
from attribune.core.wording import counted
from attribune.findings.sentences import Sentences, Values
from attribune.metrics.bootstrap import PairedResult
from attribune.metrics.metric import metric_info
from attribune.metrics.results import ENOUGH_TO_LEAVE_OUT, range_name
from attribune.metrics.tables import could_be_shown, format_difference


def _figure(values: Values) -> str:
    """Return a difference with its interval and p-value as a sentence has them."""
    metric, pair = str(values["metric"]), PairedResult.from_record(values)
    p = f"p = {pair.p_value:.3f}" if pair.p_value >= 0.001 else "p < 0.001"
    return f"{metric_info(metric).words} {format_difference(metric, pair, unit='points')}, {p}"


def _figures(values: Values) -> str:
    """Return the figures of both metrics, the one that decides first."""
    first, *others = values["figures"]
    is_open = values["shown_on"] == [first["metric"]]
    return "; ".join([_figure(first), *(f"{_figure(one)}{' (not conclusive)' if is_open else ''}" for one in others)])


def _metrics(names: list[str]) -> str:
    return " and ".join(metric_info(name).words for name in names)


def _value(metric: str, value: float) -> str:
    info = metric_info(metric)
    return f"{info.scale * value:.4g}{info.unit and f' {info.unit}'}"


def _could_be_shown(values: Values) -> str:
    """Say which difference the rows could have shown."""
    first = values["figures"][0]
    pair = PairedResult.from_record(first)
    least = could_be_shown(first["metric"], pair)
    if pair.can_show_none:
        return f" These are {least}."
    return least and f" On {metric_info(first['metric']).words}, {least}."


def _given_away(values: Values) -> str:
    """A column gives the label away: the baseline that reads no text is right nearly everywhere."""
    metric, columns = values["metric"], values["columns"]
    one_of = "the column" if len(columns) == 1 else "one of the columns"
    return (
        f"A column gives the label away: the baseline attributes-only, which reads no text, has the "
        f"{metric_info(metric).words} {_value(metric, values['value'])}, and the majority "
        f"{_value(metric, values['majority'])}. Look at {one_of} {', '.join(map(repr, columns))}: leave out what is "
        "not known before the label, and train again; until then no other figure says anything."
    )


def _against(values: Values) -> str:
    other = "the same model with its attributes hidden"
    if values["against"] != "hidden":
        other = f"{values['other']}, trained without attributes"
    return f"Against {other}, the attributes"


def _attributes_help(values: Values) -> str:
    """The attributes help, by one metric at least."""
    return _attributes(values, "help")


def _attributes_hurt(values: Values) -> str:
    """The model is worse with its attributes, by one metric at least."""
    return _attributes(values, "hurt")


def _attributes(values: Values, verb: str) -> str:
    if values["worse_on"] is None:
        return f"{_against(values)} {verb} on {_metrics(values['shown_on'])}: {_figures(values)}."
    better, worse = (metric_info(values[name]).words for name in ("better_on", "worse_on"))
    return (
        f"{_against(values)} help on {better} and hurt on {worse}: {_figures(values)}. "
        f"Keep them if {better} counts more for you."
    )


def _attributes_not_shown(values: Values) -> str:
    """It is not shown whether the attributes help."""
    return f"{_against(values)} are not shown to help or hurt: {_figures(values)}.{_could_be_shown(values)}"


def _hidden_overstates(values: Values) -> str:
    """The comparison was with hidden attributes, which can overstate what they are worth."""
    return (
        "With its attributes hidden, the model lacks values on which it has learned to rely, which can overstate what "
        "they are worth. To compare with a model that is trained without them, use "
        f"{as_call('train', compare='adapter')}."
    )


def _each_attribute(values: Values) -> str:
    """The effects of single attributes follow."""
    number = values["attributes"]
    corrected = f" (p-values are corrected for {number} attributes, intervals are not)" if number > 1 else ""
    return f"Each attribute hidden alone in the trained model{corrected}:"


def _attribute_helps(values: Values) -> str:
    """One attribute helps."""
    return _attribute(values, "helps")


def _attribute_hurts(values: Values) -> str:
    """The model is worse with one attribute."""
    return _attribute(values, "hurts")


def _attribute_not_shown(values: Values) -> str:
    """It is not shown whether one attribute helps."""
    return _attribute(values, "is not shown to help or hurt")


def _attribute(values: Values, verb: str) -> str:
    first, *others = values["figures"]
    figures = _figure({**first, "p_value": values["corrected_p_value"]})
    if values["lost_by_correction"]:
        figures += " (not conclusive after the correction)"
    figures = "; ".join([figures, *map(_figure, others)])
    decides = f" ({metric_info(first['metric']).words} decides)" if values["contradicted"] else ""
    return f"{values['attribute']} {verb}: {figures}{decides}."


def _them(names: Sequence[str]) -> str:
    return "it" if len(names) == 1 else "them"


def _joined(names: Sequence[str]) -> str:
    """Return names with commas, and ``and`` before the last one."""
    return " and ".join(filter(None, [", ".join(names[:-1]), names[-1]]))


def _to_leave_out(values: Values) -> str:
    """Nothing is shown to be gained by some attributes, alone or together: leave them out."""
    names, hurting, kept = values["attributes"], values["hurting"], values["kept"]
    them = _them(names)
    what = f"Leave out {_joined(names)} as well as {_joined(hurting)}" if hurting else f"Leave out: {', '.join(names)}"
    figures, is_silent = values["figures"], PairedResult.from_record(values["figures"][0]).can_show_none
    shown = f"Nothing is shown to be gained by {them}"
    if values["better_without"]:
        shown = f"The model is better without {them}"
    least = "" if is_silent or values["better_without"] else _could_be_shown(values)
    given = as_attributes(kept) if kept else "no attributes are left"
    return (
        f"{what}. {shown}: {'; '.join(map(_figure, figures))}.{least} "
        f"Without {_them([*names, *hurting])}, the run is smaller and needs fewer columns ({given})."
    )


def _missed_together(values: Values) -> str:
    """Some attributes are missed together, and none of them alone."""
    names, hurting, figures = values["attributes"], values["hurting"], "; ".join(map(_figure, values["figures"]))
    if hurting:
        return f"Keep {_joined(names)}: without {_joined(hurting)}, the model is better with {_them(names)}: {figures}."
    return (
        f"{_joined(names)} may say the same: each alone is not shown to be missed, but together they are: {figures}. "
        "Or each adds too little to be shown alone. Leave out at most one of them, and look again."
    )


def _too_few_to_leave_out(values: Values) -> str:
    """There are too few rows to say whether some attributes can be left out."""
    names, rows = values["attributes"], counted(values["rows"], "row")
    with_value = values["with_value"]
    if with_value == values["rows"]:
        about = f"only {rows} {'is' if with_value == 1 else 'are'} scored"
    else:
        about = f"only {with_value:,} of {rows} have a value of {_them(names)} that the model knows"
    if with_value is None or with_value >= ENOUGH_TO_LEAVE_OUT:
        differing = values["differing"]
        about = f"without {_them(names)}, {differing:,} of {rows} (or of what they share) have another score"
    return f"There are too few rows to say whether to leave out {_joined(names)}: {about}. Gather several hundred."


def _attributes_by_count(values: Values) -> str:
    """What the attributes change in rows whose value has few or many training rows."""
    low, high = values["low"], values["high"]
    number = "no training row" if high == 0 else f"{range_name(low, high)} training rows"
    number = number.removesuffix("s") if (low, high) == (1, 1) else number
    answers = {"yes": "the attributes help", "no": "the model is worse with them", "not shown": "no difference shown"}
    return (
        f"Where the {values['attribute']} has {number} ({counted(values['rows'], 'row')}): "
        f"{answers[values['answer']]}, {_figure(values['figures'][0])}, against hidden attributes."
    )


def _better_than_baselines(values: Values) -> str:
    """The model is better than every cheap baseline."""
    return _mixed_baseline(values) or (
        f"The model is better than every cheap baseline on {_metrics(values['shown_on'])}; the best of them is "
        f"'{values['baseline']}': {_figures(values)}."
    )


def _worse_than_baseline(values: Values) -> str:
    """A cheap baseline is better than the model."""
    return _mixed_baseline(values) or (
        f"The model is worse than the cheap baseline '{values['baseline']}' on {_metrics(values['shown_on'])}: "
        f"{_figures(values)}."
    )


def _mixed_baseline(values: Values) -> str:
    """Say that the two metrics disagree; nothing where they do not."""
    if values["worse_on"] is None:
        return ""
    better, worse = (metric_info(values[name]).words for name in ("better_on", "worse_on"))
    return (
        f"The model is better than the cheap baseline '{values['baseline']}' on {better} and worse on {worse}: "
        f"{_figures(values)}. Take the one that is better on what counts for you."
    )


def _baseline_not_shown(values: Values) -> str:
    """A cheap baseline may be as good as the model."""
    return (
        f"The model is not shown to differ from the cheap baseline '{values['baseline']}': {_figures(values)}."
        f"{_could_be_shown(values)}"
    )


def _take_baseline(values: Values) -> str:
    """Advice: the baseline costs less."""
    without = "" if values["with_attributes"] else ", without attributes"
    return f"or take the baseline, which costs less ({as_call('train', method=values['method'])}{without})"


def _use_model(values: Values) -> str:
    """Use this model, which is better than the baselines."""
    if values["attributes_not_shown"]:
        return "What to do: use this model, which may be as good without its attributes."
    without = values.get("without", [])
    return f"What to do: use this model{f', or a smaller one without {_joined(without)}' if without else ''}."


def _signs(values: Values) -> str:
    """What the signs of the differences mean."""
    better = [f"{word} is better for {_metrics(values[word])}" for word in ("less", "more") if values[word]]
    return f"Differences are the model minus what it is compared with; {', '.join(better)}."


def _weights_kept(values: Values) -> str:
    """Which weights the model has."""
    return f"The weights are those after {_epoch(values)}, which had the best {_checked(values)}."


def _only_check(values: Values) -> str:
    """Which weights the model has, where there was one check only."""
    return (
        f"The weights are those after {_epoch(values)}, the only check ({_checked(values)}). To see whether the model "
        f"still improves, raise {values['setting']} (now {values['limit']:g})."
    )


def _epoch(values: Values) -> str:
    return f"epoch {values['epoch']:.3g} of {values['epochs']:.3g}"


def _checked(values: Values) -> str:
    metric, value = values["metric"], values["value"]
    return f"validation {metric_info(metric).words}{'' if value is None else f', {_value(metric, value)}'}"


def counting_models(*, neural_weight: float, linear_weight: float, trees_weight: float = 0.0) -> str:
    """Return which models count beside a network, without a capital and a full stop."""
    weights = {"a linear model": linear_weight, "boosted trees": trees_weight}
    counting = {name: f"{weight:.3g}" for name, weight in weights.items() if weight}
    verb, ending = ("counts", "") if list(counting) == ["a linear model"] else ("count", "s" * (len(counting) > 1))
    return (
        f"{' and '.join(counting)} of words and attributes {verb} beside the network, with the weight{ending} "
        f"{' and '.join(counting.values())}, and the network with {neural_weight:.3g}"
    )


def _blended(values: Values) -> str:
    """Simple models count beside the network, and what they change."""
    weights = {name: value for name, value in values.items() if name.endswith("_weight")}
    figures, said = "; ".join(map(_figure, values["figures"])), counting_models(**weights)
    return (
        f"{said[0].upper()}{said[1:]}, as fits rows that none of them had read. Against the network alone, "
        f"{values['rows']} {figures}.{_if_fitted_on(values['rows'])}"
    )


def _if_fitted_on(part: str) -> str:
    """Say that figures are of the rows on which weights and temperature were fitted, where there are no others."""
    return " These are the rows on which that was fitted, so the gain is too high." if part == "validation" else ""


_NO_BLEND = {
    "method": "there is none beside the method {detail}",
    "task": "there is none for the task {detail!r}",
    "score": "the task {detail!r} has no score by which weights could be chosen",
    "fit": "{detail}",
    "weight": "the best weights for them on rows that none of them had read are 0",
}


def _no_blend(values: Values) -> str:
    """Models were to count beside the network, and cannot."""
    reason = _NO_BLEND[values["reason"]].format(**values)
    return f"No model counts beside the network, though training.blend is always: {reason}."


def _calibrated(values: Values) -> str:
    """Logits are divided by a temperature, and what the probabilities were without it."""
    metric, temperature = values["metric"], f"{values['temperature']:.3g}"
    return (
        f"The probabilities are calibrated on rows that the network had not read (temperature {temperature}): "
        f"{values['rows']} {metric_info(metric).words} {_value(metric, values['after'])}, and "
        f"{_value(metric, values['before'])} without it.{_if_fitted_on(values['rows'])}"
    )


SENTENCES: Sentences = {
    "label-given-away": _given_away,
    "attributes-help": _attributes_help,
    "attributes-hurt": _attributes_hurt,
    "attributes-not-shown": _attributes_not_shown,
    "hidden-overstates": _hidden_overstates,
    "each-attribute": _each_attribute,
    "attribute-helps": _attribute_helps,
    "attribute-hurts": _attribute_hurts,
    "attribute-not-shown": _attribute_not_shown,
    "attributes-together": "Together, the attributes help, and these rows do not show which one does: keep them all.",
    "attributes-to-leave-out": _to_leave_out,
    "all-attributes-to-leave-out": "Leave out all attributes: {attributes:list}. Neither alone nor together are they "
    "shown to gain anything; a training without attributes is smaller and needs none of these columns.",
    "attributes-missed-together": _missed_together,
    "too-few-to-leave-out": _too_few_to_leave_out,
    "attributes-by-count": _attributes_by_count,
    "better-than-baselines": _better_than_baselines,
    "worse-than-baseline": _worse_than_baseline,
    "baseline-not-shown": _baseline_not_shown,
    "leave-out": "What to do first: leave out {attributes:list}, and train again.",
    "leave-out-all": "What to do first: leave the columns of the attributes out, and train again.",
    "what-to-try": "What to try: {advice}.",
    "use-model": _use_model,
    "sign-of-differences": _signs,
    "only-check": _only_check,
    "weights-kept": _weights_kept,
    "last-check-best": "That was the last check, so the model may still improve: raise {setting} (now {limit:g}).",
    "blended-with-linear": _blended,
    "blend-not-possible": _no_blend,
    "probabilities-calibrated": _calibrated,
    "stopped-early": "The training stopped early, since no later check was better (training.patience).",
    # advice
    "try-more-rows": "several hundred test rows, before anything else",
    "try-without-attributes": "a training without the attributes, which this baseline does not read",
    "try-longer-training": "a longer training ({setting}, now {limit:,g})",
    "try-longer-window": "a longer window (data.max_length, now {limit:,})",
    "try-trained-backbone": "a backbone that is trained as well (backbone.tuning=lora or full; it is frozen)",
    "try-baseline": _take_baseline,
}

HEADLINES = {
    "label-given-away": "A column gives the label away.",
    "attributes-help": "The attributes help.",
    "attributes-hurt": "The model is worse with its attributes.",
    "attributes-not-shown": "It is not shown whether the attributes help.",
    "better-than-baselines": "The model is better than every cheap baseline.",
    "worse-than-baseline": "The cheap baseline {baseline} is better than the model.",
    "baseline-not-shown": "The cheap baseline {baseline} may be as good as the model.",
}

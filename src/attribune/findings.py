"""Findings as data, of a verdict and of a table, and the one sentence for each of them.

A terminal, a page, a file and Python say the same of a finding, since all of them ask `said`.
"""

from __future__ import annotations

import json
import string
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from attribune.core.door import as_argument, as_attribute, as_attributes, as_call
from attribune.core.wording import counted, listed_counts
from attribune.metrics.bootstrap import PairedResult
from attribune.metrics.metric import metric_info
from attribune.metrics.results import LEAST_ROWS, range_name
from attribune.metrics.tables import could_be_shown, format_difference

__all__ = ["CODES", "Finding", "if_labels", "meanings", "outside_scale", "rows_without_text", "said"]

Values = Mapping[str, Any]

_SHOWN_CLASSES, _EXAMPLES = 20, 5


@dataclass(frozen=True)
class Finding:
    """Something that was found, for programs and, by `text`, for people.

    Args:
        code: a short name that stays the same, one of `CODES`.
        values: the figures and names of the finding, as JSON has them.
    """

    code: str
    values: Values = field(default_factory=dict)

    @classmethod
    def of(cls, code: str, **values: Any) -> Finding:
        """Make a finding of values, of which numpy's numbers become Python's."""
        plain = {name: value.item() if isinstance(value, np.generic) else value for name, value in values.items()}
        return cls(code, plain)

    def of_part(self, part: str) -> Finding:
        """Return the finding as one of a part, such as ``train``, which its sentence names first."""
        inner = self.values.get("part")
        return Finding(self.code, {**self.values, "part": part if inner is None else f"{part}: {inner}"})

    @property
    def text(self) -> str:
        """The finding in a sentence, see `said`."""
        return said(self)

    def __str__(self) -> str:
        return self.text

    @property
    def headline(self) -> str:
        """The answer of a finding of a verdict without figures; empty for others."""
        return _WORDS.format(_HEADLINES.get(self.code, ""), **self.values)

    def to_dict(self) -> dict[str, Any]:
        """Return ``code``, ``values`` and ``text``."""
        return {"code": self.code, "values": dict(self.values), "text": self.text}


def said(finding: Finding) -> str:
    """Return a finding in a sentence, in which settings and calls are those of where the user stands.

    Raises:
        KeyError: for a code that is none of `CODES`.
    """
    sentence, part = _SENTENCES[finding.code], finding.values.get("part")
    text = _WORDS.format(sentence, **finding.values) if isinstance(sentence, str) else sentence(finding.values)
    return text if part is None else f"{part}: {text}"


def meanings() -> dict[str, str]:
    """Return what each code means: its sentence with the names of its values, or what the sentence says."""
    said = {
        code: sentence if isinstance(sentence, str) else str(sentence.__doc__).partition("\n")[0].rstrip(".")
        for code, sentence in _SENTENCES.items()
    }
    return {**said, **_SAID_ELSEWHERE}


class _Words(string.Formatter):
    """Formats ``{rows:# row}`` as a number of rows, ``{names:list}`` with commas and ``{names:quoted}`` in quotes."""

    def format_field(self, value: Any, format_spec: str) -> str:
        """Return a value as its specification wants it, which may be any that Python knows as well."""
        if format_spec.startswith("# "):
            return counted(value, format_spec[2:])
        if format_spec in ("list", "quoted"):
            return ", ".join(map(repr if format_spec == "quoted" else str, value))
        if format_spec == "metric":
            return metric_info(value).words
        return str(super().format_field(value, format_spec))


_WORDS = _Words()


def _figure(values: Values) -> str:
    """Return a difference with its interval and p-value as a sentence has them."""
    metric, pair = str(values["metric"]), PairedResult.from_record(values)
    info = metric_info(metric)
    difference, rest = format_difference(metric, pair).split(" ", 1)
    p = f"p = {pair.p_value:.3f}" if pair.p_value >= 0.001 else "p < 0.001"
    return f"{info.words} {difference}{' points' if info.is_share else ''} {rest}, {p}"


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
    about = f"a value of {_them(names)} that the model knows is in {with_value:,} of {rows}"
    if with_value is None or with_value >= LEAST_ROWS:
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
        f"{values['rows']} {figures}."
    )


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
        f"{_value(metric, values['before'])} without it."
    )


def _out_of_fold(values: Values) -> str:
    """Each row is scored by the model of a fold."""
    said = (
        f"each of the {values['rows']:,} rows is scored by a model that has not read it, one of {values['folds']} that "
        "are trained for that; the model that is saved is trained on all rows, and probably a little better"
    )
    cure = as_argument("data.split.folds", 0)
    return f"{said}. To train one model, and score a tenth of the rows: {cure}" if values["is_chosen"] else said


def rows_without_text(number: int, first: Sequence[int]) -> str:
    """Return how many rows have no text, with the numbers of the first ones; nothing for 0 rows."""
    if not number:
        return ""
    listed = ", ".join(f"{row:,}" for row in first) + (", ..." if number > len(first) else "")
    return f"{counted(number, 'row has', 'rows have')} no text ({'row' if number == 1 else 'rows'} {listed})"


def _no_text(values: Values) -> str:
    """Rows have no text, and are left out."""
    number = values["rows"]
    words = rows_without_text(number, values["first"])
    return f"{words}, and {'is' if number == 1 else 'are'} left out of a training"


def _placeholders(values: Values) -> str:
    """Texts look like a word for none."""
    listed = ", ".join(f"{text!r} ({count:,})" for text, count in values["examples"].items())
    some = counted(values["texts"], "text that looks like none is", "texts that look like none are")
    more = ", ..." if values["more"] else ""
    return f"{some} learned from: {listed}{more}; empty these cells to leave their rows out"


def _no_column(values: Values) -> str:
    """No column looks like a text, or like a label."""
    return f"no column looks like a {values['role']}: name it with {as_argument('data.' + values['role'])}"


def _rare_classes(values: Values) -> str:
    """Classes have few rows."""
    listed = ", ".join(map(repr, values["examples"])) + (", ..." if values["classes"] > len(values["examples"]) else "")
    some = counted(values["classes"], "class", "classes")
    return f"{some} with fewer than {values['least']} rows ({listed}): join classes, or correct the labels"


def _alike_classes(values: Values) -> str:
    """Classes are one number, or differ in capitals, spaces or the encoding of letters alone."""
    groups = values["examples"]
    listed = "; ".join(", ".join(f"{name!r} ({count:,})" for name, count in names.items()) for names in groups)
    more = f"; and {values['groups'] - len(groups):,} others" if values["groups"] > len(groups) else ""
    if values["are_numbers"]:
        cure = f"use {as_argument('task.kind', 'rating')} or {as_argument('task.kind', 'ordinal')}, which read numbers"
        return f"classes that are the same number are learned as different ones: {listed}{more}: {cure}"
    cure = "write them in one way if they are the same"
    return f"classes that differ in capitals or spaces alone are learned as different ones: {listed}{more}: {cure}"


def _class_words(values: Values) -> str:
    """Classes look like a word for none."""
    listed = ", ".join(f"{word!r} in {counted(count, 'row')}" for word, count in values["words"].items())
    return (
        f"label {values['column']!r}: {listed} count as classes; if they mean that there is no label, empty these cells"
    )


def _value_words(values: Values) -> str:
    """Values of attributes look like a word for none."""
    found = values["words"]
    listed = "; ".join(
        f"{word!r} in {counted(count, 'row')} of {name!r}"
        for name, words in found.items()
        for word, count in words.items()
    )
    every = list(dict.fromkeys([*values["missing"], *(word for words in found.values() for word in words)]))
    return f"these count as values: {listed}; if they mean that there is none, use {as_argument('data.missing', every)}"


def _times(values: Values) -> str:
    """A column has times, and the rows are split at random."""
    column = values["column"]
    by_time = as_call("train", **{"data.split.by": "time", "data.split.column": column})
    return f"column {column!r} has times, and the rows are split at random: to test on the latest ones, use {by_time}"


def _dates(values: Values) -> str:
    """A column has dates, which could be an attribute."""
    column, formats = values["column"], values["formats"]
    flags = " or ".join(as_attribute("date", column, one) for one in formats)
    cure = f"{flags} gives the model their year, month, weekday and age"
    if len(formats) > 1:
        cure += "; no row tells whether the day or the month comes first"
    return f"column {column!r} holds dates, which the proposed training does not read: {cure}"


def _copies(values: Values) -> str:
    """Rows are copies of an earlier one."""
    but = f" but {', '.join(map(repr, values['ids']))}" if values["ids"] else ""
    return (
        f"{counted(values['rows'], 'row is a copy', 'rows are copies')} of an earlier row in all columns{but}, "
        f"such as {_example(values)}: a copy counts twice, and one in test rows of their own is asked after it was "
        "learned; remove copies, unless each was observed"
    )


def _contradictions(values: Values) -> str:
    """Rows have all of an earlier one but the label."""
    return (
        f"{counted(values['rows'], 'row has', 'rows have')} the text and the attributes of an earlier row and another "
        f"label, such as {_example(values)}: no model is right about both; correct the labels, or name the attribute "
        "that tells such rows apart"
    )


def _example(values: Values) -> str:
    return f"row {values['row']:,} (of row {values['earlier']:,})"


def _unique(values: Values) -> str:
    """Nearly all values of a column occur once."""
    return (
        f"column {values['column']!r}: {values['once']:,} of its {values['values']:,} values occur in a single row "
        "each, so nothing can be learned from them for others: leave it out, or describe its values in a table with "
        f"{as_argument('data.values', at='train')}"
    )


def _tells_label(values: Values) -> str:
    """The values of a column determine the label."""
    or_label = "; if it is the label itself, name it (label)" if values["is_guess"] else ""
    return (
        f"column {values['column']!r} determines the label: {values['share']:.1%} of the rows have the label of the "
        f"others with their value; leave it out unless it is known before the label{or_label}"
    )


def _column_of_parts(values: Values) -> str:
    """A column of names of parts is no attribute."""
    files = f"{as_argument('data.validation')} and {as_argument('data.test')}"
    return (
        f"column {values['column']!r} says in which part a row is, and a split knows nothing of it: write the rows of "
        f"each part to a file, and name them with {files}"
    )


def _decimal_commas(values: Values) -> str:
    """A column of numbers with decimal commas is read as texts."""
    return (
        f"column {values['column']!r} is left out: its numbers have decimal commas, such as {values['example']!r}, and "
        f"are texts here: read a file with {as_argument('decimal', ',')}, or make numbers of the column"
    )


def if_labels() -> str:
    """Return what to do if words that count as no label are labels."""
    return (
        "these words count as no label; if one of them is a label, name the words that are none, without it, as in "
        f"{as_argument('task.missing', [''])}"
    )


def _rows_read(values: Values) -> str:
    """How many rows were read, and from where."""
    limit = "" if values["limit"] is None else f", at most its first {values['limit']:,}"
    return f"{counted(values['rows'], 'row')} read from {values['source']}{limit}"


def _without_label(values: Values) -> str:
    """Rows without a label are left out."""
    words = f": {values['words']}; {if_labels()}" if values["words"] else ""
    return f"{counted(values['rows'], 'row')} without a label left out{words}"


def outside_scale(values: Values) -> str:
    """Return how many rows have a label outside the scale of the task."""
    return f"{values['rows']:,} of {values['of']:,} rows have a label outside the scale of the task {values['task']!r}"


def _outside_scale(values: Values) -> str:
    """Rows with a label outside the scale of the task are left out."""
    return f"{outside_scale(values)}, and are left out: {values['listed']}"


def _class_counts(values: Values) -> str:
    """How many training rows each class has."""
    rows = values["rows"]
    if len(rows) > _SHOWN_CLASSES:
        return f"{len(rows):,} classes, of {min(rows.values()):,} to {max(rows.values()):,} rows"
    return f"rows of each class: {listed_counts(rows, most=_SHOWN_CLASSES)}"


def _hardly_learned(values: Values) -> str:
    """Classes have too few training rows to be learned."""
    rows = values["rows"]
    return (
        f"{counted(len(rows), 'class', 'classes')} with fewer than {values['least']} rows "
        f"({listed_counts(rows, most=_SHOWN_CLASSES)}), which a model can hardly learn: add rows, or join classes"
    )


def _absent_classes(values: Values) -> str:
    """Rows on which a model is scored lack classes."""
    classes = values["classes"]
    listed = ", ".join(map(repr, classes[:_EXAMPLES])) + (", ..." if len(classes) > _EXAMPLES else "")
    return f"no row of {counted(len(classes), 'class', 'classes')} ({listed}), about which its figures say nothing"


def _not_learned(values: Values) -> str:
    """Training rows have labels that are no class of the run that is trained further."""
    return f"{_have_a_label(values)} is none of its classes and is not learned: {_labels(values)}"


def _not_in_training(values: Values) -> str:
    """Rows on which a model is scored have labels that no training row has."""
    about = "no model can predict it, which counts as wrong"
    return f"{_have_a_label(values)} no training row has: {_labels(values)}; {about}"


def _have_a_label(values: Values) -> str:
    return f"{counted(values['rows'], 'row has', 'rows have')} a label that"


def _labels(values: Values) -> str:
    examples = values["examples"]
    more = f", and {values['labels'] - len(examples):,} others" if values["labels"] > len(examples) else ""
    return ", ".join(f"{label!r} ({count:,})" for label, count in examples.items()) + more


def _trained_before(values: Values) -> str:
    """Rows on which a model is scored were training rows of the run that is trained further."""
    return (
        f"{counted(values['rows'], 'row has', 'rows have')} a text on which {values['run']} was trained, which this "
        "training continues: its figures are too high"
    )


def _nested_columns(values: Values) -> str:
    """Columns are nested, as a city is in a state."""
    columns, share = values["columns"], values["share"]
    names = ", ".join(map(repr, columns))
    return (
        f"columns {names} are nested, such as {' and '.join(map(repr, values['examples']))} ({share:.1%} of the rows "
        f"agree): where values of {columns[-1]!r} are rare or new later, read them as one attribute, in which the "
        f"level above takes their place: {as_attribute('hierarchy', ' > '.join(columns))} instead of {names}"
    )


def _values_dropped(values: Values) -> str:
    """Rows have more values of an attribute than are kept."""
    cure = {"kind": values["kind"], "name": values["name"], "separator": values["separator"]}
    listed = ", ".join(f"{key}: {json.dumps(value)}" for key, value in cure.items() if value is not None)
    return (
        f"attribute {values['name']!r}: {values['dropped']:,} values dropped, since a row keeps at most "
        f"{values['slots']:,}: raise its max_per_row in data.attributes, as in "
        f"{{{listed}, max_per_row: {2 * values['slots']}}}"
    )


def _tags_without_form(values: Values) -> str:
    """Tags keep the others from being counted as entities."""
    examples = values["examples"]
    shown = ", ".join(f"{tag!r} ({count:,} words)" for tag, count in examples.items())
    more = f", and {values['tags'] - len(examples):,} others" if values["tags"] > len(examples) else ""
    return (
        f"the tags {shown}{more} have no form such as O, B-PER or I-PER, so all are scored word by word, and "
        "the accuracy selects the weights in place of the F1 of entities: correct them, or set "
        "task.scheme=conll, which takes each word with one of them for an entity"
    )


_SAID_ELSEWHERE = {
    "split-counts": "How many rows each part has, and how many were left out when the table was split",
    "attribute-counts": "How many values an attribute has, and how many cells are empty, unknown or trimmed",
    "label-note": "What the task changed in labels, or cannot use",
    "texts-cut": "How many texts are longer than the window",
    "intervals-over": "Rows are not independent, and intervals are over what they share",
}
"""The meanings of findings whose text a report or a task has written."""

_SENTENCES: dict[str, str | Callable[[Values], str]] = {
    # of a verdict
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
    # advice of a verdict
    "try-more-rows": "several hundred test rows, before anything else",
    "try-without-attributes": "a training without the attributes, which this baseline does not read",
    "try-longer-training": "a longer training ({setting}, now {limit:,g})",
    "try-longer-window": "a longer window (data.max_length, now {limit:,})",
    "try-trained-backbone": "a backbone that is trained as well (backbone.tuning=lora or full; it is frozen)",
    "try-baseline": _take_baseline,
    # of a table
    "few-rows": "there are {rows:,} rows, of which little can be learned: gather at least some hundred",
    "no-column": _no_column,
    "rows-without-label": "{rows:,} rows have no label, and are left out of a training",
    "rows-without-text": _no_text,
    "placeholder-texts": _placeholders,
    "one-class": "all labels are {label!r}, of which nothing can be learned: name another column",
    "rare-classes": _rare_classes,
    "alike-classes": _alike_classes,
    "class-words": _class_words,
    "value-words": _value_words,
    "nested-columns": _nested_columns,
    "test-rows-in-training": "{rows:,} of {test_rows:,} test rows have a text that training rows have, {same_label:,} "
    "of them with the same label: figures on them are too high; remove them from one of the two",
    "repeated-texts": "{rows:,} rows repeat the text of an earlier row: a split keeps equal texts in one part, so that "
    "none is learned and asked; remove the repetitions if they are errors",
    "times-split-at-random": _times,
    "dates-not-read": _dates,
    "copied-rows": _copies,
    "contradicting-rows": _contradictions,
    "column-without-values": "column {column!r} has no value in any row: leave it out",
    "column-mostly-missing": "column {column!r} is missing in {share:.1%} of the rows, and can hardly help: leave it "
    "out",
    "column-with-one-value": "column {column!r} has one value, {value!r:.60}, and cannot help: leave it out",
    "column-of-unique-values": _unique,
    "column-is-label": "column {column!r} is the label in {share:.1%} of the rows: leave it out, or the model reads "
    "the answer",
    "column-only-with-label": "column {column!r} has values nearly only in rows with the label {label!r:.60}: leave it "
    "out, because having a value tells the label",
    "label-tells-column": "the label determines column {column!r}: {share:.1%} of the rows have the value of the "
    "others with their label, as if it were made of the label; leave it out unless it is known before the label",
    "columns-say-the-same": "columns {label!r} and {column!r} say the same, each value of one with one value of the "
    "other: {label!r} is taken for the label, and {column!r} is left out, since it tells the answer; if {column!r} is "
    "the label, name it (label)",
    "column-tells-label": _tells_label,
    "columns-add-up-to-label": "the numbers of {columns:quoted} add up to the label, and explain {share:.1%} of its "
    "variance: they are left out, since they are of the answer; name them as attributes if they are known before it",
    "named-as-label": "column {column!r} has the name of a label, and is taken for an attribute beside {label!r}: if "
    "it is the label, name it (label); if it is not known before the label, leave it out",
    "column-of-parts": _column_of_parts,
    "numbers-with-signs": "column {column!r} has numbers with a sign, such as {example!r}, which are read as names: "
    "write the numbers alone, and they are compared as numbers",
    "decimal-commas": _decimal_commas,
    # of the rows of a training
    "rows-read": _rows_read,
    "left-out-without-text": "{rows:# row} without a text left out",
    "left-out-without-label": _without_label,
    "left-out-outside-scale": _outside_scale,
    "left-out-weight-zero": "{rows:# row} of weight 0 left out",
    "no-test-rows": "no test rows: a validation file was given without a test file, so only validation is scored",
    "texts-of-training": "{texts:,} of its texts are also among the training texts: its figures are too high",
    "trained-before": _trained_before,
    "class-counts": _class_counts,
    "hardly-learned-classes": _hardly_learned,
    "absent-classes": _absent_classes,
    "labels-not-learned": _not_learned,
    "labels-not-in-training": _not_in_training,
    "tags-without-form": _tags_without_form,
    "values-dropped": _values_dropped,
    "scored-out-of-fold": _out_of_fold,
    "window-lengthened": "{longer:.0%} of the texts are longer than {usual} tokens, so up to {size} are read of each, "
    "which takes about {cost:.1f} times as long, and more memory: set max_length to read another number",
    "values-unread": "{count:,} of {values:,} values of {attribute} have words that the tokenizer of the backbone does "
    "not know, and that are read alike: choose another backbone or method",
    "answers-not-in-window": "{answers:,} of {rows:,} answers are whole in no window of {window}, and learned as if "
    "there were none: raise max_length",
    **dict.fromkeys(_SAID_ELSEWHERE, "{text}"),
}

CODES = tuple(_SENTENCES)
"""The codes of findings."""

_HEADLINES = {
    "label-given-away": "A column gives the label away.",
    "attributes-help": "The attributes help.",
    "attributes-hurt": "The model is worse with its attributes.",
    "attributes-not-shown": "It is not shown whether the attributes help.",
    "better-than-baselines": "The model is better than every cheap baseline.",
    "worse-than-baseline": "The cheap baseline {baseline} is better than the model.",
    "baseline-not-shown": "The cheap baseline {baseline} may be as good as the model.",
}

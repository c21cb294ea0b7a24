"""An explanation in words and tables, each sentence no stronger than its interval."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from attribune.core.wording import counted, one_line, prediction_text
from attribune.metrics.bootstrap import Interval
from attribune.metrics.metric import metric_info
from attribune.metrics.tables import format_interval, text_cells

_TOP_WORDS = 10
_NUMBER_LIMIT = 5
_SMALLEST = 0.001  # the smallest effect that the tables show
Explanation = Mapping[str, Any]


@dataclass(frozen=True, kw_only=True)
class Section:
    """A part of an explanation.

    Args:
        sentences: findings.
        undecided: sentences that show no difference.
        table: lines of cells, the head first.
        note: how to read it.
    """

    title: str
    sentences: list[str]
    undecided: list[str] = field(default_factory=list)
    table: list[list[str]]
    note: str


def sections(record: Explanation) -> list[Section]:
    """Return the parts of a record of `explain`, in order."""
    parts = [_importance(record), _by_frequency(record), *_values(record)]
    if record["row"] is not None:
        parts += [_counterfactuals(record), _words(record)]
    return parts


def headline(record: Explanation) -> str:
    """Return what is shown to be lost without each attribute, in a sentence or two."""
    metric = record["metric"]
    losses = {loss["attribute"]: loss["hidden"][metric] for loss in record["losses"] if loss["attribute"]}
    shown = [
        f"without {name}, {metric_info(metric).words} is {_direction_of_loss(loss)} by "
        f"{_difference_text(metric, loss, absolute=True).split(' [')[0]}"
        for name, loss in losses.items()
        if _shows_difference(loss)
    ]
    found = "; ".join(shown)
    rest = ", ".join(name for name, loss in losses.items() if not _shows_difference(loss))
    sentences = [f"{found[0].upper()}{found[1:]}."] if found else []
    return " ".join([*sentences, f"No difference is shown without {rest}."] if rest else sentences)


def as_text(record: Explanation) -> str:
    """Return the explanation for a terminal."""
    blocks = [f"{record['data']}, {counted(record['rows'], 'row')}, {record['metric']}"]
    for section in sections(record):
        table = text_cells(section.table) if section.table else ""
        lines = (section.title, *section.sentences, *section.undecided, section.note)
        title, *sentences, note = map(one_line, lines)
        blocks.append("\n".join(line for line in (title, *sentences, table, note) if line))
    return "\n\n".join(blocks)


def _importance(record: Explanation) -> Section:
    metric, lines = record["metric"], []
    losses: dict[str, Explanation] = {}
    for loss in record["losses"]:
        name = loss["attribute"] or "all attributes"
        hidden, shuffled = loss["hidden"][metric], loss["shuffled"][metric]
        lines.append([name, _difference_text(metric, hidden), _difference_text(metric, shuffled)])
        losses |= {f"{name} hidden": hidden, f"{name} of another row": shuffled}
    unit = " (points)" if metric_info(metric).is_share else ""
    shown, undecided = _loss_sentences(metric, losses)
    return Section(
        title="What is lost without an attribute",
        sentences=[*shown, *(one["text"] for one in record["findings"])],
        undecided=undecided,
        table=[["attribute", f"{metric} lost, hidden{unit}", f"lost, shuffled{unit}"], *lines],
        note="95 % intervals of the paired bootstrap; hidden: the model gets no value; shuffled: it gets that of "
        "another row, which misleads a model that reads the attribute, also one that does as well without it.",
    )


def _loss_sentences(metric: str, losses: Mapping[str, Explanation]) -> tuple[list[str], list[str]]:
    """Return a sentence for each loss, by what is missing: those that show a difference, and the others."""
    shown = [
        f"With {what}, {metric} is {_direction_of_loss(loss)} by {_difference_text(metric, loss, absolute=True)}."
        for what, loss in losses.items()
        if _shows_difference(loss)
    ]
    undecided = [
        f"With {what}, no difference in {metric} is shown: {_difference_text(metric, loss)}."
        for what, loss in losses.items()
        if not _shows_difference(loss)
    ]
    return shown, undecided


def _direction_of_loss(loss: Explanation) -> str:
    return "worse" if loss["difference"] > 0 else "better"


def _by_frequency(record: Explanation) -> Section:
    metric, rare = record["metric"], record["rare"]
    names = {"unseen": "unseen or missing", "rare": f"rare, 1 to {rare}", "frequent": f"frequent, over {rare}"}
    losses: dict[str, Explanation] = {}
    lines = []
    for one in record["bins"]:
        name = f"{one['attribute']}: {names[one['bin']]}"
        given = Interval(**one["given"])
        nothing = one["bin"] == "unseen" and one["hidden"]["difference"] == 0
        lost = "nothing to hide" if nothing else _difference_text(metric, one["hidden"])
        lines.append([name, f"{one['rows']:,}", format_interval(metric, given), lost])
        if not nothing:
            what = f"{one['attribute']} hidden in the {counted(one['rows'], 'row')} whose value is {one['bin']}"
            losses[what] = one["hidden"]
    unit = " (points)" if metric_info(metric).is_share else ""
    shown, undecided = _loss_sentences(metric, losses)
    return Section(
        title="For which rows",
        sentences=shown,
        undecided=undecided,
        table=[["training rows of the value", "rows", metric, f"lost, hidden{unit}"], *lines],
        note="If a row has several values, the rarest counts. The bins have different rows, so differences between "
        "their metrics do not come from the attribute alone.",
    )


def _values(record: Explanation) -> Iterator[Section]:
    for attribute in record["values"]:
        lines, sentences = [], []
        for one in attribute["top"]:
            change = f"{one['of']} {one['change']:+.3f} [{one['low']:+.3f}, {one['high']:+.3f}]"
            lines.append([one["value"], f"{one['rows']:,}", f"{one['training_rows']:,}", f"{one['move']:.3f}", change])
        if attribute["top"]:
            first = attribute["top"][0]
            sentences.append(
                f"{first['value']!r} moves predictions most: by {first['move']:.3f} on average over its "
                f"{counted(first['rows'], 'row')}{_direction(first)}."
            )
        else:
            sentences.append(f"No value has {record['least_rows']} rows or more, so none is compared.")
        yield Section(
            title=f"Values of {attribute['attribute']} that move predictions most",
            sentences=sentences,
            table=[["value", "rows", "trained on", "moves by", "mean change"], *lines] if lines else [],
            note=_compared(attribute, record["least_rows"]) if lines else "",
        )


def _compared(attribute: Explanation, least_rows: int) -> str:
    """Return how to read the effects of values, of which at least one is compared."""
    enough, all_values = attribute["enough_rows"], attribute["values"]
    if all_values == 1:
        which = "Its only value has"
    elif enough == all_values:
        which = f"All {all_values:,} values have"
    else:
        which = f"{enough:,} of {all_values:,} values {'has' if enough == 1 else 'have'}"
    chance = " The largest of many differences are partly chance." if enough > 1 else ""
    return f"Each value is compared with the same rows without it. {which} at least {least_rows} rows.{chance}"


def _direction(one: Explanation) -> str:
    if not _shows_difference(one):
        return ", in no direction that is shown"
    return f", {one['of']} {'up' if one['change'] > 0 else 'down'} by {abs(one['change']):.3f}"


def _counterfactuals(record: Explanation) -> Section:
    row = record["row"]
    given = row["predictions"][0]
    names = sorted(given["numbers"], key=lambda name: -abs(given["numbers"][name]))[:_NUMBER_LIMIT]
    lines = [
        [one["as"], prediction_text(one["prediction"]), *(f"{one['numbers'][name]:.3f}" for name in names)]
        for one in row["predictions"]
    ]
    others = [one["as"] for one in row["predictions"][1:] if one["prediction"] != given["prediction"]]
    attributes = ", ".join(f"{name} {value}" for name, value in row["attributes"].items() if value) or "no attributes"
    changed = f"otherwise as: {', '.join(others)}" if others else "the same in all these cases"
    return Section(
        title=f"Row {row['number']:,}, with other values",
        sentences=[
            f"“{row['text']}”" if len(row["text"]) <= 400 else f"“{row['text'][:400]}...”",
            f"With {attributes}, {prediction_text(given['prediction'])} is predicted; {changed}.",
        ],
        table=[["as", "prediction", *names], *lines],
        note="The text and the other attributes stay as they are.",
    )


def _words(record: Explanation) -> Section:
    occlusion = record["row"]["words"]
    words, target = occlusion["words"], occlusion["of"]
    order = sorted(words, key=lambda one: -max(abs(one["given"]), abs(one["hidden"])))[:_TOP_WORDS]
    lines = [[one["word"], f"{one['given']:+.3f}", f"{one['hidden']:+.3f}"] for one in order]
    gap = max(words, key=lambda one: abs(one["given"] - one["hidden"]))
    if abs(gap["given"] - gap["hidden"]) < _SMALLEST:
        change = f"The attributes change the effect of no word on {target} by {_SMALLEST} or more."
    else:
        change = (
            f"The attributes change the effect of “{gap['word']}” on {target} most: {gap['given']:+.3f} with "
            f"them, {gap['hidden']:+.3f} without."
        )
    cut = f" Only the first {len(words)} words are weighed." if occlusion["left_out"] else ""
    return Section(
        title=f"Words of row {record['row']['number']:,}",
        sentences=[change],
        table=[["word", f"{target}, as given", "attributes hidden"], *lines],
        note=f"What {target} loses when the word is taken out of the text.{cut}",
    )


def _shows_difference(pair: Explanation) -> bool:
    """Whether the interval lies on one side of zero, and the test of a paired difference agrees."""
    return bool(pair["low"] > 0 or pair["high"] < 0) and pair.get("p_value", 0.0) < 0.05


def _difference_text(metric: str, pair: Explanation, *, absolute: bool = False) -> str:
    """Return a difference with its interval, in points for shares; `absolute` turns it round to be positive."""
    info = metric_info(metric)
    places = 1 if info.is_share else 3
    ends: Sequence[float] = (pair["difference"], pair["low"], pair["high"])
    if absolute and pair["difference"] < 0:
        ends = (-pair["difference"], -pair["high"], -pair["low"])
    value, low, high = (f"{info.scale * number:{'' if absolute else '+'}.{places}f}" for number in ends)
    return f"{value}{' points' if absolute and info.is_share else ''} [{low}, {high}]"

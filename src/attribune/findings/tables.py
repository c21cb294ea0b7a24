"""The sentences of a checked table: its texts, labels and columns."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence

from attribune.core.door import as_argument, as_attribute, as_call
from attribune.core.wording import counted, listed_counts
from attribune.findings.sentences import Sentences, Values
from attribune.findings.trainings import if_labels

_EXAMPLES = 5


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
    but = "".join(f" ({name!r} {words})" for name, words in values.get("unusable", {}).items())
    return f"no column looks like a {values['role']}{but}: name it with {as_argument('data.' + values['role'])}"


def _no_label(values: Values) -> str:
    """Rows have no label."""
    words = f": {values['words']}; {if_labels()}" if values.get("words") else ""
    return f"{counted(values['rows'], 'row', 'rows')} without a label, which a training leaves out{words}"


def _rare_classes(values: Values) -> str:
    """Classes have few rows."""
    listed = ", ".join(map(repr, values["examples"])) + (", ..." if values["classes"] > len(values["examples"]) else "")
    some = counted(values["classes"], "class", "classes")
    return f"{some} with fewer than {values['least']} rows ({listed}): join classes, or correct the labels"


def _alike_classes(values: Values) -> str:
    """Classes are one number, or differ in capitals, spaces or the encoding of letters alone."""
    if values["are_numbers"]:
        cure = f"use {as_argument('task.kind', 'rating')} or {as_argument('task.kind', 'ordinal')}, which read numbers"
        return f"classes that are the same number are learned as different ones: {_groups(values)}: {cure}"
    return f"classes that {_DIFFER} are learned as different ones: {_groups(values)}: {_IN_ONE_WAY}"


_DIFFER = "differ in capitals, spaces or the encoding of letters alone"
_IN_ONE_WAY = "write them in one way if they are the same"


def _alike_values(values: Values) -> str:
    """Values of an attribute differ in capitals, spaces or the encoding of letters alone."""
    return f"column {values['column']!r}: values that {_DIFFER} are different ones: {_groups(values)}: {_IN_ONE_WAY}"


def _groups(values: Values) -> str:
    groups = values["examples"]
    written = [", ".join(f"{_distinct(name)} ({count:,})" for name, count in names.items()) for names in groups]
    more = f"; and {values['groups'] - len(groups):,} others" if values["groups"] > len(groups) else ""
    return "; ".join(written) + more


def _distinct(name: str) -> str:
    """Write a text so that signs are seen that look like others or like nothing."""
    return repr(name) if unicodedata.is_normalized("NFC", name) else ascii(name)


def _ordered_classes(values: Values) -> str:
    """The names of classes tell an order."""
    classes = list(values["classes"])
    cure = as_call("train", **{"task.kind": "ordinal", "task.classes": classes})
    return (
        f"the names of the classes tell an order, from {classes[0]!r} to {classes[-1]!r}, which a classification does "
        f"not read: to learn it, use {cure}"
    )


def _label_code(values: Values) -> str:
    """A class looks like a code for no label."""
    return (
        f"the label {values['label']!r} is in {counted(values['rows'], 'row')}, beside those from {values['low']} to "
        f"{values['high']}: if it means that there is none, empty these cells"
    )


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
    if not formats:
        named = f"{as_attribute('date', column, '%d/%m/%y')} for '31/05/24'"
        return (
            f"column {column!r} has the name of a time and values such as {values['example']!r:.40}, and the proposed "
            f"training does not read it: name its format, such as {named}, or take it for an attribute of another kind"
        )
    flags = " or ".join(as_attribute("date", column, one) for one in formats)
    cure = f"{flags} gives the model their year, month, weekday and age"
    if len(formats) > 1:
        cure += "; no row tells which of them is right"
    return f"column {column!r} holds dates, which the proposed training does not read: {cure}"


def _odd_numbers(values: Values) -> str:
    """A column of numbers has texts that are none."""
    listed = listed_counts(values["words"], most=_EXAMPLES)
    every = [*values["missing"], *list(values["words"])[:_EXAMPLES]]
    return (
        f"column {values['column']!r} has numbers, and texts that are none ({listed}), at which a training stops: "
        "correct or empty these cells, or, if they mean that there is no value, use "
        f"{as_argument('data.missing', every)}"
    )


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


def _label_guess(values: Values) -> str:
    """No column has the name of a label, and one of few values is taken for it."""
    unusable, others = values.get("unusable", {}), ", ".join(map(repr, values["others"]))
    names = ", ".join(f"{name!r} {words}" for name, words in unusable.items()) or "no column has the name of a label"
    why = {
        "few": "of few values that names nobody and nothing",
        "scale": "whose values are the steps of a scale",
        "things": "of the fewest values, though its name is that of people or things",
    }[values.get("because", "few")]
    listed = f" (others are {others})" if others else ""
    return f"{names}: {values['column']!r} is taken for it, as the one {why}{listed}; name it (label) if it is another"


def _column_of_parts(values: Values) -> str:
    """A column of names of parts is no attribute."""
    files = f"{as_argument('data.validation')} and {as_argument('data.test')}"
    return (
        f"column {values['column']!r} says in which part a row is, and a split knows nothing of it: write the rows of "
        f"each part to a file, and name them with {files}"
    )


def _decimal_commas(values: Values) -> str:
    """A column of numbers with decimal commas is read as texts."""
    read = f"read a file with {as_argument('decimal', ',')}"
    seen, cure = {
        "no": ("decimal commas", f"{read}, or make numbers of the column"),
        "perhaps": ("commas", f"write those between thousands without; if they are decimal commas, {read}"),
        "yes": ("commas between thousands", "write them without"),
    }[values.get("thousands", "no")]
    column = f"column {values['column']!r}{':' if values.get('is_label') else ' is left out:'}"
    return f"{column} its numbers have {seen}, such as {values['example']!r}, and are texts here: {cure}"


def _thousands_points(values: Values) -> str:
    """Numbers may have points between thousands, and are read as fractions."""
    return (
        f"column {values['column']!r}: numbers such as {values['example']!r} stand beside whole ones below 1000, and "
        "are read as fractions: if their points are between thousands, write them without"
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


SENTENCES: Sentences = {
    "few-rows": "there are {rows:,} rows, of which little can be learned: gather at least some hundred",
    "no-column": _no_column,
    "rows-without-label": _no_label,
    "rows-without-text": _no_text,
    "placeholder-texts": _placeholders,
    "one-class": "all labels are {label!r}, of which nothing can be learned: name another column",
    "rare-classes": _rare_classes,
    "ordered-classes": _ordered_classes,
    "alike-classes": _alike_classes,
    "alike-values": _alike_values,
    "label-code": _label_code,
    "class-words": _class_words,
    "value-words": _value_words,
    "nested-columns": _nested_columns,
    "test-rows-in-training": "{rows:,} of {test_rows:,} test rows have a text that training rows have, {same_label:,} "
    "of them with the same label: figures on them are too high; remove them from one of the two",
    "repeated-texts": "{rows:,} rows repeat the text of an earlier row: a split keeps equal texts in one part, so that "
    "none is learned and asked; remove the repetitions if they are errors",
    "times-split-at-random": _times,
    "dates-not-read": _dates,
    "odd-numbers": _odd_numbers,
    "copied-rows": _copies,
    "contradicting-rows": _contradictions,
    "column-without-values": "column {column!r} has no value in any row: leave it out",
    "merged-cells": "column {column!r} has a value in {filled:,} of {rows:,} rows, each followed by empty ones, as "
    "merged cells of a spreadsheet are written, and is left out: if a value holds for the empty rows below it, write "
    "it there (pandas: table[{column!r}].ffill()); else name it as an attribute",
    "column-mostly-missing": "column {column!r} is missing in {share:.1%} of the rows, and can hardly help: leave it "
    "out",
    "column-of-fields": "column {column!r} holds several fields, such as {value!r:.60}, and each combination of them "
    "is a value: make a column of each field that tells something",
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
    "text-repeats": "column {column!r} has the words of {other!r} again, and is left out; name both as texts if it "
    "tells more",
    "attribute-says-nothing-more": "column {column!r} says nothing more than {other!r}, whose values tell its own: it "
    "is left out",
    "column-tells-label": _tells_label,
    "columns-tell-label": "the numbers of {columns:quoted} together tell the label of {share:.1%} of the rows, as "
    "votes tell the majority: they are left out; name them as attributes if they are known before the label",
    "number-tells-label": "the size of {column!r} explains {share:.1%} of the label, in rows that were not learned "
    "from: it is left out; name it as an attribute if it is known before the label",
    "label-in-text": "{share:.1%} of the texts have their own label written in them: remove it from the texts, unless "
    "those that are to be predicted have it, too",
    "label-is-a-guess": _label_guess,
    "other-labels": "column {column!r} has the name of a label, and is taken for it; if a program gave it, the label "
    "may be {others:quoted}: then name that one (label)",
    "named-as-label": "column {column!r} has the name of a label, and is taken for an attribute beside {label!r}: if "
    "it is the label, name it (label); if it is not known before the label, leave it out",
    "column-of-parts": _column_of_parts,
    "numbers-with-signs": "column {column!r} has numbers with a sign, such as {example!r}, which are read as names: "
    "write the numbers alone, and they are compared as numbers",
    "lost-digits": "column {column!r} has numbers without their last digits, such as {example!r}, as spreadsheets "
    "write long ones: several ids would be one value, so it is left out; export it again with these cells as text, or "
    "name it as an attribute if it has amounts",
    "decimal-commas": _decimal_commas,
    "thousands-points": _thousands_points,
}

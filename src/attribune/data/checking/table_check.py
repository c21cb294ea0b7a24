"""The check of a table: what each column is taken for, what is wrong with it, and the command to train on it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any, Unpack

import numpy as np
import pandas as pd
import pyarrow as pa

from attribune.core.arguments import as_list, checked_arguments
from attribune.core.arrays import BoolArray, IntArray
from attribune.core.door import as_argument, as_attribute, is_command_line
from attribune.core.wording import listed_counts
from attribune.data.checking.copies import copy_findings, repeated_texts, text_findings
from attribune.data.checking.findings import attribute_finding, shared_rows, written_finding
from attribune.data.checking.judgements import has_opposites, judge_among
from attribune.data.checking.nesting import nesting_findings
from attribune.data.checking.orders import ordered_classes
from attribune.data.checking.profiles import (
    LISTED,
    ColumnProfile,
    arrow_columns,
    column_codes,
    joint_codes,
    profile_column,
)
from attribune.data.checking.proposal import LACKING, Proposal
from attribune.data.checking.roles import (
    ANSWER,
    NAMED_ASPECTS,
    Role,
    RoleOf,
    TaskGuess,
    as_read,
    guess_aspects,
    guess_compared,
    guess_preference,
    guess_roles,
    guess_task,
    guess_texts,
    is_one_hot,
    left_out,
    unusable_labels,
)
from attribune.data.column_names import ColumnName
from attribune.data.file_options import AS_FOUND, FileOptions, Reading
from attribune.data.judgement_layouts import LEAST_JUDGES, Layout, find_export
from attribune.data.selection import missing_label_words
from attribune.data.splits import parts_at_random
from attribune.data.tables import TableFile, options_of, read_table, table_source_name
from attribune.errors import DataError
from attribune.findings import Finding
from attribune.metrics.tables import html_blocks, text_cells
from attribune.schema.columns import MISSING, canonical, require_columns, require_once
from attribune.schema.description_kinds import holds_numbers
from attribune.schema.kinds import Kind, MultiLabel, Number
from attribune.schema.number_marks import MarkedNumbers, marked_columns
from attribune.schema.times import dates_finding, time_split_finding
from attribune.tasks.labels import FEW_ROWS, alike_values, odd_classes, rare_classes

_KINDS = ("categorical", "multi_label", "number")  # in the order of the flags
_EXAMPLES = 5  # labels
_SHOWN = 40  # columns, and classes, in the tables that are printed
_MOST_COLUMNS = 10_000
_ENOUGH_ROWS = 100
_OF_ALL = 0.95  # rows with a time: one that more rows lack is not that of the row, as the birthday of its author
_SAMPLE = 10_000  # dates that tell their format, and rows that are read at once
_LEAST_KNOWN = 0.02
_BESIDE_OTHERS = 2  # distance of a name that has the word for a label beside other words
_JUDGEMENTS = left_out("holds judgements")
_UNKNOWN = left_out("hardly any test row has a value that training rows have")


@dataclass(frozen=True, kw_only=True)
class ColumnCheck:
    """A column of a checked table.

    Attributes:
        kind: of an attribute: ``categorical``, ``multi_label`` or ``number``.
        values: number of distinct ones, and `once` those of them that a single row has.
        rows_per_value: lowest, median, highest tenth and highest number of rows of a value.
        known_share: of the test rows of the default split that have a value, those whose value training rows have.
        separator: between the values of a cell.
        reason: why the column is left out.
    """

    name: str
    role: Role
    kind: str
    missing: int
    values: int
    once: int
    rows_per_value: tuple[int, int, int, int] | None = None
    known_share: float | None = None
    separator: str = ""
    reason: str = ""


@dataclass(frozen=True, kw_only=True, repr=False)
class TableCheck:
    """What a table holds, and how it would be trained on; printed as a table.

    Attributes:
        source: its name.
        task: the task that its labels or its texts look made for; None without a label.
        judge: the column of those who judge the texts, where several judge each; None elsewhere.
        classes: rows of each class; empty for a regression.
        findings: what is wrong; their texts say it with the cure.
        export: what the table is, in a sentence, if it has the judgements of several people, or their answers in lists,
            in one row; `convert` is the command that makes a row for each. None, and "", elsewhere.
        is_doubtful: whether the columns may also be those of an ordinary table.
        reading: how it was read.
        missing: the texts that mean no value; None for the usual ones.
        is_file: whether the source is the name of a file, or the like; else it is a table in memory, called `variable`.
    """

    source: str
    rows: int
    columns: tuple[ColumnCheck, ...]
    task: TaskGuess | None
    judge: str | None = None
    classes: Mapping[str, int] = field(default_factory=dict)
    findings: tuple[Finding, ...] = ()
    export: str | None = None
    is_doubtful: bool = False
    convert: str = ""
    reading: FileOptions = AS_FOUND
    missing: tuple[str, ...] | None = None
    is_file: bool = True
    variable: str = ""

    def names(self, role: Role, kind: str = "") -> list[str]:
        """Return the columns of a role, and of a kind of attribute."""
        return [one.name for one in self.columns if one.role == role and kind in ("", one.kind)]

    @property
    def is_complete(self) -> bool:
        """Whether there are a text and a label to train on, or texts that need none."""
        return bool(self.names("text") and (self.names("label") or not self._needs_label))

    @property
    def lacking(self) -> list[str]:
        """What was not found of a text and a label."""
        return [] if self.is_complete else [role for role in ("text", "label") if not self.names(role)]

    def lacking_words(self, where: str) -> str:
        """Say what was not found in a table that is named so, and the cure."""
        what = " and no ".join(f"{role} column" for role in self.lacking)
        cure = " and ".join(as_argument(f"data.{role}") for role in self.lacking)
        or_none = ", or choose the task generation, which needs none" if self.lacking == ["label"] else ""
        return f"no {what} was found in {where}: name it with {cure}{or_none}"

    @property
    def _needs_label(self) -> bool:
        return self.task is None or self.task.needs_label

    @property
    def arguments(self) -> dict[str, Any]:
        """The arguments of `train` that say all this, beside the table and the folder; only those that are needed."""
        given: dict[str, Any] = {"text": _one(self.names("text"))}
        if self.task is not None and self.task.texts:
            given = {name: _one(columns) for name, columns in self.task.texts.items()}
        if self._needs_label:
            given["label"] = _one(self.names("label"))
        attributes = [one for one in self.columns if one.role == "attribute"]
        given["attributes"] = [_attribute(one) for kind in _KINDS for one in attributes if one.kind == kind]
        given["weight"] = next(iter(self.names("weight")), None)
        given["method"] = None if attributes else "none"
        if self.task is not None and (self.task.choices or self.task.options):
            given["task"] = {"kind": self.task.kind, **self.task.options} if self.task.options else self.task.kind
        return {name: value for name, value in given.items() if value not in (None, [])}

    @property
    def proposal(self) -> Proposal:
        """The training to paste; it names what is lacking where there is no text or no label."""
        lacking = {"text": LACKING, "label": LACKING} if self._needs_label else {}
        source = self.source if self.is_file else self.variable
        return Proposal(
            source=source,
            is_file=self.is_file,
            arguments={**lacking, **self.arguments},
            reading=self.reading,
            missing=self.missing,
        )

    @property
    def flags(self) -> list[str]:
        """The words after ``attribune train FILE`` that say all this."""
        return self.proposal.flags

    @property
    def command(self) -> str:
        """The command to paste: to train, or to make a row for each judgement before."""
        return self.proposal.command if self.export is None else self.convert

    @property
    def call(self) -> str:
        """The call to paste, with its import: of `train`, or of `read_judgements` before."""
        if self.export is None:
            return self.proposal.call
        source = repr(self.source) if self.is_file else self.variable
        return f"from attribune import read_judgements\n\njudgements = read_judgements({source}).table"

    def to_dict(self) -> dict[str, Any]:
        """Return plain values."""
        findings = [finding.to_dict() for finding in self.findings]
        return {**asdict(self), "findings": findings, "command": self.command, "call": self.call}

    def text(self) -> str:
        """Return all of it for a terminal; it ends with a call in Python, and with a command at the command line."""
        blocks = [f"{caption}\n{text_cells(cells, left=3)}" if cells else caption for caption, cells in self._blocks()]
        return "\n\n".join(blocks)

    def __repr__(self) -> str:
        return self.text()

    def _repr_html_(self) -> str:
        return html_blocks(self._blocks())

    def _blocks(self) -> list[tuple[str, list[list[str]]]]:
        action = "train on it" if self.export is None else "make a row for each judgement"
        last = f"{action} with:\n{f'  {self.command}' if is_command_line() else self.call}"
        first = [] if self.export is None else [self.export]
        if self.export is not None and not self.is_doubtful:  # what its columns are says nothing
            return [(words, []) for words in (*first, last)]
        columns = (f"{self.source}: {self.rows:,} rows, {len(self.columns):,} columns", self._column_cells())
        said = []
        if self.task is not None:
            said.append(self._task_words(self.task))
        if self.judge is not None:
            said.append(self._judge_words())
        said += [_kind_words(one) for one in self.columns if one.role == "attribute" and one.reason]
        said += [f"warning: {finding}" for finding in self.findings]
        said += filter(None, [self._left_out_words(), last])
        return [*((words, []) for words in first), columns, *((words, []) for words in said)]

    def _left_out_words(self) -> str:
        """Say why columns are left out of which no finding speaks."""
        said = set(map(str, self.findings))
        columns = [one for one in self.columns if one.role == "left out" and one.reason not in said]
        listed = [f"{one.name!r} ({one.reason})" for one in columns[:_SHOWN]]
        more = f", and {len(columns) - _SHOWN:,} more" if len(columns) > _SHOWN else ""
        return f"left out: {', '.join(listed)}{more}" if listed else ""

    def _task_words(self, task: TaskGuess) -> str:
        labels = ", ".join(map(repr, self.names("label")))
        where = f"labels in {labels}" if labels else "texts that are compared"
        choices = " or ".join(as_argument("task.kind", one, at="train") for one in task.choices)
        rows = f"\n  rows of each: {listed_counts(self.classes, most=_SHOWN)}" if self.classes else ""
        return ": ".join(filter(None, [where, task.words, choices])) + rows

    def _judge_words(self) -> str:
        judge = next(one for one in self.columns if one.name == self.judge)
        return (
            f"a table of judgements: {judge.values:,} values of {judge.name!r} judge the texts, several each; a split "
            "keeps the rows of a text in one part, and figures are resampled by text and judge"
        )

    def _column_cells(self) -> list[list[str]]:
        order = ("text", "label", "attribute", "weight", "time", "id", "left out")
        columns = sorted(self.columns, key=lambda one: order.index(one.role))
        header = ["column", "role", "", "missing", "values", "once", "rows a value (min, median, 90 %, max)", "known"]
        lines = [
            [
                one.name,
                one.role,
                one.kind,
                f"{one.missing:,}",
                f"{one.values:,}",
                f"{one.once:,}",
                ", ".join(f"{number:,}" for number in one.rows_per_value or ()),
                "" if one.known_share is None else f"{one.known_share:.0%}",
            ]
            for one in columns[:_SHOWN]
        ]
        if len(columns) > _SHOWN:
            lines.append([f"and {len(columns) - _SHOWN:,} more", *[""] * (len(header) - 1)])
        return [header, *lines]


def _kind_words(column: ColumnCheck) -> str:
    what = "an amount" if column.kind == "number" else "names"
    words = as_attribute(column.kind, column.name)
    return f"the numbers of {column.name!r} are taken for {what} ({words}): {column.reason}"


def _one(names: Sequence[str]) -> str | list[str] | None:
    return names[0] if len(names) == 1 else list(names) or None


def _attribute(one: ColumnCheck) -> str | Kind:
    if one.kind == "multi_label":
        return MultiLabel(one.name, separator=one.separator or None)
    return Number(one.name) if one.kind == "number" else one.name


@checked_arguments
def check(
    data: Any,
    *,
    text: str | Sequence[str] | None = None,
    label: str | Sequence[str] | None = None,
    test: Any = None,
    missing: Sequence[str] | None = None,
    **reading: Unpack[Reading],
) -> TableCheck:
    """Check a table before training on it; the same as ``attribune check``.

    Args:
        data: anything that `read_table` takes.
        text: text columns, and `label` the label columns, if the guesses are wrong.
        test: test rows; by default those of the default split.
        missing: texts that mean no value, as ``data.missing`` of a recipe; by default `MISSING`.
        **reading: how files are read, as in `read_table`.

    Raises:
        DataError: for a table that cannot be read, or a missing column.
        ConfigError: for a column that is named twice.
    """
    table = arrow_columns(read_table(data, **reading))
    is_file = isinstance(data, str | Path | TableFile)
    source = str(data) if is_file else table_source_name(data)
    if table.num_columns > _MOST_COLUMNS:
        raise DataError(
            f"{source} has {table.num_columns:,} columns, and each of at most {_MOST_COLUMNS:,} can be checked: write "
            "the texts, the labels and the attributes to a table of their own"
        )
    texts, labels = as_list(text), as_list(label)
    require_columns(table.column_names, [*texts, *labels], source=source)
    require_once([*texts, *labels])
    no_value = MISSING if missing is None else tuple(missing)
    found = _Columns.of(table, texts=texts, labels=labels, missing=no_value)
    other = None if test is None else arrow_columns(read_table(test, **reading))
    known, leaks = _test_rows(table, other, found)
    found = found.without({name for name, share in known.items() if share < _LEAST_KNOWN})
    task = found.task
    classes = {} if found.label is None or task is None or task.kind == "regression" else _classes(found.label)
    layout = found.layout
    return TableCheck(
        source=source,
        is_file=is_file,
        variable="df" if isinstance(data, pd.DataFrame) else "table",
        reading=options_of(data, **reading),
        missing=None if missing is None else no_value,
        rows=len(table),
        columns=tuple(_column(one, found.roles[name], known.get(name)) for name, one in found.read.items()),
        task=task,
        judge=found.judge,
        classes=classes,
        export=None if layout is None else _export_words(source, layout, found.read),
        is_doubtful=layout is not None and layout.is_doubtful,
        convert="" if layout is None else layout.command(source, options_of(data, **reading).words()),
        findings=()
        if layout is not None and not layout.is_doubtful
        else tuple(_findings(table, found, classes, leaks, is_split=test is None)),
    )


@dataclass(frozen=True, kw_only=True)
class _Columns:
    """The columns of a table with what each is taken for.

    Attributes:
        read: the profiles, with the values as a training reads them that takes the columns so.
        texts: the columns of texts, and `groups` the number of the text of each row (rows,), -1 for none.
        task: as in `TableCheck`, and `judge`.
        layout: of a table with several judgements in a row; None elsewhere.
        missing: the texts that mean no value.
    """

    read: Mapping[str, ColumnProfile]
    roles: Mapping[str, RoleOf]
    texts: Sequence[str]
    groups: IntArray | None
    task: TaskGuess | None
    judge: str | None
    layout: Layout | None
    missing: Sequence[str]

    @classmethod
    def of(cls, table: pa.Table, *, texts: Sequence[str], labels: Sequence[str], missing: Sequence[str]) -> _Columns:
        """Guess what is not given."""
        label, aspects = (labels[0], []) if len(labels) == 1 else (None, labels)
        profiles = {name: profile_column(name, table[name], missing=missing) for name in table.column_names}
        listed = [one for name, one in profiles.items() if name not in aspects]
        compared = guess_compared(listed) if not texts and not labels else None
        text_columns = list(chain(*compared.texts.values())) if compared else texts
        text_columns = text_columns or guess_texts([one for one in listed if one.name != label])
        repeated = {} if texts or compared else repeated_texts([profiles[name] for name in text_columns])
        text_columns = [name for name in text_columns if name not in repeated]
        groups = _text_groups([profiles[name] for name in text_columns])
        others = [one for one in listed if one.name not in (*text_columns, *repeated)]
        judge = None if groups is None or compared else judge_among(others, groups)
        is_guessed = not labels
        if not texts and not compared and is_guessed:
            label = next((one.name for one in others if guess_preference(text_columns, one) is not None), None)
        guess = partial(
            guess_roles, listed, text=text_columns, groups=groups, judge=judge, label=label, is_guessed=is_guessed
        )
        roles = guess(is_labelled=not compared and not aspects)
        # Of texts that are named, it is only said what is wrong with them.
        roles |= {name: replace(roles[name], role="text", reason="") for name in texts}
        if any(roles[name].role != "text" for name in text_columns):
            text_columns = [name for name in text_columns if roles[name].role == "text"]
            groups = _text_groups([profiles[name] for name in text_columns])
        layout = None if compared or labels else _layout(table, profiles, roles, is_judged=judge is not None)
        several = NAMED_ASPECTS if aspects else None
        roles |= dict.fromkeys(aspects, RoleOf(role="label"))
        if layout is not None:
            several = guess_aspects([profiles[name] for name in layout.used]) if layout.is_doubtful else None
            role = _JUDGEMENTS if several is None else RoleOf(role="label")
            roles = guess(is_labelled=False) | dict.fromkeys(layout.used, role)
        target = next((profiles[name] for name, role in roles.items() if role.role == "label"), None)
        if several is None and target is not None and not labels and not _is_named(target.name):
            several, alike = _labels_like(target, listed, roles, is_judged=judge is not None)
            roles |= dict.fromkeys(alike, RoleOf(role="label"))
        task = None if target is None else guess_task(target, is_judged=judge is not None)
        if compared or several:
            task = compared or several
        elif target is not None and not texts:
            task = guess_preference(text_columns, target) or task
        for name, other in repeated.items():
            roles[name] = left_out(finding=Finding("text-repeats", {"column": name, "other": other}))
        roles |= _marked_roles(table, profiles, roles)
        read = {name: as_read(one, roles[name]) for name, one in profiles.items()}
        return cls(
            read=read,
            roles=roles,
            texts=text_columns,
            groups=groups,
            task=task,
            judge=judge,
            layout=None if several else layout,
            missing=missing,
        )

    def without(self, names: Collection[str]) -> _Columns:
        """Leave out attributes that test rows hardly share with training rows."""
        return replace(self, roles={**self.roles, **dict.fromkeys(names, _UNKNOWN)})

    def with_role(self, role: Role) -> list[ColumnProfile]:
        """Return the columns that are taken for one thing."""
        return [one for name, one in self.read.items() if self.roles[name].role == role]

    @property
    def label(self) -> ColumnProfile | None:
        """The label, if there is one, and not several."""
        labels = self.with_role("label")
        return labels[0] if len(labels) == 1 else None


def _layout(
    table: pa.Table, profiles: Mapping[str, ColumnProfile], roles: Mapping[str, RoleOf], *, is_judged: bool
) -> Layout | None:
    """Return where a table has several judgements in a row; None where its columns are rather those of another one."""
    layout = find_export(table)
    if layout is None or not layout.is_doubtful:
        return layout
    is_used = any(roles[name].role == "label" for name in layout.used)
    has_one_label = len(list(filter(_is_named, layout.used))) == 1
    are_others = is_judged or not is_used or has_one_label
    return None if are_others or has_opposites([profiles[name] for name in layout.used]) else layout


def _labels_like(
    target: ColumnProfile, columns: Sequence[ColumnProfile], roles: Mapping[str, RoleOf], *, is_judged: bool
) -> tuple[TaskGuess | None, Sequence[str]]:
    """Return the task of columns with the values of the one that was guessed to be the label, and these columns.

    None and no columns where they are no labels of their own.
    """
    answers = [one for one in columns if roles[one.name] == ANSWER or roles[one.name].role == "attribute"]
    alike = [target, *(one for one in answers if one.has_values_of(target))]
    if len(alike) < LEAST_JUDGES or has_opposites(alike):
        return None, []
    task = guess_aspects(alike, is_judged=is_judged)
    return task, [] if task is None else [one.name for one in alike]


def _is_named(name: str) -> bool:
    """Whether a column is called by a word for a label, without others beside it."""
    return ColumnName(name).distance("label") < _BESIDE_OTHERS


def _marked_roles(
    table: pa.Table, profiles: Mapping[str, ColumnProfile], roles: Mapping[str, RoleOf]
) -> dict[str, RoleOf]:
    """Return what columns are taken for whose numbers have commas, or points that may stand between thousands.

    Those with commas are texts here, and no attributes.
    """

    def is_amount(kind: pa.DataType) -> bool:
        return holds_numbers(kind) or bool(pa.types.is_decimal(kind))

    def found(mark: str, kind: str) -> dict[str, MarkedNumbers]:
        chosen = [name for name, role in roles.items() if role.role in ("label", "left out", "attribute", "id")]
        names = [name for name in chosen if profiles[name].kind == kind and not is_amount(table[name].type)]
        cells = table.select(names).cast(pa.schema([(name, pa.string()) for name in names]))
        return marked_columns((cells.slice(row, _SAMPLE) for row in range(0, len(cells), _SAMPLE)), mark)[mark]

    marked = dict[str, RoleOf]()
    for name, one in found(",", "text").items():
        role = roles[name].role
        if role in ("attribute", "id") and one.thousands == "no":  # such as `3,4`, which may be two values
            continue
        is_label = role == "label"
        values = {"column": name, "example": one.example, "thousands": one.thousands, "is_label": is_label}
        marked[name] = replace(roles[name] if is_label else left_out(), finding=Finding("decimal-commas", values))
    for name, one in found(".", "number").items():
        if one.thousands == "yes":
            finding = Finding("thousands-points", {"column": name, "example": one.example})
            marked[name] = replace(roles[name], finding=finding)
    return marked


def _time_findings(times: Sequence[ColumnProfile], *, is_split: bool) -> Iterator[Finding]:
    useless = {one.name: attribute_finding(one.name, one.codes, may_be_unique=True) for one in times}
    times = [one for one in times if useless[one.name] is None]
    dates = [dates_finding(one.name, one.codes.values.slice(0, _SAMPLE).to_pylist()) for one in times]
    for one, date in zip(times, dates, strict=True):
        if is_split and date.values["formats"] == [""] and one.present >= _OF_ALL * one.rows:
            yield time_split_finding(one.name)
    yield from dates
    yield from filter(None, useless.values())


def _findings(
    table: pa.Table, found: _Columns, classes: Mapping[str, int], leaks: Sequence[Finding], *, is_split: bool
) -> Iterator[Finding]:
    """Say what is wrong, in the order in which it matters.

    Args:
        is_split: whether the test rows are to be split off.
    """
    label = found.label
    yield from _general(table, found)
    yield from _class_findings(classes)
    is_plain = found.task is not None and found.task.kind == "classification" and not found.task.options
    if is_plain and (ordered := ordered_classes(classes)) is not None:
        yield Finding("ordered-classes", {"classes": ordered})
    if label is not None and label.codes is label.spelled and label.no_values and label.kind != "list":
        yield Finding("class-words", {"column": label.name, "words": label.no_values})
    yield from text_findings(table, found.texts, found.groups)
    yield from leaks
    yield from _time_findings(found.with_role("time"), is_split=is_split)
    numbers = [one for one in found.read.values() if one is label or found.roles[one.name].kind == "number"]
    for one in (one for one in numbers if one.odd):
        yield Finding("odd-numbers", {"column": one.name, "words": one.odd, "missing": list(found.missing)})
    if label is not None and len(found.texts) == 1 and label.kind == "text":
        yield from filter(None, [written_finding(found.read[found.texts[0]].codes, label.codes)])
    if found.groups is not None:
        ids = [one.name for one in found.with_role("id")]
        attributes = [one.codes.codes for one in found.with_role("attribute")]
        yield from copy_findings(table, texts=found.groups, ids=ids, attributes=attributes, label=label)
    of_roles = [role.finding for role in found.roles.values() if role.finding]
    yield from {str(finding): finding for finding in of_roles}.values()
    words = {
        one.name: one.no_values
        for one in found.with_role("attribute")
        if one.no_values and found.roles[one.name].kind != "number"
    }
    if words:
        yield Finding("value-words", {"words": words, "missing": list(found.missing)})
    categories = [one for one in found.with_role("attribute") if found.roles[one.name].kind == "categorical"]
    for one in categories:
        counts = dict(zip(one.codes.values.to_pylist(), one.codes.counts.tolist(), strict=True))
        if alike := alike_values(counts, {}):
            values = {"column": one.name, "groups": len(alike), "examples": alike[:_EXAMPLES]}
            yield Finding("alike-values", values)
    yield from nesting_findings({one.name: one.codes for one in categories})


def _export_words(source: str, layout: Layout, columns: Mapping[str, ColumnProfile]) -> str:
    if layout.is_doubtful:
        if is_one_hot([columns[name] for name in layout.used]):
            return (
                f"each row has a 1 in one of the columns {', '.join(layout.used)}: if they are the classes of a label, "
                "make a column of the names (pandas: idxmax(axis=1)), and name it with "
                f"{as_argument('data.label')}; if each has the answers of one judge, make a row for each judgement"
            )
        return (
            f"the columns {', '.join(layout.used)} share the same few values: if each has the answers of one judge, "
            f"make a row for each judgement; if one of them is the label, name it with {as_argument('data.label')}; if "
            f"each is a label of its own, name all of them, and {as_argument('task.kind', 'aspects')}"
        )
    return f"{source} looks like {layout.words}, not like a table with one answer in a row: make that first"


def _text_groups(texts: Sequence[ColumnProfile]) -> IntArray | None:
    """Number the texts of rows, -1 for a row without any; None where there is no column of texts."""
    if not texts:
        return None
    codes = [one.codes.codes for one in texts]
    has_text = np.any([one >= 0 for one in codes], axis=0)
    return np.where(has_text, joint_codes(codes), -1)


def _column(one: ColumnProfile, role: RoleOf, known_share: float | None) -> ColumnCheck:
    counts = one.codes.counts
    quantiles = None
    if len(counts) and role.role in ("attribute", "left out", "label"):
        low, median, high, most = np.quantile(counts, [0, 0.5, 0.9, 1], method="nearest").astype(int).tolist()
        quantiles = (low, median, high, most)
    return ColumnCheck(
        name=one.name,
        role=role.role,
        kind=role.kind,
        missing=one.missing,
        values=one.values,
        once=one.once,
        rows_per_value=quantiles,
        known_share=known_share,
        separator=role.separator,
        reason=str(role.finding or role.reason) if role.role == "left out" else role.reason,
    )


def _test_rows(table: pa.Table, test: pa.Table | None, found: _Columns) -> tuple[dict[str, float], list[Finding]]:
    """Return the share of test rows with known values of each attribute, and sentences about texts that leak."""
    names = [one.name for one in found.with_role("attribute") if found.roles[one.name].kind == "categorical"]
    label = found.label
    if not found.texts:
        return {}, []
    if test is not None:
        return _with_test(table, test, names, found)
    codes = [found.read[name].codes.codes for name in found.texts]
    usable = np.any([one >= 0 for one in codes], axis=0)
    if label is not None and label.kind != "list":
        usable &= label.codes.codes >= 0
    rows = np.flatnonzero(usable)
    groups = joint_codes([one[rows] for one in codes])
    try:
        part = parts_at_random(groups)
    except DataError:  # too few rows
        return {}, []
    known = _known_shares({name: found.read[name].codes.codes[rows] for name in names}, part == 0, part == 2)
    repeated = len(groups) - int(groups.max(initial=-1)) - 1
    is_odd = repeated > len(groups) / 20 and found.judge is None
    return known, [Finding("repeated-texts", {"rows": repeated})] if is_odd else []


def _with_test(
    table: pa.Table, test: pa.Table, names: Sequence[str], found: _Columns
) -> tuple[dict[str, float], list[Finding]]:
    """Do it with test rows of their own."""
    label, task = found.label, found.task
    columns = [*found.texts, *names, *([] if label is None else [label.name])]
    require_columns(test.column_names, columns, source="the test table")
    text_type = pa.large_string()
    both = {
        name: pa.chunked_array([part for one in (table, test) for part in one[name].cast(text_type).chunks], text_type)
        for name in columns
        if not any(pa.types.is_nested(one[name].type) for one in (table, test))
    }
    is_train = np.arange(len(table) + len(test)) < len(table)
    codes = {name: column_codes(column).codes for name, column in both.items()}
    known = _known_shares({name: codes[name] for name in names if name in codes}, is_train, ~is_train)
    leaks = []
    labels = np.zeros(len(is_train), dtype=np.int64) if label is None else codes[label.name]
    if label is not None and task is not None and task.kind == "classification" and not task.options:
        is_new = ~is_train & (labels >= 0) & ~np.isin(labels, labels[is_train])
        names_of = column_codes(both[label.name]).values.to_pylist()
        new = Counter(names_of[code] for code in labels[is_new])
        values = {"part": "test", "rows": new.total(), "labels": len(new), "examples": dict(new.most_common(_EXAMPLES))}
        leaks += [Finding("labels-not-in-training", values)] if new else []
    shared, same = shared_rows(joint_codes([codes[name] for name in found.texts]), labels, is_train)
    if shared:
        values = {"rows": shared, "test_rows": len(test), "same_label": same}
        leaks.append(Finding("test-rows-in-training", values))
    return known, leaks


def _known_shares(columns: Mapping[str, IntArray], train: BoolArray, test: BoolArray) -> dict[str, float]:
    """Return of the test rows with a value the share whose value training rows have, for columns that have any."""
    asked = {name: codes[test & (codes >= 0)] for name, codes in columns.items()}
    return {name: float(np.isin(of, columns[name][train]).mean()) for name, of in asked.items() if len(of)}


def _classes(label: ColumnProfile) -> dict[str, int]:
    """Count the rows of each class, of which a row may have several; the most frequent first."""
    separator = LISTED if label.kind == "list" else label.separator
    found: Counter[str] = Counter()
    for value, rows in zip(label.codes.values.to_pylist(), label.codes.counts.tolist(), strict=True):
        parts = [value] if separator is None else map(str.strip, value.split(separator))
        found.update({canonical(part) or "": rows for part in parts})
    return dict(found.most_common())


def _general(table: pa.Table, found: _Columns) -> Iterator[Finding]:
    label = found.label
    if len(table) < _ENOUGH_ROWS:
        yield Finding("few-rows", {"rows": len(table)})
    if not found.texts:
        yield Finding("no-column", {"role": "text"})
    if not found.with_role("label") and found.layout is None and (found.task is None or found.task.needs_label):
        unusable = unusable_labels(one for name, one in found.read.items() if name not in found.texts)
        yield Finding("no-column", {"role": "label", "unusable": unusable})
    if label is not None and label.missing:
        words = missing_label_words(table, [label.name], label.codes.codes < 0, missing=found.missing)
        yield Finding("rows-without-label", {"rows": label.missing, "words": words})


def _class_findings(classes: Mapping[str, int]) -> Iterator[Finding]:
    if len(classes) == 1:
        yield Finding("one-class", {"label": next(iter(classes))})
        return
    yield from odd_classes(classes)
    if few := list(rare_classes(classes)):
        yield Finding("rare-classes", {"classes": len(few), "examples": few[:5], "least": FEW_ROWS})

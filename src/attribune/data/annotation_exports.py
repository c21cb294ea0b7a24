"""Exports of annotation tools as a table with a row for each judgement: the text, the judge and the answer."""

from __future__ import annotations

import json
import shlex
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Unpack

import datasets
import numpy as np
import pyarrow as pa

from attribune.core.arguments import as_list, checked_arguments
from attribune.core.door import as_argument, as_call, is_command_line
from attribune.core.wording import counted, excerpt, shortened
from attribune.data.checking.profiles import arrow_columns, profile_column
from attribune.data.checking.roles import guess_texts
from attribune.data.file_options import Reading
from attribune.data.judgement_layouts import (
    SAMPLE,
    GivenAnswer,
    Layout,
    Records,
    chosen_classes,
    find_export,
    find_layout,
    parsed_cell,
)
from attribune.data.span_tags import TaggedText, are_spans, tagged_text
from attribune.data.table_files import table_files
from attribune.data.tables import check_same_columns, read_table, refuse_input_as_output, table_source_name
from attribune.data.text_files import STDIN, inner_name
from attribune.data.texts import canonical_text, text_digests
from attribune.data.writing import open_writer, prediction_array, prediction_field
from attribune.errors import ConfigError, DataError, RowError
from attribune.schema.columns import as_array, canonical, require_columns

_SEPARATORS = ("|", ";", "/", "&&")
_NAMES = ("email", "username", "name", "id")  # of a person, in objects
_SHOWN = 60  # characters of an example
_WORDS, _TAGS = "words", "tags"  # columns of marked parts


@dataclass(frozen=True, kw_only=True)
class Judgements:
    """The judgements of a table, one in a row.

    Attributes:
        source: where they come from.
        words: as what it was read.
        table: (n,) the columns of the texts, then those of judge and answer.
        texts: number of texts that somebody judged.
        text: the columns of the text; none where no column is known to be one.
        label: the column of answers.
        is_tagged: whether the answers are tags of words.
        judges: number of judges.
        notes: what was left out, or is odd, in short lines.
    """

    source: str
    words: str
    table: datasets.Dataset
    texts: int
    text: tuple[str, ...]
    label: str
    is_tagged: bool
    judges: int
    notes: tuple[str, ...] = ()

    def lines(self) -> list[str]:
        """Say in short lines what was read and what was left out."""
        sizes = f"{counted(self.texts, 'text')}, {counted(len(self.table), 'judgement')} by"
        return [f"{self.source} is read as {self.words}: {sizes} {counted(self.judges, 'judge')}", *self.notes]

    def next_command(self, file: str | Path) -> str:
        """Return the command to go on with, once they are written to a file: to check it, or to train on tags."""
        columns = [*(["--text", *self.text] if self.text else []), "--label", self.label]
        if not self.is_tagged:
            return shlex.join(["attribune", "check", str(file), *columns])
        task = ["--task", "tags", "--method", "none", "--output", "runs/tags"]
        return shlex.join(["attribune", "train", str(file), *columns, *task])


@checked_arguments
def write_judgements(
    data: Any,
    output: str | Path,
    *,
    text: str | Sequence[str] | None = None,
    label: str | None = None,
    judge: str | None = None,
    judges: Sequence[str] = (),
    judge_column: str = "judge",
    label_column: str = "label",
    **reading: Unpack[Reading],
) -> Judgements:
    """Write what `read_judgements` reads, as ``attribune data judgements`` does.

    Args:
        output: a file with one of the endings of `open_writer`; the other arguments are those of `read_judgements`.

    Raises:
        AttribuneError: naming file, row or column and the cure.
    """
    refuse_input_as_output(output, _sources(data))
    with open_writer(output) as writer:
        found = read_judgements(
            data,
            text=text,
            label=label,
            judge=judge,
            judges=judges,
            judge_column=judge_column,
            label_column=label_column,
            **reading,
        )
        writer.write(arrow_columns(found.table))
    return found


@checked_arguments
def read_judgements(
    data: Any,
    *,
    text: str | Sequence[str] | None = None,
    label: str | None = None,
    judge: str | None = None,
    judges: Sequence[str] = (),
    judge_column: str = "judge",
    label_column: str = "label",
    **reading: Unpack[Reading],
) -> Judgements:
    """Read an export of an annotation tool as a table with a row for each judgement.

    What an export is, is found: tasks of Label Studio, records of Argilla and doccano, lists of answers beside lists of
    judges as data sets of Learning with Disagreements have them, or a column for each judge. Answers that mark parts of
    the text become the columns ``words`` and ``tags``, in place of the label.

    Args:
        data: anything that `read_table` takes, a folder, or a list of files with the same columns; the name of each
            file is then its judge, unless a column tells.
        text: text columns, by which the texts are counted and repetitions found, if the guess is wrong.
        label: the question, or the column of the answers, where there are several.
        judge: the column of the judges, if it is not found.
        judges: columns that each hold the answers of one judge.
        judge_column: name of the new column of judges, and `label_column` that of answers.
        **reading: how files are read, as in `read_table`.

    Raises:
        DataError: naming file and row of what cannot be used.
        ConfigError: for a question, or a name of a column, that does not fit.
    """
    sources = _sources(data)
    tables = [read_table(one, **reading) for one in sources]
    source = " and ".join(map(table_source_name, sources)) if len(sources) < 3 else f"{len(sources):,} files"
    check_same_columns([(table_source_name(one), list(t.column_names)) for one, t in zip(sources, tables, strict=True)])
    table = _joined([arrow_columns(one) for one in tables], source)
    layout = find_layout(table, label=label, judge=judge, judges=judges)
    if layout is None:
        raise DataError(
            f"{source}: its columns ({', '.join(table.column_names)}) are not recognised as judgements: name the "
            f"columns of the answer and of the judge with {as_argument('label')} and {as_argument('judge')}, or those "
            f"that each hold the answers of one judge with {as_argument('judges')}"
        )
    question, notes = layout.question(label), list[str]()
    if isinstance(layout, Records) and layout.judge is None:
        table, layout, notes = _judged_by_files(table, layout, sources, [len(one) for one in tables])
    items, dropped = _items(table, layout, question)
    texts = as_list(text)
    require_columns(items.column_names, texts, source=source)
    found = _Found(items=items, texts=texts or _texts_of(items), source=source)
    needed = [name for name in dict.fromkeys(layout.read(question)) if name in table.column_names]
    cells = {name: [parsed_cell(value) for value in table[name].to_pylist()] for name in needed}
    for number in range(len(table)):
        found.add(number, layout, question, {name: column[number] for name, column in cells.items()})
    found.read_answers()
    if not found.labels:
        reasons = "; ".join(found.left_out_lines()) or "no record has one"
        raise DataError(f"{source} is read as {layout.words}, and holds no judgement ({reasons}): check the export")
    result, joined = found.table(judge_column, label_column)
    notes += [*found.left_out_lines(), *found.doubts(), *joined]
    if others := [one for one in layout.questions if one != question and one not in result.column_names]:
        notes.append(f"left out, answers to other questions: {', '.join(others)}")
    if dropped:
        notes.append(f"left out, columns about the work or made of the judgements: {', '.join(dropped)}")
    return Judgements(
        source=source,
        words=layout.words if label is None else f"{layout.words}, the answers to {question!r}",
        table=datasets.Dataset(result),
        texts=found.text_count,
        text=tuple(found.texts) if found.tagged is None else (_WORDS,),
        label=label_column if found.tagged is None else _TAGS,
        is_tagged=found.tagged is not None,
        judges=len(set(found.judges) - {None}),
        notes=tuple(notes),
    )


def _sources(data: Any) -> list[Any]:
    """Return the tables to read; of a folder its files."""
    given = list(data) if isinstance(data, list | tuple) else [data]
    sources: list[Any] = []
    for one in given:
        sources += table_files([one]) if isinstance(one, str | Path) and Path(one).is_dir() else [one]
    return sources


@contextmanager
def naming_exports(table: datasets.Dataset, source: str) -> Iterator[None]:
    """Where a table cannot be used inside, and is the export of an annotation tool, say so, with the cure.

    Args:
        source: its name.
    """
    try:
        yield
    except DataError as error:
        layout = find_export(arrow_columns(table.select(range(min(len(table), SAMPLE)))))
        if layout is None or layout.is_doubtful:
            raise
        maker = f"`{layout.command(source, {})}`" if is_command_line() else "`read_judgements`"
        raise DataError(
            f"{source} looks like {layout.words}, not like a table with one answer in a row: make one with "
            f"{maker}, and train on it"
        ) from error


def _joined(tables: Sequence[pa.Table], source: str) -> pa.Table:
    try:
        return pa.concat_tables([one.select(tables[0].column_names) for one in tables], promote_options="permissive")
    except pa.ArrowException as error:
        raise DataError(
            f"{source}: the files have columns of different kinds ({error}): read them one by one"
        ) from error


def _judged_by_files(
    table: pa.Table, layout: Records, sources: Sequence[Any], sizes: Sequence[int]
) -> tuple[pa.Table, Records, list[str]]:
    """Take the names of the files for the judges, where no column tells them."""
    names = [
        inner_name(Path(one)).partition(".")[0] if isinstance(one, str | Path) and str(one) != STDIN else None
        for one in sources
    ]
    if None in names or (len(names) == 1 and layout.is_plain):
        raise ConfigError(
            f"no column tells who gave the answers: name it with {as_argument('judge')}, or name a file for each judge"
        )
    column = next(
        name for number in range(len(table.column_names) + 1) if (name := f"file {number}") not in table.column_names
    )
    files = [name for name, size in zip(names, sizes, strict=True) for _ in range(size)]
    shown = ", ".join(map(str, names[:5])) + ", ..." * (len(names) > 5)
    note = f"no column tells the judge, who is taken from the name of the file ({shown})"
    return table.append_column(column, [files]), replace(layout, judge=column), [note]


def _items(table: pa.Table, layout: Layout, question: str) -> tuple[pa.Table, list[str]]:
    """Return the columns that say something of a text, and those that were dropped.

    Objects that the layout takes apart become several columns.
    """
    rest = [name for name in table.column_names if name not in layout.of_judgements(question)]
    dropped = layout.dropped(rest)
    names = [name for name in rest if name not in dropped]
    apart = [name for name in layout.taken_apart() if name in names]
    columns: dict[str, Any] = {name: table[name] for name in names if name not in apart}
    for container in apart:
        rows = [parsed_cell(value) for value in table[container].to_pylist()]
        objects = [layout.rest_of(row, (container,)) if isinstance(row, Mapping) else {} for row in rows]
        for key in dict.fromkeys(key for one in objects for key in one):
            columns[key if key not in columns else f"{container}.{key}"] = _column(
                [one.get(key) for one in objects], key
            )
    if not columns:
        raise DataError(f"no column is left for the texts ({', '.join(table.column_names)}): give a table with texts")
    return pa.table(columns), dropped


def _column(values: Sequence[Any], name: str) -> pa.Array:
    """Return values as a column; lists of lists, objects, and lists beside single values are JSON text."""
    with suppress(DataError):
        if not any(isinstance(value, Mapping) or _is_nested(value) for value in values):
            return as_array(list(values), column=name)
    texts = [
        json.dumps(one, ensure_ascii=False) if isinstance(one, list | Mapping) else canonical(one) for one in values
    ]
    return pa.array(texts, pa.string())


def _is_nested(value: Any) -> bool:
    return isinstance(value, list) and any(isinstance(part, list | Mapping) for part in value)


def _texts_of(items: pa.Table) -> list[str]:
    """Return the columns that are likely the texts; none where no column looks like one."""
    if "text" in items.column_names:
        return ["text"]
    return guess_texts([profile_column(name, items[name]) for name in items.column_names])


@dataclass(kw_only=True)
class _Found:
    """Judgements as they are gathered, row by row of the table of texts.

    Attributes:
        texts: columns of the text.
        answers: (n,) the judgements as they are written; so are the rest:
        rows: number of the row of each; `judges`, `labels`, and what else is told of each, `more`.
        tagged: words and tags in place of labels, where the answers mark parts of the text.
        left_out: how many records are no judgement, by reason.
    """

    items: pa.Table
    texts: Sequence[str]
    source: str
    answers: list[tuple[int, GivenAnswer]] = field(default_factory=list)
    rows: list[int] = field(default_factory=list)
    judges: list[str | None] = field(default_factory=list)
    labels: list[str | list[str]] = field(default_factory=list)
    more: list[Mapping[str, Any]] = field(default_factory=list)
    tagged: list[TaggedText] | None = None
    left_out: Counter[str] = field(default_factory=Counter)

    def add(self, number: int, layout: Layout, question: str, row: Mapping[str, Any]) -> None:
        """Read the judgements of a row.

        Raises:
            RowError: for a record that does not fit, or an answer that is none.
        """
        try:
            answers = list(layout.answers(row, question))
        except DataError as error:
            raise self._at(number, error) from error
        if not answers:
            self.left_out["texts without a judgement"] += 1
        for answer in answers:
            if answer.left_out:
                self.left_out[answer.left_out] += 1
            else:
                self.answers.append((number, answer))

    def read_answers(self) -> None:
        """Take the labels from the answers, or, if these mark parts of the text, the tags of its words.

        Raises:
            RowError: for an answer that is none.
        """
        if any(are_spans(answer.label) for _, answer in self.answers):
            self.tagged = []
        for number, answer in self.answers:
            try:
                label = _label_of(answer.label) if self.tagged is None else self._tag(number, answer.label)
            except DataError as error:
                raise self._at(number, error) from error
            if label is None:
                self.left_out["judgements without an answer"] += 1
                continue
            self.rows.append(number)
            self.judges.append(_name_of(answer.judge))
            self.labels.append(label)
            self.more.append(answer.more)

    def _at(self, number: int, error: DataError) -> RowError:
        return RowError(f"{self.source}: ", number + 1, f": {error}")

    def _tag(self, number: int, spans: Any) -> list[str] | None:
        """Tag the words of a text; without a list, nobody has looked at it."""
        if spans is None or self.tagged is None:
            return None
        if spans != [] and not are_spans(spans):
            raise DataError(
                f"{shortened(str(spans), _SHOWN)!r} marks no part of the text, as other answers do: choose one question"
            )
        if len(self.texts) != 1:
            raise DataError(
                "the answers mark parts of a text, and no column is known to be that: name it "
                f"with {as_argument('text')}"
            )
        text = self.items[self.texts[0]][number].as_py()
        tagged = tagged_text(text if isinstance(text, str) else "", [spans] if isinstance(spans, Mapping) else spans)
        self.tagged.append(tagged)
        return tagged.tags

    def left_out_lines(self) -> list[str]:
        """Say what was no judgement."""
        return [f"left out, {reason}: {count:,}" for reason, count in self.left_out.items()]

    @cached_property
    def _keys(self) -> list[bytes | int]:
        """The text of each row of items; its number where it has none."""
        digests = text_digests(self.items, self.texts) if self.texts else [None] * len(self.items)
        return [number if digest is None else digest for number, digest in enumerate(digests)]

    @property
    def text_count(self) -> int:
        """Number of texts that somebody judged."""
        return len({self._keys[row] for row in self.rows})

    def doubts(self) -> list[str]:
        """Say what is odd: judgements without a judge, and repeated ones."""
        unnamed = [row for row, judge in zip(self.rows, self.judges, strict=True) if judge is None]
        seen: set[tuple[Any, str]] = set()
        repeated = list[tuple[int, str]]()
        for row, judge in zip(self.rows, self.judges, strict=True):
            if judge is not None and (self._keys[row], judge) in seen:
                repeated.append((row, judge))
            seen.add((self._keys[row], judge or ""))
        lines = []
        if unnamed:
            lines.append(f"{counted(len(unnamed), 'judgement')} without a judge, such as of {self._shown(unnamed[0])}")
        if repeated:
            row, judge = repeated[0]
            lines.append(
                f"{counted(len(repeated), 'judgement')} by a judge who has judged the text before, such as {judge} on "
                f"{self._shown(row)}: all are kept; remove those that were corrected"
            )
        return lines

    def _shown(self, row: int) -> str:
        texts = [canonical_text(self.items[name][row].as_py()) for name in self.texts[:1]]
        return f"row {row + 1}" + "".join(f" ({excerpt(text, _SHOWN)!r})" for text in texts)

    def table(self, judge: str, label: str) -> tuple[pa.Table, list[str]]:
        """Return the table of judgements, and what to say of its labels.

        Args:
            judge: name of the column of judges, and `label` that of answers.

        Raises:
            ConfigError: for a name that a column of the texts has.
        """
        more = list(dict.fromkeys(name for one in self.more for name in one))
        if self.tagged is not None and (taken := {_WORDS, _TAGS} & {*self.items.column_names, judge}):
            raise ConfigError(f"{self.source} has a column {min(taken)!r}, in which tags or words are to be: rename it")
        for name, role in ((judge, "judge"), (label, "label")):
            if name in (*self.items.column_names, *more) or judge == label:
                raise ConfigError(
                    f"{self.source} has a column {name!r} of its own: give the new column of the {role} another name "
                    f"with {as_argument(f'{role}_column')}"
                )
        result = self.items.take(np.array(self.rows))
        for name in more:
            result = result.append_column(name, _column([one.get(name) for one in self.more], name))
        result = result.append_column(judge, pa.array(self.judges, pa.string()))
        if self.tagged is None:
            labels, notes = _joined_labels(self.labels)
            return result.append_column(label, pa.array(labels, pa.string())), notes
        for name, lists in ((_WORDS, [one.words for one in self.tagged]), (_TAGS, [one.tags for one in self.tagged])):
            values = prediction_array(lists)
            result = result.append_column(prediction_field(name, values, spaced=True), values)
        return result, self._tag_notes()

    def _tag_notes(self) -> list[str]:
        tagged = self.tagged or ()
        widened, overlapping = sum(one.widened for one in tagged), sum(one.overlapping for one in tagged)
        nothing = sum(set(one.tags) <= {"O"} for one in tagged)
        return [
            f"the answers mark parts of the text: {_TAGS} has a tag for each of the {_WORDS}",
            *([f"{counted(widened, 'part')} within words: the whole words are tagged"] if widened else []),
            *([f"left out, parts that overlap an earlier one: {overlapping:,}"] if overlapping else []),
            *([f"{counted(nothing, 'judgement')} without any part"] if nothing else []),
        ]


def _joined_labels(labels: Sequence[str | list[str]]) -> tuple[list[str], list[str]]:
    """Join several answers of a judgement to one text, and say how."""
    several = [one for one in labels if isinstance(one, list)]
    if not several:
        return [str(one) for one in labels], []
    used = {mark for one in labels for mark in _SEPARATORS if mark in "".join(one)}
    mark = next((mark for mark in _SEPARATORS if mark not in used), None)
    if mark is None:
        raise DataError(
            f"the answers contain each of {' '.join(_SEPARATORS)}, which could be between them: rename some"
        )
    settings = {"task.multi_label": True, "task.separator": mark}
    note = (
        f"{counted(len(several), 'judgement')} with several answers, such as {mark.join(several[0])!r:.60}, joined by "
        f"{mark!r}: train on them with {as_call('train', **settings)}"
    )
    return [one if isinstance(one, str) else mark.join(one) for one in labels], [note]


def _label_of(value: Any) -> str | list[str] | None:
    """Return the answer of a cell: a text, several of them, or None for none.

    Raises:
        DataError: for an object that is no answer.
    """
    if isinstance(value, Mapping):
        if (classes := chosen_classes(value)) is None:
            raise DataError(
                f"{shortened(str(value), _SHOWN)} is an object, not an answer: give one answer, or a list of them"
            )
        return _label_of(classes)
    if isinstance(value, list):
        parts = ["/".join(map(str, part)) if isinstance(part, list) else _label_of(part) for part in value]
        found = [part for part in parts if isinstance(part, str)]
        return found if len(found) > 1 else found[0] if found else None
    return canonical(value)


def _name_of(judge: Any) -> str | None:
    if isinstance(judge, list):
        return ", ".join(filter(None, map(_name_of, judge))) or None
    if isinstance(judge, Mapping):
        return next((name for key in _NAMES if (name := _name_of(judge.get(key))) is not None), None)
    return canonical(judge)

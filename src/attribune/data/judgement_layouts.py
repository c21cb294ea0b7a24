"""How annotation tools write judgements: several in a record, in columns of lists, or in a column for each judge.

A layout is found by what the cells hold; `find_layout` returns it, and `Layout.answers` reads the judgements of a row.
"""

from __future__ import annotations

import ast
import re
import shlex
import warnings
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import pyarrow as pa

from attribune.core.door import as_argument
from attribune.core.wording import shortened
from attribune.errors import ConfigError, DataError
from attribune.schema.columns import MISSING, canonical, json_value, require_columns

__all__ = [
    "SAMPLE",
    "GivenAnswer",
    "Layout",
    "Records",
    "chosen_classes",
    "find_export",
    "find_layout",
    "marks_part",
    "parsed_cell",
]

_PERSON = re.compile(
    r"(^|[^a-z])(annotator|user|username|judge|rater|coder|worker|turker|labeller|labeler|reviewer|expert|completed_by)s?"
    r"([ _.-]?(id|name|email)s?)?$"
)
_LABEL = re.compile(
    r"(label|cat|category|categorie|class|classe|annotation|answer|judgement|judgment|rating|response)s?"
)
_CONTENTS = ("value", "label", "answer", "choice", "response", "rating", "score")  # keys of an object that is an answer
_RECORDS = ("annotation_id", "created_at", "updated_at", "lead_time", "agreement", "comments")  # about the work itself
_SUBMITTED = "submitted"
_FEW_VALUES = 20
SAMPLE = 1_000
"""Rows by which a table is recognised."""
_MOST = 0.9  # of the records: a few broken ones are named rather than hide the layout


@dataclass(frozen=True, kw_only=True)
class GivenAnswer:
    """What one judge says of a text.

    Attributes:
        judge: None where the record does not tell.
        label: as the cell has it: one answer, a list of them, or nothing.
        left_out: why it is no judgement, in the plural, such as ``cancelled annotations``; "" for one.
        more: what else the record tells of this judgement, by column.
    """

    judge: Any = None
    label: Any = None
    left_out: str = ""
    more: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Layout(ABC):
    """Where a table has its judgements.

    ``apart`` are columns of objects, whose entries become columns of the texts.

    Attributes:
        words: what it is, after "is read as" and "looks like".
        questions: the columns, or names within them, that hold answers.
        default: the one of them that is meant where none is named; None where nothing tells.
        used: the columns that hold the judgements, of which `answers` reads the cells.
        is_plain: whether each row is one judgement already, with one answer.
    """

    words: str
    questions: tuple[str, ...]
    default: str | None = None
    used: tuple[str, ...]
    is_plain: bool = False

    apart: ClassVar[tuple[str, ...]] = ()

    @abstractmethod
    def answers(self, row: Mapping[str, Any], question: str) -> Iterator[GivenAnswer]:
        """Read the judgements of a row, whose cells are parsed.

        Raises:
            DataError: for a record that does not fit, without its number.
        """

    def command(self, source: str, reading: Mapping[str, Sequence[str]]) -> str:
        """Return the command that makes a row for each judgement.

        Args:
            reading: flags with which the file is read, with their values.
        """
        words = [
            "attribune",
            "data",
            "judgements",
            f"./{source}" if source.startswith("-") and source != "-" else source,
        ]
        for flag, values in reading.items():
            words += [flag, *values]
        name = re.sub(r"\W+", "-", source.rpartition("/")[2].partition(".")[0]).strip("-") or "table"
        return shlex.join([*words, "--output", f"{name}-judgements.csv"])

    def question(self, label: str | None) -> str:
        """Return the question that is asked for, or the only one.

        Raises:
            ConfigError: for one that is not there, or where several are; it lists them.
        """
        listed = ", ".join(map(repr, self.questions)) or "none"
        if label is not None:
            if label not in self.questions:
                raise ConfigError(f"there are no answers to {label!r} in {self.words}: choose one of {listed}")
            return label
        if not self.questions:
            raise ConfigError(f"{self.words} without any answer: export it once it has some")
        found = self.questions[0] if len(self.questions) == 1 else self.default
        if found is None:
            raise ConfigError(
                f"{self.words} has answers to {len(self.questions)} questions ({listed}): choose one with "
                f"{as_argument('label')}"
            )
        return found

    def of_judgements(self, question: str) -> Sequence[str]:
        """Return the columns with the judgements, which are no columns of the texts."""
        return self.used

    def dropped(self, columns: Sequence[str]) -> list[str]:
        """Return other columns that are no columns of texts: about the work, or made of the judgements."""
        return []


def parsed_cell(value: Any) -> Any:
    """Return the list or object of a cell that spells one in JSON or Python, and any other value as it is."""
    if not isinstance(value, str) or value.lstrip()[:1] not in ("[", "{"):
        return value
    if (found := json_value(value)) is not None:
        return found
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # a backslash in a text is no mistake of a program
            return ast.literal_eval(value.strip())
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return value


class _Cells:
    """The cells of a table, parsed and without the missing ones, column by column."""

    def __init__(self, table: pa.Table) -> None:
        self._table = table
        self.names = [field.name for field in table.schema if not pa.types.is_binary(field.type)]
        self._parsed: dict[str, list[Any]] = {}

    def rows(self, name: str) -> list[Any]:
        """Return the parsed cells of all rows."""
        if name not in self._parsed:
            self._parsed[name] = [parsed_cell(value) for value in self._table[name].to_pylist()]
        return self._parsed[name]

    def of(self, name: str) -> list[Any]:
        """Return the parsed cells that hold something."""
        return [cell for cell in self.rows(name) if cell is not None and cell != ""]

    def person(self) -> str | None:
        """Return the first column with a name such as ``annotator``."""
        return next((name for name in self.names if _PERSON.search(name.lower())), None)


def _all_of(cells: Sequence[Any], kind: type | tuple[type, ...]) -> bool:
    return bool(cells) and all(isinstance(cell, kind) for cell in cells)


@dataclass(frozen=True, kw_only=True)
class LabelStudio(Layout):
    """Tasks of Label Studio: ``annotations`` of a task, each with a ``result`` of several answers."""

    apart = ("data",)

    @classmethod
    def find(cls, cells: _Cells) -> LabelStudio | None:
        """Recognise the tasks."""
        for name in ("annotations", "completions"):
            if name not in cells.names or not _all_of(cells.of(name), list):
                continue
            annotations = [one for cell in cells.of(name) for one in cell]
            if _all_of(annotations, dict) and all("result" in one for one in annotations):
                found = dict.fromkeys(question for one in annotations for question, _ in _results(one))
                used = (name, *(["predictions"] if "predictions" in cells.names else []))
                return cls(words="an export of Label Studio", questions=tuple(found), used=used)
        return None

    def answers(self, row: Mapping[str, Any], question: str) -> Iterator[GivenAnswer]:
        """Read the annotations; cancelled ones and predictions are no judgements."""
        for one in row[self.used[0]] or ():
            judge = one.get("completed_by")
            if one.get("was_cancelled") or one.get("skipped"):
                yield GivenAnswer(judge=judge, left_out="cancelled annotations")
                continue
            parts = [value for name, value in _results(one) if name == question]
            yield GivenAnswer(judge=judge, label=parts[0] if len(parts) == 1 else parts or None)
        for _ in _list_in(row, "predictions"):
            yield GivenAnswer(left_out="predictions of a model")

    def dropped(self, columns: Sequence[str]) -> list[str]:
        """Return all but the data and the id of a task."""
        return [name for name in columns if name not in ("data", "id")]


def _list_in(value: Mapping[str, Any], name: str) -> list[Any]:
    found = value.get(name)
    return found if isinstance(found, list) else []


def _results(annotation: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """Yield the question and the answer of each result; an answer about a part of the text stays an object."""
    for one in _list_in(annotation, "result"):
        value = one.get("value") if isinstance(one, Mapping) else None
        if not isinstance(value, Mapping) or not value:
            continue
        kind = str(one.get("type") or next(iter(value)))
        content = value.get(
            kind, value.get("text", value.get("selected")) if len(value) > 1 else next(iter(value.values()))
        )
        yield str(one.get("from_name") or kind), value if marks_part(value) else content


@dataclass(frozen=True, kw_only=True)
class ResponseLists(Layout):
    """Flat records of Argilla 2: ``label.responses`` beside ``label.responses.users``, perhaps with their status."""

    @classmethod
    def find(cls, cells: _Cells) -> ResponseLists | None:
        """Recognise the columns by their names."""
        questions = [
            name.removesuffix(".responses")
            for name in cells.names
            if name.endswith(".responses") and f"{name}.users" in cells.names
        ]
        about = (
            "responses",
            "responses.users",
            "responses.status",
            "suggestion",
            "suggestion.score",
            "suggestion.agent",
        )
        used = [f"{question}.{part}" for question in questions for part in about]
        present = tuple(name for name in used if name in cells.names)
        return cls(words="an export of Argilla", questions=tuple(questions), used=present) if questions else None

    def answers(self, row: Mapping[str, Any], question: str) -> Iterator[GivenAnswer]:
        """Read the responses; only those that were submitted are judgements."""
        name = f"{question}.responses"
        names = (name, f"{name}.users", f"{name}.status")
        labels, users, states = (_entries(row.get(one)) for one in names)
        states = states if states else [_SUBMITTED] * len(labels)
        _require_equal({name: labels, names[1]: users, names[2]: states})
        for label, user, state in zip(labels, users, states, strict=True):
            yield _response(user, label, state)
        if row.get(f"{question}.suggestion") is not None:
            yield GivenAnswer(left_out="suggestions of a model")

    def dropped(self, columns: Sequence[str]) -> list[str]:
        """Return the status and the key of the record on the server."""
        return [name for name in columns if name in ("status", "_server_id")]


def _response(user: Any, label: Any, state: Any) -> GivenAnswer:
    text = str(state or _SUBMITTED).rpartition(".")[2]
    if text != _SUBMITTED:
        return GivenAnswer(judge=user, left_out=f"responses that are {text}")
    return GivenAnswer(judge=user, label=label)


@dataclass(frozen=True, kw_only=True)
class ObjectLists(Layout):
    """A list of objects in a cell, each with who answers and what: records of Argilla 1, doccano and others."""

    @classmethod
    def find(cls, cells: _Cells) -> ObjectLists | None:
        """Recognise columns of such lists."""
        found = tuple(name for name in cells.names if _hold_answers(cells.of(name)))
        if not found:
            return None
        has_status = any("status" in one for cell in cells.of(found[0]) for one in cell)
        words = "an export of Argilla" if has_status else f"lists of answers with their judges ({', '.join(found)})"
        return cls(words=words, questions=found, used=found)

    def answers(self, row: Mapping[str, Any], question: str) -> Iterator[GivenAnswer]:
        """Read the objects; of those with a status only what was submitted."""
        for one in row[question] or ():
            person, content = _keys_of(one)
            yield _response(one[person], one if marks_part(one) else one[content], one.get("status"))

    def dropped(self, columns: Sequence[str]) -> list[str]:
        """Return what models suggest."""
        return [name for name in columns if name.startswith(tuple(f"{one}-suggestion" for one in self.questions))]


def _hold_answers(cells: Sequence[Any]) -> bool:
    """Whether each cell is a list of objects that tell a person and an answer."""
    if not _all_of(cells, list):
        return False
    objects = [one for cell in cells for one in cell]
    return _all_of(objects, Mapping) and all(None not in _keys_of(one) for one in objects)


def _keys_of(one: Mapping[str, Any]) -> tuple[Any, Any]:
    person = next((key for key in one if _PERSON.search(str(key).lower())), None)
    return person, next((key for key in _CONTENTS if key in one), None)


def _require_equal(lists: Mapping[str, Sequence[Any]]) -> None:
    if len({len(one) for one in lists.values()}) > 1:
        lengths = ", ".join(f"{name} {len(one)}: {shortened(str(list(one)), 50)}" for name, one in lists.items())
        raise DataError(f"the lists are not of one length ({lengths}): each answer needs its judge, correct the record")


def _entries(cell: Any) -> list[Any]:
    """Return a list, also one that is written with commas; a single value is a list of one."""
    if cell is None or cell == "":
        return []
    if isinstance(cell, str):
        return [part.strip() for part in cell.split(",")]
    return list(cell) if isinstance(cell, list | tuple) else [cell]


@dataclass(frozen=True, kw_only=True)
class PairedLists(Layout):
    """Two columns of lists of one length in each record, of people and of their answers, such as those of LeWiDi.

    Attributes:
        people: the column of people.
    """

    people: str

    @classmethod
    def find(cls, cells: _Cells, *, judge: str | None = None) -> PairedLists | None:
        """Recognise the columns of people by a name such as ``annotators``, unless it is given."""
        named = [judge] if judge else [name for name in cells.names if _PERSON.search(name.lower())]
        found = [(name, others) for name in named if (others := _aligned(cells, name))]
        if len(found) != 1:
            return None
        people, others = found[0]
        likely = [name for name in others if _LABEL.fullmatch(name.lower())]
        top = likely if len(likely) == 1 else others
        return cls(
            words=f"lists of answers ({', '.join(top)}) and of judges ({people})",
            questions=tuple(others),
            default=top[0] if len(top) == 1 else None,
            used=(people, *others),
            people=people,
        )

    def answers(self, row: Mapping[str, Any], question: str) -> Iterator[GivenAnswer]:
        """Read the lists side by side."""
        people, answers = _entries(row[self.people]), _entries(row[question])
        _require_equal({self.people: people, question: answers})
        lists = {name: _entries(row[name]) for name in self.questions if name != question}
        others = {name: one if len(one) == len(people) else [None] * len(people) for name, one in lists.items()}
        for number, (judge, label) in enumerate(zip(people, answers, strict=True)):
            yield GivenAnswer(judge=judge, label=label, more={name: one[number] for name, one in others.items()})

    def dropped(self, columns: Sequence[str]) -> list[str]:
        """Return what sums up the judgements: the answer of most, and the shares of all."""
        return [name for name in columns if name in ("hard_label", "soft_label")]


def _lengths(cells: _Cells, name: str) -> list[int]:
    return [0 if isinstance(cell, Mapping) else len(_entries(cell)) for cell in cells.rows(name)]


def _aligned(cells: _Cells, people: str) -> list[str]:
    """Return the columns whose lists are as long as those of people, in nearly all records.

    Text with commas is a list if its entries are a few classes that repeat, since names of people and places have some,
    too, or if the name of the column says what it is.
    """
    lengths = _lengths(cells, people)
    if sum(length > 1 for length in lengths) <= len(lengths) / 2:
        return []
    return [
        name
        for name in cells.names
        if name != people
        and (_all_of(cells.of(name), list) or _LABEL.fullmatch(name.lower()) or _repeats(cells.rows(name)))
        and sum(map(int.__eq__, _lengths(cells, name), lengths)) >= _MOST * len(lengths)
    ]


def _repeats(rows: Sequence[Any]) -> bool:
    lists = [list(map(str, _entries(row))) for row in rows]
    values = {value for one in lists for value in one}
    return len(values) <= _FEW_VALUES and any(len(set(one)) < len(one) for one in lists)


@dataclass(frozen=True, kw_only=True)
class Records(Layout):
    """A record for each judgement, as doccano writes them, and Label Studio in CSV and JSON-MIN.

    Attributes:
        judge: the column of the judge; None where the file belongs to one.
    """

    judge: str | None

    @classmethod
    def find(cls, cells: _Cells, *, judge: str | None = None, label: str | None = None) -> Records | None:
        """Recognise a column of answers, beside one of people if there is one."""
        people = judge or cells.person()
        rest = [name for name in cells.names if name != people and name.lower() not in _RECORDS]
        wrapped = [name for name in rest if _are_wrapped(name, cells.of(name))]
        named = [name for name in rest if _LABEL.fullmatch(name.lower()) and cells.of(name)]
        few = [] if people is None else [name for name in rest if _are_classes(name, cells.of(name))]
        questions = tuple([label] if label else wrapped or named[:1] or few)
        if not questions:
            return None
        is_label_studio = "annotation_id" in cells.names
        is_plain = not (wrapped and all(_hold_one_class(cells.of(name)) for name in questions))
        words = "an export of Label Studio" if is_label_studio else "an export of doccano" if wrapped else "judgements"
        return cls(words=words, questions=questions, used=questions, judge=people, is_plain=is_plain)

    def answers(self, row: Mapping[str, Any], question: str) -> Iterator[GivenAnswer]:
        """Read the one judgement."""
        judge = None if self.judge is None else row[self.judge]
        yield GivenAnswer(judge=_one(judge), label=row[question])

    def of_judgements(self, question: str) -> Sequence[str]:
        """Return judge and answer; the other questions stay columns of the text."""
        return (question,) if self.judge is None else (self.judge, question)


def _one(value: Any) -> Any:
    return value[0] if isinstance(value, list) and len(value) == 1 else value


def marks_part(answer: Any) -> bool:
    """Whether an answer is about a part of the text: an object with a start, or a list such as ``[0, 3, "PER"]``."""
    if isinstance(answer, Mapping):
        return "start" in answer or "start_offset" in answer
    is_triple = isinstance(answer, list) and len(answer) == 3
    return is_triple and all(isinstance(end, int) for end in answer[:2]) and isinstance(answer[2], str)


def chosen_classes(value: Mapping[str, Any]) -> Any:
    """Return the answer of an object: its ``choices``, or the classes that it marks by 1 or true; None for another."""
    if "choices" in value:
        return value["choices"]
    if not value or not all(isinstance(mark, int) and mark in (0, 1) for mark in value.values()):
        return None  # numbers with decimals are shares of answers
    return [name for name, mark in value.items() if mark]


def _are_wrapped(name: str, cells: Sequence[Any]) -> bool:
    """Whether the answers are in lists or objects."""
    if any(isinstance(cell, dict) and chosen_classes(cell) is None for cell in cells):
        return False
    if cells and all(
        (isinstance(cell, dict) and "choices" in cell) or not isinstance(cell, dict | list) for cell in cells
    ):
        return any(isinstance(cell, dict) for cell in cells)
    return bool(_LABEL.fullmatch(name.lower())) and any(isinstance(cell, list | dict) for cell in cells)


def _hold_one_class(cells: Sequence[Any]) -> bool:
    """Whether each cell has one class at most, and classes repeat."""
    contents = [chosen_classes(cell) if isinstance(cell, dict) else cell for cell in cells]
    lists = [content if isinstance(content, list) else [content] for content in contents]
    classes = {str(part) for one in lists for part in one}
    is_one = all(len(one) <= 1 and not isinstance(part, list | dict) for one in lists for part in one or [None])
    return is_one and len(classes) <= len(lists) / 2


def _are_classes(name: str, cells: Sequence[Any]) -> bool:
    """Whether the cells have a few values, two at least, several times each."""
    if name.lower() == "id" or not cells or any(isinstance(cell, list | dict) for cell in cells):
        return False
    values = {canonical(cell) for cell in cells}
    return 2 <= len(values) <= _FEW_VALUES and len(values) <= len(cells) / 2


@dataclass(frozen=True, kw_only=True)
class Wide(Layout):
    """A column for each judge, whose cells are their answers.

    Args:
        people: for each of these columns, the one beside it that names its judge; empty where the columns are judges.
    """

    people: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, judges: Sequence[str], names: Sequence[str]) -> Wide:
        """Take columns that are named for the judges.

        Args:
            names: all columns, among which may be some that name the judges.
        """
        words, people = f"a column for each judge ({', '.join(judges)})", _people_beside(judges, names)
        if people:
            words = f"answers ({', '.join(judges)}), each beside a column with its judge ({', '.join(people.values())})"
        return cls(words=words, questions=("label",), used=(*judges, *people.values()), people=people)

    def answers(self, row: Mapping[str, Any], question: str) -> Iterator[GivenAnswer]:
        """Read the cells; an empty one is no judgement."""
        for name in self.used:
            text = row[name] if isinstance(row[name], list | dict) else canonical(row[name])
            if name in self.people.values() or text is None or (isinstance(text, str) and text in MISSING):
                continue
            yield GivenAnswer(judge=canonical(row[self.people[name]]) if self.people else name, label=row[name])


def _people_beside(answers: Sequence[str], names: Sequence[str]) -> dict[str, str]:
    """Return the column of the judge for each column of answers, if they share numbers, as Score1 and TurkId1 do."""
    numbers = [match[0] if (match := re.search(r"\d+$", name)) else "" for name in answers]
    others = [name for name in names if name not in answers]
    for prefix in dict.fromkeys(name.removesuffix(numbers[0]) for name in others if name.endswith(numbers[0] or " ")):
        beside = [f"{prefix}{number}" for number in numbers]
        is_person = _PERSON.search(prefix.lower().rstrip(" _.-")) or prefix.lower().endswith("id")
        if is_person and all(numbers) and len(set(beside)) == len(answers) and set(beside) <= set(others):
            return dict(zip(answers, beside, strict=True))
    return {}


def find_layout(
    table: pa.Table, *, label: str | None = None, judge: str | None = None, judges: Sequence[str] = ()
) -> Layout | None:
    """Find where a table has its judgements; None where nothing is recognised.

    Args:
        label: the column of the answers, or the question, where it is named; the layout may have it or not.
        judge: the column of the people, where it is named, and `judges` the columns, where each has one.

    Raises:
        DataError: for a column that is named and not there.
        ConfigError: for judges in both ways.
    """
    cells = _Cells(table)
    require_columns(cells.names, [*judges, *([] if judge is None else [judge])])
    if judges and judge is not None:
        raise ConfigError("judges are in one column or have a column each: name them in one way")
    if judges:
        return Wide.of(judges, cells.names)
    if judge is None:
        for kind in (LabelStudio, ResponseLists, ObjectLists):
            if (found := kind.find(cells)) is not None:
                return found
    paired = PairedLists.find(cells, judge=judge)
    if paired is not None:
        return paired
    named = label if label in cells.names else None
    return Records.find(cells, judge=judge, label=named)


def find_export(table: pa.Table) -> Layout | None:
    """Find the layout of a table that is to be made one of judgements first; only its first rows are read.

    Returns:
        None for a table with one answer in a row, and one that is not recognised.
    """
    found = find_layout(table.slice(0, SAMPLE))
    return None if found is None or found.is_plain else found

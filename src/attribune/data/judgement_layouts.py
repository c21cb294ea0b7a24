"""How annotation tools write judgements: several in a record, in columns of lists, or in a column for each judge.

A layout is found by what the cells hold; `find_layout` returns it, and `Layout.answers` reads the judgements of a row.
"""

from __future__ import annotations

import re
import shlex
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import pyarrow as pa

from attribune.core.door import as_argument
from attribune.core.wording import shortened
from attribune.data.column_names import ColumnName
from attribune.data.file_options import file_word
from attribune.data.span_tags import are_spans
from attribune.errors import ConfigError, DataError
from attribune.schema.columns import MISSING, canonical, literal, require_columns

_LABEL = re.compile(
    r"(label|cat|category|categorie|class|classe|annotation|answer|judgement|judgment|rating|response)s?"
)
_FLAG = re.compile(r"(is|has)_")
_CONTENTS = ("value", "label", "answer", "choice", "response", "rating", "score")  # keys of an object that is an answer
_RECORDS = ("annotation_id", "created_at", "updated_at", "lead_time", "agreement", "comments")  # about the work itself
_SUBMITTED = "submitted"
_FEW_VALUES = 20
SAMPLE = 1_000
"""Rows by which a table is recognised."""
_LONG = 40  # characters
LEAST_JUDGES = 3  # columns with the same values that are taken for judges unasked
_MOST_SCALES = 300  # different sets of values of columns, which are no answers of judges where there are more
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

    Attributes:
        words: what it is, after "is read as" and "looks like".
        questions: the columns, or names within them, that hold answers.
        default: the one of them that is meant where none is named; None where nothing tells.
        used: the columns that hold the judgements.
        is_doubtful: whether the columns may as well be something else.
        is_plain: whether each row is one judgement already, with one answer.
    """

    words: str
    questions: tuple[str, ...]
    default: str | None = None
    used: tuple[str, ...]
    is_doubtful: bool = False
    is_plain: bool = False
    about_work: ClassVar[tuple[str, ...]] = ()
    """Other columns that are no columns of texts: about the work, or made of the judgements."""

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
        words = ["attribune", "data", "judgements", file_word(source)]
        for flag, values in (*self.flags().items(), *reading.items()):
            words += [flag, *values]
        name = re.sub(r"\W+", "-", source.rpartition("/")[2].partition(".")[0]).strip("-") or "table"
        return shlex.join([*words, "--output", f"{name}-judgements.csv"])

    def flags(self) -> Mapping[str, Sequence[str]]:
        """Return the flags that tell the layout to the command, where it is not certain; with their values."""
        return {}

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
        """Return the columns that are no columns of the texts, since they hold judgements."""
        return self.used

    def read(self, question: str) -> Sequence[str]:
        """Return the columns of which `answers` reads the cells."""
        return self.of_judgements(question)

    def taken_apart(self) -> Sequence[str]:
        """Return columns of objects, whose entries become columns of the texts."""
        return ()

    def rest_of(self, value: Mapping[str, Any], path: tuple[str, ...]) -> Mapping[str, Any]:
        """Return what an object that is taken apart says of the text.

        Args:
            path: its column.
        """
        return value

    def dropped(self, columns: Sequence[str]) -> list[str]:
        """Return those of some columns that are `about_work`."""
        return [name for name in columns if name in self.about_work]


def parsed_cell(value: Any) -> Any:
    """Return the list or object of a cell that spells one in JSON or Python, and any other value as it is."""
    if not isinstance(value, str) or value.lstrip()[:1] not in ("[", "{"):
        return value
    try:
        return literal(value)
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

    def lists(self, name: str) -> list[list[str]]:
        """Return the entries of the cells of all rows."""
        return [list(map(str, _entries(row))) for row in self.rows(name)]

    def people(self) -> list[str]:
        """Return the columns with a name such as ``annotator``."""
        return [name for name in self.names if ColumnName(name).is_of_person]


def _all_of(cells: Sequence[Any], kind: type | tuple[type, ...]) -> bool:
    return bool(cells) and all(isinstance(cell, kind) for cell in cells)


@dataclass(frozen=True, kw_only=True)
class LabelStudio(Layout):
    """Tasks of Label Studio: ``annotations`` of a task, each with a ``result`` of several answers."""

    @classmethod
    def find(cls, cells: _Cells) -> LabelStudio | None:
        """Recognise the tasks."""
        for name in ("annotations", "completions"):
            if name not in cells.names or not _all_of(cells.of(name), list):
                continue
            annotations = [one for cell in cells.of(name) for one in cell]
            if _all_of(annotations, dict) and all("result" in one for one in annotations):
                found = Counter(question for one in annotations for question, _ in _results(one))
                return cls(words="an export of Label Studio", questions=tuple(found), used=(name,))
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

    def read(self, question: str) -> Sequence[str]:
        """Return annotations and predictions."""
        return (*self.used, "predictions")

    def taken_apart(self) -> Sequence[str]:
        """Return the data of the task."""
        return ("data",)

    def dropped(self, columns: Sequence[str]) -> list[str]:
        """Return all but the data and the id of a task."""
        return [name for name in columns if name not in ("data", "id", *self.used)]


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
        yield str(one.get("from_name") or kind), value if are_spans(value) else content


@dataclass(frozen=True, kw_only=True)
class ResponseLists(Layout):
    """Flat records of Argilla 2: ``label.responses`` beside ``label.responses.users``, perhaps with their status."""

    about_work: ClassVar[tuple[str, ...]] = ("status", "_server_id")

    @classmethod
    def find(cls, cells: _Cells) -> ResponseLists | None:
        """Recognise the columns by their names."""
        questions = [
            name.removesuffix(".responses")
            for name in cells.names
            if name.endswith(".responses") and f"{name}.users" in cells.names
        ]
        of_responses = ("responses", "responses.users", "responses.status")
        about = (*of_responses, "suggestion", "suggestion.score", "suggestion.agent")
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


def _response(user: Any, label: Any, state: Any) -> GivenAnswer:
    text = str(state or _SUBMITTED).rpartition(".")[2]
    if text != _SUBMITTED:
        return GivenAnswer(judge=user, left_out=f"responses that are {text}")
    return GivenAnswer(judge=user, label=label)


@dataclass(frozen=True, kw_only=True)
class ObjectLists(Layout):
    """A list of objects in a cell, each with who answers and what: records of Argilla 1, doccano and others."""

    container: str = ""

    @classmethod
    def find(cls, cells: _Cells) -> ObjectLists | None:
        """Recognise columns of such lists, or of objects with such a list for each question."""
        direct = tuple(name for name in cells.names if _hold_answers(cells.of(name)))
        if direct:
            is_argilla = any("status" in one for one in _objects(cells.of(direct[0])))
            words = (
                "an export of Argilla" if is_argilla else f"lists of answers with their judges ({', '.join(direct)})"
            )
            return cls(words=words, questions=direct, used=direct)
        if "responses" in cells.names and _all_of(cells.of("responses"), dict):
            questions = Counter(name for cell in cells.of("responses") for name in cell)
            if all(_hold_answers([cell.get(name) or [] for cell in cells.of("responses")]) for name in questions):
                found = tuple(questions)
                return cls(words="an export of Argilla", questions=found, used=("responses",), container="responses")
        return None

    def answers(self, row: Mapping[str, Any], question: str) -> Iterator[GivenAnswer]:
        """Read the objects; of those with a status only what was submitted."""
        cell = (row[self.container] or {}).get(question) if self.container else row[question]
        parts: dict[Any, list[Any]] = {}
        for one in _objects([cell]):
            person, content = _keys_of(one)
            if are_spans(one):  # one object for each part that somebody marked
                parts.setdefault(one[person], []).append(one)
            else:
                yield _response(one[person], one[content], one.get("status"))
        for person, spans in parts.items():
            yield GivenAnswer(judge=person, label=spans)

    def taken_apart(self) -> Sequence[str]:
        """Return the fields and metadata of records of Argilla."""
        return ("fields", "metadata") if self.container else ()

    def dropped(self, columns: Sequence[str]) -> list[str]:
        """Return what models suggest, and vectors."""
        names = ("suggestions", "vectors", "status", "_server_id") if self.container else ()
        suffixes = tuple(f"{question}-suggestion" for question in self.questions)
        return [name for name in columns if name in names or name.startswith(suffixes)]


def _objects(cells: Sequence[Any]) -> list[Mapping[str, Any]]:
    """Return the objects of lists; an object of lists, as the datasets library has them, is taken as one of those."""
    found: list[Mapping[str, Any]] = []
    for cell in cells:
        if isinstance(cell, Mapping):
            lists = {name: part for name, part in cell.items() if isinstance(part, list)}
            found += [dict(zip(lists, entry, strict=True)) for entry in zip(*lists.values(), strict=True)]
        else:
            found += cell or []
    return found


def _hold_answers(cells: Sequence[Any]) -> bool:
    """Whether each cell is a list of objects that tell a person and an answer."""
    is_lists = all(
        isinstance(cell, list)
        or (isinstance(cell, Mapping) and cell and _all_of(list(cell.values()), list) and _are_equal(cell.values()))
        for cell in cells
    )
    if not is_lists or not cells:
        return False
    objects = _objects(cells)
    return _all_of(objects, Mapping) and all(None not in _keys_of(one) for one in objects)


def _keys_of(one: Mapping[str, Any]) -> tuple[Any, Any]:
    person = next((key for key in one if ColumnName(str(key)).is_of_person), None)
    return person, next((key for key in _CONTENTS if key in one), None)


def _are_equal(lists: Any) -> bool:
    return len({len(one) for one in lists}) == 1


def _require_equal(lists: Mapping[str, Sequence[Any]]) -> None:
    if not _are_equal(lists.values()):
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
        nested: paths of lists of the same lengths within objects, by the names that they have as columns.
    """

    about_work: ClassVar[tuple[str, ...]] = ("hard_label", "soft_label")
    people: str
    nested: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    @classmethod
    def find(cls, cells: _Cells, *, judge: str | None = None) -> PairedLists | None:
        """Recognise the columns by a name such as ``annotators``, or by values that no record has twice."""
        named = [judge] if judge else cells.people()
        pairs = [(name, _aligned(cells, name)) for name in named]
        if not any(others for _, others in pairs) and judge is None:
            listed = [name for name in cells.names if _all_of(cells.of(name), list) and _are_people(cells.lists(name))]
            pairs = [(name, _aligned(cells, name, must_repeat=True)) for name in listed]
        found = [(name, others) for name, others in pairs if others]
        if len(found) != 1:
            return None
        people, others = found[0]
        likely = [name for name in others if _LABEL.fullmatch(name.lower())]
        top = likely if len(likely) == 1 else list(others)
        nested = _nested_lists(cells, people)
        return cls(
            words=f"lists of answers ({', '.join(top)}) and of judges ({people})",
            questions=(*others, *nested),
            default=top[0] if len(top) == 1 else None,
            used=(people, *others),
            people=people,
            nested=nested,
        )

    def answers(self, row: Mapping[str, Any], question: str) -> Iterator[GivenAnswer]:
        """Read the lists side by side."""
        people = _entries(row[self.people])
        lists = {name: _entries(_at(row, self.nested.get(name, (name,)))) for name in self.questions}
        _require_equal({self.people: people, question: lists[question]})
        others = {
            name: one if len(one) == len(people) else [None] * len(people)
            for name, one in lists.items()
            if name != question
        }
        for number, (judge, label) in enumerate(zip(people, lists[question], strict=True)):
            yield GivenAnswer(judge=judge, label=label, more={name: one[number] for name, one in others.items()})

    def read(self, question: str) -> Sequence[str]:
        """Return the lists, and the objects that hold some."""
        return (*self.used, *self.taken_apart())

    def taken_apart(self) -> Sequence[str]:
        """Return the columns of objects that hold such lists."""
        return tuple(dict.fromkeys(path[0] for path in self.nested.values()))

    def rest_of(self, value: Mapping[str, Any], path: tuple[str, ...]) -> Mapping[str, Any]:
        """Return the object without the lists of judgements."""
        kept: dict[str, Any] = {}
        for key, part in value.items():
            inner = (*path, key)
            if inner in self.nested.values():
                continue
            rest = self.rest_of(part, inner) if isinstance(part, Mapping) else part
            if rest != {} or part == {}:
                kept[key] = rest
        return kept


def _lengths(cells: _Cells, name: str) -> list[int]:
    return [0 if isinstance(cell, Mapping) else len(_entries(cell)) for cell in cells.rows(name)]


def _aligned(cells: _Cells, people: str, *, must_repeat: bool = False) -> tuple[str, ...]:
    """Return the columns whose lists are as long as those of people, in nearly all records.

    Args:
        must_repeat: whether their entries must be a few classes that repeat; so must those of text with commas, since
            names of people and places have some, too, unless the name of the column says what it is.
    """
    lengths = _lengths(cells, people)
    if sum(length > 1 for length in lengths) <= len(lengths) / 2:
        return ()
    return tuple(
        name
        for name in cells.names
        if name != people
        and (
            _repeats(cells.lists(name))
            or (not must_repeat and (_all_of(cells.of(name), list) or _LABEL.fullmatch(name.lower())))
        )
        and sum(map(int.__eq__, _lengths(cells, name), lengths)) >= _MOST * len(lengths)
    )


def _are_people(lists: Sequence[list[str]]) -> bool:
    """Whether no list names anyone twice, and each is named in several."""
    names = Counter(name for one in lists for name in one)
    return bool(names) and all(len(set(one)) == len(one) for one in lists) and names.total() >= 2 * len(names)


def _repeats(lists: Sequence[list[str]]) -> bool:
    values = {value for one in lists for value in one}
    return len(values) <= _FEW_VALUES and any(len(set(one)) < len(one) for one in lists)


def _nested_lists(cells: _Cells, people: str) -> dict[str, tuple[str, ...]]:
    """Find lists as long as those of people within objects: their paths, by the last key, or all where it is taken."""
    lengths = _lengths(cells, people)
    found: dict[str, tuple[str, ...]] = {}
    for name in cells.names:
        if not _all_of(cells.of(name), dict):
            continue
        rows = cells.rows(name)
        for path in dict.fromkeys(path for row in rows for path in _paths(row, ())):
            counts = [len(_entries(_at(row, path))) for row in rows]
            same = sum(count in (0, length) for count, length in zip(counts, lengths, strict=True))
            if any(counts) and same >= _MOST * len(rows):
                is_free = path[-1] not in found and path[-1] not in cells.names
                found[path[-1] if is_free else ".".join((name, *path))] = (name, *path)
    return found


def _paths(value: Any, path: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    if isinstance(value, Mapping):
        for key, part in value.items():
            yield from _paths(part, (*path, str(key)))
    elif len(_entries(value)) > 1:
        yield path


def _at(value: Any, path: Sequence[str]) -> Any:
    for key in path:
        value = value.get(key) if isinstance(value, Mapping) else None
    return value


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
        people = judge or next(iter(cells.people()), None)
        rest = [name for name in cells.names if name != people and name.lower() not in _RECORDS]
        wrapped = [name for name in rest if _are_wrapped(name, cells.of(name))]
        named = [name for name in rest if _LABEL.fullmatch(name.lower()) and cells.of(name)]
        named = [name for name in named if not _are_texts(cells.of(name))] or (named if people else [])
        few = [] if people is None else [name for name in rest if _are_classes(name, cells.of(name), least=2)]
        questions = tuple([label] if label else wrapped or named[:1] or few)
        if not questions:
            return None
        is_label_studio = "annotation_id" in cells.names
        is_one = bool(wrapped) and all(_hold_one_class(cells.of(name)) for name in questions)
        spans = any(are_spans(cell) for name in questions for cell in cells.of(name))
        words = "an export of Label Studio" if is_label_studio else "an export of doccano" if wrapped else "judgements"
        is_plain = not (is_one or spans)
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


def chosen_classes(value: Mapping[str, Any]) -> Any:
    """Return the answer of an object: its ``choices``, or the classes that it marks by 1 or true; None for another."""
    if "choices" in value:
        return value["choices"]
    if not value or not all(isinstance(mark, int) and mark in (0, 1) for mark in value.values()):
        return None  # numbers with decimals are shares of answers
    return [name for name, mark in value.items() if mark]


def _are_wrapped(name: str, cells: Sequence[Any]) -> bool:
    """Whether the answers are in lists or objects."""
    if any(isinstance(cell, dict) and not are_spans(cell) and chosen_classes(cell) is None for cell in cells):
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


def _are_texts(cells: Sequence[Any]) -> bool:
    """Whether the cells are texts, such as those of a column ``response``, rather than answers about one."""
    return _all_of(cells, str) and sum(map(len, cells)) > _LONG * len(cells)


def _are_classes(name: str, cells: Sequence[Any], *, least: int = 1) -> bool:
    """Whether the cells have a few values, several times each."""
    if name.lower() == "id" or not cells or any(isinstance(cell, list | dict) for cell in cells):
        return False
    values = {canonical(cell) for cell in cells}
    return least <= len(values) <= _FEW_VALUES and len(values) <= len(cells) / 2


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

    @classmethod
    def find(cls, cells: _Cells) -> Wide | None:
        """Recognise several answers, each beside its judge, or with the same few values, which are doubtful."""
        if any(_LABEL.fullmatch(name.lower()) and not _are_texts(cells.of(name)) for name in cells.names):
            return None
        for answers in _numbered(cells.names).values():
            is_answer = not any(_are_texts(cells.of(name)) for name in answers)
            if is_answer and len(answers) >= LEAST_JUDGES and _people_beside(answers, cells.names):
                return cls.of(answers, cells.names)
        names = [name for name in cells.names if not _FLAG.match(name.lower()) and _are_classes(name, cells.of(name))]
        values = {name: frozenset(map(canonical, cells.of(name))) for name in names}
        scales = list(dict.fromkeys(values.values()))
        if len(scales) > _MOST_SCALES:
            return None
        groups = []
        for scale in (one for one in scales if len(one) > 1):
            same = {other for other in scales if _mostly_same(other, scale) or other < scale}  # < of who said few
            groups.append([name for name, found in values.items() if found in same])
        largest = max(groups, key=len, default=[])
        numbered = max(_numbered(largest).values(), key=len, default=[])  # label1 to label5, beside gold_label
        largest = numbered if len(numbered) >= LEAST_JUDGES else largest
        return replace(cls.of(largest, cells.names), is_doubtful=True) if len(largest) >= LEAST_JUDGES else None

    def flags(self) -> Mapping[str, Sequence[str]]:
        """Return the columns."""
        return {"--judges": [name for name in self.used if name not in self.people.values()]}

    def answers(self, row: Mapping[str, Any], question: str) -> Iterator[GivenAnswer]:
        """Read the cells; an empty one is no judgement."""
        for name in self.used:
            text = row[name] if isinstance(row[name], list | dict) else canonical(row[name])
            if name in self.people.values() or text is None or (isinstance(text, str) and text in MISSING):
                continue
            yield GivenAnswer(judge=canonical(row[self.people[name]]) if self.people else name, label=row[name])


def _numbered(names: Sequence[str]) -> dict[str, list[str]]:
    """Return the columns whose names differ in the number at their end, by what is before it; none that name people."""
    found: dict[str, list[str]] = {}
    for name in names:
        prefix = name.rstrip("0123456789")
        if prefix != name and not _names_people(prefix):
            found.setdefault(prefix, []).append(name)
    return found


def _names_people(prefix: str) -> bool:
    """Whether columns that begin so have people, such as ``TurkId1`` and ``worker_2``."""
    return ColumnName(prefix).is_of_person or prefix.lower().endswith("id")


def _people_beside(answers: Sequence[str], names: Sequence[str]) -> dict[str, str]:
    """Return the column of the judge for each column of answers, if they share numbers, as Score1 and TurkId1 do."""
    numbers = [match[0] if (match := re.search(r"\d+$", name)) else "" for name in answers]
    others = [name for name in names if name not in answers]
    for prefix in dict.fromkeys(name.removesuffix(numbers[0]) for name in others if name.endswith(numbers[0] or " ")):
        beside = [f"{prefix}{number}" for number in numbers]
        if _names_people(prefix) and all(numbers) and len(set(beside)) == len(answers) and set(beside) <= set(others):
            return dict(zip(answers, beside, strict=True))
    return {}


def _mostly_same(one: frozenset[Any], other: frozenset[Any]) -> bool:
    return len(one & other) >= 2 and len(one & other) >= 0.6 * len(one | other)


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
        if (wide := Wide.find(cells)) is not None and wide.people:
            return wide
    paired = PairedLists.find(cells, judge=judge)
    if paired is not None:
        return paired
    named = label if label in cells.names else None
    records = Records.find(cells, judge=judge, label=named)
    return records if records is not None else Wide.find(cells)


def find_export(table: pa.Table) -> Layout | None:
    """Find the layout of a table that is to be made one of judgements first; only its first rows are read.

    Returns:
        None for a table with one answer in a row, and one that is not recognised.
    """
    found = find_layout(table.slice(0, SAMPLE))
    return None if found is None or found.is_plain else found

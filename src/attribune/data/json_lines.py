"""JSON lines (one object per line), and JSON files with a list of objects, with columns, or in the format of SQuAD."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import chain, islice
from pathlib import Path
from typing import Any

import pyarrow as pa

from attribune.core.wording import shortened
from attribune.data.messages import are_messages, message_texts, say_messages
from attribune.data.text_files import checked_columns, inner_name, is_text, open_text, raised, readable
from attribune.errors import DataError
from attribune.schema.columns import canonical, json_value

_NAMES = ("data", "rows", "records", "items", "examples", "instances", "results")  # under which tables are found
_IDS = ("id", "key", "row_id")


def rows_of_object(item: Any, *, source: str, tell: Callable[[str], None]) -> list[dict[str, Any]] | None:
    """Return the rows of a table that is written as one object; None for another object, which is a row itself.

    The object may hold columns as pandas writes them by default, lists of one length or objects with the same keys;
    ``columns``, their names, and ``data``, the rows as lists; rows as objects under their ids, which become a column;
    or any of these, or a list of rows, under a name such as ``data``.

    Args:
        source: name of the file, for messages.
        tell: takes a note about a layout whose rows could be taken for something else.

    Raises:
        DataError: for several lists of rows.
    """
    if not isinstance(item, dict) or not item:
        return None
    if (rows := _split(item)) is not None:
        return rows
    if (inner := _inner(item)) is not None:
        name, value = inner
        tell(f"rows under {name!r}")
        return value if isinstance(value, list) else rows_of_object(value, source=source, tell=tell)
    if len(item) > 1 and all(_is_rows(value) for value in item.values()):
        raise DataError(
            f"{source}: the object holds several lists of rows ({', '.join(map(repr, item))}): save the one that is "
            "wanted to a file of its own"
        )
    if (rows := _by_id(item)) is not None:
        tell(f"rows by their ids ({next(iter(item))!r:.40}, ...), which are the column {next(iter(rows[0]))!r}")
        return rows
    return _by_columns(item)


def _split(item: Mapping[str, Any]) -> list[dict[str, Any]] | None:
    names, data = item.get("columns"), item.get("data")
    if not (isinstance(names, list) and isinstance(data, list) and set(item) <= {"columns", "data", "index", "schema"}):
        return None
    rows = [row for row in data if isinstance(row, list) and len(row) == len(names)]
    return [dict(zip(map(str, names), row, strict=True)) for row in rows] if len(rows) == len(data) else None


def _is_rows(value: Any) -> bool:
    return isinstance(value, list) and len(value) > 0 and all(isinstance(row, dict) for row in value)


def _inner(item: Mapping[str, Any]) -> tuple[str, Any] | None:
    """Return the name and value under which the table is; None if it is the object itself."""
    if len(item) == 1:
        name, value = next(iter(item.items()))
        is_table = (
            name in _NAMES and isinstance(value, dict) and all(isinstance(one, list | dict) for one in value.values())
        )
        return (name, value) if is_table or _is_rows(value) else None
    found = [(name, value) for name, value in item.items() if name in _NAMES and _is_rows(value)]
    others = [value for name, value in item.items() if name not in _NAMES]
    return found[0] if len(found) == 1 and not any(map(_is_rows, others)) else None


def _by_id(item: Mapping[str, Any]) -> list[dict[str, Any]] | None:
    """Return rows that are objects under their ids, rather than columns of which each is an object by the ids of rows.

    Rows have the same names of columns, or some of them; ids are numbers, or more than there are columns.
    """
    rows = list(item.values())
    if not all(isinstance(row, dict) and row for row in rows):
        return None
    names = dict.fromkeys(name for row in rows for name in row)
    if len(rows) == 1:
        is_row = _are_numbers(item) and not _are_numbers(names)
    elif all(row.keys() == rows[0].keys() for row in rows) and _are_numbers(item) == _are_numbers(names):
        is_row = len(rows) > len(names)
    elif _are_numbers(names):
        is_row = False
    else:
        is_row = any(all(name in row for row in rows) for name in names) and (len(rows) > 2 or _are_numbers(item))
    if not is_row:
        return None
    column = next(name for name in (*_IDS, *(f"id_{number}" for number in range(len(names) + 1))) if name not in names)
    return [{column: key, **row} for key, row in item.items()]


def _are_numbers(keys: Mapping[str, Any]) -> bool:
    return all(key.strip().lstrip("-").isdigit() for key in keys)


def _by_columns(item: Mapping[str, Any]) -> list[dict[str, Any]] | None:
    columns = list(item.values())
    if all(isinstance(column, dict) and column.keys() == columns[0].keys() for column in columns):
        columns = [list(column.values()) for column in columns]
    if not all(isinstance(column, list) and len(column) == len(columns[0]) for column in columns):
        return None
    return [dict(zip(item, row, strict=True)) for row in zip(*columns, strict=True)]


_CURE = "get the file again, or write one object a line with question, context and answers"


def is_squad(item: object) -> bool:
    """Whether an object is a file of SQuAD: its ``data`` is a list of articles with paragraphs."""
    data = item.get("data") if isinstance(item, dict) else None
    return isinstance(data, list) and bool(data) and isinstance(data[0], dict) and "paragraphs" in data[0]


def squad_rows(item: Mapping[str, Any], *, source: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the questions: place for messages, and ``id``, ``title``, ``context``, ``question``, ``answers``.

    ``answers`` are as datasets has them: a list of texts and one of their starts. A file of version 2.0 also has
    ``is_impossible``, and no answers where it is true.

    Raises:
        DataError: naming article, paragraph and question of what is not as in SQuAD.
    """
    for article_place, article in _entries(item, "data", source, "article"):
        for place, paragraph in _entries(article, "paragraphs", article_place, "paragraph"):
            context = _text(paragraph, "context", place)
            for where, entry in _entries(paragraph, "qas", place, "question"):
                row = {"id": entry.get("id"), "title": article.get("title"), "context": context}
                yield where, row | {"question": _text(entry, "question", where)} | _answers(entry, where)


def _entries(item: Mapping[str, Any], name: str, place: str, kind: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the objects of a list, with their places."""
    entries = item.get(name)
    if not isinstance(entries, list):
        raise DataError(f"{place}: {name!r} is not a list: {_CURE}")
    for number, entry in enumerate(entries, start=1):
        where = f"{place}, {kind} {number}"
        if not isinstance(entry, dict):
            raise DataError(f"{where}: {shortened(str(entry), 40)!r} is not an object: {_CURE}")
        yield where, entry


def _text(item: Mapping[str, Any], name: str, place: str) -> str:
    text = item.get(name)
    if not isinstance(text, str):
        raise DataError(f"{place}: {name!r} is {shortened(str(text), 40)!r}, not text: {_CURE}")
    return text


def _answers(entry: Mapping[str, Any], place: str) -> dict[str, Any]:
    answers = [answer for _, answer in _entries({"answers": [], **entry}, "answers", place, "answer")]
    texts = [_text(answer, "text", place) for answer in answers]
    columns: dict[str, Any] = {
        "answers": {"text": texts, "answer_start": [answer.get("answer_start") for answer in answers]}
    }
    if (flag := entry.get("is_impossible")) is not None:
        columns["is_impossible"] = flag
    return columns


_BATCH = 10_000
_MOST_CELLS = 50_000_000  # of a table that is nearly empty, which takes 0.4 GB and seconds
_SPARSE = 100  # of so many cells, one has a value
_SHOWN = 3  # keys
_EXACT = 2**53  # integers beyond this cannot share a float column
_TYPES = {
    "bool": pa.bool_(),
    "int": pa.int64(),
    "long": pa.int64(),
    "float": pa.float64(),
    "list": pa.list_(pa.string()),
    "empty": pa.list_(pa.string()),
}


def json_batches(path: Path, *, encoding: str, tell: Callable[[str], None] = lambda _: None) -> Iterator[pa.Table]:
    """Read the rows batch by batch; a first pass finds the columns and their types.

    Keys missing in a row are missing values. A column of different types becomes text, a column of lists one of lists
    of text, and messages of a chat become their contents; other objects and nested lists become JSON text.

    Args:
        tell: takes a note about the layout, see `rows_of_object`.

    Raises:
        DataError: naming file and line of what is not a JSON object; or for a file without rows.
    """
    with readable(path):
        found: dict[str, set[str]] = {}
        row_count = filled = 0
        for _, row in json_objects(path, encoding, tell=tell):
            row_count += 1
            filled += len(row)
            for name, value in row.items():
                found.setdefault(name, set()).add(_kind(value))
            if row_count * len(found) > max(_MOST_CELLS, _SPARSE * filled):
                raise _changing_keys(path, found, row_count, filled)
        kinds = {name: _joined(of_cells) for name, of_cells in found.items()}
        if not row_count:
            raise DataError(f"{path}: the file has no rows: give one JSON object per line")
        names = checked_columns(list(kinds), source=str(path))
        say_messages(str(path), [name for name, kind in kinds.items() if kind == "messages"])
        if not kinds:
            raise DataError(f"{path}: the rows are empty objects: give each row its columns")
        rows = json_objects(path, encoding)
        while batch := list(islice(rows, _BATCH)):
            row_count -= len(batch)
            try:
                if any(not row.keys() <= kinds.keys() for _, row in batch):
                    raise TypeError("a new key")
                table = _table(batch, kinds).rename_columns(names)
            except (TypeError, OverflowError, pa.ArrowException) as error:
                raise DataError(f"{path}: the file changed while it was read ({error}): read it again") from error
            yield table
        if row_count:
            raise DataError(f"{path}: the file changed while it was read: read it again")


def _changing_keys(path: Path, names: Iterable[str], row_count: int, filled: int) -> DataError:
    found = list(names)
    return DataError(
        f"{path}: the first {row_count:,} rows have {len(found):,} different keys, and {filled / row_count:,.0f} of "
        f"them in a row on average; the last are {', '.join(map(repr, found[-_SHOWN:]))}: where keys hold values, such "
        "as names of people, write them as values of one key"
    )


def json_objects(
    path: Path,
    encoding: str,
    *,
    bad: Callable[[DataError], None] = raised,
    tell: Callable[[str], None] = lambda _: None,
) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield (place for messages, object).

    Args:
        tell: as for `json_batches`.
        bad: takes the DataError of a line that is not a JSON object, which is then skipped; by default it is raised.
    """
    with open_text(path, encoding) as file:
        lines = ((number, line.strip()) for number, line in enumerate(file, start=1))
        filled = ((number, line) for number, line in lines if line)
        first = next(filled, None)
        if first is None:
            return
        if first[1].startswith("["):
            rest = "\n".join(line for _, line in filled)
            items = _parsed(f"{first[1]}\n{rest}", f"{path}, from line {first[0]}")
            pairs: Iterator[tuple[str, Any]] = (
                (f"{path}, item {number}", item) for number, item in enumerate(items, start=1)
            )
        elif not inner_name(path).lower().endswith((".jsonl", ".ndjson")):
            pairs = _json_pairs(path, first, filled, bad, tell)
        else:
            pairs = _parsed_lines(path, chain([first], filled), bad)
        for place, item in pairs:
            if isinstance(item, dict):
                yield place, item
            else:
                bad(DataError(f"{place}: not an object ({shortened(str(item), 60)!r}): write one {{...}} per row"))


def _json_pairs(
    path: Path,
    first: tuple[int, str],
    filled: Iterator[tuple[int, str]],
    bad: Callable[[DataError], None],
    tell: Callable[[str], None],
) -> Iterator[tuple[str, Any]]:
    """Yield the objects of a file with one a line, or the rows of one object that holds a whole table."""
    second = next(filled, None)
    numbered, item = [first, *([] if second is None else [second])], json_value(first[1])
    if item is None:  # one object may be written over several lines
        numbered.extend(filled)
        item = json_value("\n".join(line for _, line in numbered))
        second = None
    if is_squad(item):
        return squad_rows(item, source=str(path))
    if second is None and (rows := rows_of_object(item, source=str(path), tell=tell)) is not None:
        return ((f"{path}, row {number}", row) for number, row in enumerate(rows, start=1))
    if second is None and isinstance(item, dict):  # a single row
        return iter([(f"{path}, row 1", item)])
    return _parsed_lines(path, chain(numbered, filled), bad)


def _parsed_lines(
    path: Path, numbered: Iterable[tuple[int, str]], bad: Callable[[DataError], None]
) -> Iterator[tuple[str, Any]]:
    for number, line in numbered:
        place = f"{path}, line {number}"
        try:
            item = _parsed(line, place)
        except DataError as error:
            bad(error)
        else:
            yield place, item


def _parsed(text: str, place: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise DataError(
            f"{place}: not JSON ({error}): {shortened(text, 60)!r}; write one whole object per line, or one "
            "list of objects"
        ) from error


def _kind(value: Any) -> str:
    if value is None:
        return "none"
    if isinstance(value, bool):
        return "bool"
    if isinstance(value, int):
        return "int" if abs(value) <= _EXACT else "long" if -(2**63) <= value < 2**63 else "text"
    if isinstance(value, float):
        return "float"
    if isinstance(value, str):
        return "text"
    if value == []:
        return "empty"
    if are_messages(value):
        return "messages"
    flat = isinstance(value, list) and not any(isinstance(part, list | dict) for part in value)
    return "list" if flat else "json"


def _joined(of_cells: set[str]) -> str:
    """Return the kind of a column whose cells are of several kinds."""
    kinds = of_cells - {"none"}
    if kinds & {"list", "messages"}:
        kinds -= {"empty"}
    if len(kinds) < 2:
        return kinds.pop() if kinds else "none"
    if kinds == {"int", "long"}:
        return "long"
    if kinds == {"int", "float"}:
        return "float"
    if kinds == {"text", "messages"}:
        return "messages"
    return "json" if kinds & {"list", "empty", "messages", "json"} else "text"


def _table(rows: list[tuple[str, dict[str, Any]]], kinds: dict[str, str]) -> pa.Table:
    columns = {}
    for name, kind in kinds.items():
        cells = [_cell(row.get(name), kind) for _, row in rows]
        try:
            columns[name] = pa.array(cells, type=_TYPES.get(kind, pa.string()))
        except UnicodeEncodeError as error:
            place = next(place for place, row in rows if not is_text(json.dumps(row.get(name), ensure_ascii=False)))
            raise DataError(
                f"{place}: column {name!r} holds half of a character pair (\\ud800 to \\udfff), which is not text: "
                "correct the row"
            ) from error
    return pa.table(columns)


def _cell(value: Any, kind: str) -> Any:
    if value is None or isinstance(value, str) or kind in ("bool", "int", "long", "float"):
        return value
    if kind == "messages":
        return message_texts([value])[0] if isinstance(value, list) else canonical(value)
    if kind in ("list", "empty"):
        return [part if isinstance(part, str) else canonical(part) for part in value]
    return json.dumps(value, ensure_ascii=False) if isinstance(value, list | dict) else canonical(value)

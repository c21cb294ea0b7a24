"""JSON lines (one object per line), and JSON files with a list of objects, with columns, or in the format of SQuAD."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from itertools import chain, islice
from pathlib import Path
from typing import Any

import pyarrow as pa

from attribune.data.json_layouts import rows_of_object
from attribune.data.squad_json import is_squad, squad_rows
from attribune.data.text_files import checked_columns, inner_name, open_text, readable
from attribune.errors import DataError
from attribune.schema.columns import canonical

__all__ = ["json_batches", "json_objects"]

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
}


def json_batches(path: Path, *, encoding: str, tell: Callable[[str], None] = lambda _: None) -> Iterator[pa.Table]:
    """Read the rows batch by batch; a first pass finds the columns and their types.

    Keys missing in a row are missing values. A column of different types becomes text, a column of lists one of lists
    of text; objects and nested lists become JSON text.

    Args:
        tell: takes a note about the layout, see `rows_of_object`.

    Raises:
        DataError: naming file and line of what is not a JSON object; or for a file without rows.
    """
    with readable(path):
        kinds: dict[str, str] = {}
        row_count = filled = 0
        for _, row in json_objects(path, encoding, tell=tell):
            row_count += 1
            filled += len(row)
            for name, value in row.items():
                kinds[name] = _joined(kinds.get(name, "none"), _kind(value))
            if row_count * len(kinds) > max(_MOST_CELLS, _SPARSE * filled):
                raise _changing_keys(path, kinds, row_count, filled)
        if not row_count:
            raise DataError(f"{path}: the file has no rows: give one JSON object per line")
        checked_columns(list(kinds), source=str(path))
        if not kinds:
            raise DataError(f"{path}: the rows are empty objects: give each row its columns")
        rows = json_objects(path, encoding)
        while batch := list(islice(rows, _BATCH)):
            row_count -= len(batch)
            try:
                if any(not row.keys() <= kinds.keys() for _, row in batch):
                    raise TypeError("a new key")
                table = _table(batch, kinds)
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
    bad: Callable[[DataError], None] | None = None,
    tell: Callable[[str], None] = lambda _: None,
) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield (place for messages, object).

    Args:
        tell: as for `json_batches`.
        bad: takes the DataError of a line that is not a JSON object, which is then skipped; None raises it.
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
                continue
            error = DataError(f"{place}: not an object ({str(item)[:60]!r}): write one {{...}} per row")
            if bad is None:
                raise error
            bad(error)


def _json_pairs(
    path: Path,
    first: tuple[int, str],
    filled: Iterator[tuple[int, str]],
    bad: Callable[[DataError], None] | None,
    tell: Callable[[str], None],
) -> Iterator[tuple[str, Any]]:
    """Yield the objects of a file with one a line, or the rows of one object that holds a whole table."""
    second = next(filled, None)
    numbered, item = [first, *([] if second is None else [second])], _loaded(first[1])
    if item is None:  # one object may be written over several lines
        numbered.extend(filled)
        item = _loaded("\n".join(line for _, line in numbered))
        second = None
    if is_squad(item):
        return squad_rows(item, source=str(path))
    if second is None and (rows := rows_of_object(item, source=str(path), tell=tell)) is not None:
        return ((f"{path}, row {number}", row) for number, row in enumerate(rows, start=1))
    if second is None and isinstance(item, dict):  # a single row
        return iter([(f"{path}, row 1", item)])
    return _parsed_lines(path, chain(numbered, filled), bad)


def _loaded(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def _parsed_lines(
    path: Path, numbered: Iterable[tuple[int, str]], bad: Callable[[DataError], None] | None
) -> Iterator[tuple[str, Any]]:
    for number, line in numbered:
        place = f"{path}, line {number}"
        try:
            item = _parsed(line, place)
        except DataError as error:
            if bad is None:
                raise
            bad(error)
            continue
        yield place, item


def _parsed(text: str, place: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise DataError(
            f"{place}: not JSON ({error}): {text[:60]!r}; write one whole object per line, or one list of objects"
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
    flat = isinstance(value, list) and not any(isinstance(part, list | dict) for part in value)
    return "list" if flat else "json"


def _joined(one: str, other: str) -> str:
    """Return the kind of a column that holds both kinds."""
    pair = {one, other} - {"none"}
    if len(pair) < 2:
        return pair.pop() if pair else "none"
    if pair == {"int", "long"}:
        return "long"
    if pair == {"int", "float"}:
        return "float"
    return "json" if pair & {"list", "json"} else "text"


def _table(rows: list[tuple[str, dict[str, Any]]], kinds: dict[str, str]) -> pa.Table:
    columns = {}
    for name, kind in kinds.items():
        cells = [_cell(row.get(name), kind) for _, row in rows]
        try:
            columns[name] = pa.array(cells, type=_TYPES.get(kind, pa.string()))
        except UnicodeEncodeError as error:
            place = next(place for place, row in rows if _is_broken(row.get(name)))
            raise DataError(
                f"{place}: column {name!r} holds half of a character pair (\\ud800 to \\udfff), which is not text: "
                "correct the row"
            ) from error
    return pa.table(columns)


def _cell(value: Any, kind: str) -> Any:
    if value is None or isinstance(value, str) or kind in ("bool", "int", "long", "float"):
        return value
    if kind == "list":
        return [part if isinstance(part, str) else canonical(part) for part in value]
    return json.dumps(value, ensure_ascii=False) if isinstance(value, list | dict) else canonical(value)


def _is_broken(value: Any) -> bool:
    try:
        json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        return True
    return False

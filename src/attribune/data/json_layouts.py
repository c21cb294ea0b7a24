"""The ways in which one JSON object holds a whole table: by columns, by rows under their ids, or under a name."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from attribune.errors import DataError

__all__ = ["rows_of_object"]

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


def _is_scalar(value: Any) -> bool:
    return not isinstance(value, list | dict)


def _is_rows(value: Any) -> bool:
    return isinstance(value, list) and len(value) > 0 and all(isinstance(row, dict) for row in value)


def _inner(item: Mapping[str, Any]) -> tuple[str, Any] | None:
    """Return the name and value under which the table is; None if it is the object itself."""
    if len(item) == 1:
        name, value = next(iter(item.items()))
        is_table = name in _NAMES and isinstance(value, dict) and not any(map(_is_scalar, value.values()))
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

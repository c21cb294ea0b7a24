"""The cells of an attribute's column: which row has which values, with missing ones taken out."""

from __future__ import annotations

import ast
import json
import warnings
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from attribune.errors import DataError, RowError
from attribune.schema.columns import canonical, distinct

__all__ = ["Cells", "list_cells", "single_cells"]

_SEPARATORS = "|;,/"


class Cells(NamedTuple):
    """The values of one column, row by row.

    Attributes:
        height: number of rows, with or without values.
        rows: (cells,) row of each cell, ascending from 0.
        codes: (cells,) place of each cell's value in `texts`.
        texts: the distinct values, as canonical text.
        trimmed: cells whose text had spaces around it.
    """

    height: int
    rows: npt.NDArray[np.int64]
    codes: npt.NDArray[np.int64]
    texts: list[str]
    trimmed: int

    @property
    def missing(self) -> int:
        """Number of rows without a value."""
        return self.height - len(np.unique(self.rows))


def single_cells(array: pa.Array, *, missing: frozenset[str], column: str, first_row: int) -> Cells:
    """Read a column with one value per row.

    Raises:
        DataError: naming column and row where a cell is a list or mapping.
    """
    rows = np.arange(len(array), dtype=np.int64)
    return _cells(array, rows, len(array), missing=missing, column=column, first_row=first_row)


def list_cells(
    array: pa.Array, *, separator: str | None, missing: frozenset[str], column: str, first_row: int
) -> Cells:
    """Read a column with several values per row: real lists, or text that is split or parsed into lists.

    A value given twice in a row counts once.

    Raises:
        DataError: naming column and row where text is not a list, or a list holds lists.
    """
    lists = array
    if not _is_list(array.type):
        lists = _lists_of_text(array, separator=separator, missing=missing, column=column, first_row=first_row)
    rows = pc.list_parent_indices(lists).to_numpy(zero_copy_only=False).astype(np.int64)
    flat = pc.list_flatten(lists)
    if pa.types.is_nested(flat.type):
        raise DataError(f"column {column!r} holds lists of {flat.type}: make each row one list of single values")
    cells = _cells(flat, rows, len(array), missing=missing, column=column, first_row=first_row)
    return _without_repeats(cells)


def _cells(
    flat: pa.Array,
    rows: npt.NDArray[np.int64],
    count: int,
    *,
    missing: frozenset[str],
    column: str,
    first_row: int,
) -> Cells:
    found = distinct(flat, missing=missing, column=column, rows=rows + first_row)
    places: dict[str, int] = {}
    merged = [-1 if text is None else places.setdefault(text, len(places)) for text in found.texts]
    table = np.array([*merged, -1], dtype=np.int64)  # code -1 (no value) finds the last entry
    codes = table[found.codes]
    valid = codes >= 0
    padded = np.append(found.padded, False)[found.codes]
    return Cells(count, rows[valid], codes[valid], list(places), int((padded & valid).sum()))


def _without_repeats(cells: Cells) -> Cells:
    key = cells.rows * max(len(cells.texts), 1) + cells.codes
    first = np.sort(np.unique(key, return_index=True)[1])
    return cells._replace(rows=cells.rows[first], codes=cells.codes[first])


def _is_list(kind: pa.DataType) -> bool:
    return bool(pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind))


def _lists_of_text(
    array: pa.Array, *, separator: str | None, missing: frozenset[str], column: str, first_row: int
) -> pa.Array:
    rows = np.arange(first_row, first_row + len(array), dtype=np.int64)
    found = distinct(array, missing=missing, column=column, rows=rows)
    lists: list[Sequence[str | None] | None] = []
    for code, text in enumerate(found.texts):
        if text is None:
            lists.append(None)
        elif separator is not None:
            lists.append(text.split(separator))
        else:
            row = int(rows[int(np.argmax(found.codes == code))])
            lists.append(_parsed(text, column=column, row=row))
    codes = pa.array(found.codes, mask=found.codes < 0)
    return pa.array(lists, type=pa.list_(pa.string())).take(codes)


def _parsed(text: str, *, column: str, row: int) -> list[str | None]:
    """Read a list written as text, in JSON's or Python's way: `["a", "b"]` or `['a', 'b']`."""
    if not (text.startswith("[") and text.endswith("]")):
        separator = next((mark for mark in _SEPARATORS if mark in text), "|")
        raise RowError(
            f"column {column!r}, ",
            row,
            f" holds text such as {text[:60]!r}, not a list: "
            f"give the separator, --multi-label '{column}:{separator}' or "
            f"MultiLabel({column!r}, separator={separator!r})",
        )
    try:
        return [canonical(part) for part in _literal(text)]
    except (ValueError, SyntaxError, RecursionError, MemoryError) as error:
        raise RowError(
            f"column {column!r}, ",
            row,
            f": {text[:60]!r} looks like a list but cannot be read as one: correct the row, or give a separator",
        ) from error


def _literal(text: str) -> list[object]:
    try:
        parsed = json.loads(text)
    except ValueError:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", SyntaxWarning)  # "\d" inside a quoted value
            parsed = ast.literal_eval(text)
    return list(parsed)

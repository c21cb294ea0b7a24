"""The cells of an attribute's column: which row has which values, without the missing ones.

A cell that cannot be used raises a DataError that names its column and row.
"""

from __future__ import annotations

import ast
import json
import warnings
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from attribune.core.door import as_attribute
from attribune.core.wording import shortened
from attribune.errors import DataError, RowError
from attribune.schema.columns import canonical, distinct

__all__ = ["Cells", "distinct_pairs", "list_cells", "single_cells"]

_SEPARATORS = "|;,/"


class Cells(NamedTuple):
    """The values of one column, row by row.

    Attributes:
        height: number of rows, with or without values.
        rows: (cells,) row of each cell, ascending from 0.
        codes: (cells,) index of each cell's value in `texts`.
        texts: the distinct values, as canonical text.
        trimmed: cells whose text had spaces around it.
        words: the texts of cells that mean missing, with their numbers.
    """

    height: int
    rows: npt.NDArray[np.int64]
    codes: npt.NDArray[np.int64]
    texts: list[str]
    trimmed: int
    words: Mapping[str, int] = {}

    @property
    def missing(self) -> int:
        """Number of rows without a value."""
        return self.height - len(np.unique(self.rows))

    def map(self, value_of: Callable[[str], str | None], *, column: str, first_row: int) -> Cells:
        """Replace texts by the values that they mean; a value that a row has twice counts once."""
        index: dict[str, int] = {}
        lookup = np.empty(len(self.texts), dtype=np.int64)
        for code, text in enumerate(self.texts):
            try:
                value = canonical(value_of(text))
            except ValueError as error:
                row = first_row + int(self.rows[np.argmax(self.codes == code)])
                raise RowError(f"column {column!r}, ", row, f": {error}") from error
            lookup[code] = -1 if value is None else index.setdefault(value, len(index))
        codes = lookup[self.codes]
        rows, codes = distinct_pairs(self.rows[codes >= 0], codes[codes >= 0])
        return self._replace(rows=rows, codes=codes, texts=list(index))


def single_cells(array: pa.Array, *, missing: frozenset[str], column: str, first_row: int) -> Cells:
    """Read a column with one value per row; lists and mappings are refused."""
    rows = np.arange(len(array), dtype=np.int64)
    return _cells(array, rows, len(array), missing=missing, column=column, first_row=first_row)


def list_cells(
    array: pa.Array, *, separator: str | None, missing: frozenset[str], column: str, first_row: int
) -> Cells:
    """Read a column with several values per row: real lists, or text that is split or parsed into lists.

    A value that a row has twice counts once; lists of lists are refused.
    """
    lists = array
    if not _is_list(array.type):
        lists = _lists_of_text(array, separator=separator, missing=missing, column=column, first_row=first_row)
    rows = pc.list_parent_indices(lists).to_numpy(zero_copy_only=False).astype(np.int64)
    flat = pc.list_flatten(lists)
    if pa.types.is_nested(flat.type):
        raise DataError(f"column {column!r} holds lists of {flat.type}: make each row one list of single values")
    cells = _cells(flat, rows, len(array), missing=missing, column=column, first_row=first_row)
    rows, codes = distinct_pairs(cells.rows, cells.codes)
    return cells._replace(rows=rows, codes=codes)


def _cells(
    flat: pa.Array, rows: npt.NDArray[np.int64], count: int, *, missing: frozenset[str], column: str, first_row: int
) -> Cells:
    column_values = distinct(flat, missing=missing, column=column, rows=rows + first_row)
    index: dict[str, int] = {}
    codes_of_raw = [-1 if text is None else index.setdefault(text, len(index)) for text in column_values.texts]
    lookup = np.array([*codes_of_raw, -1], dtype=np.int64)  # code -1 (no value) finds the last entry
    codes = lookup[column_values.codes]
    valid = codes >= 0
    padded = np.append(column_values.padded, False)[column_values.codes]
    words: Counter[str] = Counter()
    for code, word in column_values.words.items():
        words[word] += int((column_values.codes == code).sum())
    return Cells(count, rows[valid], codes[valid], list(index), int((padded & valid).sum()), words)


def distinct_pairs(
    rows: npt.NDArray[np.int64], codes: npt.NDArray[np.int64]
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Drop repeated pairs (row, code); the order stays."""
    key = rows * (int(codes.max(initial=0)) + 1) + codes
    first = np.sort(np.unique(key, return_index=True)[1])
    return rows[first], codes[first]


def _is_list(kind: pa.DataType) -> bool:
    return bool(pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind))


def _lists_of_text(
    array: pa.Array, *, separator: str | None, missing: frozenset[str], column: str, first_row: int
) -> pa.Array:
    rows = np.arange(first_row, first_row + len(array), dtype=np.int64)
    cell_texts = distinct(array, missing=frozenset(), column=column, rows=rows)
    lists: list[Sequence[str | None] | None] = []
    for code, text in enumerate(cell_texts.texts):
        if text is None:
            lists.append(None)
        elif text in missing:
            lists.append([text])
        elif separator is not None:
            lists.append(text.split(separator))
        else:
            row = int(rows[int(np.argmax(cell_texts.codes == code))])
            lists.append(_parsed(text, column=column, row=row))
    codes = pa.array(cell_texts.codes, mask=cell_texts.codes < 0)
    return pa.array(lists, type=pa.list_(pa.string())).take(codes)


def _parsed(text: str, *, column: str, row: int) -> list[str | None]:
    """Read a list written as text in JSON or Python: `["a", "b"]` or `['a', 'b']`."""
    if not (text.startswith("[") and text.endswith("]")):
        separator = next((mark for mark in _SEPARATORS if mark in text), "|")
        raise RowError(
            f"column {column!r}, ",
            row,
            f" holds text such as {shortened(text, 60)!r}, not a list: "
            f"give the separator, {as_attribute('multi_label', column, separator)}",
        )
    try:
        return [canonical(part) for part in _literal(text)]
    except (ValueError, SyntaxError, RecursionError, MemoryError) as error:
        raise RowError(
            f"column {column!r}, ",
            row,
            f": {shortened(text, 60)!r} looks like a list but cannot be read as one: correct the row, or give a "
            "separator",
        ) from error


def _literal(text: str) -> list[object]:
    try:
        parsed = json.loads(text)
    except ValueError:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", SyntaxWarning)  # "\d" inside a quoted value
            parsed = ast.literal_eval(text)
    return list(parsed)

"""Columns of a table as text values: what is one value and what is missing, cells with several, tables in batches."""

from __future__ import annotations

import ast
import datetime as dt
import json
import math
import re
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from decimal import Decimal
from itertools import accumulate, takewhile
from typing import Any, NamedTuple, TypeAlias

import datasets
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from attribune.core.arrays import BoolArray, IntArray
from attribune.core.door import as_attribute
from attribune.core.wording import closest, did_you_mean, shortened
from attribune.errors import ConfigError, DataError, RowError

MISSING: tuple[str, ...] = ("", "nan", "NaN", "null", "NULL", "None", "N/A", "NA", "<NA>")
"""Texts that mean *no value* unless a recipe says otherwise."""
_OF_SHEETS = ("#N/A", "#NULL!", "#DIV/0!", "#REF!", "#VALUE!", "#NAME?", "#NUM!")  # errors in the cells of workbooks
NO_NUMBER: tuple[str, ...] = ("n/a", "none", "NONE", "-", "--", "?", *_OF_SHEETS)
"""Texts that mean *no value* also where there are numbers or times, whose values are never written so.

A class or a person may be called ``-`` or ``none``; ids that are whole numbers are names.
"""

_PART_OF_LIST = re.compile(r"""\[?\s*(['"]).*\1\s*\]?""", re.DOTALL)

PATH = " > "
"""Between the columns of a hierarchy, and between the levels of its values, such as ``US > Illinois > Springfield``."""


Table: TypeAlias = "datasets.Dataset | pa.Table | pd.DataFrame | Mapping[str, Sequence[Any]]"

_DECIMALS_OF_ZERO = re.compile(r"(-?)(0|[1-9][0-9]*)\.0+")
_EXACT = 10**16  # above this, floats print with an exponent and are no longer exact integers
LISTS = (list, tuple, set, frozenset, np.ndarray)
"""The types of a cell with several values."""
_UNREADABLE = (TypeError, pa.ArrowInvalid, pa.ArrowNotImplementedError, OverflowError, UnicodeEncodeError)


def cell_text(value: Any) -> str:
    """Write a cell for a reader: lists and objects with commas, nothing for a missing value."""
    if isinstance(value, Mapping):
        return ", ".join(f"{name} {share:g}" for name, share in value.items() if share is not None)
    return ", ".join(map(str, value)) if isinstance(value, LISTS) else canonical(value) or ""


def json_value(text: str, **options: Any) -> Any:
    """Return the value that a text spells in JSON, with options of `json.loads`; None for any other text."""
    try:
        return json.loads(text, **options)
    except (ValueError, RecursionError):
        return None


def literal(text: str) -> Any:
    """Return the list or object that a text spells in JSON or Python.

    Raises:
        ValueError, SyntaxError, RecursionError, MemoryError: for any other text.
    """
    if (found := json_value(text)) is not None:
        return found
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # "\d" inside a quoted value
        return ast.literal_eval(text.strip())


def number_of(text: str) -> float | None:
    """Return a text as a finite number, or None if it is not one; ``1_000`` is a name."""
    try:
        number = float(text)
    except ValueError:
        return None
    return number if math.isfinite(number) and "_" not in text else None


def float_of(value: Any) -> float:
    """Return a value as a number, which may be infinite; NaN for what is none."""
    try:
        return float(value)
    except (TypeError, ValueError):
        return math.nan


def as_written(value: object) -> str:
    """Return a text as it stands, with blanks around it, and any other value as `canonical` writes it; "" for none."""
    return value if isinstance(value, str) else canonical(value) or ""


def canonical(value: object) -> str | None:
    """Write a value as the text by which values are compared.

    Text is trimmed; a number without a fractional part loses its decimals, also as text (``17``, ``17.0``, ``"17.0"``
    and ``"17 "`` are one value); leading zeros and exponents of text stay (``"007"``, ``"1e3"``); booleans are
    ``"true"`` and ``"false"``; a time at midnight is its date.

    Returns:
        The text, or None for None, NaN, NaT, NA and blank text.

    Raises:
        DataError: for a list or mapping, or bytes that are not UTF-8.
    """
    if isinstance(value, str):
        text = value.strip()
        match = _DECIMALS_OF_ZERO.fullmatch(text) if text.endswith("0") else None
        if match is None:
            return text or None
        return match[2] if match[2] == "0" else match[1] + match[2]
    if value is None or value is pd.NA or value is pd.NaT:
        return None
    if isinstance(value, bool | np.bool_):
        return "true" if value else "false"
    if isinstance(value, int | np.integer) and not isinstance(value, np.timedelta64):
        return str(int(value))
    if isinstance(value, float | np.floating | Decimal):
        return _fraction(value)
    return _other(value)


def other_spellings(text: str) -> tuple[str, ...]:
    """Return how else tables write a boolean: ``True`` and ``TRUE`` in files, ``true`` from `canonical`."""
    if len(text) not in (4, 5) or (lower := text.lower()) not in ("true", "false"):
        return ()
    return tuple(one for one in (lower, lower.title(), lower.upper()) if one != text)


def _other(value: object) -> str | None:
    if isinstance(value, np.datetime64 | np.timedelta64):
        return None if np.isnat(value) else canonical(value.astype(f"{value.dtype.kind}8[us]").item())
    if isinstance(value, dt.datetime):
        midnight = value.time() == dt.time() and value.tzinfo is None
        return value.date().isoformat() if midnight else value.isoformat(sep=" ")
    if isinstance(value, dt.date | dt.time):
        return value.isoformat()
    if isinstance(value, bytes):
        try:
            return canonical(value.decode("utf-8"))
        except UnicodeDecodeError as error:
            raise DataError(f"bytes {value[:40]!r} are not UTF-8 text: decode the column before use") from error
    if isinstance(value, (Mapping, *LISTS)):
        shown = shortened(repr(value), 60)
        raise DataError(f"{shown} is not one value: use MultiLabel for a column of lists, or choose one of its parts")
    return str(value).strip() or None


def _fraction(value: Any) -> str | None:
    if value != value:
        return None
    if not abs(value) < _EXACT:
        return str(value)
    if value == int(value):
        return str(int(value))
    return format(value.normalize(), "f") if isinstance(value, Decimal) else str(value)


class Distinct(NamedTuple):
    """A column as codes into its distinct raw values.

    Attributes:
        codes: (rows,) int64, index of each row's value in the other lists; -1 where the row has none.
        texts: canonical text of each distinct raw value, None where it means missing.
        padded: whether the raw value was text with spaces around it.
        words: canonical text of the raw values that mean missing, by their code.
    """

    codes: np.ndarray
    texts: list[str | None]
    padded: np.ndarray
    words: Mapping[int, str] = {}


def distinct(array: pa.Array, *, missing: frozenset[str], column: str, rows: np.ndarray) -> Distinct:
    """Reduce a column to its distinct values, so that Python touches each distinct value once.

    Args:
        rows: (values,) number of each value's row, for messages.

    Raises:
        DataError: naming column and row of a value that is not one value.
    """
    is_nested = pa.types.is_nested(array.type)
    if array.null_count == len(array) and (is_nested or pa.types.is_null(array.type)):
        return Distinct(np.full(len(array), -1, dtype=np.int64), [], np.zeros(0, dtype=bool))
    if is_nested:
        index = int(np.argmax(array.is_valid()))
        raise RowError(
            f"column {column!r}, ",
            rows[index],
            f": {shortened(str(array[index].as_py()), 60)} is not one value: "
            f"use {as_attribute('multi_label', column)} for a column of lists",
        )
    encoded = array if pa.types.is_dictionary(array.type) else array.dictionary_encode()
    codes = encoded.indices.cast(pa.int64()).fill_null(-1).to_numpy(zero_copy_only=False)
    floating = pa.types.is_floating(encoded.dictionary.type)  # NumPy scalars print float32 as it was written
    raw = list(encoded.dictionary.to_numpy(zero_copy_only=False)) if floating else encoded.dictionary.to_pylist()
    texts: list[str | None] = []
    words: dict[int, str] = {}
    for code, value in enumerate(raw):
        try:
            text = canonical(value)
        except DataError as error:
            raise RowError(f"column {column!r}, ", rows[np.argmax(codes == code)], f": {error}") from error
        if text is not None and text in missing:
            words[code] = text
        texts.append(None if code in words else text)
    padded = np.array([isinstance(value, str) and value != value.strip() for value in raw], dtype=bool)
    return Distinct(codes, texts, padded, words)


def as_array(values: object, *, column: str, first_row: int = 1) -> pa.Array:
    """Turn any one-dimensional column (list, NumPy, pandas, Arrow) into one Arrow array; mixed types become text.

    Raises:
        DataError: naming column and row where lists and single values are mixed, or a value cannot be text.
    """
    if isinstance(values, pa.ChunkedArray):
        return pa.concat_arrays(values.chunks) if values.num_chunks else pa.array([], type=values.type)
    if isinstance(values, pa.Array):
        return values
    _check_sequence(values, column)
    if isinstance(values, np.ndarray) and values.ndim != 1:
        values = list(values)
    try:
        array = pa.array(values, from_pandas=True)
    except _UNREADABLE:
        return _mixed(list(values), column, first_row)  # type: ignore[call-overload]
    return pa.concat_arrays(array.chunks) if isinstance(array, pa.ChunkedArray) else array


def _check_sequence(values: object, column: str) -> None:
    if isinstance(values, str | bytes | Mapping) or not hasattr(values, "__len__"):
        raise DataError(
            f"column {column!r} is {type(values).__name__}, not a sequence of values: give one value per row"
        )


def _mixed(values: list[object], column: str, first_row: int) -> pa.Array:
    lists = any(isinstance(value, LISTS) for value in values)
    cells: list[object] = []
    for row, value in enumerate(values, start=first_row):
        try:
            if not lists:
                cells.append(value if isinstance(value, str) else canonical(value))
            elif isinstance(value, LISTS):
                cells.append([part if isinstance(part, str) else canonical(part) for part in value])
            elif canonical(value) is None:
                cells.append(None)
            else:
                raise DataError(
                    f"{shortened(str(value), 60)!r} is not a list, but other rows hold lists: make every row a list"
                )
        except DataError as error:
            raise RowError(f"column {column!r}, ", row, f": {error}") from error
    try:
        return pa.array(cells, type=pa.list_(pa.string()) if lists else pa.string())
    except UnicodeEncodeError as error:
        raise DataError(
            f"column {column!r} holds text with half of a character pair ({shortened(error.object, 40)!r}), "
            "which no file can store: clean the column before use"
        ) from error


def as_table(given: Any) -> pa.Table:
    """Read a table of any library by the Arrow interface, such as a DataFrame of polars.

    Raises:
        DataError: for anything that is no table.
    """
    if not hasattr(given, "__arrow_c_stream__"):
        raise DataError(
            f"{type(given).__name__} is neither a table nor rows: give columns by name, a list of rows, a DataFrame, "
            "or anything that has the Arrow interface (__arrow_c_stream__)"
        )
    try:
        table = pa.table(given)
        views = {pa.string_view(): pa.large_string(), pa.binary_view(): pa.large_binary()}
        fields = [pa.field(field.name, views.get(field.type, field.type)) for field in table.schema]
        return table.cast(pa.schema(fields))
    except (pa.ArrowException, TypeError, ValueError) as error:
        raise DataError(f"{type(given).__name__} cannot be read as an Arrow table ({error})") from error


def refuse_several_tables(source: Any) -> None:
    """Raise a DataError for tables by name, such as a DatasetDict."""
    if isinstance(source, dict) and any(isinstance(part, datasets.Dataset | pd.DataFrame) for part in source.values()):
        splits = ", ".join(map(repr, source))
        raise DataError(f"the source holds several tables ({splits}): choose one, as in source[{next(iter(source))!r}]")


def column_names(table: Table) -> list[str]:
    """Return the names of a table's columns; DataError for what is no table."""
    refuse_several_tables(table)
    if isinstance(table, type) or not (isinstance(table, datasets.Dataset | pa.Table) or hasattr(table, "keys")):
        raise DataError(
            f"a table cannot be {type(table).__name__}: give a Dataset (read_table makes one), a DataFrame, an Arrow "
            "table, or columns by name"
        )
    return list(table.column_names if isinstance(table, datasets.Dataset | pa.Table) else table.keys())


def column_batches(
    table: Table, names: Sequence[str], *, batch_size: int = 20_000, first_row: int = 1
) -> Iterator[tuple[int, dict[str, pa.Array]]]:
    """Read the named columns batch by batch; yields (number of the batch's first row, {name: Arrow array}).

    A name such as ``country > state`` that the table lacks stands for the paths of its values in these columns.

    Raises:
        DataError: for a missing column, or columns of different lengths.
    """
    available = set(column_names(table))
    paths = {name: path_columns(name) for name in names if name not in available and PATH in name}
    sources = list(dict.fromkeys(source for name in names for source in paths.get(name, (name,))))
    for row, columns in _source_batches(table, sources, batch_size=batch_size, first_row=first_row):
        joined = {name: _paths({source: columns[source] for source in of}, first_row=row) for name, of in paths.items()}
        yield row, {name: joined[name] if name in joined else columns[name] for name in names}


def _source_batches(
    table: Table, names: Sequence[str], *, batch_size: int, first_row: int
) -> Iterator[tuple[int, dict[str, pa.Array]]]:
    """Read columns that a table has, as `column_batches` yields them."""
    require_columns(column_names(table), names)
    if isinstance(table, datasets.Dataset):
        if names and len(table):
            arrow = table.select_columns(list(names)).with_format("arrow")
            for number, batch in enumerate(arrow.iter(batch_size=batch_size)):
                row = first_row + number * batch_size
                yield row, {name: as_array(batch.column(name), column=name, first_row=row) for name in names}
        return
    columns = {name: table[name] for name in names}
    for name, column in columns.items():
        _check_sequence(column, name)
    lengths = {name: len(column) for name, column in columns.items()}
    if len(set(lengths.values())) > 1:
        raise DataError(f"the columns have different numbers of rows, {lengths}: give one value per row in each")
    for start in range(0, max(lengths.values(), default=0), batch_size):
        part = {name: column[start : start + batch_size] for name, column in columns.items()}
        row = first_row + start
        yield row, {name: as_array(part[name], column=name, first_row=row) for name in names}


def whole_columns(table: Table, names: Sequence[str]) -> dict[str, pa.Array]:
    """Read the named columns at once, as `column_batches` does."""
    batches = [columns for _, columns in column_batches(table, names)]
    parts = {name: [columns[name] for columns in batches] for name in names}
    return {
        name: as_array(pa.chunked_array(part), column=name) if part else pa.array([]) for name, part in parts.items()
    }


def path_columns(name: str) -> tuple[str, ...]:
    """Return the columns of a hierarchy from its name, the upper ones first; of any other name the column itself."""
    return tuple(name.split(PATH))


def _paths(columns: Mapping[str, pa.Array], *, first_row: int) -> pa.Array:
    """Join the cells of each row to a path, in which an empty level is empty; empty ones at the end are left out."""
    found = []
    for name, array in columns.items():
        rows = np.arange(first_row, first_row + len(array), dtype=np.int64)
        found.append(distinct(array, missing=frozenset(), column=name, rows=rows))
    rows_of_codes = np.stack([one.codes for one in found], axis=1)
    combinations, codes = np.unique(rows_of_codes, axis=0, return_inverse=True)
    paths = [_path(found, combination) for combination in combinations.tolist()]
    return pa.array(paths, type=pa.string()).take(pa.array(codes.reshape(-1)))


def _path(columns: Sequence[Distinct], codes: Sequence[int]) -> str | None:
    levels = [one.texts[code] or "" if code >= 0 else "" for one, code in zip(columns, codes, strict=True)]
    while levels and not levels[-1]:
        levels.pop()
    return PATH.join(levels).lstrip() or None


def missing_column(available: Sequence[str], name: str, *, source: str = "the table") -> DataError:
    """Make the error for a missing column; it names the closest one, and the columns of the table."""
    shown = ", ".join(map(repr, available[:40])) + (" ..." if len(available) > 40 else "")
    names = list(map(str, available))
    hint, close = did_you_mean(name, names), closest(name, names)
    if close == name:
        hint += " The names of the table are no texts: make them some, as in frame.columns.astype(str)"
    elif close and close.strip() == name.strip():
        hint += " They differ in blanks at the ends, which are left out of the names of columns: write it without them"
    return DataError(f"{source} has no column {name!r}{hint} (columns: {shown or 'none'})")


def require_columns(available: Sequence[str], names: Sequence[str], *, source: str = "the table") -> None:
    """Check that columns are there.

    Raises:
        DataError: naming the first missing column, the closest one, and all columns of the table.
    """
    for name in names:
        if name not in available:
            raise missing_column(available, name, source=source)


def require_once(names: Sequence[str], *, what: str = "column") -> None:
    """Check that nothing is named twice.

    Raises:
        ConfigError: naming what is.
    """
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise ConfigError(f"{what} {', '.join(twice)} is named twice: name every column once")


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
        unread: the texts of cells that are no value for the kind of attribute, with their numbers.
        below_empty: of paths, cells in which a level is empty, and one below it is not.
    """

    height: int
    rows: IntArray
    codes: IntArray
    texts: list[str]
    trimmed: int
    words: Mapping[str, int] = {}
    unread: Mapping[str, int] = {}
    below_empty: int = 0

    @property
    def missing(self) -> int:
        """Number of rows without a value."""
        return self.height - len(np.unique(self.rows))

    def by_row(self, chosen: BoolArray | slice = slice(None)) -> list[list[str]]:
        """Return the texts of each row, or those of some cells."""
        texts: list[list[str]] = [[] for _ in range(self.height)]
        for row, code in zip(self.rows[chosen], self.codes[chosen], strict=True):
            texts[row].append(self.texts[code])
        return texts

    def first(self, chosen: BoolArray, *, first_row: int) -> tuple[str, int]:
        """Return the first of some distinct texts (len(texts),) that stands in a cell, and the number of its row."""
        cell = int(np.argmax(chosen[self.codes]))
        return self.texts[self.codes[cell]], first_row + int(self.rows[cell])

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
        lost = np.bincount(self.codes[codes < 0], minlength=len(self.texts)).tolist()
        unread = {text: count for text, count in zip(self.texts, lost, strict=True) if count}
        rows, codes = distinct_pairs(self.rows[codes >= 0], codes[codes >= 0])
        return self._replace(rows=rows, codes=codes, texts=list(index), unread=unread)


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
    if not is_list(array.type):
        lists = _lists_of_text(array, separator=separator, missing=missing, column=column, first_row=first_row)
    rows = pc.list_parent_indices(lists).to_numpy(zero_copy_only=False).astype(np.int64)
    flat = pc.list_flatten(lists)
    if pa.types.is_nested(flat.type):
        raise DataError(f"column {column!r} holds lists of {flat.type}: make each row one list of single values")
    cells = _cells(flat, rows, len(array), missing=missing, column=column, first_row=first_row)
    rows, codes = distinct_pairs(cells.rows, cells.codes)
    return cells._replace(rows=rows, codes=codes)


def refuse_split_lists(parts: Mapping[str, int], *, what: str, cure: str) -> None:
    """Raise a DataError if the parts of split texts are those of lists, as JSON or Python writes them.

    Args:
        parts: how often each occurs.
        what: whose texts they are.
    """
    of_lists = [part for part in parts if _PART_OF_LIST.fullmatch(part)]
    if of_lists and 2 * sum(parts[part] for part in of_lists) > sum(parts.values()):
        raise DataError(
            f"{what} spell out lists, of which a separator makes values such as {of_lists[0]!r:.60}: {cure}"
        )


def path_cells(array: pa.Array, *, missing: frozenset[str], column: str, first_row: int) -> Cells:
    """Read a column of paths, such as ``US > Illinois``: a row has a value for each level, which is the path to it.

    A path ends where a level is empty or means missing. A cell may also be a list of paths.
    """
    if is_list(array.type):
        cells = list_cells(array, separator=None, missing=missing, column=column, first_row=first_row)
    else:
        cells = single_cells(array, missing=missing, column=column, first_row=first_row)
    index: dict[str, int] = {}
    words, is_broken = Counter(cells.words), np.zeros(len(cells.texts), dtype=bool)
    paths_of_texts: list[list[int]] = []
    times = np.bincount(cells.codes, minlength=len(cells.texts)).tolist()
    for code, text in enumerate(cells.texts):
        levels = [canonical(level) for level in f" {text}".split(PATH)]
        known = list(takewhile(lambda level: level is not None and level not in missing, levels))
        rest = levels[len(known) :]
        if rest and rest[0] is not None:
            words[rest[0]] += times[code]
        is_broken[code] = any(level is not None and level not in missing for level in rest)
        upward = accumulate(known, f"{{}}{PATH}{{}}".format)
        paths_of_texts.append([index.setdefault(path, len(index)) for path in upward])
    paths = pa.array(paths_of_texts, pa.list_(pa.int64())).take(pa.array(cells.codes))
    parents = pc.list_parent_indices(paths).to_numpy()
    rows, codes = distinct_pairs(cells.rows[parents], pc.list_flatten(paths).to_numpy())
    return cells._replace(
        rows=rows, codes=codes, texts=list(index), words=words, below_empty=int(is_broken[cells.codes].sum())
    )


def _cells(
    flat: pa.Array, rows: IntArray, count: int, *, missing: frozenset[str], column: str, first_row: int
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


def distinct_pairs(rows: IntArray, codes: IntArray) -> tuple[IntArray, IntArray]:
    """Drop repeated pairs (row, code); the order stays."""
    key = rows * (int(codes.max(initial=0)) + 1) + codes
    first = np.sort(np.unique(key, return_index=True)[1])
    return rows[first], codes[first]


def is_list(kind: pa.DataType) -> bool:
    """Whether the cells of a column of this type are lists."""
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
        return [canonical(part) for part in literal(text)]
    except (ValueError, SyntaxError, RecursionError, MemoryError) as error:
        raise RowError(
            f"column {column!r}, ",
            row,
            f": {shortened(text, 60)!r} looks like a list but cannot be read as one: correct the row, or give a "
            "separator",
        ) from error

"""Profiles of columns, computed by Arrow and NumPy: Python touches each distinct value once, and no row."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Literal, Self

import datasets
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from attribune.core.arrays import DoubleArray, IntArray
from attribune.errors import RowError
from attribune.schema.columns import (
    MISSING,
    NO_NUMBER,
    Cells,
    as_array,
    canonical,
    float_of,
    is_list,
    list_cells,
    single_cells,
)
from attribune.schema.times import times_among
from attribune.tasks.labels import label_number, number_of, scales_of

LISTED = " | "
"""Between the values of a list, where lists are shown."""
Kind = Literal["text", "number", "time", "list", "other"]

_WITHOUT_SPACES = r"[\p{Han}\p{Hiragana}\p{Katakana}\p{Thai}]"
_SIGNS_PER_WORD = 2  # of these scripts, on average
_NUMBER = r"^\s*[+-]?((0|[1-9]\d*)(\.\d*)?|\.\d+)([eE][+-]?\d+)?\s*$"  # zeros in front are those of a code
_OBJECT = r"^\s*(\[\s*)?\{\s*\".*\}\s*\]?\s*$"  # as JSON writes it, or a list of them
_MEASURES = r"^\s*\[[-+\d.eE,\s]*\]\s*$"  # a list of numbers
_LIST = r"""(?s)^\[\s*(['"].*['"]\s*)?\]$"""  # a list of texts
_FIRST_DATE, _LAST_DATE = 1900_01_01, 2100_12_31  # as they are written without marks
_SEPARATORS = ("|", ";", ",")
_LONGEST_LIST = 200  # mean characters of a cell
_LONGEST_PART = 30  # and of a part
_LONGEST_NUMBER = 40  # and of a number or a time
_SAMPLE = 200  # values that are tried as dates
_MOST = 0.95  # of the values: as good as all


@dataclass(frozen=True, kw_only=True)
class Codes:
    """A column as numbers of its distinct values.

    Attributes:
        codes: (rows,), -1 where the row has none.
        values: the distinct values, as canonical text.
    """

    codes: IntArray
    values: pa.Array

    @cached_property
    def counts(self) -> IntArray:
        """Rows of each value, (values,)."""
        return np.bincount(self.codes[self.codes >= 0], minlength=len(self.values))

    @property
    def missing(self) -> int:
        """Rows without a value."""
        return int((self.codes < 0).sum())

    @property
    def once(self) -> int:
        """Values that a single row has."""
        return int((self.counts == 1).sum())

    @cached_property
    def numbers(self) -> DoubleArray:
        """The number of each distinct value, (values,), NaN for one that is none."""
        return np.array(list(map(float_of, self.values.to_pylist())), dtype=np.float64)


def arrow_columns(table: datasets.Dataset, names: Sequence[str] | None = None) -> pa.Table:
    """Return some columns of a table, or all, as Arrow holds them."""
    chosen = table if names is None else table.select_columns(list(names))
    arrow = chosen.with_format("arrow")[:]
    return arrow if isinstance(arrow, pa.Table) else pa.table(arrow)


def column_codes(column: pa.ChunkedArray, *, missing: Sequence[str] = MISSING) -> Codes:
    """Number the values of a column, as `canonical` writes them, in the order of their first rows."""
    kind = column.type
    if _holds_no_values(kind):
        return Codes(codes=np.full(len(column), -1), values=pa.array([], pa.string()))
    if pa.types.is_string(kind) or pa.types.is_dictionary(kind):  # texts of any length, in chunks of any dictionaries
        column = column.cast(pa.large_string() if pa.types.is_string(kind) else kind.value_type)
    array = as_array(column, column="a column")
    cells = single_cells(array, missing=frozenset(missing), column="a column", first_row=1)
    codes = np.full(len(column), -1, dtype=np.int64)
    codes[cells.rows] = cells.codes
    return Codes(codes=codes, values=pa.array(cells.texts, pa.large_string()))


def _holds_no_values(kind: pa.DataType) -> bool:
    return bool(pa.types.is_nested(kind) or pa.types.is_binary(kind) or pa.types.is_large_binary(kind))


def are_stars(codes: Codes) -> bool:
    """Whether all labels are numbers of one scale, and some of them not written so, such as ``4 stars``."""
    texts = [text for text in codes.values.to_pylist() if text not in NO_NUMBER]
    are_numbers = all(label_number(text) is not None for text in texts) and len(scales_of(texts)) < 2
    return are_numbers and any(number_of(text) is None for text in texts)


def number_codes(codes: Codes) -> Codes:
    """Number the labels as a task reads them whose labels are numbers.

    ``4``, ``4 stars`` and four signs of stars are one label, ``-`` and ``n/a`` are none, and others stay.
    """
    names: dict[str, int] = {}
    found = []
    for text in codes.values.to_pylist():
        number = label_number(text)
        name = text if number is None else canonical(number)
        found.append(-1 if text in NO_NUMBER or name is None else names.setdefault(name, len(names)))
    lookup = np.array([*found, -1], dtype=np.int64)  # -1, no value, finds the last one
    return Codes(codes=lookup[codes.codes], values=pa.array(list(names), pa.large_string()))


def joint_codes(columns: Sequence[IntArray]) -> IntArray:
    """Number the rows by the values of several columns together, in the order of their first rows."""
    joined = columns[0]
    for column in columns[1:]:
        joined = np.unique(joined * (column.max(initial=0) + 2) + column + 1, return_inverse=True)[1]
    _, first, inverse = np.unique(joined, return_index=True, return_inverse=True)
    order = np.empty(len(first), dtype=np.int64)
    order[np.argsort(first)] = np.arange(len(first))
    return order[inverse]


@dataclass(frozen=True, kw_only=True)
class ColumnProfile:
    """What a column holds.

    Attributes:
        kind: of most of its values; those of text files are told by how they are written.
        codes: its values, as its kind reads them.
        spelled: the same where a column of names or classes reads them: words such as ``n/a`` are values there, and no
            values among numbers and times.
        missing: rows without a value.
        words: mean number of words of a value.
        characters: mean length of a value.
        whole: whether all values are whole numbers.
        low: the lowest number, and `high` the highest; 0 for what is none.
        separator: between the values of a cell, where cells have several.
        no_values: rows of each text that means *no value* among numbers and times, and may be a value elsewhere.
        odd: rows of each text that is none among numbers.
    """

    name: str
    kind: Kind
    codes: Codes
    spelled: Codes
    missing: int
    words: float = 0.0
    characters: float = 0.0
    whole: bool = False
    low: float = 0.0
    high: float = 0.0
    separator: str | None = None
    no_values: Mapping[str, int] = field(default_factory=dict)
    odd: Mapping[str, int] = field(default_factory=dict)

    @property
    def rows(self) -> int:
        """Number of rows."""
        return len(self.codes.codes)

    @property
    def present(self) -> int:
        """Rows with a value."""
        return self.rows - self.missing

    @property
    def values(self) -> int:
        """Number of distinct values."""
        return len(self.codes.values)

    @property
    def once(self) -> int:
        """Values that a single row has."""
        return self.codes.once

    @property
    def is_unique(self) -> bool:
        """Whether every row with a value has another one."""
        return self.present > 1 and self.values == self.present

    def has_values_of(self, other: ColumnProfile) -> bool:
        """Whether another column has the same distinct values."""
        return set(self.codes.values.to_pylist()) == set(other.codes.values.to_pylist())

    def read_as(self, codes: Codes) -> Self:
        """Return the same column with values that are read in another way."""
        return self if codes is self.codes else replace(self, codes=codes, missing=codes.missing)


def profile_column(name: str, column: pa.ChunkedArray, *, missing: Sequence[str] = MISSING) -> ColumnProfile:
    """Profile a column, in which some texts mean that there is no value."""
    kind = column.type
    if _holds_no_values(kind):
        return _nested(name, column, missing=missing)
    codes = spelled = column_codes(column, missing=missing)
    places = pc.index_in(pa.array(NO_NUMBER, pa.large_string()), value_set=codes.values.cast(pa.large_string()))
    no_values = {
        word: int(codes.counts[place])
        for word, place in zip(NO_NUMBER, places.to_pylist(), strict=True)
        if place is not None
    }
    if no_values:
        without = column_codes(column, missing=(*missing, *NO_NUMBER))
        if len(without.values) and _of_values(without)["kind"] != "text":
            codes = without
    profile = ColumnProfile(
        name=name, kind="other", codes=codes, spelled=spelled, missing=codes.missing, no_values=no_values
    )
    if not len(codes.values):
        return profile
    lists = _spelled_lists(column, codes, missing=missing)
    if lists is not None:
        return _of_lists(name, lists)
    if pa.types.is_date(kind) or pa.types.is_timestamp(kind):
        return replace(profile, kind="time")
    return replace(profile, **_of_values(codes))


def _nested(name: str, column: pa.ChunkedArray, *, missing: Sequence[str]) -> ColumnProfile:
    """Profile a column of lists of values, or of what is no value of an attribute: objects, and lists of measures."""
    kind = column.type
    if not is_list(kind) or pa.types.is_nested(kind.value_type) or pa.types.is_floating(kind.value_type):
        none = column_codes(column)
        return ColumnProfile(name=name, kind="other", codes=none, spelled=none, missing=column.null_count)
    return _of_lists(name, _list_cells(column, missing=missing))


def _list_cells(column: pa.ChunkedArray, *, missing: Sequence[str]) -> Cells:
    array = as_array(column, column="a column")
    return list_cells(array, separator=None, missing=frozenset(missing), column="a column", first_row=1)


def _spelled_lists(column: pa.ChunkedArray, codes: Codes, *, missing: Sequence[str]) -> Cells | None:
    """Return the cells of texts that spell out lists, of values that recur; None for other texts."""
    if not (pa.types.is_string(column.type) or pa.types.is_large_string(column.type)):
        return None
    if not pc.all(pc.match_substring_regex(codes.values, _LIST)).as_py():
        return None
    try:
        cells = _list_cells(column, missing=missing)
    except RowError:  # such as [sic]
        return None
    lengths = [len(text) for text in cells.texts]
    recur = len(lengths) < min(len(codes.values), len(cells.codes) / 2)
    return cells if recur and np.mean(lengths) <= _LONGEST_PART else None


def _of_lists(name: str, cells: Cells) -> ColumnProfile:
    found = _list_codes(cells)
    return ColumnProfile(name=name, kind="list", codes=found, spelled=found, missing=found.missing)


def _list_codes(cells: Cells) -> Codes:
    """Number lists (rows,) with the same values in any order, by the sum of a random number for each value."""
    rows, parts = np.asarray(cells.rows), np.asarray(cells.codes)
    marks = np.random.default_rng(0).integers(1, 2**62, len(cells.texts))
    sums = np.zeros(cells.height, dtype=np.int64)
    np.add.at(sums, rows, marks[parts])
    filled = np.unique(rows)
    codes = np.full(cells.height, -1, dtype=np.int64)
    _, first, inverse = np.unique(sums[filled], return_index=True, return_inverse=True)
    codes[filled] = inverse
    starts, ends = (np.searchsorted(rows, filled[first], side) for side in ("left", "right"))
    texts = [
        LISTED.join(sorted(cells.texts[part] for part in parts[start:end]))
        for start, end in zip(starts.tolist(), ends.tolist(), strict=True)
    ]
    return Codes(codes=codes, values=pa.array(texts, pa.large_string()))


def _of_values(codes: Codes) -> dict[str, Any]:
    """Return the fields that the distinct values determine, each weighted by its rows."""
    values, counts = codes.values, codes.counts
    rows = max(int(counts.sum()), 1)
    characters = float(pc.utf8_length(values).to_numpy(zero_copy_only=False) @ counts / rows)
    if characters < _LONGEST_NUMBER:
        is_number = pc.match_substring_regex(values, _NUMBER).to_numpy(zero_copy_only=False)
        if counts[is_number].sum() >= _MOST * rows:
            numbers = values.filter(pa.array(is_number)).cast(pa.float64()).to_numpy()
            whole, low, high = bool((numbers == np.floor(numbers)).all()), float(numbers.min()), float(numbers.max())
            if whole and low >= _FIRST_DATE and high <= _LAST_DATE and times_among(values.to_pylist()) == len(values):
                return {"kind": "time"}
            odd = zip(values.filter(pa.array(~is_number)).to_pylist(), counts[~is_number].tolist(), strict=True)
            return {"kind": "number", "whole": whole, "low": low, "high": high, "odd": dict(odd)}
        sample = values.slice(0, _SAMPLE).to_pylist()
        if times_among(sample) >= _MOST * len(sample):
            return {"kind": "time"}
    is_object = pc.match_substring_regex(values, f"{_OBJECT}|{_MEASURES}").to_numpy(zero_copy_only=False)
    if counts[is_object].sum() >= _MOST * rows:
        return {"kind": "other"}
    spaces, signs = (
        pc.count_substring_regex(values, pattern).to_numpy(zero_copy_only=False)
        for pattern in (r"\s+", _WITHOUT_SPACES)
    )
    return {
        "kind": "text",
        "words": float((spaces + np.maximum(1, signs / _SIGNS_PER_WORD)) @ counts / rows),
        "characters": characters,
        "separator": _separator(values, counts, rows) if characters < _LONGEST_LIST else None,
    }


def _separator(values: pa.Array, counts: IntArray, rows: int) -> str | None:
    """Return what is between the values of a cell, where the parts are far fewer than the cells that they make."""
    for separator in _SEPARATORS:
        has = pc.match_substring(values, separator).to_numpy(zero_copy_only=False)
        if counts[has].sum() < rows / 5:
            continue
        cells = pc.split_pattern(values, separator)
        parts = pc.utf8_trim_whitespace(pc.list_flatten(cells))
        distinct = pc.count_distinct(parts).as_py()
        short = pc.mean(pc.utf8_length(parts)).as_py() <= _LONGEST_PART
        is_list = separator != "," or _are_lists(cells, parts)
        if short and is_list and distinct < min(len(values), len(parts) / 2):
            return separator
    return None


def _are_lists(cells: pa.Array, parts: pa.Array) -> bool:
    """Tell lists from other cells with commas: numbers such as 3,5, and names such as Paris, France."""
    lengths = pc.unique(pc.list_value_length(cells))
    is_number = pc.match_substring_regex(parts, r"^[+-]?\d+$")
    return len(lengths) > 1 and pc.max(lengths).as_py() > 2 and not pc.all(is_number).as_py()

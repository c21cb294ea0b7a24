"""Writing tables batch by batch: CSV, JSONL or Parquet by the file's ending; the file appears when it is whole."""

from __future__ import annotations

import contextlib
import csv
import json
import math
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from attribune.core.door import as_argument
from attribune.core.files import draft_of, move_into_place, writing
from attribune.data.file_options import FileForm
from attribune.errors import ConfigError, DataError

_SPACED = b"attribune.spaced"  # in the metadata of a column


class TableWriter(Protocol):
    """Takes a table batch by batch."""

    def write(self, rows: pa.Table) -> None:
        """Append rows; all batches have the same columns."""


def check_output(path: str | Path, *, escape_formulas: bool = False) -> None:
    """Refuse a file that cannot be written as asked, before anything is computed.

    Raises:
        ConfigError: for an ending other than those in `ENDINGS`, or formulas of a format that has none.
    """
    ending = Path(path).suffix.lower()
    if ending not in ENDINGS:
        raise ConfigError(f"{path}: the ending {Path(path).suffix!r} is not one of {', '.join(ENDINGS)}")
    if escape_formulas and ending not in (".csv", ".tsv"):
        raise ConfigError(
            f"{path}: only CSV and TSV have cells that run as formulas: leave {as_argument('escape_formulas')} out"
        )


@contextmanager
def open_writer(
    path: str | Path, *, escape_formulas: bool = False, form: FileForm | None = None
) -> Iterator[TableWriter]:
    """Open a file for writing; it replaces an earlier one only when the block ends without an error.

    Args:
        form: of another file, in which one with the same ending is written; by default with commas, tabs in TSV.
        escape_formulas: put an apostrophe before texts in CSV and TSV that spreadsheet programs run as formulas.

    Raises:
        ConfigError: for an ending other than those in `ENDINGS`, or formulas of a format that has none.
        DataError: when the file cannot be written, with the system's reason.
    """
    check_output(path, escape_formulas=escape_formulas)
    path = Path(path)
    ending = path.suffix.lower()
    options: dict[str, Any] = {"escape_formulas": True} if escape_formulas else {}
    options |= {"form": form} if form is not None and form.ending == ending else {}
    draft = draft_of(path)
    try:
        with writing(f"{path} cannot be written", error=DataError):
            with ExitStack() as stack:
                yield ENDINGS[ending](draft, stack, **options)
            move_into_place(draft, path)
    finally:
        with contextlib.suppress(OSError):
            draft.unlink(missing_ok=True)


class _Csv:
    def __init__(self, path: Path, stack: ExitStack, *, form: FileForm, escape_formulas: bool = False) -> None:
        file = stack.enter_context(path.open("w", encoding="utf-8", newline=""))
        self._cell = _escaped_cell if escape_formulas else _cell
        self._form = form
        self._writer = csv.writer(file, delimiter=form.delimiter)
        self._begun = False

    def write(self, rows: pa.Table) -> None:
        if not self._begun:
            first, *others = map(self._cell, rows.column_names)
            self._writer.writerow(["" if self._form.is_unnamed else first, *others])
            self._begun = True
        self._writer.writerows(zip(*(self._cells(field, rows[field.name]) for field in rows.schema), strict=True))

    def _cells(self, field: pa.Field, column: pa.ChunkedArray) -> Iterable[Any]:
        cells = column.to_pylist()
        if field.metadata and _SPACED in field.metadata:
            cells = [" ".join(map(str, cell)) for cell in cells]
        if field.name in self._form.commas:
            return list(cells)  # numbers, which run as no formula
        if self._form.commas and pa.types.is_floating(field.type):
            return [_with_comma(cell) for cell in cells]  # numbers, which run as no formula
        return map(self._cell, cells)


def _with_comma(cell: float | None) -> str | None:
    """Write a number with a decimal comma, and without an exponent, which is read as no number beside one."""
    if cell is None or not math.isfinite(cell):
        return None if cell is None else str(cell)
    return np.format_float_positional(cell, trim="0").replace(".", ",")


class _JsonLines:
    def __init__(self, path: Path, stack: ExitStack) -> None:
        self._file = stack.enter_context(path.open("w", encoding="utf-8"))

    def write(self, rows: pa.Table) -> None:
        for row in rows.to_pylist():
            self._file.write(json.dumps(finite(row), ensure_ascii=False, default=str) + "\n")


class _Parquet:
    def __init__(self, path: Path, stack: ExitStack) -> None:
        # Opened now, so that a folder without permission is found before anything is computed.
        self._file = stack.enter_context(path.open("wb"))
        self._stack = stack
        self._writer: pq.ParquetWriter | None = None

    def write(self, rows: pa.Table) -> None:
        if self._writer is None:
            self._writer = self._stack.enter_context(pq.ParquetWriter(self._file, rows.schema))
        self._writer.write_table(rows.cast(self._writer.schema))


def finite(value: Any) -> Any:
    """Return a value as JSON has it: arrays and tuples as lists, and null for NaN and infinity."""
    if isinstance(value, np.ndarray | np.generic):
        value = value.tolist()
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {key: finite(part) for key, part in value.items()}
    return [finite(part) for part in value] if isinstance(value, list | tuple) else value


def prediction_array(values: Iterable[Any]) -> pa.Array:
    """Make a column of predictions; lists, and arrays, have the same type whether or not they hold anything."""
    listed = list(values)
    kinds = {list: pa.list_(pa.string()), np.ndarray: pa.list_(pa.float64())}
    return pa.array(listed, type=kinds.get(type(listed[0])) if listed else None)


def prediction_field(name: str, values: pa.Array, *, spaced: bool) -> pa.Field:
    """Describe a column of predictions; lists of one that is `spaced` are joined by spaces in CSV."""
    return pa.field(name, values.type, metadata={_SPACED: b""} if spaced else None)


def _cell(value: Any) -> Any:
    return json.dumps(value, ensure_ascii=False, default=str) if isinstance(value, list | dict) else value


def _escaped_cell(value: Any) -> Any:
    text = _cell(value)
    return f"'{text}" if isinstance(text, str) and text.startswith(("=", "+", "-", "@", "\t", "\r")) else text


ENDINGS: dict[str, Callable[..., TableWriter]] = {
    ".csv": partial(_Csv, form=FileForm(ending=".csv", delimiter=",")),
    ".tsv": partial(_Csv, form=FileForm(ending=".tsv", delimiter="\t")),
    ".jsonl": _JsonLines,
    ".parquet": _Parquet,
}

"""Files that hold a table: text, compressed or not, Parquet, Arrow and spreadsheets, read batch by batch."""

from __future__ import annotations

import difflib
import importlib.util
import re
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from attribune.data.json_lines import json_batches
from attribune.data.text_files import (
    COMPRESSED,
    checked_columns,
    csv_batches,
    csv_header,
    find_delimiter,
    find_encoding,
    inner_name,
    readable,
)
from attribune.errors import AttribuneWarning, ConfigError, DataError
from attribune.schema.columns import as_array, canonical

__all__ = [
    "ENDINGS",
    "FileOptions",
    "frame_table",
    "header_columns",
    "open_parquet",
    "plain_table",
    "table_batches",
    "table_files",
]

_TEXT_ENDINGS = (".csv", ".tsv", ".jsonl", ".ndjson", ".json")
_SHEETS = (".xlsx", ".xls", ".xlsb", ".ods")
_ARROW = (".feather", ".arrow")
_ARROW_MAGIC, _END_OF_STREAM = b"ARROW1", b"\xff\xff\xff\xff\0\0\0\0"
_TIMES = re.compile("timestamp|date|time|duration")
_ROWS = 10_000  # of a batch

ENDINGS: tuple[str, ...] = (
    *(text + packed for text in _TEXT_ENDINGS for packed in ("", *COMPRESSED)),
    ".zip",
    ".parquet",
    *_ARROW,
    *_SHEETS,
)
"""File endings that can be read."""
_FORMATS = tuple(ending.lstrip(".") for ending in (*_TEXT_ENDINGS, ".parquet", *_ARROW, *_SHEETS))
_NAMED_DELIMITERS = {"tab": "\t", "\\t": "\t"}


@dataclass(frozen=True, kw_only=True)
class FileOptions:
    """How a file is read; what is None is found.

    Args:
        encoding: of a text file.
        delimiter: between the fields of CSV and TSV, one character or ``tab``.
        file_format: what the file holds, as an ending without its dot, whatever its name ends in.
        quoting: for CSV and TSV, whether double quotes enclose fields.
        rows: maximum number of rows, from the first one.

    Raises:
        ConfigError: for a delimiter, format or number that is none.
    """

    encoding: str | None = None
    delimiter: str | None = None
    file_format: str | None = None
    quoting: bool = True
    rows: int | None = None

    def __post_init__(self) -> None:
        """Check the options."""
        if self.delimiter is not None and (len(self.field_delimiter) != 1 or self.field_delimiter in '"\r\n'):
            raise ConfigError(f"delimiter is {self.delimiter!r}: give one character, such as ';', or tab")
        if self.file_format is not None and self.file_format not in _FORMATS:
            raise ConfigError(f"file_format is {self.file_format!r}: choose one of {', '.join(_FORMATS)}")
        if self.rows is not None and self.rows < 1:
            raise ConfigError(f"rows is {self.rows}: give at least 1, or leave it out to read all")

    @property
    def field_delimiter(self) -> str:
        """The delimiter as a character."""
        return _NAMED_DELIMITERS.get(self.delimiter or "", self.delimiter or "")


_AS_FOUND = FileOptions()


def table_batches(path: Path, *, options: FileOptions = _AS_FOUND) -> Iterator[pa.Table]:
    """Read a file batch by batch, as `read_table` does; all batches have the same columns and types."""
    ending = _ending(path, options)
    if ending in _BINARY:
        batches = _BINARY[ending](path)
    else:
        batches = _read_text(path, ending, options, encoding=find_encoding(path, encoding=options.encoding))
    return batches if options.rows is None else _first_rows(batches, options.rows)


def _first_rows(batches: Iterator[pa.Table], rows: int) -> Iterator[pa.Table]:
    for batch in batches:
        yield batch.slice(0, rows)
        rows -= len(batch)
        if rows <= 0:
            return


def _read_text(path: Path, ending: str, options: FileOptions, *, encoding: str) -> Iterator[pa.Table]:
    try:
        if (delimiter := _delimiter(path, ending, options, encoding)) is None:
            yield from json_batches(path, encoding=encoding)
        else:
            yield from csv_batches(path, encoding=encoding, delimiter=delimiter, quoting=options.quoting)
    except UnicodeDecodeError as error:  # its encoding was checked before
        raise DataError(f"{path}: the file changed while it was read: read it again") from error


def header_columns(path: Path, *, options: FileOptions = _AS_FOUND) -> list[str] | None:
    """Return the columns of a file, read at its beginning or end; None for JSON, where any row may add a column.

    Raises:
        DataError: naming a file that cannot be read.
        ConfigError: for an unknown encoding.
    """
    ending, encoding = _ending(path, options), options.encoding
    if ending == ".parquet":
        with open_parquet(path) as file:
            return list(file.schema_arrow.names)
    if ending in _BINARY:
        return list(next(_BINARY[ending](path)).column_names)
    delimiter = _delimiter(path, ending, options, encoding)
    return None if delimiter is None else csv_header(path, encoding=encoding, delimiter=delimiter)


def _delimiter(path: Path, ending: str, options: FileOptions, encoding: str | None) -> str | None:
    if options.delimiter is not None and ending in (".csv", ".tsv"):
        return options.field_delimiter
    if ending == ".csv":
        return find_delimiter(path, encoding=encoding)
    return "\t" if ending == ".tsv" else None


def table_files(sources: Iterable[str | Path]) -> list[Path]:
    """List files that are named, and those with a known ending in folders that are named, sorted by name.

    Raises:
        DataError: for a folder that cannot be read or holds no such file, or a file that is named twice.
    """
    files: dict[Path, Path] = {}
    for source in map(Path, sources):
        for file in _files_in(source) if source.is_dir() else [source]:
            if file.resolve() in files:
                raise DataError(f"{file} is named twice, so its rows would be read twice: name it once")
            files[file.resolve()] = file
    return list(files.values())


def _files_in(folder: Path) -> list[Path]:
    with readable(folder):
        names = sorted(entry.name for entry in folder.iterdir() if entry.is_file())
    files = [folder / name for name in names if name[0] not in "._" and name.lower().endswith(ENDINGS)]
    if not files:
        raise DataError(
            f"{folder}: the folder holds no table ({len(names)} other files): name a folder whose files end in one of "
            f"{', '.join(ENDINGS)}"
        )
    return files


def _ending(path: Path, options: FileOptions = _AS_FOUND) -> str:
    """Find the ending of what a file holds, without that of its compression, after checking that there is a file.

    Raises:
        DataError: for no file, an empty one, or one of an unknown ending.
        ConfigError: for a delimiter of a file without any.
    """
    _check_file(path)
    ending = _named_ending(path) if options.file_format is None else f".{options.file_format}"
    if options.delimiter is not None and ending not in (".csv", ".tsv"):
        raise ConfigError(f"{path}: a file of {ending[1:]} has no delimiter {options.delimiter!r}: leave it out")
    return ending


def _check_file(path: Path) -> None:
    if not path.exists():
        raise _no_file(path)
    if path.is_dir():
        raise DataError(f"{path} is a folder: name the file in it")
    if path.stat().st_size == 0:
        raise DataError(f"{path}: the file is empty: give a file with rows")


def _named_ending(path: Path) -> str:
    packed = path.name.lower().endswith(COMPRESSED)
    name = inner_name(path) if packed else path.name
    known = _TEXT_ENDINGS if packed else (*_TEXT_ENDINGS, *_BINARY)
    ending = next((ending for ending in known if name.lower().endswith(ending)), None)
    if ending is None:
        what = f"{path}: holds {name}, of the" if packed else f"{path}:"
        unknown = f"{what} unknown ending {Path(name).suffix!r}"
        raise DataError(f"{unknown}: convert the file to one of {', '.join(known)}, or name its format")
    return ending


def _no_file(path: Path) -> DataError:
    if not path.parent.is_dir():
        return DataError(f"{path}: there is no such file, nor a folder {path.parent}: check the path")
    names = sorted(entry.name for entry in path.parent.iterdir())
    close = difflib.get_close_matches(path.name, names, n=1)
    hint = f"did you mean {str(path.parent / close[0])!r}?" if close else f"{path.parent} holds no similar name"
    return DataError(f"{path}: there is no such file; {hint}")


@contextmanager
def open_parquet(path: Path, *, cure: str = "write it again") -> Iterator[pq.ParquetFile]:
    """Open a Parquet file; DataError with the cure for one that is damaged, within the block, too."""
    try:
        with readable(path), pq.ParquetFile(path) as file:
            yield file
    except pa.ArrowException as error:
        raise DataError(f"{path}: truncated, or not a Parquet file ({error}): {cure}") from error


def _read_parquet(path: Path) -> Iterator[pa.Table]:
    with open_parquet(path) as file:
        if not file.metadata.num_rows:
            raise _no_rows(path)
        checked_columns(file.schema_arrow.names, source=str(path))
        rows = 0
        for batch in file.iter_batches(batch_size=_ROWS):
            rows += len(batch)
            yield plain_table(pa.Table.from_batches([batch]), str(path))
        if rows != file.metadata.num_rows:
            raise DataError(f"{path}: holds {rows:,} rows, and says {file.metadata.num_rows:,}: write it again")


def plain_table(table: pa.Table, source: str) -> pa.Table:
    """Return the table with types that a Dataset can hold: categories become their values, nothing becomes text."""
    checked_columns(table.column_names, source=source)
    columns = []
    for name, column in zip(table.column_names, table.columns, strict=True):
        kind = column.type
        _check_values(column, f"{source}: column {name!r}")
        if pa.types.is_dictionary(kind):
            column = _decoded(column)
        elif pa.types.is_null(kind):
            column = column.cast(pa.string())
        columns.append(column)
    return pa.table(columns, names=table.column_names)


def _decoded(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return the values of categories, whatever type these and their numbers have."""
    views = {pa.string_view(): pa.large_string(), pa.binary_view(): pa.large_binary()}
    kind = views.get(column.type.value_type, column.type.value_type)
    chunks = [part.dictionary.cast(kind).take(part.indices.cast(pa.int64())) for part in column.chunks]
    return pa.chunked_array(chunks, type=kind)


def _check_values(column: pa.ChunkedArray, what: str) -> None:
    """Refuse types that a Dataset cannot hold, and times that Python cannot: beyond the year 9999, or of no zone."""
    kind = str(column.type)
    if "map<" in kind or "interval" in kind:
        raise DataError(f"{what} is of the type {kind:.80}: write it as texts, numbers or lists of them")
    if not _TIMES.search(kind):
        return
    try:
        if pa.types.is_temporal(column.type) and not pa.types.is_duration(column.type):
            pc.min_max(column).as_py()
        else:
            column.to_pylist()
    except (OverflowError, ValueError, KeyError) as error:  # a KeyError for zones
        raise DataError(
            f"{what}, {kind:.80}, holds a time that does not exist in Python ({error}): write times of the years 1 to "
            "9999, of a known zone, or texts"
        ) from error


def _read_arrow(path: Path) -> Iterator[pa.Table]:
    """Read a file of Arrow or Feather, or a stream of Arrow, which must come to its end."""
    try:
        with readable(path), pa.OSFile(str(path)) as file:
            is_file = file.read(len(_ARROW_MAGIC)) == _ARROW_MAGIC
            file.seek(max(0, file.size() - len(_END_OF_STREAM)))
            if not is_file and file.read() != _END_OF_STREAM:
                raise DataError(f"{path}: truncated, or not a file of Arrow or Feather: write it again")
            file.seek(0)
            reader = pa.ipc.open_file(file) if is_file else pa.ipc.open_stream(file)
            rows = 0
            for batch in map(reader.get_batch, range(reader.num_record_batches)) if is_file else reader:
                rows += len(batch)
                yield plain_table(pa.Table.from_batches([batch]), str(path))
    except pa.ArrowException as error:
        raise DataError(f"{path}: truncated, or not a file of Arrow or Feather ({error}): write it again") from error
    if not rows:
        raise _no_rows(path)


def _read_sheet(path: Path) -> Iterator[pa.Table]:
    """Read the first sheet of a workbook, whose first row is the header."""
    if importlib.util.find_spec("python_calamine") is None:
        raise DataError(f"{path}: spreadsheets need a package of their own: pip install 'attribune[tables]'")
    from python_calamine import CalamineError, PasswordError

    try:
        with readable(path), pd.ExcelFile(path, engine="calamine") as book:
            names = book.sheet_names
            cells = pd.read_excel(
                book, sheet_name=names[0], header=None, dtype=object, keep_default_na=False, na_values=[""]
            )
    except PasswordError as error:
        raise DataError(f"{path}: the workbook has a password: save it without one") from error
    except (CalamineError, ValueError) as error:
        raise DataError(f"{path}: damaged, or not a workbook ({error}): save it again, or as CSV") from error
    if len(names) > 1:
        warnings.warn(
            f"{path} has {len(names)} sheets: the first one, {str(names[0])!r}, is read; save another one to a file of "
            "its own to read that",
            AttribuneWarning,
            stacklevel=2,
        )
    # pandas would take texts such as 007 for numbers, and rename columns of one name.
    cells = cells.astype(object).where(cells.notna(), None).dropna(how="all").dropna(axis=1, how="all")
    if len(cells) < 2:
        raise _no_rows(path)
    frame = cells.iloc[1:].infer_objects()
    frame.columns = pd.Index([canonical(cell) or "" for cell in cells.iloc[0]])
    yield frame_table(frame, str(path))  # whole, since a sheet has a million rows at most


def _no_rows(path: Path) -> DataError:
    return DataError(f"{path}: the file has columns but no rows: give a file with rows")


def frame_table(frame: pd.DataFrame, source: str) -> pa.Table:
    """Return a DataFrame as a table; DataError for unusable names of columns."""
    names = checked_columns([str(name) for name in frame.columns], source=source)
    columns = [as_array(frame.iloc[:, index], column=name) for index, name in enumerate(names)]
    return plain_table(pa.table(columns, names=names), source)


_BINARY: dict[str, Callable[[Path], Iterator[pa.Table]]] = {
    ".parquet": _read_parquet,
    **dict.fromkeys(_ARROW, _read_arrow),
    **dict.fromkeys(_SHEETS, _read_sheet),
}

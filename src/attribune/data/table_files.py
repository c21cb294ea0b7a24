"""Files that hold a table: text, compressed or not, Parquet, Arrow and spreadsheets, read batch by batch."""

from __future__ import annotations

import importlib.util
import re
import uuid
import warnings
import zipfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property
from itertools import chain
from pathlib import Path
from posixpath import join, normpath

import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from attribune.core.door import as_argument
from attribune.core.logs import show_note
from attribune.core.process import is_out_of_memory, require_memory
from attribune.core.wording import one_line, shortened
from attribune.data.encodings import FoundEncoding, detect_encoding
from attribune.data.file_options import AS_FOUND, FileForm, FileOptions
from attribune.data.json_lines import json_batches
from attribune.data.messages import say_messages, with_contents
from attribune.data.text_files import (
    COMPRESSED,
    UNNAMED,
    WORKBOOKS,
    checked_columns,
    csv_batches,
    csv_header,
    find_delimiter,
    has_plain_quotes,
    inner_name,
    kind_of,
    no_such_file,
    readable,
    refuse_other_kinds,
)
from attribune.errors import AttribuneWarning, ConfigError, DataError
from attribune.schema.columns import as_array, canonical
from attribune.schema.number_marks import MarkedNumbers, comma_columns, marked_columns, point_columns, with_points

_CELL = re.compile(rb"<(?:\w+:)?c\s[^>]*?\br=\"([A-Z]{1,3})([0-9]{1,7})\"")
_SHEET = re.compile(rb"<(?:\w+:)?sheet\s[^>]*?\b\w+:id=\"([^\"]+)\"")
_RELATION = re.compile(rb"<(?:\w+:)?Relationship\s[^>]*>")
_BLOCK, _OVERLAP = 1 << 22, 1 << 10  # bytes
_BYTES_OF_CELL = 64  # in the reader and in pandas, with nothing in it


def check_sheet(path: Path) -> None:
    """Refuse an .xlsx file whose first sheet does not fit into memory; a cell far from the others may be enough.

    The reader lays out all cells between the first and the last, and aborts the process where memory ends.

    Raises:
        ConfigError: naming the last row and column.
    """
    try:
        with zipfile.ZipFile(path) as archive, archive.open(_first_sheet(archive)) as sheet:
            rows, columns, last = _extent(iter(lambda: sheet.read(_BLOCK), b""))
    except (zipfile.BadZipFile, KeyError, OSError, NotImplementedError, RuntimeError):
        return  # another kind of workbook, or a damaged one, which its reader names
    require_memory(
        rows * columns * _BYTES_OF_CELL,
        what=f"{path}: its first sheet, of {rows:,} rows and {columns:,} columns up to the cell {last},",
        cure="delete cells far from the table, or save the table as CSV",
    )


def _first_sheet(archive: zipfile.ZipFile) -> str:
    """Return the name of the first sheet within the archive; a KeyError says that there is none."""
    sheets = _SHEET.findall(archive.read("xl/workbook.xml"))
    for relation in _RELATION.findall(archive.read("xl/_rels/workbook.xml.rels")) if sheets else ():
        target = re.search(rb"\bTarget=\"([^\"]+)\"", relation)
        if target is not None and re.search(rb"\bId=\"" + re.escape(sheets[0]) + rb"\"", relation):
            return normpath(join("/xl", target[1].decode())).lstrip("/")
    raise KeyError("sheet")


def _extent(blocks: Iterator[bytes]) -> tuple[int, int, str]:
    """Return the rows and columns between the first and the last cell, and the name of the last."""
    first_row = first_column = 1 << 30
    last_row = last_column = 0
    letters, rest = b"A", b""
    for block in blocks:
        rest += block
        for name, number in _CELL.findall(rest):
            row, column = int(number), _column(name)
            first_row, last_row = min(first_row, row), max(last_row, row)
            first_column = min(first_column, column)
            if column > last_column:
                last_column, letters = column, name
        rest = rest[-_OVERLAP:]
    if not last_row:
        return 0, 0, "A1"
    return last_row - first_row + 1, last_column - first_column + 1, f"{letters.decode()}{last_row}"


def _column(letters: bytes) -> int:
    number = 0
    for letter in letters:
        number = number * 26 + letter - 64
    return number


_UNKNOWN = re.compile("extension<|run_end_encoded<|union<|list_view<|map<|interval")  # to Datasets
_SHOWN_BYTES = 40  # bytes of a text


def plain_column(column: pa.ChunkedArray, what: str) -> pa.ChunkedArray:
    """Return a column without encodings and extensions of Arrow: UUIDs and JSON become texts.

    Args:
        what: names the column, for messages.

    Raises:
        DataError: for texts that are not UTF-8, damaged values, or types that a Dataset cannot hold, such as maps and
            the periods of pandas.
    """
    try:
        column.validate(full=True)
    except pa.ArrowInvalid as error:
        bad = _bad_text(column) or f"damaged values ({error})"
        raise DataError(f"{what} holds {bad}: write it again, with texts in UTF-8") from error
    kind = column.type
    if pa.types.is_run_end_encoded(kind):
        chunks = [pc.run_end_decode(chunk) for chunk in column.chunks]
        return plain_column(pa.chunked_array(chunks, type=kind.value_type), what)
    if isinstance(kind, pa.BaseExtensionType):
        stored = pa.chunked_array([chunk.storage for chunk in column.chunks], type=kind.storage_type)
        if kind.extension_name == "arrow.uuid":
            texts = [None if value is None else str(uuid.UUID(bytes=value)) for value in stored.to_pylist()]
            return pa.chunked_array([pa.array(texts, pa.string())])
        if kind.extension_name == "arrow.bool8":
            return pc.not_equal(stored, 0)
        if kind.extension_name == "arrow.json":
            return plain_column(stored, what)
    if _UNKNOWN.search(str(kind)):
        raise DataError(f"{what} is of the type {kind!s:.80}: write it as texts, numbers or lists of them")
    return column


def _bad_text(column: pa.ChunkedArray) -> str | None:
    """Describe the first text that is not UTF-8; None where it is not a column of texts."""
    if not (pa.types.is_string(column.type) or pa.types.is_large_string(column.type)):
        return None
    binary = pa.large_binary() if pa.types.is_large_string(column.type) else pa.binary()
    for value in (value for chunk in column.chunks for value in chunk.view(binary).to_pylist()):
        try:
            (value or b"").decode()
        except UnicodeDecodeError as error:
            return f"{value[max(0, error.start - 10) :][:_SHOWN_BYTES]!r}, which is not UTF-8"
    return None


_TEXT_ENDINGS = (".csv", ".tsv", ".jsonl", ".ndjson", ".json")
_ARROW = (".feather", ".arrow")
_ARROW_MAGIC, _END_OF_STREAM = b"ARROW1", b"\xff\xff\xff\xff\0\0\0\0"
_TIMES = re.compile("timestamp|date|time|duration")
_ROWS = 10_000  # of a batch
_ROWS_OF_HEADER = 3  # below the first
_DELIMITED = {".csv": ",", ".tsv": "\t"}
_PLAIN_NUMBER = re.compile(r"[+-]?\d+([.,]\d+)?")
_SHOWN_COLUMNS = 6  # names of columns

ENDINGS: tuple[str, ...] = (
    *(text + packed for text in _TEXT_ENDINGS for packed in ("", *COMPRESSED)),
    ".zip",
    ".parquet",
    *_ARROW,
    *WORKBOOKS,
)
"""File endings that can be read."""


def table_batches(path: Path, *, options: FileOptions = AS_FOUND, as_written: bool = False) -> Iterator[pa.Table]:
    """Read a file batch by batch, as `read_table` does; all batches have the same columns and types.

    A note names the guesses about the file.

    Args:
        as_written: whether numbers in CSV keep decimal commas and marks between thousands.
    """
    file = _File(path, options, as_written=as_written)
    batches = _within_memory(path, file.batches())
    first, messages = with_contents(next(batches))
    if said := file.guesses(first):
        show_note(said)
    say_messages(str(path), messages)
    whole = chain([first], (with_contents(batch)[0] for batch in batches))
    return whole if options.rows is None else _first_rows(whole, options.rows)


def _within_memory(path: Path, batches: Iterator[pa.Table]) -> Iterator[pa.Table]:
    try:
        yield from batches
    except Exception as error:
        if not is_out_of_memory(error):
            raise
        raise DataError(
            f"{path}: there is not enough memory to read the table; a cell, or what an archive unpacks to, may be very "
            "large: look at the file, or use a machine with more memory"
        ) from error


def _first_rows(batches: Iterator[pa.Table], rows: int) -> Iterator[pa.Table]:
    for batch in batches:
        yield batch.slice(0, rows)
        rows -= len(batch)
        if rows <= 0:
            return


def header_columns(path: Path, *, options: FileOptions = AS_FOUND) -> list[str] | None:
    """Return the columns of a file, read at its beginning or end; None for JSON, where any row may add a column.

    Raises:
        DataError: naming a file that cannot be read.
        ConfigError: for an unknown encoding.
    """
    return _File(path, options).columns()


def file_form(path: Path, *, options: FileOptions = AS_FOUND) -> FileForm | None:
    """Return how a file of CSV or TSV is written; None for other files.

    Raises:
        DataError: naming a file that cannot be read.
        ConfigError: for an unknown encoding.
    """
    return _File(path, options).form()


class _File:
    """A file with a table: what is given of its format, and what is found of the rest, once.

    Raises:
        DataError: for no file, an empty one, one of an unknown ending, or what is certainly no table.
        ConfigError: for options that its format does not have.
    """

    def __init__(self, path: Path, options: FileOptions, *, as_written: bool = False) -> None:
        self.path, self.options, self._as_written = path, options, as_written
        _check_file(path)
        named = _named_ending(path) if options.file_format is None else f".{options.file_format}"
        self.ending = named
        if options.file_format is None:
            found = kind_of(path)
            if found not in _BINARY:
                refuse_other_kinds(path)
            if found is not None and (found in _BINARY or named in _DELIMITED) and _reader(found) != _reader(named):
                self.ending = found
        self._is_renamed = self.ending != named
        self._layouts: list[str] = []
        self._check_options()

    def _check_options(self) -> None:
        kind, options = self.ending[1:], self.options
        if options.columns is not None and self.ending not in (*_DELIMITED, *WORKBOOKS):
            raise ConfigError(f"{self.path}: a file of {kind} names its columns itself: leave out columns")
        if self.ending in _DELIMITED:
            return
        lacks = {
            "delimiter": f"no delimiter {options.delimiter!r}: leave it out",
            "quoting": "no quotes around fields: leave out quoting",
            "decimal": "numbers of its own: leave out decimal",
        }
        for name, words in lacks.items():
            if getattr(options, name) is not None:
                raise ConfigError(f"{self.path}: a file of {kind} has {words}")

    def batches(self) -> Iterator[pa.Table]:
        """Read the rows."""
        path = self.path
        if self.ending in WORKBOOKS:
            return self._below_import_ids(_read_sheet(path, self.options.columns))
        if self.ending in _BINARY:
            return _BINARY[self.ending](path)
        return self._text_batches(self._encoding.name)  # found at once, not with the first batch

    def _text_batches(self, encoding: str) -> Iterator[pa.Table]:
        try:
            if self.ending in _DELIMITED:
                for batch in self._csv_batches(encoding):
                    yield batch if self._as_written else with_points(batch, self._marked_columns)
            else:
                yield from json_batches(self.path, encoding=encoding, tell=self._layouts.append)
        except UnicodeDecodeError as error:  # its encoding was checked before
            raise DataError(f"{self.path}: the file changed while it was read: read it again") from error

    def _csv_batches(self, encoding: str) -> Iterator[pa.Table]:
        batches = csv_batches(
            self.path,
            encoding=encoding,
            delimiter=self._delimiter,
            quoting=self._quoting,
            columns=self.options.columns,
        )
        return self._below_import_ids(batches)

    def _below_import_ids(self, batches: Iterator[pa.Table]) -> Iterator[pa.Table]:
        """Leave out what Qualtrics writes below the header: the questions, and the ids of the columns."""
        first = next(batches)
        beginning = first.slice(0, _ROWS_OF_HEADER).to_pylist()
        ids = next((row for row, cells in enumerate(beginning) if _are_import_ids(cells.values())), None)
        if ids is not None:
            self._layouts = [f"an export of Qualtrics, of which row {ids + 3} is the first, below questions and ids"]
            first = first.slice(ids + 1)
            if not len(first):
                raise _no_rows(self.path)
        yield first
        yield from batches

    def columns(self) -> list[str] | None:
        """Return the names of the columns; None for JSON."""
        if self.options.columns is not None:
            return list(self.options.columns)
        if self.ending == ".parquet":
            with open_parquet(self.path) as file:
                return checked_columns(file.schema_arrow.names, source=str(self.path))
        if self.ending in _BINARY:
            return list(next(self.batches()).column_names)
        if self.ending not in _DELIMITED:
            return None
        return csv_header(self.path, encoding=self._encoding.name, delimiter=self._delimiter, quoting=self._quoting)

    @cached_property
    def _encoding(self) -> FoundEncoding:
        return detect_encoding(self.path, encoding=self.options.encoding)

    @cached_property
    def _delimiter(self) -> str:
        if self.options.delimiter is not None:
            return self.options.field_delimiter
        return "\t" if self.ending == ".tsv" else find_delimiter(self.path, encoding=self._encoding.name)

    @cached_property
    def _quoting(self) -> bool:
        """Whether quotes enclose fields, as they do but in some files whose fields have tabs between them."""
        if self.options.quoting is not None or self._delimiter != "\t":
            return self.options.quoting is not False
        return not has_plain_quotes(self.path, encoding=self._encoding.name, delimiter=self._delimiter)

    @cached_property
    def _comma_columns(self) -> dict[str, str]:
        """The columns of numbers with a decimal comma, each with one of them."""
        return comma_columns(self._numbers[","], is_given=self.options.decimal is not None)

    @cached_property
    def _point_columns(self) -> dict[str, str]:
        """The columns of numbers with points that may stand between thousands, each with one of them."""
        is_sure = self.options.decimal is None and bool(self._comma_columns)
        return point_columns(self._numbers["."], is_sure=is_sure)

    @cached_property
    def _numbers(self) -> Mapping[str, Mapping[str, MarkedNumbers]]:
        """The columns of numbers with commas, and with points; a file that may have decimal commas is read for it."""
        may_have_commas = self._delimiter == ";" if self.options.decimal is None else self.options.decimal == ","
        return marked_columns(self._csv_batches(self._encoding.name) if may_have_commas else (), ",.")

    @cached_property
    def _marked_columns(self) -> dict[str, str]:
        """The columns whose numbers are read with decimal commas, and with points between thousands."""
        has_commas = self.options.decimal is not None or self._comma_columns
        return self._comma_columns | (self._point_columns if has_commas else {})

    def form(self) -> FileForm | None:
        """Return how the file is written; None if it is no CSV or TSV."""
        if self.ending not in _DELIMITED:
            return None
        is_unnamed = (self.columns() or [""])[0] == UNNAMED
        return FileForm(
            ending=self.ending, delimiter=self._delimiter, commas=tuple(self._marked_columns), is_unnamed=is_unnamed
        )

    def guesses(self, rows: pa.Table) -> str | None:
        """Say how the file was read if any of it was guessed; None if it is what its name says.

        Args:
            rows: the first rows.
        """
        words, is_guess = [self.ending[1:].upper()], self._is_renamed
        if self.ending in _DELIMITED:
            is_guess |= self.options.delimiter is None and self._delimiter != _DELIMITED[self.ending]
            words.append("tabs" if self._delimiter == "\t" else repr(self._delimiter))
            if not self._quoting and self.options.quoting is None:
                is_guess = True
                words.append("quotes as plain characters")
            if self.options.decimal is None and self._comma_columns:
                is_guess = True
                words.append(f"decimal commas in {_listed(self._comma_columns)}")
            if self.options.decimal is None and self._point_columns:
                is_guess = True
                kind = "points between thousands" if self._comma_columns else "decimal points"
                words.append(f"{kind} in {_listed(self._point_columns)}")
        if self.ending not in _BINARY:
            sample = self._encoding.sample
            is_guess |= sample is not None
            words.append(self._encoding.name + ("" if sample is None else f" ({one_line(sample)!r:.40})"))
        words += self._layouts
        is_guess |= bool(self._layouts)
        if self.ending in (*_DELIMITED, *WORKBOOKS) and self.options.columns is None:
            doubt = _doubtful_header(rows)
            is_guess |= bool(doubt) or rows.column_names[0] == UNNAMED
            names = one_line(", ".join(rows.column_names[:_SHOWN_COLUMNS]))
            words.append(f"header in row 1 ({names:.80}{', ...' * (rows.num_columns > _SHOWN_COLUMNS)}){doubt}")
            if rows.column_names[0] == UNNAMED:
                words.append(f"column 1 without a name as {UNNAMED!r}")
        return f"{self.path} is read as {', '.join(words)}" if is_guess else None


def _are_import_ids(cells: Iterable[object]) -> bool:
    texts = [cell for cell in cells if cell is not None and cell != ""]
    return bool(texts) and all(isinstance(text, str) and text.startswith('{"ImportId"') for text in texts)


def _listed(cells: Mapping[str, str]) -> str:
    """Return names of columns, each with a cell."""
    listed = ", ".join(f"{name!r} ({cell!r})" for name, cell in list(cells.items())[:_SHOWN_COLUMNS])
    return one_line(listed) + ", ..." * (len(cells) > _SHOWN_COLUMNS)


def _doubtful_header(rows: pa.Table) -> str:
    """Say what is odd about the names of columns, if they look like the values of a row; "" if they do not."""
    for name in rows.column_names:
        column = rows[name]
        is_value = pa.types.is_string(column.type) and pc.any(pc.equal(column, name)).as_py()
        if is_value or _PLAIN_NUMBER.fullmatch(name):
            what = "is also a value of the column" if is_value else "is a number"
            cure = f"if row 1 is data, name the columns with {as_argument('data.columns')}"
            return f"; {shortened(name, 40)!r} there {what}: {cure}"
    return ""


def _reader(ending: str) -> Callable[..., Iterator[pa.Table]] | str:
    """Return what reads files of an ending; all workbooks are read by one function, for example."""
    return _BINARY.get(ending, "delimited" if ending in _DELIMITED else "json")


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


def _check_file(path: Path) -> None:
    if not path.exists():
        raise no_such_file(path)
    if path.is_dir():
        raise DataError(f"{path} is a folder: name the file in it")
    if not path.is_file():
        raise DataError(
            f"{path} is a pipe or a device, which can be read only once: write the table to a file, or on the command "
            "line pipe it into the standard input and name that, as in `zcat t.csv.gz | attribune check -`"
        )
    if path.stat().st_size == 0:
        raise DataError(f"{path}: the file is empty: give a file with rows")


def _named_ending(path: Path) -> str:
    packed = path.name.lower().endswith(COMPRESSED)
    name = inner_name(path) if packed else path.name
    known = _TEXT_ENDINGS if packed else (*_TEXT_ENDINGS, *_BINARY)
    ending = next((ending for ending in known if name.lower().endswith(ending)), None)
    if ending is None:
        what = f"{path}: holds {name}, of the" if packed else f"{path}:"
        raise DataError(
            f"{what} unknown ending {Path(name).suffix!r}: convert the file to one of {', '.join(known)}, or name its "
            f"format ({as_argument('file_format', 'tsv')})"
        )
    return ending


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
    names, columns = checked_columns(table.column_names, source=source), []
    for name, column in zip(names, table.columns, strict=True):
        what = f"{source}: column {name!r}"
        column = plain_column(column, what)
        kind = column.type
        _check_times(column, what)
        if pa.types.is_dictionary(kind):
            column = _decoded(column)
        elif pa.types.is_null(kind):
            column = column.cast(pa.string())
        columns.append(column)
    return pa.table(columns, names=names)


def _decoded(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return the values of categories, whatever type these and their numbers have."""
    views = {pa.string_view(): pa.large_string(), pa.binary_view(): pa.large_binary()}
    kind = views.get(column.type.value_type, column.type.value_type)
    chunks = [part.dictionary.cast(kind).take(part.indices.cast(pa.int64())) for part in column.chunks]
    return pa.chunked_array(chunks, type=kind)


def _check_times(column: pa.ChunkedArray, what: str) -> None:
    """Refuse times that Python cannot hold: beyond the year 9999, or of no zone."""
    kind = str(column.type)
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


def _read_sheet(path: Path, names: Sequence[str] | None = None) -> Iterator[pa.Table]:
    """Read the first sheet of a workbook; its first row is the header unless names of its columns are given."""
    if importlib.util.find_spec("python_calamine") is None:
        raise DataError(f"{path}: spreadsheets need a package of their own: pip install 'attribune[tables]'")
    from python_calamine import CalamineError, PasswordError

    check_sheet(path)
    try:
        with readable(path), pd.ExcelFile(path, engine="calamine") as book:
            sheets = book.sheet_names
            cells = pd.read_excel(
                book, sheet_name=sheets[0], header=None, dtype=object, keep_default_na=False, na_values=[""]
            )
    except PasswordError as error:
        raise DataError(f"{path}: the workbook has a password: save it without one") from error
    except (CalamineError, ValueError) as error:
        raise DataError(f"{path}: damaged, or not a workbook ({error}): save it again, or as CSV") from error
    if len(sheets) > 1:
        warnings.warn(
            f"{path} has {len(sheets)} sheets: the first one, {str(sheets[0])!r}, is read; save another one to a file "
            "of its own to read that",
            AttribuneWarning,
            stacklevel=2,
        )
    # pandas would take texts such as 007 for numbers, and rename columns of one name.
    cells = cells.astype(object).where(cells.notna(), None).dropna(how="all").dropna(axis=1, how="all")
    first = 1 if names is None else 0
    if len(cells) <= first:
        raise _no_rows(path)
    if names is None:
        names = [canonical(cell) or "" for cell in cells.iloc[0]]
    elif len(names) != cells.shape[1]:
        raise DataError(f"{path}: {cells.shape[1]} columns, but {len(names)} are named: name each of them once")
    frame = cells.iloc[first:].infer_objects()
    frame.columns = pd.Index(names)
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
    **dict.fromkeys(WORKBOOKS, _read_sheet),
}

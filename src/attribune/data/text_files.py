"""Text files as they come: compressed or not, in whatever encoding, with any line ends; CSV and TSV; standard input."""

from __future__ import annotations

import atexit
import bz2
import codecs
import csv
import gzip
import io
import lzma
import os
import re
import shutil
import sys
import tempfile
import zipfile
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import cache
from itertools import islice
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Literal, cast

import pyarrow as pa

from attribune.core.door import as_argument
from attribune.core.files import temporary_folder, writing_temporarily
from attribune.core.wording import call_file, closest, counted, shortened
from attribune.errors import ConfigError, DataError

if TYPE_CHECKING:
    from _csv import Reader

_BATCH = 10_000
_BLOCK = 256  # rows that are lists at once: with many more, the garbage collector takes most of the time
# Codecs of domain names and of the source code of Python, and one that refuses everything.
_NO_FILES = ("idna", "punycode", "raw-unicode-escape", "unicode-escape", "undefined")
_DELIMITERS = (",", ";", "\t", "|")
COMPRESSED = (".gz", ".bz2", ".xz", ".zst", ".zip")
"""Endings of compressed files; a zip archive must hold one file."""
UNNAMED = "Unnamed: 0"
"""What a first column without a name is called, as pandas does; mostly a table's index, written beside it."""
_PACKED = {
    b"\x1f\x8b": ".gz",
    b"BZh": ".bz2",
    b"\xfd7zXZ": ".xz",
    b"\x28\xb5\x2f\xfd": ".zst",
    b"PK\x03\x04": ".zip",
}
_MARKS = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)


def raised(error: DataError) -> None:
    """Raise an error."""
    raise error


def no_such_file(path: Path) -> DataError:
    """Return the error for a file that is not there, with the closest name."""
    if not path.parent.is_dir():
        return DataError(f"{path}: there is no such file, nor a folder {path.parent}: check the path")
    names = sorted(entry.name for entry in path.parent.iterdir())
    close = closest(path.name, names)
    hint = f"did you mean {str(path.parent / close)!r}?" if close else f"{path.parent} holds no similar name"
    return DataError(f"{path}: there is no such file; {hint}")


@contextmanager
def readable(path: Path) -> Iterator[None]:
    """Turn what goes wrong while a file is read into a DataError that names it."""
    try:
        yield
    except (EOFError, zlib.error, gzip.BadGzipFile, lzma.LZMAError, zipfile.BadZipFile, NotImplementedError) as error:
        raise DataError(f"{path}: the compressed file is truncated or damaged ({error}): get it again") from error
    except OSError as error:
        raise DataError(f"{path}: cannot be read ({error.strerror or error}): check the file and its rights") from error


def open_text(path: Path, encoding: str) -> IO[str]:
    """Open a text file, decompressed by its ending, with its line ends as they are."""
    return io.TextIOWrapper(open_bytes(path), encoding=encoding, newline="")


def csv_batches(
    path: Path, *, encoding: str, delimiter: str, quoting: bool = True, columns: Sequence[str] | None = None
) -> Iterator[pa.Table]:
    """Read a CSV or TSV file, every column as text; quoted fields may hold delimiters and line ends.

    Args:
        quoting: whether a double quote at the start of a field opens a quoted one; False takes quotes as they are.
        columns: names of the columns of a file without a header; None takes those of its first row.

    Raises:
        DataError: naming file and line of a row with too few or too many fields, or an open quote; or for a file
            without rows, or with unusable column names.
    """
    rows, cells = 0, list[list[str]]()
    with suppress(csv.Error), _csv_file(path, encoding, delimiter, quoting, columns) as (names, reader):
        while block := list(islice(reader, _BLOCK)):
            if set(map(len, block)) != {len(names)}:
                block = [row for row in block if row]
                if any(len(row) != len(names) for row in block):
                    break
            cells = cells or [[] for _ in names]
            for column, part in zip(cells, zip(*block, strict=True), strict=False):
                column.extend(part)
            rows += len(block)
            if len(cells[0]) >= _BATCH:
                yield _table(names, cells)
                cells = []
        else:
            if cells and cells[0]:
                yield _table(names, cells)
            if rows:
                return
    # Something is wrong: reading row by row, which takes longer, raises an error that says where.
    for _ in csv_rows(path, encoding=encoding, delimiter=delimiter, quoting=quoting, columns=columns):
        pass
    raise DataError(f"{path}: the file changed while it was read: read it again")


def csv_header(path: Path, *, encoding: str | None, delimiter: str, quoting: bool = True) -> list[str]:
    """Return the column names of a CSV or TSV file; only its beginning is read.

    Args:
        encoding: None takes UTF-8 or that of a byte order mark, or else Latin-1, where every byte fits.

    Raises:
        DataError: for a file that cannot be read, or with unusable column names.
        ConfigError: for an unknown encoding.
    """
    for candidate in _likely_encodings(path, encoding):
        with suppress(UnicodeError), _csv_file(path, candidate, delimiter, quoting) as (names, _):
            return names
    raise AssertionError("every byte is Latin-1")


def _likely_encodings(path: Path, encoding: str | None) -> tuple[str, str]:
    """Return the encodings to try for the beginning of a file; every byte is of the last one."""
    with readable(path):
        return known_encoding(encoding) if encoding else marked_encoding(path) or "utf-8", "latin-1"


def csv_rows(
    path: Path,
    *,
    encoding: str,
    delimiter: str,
    quoting: bool = True,
    columns: Sequence[str] | None = None,
    bad: Callable[[DataError], None] = raised,
) -> Iterator[tuple[str, dict[str, str]]]:
    """Yield (place for messages, row by column names), as `csv_batches` reads them.

    Args:
        bad: takes the error of a row with too few or too many fields, which is then skipped; by default it is raised.
    """
    with _csv_file(path, encoding, delimiter, quoting, columns) as (names, reader):
        number = 0
        for number, (line, row) in enumerate(_rows(reader, path, delimiter), start=1):
            if len(row) == len(names):
                yield f"{path}, line {line}", dict(zip(names, row, strict=True))
            else:
                bad(_wrong_width(path, line, number, row, names, delimiter, is_named=columns is not None))
        if not number:
            raise DataError(f"{path}: the file has a header but no rows: give a file with rows")


@contextmanager
def _csv_file(
    path: Path, encoding: str, delimiter: str, quoting: bool, columns: Sequence[str] | None = None
) -> Iterator[tuple[list[str], Reader]]:
    """Open a CSV file; gives the names of its columns, and a reader of the rows."""
    with readable(path), open_text(path, encoding) as file, _long_fields():
        quotes: Literal[0, 3] = csv.QUOTE_MINIMAL if quoting else csv.QUOTE_NONE
        reader = csv.reader(file, delimiter=delimiter, quoting=quotes, strict=True)
        if columns is not None:
            yield checked_columns(list(columns), source=str(path)), reader
            return
        _, header = next(_rows(reader, path, delimiter), (0, []))
        if not header:
            raise DataError(f"{path}: the file is empty: give a file with a header line and rows")
        without_mark = [name.strip().lstrip("\ufeff") for name in header]
        or_else = f", or, if row 1 is data, name the columns with {as_argument('data.columns')}"
        yield checked_columns(without_mark, source=str(path), or_else=or_else), reader


def is_text(value: str) -> bool:
    """Whether a file can hold a text: none can hold half of a character pair."""
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True


def checked_columns(names: Sequence[str], *, source: str, or_else: str = "") -> list[str]:
    """Return the column names without blanks around them; a DataError says which is empty or given twice.

    A first column that alone has no name is `UNNAMED`.

    Args:
        or_else: another cure, to be added.
    """
    names = [name.strip() for name in names]
    if len(names) > 1 and not names[0] and all(names[1:]) and UNNAMED not in names:
        names = [UNNAMED, *names[1:]]
    seen = set[str]()
    for number, name in enumerate(names, start=1):
        if not name.isascii() and not is_text(name):
            raise DataError(f"{source}: the name of column {number}, {name!r}, is not text: correct it")
        if not name:
            is_title = sum(map(bool, names)) == 1 and (len(names) > 2 or names[0].startswith("sep="))
            cure = "remove the title above the header" if is_title else "name it in the header"
            by_pandas = "" if is_title else " (a table written by pandas: to_csv(..., index=False))"
            raise DataError(f"{source}: column {number} of {len(names)} has no name: {cure}{by_pandas}{or_else}")
        if name in seen:
            raise DataError(f"{source}: two columns are named {name!r}: give each its own name{or_else}")
        seen.add(name)
    return names


def compression_of(path: Path) -> str:
    """Return the ending of the compression of a file, by its name or else by its first bytes; "" for none."""
    if (ending := path.suffix.lower()) in COMPRESSED:
        return ending
    with path.open("rb") as file:
        start = file.read(8)
    return next((ending for mark, ending in _PACKED.items() if start.startswith(mark)), "")


def open_bytes(path: Path) -> IO[bytes]:
    """Open a file, decompressed.

    Raises:
        DataError: for a zip archive that holds several files, or is encrypted.
    """
    ending = compression_of(path)
    if ending == ".zip":
        archive = zipfile.ZipFile(path)
        try:
            return archive.open(_only_member(path, archive))
        except RuntimeError as error:
            raise DataError(f"{path}: the archive has a password: unpack it, and name the file in it") from error
    if ending == ".zst":
        return cast("IO[bytes]", pa.CompressedInputStream(pa.OSFile(str(path)), "zstd"))
    openers: dict[str, Callable[..., Any]] = {".gz": gzip.open, ".bz2": bz2.open, ".xz": lzma.open}
    return cast("IO[bytes]", openers.get(ending, open)(path, "rb"))


def inner_name(path: Path) -> str:
    """Return the name of what a file holds: that of the file in a zip archive, or its own without `COMPRESSED`."""
    if path.suffix.lower() != ".zip":
        return path.name[: -len(path.suffix)] if path.name.lower().endswith(COMPRESSED) else path.name
    with readable(path), zipfile.ZipFile(path) as archive:
        return _only_member(path, archive).filename


def _only_member(path: Path, archive: zipfile.ZipFile) -> zipfile.ZipInfo:
    """Return what an archive holds beside folders and what macOS adds."""
    members = [one for one in archive.infolist() if not one.is_dir() and not one.filename.startswith("__MACOSX/")]
    if len(members) != 1:
        names = ", ".join(one.filename for one in members[:5])
        raise DataError(f"{path}: the archive holds {len(members)} files ({names}): unpack it, and name one of them")
    return members[0]


def has_plain_quotes(path: Path, *, encoding: str, delimiter: str) -> bool:
    """Whether the quotes of a file are plain characters rather than around fields.

    They are if every line has as many fields as the first when quotes are plain, but not, or in fewer rows, when they
    enclose fields: a quoted field with a line end would cut a line into two with fewer fields each.
    """
    with suppress(csv.Error, DataError), _csv_file(path, encoding, delimiter, quoting=False, columns=()) as (_, reader):
        width, rows, quotes = 0, 0, 0
        for row in filter(None, reader):
            width, rows = width or len(row), rows + 1
            quotes += any(cell.startswith('"') for cell in row)
            if len(row) != width:
                return False
        return quotes > 0 and not _is_quoted(path, encoding, delimiter, width, rows)
    return False


def _is_quoted(path: Path, encoding: str, delimiter: str, width: int, rows: int) -> bool:
    try:
        with _csv_file(path, encoding, delimiter, quoting=True, columns=()) as (_, reader):
            found = [len(row) for row in filter(None, reader)]
    except csv.Error:
        return False
    return width == 1 or (len(found) == rows and set(found) == {width})


def find_delimiter(path: Path, *, encoding: str | None) -> str:
    """Return what stands between the fields of the first line: a comma, if it makes fields, or what makes most.

    Args:
        encoding: as for `csv_header`.
    """
    line = ""
    for candidate in _likely_encodings(path, encoding):
        with suppress(UnicodeError), readable(path), open_text(path, candidate) as file:
            line = next((line for line in file if line.strip()), "")
            break
    fields = {delimiter: _field_count(line, delimiter) for delimiter in _DELIMITERS}
    return max(_DELIMITERS, key=fields.__getitem__) if fields[","] < 2 else ","


def _field_count(line: str, delimiter: str) -> int:
    try:
        return len(next(csv.reader([line], delimiter=delimiter)))
    except csv.Error:
        return 0


def marked_encoding(path: Path) -> str | None:
    """Return the encoding that a byte order mark names."""
    with open_bytes(path) as file:
        start = file.read(4)
    return next((name for mark, name in _MARKS if start.startswith(mark)), None)


def known_encoding(encoding: str) -> str:
    """Return Python's name of an encoding of text files; ConfigError for another."""
    try:
        name = codecs.lookup(encoding).name
        "Aa1,\n".encode(name)  # a LookupError for codecs that are for bytes, or from text to text
    except (LookupError, ValueError) as error:  # a ValueError for a name with NUL
        raise ConfigError(f"unknown encoding {encoding!r}: try utf-8, cp1252, latin-1 or utf-16") from error
    if name in _NO_FILES:
        raise ConfigError(f"{encoding!r} is not an encoding of files: try utf-8, cp1252, latin-1 or utf-16")
    return "utf-8-sig" if name == "utf-8" else name


@contextmanager
def _long_fields() -> Iterator[None]:
    before = csv.field_size_limit(sys.maxsize)  # the module's own limit of 128 KiB is below a long document
    try:
        yield
    finally:
        csv.field_size_limit(before)


def _rows(reader: Reader, path: Path, delimiter: str) -> Iterator[tuple[int, list[str]]]:
    """Yield (first line, fields) of each row that is not blank."""
    start = reader.line_num + 1
    try:
        for row in reader:
            if row:
                yield start, row
            start = reader.line_num + 1
    except csv.Error as error:
        reason = "a quote is opened and never closed" if "unexpected end" in str(error) else str(error)
        raise DataError(
            f"{path}, row starting in line {start}: {reason}: double the quotes inside a quoted field, or, if the "
            f"quotes of the file are plain characters, read it with {as_argument('data.quoting', False)}"
        ) from error


def _wrong_width(
    path: Path, line: int, number: int, row: list[str], names: list[str], delimiter: str, *, is_named: bool
) -> DataError:
    start = shortened(delimiter.join(row), 60)
    wanted = f"{len(names)} columns are named" if is_named else f"the header has {len(names)}"
    if len(row) > len(names):
        cure = f"put fields that contain {delimiter!r} or a line end in double quotes"
        if len(names) == 1 and not is_named:
            cure += ", or remove the title above the header"
    else:
        cure = f"add the fields that are missing (an empty one has its {delimiter!r}, too), or remove the row"
    return DataError(
        f"{path}, line {line} (row {number}): {counted(len(row), 'field')}, but {wanted}; the row starts with "
        f"{start!r}: {cure}"
    )


def _table(names: list[str], columns: list[list[str]]) -> pa.Table:
    return pa.table([pa.array(column, type=pa.string()) for column in columns], names=names)


_BINARY = {
    b"PAR1": ".parquet",
    b"ARROW1": ".arrow",
    b"\xff\xff\xff\xff": ".arrow",
    b"\xd0\xcf\x11\xe0": ".xls",
}
_HEAD = 4096  # bytes
_JSON = re.compile(rb"\[\s*([{\[]|$)|\{\s*([\"}]|$)")
WORKBOOKS = (".xlsx", ".xls", ".xlsb", ".ods")
"""Endings of workbooks."""
_OTHERS = {
    b"version https://git-lfs.github.com/": (
        "a pointer of Git LFS, not the table itself",
        "fetch it with `git lfs pull`",
    ),
    b"<!doctype html": ("a page of HTML, not a table", "download the file itself, or save the table as CSV"),
    b"<html": ("a page of HTML, not a table", "download the file itself, or save the table as CSV"),
    b"<table": ("a page of HTML, not a table", "save the table as CSV"),
    b"<?xml": ("XML, not a table", "save the table as CSV"),
    b"%pdf-": ("a PDF document, not a table", "save the table as CSV"),
    b"sqlite format 3\0": ("a database of SQLite", "save the table that is wanted as CSV"),
}
"""How files begin that are no table, in small letters; what they are, and the cure."""


def kind_of(path: Path) -> str | None:
    """Return the ending of what a file holds, compressed or not; None for text that may be CSV.

    Raises:
        DataError: for a file that cannot be read.
    """
    with readable(path):
        with path.open("rb") as file:
            start = file.read(8)
        if found := next((ending for mark, ending in _BINARY.items() if start.startswith(mark)), None):
            return found
        if start.startswith(b"PK") and (found := _workbook_ending(path)) is not None:
            return found
        return ".json" if _JSON.match(_head(path)) else None


def refuse_other_kinds(path: Path) -> None:
    """Refuse a file that is certainly no table.

    Raises:
        DataError: saying what it is.
    """
    with readable(path):
        head = _head(path).lower()
    for mark, (what, cure) in _OTHERS.items():
        if head.startswith(mark):
            raise DataError(f"{path}: the file is {what}: {cure}")


def _head(path: Path) -> bytes:
    """Return how the text of a file begins, without a mark of its encoding and blanks."""
    with open_bytes(path) as file:
        return file.read(_HEAD).replace(b"\0", b"").lstrip(b"\xef\xbb\xbf\xff\xfe \t\r\n")


def _workbook_ending(path: Path) -> str | None:
    """Return the ending of a workbook, which is a zip archive as well; None for another archive."""
    with zipfile.ZipFile(path) as archive:
        names = archive.namelist()
    if "xl/workbook.bin" in names:
        return ".xlsb"
    if "xl/workbook.xml" in names:
        return ".xlsx"
    return ".ods" if "content.xml" in names else None


STDIN = "-"
"""The name of the standard input."""
_STDIN = "the standard input"  # in messages


def standard_input(file_format: str | None = None) -> Path:
    """Save the standard input to a temporary file, which ends with this process; the same file for each call.

    On Linux the file has no name, so that the disk has no copy however the process ends: the path is a link to it.

    Args:
        file_format: what it holds, as an ending without its dot; None finds it.

    Raises:
        ConfigError: when nothing is piped in, or it cannot be saved.
    """
    if sys.stdin is None or sys.stdin.isatty():
        raise ConfigError("there is nothing in the standard input: pipe a table in, as in `zcat t.csv.gz | attribune`")
    return _saved(sys.stdin.buffer, file_format)


@cache
def _saved(stream: IO[bytes], file_format: str | None) -> Path:
    with writing_temporarily(_STDIN):
        folder = Path(tempfile.mkdtemp(dir=temporary_folder()))
        path = _copied(stream, folder / "stdin")
    ending = f".{file_format}" if file_format is not None else kind_of(path) or ".csv"
    packed = "" if ending in WORKBOOKS else compression_of(path)
    named = path.rename(folder / f"stdin{'' if packed == '.zip' else ending}{packed}")
    call_file(str(named), _STDIN)
    return named


def _copied(stream: IO[bytes], path: Path) -> Path:
    """Save a stream so that it is read at a path."""
    open_files = Path(f"/proc/{os.getpid()}/fd")  # on Linux alone; a process that this one starts reads them there too
    if not open_files.is_dir():
        with path.open("wb") as file:
            shutil.copyfileobj(stream, file)
        return path
    unnamed = tempfile.TemporaryFile()  # noqa: SIM115 (open until the process ends)
    atexit.register(unnamed.close)
    shutil.copyfileobj(stream, unnamed)
    unnamed.flush()
    path.symlink_to(open_files / str(unnamed.fileno()))
    return path

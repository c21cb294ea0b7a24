"""Text files as they come: compressed or not, in whatever encoding, with any line ends; and CSV and TSV in them."""

from __future__ import annotations

import bz2
import codecs
import csv
import gzip
import io
import logging
import lzma
import sys
import warnings
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from itertools import islice
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Literal, cast

import pyarrow as pa

from attribune.core.wording import counted
from attribune.errors import AttribuneWarning, ConfigError, DataError

if TYPE_CHECKING:
    from _csv import Reader

__all__ = [
    "COMPRESSED",
    "checked_columns",
    "csv_batches",
    "csv_header",
    "csv_rows",
    "find_delimiter",
    "find_encoding",
    "inner_name",
    "is_text",
    "open_bytes",
    "open_text",
    "readable",
]

_log = logging.getLogger(__name__)
_CHUNK = 2**20
_BATCH = 10_000
_BLOCK = 256  # rows that are lists at once: with many more, the garbage collector takes most of the time
# Codecs of domain names and of the source code of Python, and one that refuses everything.
_NO_FILES = ("idna", "punycode", "raw-unicode-escape", "unicode-escape", "undefined")
_DELIMITERS = (",", ";", "\t", "|")
COMPRESSED = (".gz", ".bz2", ".xz", ".zst", ".zip")
"""Endings of compressed files; a zip archive must hold one file."""
_NOT_CP1252 = b"\x81\x8d\x8f\x90\x9d"
_MARKS = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)


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


def find_encoding(path: Path, *, encoding: str | None, cure: str | None = None) -> str:
    """Read the whole file once to find its encoding, or to check the one given; the file is never loaded whole.

    A byte order mark decides; else UTF-8, else Windows-1252, where every byte fits. The last resort is Latin-1, with
    a warning that counts the bytes which are not Windows-1252.

    Args:
        encoding: that the file must have; None detects it.
        cure: the advice of messages; by default to give the encoding.

    Raises:
        DataError: for a file that is not in the given encoding, or contains a NUL character.
        ConfigError: for an unknown encoding.
    """
    with readable(path):
        if encoding is not None:
            return _checked(path, _known(encoding), cure)
        if (marked := _marked(path)) is not None:
            return _checked(path, marked, cure)
        for candidate in ("utf-8", "cp1252"):
            problem = _first_problem(path, candidate, cure)
            if problem is None:
                _log.info("%s is read as %s", path, candidate)
                return candidate
        _first_problem(path, "latin-1", cure)
        misfits = counted(_count(path, _NOT_CP1252), "byte fits", "bytes fit")
        warnings.warn(
            f"{path} is neither UTF-8 nor Windows-1252 ({misfits} neither): it is read as Latin-1, and some "
            "characters may be wrong; "
            f"{cure or 'name the encoding with --encoding if you know it'}",
            AttribuneWarning,
            stacklevel=2,
        )
        return "latin-1"


def csv_batches(path: Path, *, encoding: str, delimiter: str, quoting: bool = True) -> Iterator[pa.Table]:
    """Read a CSV or TSV file, every column as text; quoted fields may hold delimiters and line ends.

    Args:
        quoting: whether a double quote at the start of a field opens a quoted one; False takes quotes as they are.

    Raises:
        DataError: naming file and line of a row with too few or too many fields, or an open quote; or for a file
            without rows, or with unusable column names.
    """
    rows, columns = 0, list[list[str]]()
    with suppress(csv.Error), _csv_file(path, encoding, delimiter, quoting) as (names, reader):
        while block := list(islice(reader, _BLOCK)):
            if set(map(len, block)) != {len(names)}:
                block = [row for row in block if row]
                if any(len(row) != len(names) for row in block):
                    break
            columns = columns or [[] for _ in names]
            for column, part in zip(columns, zip(*block, strict=True), strict=False):
                column.extend(part)
            rows += len(block)
            if len(columns[0]) >= _BATCH:
                yield _table(names, columns)
                columns = []
        else:
            if columns and columns[0]:
                yield _table(names, columns)
            if rows:
                return
    # Something is wrong: reading row by row, which takes longer, raises an error that says where.
    for _ in csv_rows(path, encoding=encoding, delimiter=delimiter, quoting=quoting):
        pass
    raise DataError(f"{path}: the file changed while it was read: read it again")


def csv_header(path: Path, *, encoding: str | None, delimiter: str) -> list[str]:
    """Return the column names of a CSV or TSV file; only its beginning is read.

    Args:
        encoding: None takes the first encoding that fits, of those that `find_encoding` tries.

    Raises:
        DataError: for a file that cannot be read, or with unusable column names.
        ConfigError: for an unknown encoding.
    """
    for candidate in _likely_encodings(path, encoding):
        with suppress(UnicodeError), _csv_file(path, candidate, delimiter, quoting=True) as (names, _):
            return names
    raise AssertionError("every byte is Latin-1")


def _likely_encodings(path: Path, encoding: str | None) -> tuple[str, str]:
    """Return the encodings to try for the beginning of a file; every byte is of the last one."""
    with readable(path):
        return _known(encoding) if encoding else _marked(path) or "utf-8", "latin-1"


def csv_rows(
    path: Path, *, encoding: str, delimiter: str, quoting: bool = True, bad: Callable[[DataError], None] | None = None
) -> Iterator[tuple[str, dict[str, str]]]:
    """Yield (place for messages, row by column names), as `csv_batches` reads them.

    Args:
        bad: takes the error of a row with too few or too many fields, which is then skipped; None raises it.
    """
    with _csv_file(path, encoding, delimiter, quoting) as (names, reader):
        number = 0
        for number, (line, row) in enumerate(_rows(reader, path, delimiter), start=1):
            if len(row) == len(names):
                yield f"{path}, line {line}", dict(zip(names, row, strict=True))
                continue
            error = _wrong_width(path, line, number, row, names, delimiter)
            if bad is None:
                raise error
            bad(error)
        if not number:
            raise DataError(f"{path}: the file has a header but no rows: give a file with rows")


@contextmanager
def _csv_file(path: Path, encoding: str, delimiter: str, quoting: bool) -> Iterator[tuple[list[str], Reader]]:
    """Open a CSV file; gives the names of its columns, and a reader of the rows after them."""
    with readable(path), open_text(path, encoding) as file, _long_fields():
        quotes: Literal[0, 3] = csv.QUOTE_MINIMAL if quoting else csv.QUOTE_NONE
        reader = csv.reader(file, delimiter=delimiter, quoting=quotes, strict=True)
        _, header = next(_rows(reader, path, delimiter), (0, []))
        if not header:
            raise DataError(f"{path}: the file is empty: give a file with a header line and rows")
        yield checked_columns([name.strip().lstrip("\ufeff") for name in header], source=str(path)), reader


def is_text(value: str) -> bool:
    """Whether a file can hold a text: none can hold half of a character pair."""
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True


def checked_columns(names: list[str], *, source: str) -> list[str]:
    """Return the column names; a DataError says which is empty or given twice."""
    for number, name in enumerate(names, start=1):
        if not name.isascii() and not is_text(name):
            raise DataError(f"{source}: the name of column {number}, {name!r}, is not text: correct it")
        if not name:
            raise DataError(
                f"{source}: column {number} of {len(names)} has no name: name it in the header "
                "(a table written by pandas: to_csv(..., index=False))"
            )
        if names.index(name) != number - 1:
            raise DataError(f"{source}: two columns are named {name!r}: give each its own name")
    return names


def open_bytes(path: Path) -> IO[bytes]:
    """Open a file, decompressed by its ending.

    Raises:
        DataError: for a zip archive that holds several files, or is encrypted.
    """
    ending = path.suffix.lower()
    if ending == ".zip":
        return _open_zip(path)
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


def _open_zip(path: Path) -> IO[bytes]:
    archive = zipfile.ZipFile(path)
    try:
        return archive.open(_only_member(path, archive))
    except RuntimeError as error:
        raise DataError(f"{path}: the archive has a password: unpack it, and name the file in it") from error


def _only_member(path: Path, archive: zipfile.ZipFile) -> zipfile.ZipInfo:
    """Return what an archive holds beside folders and what macOS adds."""
    members = [one for one in archive.infolist() if not one.is_dir() and not one.filename.startswith("__MACOSX/")]
    if len(members) != 1:
        names = ", ".join(one.filename for one in members[:5])
        raise DataError(f"{path}: the archive holds {len(members)} files ({names}): unpack it, and name one of them")
    return members[0]


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
    found = max(_DELIMITERS, key=fields.__getitem__) if fields[","] < 2 else ","
    if found != ",":
        _log.info("%s is read with %r between its fields", path, found)
    return found


def _field_count(line: str, delimiter: str) -> int:
    try:
        return len(next(csv.reader([line], delimiter=delimiter)))
    except csv.Error:
        return 0


def _marked(path: Path) -> str | None:
    """Return the encoding that a byte order mark names."""
    with open_bytes(path) as file:
        start = file.read(4)
    return next((name for mark, name in _MARKS if start.startswith(mark)), None)


def _known(encoding: str) -> str:
    try:
        name = codecs.lookup(encoding).name
        "Aa1,\n".encode(name)  # a LookupError for codecs that are for bytes, or from text to text
    except (LookupError, ValueError) as error:  # a ValueError for a name with NUL
        raise ConfigError(f"unknown encoding {encoding!r}: try utf-8, cp1252, latin-1 or utf-16") from error
    if name in _NO_FILES:
        raise ConfigError(f"{encoding!r} is not an encoding of files: try utf-8, cp1252, latin-1 or utf-16")
    return "utf-8-sig" if name == "utf-8" else name


def _checked(path: Path, encoding: str, cure: str | None) -> str:
    problem = _first_problem(path, encoding, cure)
    if problem is not None:
        raise DataError(
            f"{path}, {problem}, so the file is not {encoding}: "
            f"{cure or 'name the right encoding with --encoding, or leave it out to have it found'}"
        )
    return encoding


def _first_problem(path: Path, encoding: str, cure: str | None) -> str | None:
    """Say where the file is first not in this encoding; None when it is. A NUL is an error in every encoding."""
    bytes_decoder = codecs.getincrementaldecoder(encoding)("strict")
    decoder = io.IncrementalNewlineDecoder(bytes_decoder, translate=True)
    read, lines = 0, 1
    with open_bytes(path) as file:
        while True:
            chunk = file.read(_CHUNK)
            pending = len(bytes_decoder.getstate()[0])
            try:
                text = decoder.decode(chunk, final=not chunk)
            except UnicodeError as error:
                return _describe(error, read - pending, lines)
            if "\0" in text:
                line = lines + text[: text.index("\0")].count("\n")
                raise DataError(
                    f"{path}, line {line}: a NUL character, which no text holds: "
                    f"{cure or 'remove it, or name the encoding with --encoding if the file is UTF-16'}"
                )
            if not chunk:
                return None
            read += len(chunk)
            lines += text.count("\n")


def _describe(error: UnicodeError, offset: int, lines: int) -> str:
    if not isinstance(error, UnicodeDecodeError):
        return f"line {lines}: {error}"
    before = error.object[: error.start].decode(error.encoding, "replace")
    line = lines + before.count("\n") + before.replace("\r\n", "").count("\r")
    shown = error.object[error.start : error.start + 1].hex()
    return f"line {line}: byte {shown} at position {offset + error.start:,} cannot be decoded"


def _count(path: Path, unwanted: bytes) -> int:
    total = 0
    with open_bytes(path) as file:
        while chunk := file.read(_CHUNK):
            total += len(chunk) - len(chunk.translate(None, unwanted))
    return total


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
            f"{path}, row starting in line {start}: {reason}: double the quotes inside a quoted field, or read the "
            "file with quoting=False if its quotes are plain characters"
        ) from error


def _wrong_width(path: Path, line: int, number: int, row: list[str], names: list[str], delimiter: str) -> DataError:
    start = delimiter.join(row)[:60]
    return DataError(
        f"{path}, line {line} (row {number}): {len(row)} fields, but the header has {len(names)}; the row starts with "
        f"{start!r}: put fields that contain {delimiter!r} or a line end in double quotes"
    )


def _table(names: list[str], columns: list[list[str]]) -> pa.Table:
    return pa.table([pa.array(column, type=pa.string()) for column in columns], names=names)

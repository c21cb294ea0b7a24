"""Traces of values: marks by which they are found in files of this package, and a search of all other files.

The marks beside stored predictions and in exports tell the rows of a value without the table that they came from, and
an export for a value without its name. A mark is a hash of 64 bits. It is no secret: who can guess a value can find its
rows, as in the vocabulary.

A search has three outcomes for each file: it has a value, it was read whole and has none, or it is not searched, with
the reason. `docs/promises.md` says which files are which.
"""

from __future__ import annotations

import base64
import binascii
import bz2
import codecs
import html
import io
import json
import lzma
import os
import quopri
import re
import unicodedata
import zipfile
import zlib
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import unquote_plus

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from attribune.core.checksums import agrees
from attribune.core.hashing import checksum, text_numbers
from attribune.schema import Schema
from attribune.schema.columns import Table, canonical, other_spellings

_UNSPACED = "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u2e80-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"  # no word spaces
_SHORT = re.compile(rf"\w|[^\W\d{_UNSPACED}]{{2}}|[-+.\d]+")  # values that must be a whole cell or string
# Of white space in a line, `_closed_up` leaves one character, as patterns with two repetitions of it take forever.
_BEFORE_CELL, _AFTER_CELL = r"(?:^|[,;|\t\"'<>:=\[\]{}]) ?(?:-[ \t])?", r" ?(?=$|[,;|\t\"'<>:=\[\]{}])"
_BLANKS = re.compile(r"[ \t]+")
_BEFORE_WORD, _AFTER_WORD = r"(?<![^\W_])", r"(?![^\W_])"
_ESCAPE = re.compile(r"\\(?:u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|x([0-9a-fA-F]{2})|(.))", re.DOTALL)
_TAG = re.compile(r"<[^<>]*>")
_BASE64 = re.compile(r"[A-Za-z0-9+/_-]{4,}")
_LINE_OF_BASE64 = re.compile(r"(?<=[A-Za-z0-9+/]{60})\r?\n")
_MARKS = {
    codecs.BOM_UTF32_LE: "utf-32",  # before the mark of UTF-16, with which it begins
    codecs.BOM_UTF32_BE: "utf-32",
    codecs.BOM_UTF16_LE: "utf-16",
    codecs.BOM_UTF16_BE: "utf-16",
    codecs.BOM_UTF8: "utf-8-sig",
}
_NO_TEXT = re.compile(r"[\0-\x06\x0e-\x1a\x1c-\x1f]|\x1b[^\[]|^(?:%PDF|%!PS|\{\\rtf)")
_DEPTH = 4  # archives inside archives
_MOST = 1 << 30  # bytes of a file with all that is packed in it; a cell of a table counts as eight


class _UnsearchedError(Exception):
    """A file, or a part of one, cannot be read; the text is the reason."""


@dataclass(frozen=True, kw_only=True)
class Searched:
    """What a search found.

    Attributes:
        places: files that have a value, and files and folders that have it in their names.
        unsearched: files that were not read whole, and the reason.
    """

    places: list[Path] = field(default_factory=list)
    unsearched: dict[Path, str] = field(default_factory=dict)


class Wanted:
    """Values as texts are searched for them.

    A value must be a word of the text, or several, with any white space between them; values of one or two letters,
    and numbers, must be a whole cell or string. Letters and their accents may be one character or two (NFC, NFD).
    """

    def __init__(self, values: Iterable[str]) -> None:
        spelled = [text for value in values for text in (value, *other_spellings(value))]
        self._texts = [unicodedata.normalize("NFC", text) for text in spelled]
        patterns = "|".join(map(_pattern, self._texts))
        self._pattern = re.compile(patterns, re.MULTILINE)
        self._any_case = re.compile(patterns, re.MULTILINE | re.IGNORECASE)

    def is_in(self, text: str, *, any_case: bool = False) -> bool:
        """Whether a text has a value, as it stands."""
        pattern = self._any_case if any_case else self._pattern
        return pattern.search(_closed_up(unicodedata.normalize("NFC", text))) is not None

    def is_in_readings(self, text: str) -> bool:
        """Whether a text has a value, as it stands or once what is escaped or encoded in it is read."""
        return self.is_in(text) or any(self.is_in(reading) for reading in _readings(text) if reading != text)

    def is_in_name(self, name: str) -> bool:
        """Whether the name of a file has a value; a short one must be all of it, without the ending."""
        return self.is_in(name.partition(".")[0]) or self.is_in(name)


def _closed_up(text: str) -> str:
    """Put a space, or a tab if there is one, in place of all white space at each place of a line."""
    return _BLANKS.sub(lambda found: "\t" if "\t" in found[0] else " ", text)


def _pattern(value: str) -> str:
    text = r"\s+".join(map(re.escape, value.split()))
    if _SHORT.fullmatch(value):
        decimals = r"(?:\.0+)?" if value.lstrip("-").isdecimal() else ""
        return f"{_BEFORE_CELL}{text}{decimals}{_AFTER_CELL}"
    unspaced = re.compile(f"[{_UNSPACED}]")
    before = "" if unspaced.match(value[0]) else _BEFORE_WORD
    return f"{before}{text}{'' if unspaced.match(value[-1]) else _AFTER_WORD}"


def search_files(wanted: Wanted, folder: Path, *, known: Collection[Path] = frozenset()) -> Searched:
    """Search all files below a folder, and the names of files and folders.

    Args:
        known: files that are not searched, since it is known what they have.
    """
    result = Searched()
    known_folders = {parent for path in known for parent in path.parents}

    def unreadable(error: OSError) -> None:
        result.unsearched[Path(error.filename)] = f"it cannot be read ({error.strerror})"

    for parent, folders, files in os.walk(folder, onerror=unreadable):
        folders.sort()
        for path in sorted(Path(parent, name) for name in (*folders, *files)):
            if path in known or (path in known_folders and path.is_dir()):
                continue
            try:
                if wanted.is_in_name(path.name) or _is_in_file(wanted, path):
                    result.places.append(path)
            except _UnsearchedError as reason:
                result.unsearched[path] = str(reason)
    return result


def _is_in_file(wanted: Wanted, path: Path) -> bool:
    if path.is_dir():
        if path.is_symlink():
            raise _UnsearchedError(f"it is a link to the folder {os.readlink(path)}")
        return False
    if not path.is_file():
        raise _UnsearchedError("it is not a file, or a link to one that is gone")
    try:
        room = _Room()
        room.take(path.stat().st_size)
        return any(map(wanted.is_in_readings, _texts_of(path.read_bytes(), room)))
    except MemoryError as error:
        raise _UnsearchedError("there is too little memory for it") from error
    except OSError as error:
        raise _UnsearchedError(f"it cannot be read ({error.strerror or error})") from error


@dataclass
class _Room:
    """How many bytes may still be read of a file, so that small archives of very much end."""

    left: int = field(default_factory=lambda: _MOST)

    def take(self, size: int) -> None:
        self.left -= size
        if self.left < 0:
            raise _UnsearchedError(f"it has more than {_MOST >> 20:,} MB, with what is packed in it")


def _texts_of(data: bytes, room: _Room, depth: int = 0) -> Iterator[str]:
    """Yield all texts in a file, by what its content says it is.

    Raises:
        _UnsearchedError: for a file that cannot be read whole.
    """
    for start, read in _PACKED.items():
        if data.startswith(start):
            if depth == _DEPTH:
                raise _UnsearchedError(f"it has archives in archives, more than {_DEPTH} deep")
            for name, content in _read(read, data, room):
                yield name
                yield from _texts_of(content, room, depth + 1)
            return
    for start, open_table in _TABLES.items():
        if data.startswith(start):
            yield from _read(partial(_texts_of_table, open_table), data, room)
            return
    yield _decoded(data)


def _read(read: Callable[[bytes, _Room], Iterator[Any]], data: bytes, room: _Room) -> Iterator[Any]:
    """Yield what a function reads from a file; what a damaged one leads to is one error."""
    try:
        yield from read(data, room)
    except (_UnsearchedError, MemoryError):
        raise
    except Exception as error:  # of zipfile, zlib, bz2, lzma and pyarrow, for what is damaged or encrypted
        raise _UnsearchedError(f"it is damaged or encrypted ({error})") from error


def _decoded(data: bytes) -> str:
    encoding = next((name for mark, name in _MARKS.items() if data.startswith(mark)), "utf-8")
    try:
        text = data.decode(encoding)
    except UnicodeDecodeError as error:
        raise _UnsearchedError(
            "it is not of a type that is read: its text is neither UTF-8 nor marked as UTF-16 or UTF-32"
        ) from error
    if _NO_TEXT.search(text):
        raise _UnsearchedError("it is not of a type that is read")
    return text


def _readings(text: str) -> Iterator[str]:
    """Yield a text as programs read it that know the usual ways to write letters in other letters."""
    yield html.unescape(text)
    yield html.unescape(_TAG.sub("", text))
    yield unquote_plus(text)
    yield _ESCAPE.sub(_unescaped, text).encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    yield text.replace('""', '"').replace("''", "'")  # quotes in CSV and YAML
    yield quopri.decodestring(text.encode(errors="replace")).decode(errors="replace")
    yield "\n".join(_decoded_base64(_LINE_OF_BASE64.sub("", text)))


def _unescaped(found: re.Match[str]) -> str:
    number = found[1] or found[2] or found[3]
    if number is None:
        return {"n": "\n", "r": "\r", "t": "\t"}.get(found[4], found[4])
    return chr(int(number, 16)) if int(number, 16) < 0x110000 else "\ufffd"


def _decoded_base64(text: str) -> Iterator[str]:
    for found in _BASE64.finditer(text):
        run = found[0].replace("-", "+").replace("_", "/")
        try:
            yield base64.b64decode(run + "=" * (-len(run) % 4)).decode()
        except (binascii.Error, UnicodeDecodeError):
            continue


def _texts_of_table(open_table: Callable[[Any, _Room], pa.Table], data: bytes, room: _Room) -> Iterator[str]:
    """Yield the names, the metadata and the cells of a table, a column as one text with a line for each cell."""
    table = open_table(pa.BufferReader(data), room)
    for metadata in (table.schema.metadata, *(one.metadata for one in table.schema)):
        for pair in (metadata or {}).items():
            yield from map(_decoded, pair)
    for name, column in zip(table.column_names, table.columns, strict=True):
        yield name
        for chunk in column.chunks:
            entries = chunk.dictionary if pa.types.is_dictionary(chunk.type) else chunk  # also those of no row
            yield "\n".join(_cells(entries.to_pylist()))


def _cells(tree: Any) -> Iterator[str]:
    """Yield the texts of nested values, keys among them."""
    if isinstance(tree, str):
        yield tree
    elif isinstance(tree, bytes):
        yield _decoded(tree)
    elif isinstance(tree, dict):
        yield from map(str, tree)
        yield from _cells(list(tree.values()))
    elif isinstance(tree, list | tuple):
        for item in tree:
            yield from _cells(item)
    else:
        yield canonical(tree) or ""


def _parquet(source: Any, room: _Room) -> pa.Table:
    file = pq.ParquetFile(source)
    room.take(8 * file.metadata.num_rows * file.metadata.num_columns)
    return file.read()


def _unzipped(data: bytes, room: _Room) -> Iterator[tuple[str, bytes]]:
    archive = zipfile.ZipFile(io.BytesIO(data))
    end = data.rfind(b"PK\x05\x06") + 22 + len(archive.comment)
    first = min((member.header_offset for member in archive.infolist()), default=0)
    if first or end != len(data):
        raise _UnsearchedError("it has more than its list of files says")
    yield _decoded(archive.comment), b""
    room.take(sum(member.file_size for member in archive.infolist()))
    for member in archive.infolist():
        yield member.filename, b"" if member.is_dir() else archive.read(member)


def _decompressed(data: bytes, room: _Room, make: Callable[[], Any]) -> Iterator[tuple[str, bytes]]:
    parts: list[bytes] = []
    while data:
        stream = make()
        parts.append(stream.decompress(data, room.left + 1))
        room.take(len(parts[-1]))
        if not stream.eof:
            raise _UnsearchedError("its end is missing")
        data = stream.unused_data
    yield "", b"".join(parts)


def _gunzipped(data: bytes, room: _Room) -> Iterator[tuple[str, bytes]]:
    if data[3] & 8:  # the name of the file that was compressed
        yield data[10:].split(b"\0", 1)[0].decode("latin-1"), b""
    yield from _decompressed(data, room, lambda: zlib.decompressobj(31))


_PACKED: dict[bytes, Callable[[bytes, _Room], Iterator[tuple[str, bytes]]]] = {
    b"PK\x03\x04": _unzipped,
    b"\x1f\x8b": _gunzipped,
    b"BZh": lambda data, room: _decompressed(data, room, bz2.BZ2Decompressor),
    b"\xfd7zXZ": lambda data, room: _decompressed(data, room, lzma.LZMADecompressor),
}
_TABLES: dict[bytes, Callable[[Any, _Room], pa.Table]] = {
    b"PAR1": _parquet,
    b"ARROW1": lambda source, room: pa.ipc.open_file(source).read_all(),
    b"\xff\xff\xff\xff": lambda source, room: pa.ipc.open_stream(source).read_all(),
}


EXPORT_MARKS = "attribune_values.json"
"""The file, in an exported folder or archive, that says whose vectors are in it."""
_EXPORT_FORMAT = "attribune-values"

Arrays = dict[str, npt.NDArray[Any]]
_START, _ROWS, _HASHES = "values.", ".rows", ".hashes"


def value_marks(table: Table, schema: Schema) -> Arrays:
    """Mark the values of all rows: for each attribute with a vocabulary, ``rows`` and ``hashes`` of equal length.

    A row with several values has several marks; values that training has not seen have theirs too.
    """
    marks: Arrays = {}
    for name in [attribute.name for attribute in schema if attribute.spec.lists_values]:
        rows, hashes = [np.zeros(0, np.int64)], [np.zeros(0, np.uint64)]
        for first, cells in schema.cells(table, name):
            rows.append(cells.rows + first - 1)
            hashes.append(text_numbers(cells.texts)[cells.codes])
        marks[f"{_START}{name}{_ROWS}"] = np.concatenate(rows)
        marks[f"{_START}{name}{_HASHES}"] = np.concatenate(hashes)
    return marks


def marked_rows(arrays: Mapping[str, npt.NDArray[Any]], attribute: str, values: Sequence[str]) -> Any:
    """Return the positions of the rows with one of the values, (k,); None where a run has no marks."""
    hashes = arrays.get(f"{_START}{attribute}{_HASHES}")
    if hashes is None:
        return None
    return np.unique(arrays[f"{_START}{attribute}{_ROWS}"][np.isin(hashes, text_numbers(values))])


def drop_rows(arrays: Mapping[str, npt.NDArray[Any]], positions: npt.NDArray[np.int64]) -> Arrays:
    """Return the arrays of stored scores, (n, ...) each, and their marks, without the rows at some positions."""
    remains = np.ones(len(arrays["rows"]), dtype=bool)
    remains[positions] = False
    moved = np.cumsum(remains) - 1
    dropped: Arrays = {}
    for name, array in arrays.items():
        if not name.startswith(_START):
            dropped[name] = np.ascontiguousarray(array[remains])
        elif name.endswith(_ROWS):
            stays = remains[array]
            hashes = f"{name.removesuffix(_ROWS)}{_HASHES}"
            dropped[name], dropped[hashes] = moved[array[stays]], np.ascontiguousarray(arrays[hashes][stays])
    return dropped


def export_marks(values: Mapping[str, Iterable[str]], files: Mapping[str, Any] | None = None) -> str:
    """Return the marks of the values whose vectors an export has, as JSON, with a checksum of themselves.

    Args:
        values: by attribute.
        files: the files of an exported folder, with the checksum of each.
    """
    marks = {name: [f"{mark:016x}" for mark in text_numbers(sorted(texts)).tolist()] for name, texts in values.items()}
    content = {"values": marks, "files": dict(sorted((files or {}).items()))}
    return json.dumps({"format": _EXPORT_FORMAT, **content, "checksum": _checksum(content)})


def _checksum(content: Mapping[str, Any]) -> str:
    text = json.dumps([content["values"], content["files"]], sort_keys=True)
    return checksum([text.encode()], size=16)


@dataclass(frozen=True, kw_only=True)
class MarkedExport:
    """An export below a folder.

    Args:
        path: of its file or folder.
        files: all of its files that have not changed since.
        marks: of the values whose vectors it has, by attribute.
    """

    path: Path
    files: tuple[Path, ...]
    marks: Mapping[str, Sequence[str]]

    def has(self, attribute: str, values: Sequence[str]) -> bool:
        """Whether it has a vector of one of the values."""
        return not {f"{mark:016x}" for mark in text_numbers(values).tolist()}.isdisjoint(self.marks.get(attribute, ()))


def marked_exports(folder: Path) -> Iterator[MarkedExport]:
    """Yield the exports below a folder that have marks; those of earlier releases, and damaged ones, have none."""
    for path in sorted(folder.rglob(EXPORT_MARKS)):
        if content := _export_content(path.read_bytes()):
            files = {path.parent / Path(name).name: checksum for name, checksum in content["files"].items()}
            unchanged = (file for file, checksum in files.items() if agrees(file, checksum))
            yield MarkedExport(path=path.parent, files=(path, *unchanged), marks=content["values"])
    for path in sorted((*folder.rglob("*.onnx"), *folder.rglob("*.pt2"))):
        if content := _export_content(_archived(path) if path.suffix == ".pt2" else path.read_bytes()):
            yield MarkedExport(path=path, files=(path,), marks=content["values"])


def _archived(path: Path) -> bytes:
    """Read the marks in a file of ``torch.export``; nothing without any."""
    if not zipfile.is_zipfile(path):
        return b""
    with zipfile.ZipFile(path) as archive:
        names = [name for name in archive.namelist() if name.rpartition("/")[2] == EXPORT_MARKS]
        return archive.read(names[0]) if len(names) == 1 else b""


def _export_content(data: bytes) -> dict[str, Any] | None:
    """Find what `export_marks` wrote in the bytes of a file; None without it."""
    start = data.find(f'{{"format": "{_EXPORT_FORMAT}"'.encode())
    if start < 0:
        return None
    try:
        content: dict[str, Any] = json.JSONDecoder().raw_decode(data[start:].decode("utf-8", "replace"))[0]
    except ValueError:
        return None
    is_whole = isinstance(content.get("values"), dict) and isinstance(content.get("files"), dict)
    return content if is_whole and content.get("checksum") == _checksum(content) else None

"""The standard input as a file, which can be read as often as any other."""

from __future__ import annotations

import atexit
import shutil
import sys
import tempfile
import zipfile
from functools import cache
from pathlib import Path
from typing import IO

from attribune.data.text_files import open_bytes, readable
from attribune.errors import ConfigError

__all__ = ["STDIN", "standard_input"]

STDIN = "-"
"""The name of the standard input."""
_COMPRESSED = {b"\x1f\x8b": ".gz", b"BZh": ".bz2", b"\xfd7zXZ": ".xz", b"\x28\xb5\x2f\xfd": ".zst"}
_BINARY = {b"PAR1": ".parquet", b"ARROW1": ".arrow", b"\xff\xff\xff\xff": ".arrow", b"\xd0\xcf\x11\xe0": ".xls"}
_HEAD = 4096  # bytes by which text is told from text


def standard_input(file_format: str | None = None) -> Path:
    """Save the standard input to a temporary file, which is removed when Python ends; the same file for each call.

    Args:
        file_format: what it holds, as an ending without its dot; None finds it.

    Raises:
        ConfigError: when nothing is piped in.
    """
    if sys.stdin is None or sys.stdin.isatty():
        raise ConfigError("there is nothing in the standard input: pipe a table in, as in `zcat t.csv.gz | attribune`")
    return _saved(sys.stdin.buffer, file_format)


@cache
def _saved(stream: IO[bytes], file_format: str | None) -> Path:
    folder = Path(tempfile.mkdtemp(prefix="attribune-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    path = folder / "stdin"
    with path.open("wb") as file:
        shutil.copyfileobj(stream, file)
    packed = path.rename(folder / f"stdin{_match(path, _COMPRESSED)}")
    if _is_archive(packed):
        return packed.rename(folder / f"stdin{_archive_ending(packed)}")
    ending = _table_ending(packed) if file_format is None else f".{file_format}"
    return packed.rename(folder / f"stdin{ending}{packed.suffix}")


def _match(path: Path, marks: dict[bytes, str]) -> str:
    """Return the ending of the mark with which a file begins; "" where it begins with none."""
    with path.open("rb") as file:
        head = file.read(8)
    return next((ending for mark, ending in marks.items() if head.startswith(mark)), "")


def _is_archive(path: Path) -> bool:
    return path.suffix == "" and zipfile.is_zipfile(path)


def _archive_ending(path: Path) -> str:
    """Return the ending of a workbook, which is a zip archive as well, or of an archive of a text file."""
    with zipfile.ZipFile(path) as archive:
        names = archive.namelist()
    if "xl/workbook.bin" in names:
        return ".xlsb"
    if "xl/workbook.xml" in names:
        return ".xlsx"
    return ".ods" if "content.xml" in names else ".zip"


def _table_ending(path: Path) -> str:
    """Return the ending of what a file holds, compressed or not; CSV unless anything else is found."""
    if ending := _match(path, _BINARY):
        return ending
    with readable(path), open_bytes(path) as file:
        head = file.read(_HEAD)
    text = head.replace(b"\0", b"").lstrip(b"\xef\xbb\xbf\xff\xfe \t\r\n")
    return ".json" if text.startswith((b"[", b"{")) else ".csv"

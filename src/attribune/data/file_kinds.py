"""What a file holds, by the bytes with which it begins, whatever its name ends in."""

from __future__ import annotations

import re
import zipfile
from pathlib import Path

from attribune.data.text_files import open_bytes, readable
from attribune.errors import DataError

__all__ = ["WORKBOOKS", "kind_of", "refuse_other_kinds"]

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

"""Workbooks of Excel: how large the sheet is that a reader would lay out in memory."""

from __future__ import annotations

import re
import zipfile
from collections.abc import Iterator
from pathlib import Path
from posixpath import join, normpath

from attribune.core.process import require_memory

__all__ = ["check_sheet"]

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
        with zipfile.ZipFile(path) as archive:
            name = _first_sheet(archive)
            if name is None:
                return
            with archive.open(name) as sheet:
                rows, columns, last = _extent(iter(lambda: sheet.read(_BLOCK), b""))
    except (zipfile.BadZipFile, KeyError, OSError, NotImplementedError, RuntimeError):
        return  # another kind of workbook, or a damaged one, which its reader names
    require_memory(
        rows * columns * _BYTES_OF_CELL,
        what=f"{path}: its first sheet, of {rows:,} rows and {columns:,} columns up to the cell {last},",
        cure="delete cells far from the table, or save the table as CSV",
    )


def _first_sheet(archive: zipfile.ZipFile) -> str | None:
    """Return the name of the first sheet within the archive."""
    sheet = _SHEET.search(archive.read("xl/workbook.xml"))
    if sheet is None:
        return None
    for relation in _RELATION.findall(archive.read("xl/_rels/workbook.xml.rels")):
        target = re.search(rb"\bTarget=\"([^\"]+)\"", relation)
        if target is not None and re.search(rb"\bId=\"" + re.escape(sheet[1]) + rb"\"", relation):
            return normpath(join("/xl", target[1].decode())).lstrip("/")
    return None


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

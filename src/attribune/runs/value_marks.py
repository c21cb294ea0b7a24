"""Marks of attribute values beside stored predictions and in exports, which are found by them.

The rows of a value are found without the table that they came from, and an export for a value without its name. A mark
is a hash of 64 bits. It is no secret: who can guess a value can find its rows, as in the vocabulary.
"""

from __future__ import annotations

import json
import zipfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from attribune.core.checksums import agrees
from attribune.core.hashing import checksum, text_numbers
from attribune.schema import Schema
from attribune.schema.attributes import read_cells
from attribune.schema.columns import Table, canonical, column_batches

__all__ = ["EXPORT_MARKS", "MarkedExport", "drop_rows", "export_marks", "marked_exports", "marked_rows", "value_marks"]

EXPORT_MARKS = "attribune_values.json"
"""The file, in an exported folder or archive, that says whose vectors are in it."""
_EXPORT_FORMAT = "attribune-values"

Arrays = dict[str, npt.NDArray[Any]]
_START, _ROWS, _HASHES = "values.", ".rows", ".hashes"


def value_marks(table: Table, schema: Schema) -> Arrays:
    """Mark the values of all rows: for each attribute with a vocabulary, ``rows`` and ``hashes`` of equal length.

    A row with several values has several marks; values that training has not seen have theirs too.
    """
    missing = frozenset(text for text in map(canonical, schema.missing) if text is not None)
    marks: Arrays = {}
    for spec in [attribute.spec for attribute in schema if attribute.spec.lists_values]:
        rows, hashes = [np.zeros(0, np.int64)], [np.zeros(0, np.uint64)]
        for first, columns in column_batches(table, [spec.name]):
            cells = read_cells(spec, columns[spec.name], missing=missing, first_row=first)
            rows.append(cells.rows + first - 1)
            hashes.append(text_numbers(cells.texts)[cells.codes])
        marks[f"{_START}{spec.name}{_ROWS}"] = np.concatenate(rows)
        marks[f"{_START}{spec.name}{_HASHES}"] = np.concatenate(hashes)
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

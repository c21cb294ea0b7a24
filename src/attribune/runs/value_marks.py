"""Marks of attribute values beside stored predictions: a value's rows are found without the table that they came from.

A mark is a hash of 64 bits. It is no secret: who can guess a value can find its rows, as in the vocabulary.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from attribune.schema import Schema
from attribune.schema.attributes import read_cells
from attribune.schema.columns import Table, canonical, column_batches

__all__ = ["drop_rows", "marked_rows", "value_marks"]

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
            hashes.append(_hashes(cells.texts)[cells.codes])
        marks[f"{_START}{spec.name}{_ROWS}"] = np.concatenate(rows)
        marks[f"{_START}{spec.name}{_HASHES}"] = np.concatenate(hashes)
    return marks


def marked_rows(arrays: Mapping[str, npt.NDArray[Any]], attribute: str, values: Sequence[str]) -> Any:
    """Return the positions of the rows with one of the values, (k,); None where a run has no marks."""
    hashes = arrays.get(f"{_START}{attribute}{_HASHES}")
    if hashes is None:
        return None
    return np.unique(arrays[f"{_START}{attribute}{_ROWS}"][np.isin(hashes, _hashes(values))])


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


def _hashes(texts: Iterable[str]) -> npt.NDArray[np.uint64]:
    digests = [hashlib.blake2b(text.encode(), digest_size=8).digest() for text in texts]
    return np.frombuffer(b"".join(digests), dtype=np.uint64)

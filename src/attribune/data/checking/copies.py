"""Rows and columns that say the same twice, rows that say two things of a text, and texts that stand for none.

Shapes: n rows.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import permutations

import numpy as np
import pyarrow as pa

from attribune.core.arrays import BoolArray, IntArray
from attribune.data.checking.profiles import ColumnProfile, column_codes, joint_codes
from attribune.data.column_names import ColumnName
from attribune.data.id_lists import numbered
from attribune.data.selection import placeholder_finding, placeholder_texts
from attribune.findings import Finding
from attribune.schema.reports import FIRST_ROWS

_SAMPLE = 200  # rows
_LEAST_ROWS = 20
_NEARLY_ALL = 0.95
_MOST_OTHER = 0.1  # of the words of a text, those that the other one has not
_TAG = re.compile(r"<[^<>]+>")
_PREPARED = re.compile(r"(^|_)(clean(ed)?|(pre_?)?processed|normali[sz]ed|lower(ed)?|html|raw)($|_)")


def repeated_texts(columns: Sequence[ColumnProfile]) -> dict[str, str]:
    """Return the columns of texts that repeat another one, each with that other.

    They are texts that were prepared, such as ``clean_text`` beside ``text``, whose words the other one has, or pages
    with marks that show the other one. Two texts that somebody compares may have the same words, too: so the names have
    to say that one was made of the other.
    """
    found: dict[str, str] = {}
    for whole, part in permutations(columns, 2):
        if {whole.name, part.name} & {*found, *found.values()}:
            continue
        rows = np.flatnonzero((whole.codes.codes >= 0) & (part.codes.codes >= 0))
        chosen = rows[:: max(1, len(rows) // _SAMPLE)]
        wholes, parts = (
            [str(one.codes.values[int(code)]) for code in one.codes.codes[chosen]] for one in (whole, part)
        )
        is_page = np.mean([_TAG.search(text) is not None for text in wholes] or [False]) >= _NEARLY_ALL
        if len(chosen) < _LEAST_ROWS or not (is_page or _was_prepared(whole.name, part.name)):
            continue
        within = [_is_within(one, other) for one, other in zip(parts, wholes, strict=True)]
        if np.mean(within) >= _NEARLY_ALL:
            found |= {whole.name: part.name} if is_page else {part.name: whole.name}
    return found


def _was_prepared(name: str, other: str) -> bool:
    """Whether the names of two columns say that one was made of the other."""
    plain = [ColumnName(one).plain for one in (name, other)]
    words, others = ({*one.split("_")} for one in plain)
    return words < others or others < words or any(map(_PREPARED.search, plain))


def _is_within(part: str, whole: str) -> bool:
    """Whether a text has hardly any word that another one has not."""
    words, others = ({*re.findall(r"\w+", _TAG.sub(" ", text).casefold())} for text in (part, whole))
    return len(words - others) <= _MOST_OTHER * len(words)


def text_findings(table: pa.Table, texts: Sequence[str], groups: IntArray | None) -> Iterator[Finding]:
    """Say how many rows have no text, and how many texts look like a word for none.

    Args:
        groups: (n,) number of the text of each row, -1 for none.
    """
    without = np.flatnonzero([] if groups is None else groups < 0) + 1
    if len(without):
        yield Finding("rows-without-text", {"rows": len(without), "first": without[:FIRST_ROWS].tolist()})
    if found := placeholder_texts(table, texts):
        yield placeholder_finding(found)


def copy_findings(
    table: pa.Table,
    *,
    texts: IntArray,
    ids: Sequence[str],
    attributes: Sequence[IntArray],
    label: ColumnProfile | None,
) -> Iterator[Finding]:
    """Say which rows are copies of an earlier one, and which have all of it but the label.

    Args:
        texts: (n,) number of the text of each row, -1 for none.
        ids: columns that number the rows, in which copies may differ.
        attributes: (n,) the numbers of the values of each attribute.
    """
    rows = np.flatnonzero((texts >= 0) & (np.bincount(texts + 1)[texts + 1] > 1))
    if not len(rows):
        return
    names = [name for name in table.column_names if name not in ids]
    part = table.take(pa.array(rows))
    alike = joint_codes([_numbers(part[name]) for name in names])
    copies = _later(alike)
    if copies.any():
        yield Finding("copied-rows", {"rows": int(copies.sum()), "ids": list(ids), **_example(rows, alike, copies)})
    if label is None or label.kind == "list":
        return
    labels, asked = label.codes.codes[rows], joint_codes([texts[rows], *(codes[rows] for codes in attributes)])
    known = labels >= 0
    rows, labels, asked = rows[known], labels[known], asked[known]
    _, first, inverse = np.unique(asked, return_index=True, return_inverse=True)
    other = labels != labels[first][inverse]
    if other.any():
        yield Finding("contradicting-rows", {"rows": int(other.sum()), **_example(rows, asked, other)})


def _numbers(column: pa.ChunkedArray) -> IntArray:
    """Number the values of a column, lists and objects too."""
    if not pa.types.is_nested(column.type):
        return column_codes(column).codes
    return numbered(map(repr, column.to_pylist()), count=len(column))


def _later(codes: IntArray) -> BoolArray:
    """Return (n,) whether an earlier row has the same number."""
    later = np.ones(len(codes), dtype=bool)
    later[np.unique(codes, return_index=True)[1]] = False
    return later


def _example(rows: IntArray, codes: IntArray, later: BoolArray) -> dict[str, int]:
    """Return the number of the first of some rows, and the earlier row that is like it."""
    place = int(np.argmax(later))
    earlier = int(np.argmax(codes == codes[place]))
    return {"row": int(rows[place]) + 1, "earlier": int(rows[earlier]) + 1}

"""Entities in sequences of tags, with the boundaries that conlleval finds.

Tjong Kim Sang and Buchholz 2000, *Introduction to the CoNLL-2000 Shared Task: Chunking*, and its script ``conlleval``.
The rules take IOB1, IOB2 (BIO) and, as the script's successors do, IOBES alike.
"""

from __future__ import annotations

import re

import numpy as np

from attribune.core.arrays import Array

__all__ = ["BEGIN", "END", "INSIDE", "OUTSIDE", "SINGLE", "count_entities", "split_tag"]


OUTSIDE, BEGIN, INSIDE, END, SINGLE = range(5)
"""What a tag says of its word: no entity, the first word of one, one inside, the last one, or a whole entity."""

_TAG = re.compile(r"([BIESLUM])(?:-(.*))?", re.DOTALL)
_POSITIONS = {"B": BEGIN, "I": INSIDE, "M": INSIDE, "E": END, "L": END, "S": SINGLE, "U": SINGLE}


def split_tag(tag: str) -> tuple[int, str] | None:
    """Return position and type of a tag such as ``O``, ``B-PER`` or ``I``; None for one that has no position."""
    if tag == "O":
        return OUTSIDE, ""
    match = _TAG.fullmatch(tag)
    return None if match is None else (_POSITIONS[match[1]], match[2] or "")


def count_entities(
    true: tuple[Array, Array], predicted: tuple[Array, Array], rows: Array, *, count: int
) -> tuple[Array, Array, Array]:
    """Count the entities of rows that are in both sequences, in the predicted one and in the true one, (n,) each.

    Two entities are the same if type, first and last word are.

    Args:
        true: positions and types (N,) of the words of all rows, one after the other.
        predicted: the same.
        rows: (N,) the row of each word, ascending.
        count: n.
    """
    first = np.r_[True, rows[1:] != rows[:-1]] if len(rows) else np.zeros(0, dtype=bool)
    spans = [_spans(positions, types, first) for positions, types in (true, predicted)]
    found = [np.bincount(rows[starts], minlength=count) for starts, _, _ in spans]
    (starts, ends, types), (other_starts, other_ends, other_types) = spans
    _, mine, its = np.intersect1d(starts, other_starts, assume_unique=True, return_indices=True)
    same = mine[(ends[mine] == other_ends[its]) & (types[mine] == other_types[its])]
    return np.bincount(rows[starts[same]], minlength=count), found[1], found[0]


def _spans(positions: Array, types: Array, first: Array) -> tuple[Array, Array, Array]:
    """Return the first words, the words after the last and the types of the entities, (E,) each.

    An entity begins at a word that is in one, if its tag or the one before says so, its type is another than before, or
    the row begins; it ends before the next such word, and before a word outside.
    """
    inside = positions != OUTSIDE
    before, type_before = np.roll(positions, 1), np.roll(types, 1)
    begins = np.isin(positions, (BEGIN, SINGLE)) | np.isin(before, (OUTSIDE, END, SINGLE)) | (types != type_before)
    begins = inside & (begins | first)
    stops = np.flatnonzero(begins | ~inside | first)
    starts = np.flatnonzero(begins)
    following = np.searchsorted(stops, starts, side="right")
    ends = np.append(stops, len(positions))[following]
    return starts, ends, types[starts]

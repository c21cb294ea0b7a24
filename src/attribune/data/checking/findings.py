"""What makes attributes useless or figures too good: unique and constant attributes, leakage of the label."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow.compute as pc

from attribune.core.arrays import IntArray
from attribune.core.door import as_argument
from attribune.core.wording import counted
from attribune.data.checking.judgements import told_share
from attribune.data.checking.profiles import Codes
from attribune.schema.columns import MISSING

__all__ = ["attribute_finding", "class_word_finding", "leak_finding", "shared_rows", "words_finding"]

_NEARLY_ALL = 0.95
_SURE = 0.99  # share of rows whose value tells the label
_MOST_COMMON = 0.9  # above this share of one label, any column seems to tell it
_LEAST_ROWS = 20


def attribute_finding(name: str, codes: Codes, *, may_be_unique: bool = False) -> str | None:
    """Say why a column cannot help as an attribute; None for one that may.

    Args:
        may_be_unique: whether values of a single row help as well, such as numbers and values that are described.
    """
    rows, present = len(codes.codes), int(codes.counts.sum())
    if not present:
        return f"column {name!r} has no value in any row: leave it out"
    share = 1 - present / rows
    if share > _NEARLY_ALL:
        return f"column {name!r} is missing in {share:.1%} of the rows, and can hardly help: leave it out"
    if len(codes.values) == 1:
        return f"column {name!r} has one value, {codes.values[0].as_py()!r:.60}, and cannot help: leave it out"
    once = int((codes.counts == 1).sum())
    if not may_be_unique and present >= _LEAST_ROWS and once >= _NEARLY_ALL * present:
        return (
            f"column {name!r}: {once:,} of its {len(codes.values):,} values occur in a single row each, so nothing can "
            "be learned from them for others: leave it out, or describe its values in a table with "
            f"{as_argument('data.values', at='train')}"
        )
    return None


def words_finding(found: Mapping[str, Mapping[str, int]], *, missing: Sequence[str] = MISSING) -> str:
    """Say which values of attributes may mean that there is none.

    Args:
        found: the rows of each of these values, by attribute.
        missing: the texts that mean it already.
    """
    listed = "; ".join(
        f"{word!r} in {counted(count, 'row')} of {name!r}"
        for name, words in found.items()
        for word, count in words.items()
    )
    every = list(dict.fromkeys([*missing, *(word for words in found.values() for word in words)]))
    return f"these count as values: {listed}; if they mean that there is none, use {as_argument('data.missing', every)}"


def class_word_finding(name: str, words: Mapping[str, int]) -> str:
    """Say which classes of the label may mean that there is none.

    Args:
        words: rows of each of these classes.
    """
    listed = ", ".join(f"{word!r} in {counted(count, 'row')}" for word, count in words.items())
    return f"label {name!r}: {listed} count as classes; if they mean that there is no label, empty these cells"


def leak_finding(name: str, codes: Codes, label: Codes, *, guessed: str = "") -> str | None:
    """Say that a column tells the label; None where it does not.

    A column tells the label where rows that share a value share the label, far above what the labels' frequencies
    explain, or rows that share a label share the value; values of a single row say nothing.

    Args:
        codes: of the column, and `label` those of the labels.
        guessed: the column of the label, if this is a guess: of two that tell each other, the other may be the label.
    """
    both = (codes.codes >= 0) & (label.codes >= 0)
    values, labels = codes.codes[both], label.codes[both]
    if len(values) < _LEAST_ROWS or len(label.values) < 2:
        return None
    share = float((_same_text(codes, label)[values] == labels).mean())
    if share >= _SURE:
        return f"column {name!r} is the label in {share:.1%} of the rows: leave it out, or the model reads the answer"
    everywhere = label.counts.max() / label.counts.sum()
    if everywhere < _MOST_COMMON and np.bincount(labels).max() >= _SURE * len(labels):
        shown = label.values[int(np.bincount(labels).argmax())].as_py()
        return (
            f"column {name!r} has values nearly only in rows with the label {shown!r:.60}: leave it out, "
            "because having a value tells the label"
        )
    told = _told_share(labels, values)
    if told is None or told < _SURE:
        copied = _told_share(values, labels)
        if copied is None or copied < _SURE:
            return None
        return (
            f"the label determines column {name!r}: {copied:.1%} of the rows have the value of the others with their "
            "label, as if it were made of the label; leave it out unless it is known before the label"
        )
    back = _told_share(values, labels) if guessed else None
    if back is not None and back >= _SURE:
        return (
            f"columns {guessed!r} and {name!r} say the same, each value of one with one value of the other: "
            f"{guessed!r} is taken for the label, and {name!r} is left out, since it tells the answer; if {name!r} is "
            "the label, name it (label)"
        )
    or_label = "; if it is the label itself, name it (label)" if guessed else ""
    return (
        f"column {name!r} determines the label: {told:.1%} of the rows have the label of the others with their value; "
        f"leave it out unless it is known before the label{or_label}"
    )


def _told_share(labels: IntArray, values: IntArray) -> float | None:
    """Return the share of rows (n,) whose label is the usual one of their value, of values in several rows.

    None where these are too few rows, or nearly all have one label.
    """
    repeated = np.bincount(values)[values] > 1
    values, labels = values[repeated], labels[repeated]
    if len(values) < _LEAST_ROWS or np.bincount(labels).max() > _MOST_COMMON * len(labels):
        return None
    return told_share(labels, values)


def _same_text(codes: Codes, label: Codes) -> IntArray:
    """Return the number of the label with the same text for each value, -2 where there is none."""
    found = pc.index_in(codes.values, value_set=label.values).fill_null(-2)
    return np.asarray(found.to_numpy(zero_copy_only=False), dtype=np.int64)


def shared_rows(texts: IntArray, labels: IntArray, is_train: npt.NDArray[np.bool_]) -> tuple[int, int]:
    """Count the other rows whose text is in training, and those of them whose label is there with it.

    Args:
        texts: (rows,) numbers of the texts, and `labels` those of the labels.
        is_train: (rows,) whether a row is of the training part.
    """
    pairs = texts * (labels.max(initial=0) + 2) + labels + 1
    shared, same = (int(np.isin(codes[~is_train], codes[is_train]).sum()) for codes in (texts, pairs))
    return shared, same

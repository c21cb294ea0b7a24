"""Tables of judgements: several people judge each text, and a row is what one of them says of it.

Shapes: n rows.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from attribune.core.arrays import DoubleArray, IntArray
from attribune.data.checking.profiles import ColumnProfile
from attribune.data.column_names import ColumnName

_LEAST_EQUAL = 20.0  # rows of one text that would have the same value by chance
_LEAST_NAMED = 3.0  # where the column has the name of judges
_NEARLY_ALL = 0.99
_LOOKED_AT = 1_000  # rows


def known_pairs(codes: IntArray, others: IntArray) -> tuple[IntArray, IntArray]:
    """Return the numbers of the rows that have a value in both of two columns (n,)."""
    both = (codes >= 0) & (others >= 0)
    return codes[both], others[both]


def never_twice(codes: IntArray, texts: IntArray, *, least: float = _LEAST_EQUAL) -> tuple[float, float] | None:
    """Tell people, who judge no text twice, from properties that the rows of one text share by chance.

    Args:
        codes: (n,) number of the value of each row, -1 for none; `texts` those of the texts.
        least: rows that would have the same value by chance, of fewer of which nothing can be said.

    Returns:
        how often two rows of a text have the same value, and how often by chance; None where it is not far less.
    """
    codes, texts = known_pairs(codes, texts)
    if not len(codes):
        return None
    shares = np.bincount(codes) / len(codes)
    expected = _pairs(np.bincount(texts)) * float(shares @ shares)
    seen = _pairs(np.unique(texts * (int(codes.max()) + 1) + codes, return_counts=True)[1])
    return (seen, expected) if expected >= least and seen <= expected / 10 else None


def _pairs(sizes: IntArray) -> float:
    """Count the pairs of rows in groups of these sizes."""
    exact = sizes.astype(np.float64)
    return float((exact * (exact - 1)).sum() / 2)


def judge_among(profiles: Sequence[ColumnProfile], texts: IntArray) -> str | None:
    """Return the column of those who judge the texts, the one with the most values; None where nobody does."""

    def judges(one: ColumnProfile) -> bool:
        least = _LEAST_NAMED if ColumnName(one.name).means("judge") else _LEAST_EQUAL
        return never_twice(one.codes.codes, texts, least=least) is not None

    people = [one for one in profiles if one.kind in ("text", "number") and one.values > 2 and judges(one)]
    return max(people, key=lambda one: one.values).name if people else None


def has_opposites(columns: Sequence[ColumnProfile]) -> bool:
    """Whether one of some columns of two values is always the opposite of another, which no two judges are."""
    signs = [_signs(one) for one in columns if one.values == 2]
    if not signs:
        return False
    every = np.stack(signs)
    both = np.abs(every) @ np.abs(every).T
    return bool(((every @ every.T == -both) & (both >= _LEAST_EQUAL)).any())


def _signs(column: ColumnProfile) -> DoubleArray:
    """Return 1 for the first of two values, in the order of their texts, -1 for the second, and 0 for none."""
    texts = column.codes.values.to_pylist()
    of_values = [1.0 if text == min(texts) else -1.0 for text in texts]
    return np.array([*of_values, 0.0])[column.codes.codes[:_LOOKED_AT]]


def is_told_by(codes: IntArray, others: IntArray) -> bool:
    """Whether nearly all rows that share a value of another column share the value of this one, see `told_share`."""
    share = told_share(codes, others)
    return share is not None and share >= _NEARLY_ALL


def told_share(codes: IntArray, others: IntArray) -> float | None:
    """Return the share of rows whose value is the usual one of their value in another column; None without any.

    Rows whose other value no row shares say nothing.

    Args:
        codes: (n,) numbers of values, -1 for none, and `others` those of the other column.
    """
    codes, others = known_pairs(codes, others)
    sizes = np.bincount(others)
    repeated = sizes[others] > 1
    codes, others = codes[repeated], others[repeated]
    if not len(codes):
        return None
    pairs, counts = np.unique(others * (int(codes.max()) + 1) + codes, return_counts=True)
    largest = np.zeros(len(sizes), dtype=np.int64)
    np.maximum.at(largest, pairs // (int(codes.max()) + 1), counts)
    return float(largest.sum() / len(codes))


def numbers_the_texts(codes: IntArray, texts: IntArray) -> bool:
    """Whether each text has a value of its own, and no other; texts that do not repeat say nothing."""
    codes, texts = known_pairs(codes, texts)
    distinct = len(np.unique(texts))
    repeats = distinct < 0.95 * len(texts)
    return repeats and len(np.unique(codes)) >= 0.95 * distinct and is_told_by(codes, texts)

"""Bins of rows by a count, such as the training rows of a value or the words of a text; no label has a part in them."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = ["LEAST_ROWS", "count_ranges", "range_name"]

LEAST_ROWS = 20
"""The fewest rows that make a bin."""


def count_ranges(counts: npt.NDArray[Any], *, bins: int = 10) -> list[tuple[int, int]]:
    """Return ranges of counts, both ends included, that hold about the same number of rows and at least twenty.

    Rows whose count is 0 have a range of their own where there are enough of them.

    Args:
        counts: (n,), one for each row.
        bins: the most that there can be, about.
    """
    levels, frequencies = np.unique(counts, return_counts=True)
    wanted_rows = max(LEAST_ROWS, len(counts) / bins)
    ranges: list[tuple[int, int]] = []
    start, rows = 0, 0
    for index, (level, frequency) in enumerate(zip(levels.tolist(), frequencies.tolist(), strict=True)):
        rows += frequency
        zeros_alone = level == 0 and frequency >= LEAST_ROWS
        if rows >= wanted_rows or zeros_alone:
            ranges.append((int(levels[start]), int(level)))
            start, rows = index + 1, 0
    if rows and ranges and rows < LEAST_ROWS:
        ranges[-1] = (ranges[-1][0], int(levels[-1]))
    elif rows:
        ranges.append((int(levels[start]), int(levels[-1])))
    return ranges


def range_name(low: int, high: int) -> str:
    """Return what a range of counts is called: ``3`` or ``1-20``."""
    return f"{low:,}" if low == high else f"{low:,}-{high:,}"

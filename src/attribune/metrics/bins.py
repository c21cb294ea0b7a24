"""Bins of rows by a count, such as the training rows of a value or the words of a text, but never by labels."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = ["LEAST_ROWS", "count_ranges", "range_name"]

LEAST_ROWS = 20
"""The minimum number of rows in a bin."""


def count_ranges(counts: npt.NDArray[Any], *, bins: int = 10) -> list[tuple[int, int]]:
    """Return up to about `bins` ranges of counts (n,), ends included, with similar numbers of rows and at least twenty.

    Rows with count 0 have a range of their own if there are enough of them.
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
    """Return the name of a range of counts: ``3`` or ``1-20``."""
    return f"{low:,}" if low == high else f"{low:,}-{high:,}"

"""Bins of rows by a count, such as the training rows of a value or the words of a text; no label has a part in them."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = ["LEAST_ROWS", "count_ranges", "range_name"]

LEAST_ROWS = 20
"""Rows of a bin at least."""


def count_ranges(counts: npt.NDArray[Any], *, bins: int = 10) -> list[tuple[int, int]]:
    """Ranges of counts, both ends included, that hold about the same number of rows, and at least twenty each.

    Rows whose count is 0 have a range of their own where there are enough of them.

    Args:
        counts: (n,), of each row.
        bins: at most, about.
    """
    levels, rows = np.unique(counts, return_counts=True)
    wanted = max(LEAST_ROWS, len(counts) / bins)
    ranges: list[tuple[int, int]] = []
    start, held = 0, 0
    for place, (level, number) in enumerate(zip(levels.tolist(), rows.tolist(), strict=True)):
        held += number
        alone = level == 0 and number >= LEAST_ROWS
        if held >= wanted or alone:
            ranges.append((int(levels[start]), int(level)))
            start, held = place + 1, 0
    if held and ranges and held < LEAST_ROWS:
        ranges[-1] = (ranges[-1][0], int(levels[-1]))
    elif held:
        ranges.append((int(levels[start]), int(levels[-1])))
    return ranges


def range_name(low: int, high: int) -> str:
    """What a range of counts is called: ``3`` or ``1-20``."""
    return f"{low:,}" if low == high else f"{low:,}-{high:,}"

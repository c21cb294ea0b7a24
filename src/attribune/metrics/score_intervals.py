"""Intervals of shares that invert a score test, which have a width at 0 and at 1 too.

The percentile bootstrap has none there: of thirty rows that are all wrong, every resample is all wrong.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy import stats

__all__ = ["effective_rows", "paired_wilson", "wilson"]

_HALVINGS = 50


def effective_rows(spread: float, variance: float, *, units: int) -> float:
    """Return of how many independent rows a share has the variance that it has.

    Args:
        spread: the variance of one independent row, p (1 - p) for a share p.
        variance: of the share, as it was estimated over its rows or clusters.
        units: the number of rows or clusters, which counts where none of them differs.
    """
    return spread / variance if spread > 0 and variance > 0 else float(units)


def wilson(share: float, rows: float, *, level: float) -> tuple[float, float]:
    """Return the interval of a share of independent rows; Wilson 1927, Probable Inference, the Law of Succession.

    It holds the shares π whose distance from p is at most z √(π (1 - π) / n); (0, 1) without rows.
    """
    if rows <= 0:
        return 0.0, 1.0
    z = float(stats.norm.ppf((1 + level) / 2))
    middle, half = share + z**2 / (2 * rows), z * np.sqrt(share * (1 - share) / rows + z**2 / (4 * rows**2))
    low, high = ((middle + sign * half) / (1 + z**2 / rows) for sign in (-1, 1))
    return min(share, max(0.0, float(low))), max(share, min(1.0, float(high)))


def paired_wilson(up: float, down: float, rows: float, *, level: float) -> tuple[float, float]:
    """Return the interval of the difference ``up - down`` of two shares of the same independent rows.

    It holds the differences δ whose score test, McNemar's for δ = 0, is not beyond z: Tango 1998, Equivalence Test and
    Confidence Interval for the Difference in Proportions for the Paired-Sample Design.

    Args:
        up: the share of the rows that only the first model has right.
        down: the share that only the second one has right.
        rows: their number n, which may be a fraction.
    """
    z = float(stats.norm.ppf((1 + level) / 2))
    difference = up - down

    def is_beyond(delta: float) -> bool:
        """Whether the score test of a difference is beyond z."""
        b, c = (2 - difference) * delta - up - down, -down * delta * (1 - delta)
        only_second = (np.sqrt(max(0.0, b * b - 8 * c)) - b) / 4  # the likeliest share, given the difference
        variance = max(0.0, 2 * only_second + delta * (1 - delta)) / rows
        return bool((difference - delta) ** 2 > z**2 * variance)

    return _end(is_beyond, difference, -1.0), _end(is_beyond, difference, 1.0)


def _end(is_beyond: Callable[[float], bool], inside: float, outside: float) -> float:
    """Return the end of an interval between a point in it and a limit of the scale, by bisection."""
    if not is_beyond(outside):
        return outside
    for _ in range(_HALVINGS):
        middle = (inside + outside) / 2
        inside, outside = (inside, middle) if is_beyond(middle) else (middle, outside)
    return inside

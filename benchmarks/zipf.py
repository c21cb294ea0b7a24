"""Zipf's law over as many values as a table has, without a number for each of them."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]
HEAD = 10_000  # values whose shares are summed one by one
POINTS = 20_001  # of the integral over the others


class Zipf:
    """Value k of `values` has a share proportional to ``k^-exponent``.

    The first values are as they are. The share of a later one is the integral of ``x^-exponent`` from k - 1/2 to k +
    1/2, which differs from its own by less than ``exponent (exponent + 1) / (24 k²)`` of it, at most 2e-9 here; the
    inverse of this integral draws values without a table.

    Args:
        values: V.
        exponent: s > 0.
    """

    def __init__(self, values: int, exponent: float) -> None:
        self.values, self.exponent = values, exponent
        ranks = np.arange(1, min(values, HEAD) + 1, dtype=np.float64)
        weights = ranks**-exponent
        self._sums = np.cumsum(weights)
        self._start, self._end = len(ranks) + 0.5, values + 0.5
        self._total = self._sums[-1] + self._integral(self._end) - self._integral(self._start)
        self._head = weights / self._total

    def _integral(self, x: float | Array) -> Array:
        s = self.exponent
        return np.asarray(np.log(x) if s == 1 else np.asarray(x) ** (1 - s) / (1 - s))

    def _inverse(self, y: Array) -> Array:
        s = self.exponent
        return np.exp(y) if s == 1 else (y * (1 - s)) ** (1 / (1 - s))

    def draw(self, shape: tuple[int, ...], random: np.random.Generator) -> npt.NDArray[np.int64]:
        """Values from 1, the most frequent one, to V."""
        at = random.random(shape) * self._total
        tail = at >= self._sums[-1]
        drawn = np.searchsorted(self._sums, np.where(tail, 0, at), side="right") + 1
        beyond = self._inverse(at[tail] - self._sums[-1] + self._integral(self._start))
        drawn[tail] = np.clip(np.floor(beyond + 0.5), len(self._sums) + 1, self.values)
        return drawn.astype(np.int64)

    def share(self, first: int) -> float:
        """Of all rows, those with one of the first values."""
        if first <= len(self._sums):
            return float(self._sums[first - 1] / self._total)
        beyond = self._integral(min(first, self.values) + 0.5) - self._integral(self._start)
        return float((self._sums[-1] + beyond) / self._total)

    def with_rows(self, rows: int, least: int) -> int:
        """How many values have at least so many rows, by expectation."""
        return min(self.values, int((least * float(self._total) / rows) ** (-1 / self.exponent)))

    def total(self, function: Callable[[Array], Array], first: int | None = None) -> float:
        """The sum of a function of the share over all values, or over the first ones."""
        first = self.values if first is None else min(first, self.values)
        found = float(function(self._head[:first]).sum())
        if first > len(self._head):
            x = np.geomspace(self._start, first + 0.5, POINTS)
            found += float(np.trapezoid(function(x**-self.exponent / self._total) * x, np.log(x)))
        return found

    def distinct(self, draws: int, first: int | None = None) -> float:
        """How many different values, of all or of the first ones, are expected among so many draws."""
        return self.total(lambda share: seen(share, draws), first)


def seen(share: Array, draws: int) -> Array:
    """The probability that a value is among so many draws."""
    return -np.expm1(draws * np.log1p(-share))

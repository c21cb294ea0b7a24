"""How texts look, beside what their words are: length, capitals, digits, symbols and marks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np

from attribune.core.arrays import Array, DoubleArray

SURFACE = 7
"""The number of figures of a text."""
_COUNTS = [0, 1, 5, 6]  # the figures that are no shares


def surface(texts: Sequence[str]) -> DoubleArray:
    """Return how texts look, (n, 7).

    Their number of characters and words, the shares of capitals, digits and symbols among the characters, and the
    number of exclamation and question marks.
    """
    found = np.zeros((len(texts), SURFACE))
    for row, text in zip(found, texts, strict=True):
        size = max(1, len(text))
        capitals, digits = sum(map(str.isupper, text)), sum(map(str.isdigit, text))
        symbols = len(text) - sum(map(str.isalnum, text)) - sum(map(str.isspace, text))
        shares = (capitals / size, digits / size, symbols / size)
        row[:] = (len(text), len(text.split()), *shares, text.count("!"), text.count("?"))
    return found


@dataclass(frozen=True, kw_only=True, eq=False)
class ScaledSurface:
    """The figures of `surface` for a linear model: logarithms of one more than counts, then standardised.

    Args:
        moments: (2, 7) means and standard deviations of the training texts.
    """

    moments: Array

    @classmethod
    def fit(cls, texts: Sequence[str]) -> Self:
        """Find means and deviations; a figure that all texts share is 0 for them."""
        found = _with_logarithms(texts)
        deviation = found.std(axis=0)
        return cls(moments=np.stack([found.mean(axis=0), np.where(deviation > 0, deviation, 1.0)]))

    def of_texts(self, texts: Sequence[str]) -> DoubleArray:
        """Return the figures of texts, (n, 7)."""
        mean, deviation = self.moments
        return np.asarray((_with_logarithms(texts) - mean) / deviation, dtype=np.float64)


def _with_logarithms(texts: Sequence[str]) -> DoubleArray:
    found = surface(texts)
    found[:, _COUNTS] = np.log1p(found[:, _COUNTS])
    return found

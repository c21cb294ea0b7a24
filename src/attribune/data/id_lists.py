"""The ids of several texts, one behind the other."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from itertools import chain
from typing import Any, Self

import numpy as np

from attribune.core.arrays import Array, IntArray


def numbered(keys: Iterable[Hashable], *, count: int) -> IntArray:
    """Return the numbers (count,) of so many keys, equal for equal ones, in the order in which they first stand."""
    known: dict[Hashable, int] = {}
    return np.fromiter((known.setdefault(key, len(known)) for key in keys), dtype=np.int64, count=count)


class IdLists:
    """The ids of n texts in one array, which is padded and compared at once.

    Args:
        ids: of all texts, int64.
        lengths: (n,) how many each text has.
    """

    def __init__(self, ids: IntArray, lengths: IntArray) -> None:
        self.ids, self.lengths = ids, lengths

    @classmethod
    def of(cls, lists: Sequence[Any] | Array) -> Self:
        """Join lists of ids, or arrays or tensors of them."""
        lengths = np.fromiter(map(len, lists), dtype=np.int64, count=len(lists))
        if all(type(one) is list for one in lists):
            return cls(np.fromiter(chain.from_iterable(lists), dtype=np.int64, count=int(lengths.sum())), lengths)
        return cls(np.concatenate([np.asarray(one, dtype=np.int64) for one in lists]), lengths)

    def padded(self, length: int, *, filler: int, left: bool = False) -> IntArray:
        """Return the texts as the rows of a matrix (n, length), filled up behind them, or on the left of them."""
        places = np.arange(length)
        is_real = places >= length - self.lengths[:, None] if left else places < self.lengths[:, None]
        matrix = np.full(is_real.shape, filler)
        matrix[is_real] = self.ids
        return matrix

    def numbers(self, beside: IntArray | None = None) -> IntArray:
        """Return the numbers (n,) of the distinct texts, in their order.

        Args:
            beside: (n,) what equal texts must have in common, too.
        """
        content, size = self.ids.tobytes(), self.ids.itemsize
        ends = size * np.cumsum(self.lengths)
        texts = map(content.__getitem__, map(slice, (ends - size * self.lengths).tolist(), ends.tolist()))
        keys: Iterable[Hashable] = texts if beside is None else zip(texts, beside.tolist(), strict=True)
        return numbered(keys, count=len(self.lengths))

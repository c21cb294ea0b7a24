"""A cache of the weights generated for values seen before, for prediction."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable
from dataclasses import dataclass, replace
from typing import Any, Self

import torch
from jaxtyping import Int
from torch import Tensor

__all__ = ["CachedRows", "WeightCache"]


@dataclass(frozen=True, kw_only=True)
class CachedRows:
    """Where the weights of one attribute are cached, for one batch.

    Args:
        cache: that holds them.
        rows: the cached row of each of the batch's rows.
        missing: which of the batch's distinct values are new, so that their weights must be made.
        targets: the cached rows that these get.
    """

    cache: WeightCache
    rows: Int[Tensor, " B"]
    missing: Int[Tensor, " F"]
    targets: Int[Tensor, " F"]

    def over_chunks(self, chunks: int) -> CachedRows:
        """Return the same for a batch in which each row is cut into `chunks` rows."""
        return replace(self, rows=self.rows.repeat_interleave(chunks))

    def read(self, site: Hashable, make: Callable[[Tensor], tuple[Tensor, ...]]) -> tuple[Tensor, ...]:
        """Return the tensors of each row at one site, each (B, ...).

        Args:
            site: the same in every batch.
            make: makes the tensors (F, ...) of new values, from their indices (F,) among the distinct ones.
        """
        return self.cache.read(self, site, make)


class WeightCache:
    """What is made of the values of one attribute at all sites, of the values used last.

    A deep copy, or one that was pickled, is empty.

    Args:
        limit: in bytes.
        value_size: the count of numbers that are made of one value, at all sites together.
        sites: that read them in every pass.
        vocabulary_size: the count of values that there are.

    Attributes:
        capacity: the count of values that fit, in the precision that was asked for last.
        hits: the count of values of batches that were cached.
        misses: of those that were not.
    """

    def __init__(self, limit: float, *, value_size: int, sites: int, vocabulary_size: int) -> None:
        self.limit, self.value_size, self.sites, self.vocabulary_size = limit, value_size, sites, vocabulary_size
        self.hits = self.misses = 0
        self._set_capacity(torch.float32)
        self.clear()

    def _set_capacity(self, dtype: torch.dtype) -> None:
        self.capacity = min(self.vocabulary_size, int(self.limit // (self.value_size * dtype.itemsize)))

    def clear(self) -> None:
        """Forget all."""
        self._rows: OrderedDict[int, int] = OrderedDict()  # of each value, the one used last at the end
        self._tensors: dict[Hashable, tuple[Tensor, ...]] = {}
        self._sites_read: set[Hashable] = set()
        self._stamp: Hashable = None

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        return type(self)(
            self.limit, value_size=self.value_size, sites=self.sites, vocabulary_size=self.vocabulary_size
        )

    def __reduce__(self) -> tuple[Any, ...]:
        return (_empty_cache, (self.limit, self.value_size, self.sites, self.vocabulary_size))

    @property
    def megabytes(self) -> float:
        """The size of the tensors, room for values still to come included."""
        return sum(t.numel() * t.element_size() for tensors in self._tensors.values() for t in tensors) / 2**20

    def look_up(
        self, ids: Int[Tensor, " U"], index: Int[Tensor, " B"], *, stamp: Hashable, dtype: torch.dtype
    ) -> CachedRows | None:
        """Find the values of a batch and make room for the new ones; None for more values than fit.

        Args:
            ids: the distinct values.
            index: which of them each row has.
            stamp: of what the tensors are made with; another one than last time clears the cache.
            dtype: of most of the tensors.
        """
        if (stamp, dtype) != self._stamp or 0 < len(self._sites_read) < self.sites:  # or a pass broke off
            self.clear()
            self._set_capacity(dtype)
            self._stamp = (stamp, dtype)
        self._sites_read = set()
        values = ids.tolist()
        if len(values) > self.capacity:  # those that are cached stay as they are
            self.misses += len(values)
            return None
        missing = [number for number, value in enumerate(values) if value not in self._rows]
        for value in values:
            if value in self._rows:
                self._rows.move_to_end(value)
        for number in missing:
            full = len(self._rows) == self.capacity
            self._rows[values[number]] = self._rows.popitem(last=False)[1] if full else len(self._rows)
        self.hits += len(values) - len(missing)
        self.misses += len(missing)
        rows = torch.tensor([self._rows[value] for value in values], device=index.device)
        new = torch.tensor(missing, dtype=torch.int64, device=index.device)
        return CachedRows(cache=self, rows=rows[index], missing=new, targets=rows[new])

    def read(
        self, batch: CachedRows, site: Hashable, make: Callable[[Tensor], tuple[Tensor, ...]]
    ) -> tuple[Tensor, ...]:
        """Return the tensors of a batch's rows at one site; see `CachedRows.read`."""
        if len(batch.missing):
            made = make(batch.missing)
            if site not in self._tensors:
                # Written to at once, so that the memory is taken now and does not grow for as long as values come.
                self._tensors[site] = tuple(t.new_empty(self.capacity, *t.shape[1:]).fill_(0) for t in made)
            for tensor, rows in zip(self._tensors[site], made, strict=True):
                tensor.index_copy_(0, batch.targets, rows)
        self._sites_read.add(site)
        return tuple(tensor.index_select(0, batch.rows) for tensor in self._tensors[site])


def _empty_cache(limit: float, value_size: int, sites: int, vocabulary_size: int) -> WeightCache:
    return WeightCache(limit, value_size=value_size, sites=sites, vocabulary_size=vocabulary_size)

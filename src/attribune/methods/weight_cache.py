"""A cache of the weights generated for values seen before, for prediction."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import torch
from jaxtyping import Int
from torch import Tensor

__all__ = ["CachedRows", "WeightCache"]


@dataclass(frozen=True, kw_only=True)
class CachedRows:
    """The rows of a cache that one batch uses.

    Args:
        rows: the cached row of each of the batch's rows.
        missing: indices of the batch's distinct values that are new, so that their weights must be generated.
        targets: the cached rows of these.
    """

    cache: WeightCache
    rows: Int[Tensor, " B"]
    missing: Int[Tensor, " F"]
    targets: Int[Tensor, " F"]

    def over_chunks(self, chunks: int) -> CachedRows:
        """Return the rows of a batch in which each row is cut into `chunks` rows."""
        return replace(self, rows=self.rows.repeat_interleave(chunks))

    def read(self, site: Hashable, make: Callable[[Tensor], tuple[Tensor, ...]]) -> tuple[Tensor, ...]:
        """Return the tensors of each row at one site, each (B, ...).

        Args:
            site: a key, the same in every batch.
            make: generates the tensors (F, ...) of new values, from their indices (F,) among the distinct ones.
        """
        cached = self.cache.tensors
        if len(self.missing):
            new = make(self.missing)
            if site not in cached:
                # Written to at once, so that the memory is taken now and does not grow with the number of values.
                cached[site] = tuple(t.new_empty(self.cache.capacity, *t.shape[1:]).fill_(0) for t in new)
            for tensor, rows in zip(cached[site], new, strict=True):
                tensor.index_copy_(0, self.targets, rows)
        self.cache.sites_read.add(site)
        return tuple(tensor.index_select(0, self.rows) for tensor in cached[site])


class WeightCache:
    """The tensors generated at all sites from the values of one attribute that were used last.

    Copied or pickled, it is empty.

    Args:
        limit: in bytes.
        value_size: how many numbers are generated from one value, at all sites together.
        sites: the number of sites, all of which read the cache in every pass.
        vocabulary_size: the number of values.

    Attributes:
        capacity: the number of values that fit, in the precision of the last look-up.
        hits: the number of values of batches that were cached.
        misses: the number of those that were not.
    """

    def __init__(self, limit: float, *, value_size: int, sites: int, vocabulary_size: int) -> None:
        self.limit, self.value_size, self.sites, self.vocabulary_size = limit, value_size, sites, vocabulary_size
        self.hits = self.misses = 0
        self._set_capacity(torch.float32)
        self.clear()

    def _set_capacity(self, dtype: torch.dtype) -> None:
        self.capacity = min(self.vocabulary_size, int(self.limit // (self.value_size * dtype.itemsize)))

    def clear(self) -> None:
        """Empty the cache."""
        self._rows: OrderedDict[int, int] = OrderedDict()  # of each value, the one used last at the end
        self.tensors: dict[Hashable, tuple[Tensor, ...]] = {}
        self.sites_read: set[Hashable] = set()
        self._stamp: tuple[Hashable, torch.dtype] | None = None

    def restamp(self, before: Hashable, after: Hashable) -> None:
        """Keep what was cached with one stamp for another; what was cached with a third is cleared."""
        if self._stamp is not None and self._stamp[0] == before:
            self._stamp = (after, self._stamp[1])
        else:
            self.clear()

    def __reduce__(self) -> tuple[Any, ...]:
        sizes = {"value_size": self.value_size, "sites": self.sites, "vocabulary_size": self.vocabulary_size}
        return partial(type(self), **sizes), (self.limit,)

    @property
    def megabytes(self) -> float:
        """The size of the tensors, including room for further values."""
        return sum(t.numel() * t.element_size() for tensors in self.tensors.values() for t in tensors) / 2**20

    def look_up(
        self, ids: Int[Tensor, " U"], index: Int[Tensor, " B"], *, stamp: Hashable, dtype: torch.dtype
    ) -> CachedRows | None:
        """Find the values of a batch and make room for the new ones; None if they do not fit.

        Args:
            ids: the distinct values.
            index: of the value of each row.
            stamp: identifies the parameters that generate the tensors; when it changes, the cache is cleared.
            dtype: of most of the tensors.
        """
        if (stamp, dtype) != self._stamp or 0 < len(self.sites_read) < self.sites:  # or a pass was interrupted
            self.clear()
            self._set_capacity(dtype)
            self._stamp = (stamp, dtype)
        self.sites_read = set()
        values = ids.tolist()
        if len(values) > self.capacity:  # the cached ones stay
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

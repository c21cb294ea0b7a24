"""Generated weights of values seen before, kept for prediction."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Any, Self

import torch
from torch import Tensor

__all__ = ["KeptRows", "KeptWeights"]


@dataclass(frozen=True, kw_only=True)
class KeptRows:
    """Where the weights of one attribute are kept, for one batch.

    Args:
        store: that keeps them.
        rows: (B,), the place of each row's value.
        fresh: (F,), which of the batch's distinct values are new, so that their weights must be made.
        places: (F,), where these go.
    """

    store: KeptWeights
    rows: Tensor
    fresh: Tensor
    places: Tensor

    def over_chunks(self, chunks: int) -> KeptRows:
        """The same for a batch in which each row is cut into so many."""
        rows = self.rows.repeat_interleave(chunks)
        return KeptRows(store=self.store, rows=rows, fresh=self.fresh, places=self.places)

    def read(self, site: Hashable, make: Callable[[Tensor], tuple[Tensor, ...]]) -> tuple[Tensor, ...]:
        """The tensors of each row at one site, each (B, ...).

        Args:
            site: where, the same in every batch.
            make: from the places (F,) of new values among the distinct ones, their tensors (F, ...).
        """
        return self.store.read(self, site, make)


class KeptWeights:
    """What is made of the values of one attribute at all sites, of the values used last.

    A deep copy, or one that was pickled, is empty.

    Args:
        room: in bytes.
        numbers: that are made of one value, at all sites together.
        sites: that read them in every pass.
        most: values that there are.

    Attributes:
        values: that there is room for, at the precision that was asked for last.
        hits: values of batches that were kept.
        misses: those that were not.
    """

    def __init__(self, room: float, *, numbers: int, sites: int, most: int) -> None:
        self.room, self.numbers, self.sites, self.most = room, numbers, sites, most
        self.hits = self.misses = 0
        self._fit(torch.float32)
        self.clear()

    def _fit(self, dtype: torch.dtype) -> None:
        self.values = min(self.most, int(self.room // (self.numbers * dtype.itemsize)))

    def clear(self) -> None:
        """Forget all."""
        self._places: OrderedDict[int, int] = OrderedDict()
        self._tensors: dict[Hashable, tuple[Tensor, ...]] = {}
        self._served: set[Hashable] = set()
        self._stamp: Hashable = None

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        return type(self)(self.room, numbers=self.numbers, sites=self.sites, most=self.most)

    def __reduce__(self) -> tuple[Any, ...]:
        return (_empty, (self.room, self.numbers, self.sites, self.most))

    @property
    def megabytes(self) -> float:
        """Of the tensors that are kept, room for values still to come included."""
        return sum(t.numel() * t.element_size() for tensors in self._tensors.values() for t in tensors) / 2**20

    def take(self, ids: Tensor, index: Tensor, *, stamp: Hashable, dtype: torch.dtype) -> KeptRows | None:
        """Find the values of a batch; None for more of them than there is room.

        Args:
            ids: (U,), the distinct values.
            index: (B,), which of them each row has.
            stamp: of what the tensors are made with; another one than last time forgets all.
            dtype: of most of the tensors.
        """
        if (stamp, dtype) != self._stamp or (self._served and len(self._served) < self.sites):  # or a pass broke off
            self.clear()
            self._fit(dtype)
            self._stamp = (stamp, dtype)
        self._served = set()
        wanted = ids.tolist()
        if len(wanted) > self.values:  # those that are kept stay as they are
            self.misses += len(wanted)
            return None
        fresh = [place for place, value in enumerate(wanted) if value not in self._places]
        for value in wanted:
            if value in self._places:
                self._places.move_to_end(value)
        for place in fresh:
            free = len(self._places)
            if free == self.values:
                free = self._places.popitem(last=False)[1]
            self._places[wanted[place]] = free
        self.hits += len(wanted) - len(fresh)
        self.misses += len(fresh)
        where = torch.tensor([self._places[value] for value in wanted], device=index.device)
        new = torch.tensor(fresh, dtype=torch.int64, device=index.device)
        return KeptRows(store=self, rows=where[index], fresh=new, places=where[new])

    def read(self, kept: KeptRows, site: Hashable, make: Callable[[Tensor], tuple[Tensor, ...]]) -> tuple[Tensor, ...]:
        """See `KeptRows.read`."""
        if len(kept.fresh):
            made = make(kept.fresh)
            if site not in self._tensors:
                # Written to at once, so that the memory is taken now and does not grow for as long as values come.
                self._tensors[site] = tuple(t.new_empty(self.values, *t.shape[1:]).fill_(0) for t in made)
            for tensor, rows in zip(self._tensors[site], made, strict=True):
                tensor.index_copy_(0, kept.places, rows)
        self._served.add(site)
        return tuple(tensor.index_select(0, kept.rows) for tensor in self._tensors[site])


def _empty(room: float, numbers: int, sites: int, most: int) -> KeptWeights:
    return KeptWeights(room, numbers=numbers, sites=sites, most=most)

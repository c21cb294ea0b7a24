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
        values: that are kept at most.
        sites: that read them in every pass.
    """

    def __init__(self, values: int, *, sites: int) -> None:
        self.values, self.sites = values, sites
        self.hits = self.misses = 0
        self.clear()

    def clear(self) -> None:
        """Forget all."""
        self._places: OrderedDict[int, int] = OrderedDict()
        self._tensors: dict[Hashable, tuple[Tensor, ...]] = {}
        self._served: set[Hashable] = set()
        self._stamp: Hashable = None

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        return type(self)(self.values, sites=self.sites)

    def __reduce__(self) -> tuple[Any, ...]:
        return (_empty, (self.values, self.sites))

    @property
    def megabytes(self) -> float:
        """Of the tensors that are kept, room for values still to come included."""
        return sum(t.numel() * t.element_size() for tensors in self._tensors.values() for t in tensors) / 2**20

    def take(self, ids: Tensor, index: Tensor, *, stamp: Hashable) -> KeptRows | None:
        """Find the values of a batch; None for more of them than there is room.

        Args:
            ids: (U,), the distinct values.
            index: (B,), which of them each row has.
            stamp: of what the tensors are made with; another one than last time forgets all.
        """
        if stamp != self._stamp or (self._served and len(self._served) < self.sites):  # or a pass broke off
            self.clear()
            self._stamp = stamp
        self._served = set()
        wanted = ids.tolist()
        if len(wanted) > self.values:  # those that are kept stay as they are
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
                self._tensors[site] = tuple(t.new_empty(self.values, *t.shape[1:]) for t in made)
            for tensor, rows in zip(self._tensors[site], made, strict=True):
                tensor.index_copy_(0, kept.places, rows)
        self._served.add(site)
        return tuple(tensor.index_select(0, kept.rows) for tensor in self._tensors[site])


def _empty(values: int, sites: int) -> KeptWeights:
    return KeptWeights(values, sites=sites)

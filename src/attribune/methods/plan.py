"""Plans: what a method does at its sites in passes without gradients, from tensors that are packed once.

In a plan, the tensors of all sites stand side by side in the precision of the states, so that one product makes what
all sites need of the rows' vectors, and each site is left with the few operations that read the states. It is packed
anew when a parameter has changed. What it computes is what the method computes without it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from attribune.core.device import is_recorded


class Watch:
    """The parameters of some modules, of which changes are noticed, but for those by fused optimisers."""

    def __init__(self, modules: Iterable[nn.Module]) -> None:
        each = {id(part): part for module in modules for part in module.modules()}
        self._places = [part._parameters for part in each.values() if part._parameters]
        self._seen = self._now()

    @property
    def is_possible(self) -> bool:
        """Whether changes can be noticed: those of parameters that were made in inference mode cannot."""
        return not any(p.is_inference() for p, _, _ in self._seen)

    def sees_change(self) -> bool:
        """Return whether a parameter has changed since, or was replaced."""
        now = self._now()
        return len(now) != len(self._seen) or any(
            p is not q or version != before or place != earlier
            for (p, version, place), (q, before, earlier) in zip(now, self._seen, strict=True)
        )

    def _now(self) -> list[tuple[nn.Parameter, int, int]]:
        parameters = [p for place in self._places for p in place.values() if p is not None]
        return [(p, 0 if p.is_inference() else p._version, p.data_ptr()) for p in parameters]


class Plan(ABC):
    """The tensors of all sites of a method, packed for passes without gradients."""

    most_rows: int | None = None
    """How many rows a pass by plan has at most, unless it is recorded."""

    def __init__(self) -> None:
        self._packed: dict[torch.dtype, Any] = {}

    def packed(self, dtype: torch.dtype) -> Any:
        """Return what `pack` does, packed once; while operations are recorded, it is not kept."""
        if dtype in self._packed:
            return self._packed[dtype]
        found = self.pack(dtype)
        if not is_recorded():
            self._packed[dtype] = found
        return found

    def serves(self, vectors: Sequence[Tensor]) -> bool:
        """Return whether the plan is also that of values with further vectors (n, Z) of each attribute."""
        return True

    @abstractmethod
    def pack(self, dtype: torch.dtype) -> Any:
        """Return the tensors that are the same for all rows, in the precision of the states."""

    @abstractmethod
    def terms(self, vectors: Sequence[Float[Tensor, "B _"]], dtype: torch.dtype) -> Any:
        """Compute what all sites need of the rows' vectors, for states in a precision."""

    @abstractmethod
    def act(
        self, index: int, rows: PlannedRows, inputs: tuple[Any, ...], output: Float[Tensor, "B T features"]
    ) -> Float[Tensor, "B T features"]:
        """Return the changed output of a site."""


class PlannedRows:
    """The rows of one pass by plan.

    Args:
        vectors: of each attribute, (B, Z).
    """

    def __init__(self, plan: Plan, vectors: Sequence[Tensor]) -> None:
        self.plan, self.vectors = plan, vectors
        self.memory: dict[Any, Any] = {}  # of the plan, within the pass
        self._terms: tuple[torch.dtype, Any] | None = None

    def repeated(self, times: int) -> PlannedRows:
        """Return the rows of a batch in which each stands so many times, one after the other."""
        return PlannedRows(self.plan, [one.repeat_interleave(times, dim=0) for one in self.vectors])

    def terms(self, dtype: torch.dtype) -> Any:
        """Return what all sites need of the rows, computed at the first one."""
        if self._terms is None or self._terms[0] != dtype:
            with torch.autocast(self.vectors[0].device.type, enabled=False):
                self._terms = dtype, self.plan.terms(self.vectors, dtype)
        return self._terms[1]


class LinearPlan(Plan):
    """A plan of which the sites need linear maps of the vectors side by side, ``constant + L a``.

    Args:
        maps: (features, MZ), one for each term.
        constants: (features,), one for each term.
    """

    def __init__(self, maps: Sequence[Tensor], constants: Sequence[Tensor]) -> None:
        super().__init__()
        self.sizes = [len(one) for one in maps]
        self._own = torch.cat(list(constants)), torch.cat(list(maps)).T.contiguous()

    def pack(self, dtype: torch.dtype) -> tuple[Any, ...]:
        """Return the constants and the maps of all terms."""
        return tuple(one.to(dtype) for one in self._own)

    def terms(self, vectors: Sequence[Float[Tensor, "B _"]], dtype: torch.dtype) -> tuple[Float[Tensor, "B 1 _"], ...]:
        """Compute all terms by one product."""
        constant, together, *_ = self.packed(dtype)
        a = vectors[0] if len(vectors) == 1 else torch.cat(list(vectors), dim=1)
        return torch.split(torch.addmm(constant, a.to(dtype), together).unsqueeze(1), self.sizes, dim=2)

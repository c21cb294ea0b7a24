"""The attributes of one batch, as the layers deep in the backbone see them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor

from attribune.errors import DataError
from attribune.kept import KeptRows

__all__ = [
    "Condition",
    "ConditionHolder",
    "Slots",
    "Values",
    "check_attribute_ids",
    "draw_for_dropout",
    "drop_attributes",
]


@dataclass(frozen=True, kw_only=True)
class Slots:
    """Where one attribute stands in ``attribute_ids``, and how many ids it has.

    Args:
        name: the attribute.
        start: its first slot.
        count: the number of its slots.
        size: the number of its ids, id 0 (missing, unknown, dropped) included.
    """

    name: str
    start: int
    count: int
    size: int

    def of(self, attribute_ids: Tensor) -> Tensor:
        """The slots of this attribute: (B, slots) → (B, count)."""
        return attribute_ids[:, self.start : self.start + self.count]


@dataclass(frozen=True, kw_only=True)
class Values:
    """The values of one attribute in a batch, each distinct one once.

    Args:
        ids: (U,), distinct ids; id 0 may be among them.
        membership: (B, U), how often row b has value u. The column of id 0 is zero, so that it adds nothing, unless the
            method learns a vector for the unknown: then it is 1 for the rows without any value.
        vectors: (U, Z), the values' learned vectors.
        kept: where what was made of them in earlier passes is kept; None where nothing is.
    """

    ids: Tensor
    membership: Tensor
    vectors: Tensor
    kept: KeptRows | None = None

    def over_chunks(self, chunks: int) -> Values:
        """The same of a batch in which each row is cut into so many."""
        kept = None if self.kept is None else self.kept.over_chunks(chunks)
        return replace(self, membership=self.membership.repeat_interleave(chunks, dim=0), kept=kept)

    @classmethod
    def collect(cls, ids: Tensor, look_up: Callable[[Tensor], Tensor], *, unknown: bool = False) -> Values:
        """Find the distinct values of a batch and look their vectors up.

        Under ``torch.compile`` every slot counts as distinct, since the number of distinct values would break the
        graph; the sums over a row's values come out the same.

        Args:
            ids: (B, count), ids of one attribute.
            look_up: gives the vectors (U, Z) of distinct ids (U,).
            unknown: whether rows without a value have the vector of id 0.
        """
        B, count = ids.shape
        if torch.compiler.is_compiling():
            distinct = ids.reshape(-1)
            index = torch.arange(B * count, device=ids.device).view(B, count)
        else:
            distinct, index = torch.unique(ids, return_inverse=True)
        vectors = look_up(distinct)
        membership = torch.zeros(B, distinct.shape[0], dtype=vectors.dtype, device=ids.device)
        membership = membership.scatter_add(1, index, (ids != 0).to(vectors.dtype))
        if unknown:
            membership = membership.scatter_add(1, index[:, :1], (ids == 0).all(dim=1, keepdim=True).to(vectors.dtype))
        return cls(ids=distinct, membership=membership, vectors=vectors)


@dataclass(frozen=True, kw_only=True)
class Condition:
    """What a method reads during one forward pass.

    Args:
        rows: B.
        ids: (B, slots), after attribute dropout; None for methods without attributes.
        values: the values of each attribute.
        parts: the conditions of the methods of which a combination is made.
        chunks: C, the number of rows of the backbone's batch into which each document is cut.
        real: (B, T), 1 where the backbone's batch has a real token of the text; known inside the backbone.
        memory: what sites keep for later ones in the same pass.
    """

    rows: int
    ids: Tensor | None = None
    values: tuple[Values, ...] = ()
    parts: tuple[Condition, ...] = ()
    chunks: int = 1
    real: Tensor | None = None
    memory: dict[str | int, Any] = field(default_factory=dict, compare=False, repr=False)

    def vectors(self) -> Tensor:
        """The rows' attribute vectors side by side, (B, Z_1 + ... + Z_M); several values add up."""
        return torch.cat(self.each(), dim=1)

    def over_chunks(self, chunks: int) -> Condition:
        """The condition of a batch in which each row is cut into so many; they share the memory."""
        if chunks == 1:
            return self
        return replace(
            self,
            rows=self.rows * chunks,
            ids=None if self.ids is None else self.ids.repeat_interleave(chunks, dim=0),
            values=tuple(values.over_chunks(chunks) for values in self.values),
            parts=tuple(part.over_chunks(chunks) for part in self.parts),
            chunks=chunks,
        )

    def reading(self, real: Tensor) -> Condition:
        """The same condition for a backbone whose batch has the text's real tokens at these places."""
        return replace(self, real=real, parts=tuple(part.reading(real) for part in self.parts))

    def each(self) -> list[Tensor]:
        """The rows' vectors of each attribute, (B, Z_m); several values add up."""
        return [values.membership @ values.vectors for values in self.values]


class ConditionHolder:
    """Gives the sites the condition of the forward pass in which they run.

    A site inside a checkpointed layer runs again during backward, when another forward pass may have come between;
    `checkpointed` therefore captures the condition and restores it for the second run.
    """

    def __init__(self) -> None:
        self._current: Condition | None = None

    @property
    def current(self) -> Condition:
        """The condition of the forward pass under way."""
        if self._current is None:
            raise RuntimeError(
                "the backbone was called outside AttributeModel.forward, so its sites have no attributes: "
                "call the AttributeModel itself"
            )
        return self._current

    @contextmanager
    def use(self, condition: Condition) -> Iterator[None]:
        """Make a condition the current one for the duration of a block."""
        before, self._current = self._current, condition
        try:
            yield
        finally:
            self._current = before


def check_attribute_ids(attribute_ids: Tensor, slots: Sequence[Slots], rows: int) -> None:
    """Refuse ids of the wrong shape or outside the vocabularies.

    The range is checked where the check costs nothing: on the CPU, outside a compiled graph.

    Raises:
        DataError: naming the attribute, the value seen and the cure.
    """
    width = sum(s.count for s in slots)
    if attribute_ids.dim() != 2 or attribute_ids.shape != (rows, width):
        raise DataError(
            f"attribute_ids has shape {tuple(attribute_ids.shape)}, expected {(rows, width)}: one row per text and "
            f"one column per slot of the schema; encode the rows with the model's own schema"
        )
    if attribute_ids.is_floating_point():
        raise DataError(f"attribute_ids are {attribute_ids.dtype}: pass the integers that schema.encode gives")
    if torch.compiler.is_compiling() or attribute_ids.device.type != "cpu" or attribute_ids.numel() == 0:
        return
    for s in slots:
        ids = s.of(attribute_ids)
        low, high = int(ids.min()), int(ids.max())
        if low < 0 or high >= s.size:
            raise DataError(
                f"attribute {s.name!r} has id {low if low < 0 else high}, outside 0 to {s.size - 1}: "
                "encode the rows with the model's own schema"
            )


def draw_for_dropout(attribute_ids: Tensor, slots: Sequence[Slots]) -> Tensor:
    """A random number between 0 and 1 for each (row, attribute): (B, attributes)."""
    return torch.rand(attribute_ids.shape[0], len(slots), device=attribute_ids.device)


def drop_attributes(attribute_ids: Tensor, slots: Sequence[Slots], rate: float, draw: Tensor | None = None) -> Tensor:
    """Attribute dropout (Injectors, section 4): hide each (row, attribute) as a whole with probability `rate`.

    Nothing is rescaled: a dropped attribute looks like one never seen in training, id 0 in all its slots.

    Args:
        attribute_ids: (B, slots).
        slots: of each attribute.
        rate: between 0 and 1.
        draw: (B, attributes), random numbers; an attribute whose number is below the rate is hidden.

    Returns:
        (B, slots), a new tensor.
    """
    keep = (draw_for_dropout(attribute_ids, slots) if draw is None else draw) >= rate
    return attribute_ids * torch.cat([keep[:, j : j + 1].expand(-1, s.count) for j, s in enumerate(slots)], dim=1)

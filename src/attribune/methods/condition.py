"""The attributes of one batch, as the layers deep in the backbone see them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor

from attribune.core.device import is_recorded
from attribune.errors import DataError
from attribune.methods.plan import PlannedRows
from attribune.methods.shapes import AttributeIds, Mask
from attribune.schema.attributes import Slots

__all__ = ["Condition", "ConditionHolder", "Generated", "Slots", "Values", "check_attribute_ids"]


class Generated(NamedTuple):
    """The factors of what S sites generate from the values of one attribute: see `functional.phm_factors`.

    Attributes:
        times: how many rows of the batch each row stands for.
    """

    left: Sequence[Float[Tensor, "B A K"]]
    right: Sequence[Float[Tensor, "K H"]]
    b: Sequence[Float[Tensor, "B A"]] | Sequence[Float[Tensor, " A"]]
    times: int = 1

    def at(self, site: int) -> tuple[Tensor, Tensor, Tensor]:
        """Return both factors and the bias of one site."""
        left, right, b = self.left[site], self.right[site], self.b[site]
        if self.times == 1:
            return left, right, b
        return left.repeat_interleave(self.times, 0), right, b if b.dim() == 1 else b.repeat_interleave(self.times, 0)


@dataclass(frozen=True, kw_only=True)
class Values:
    """The distinct values of one attribute in a batch.

    Args:
        ids: distinct ids; id 0 may be among them.
        membership: how often row b has value u. The column of id 0 is zero, unless the method learns a vector for the
            unknown: then it is 1 for the rows without any value.
        vectors: the values' learned vectors.
        generated: the biases and the factors of the weights of all sites, where weights have factors.
    """

    ids: Int[Tensor, " U"]
    membership: Float[Tensor, "B U"]
    vectors: Float[Tensor, "U Z"]
    generated: Generated | None = None

    def known_vectors(self) -> Float[Tensor, "B Z"]:
        """Return the sum of the vectors of each row's known values; zero for a row without any."""
        known = self.membership * (self.ids != 0).to(self.membership.dtype)
        return known @ self.vectors

    def over_chunks(self, chunks: int) -> Values:
        """Return the values of a batch in which each row is cut into `chunks` rows, or stands so many times."""
        generated = self.generated
        if generated is not None:
            generated = generated._replace(times=generated.times * chunks)
        membership = self.membership.repeat_interleave(chunks, dim=0)
        return replace(self, membership=membership, generated=generated)

    @classmethod
    def collect(
        cls, ids: Int[Tensor, "B count"], look_up: Callable[[Tensor], Tensor], *, unknown: bool = False
    ) -> Values:
        """Find the distinct values of one attribute in a batch and look up their vectors.

        Where operations are recorded, every slot counts as distinct, since their number may not depend on the batch;
        the sums over a row's values are the same.

        Args:
            look_up: returns the vectors (U, Z) of distinct ids (U,).
            unknown: whether rows without a value have the vector of id 0.
        """
        B, count = ids.shape
        if is_recorded():
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
    """The input of a method during one forward pass.

    Args:
        rows: B.
        ids: after attribute dropout; None for methods without attributes.
        values: of each attribute.
        planned: the rows of a pass by plan, which has no values.
        parts: the conditions of the methods in a combination.
        chunks: C, the number of rows of the backbone's batch into which each document is cut.
        token_mask: 1 where the backbone's batch has a real token of the text; known inside the backbone.
        without: the same with an attribute missing, for the layers in which an `Ablation` hides it.
        is_repeated: whether the pass repeats one whose states were not kept, by gradient checkpointing.
        memory: what sites store for later sites in the same pass.
        is_bare: whether the pass is one of texts without attributes, in which sites change nothing.
        auxiliary: logits of further losses, (B, L) each, which methods append in training.
        auxiliary_documents: document vectors, (B, D) each, for further losses of the model's own classifier.
    """

    rows: int
    ids: AttributeIds | None = None
    values: tuple[Values, ...] = ()
    planned: PlannedRows | None = None
    parts: tuple[Condition, ...] = ()
    chunks: int = 1
    token_mask: Mask | None = None
    without: Condition | None = None
    is_bare: bool = False
    is_repeated: bool = False
    memory: dict[str | int, Any] = field(default_factory=dict, compare=False, repr=False)
    auxiliary: list[Tensor] = field(default_factory=list, compare=False, repr=False)
    auxiliary_documents: list[Tensor] = field(default_factory=list, compare=False, repr=False)

    def vectors(self) -> Float[Tensor, "B width"]:
        """Return the rows' attribute vectors side by side, of sizes Z_1 to Z_M; several values are summed."""
        return torch.cat(self.vectors_per_attribute(), dim=1)

    def bare(self, rows: int) -> Condition:
        """Return the condition of a pass of so many texts in which no site acts."""
        return Condition(rows=rows, parts=tuple(part.bare(rows) for part in self.parts), is_bare=True)

    def over_chunks(self, chunks: int) -> Condition:
        """Return the condition of a batch in which each row is cut into `chunks` rows; they share the memory."""
        return self if chunks == 1 else self.repeated(chunks, chunks=chunks)

    def repeated(self, times: int, *, chunks: int = 1) -> Condition:
        """Return the condition of a batch in which each row stands so many times, one after the other.

        Args:
            chunks: of these, how many are parts of one document.
        """
        return replace(
            self,
            rows=self.rows * times,
            ids=None if self.ids is None else self.ids.repeat_interleave(times, dim=0),
            values=tuple(values.over_chunks(times) for values in self.values),
            planned=None if self.planned is None else self.planned.repeated(times),
            parts=tuple(part.repeated(times, chunks=chunks) for part in self.parts),
            chunks=chunks,
            without=None if self.without is None else self.without.repeated(times, chunks=chunks),
        )

    def with_hidden(self, other: Condition) -> Condition:
        """Return the condition with another one, of the same rows, for layers in which an attribute is hidden."""
        parts = tuple(part.with_hidden(hidden) for part, hidden in zip(self.parts, other.parts, strict=True))
        return replace(self, without=other, parts=parts)

    def each(self) -> Iterator[Condition]:
        """Yield the condition and those of the methods in a combination."""
        yield self
        for part in self.parts:
            yield from part.each()

    def hidden(self) -> Condition:
        """Return the condition of layers in which an attribute is hidden; they share the memory with the others."""
        assert self.without is not None
        return replace(self.without, token_mask=self.token_mask, memory=self.memory)

    def with_token_mask(self, token_mask: Mask) -> Condition:
        """Return the condition with a mask of the text's real tokens in the backbone's batch."""
        return replace(
            self, token_mask=token_mask, parts=tuple(part.with_token_mask(token_mask) for part in self.parts)
        )

    def again(self) -> Condition:
        """Return the condition of the same pass when it is repeated."""
        return replace(self, is_repeated=True, parts=tuple(part.again() for part in self.parts))

    def vectors_per_attribute(self) -> list[Tensor]:
        """Return the rows' vectors of each attribute, (B, Z_m); several values are summed."""
        return [values.membership @ values.vectors for values in self.values]


class ConditionHolder:
    """Provides the sites with the condition of the forward pass in which they run."""

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
        """Make a condition the current one within a block."""
        before, self._current = self._current, condition
        try:
            yield
        finally:
            self._current = before


def check_attribute_ids(attribute_ids: Tensor, slots: Sequence[Slots], rows: int) -> None:
    """Raise DataError for ids of the wrong shape or outside the vocabularies.

    The range is checked where that costs nothing: on the CPU, outside a compiled graph.
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

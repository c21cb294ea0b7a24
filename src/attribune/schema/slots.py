"""Where an attribute stands in `attribute_ids`."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Protocol, TypeVar

from attribune.schema.value_features import ValueDescriptions

__all__ = ["Slots"]


class _Matrix(Protocol):
    def __getitem__(self, key: Any, /) -> Any: ...


Ids = TypeVar("Ids", bound=_Matrix)  # an array or a tensor


@dataclass(frozen=True, kw_only=True)
class Slots:
    """The columns of one attribute in `attribute_ids`, and how many ids it has.

    Args:
        name: the attribute.
        start: first column.
        count: number of columns.
        size: number of ids, including id 0 (missing, unknown, dropped).
        counts: (size,), training rows that have each id, where they are known.
        description: what is known of the values, if anything.
    """

    name: str
    start: int
    count: int
    size: int
    counts: Any = field(default=None, compare=False, repr=False)
    description: ValueDescriptions | None = field(default=None, compare=False, repr=False)

    @property
    def columns(self) -> slice:
        """The columns of `attribute_ids`."""
        return slice(self.start, self.start + self.count)

    @property
    def has_own_vectors(self) -> bool:
        """Whether a value has a vector that is not what its description says."""
        return self.description is None or self.description.own_vectors

    def of(self, attribute_ids: Ids) -> Ids:
        """Select the columns of this attribute: (B, all slots) → (B, count)."""
        selected: Ids = attribute_ids[:, self.columns]
        return selected

"""What is known of the values of an attribute, as features."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Self

import numpy as np
import numpy.typing as npt

from attribune.core.arrays import FloatArray
from attribune.core.hashing import checksum
from attribune.schema.description_kinds import Field
from attribune.schema.vocabulary import Vocabulary

__all__ = ["FittedField", "ValueDescriptions"]


@dataclass(frozen=True, kw_only=True, eq=False)
class FittedField:
    """A column of a table of values, as its training values are.

    Attributes:
        categories: of a column of categories, most frequent first.
        slots: the largest number of categories of a value; 0 for other columns.
        mean: (d,), of the figures of a number, vector or text.
        scale: (d,), their standard deviation, 1 where they are all the same.
    """

    spec: Field
    categories: Vocabulary = field(default_factory=Vocabulary)
    slots: int = 0
    mean: FloatArray = field(default_factory=lambda: np.zeros(0, np.float32))
    scale: FloatArray = field(default_factory=lambda: np.zeros(0, np.float32))

    @property
    def width(self) -> int:
        """Number of features: an id for each category of a value, or the figures and whether they are there."""
        return self.slots or len(self.mean) + 1


@dataclass(frozen=True, kw_only=True, eq=False)
class ValueDescriptions:
    """What is known of the values of an attribute.

    Features are ids of categories, and for each number, vector and text the standardised figures and whether they are
    there; they are zero where nothing is known.

    Attributes:
        features: (size, F) float32, one row for each id; those of id 0 are zero.
        own_vectors: whether a value has, beside what its description says, a vector that is its own.
    """

    fields: tuple[FittedField, ...]
    features: FloatArray
    own_vectors: bool = True

    def take(self, ids: npt.NDArray[np.int64], features: FloatArray | None = None) -> Self:
        """Return the descriptions of some ids, in another order; the last ones may have other features."""
        taken = self.features[ids]
        if features is not None:
            taken[len(taken) - len(features) :] = features
        return replace(self, features=taken)

    def without_unused_categories(self) -> Self:
        """Return the descriptions with the names of categories blanked that no value has: they were those of others."""
        fields, start = [], 0
        for one in self.fields:
            used = np.unique(self.features[:, start : start + one.width]).astype(np.int64)
            start += one.width
            if one.slots:
                names = list(one.categories)
                for number in set(range(1, len(names) + 1)).difference(used.tolist()):
                    names[number - 1] = f"removed category {number}"
                one = replace(one, categories=Vocabulary(names))
            fields.append(one)
        return replace(self, fields=tuple(fields))

    def digest(self) -> str:
        """Return a checksum of the features."""
        return checksum([np.ascontiguousarray(self.features).tobytes()])

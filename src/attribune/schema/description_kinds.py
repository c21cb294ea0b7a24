"""What the columns of a table of values say: categories, lists, numbers, vectors or texts; and that as features."""

from __future__ import annotations

from dataclasses import KW_ONLY, asdict, dataclass, field, replace
from typing import Any, ClassVar, Self, TypeAlias

import numpy as np
import pyarrow as pa

from attribune.core.arrays import FloatArray, IntArray
from attribune.core.config import checked_dataclass
from attribune.core.hashing import checksum
from attribune.errors import ConfigError, DataError
from attribune.schema.columns import Cells, as_array, number_of, single_cells
from attribune.schema.kinds import Categorical, ColumnName, MultiLabel, Number, VocabularyKind, read_kind
from attribune.schema.vocabulary import Vocabulary

__all__ = [
    "FIELD_KINDS",
    "Field",
    "FittedField",
    "Number",
    "Text",
    "ValueDescriptions",
    "Vector",
    "field_from_dict",
    "field_to_dict",
    "holds_numbers",
    "infer_field",
]

_CATEGORIES = 50  # of a column of words, whatever the number of rows
_WORDS = 4  # on average, above which words are a text


@checked_dataclass()
class Vector:
    """A vector of fixed length, such as an embedding: a column of lists, or of lists as text. It is standardised."""

    kind: ClassVar[str] = "vector"
    name: ColumnName


@checked_dataclass()
class Text:
    """A text, such as a profile, which a frozen encoder turns into a vector.

    Args:
        encoder: hub name or folder; by default the backbone of the model.
        revision: branch, tag or commit of the encoder on the hub.
    """

    kind: ClassVar[str] = "text"
    name: ColumnName
    _: KW_ONLY
    encoder: str | None = None
    revision: str | None = None


Field: TypeAlias = Categorical | MultiLabel | Number | Vector | Text
FIELD_KINDS: dict[str, type[Field]] = {kind.kind: kind for kind in (Categorical, MultiLabel, Number, Vector, Text)}


def field_from_dict(settings: dict[str, Any]) -> Field:
    """Read the settings of a column of a table of values; its kind is ``categorical`` by default.

    Raises:
        ConfigError: for an unknown kind or option.
    """
    if settings.get("kind") == Number.kind and "bins" in settings:
        raise ConfigError(f"column {settings.get('name')!r} has no option bins: as number it has name")
    field: Field = read_kind(settings, FIELD_KINDS, what="column")
    if isinstance(field, VocabularyKind) and field.unseen != "unknown":
        raise ConfigError(f"column {field.name!r}: unseen={field.unseen!r} is for attributes of rows: leave it out")
    return field


def field_to_dict(field: Field) -> dict[str, Any]:
    """Return kind and settings as plain values."""
    settings = asdict(field)
    if isinstance(field, Number):
        del settings["bins"]  # numbers of values are not rounded
    return {"kind": field.kind, **settings}


def infer_field(name: str, values: Any, *, missing: frozenset[str]) -> Field | None:
    """Tell the kind of a column by its cells; None where nearly every value has a word of its own, such as a name.

    Raises:
        DataError: for cells that mix lists and single values.
    """
    array = as_array(values, column=name)
    if pa.types.is_nested(array.type):
        if pa.types.is_struct(array.type) or pa.types.is_map(array.type):
            raise DataError(f"column {name!r} holds {array.type}: give single values, lists of words or of numbers")
        return Vector(name) if holds_numbers(array.type.value_type) else MultiLabel(name)
    if pa.types.is_boolean(array.type):
        return Categorical(name)
    cells = single_cells(array, missing=missing, column=name, first_row=1)
    if not cells.texts:
        return None
    if all(number_of(text) is not None for text in cells.texts):
        return Number(name)
    if all(text.startswith("[") and text.endswith("]") for text in cells.texts):
        parts = [part.strip() for text in cells.texts for part in text[1:-1].split(",")]
        return Vector(name) if all(number_of(part) is not None for part in parts) else MultiLabel(name)
    return _infer_words(name, cells)


def _infer_words(name: str, cells: Cells) -> Field | None:
    repeats = len(cells.texts) <= 0.5 * len(cells.codes)
    if not repeats and np.mean([len(text.split()) for text in cells.texts]) > _WORDS:
        return Text(name)
    return Categorical(name) if repeats or len(cells.texts) <= min(_CATEGORIES, 0.8 * len(cells.codes)) else None


def holds_numbers(kind: pa.DataType) -> bool:
    """Whether a type of Arrow is one of numbers."""
    return bool(pa.types.is_floating(kind) or pa.types.is_integer(kind))


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

    def take(self, ids: IntArray, features: FloatArray | None = None) -> Self:
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

"""A fitted schema with values added or taken away, and where the rows of its tables come from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from attribune.core.wording import did_you_mean
from attribune.errors import ConfigError
from attribune.schema.attributes import FittedAttribute
from attribune.schema.kinds import Numeric
from attribune.schema.schema import Schema
from attribune.schema.vocabulary import Vocabulary

__all__ = ["Revision", "check_listed"]

_SEARCHABLE = 100_000  # values among which a close one is looked for


@dataclass(frozen=True, kw_only=True)
class Revision:
    """A new schema, and for every table with a row for each id the origin of its rows.

    Attributes:
        ids: by attribute, for each id of the new schema that of the old one; 0, the unknown, for a new value.
    """

    schema: Schema
    ids: Mapping[str, npt.NDArray[np.int64]]

    @classmethod
    def adding(
        cls,
        schema: Schema,
        values: Mapping[str, Mapping[str, int]],
        features: Mapping[str, Mapping[str, npt.NDArray[np.float32]]] | None = None,
    ) -> Revision:
        """Add values, whose ids follow the old ones.

        Args:
            values: by attribute, new values and the number of rows that have each.
            features: by attribute, what is known of new values; see `ValueDescriptions`.

        Raises:
            ConfigError: for an attribute that has no list of values, or a value that it has already.
        """

        def grown(attribute: FittedAttribute) -> tuple[FittedAttribute, npt.NDArray[np.int64]]:
            check_listed(attribute)
            new = values[attribute.name]
            if (old := attribute.values.ids(list(new))).any():
                value = list(new)[int(np.flatnonzero(old)[0])]
                raise ConfigError(f"attribute {attribute.name!r} has the value {value!r} already: leave it out")
            ids = np.concatenate([np.arange(attribute.size), np.zeros(len(new), dtype=np.int64)])
            counts = np.concatenate([attribute.counts, np.array(list(new.values()), dtype=np.int64)])
            description = attribute.description
            if description is not None:
                known = (features or {}).get(attribute.name, {})
                unknown = description.features[0]
                rows = np.array([known.get(value, unknown) for value in new]).reshape(len(new), len(unknown))
                description = description.take(ids, rows)
            vocabulary = attribute.values.added(list(new))
            return replace(attribute, values=vocabulary, counts=counts, description=description), ids

        return cls._of(schema, {name: grown(schema[name]) for name, new in values.items() if new})

    @classmethod
    def removing(cls, schema: Schema, values: Mapping[str, tuple[str, ...]], *, count_rows: bool = True) -> Revision:
        """Remove values; the ids of those behind them move up.

        Args:
            count_rows: whether their rows count as rows without a value from then on.

        Raises:
            ConfigError: for an attribute that has no list of values, or a value that is not in it.
        """

        def shrunk(attribute: FittedAttribute) -> tuple[FittedAttribute, npt.NDArray[np.int64]]:
            check_listed(attribute)
            removed = attribute.values.ids(values[attribute.name])
            for value, number in zip(values[attribute.name], removed, strict=True):
                if not number:
                    raise _not_there(attribute, value)
            ids = np.delete(np.arange(attribute.size), removed)
            counts = attribute.counts[ids]
            counts[0] += attribute.counts[np.unique(removed)].sum() * count_rows
            remaining = Vocabulary(attribute.values[int(number) - 1] for number in ids[1:])
            description = attribute.description
            description = None if description is None else description.take(ids).without_unused_categories()
            return replace(attribute, values=remaining, counts=counts, description=description), ids

        return cls._of(schema, {name: shrunk(schema[name]) for name in values})

    @classmethod
    def _of(cls, schema: Schema, changed: Mapping[str, tuple[FittedAttribute, npt.NDArray[np.int64]]]) -> Revision:
        attributes = [changed[one.name][0] if one.name in changed else one for one in schema]
        return cls(
            schema=Schema(attributes, missing=schema.missing), ids={name: ids for name, (_, ids) in changed.items()}
        )


def check_listed(attribute: FittedAttribute) -> None:
    """Refuse an attribute whose values are not a list.

    Raises:
        ConfigError: naming it and the reason.
    """
    if isinstance(attribute.spec, Numeric):
        raise ConfigError(
            f"attribute {attribute.name!r} is of the kind {attribute.spec.kind}, which has no list of values: none can "
            "be added or removed; name a categorical or multi-label attribute"
        )
    if not attribute.spec.lists_values:
        raise ConfigError(
            f"attribute {attribute.name!r} is hashed: a value shares its vector with others, so that it can be neither "
            "added nor removed alone"
        )


def _not_there(attribute: FittedAttribute, value: str) -> ConfigError:
    # Of two numbers as names, the closest spelling is someone else.
    is_searched = attribute.size <= _SEARCHABLE and not value.isdigit()
    hint = did_you_mean(value, attribute.values) if is_searched else ""
    return ConfigError(f"attribute {attribute.name!r} has no value {value!r}{hint}")

"""Values that a run has not seen, among labelled rows and in tables that describe them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Self, TypeAlias

import numpy as np
import numpy.typing as npt

from attribune.core.door import as_argument
from attribune.errors import ConfigError, DataError, numbered_in_file
from attribune.runs.labelled import LabelledRows
from attribune.schema import Numeric, Schema, ValueTable
from attribune.schema.descriptions import describe
from attribune.schema.revision import Revision, check_listed

__all__ = ["NewValues"]

Features: TypeAlias = Mapping[str, Mapping[str, npt.NDArray[np.float32]]]


@dataclass(frozen=True, kw_only=True)
class NewValues:
    """Values that the schema lacks.

    Attributes:
        counts: number of rows of each value, by attribute; 0 for one that is described alone.
        rows: indices of the rows with a new value.
        skipped: number of values with too few rows, by attribute.
        features: of the values that are described, by attribute.
    """

    counts: dict[str, dict[str, int]]
    rows: npt.NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, np.int64))
    skipped: dict[str, int] = field(default_factory=dict)
    features: Features = field(default_factory=dict)

    @classmethod
    def described(cls, values: Mapping[str, ValueTable], schema: Schema) -> Self:
        """Find the new values that tables describe.

        Args:
            values: by attribute, one whose values were described in training.

        Raises:
            DataError: for a table that cannot be used.
        """
        features: dict[str, dict[str, npt.NDArray[np.float32]]] = {}
        for name, table in values.items():
            attribute = schema[name]
            assert attribute.description is not None
            missing = frozenset(text for text in schema.missing if text)
            keys, found = describe(attribute.description, table, attribute.spec, missing=missing)
            is_new = attribute.values.ids(keys) == 0
            features[name] = {keys[row]: found[row] for row in np.flatnonzero(is_new)}
        return cls(counts={name: dict.fromkeys(new, 0) for name, new in features.items()}, features=features)

    def with_rows(self, rows: LabelledRows, schema: Schema, attributes: Sequence[str] | None, *, min_rows: int) -> Self:
        """Return these and the new values of rows."""
        if attributes is None:
            attributes = [a.name for a in schema if not isinstance(a.spec, Numeric) and a.spec.unseen != "hash"]
        names = list(attributes)
        for name in names:
            check_listed(schema[name])
        with numbered_in_file(rows.numbers, rows.source):
            unknown = schema.unknown(rows.rows)
        counts, skipped = {name: dict(new) for name, new in self.counts.items()}, {}
        for name in names:
            described = self.counts.get(name, {})
            if waiting := _described_with_rows(rows, schema, name):
                raise DataError(
                    f"{rows.source}: {len(waiting):,} values of {name!r}, the first being {waiting[0]!r}, are known by "
                    "their descriptions alone, and cannot be learned in their place: forget them, "
                    f"then add them with these rows and {as_argument('values')}"
                )
            seen = Counter(value for values in unknown[name] for value in set(values))
            learned = {value: count for value, count in seen.most_common() if count >= min_rows or value in described}
            counts[name] = {**described, **learned}
            skipped[name] = len(seen) - len(learned)
        has_new = [
            any(value in counts[name] for name in names for value in unknown[name][row])
            for row in range(len(rows.rows))
        ]
        return type(self)(counts=counts, rows=np.flatnonzero(has_new), skipped=skipped, features=self.features)

    def check(self, schema: Schema, *, min_rows: int, source: str) -> None:
        """Refuse to add nothing, or values of which nothing can be learned.

        Raises:
            DataError: without a new value.
            ConfigError: for values without vectors of their own that are not described.
        """
        if not any(self.counts.values()):
            few = sum(self.skipped.values())
            rare = f" with {min_rows} rows ({few:,} have fewer)" if few else ""
            raise DataError(f"{source} no new value{rare}")
        for name, new in self.counts.items():
            undescribed = [value for value in new if value not in self.features.get(name, {})]
            if undescribed and not schema[name].layout.has_own_vectors:
                raise ConfigError(
                    f"the values of {name!r} have no vectors of their own, and {undescribed[0]!r} is not described: "
                    f"describe it in a table of values of {name!r} with {as_argument('values')}"
                )

    def revision(self, schema: Schema) -> Revision:
        """Add the values to a schema."""
        return Revision.adding(schema, self.counts, self.features)


def _described_with_rows(rows: LabelledRows, schema: Schema, name: str) -> list[str]:
    """Return the values of rows that the schema knows without a training row."""
    attribute = schema[name]
    if attribute.description is None or not attribute.description.own_vectors or (attribute.counts[1:] > 0).all():
        return []
    with numbered_in_file(rows.numbers, rows.source):
        ids = schema.encode(rows.rows)[0][:, attribute.columns]
    found = np.unique(ids[(ids > 0) & (attribute.counts[ids] == 0)])
    return [attribute.values[int(number) - 1] for number in found]

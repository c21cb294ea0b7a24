"""Reads values: tables that describe them, and those that a run has not seen, among labelled rows or in such tables."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Self, TypeAlias

import numpy as np
import numpy.typing as npt

from attribune.core.door import as_argument
from attribune.data.file_options import FileOptions
from attribune.data.tables import read_table, table_source_name
from attribune.errors import ConfigError, DataError, numbered_in_file
from attribune.models.features import SentenceVectors
from attribune.runs.labelled import LabelledRows
from attribune.runs.learner import BackboneRecipe
from attribune.runs.recipe import ValuesRecipe
from attribune.schema import Schema, Text, ValueTable
from attribune.schema.columns import missing_column
from attribune.schema.description_kinds import field_from_dict
from attribune.schema.descriptions import describe
from attribune.schema.schema import Revision, check_listed

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
            attributes = [a.name for a in schema if a.spec.lists_values]
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


def read_value_tables(
    values: Mapping[str, ValuesRecipe], *, encoder: BackboneRecipe | None, reading: FileOptions
) -> dict[str, ValueTable]:
    """Read the tables that describe the values of attributes.

    Args:
        encoder: the backbone, which encodes columns of texts that name no encoder.
        reading: how the rows are read, see `FileOptions.beside`.

    Raises:
        DataError: for a file that cannot be read, or lacks the column with the values.
        ConfigError: for settings that do not fit.
    """
    return {
        name: read_value_table(recipe, attribute=name, encoder=encoder, reading=reading)
        for name, recipe in values.items()
    }


def read_value_table(
    recipe: ValuesRecipe,
    *,
    attribute: str,
    encoder: BackboneRecipe | None,
    reading: FileOptions,
    data: Any = None,
    moved: str | Path | None = None,
) -> ValueTable:
    """Read one table; see `read_value_tables`.

    Args:
        data: anything `read_table` takes, in place of the file.
        moved: new location of the backbone's weights.
    """
    source = recipe.table if data is None else data
    table, shown = read_table(source, **reading.beside(source).given()), table_source_name(source)
    key = recipe.key or attribute
    if key not in table.column_names:
        cure = (
            ""
            if recipe.key
            else f"; name the one with the values with {as_argument(f'data.values.{attribute}.key', 'COLUMN')}"
        )
        raise DataError(f"{missing_column(table.column_names, key, source=shown)}{cure}")
    return ValueTable(
        table=table,
        key=key,
        fields=tuple(field_from_dict(dict(field)) for field in recipe.fields),
        own_vectors=recipe.own_vectors,
        text_vectors=partial(_text_vectors, backbone=encoder, moved=moved),
        encoder=encoder.name if encoder is not None and encoder.is_pretrained else None,
        revision=None if encoder is None else encoder.revision,
        source=shown,
    )


def _text_vectors(
    spec: Text, texts: Sequence[str], *, backbone: BackboneRecipe | None, moved: str | Path | None
) -> npt.NDArray[np.float32]:
    """Return the vectors (n, H) of texts by the encoder of their column."""
    if spec.encoder is None:
        raise ConfigError(
            f"column {spec.name!r} is of texts, and the backbone is not pretrained: name an encoder, such as "
            f"fields: [{{name: {spec.name}, kind: text, encoder: HUB_NAME_OR_FOLDER}}], or leave the column out"
        )
    if moved is not None and backbone is not None and spec.encoder == backbone.name:
        return SentenceVectors(str(moved)).of_texts(texts)
    return SentenceVectors(spec.encoder, revision=spec.revision).of_texts(texts)

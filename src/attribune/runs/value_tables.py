"""Tables that describe the values of attributes, read with the settings of a run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from attribune.core.door import as_argument
from attribune.data.file_options import FileOptions
from attribune.data.tables import read_table, table_source_name
from attribune.errors import ConfigError, DataError
from attribune.models.features import SentenceVectors
from attribune.runs.learner import BackboneRecipe
from attribune.runs.recipe import ValuesRecipe
from attribune.schema import Text, ValueTable
from attribune.schema.columns import missing_column
from attribune.schema.description_kinds import field_from_dict

__all__ = ["read_value_table", "value_tables"]


def value_tables(
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
    """Read one table; see `value_tables`.

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

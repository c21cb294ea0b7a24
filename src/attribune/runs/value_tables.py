"""Tables that describe the values of attributes, read with the settings of a run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from attribune.data.tables import read_table, table_source_name
from attribune.errors import ConfigError, DataError
from attribune.models.sentence_vectors import SentenceVectors
from attribune.runs.recipe_parts import ValuesRecipe
from attribune.schema import Text, ValueTable
from attribune.schema.columns import missing_column
from attribune.schema.description_kinds import field_from_dict

__all__ = ["read_value_table", "value_tables"]


def value_tables(
    values: Mapping[str, ValuesRecipe], *, encoder: str | None, encoding: str | None
) -> dict[str, ValueTable]:
    """Read the tables that describe the values of attributes.

    Args:
        encoder: of columns of texts that name none; None where the backbone is not pretrained.
        encoding: of the files' characters.

    Raises:
        DataError: for a file that cannot be read, or lacks the column with the values.
        ConfigError: for settings that do not fit.
    """
    return {
        name: read_value_table(recipe, attribute=name, encoder=encoder, encoding=encoding)
        for name, recipe in values.items()
    }


def read_value_table(
    recipe: ValuesRecipe, *, attribute: str, encoder: str | None, encoding: str | None, data: Any = None
) -> ValueTable:
    """Read one table; see `value_tables`.

    Args:
        data: anything `read_table` takes, in place of the file.
    """
    source = recipe.table if data is None else data
    table, shown = read_table(source, encoding=encoding), table_source_name(source)
    key = recipe.key or attribute
    if key not in table.column_names:
        cure = "" if recipe.key else f"; name the one with the values: --set data.values.{attribute}.key=COLUMN"
        raise DataError(f"{missing_column(table.column_names, key, source=shown)}{cure}")
    return ValueTable(
        table=table,
        key=key,
        fields=tuple(field_from_dict(dict(field)) for field in recipe.fields),
        own_vectors=recipe.own_vectors,
        text_vectors=_text_vectors,
        encoder=encoder,
        source=shown,
    )


def _text_vectors(spec: Text, texts: Sequence[str]) -> npt.NDArray[np.float32]:
    """Return the vectors (n, H) of texts by the encoder of their column."""
    if spec.encoder is None:
        raise ConfigError(
            f"column {spec.name!r} is of texts, and the backbone is not pretrained: name an encoder, such as "
            f"fields: [{{name: {spec.name}, kind: text, encoder: HUB_NAME_OR_FOLDER}}], or leave the column out"
        )
    return SentenceVectors(spec.encoder).of_texts(texts)

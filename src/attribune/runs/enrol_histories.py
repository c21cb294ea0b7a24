"""Rows of new values for a model that reads histories."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from attribune.errors import ConfigError, numbered_in_file
from attribune.models.base import ConditionedModel
from attribune.models.scorer import Scorer
from attribune.models.text_vectors import frozen_vectors
from attribune.runs.labelled import LabelledRows
from attribune.runs.recipe import Recipe

__all__ = ["add_histories", "history_attribute"]


def history_attribute(model: Scorer, attributes: Sequence[str] | None) -> str | None:
    """Return the attribute whose rows a model reads; None for one that reads no histories.

    Args:
        attributes: those whose values are to be added; ConfigError for any other.
    """
    if model.histories is None:
        return None
    name = model.histories.attribute
    if other := [attribute for attribute in attributes or () if attribute != name]:
        raise ConfigError(f"method 'history' reads the rows of {name!r}, not of {other[0]!r}: name {name!r} alone")
    return name


def add_histories(
    model: ConditionedModel,
    rows: LabelledRows,
    index: npt.NDArray[np.int64],
    *,
    recipe: Recipe,
    first_id: int,
    device: Any,
) -> None:
    """Store rows with a model; values of ids below `first_id` keep the histories that they have.

    Raises:
        DataError: for a column of times that is missing, or a time that cannot be read.
    """
    assert model.histories is not None
    embed = None
    if model.histories.config.time is None:
        model.text_vectors = frozen_vectors(model)
        model.text_vectors.to(device)
        embed = model.text_vectors.of_texts
    with numbered_in_file(rows.numbers[index], rows.source):
        model.histories = model.histories.added(
            rows.rows.select(index),
            text=recipe.data.text_input(),
            labels=recipe.data.label,
            missing=recipe.missing_labels,
            embed=embed,
            first_id=first_id,
        )

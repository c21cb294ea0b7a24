"""The rows of a table that have a text and a label, as a run reads them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
import numpy.typing as npt
from datasets import Dataset

from attribune.data.selection import rows_with_text, shuffle_columns
from attribune.data.tables import read_table, table_source_name
from attribune.errors import DataError, numbered_in_file
from attribune.models.predictor import Predictor
from attribune.runs.recipe import Recipe
from attribune.schema.columns import require_columns

__all__ = ["LabelledRows"]


@dataclass(frozen=True, kw_only=True)
class LabelledRows:
    """The rows of a table that have a text and a label.

    Args:
        numbers: of each, its index in the table, from 0.
        labels: as the task encodes them.
        source: of the table, for messages.
    """

    rows: Dataset
    numbers: npt.NDArray[np.int64]
    labels: npt.NDArray[Any]
    source: str
    notes: list[str]

    @classmethod
    def read(cls, recipe: Recipe, predictor: Predictor, data: Any, *, encoding: str | None) -> Self:
        """Read them as a run was trained on its own.

        Raises:
            DataError: naming file, row or column and the cure.
        """
        table = read_table(data, encoding=encoding)
        source = table_source_name(data)
        require_columns(table.column_names, [*recipe.data.text_input().names, *recipe.data.label], source=source)
        predictor.check_columns(table.column_names, source=source)
        task = predictor.task
        columns = [list(table[column]) for column in recipe.label_columns]
        with numbered_in_file(range(len(table)), source):
            labels, has_label = task.encode_labels(columns)
        kept = np.flatnonzero(has_label & rows_with_text(table, recipe.data.text))
        notes = []
        if len(kept) < len(table):
            notes.append(f"{len(table) - len(kept):,} of {len(table):,} rows have no text or no label and are left out")
        if not len(kept):
            raise DataError(f"{source}: no row has both a text and a label: check the columns")
        if unseen := task.unseen_labels(columns):
            notes.append(f"{sum(unseen.values()):,} rows have a label that no training row had; they count as wrong")
        rows = table.select(kept)
        if recipe.data.shuffled:
            rows = shuffle_columns(rows, predictor.schema.names, seed=recipe.training.seed)
            notes.append("the attributes are shuffled over the rows, as in the training of this run")
        return cls(rows=rows, numbers=kept, labels=labels[kept], source=source, notes=notes)

    def first(self, rows: int) -> Self:
        """The first of them."""
        kept = slice(0, rows)
        return replace(self, rows=self.rows.select(range(rows)), numbers=self.numbers[kept], labels=self.labels[kept])

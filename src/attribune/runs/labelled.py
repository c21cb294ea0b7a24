"""The rows of a table that have a text and a label, read with the settings of a run."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
import numpy.typing as npt
from datasets import Dataset

from attribune.core.wording import counted
from attribune.data.clusters import Clusters, clusters_note, find_clusters
from attribune.data.selection import rows_with_text, shuffle_columns
from attribune.data.tables import read_table, table_source_name
from attribune.errors import DataError, numbered_in_file
from attribune.models.predictor import Predictor
from attribune.runs.recipe import Recipe
from attribune.schema.columns import require_columns
from attribune.tasks.labels import UNSEEN

__all__ = ["LabelledRows"]


@dataclass(frozen=True, kw_only=True)
class LabelledRows:
    """The rows of a table that have a text and a label.

    Args:
        numbers: indices of the rows in the table, from 0.
        labels: as the task encodes them.
        source: name of the table, for messages.
        clusters: those of rows that are not independent.
        notes: messages for the user about rows that were dropped or cannot be right.
    """

    rows: Dataset
    numbers: npt.NDArray[np.int64]
    labels: npt.NDArray[Any]
    source: str
    clusters: Clusters
    notes: list[str]

    @classmethod
    def read(cls, recipe: Recipe, predictor: Predictor, data: Any, *, encoding: str | None) -> Self:
        """Read a table as the run's own tables were read; DataError naming file, row or column and the cure."""
        table = read_table(data, encoding=encoding)
        source = table_source_name(data)
        needed = [*recipe.data.text_input().names, *recipe.data.label, *recipe.label_columns]
        require_columns(table.column_names, needed, source=source)
        predictor.check_columns(table.column_names, source=source)
        task = predictor.task
        columns = [list(table[column]) for column in recipe.label_columns]
        with numbered_in_file(range(len(table)), source):
            labels, has_label = task.encode_labels(columns)
        enough = all if task.compares else any
        has_text = rows_with_text(table, recipe.data.texts, words=task.reads_words, enough=enough)
        usable = np.flatnonzero(has_label & has_text)
        notes = []
        if len(usable) < len(table):
            left_out = f"{len(table) - len(usable):,} with {task.unusable}"
            notes.append(f"left out of {counted(len(table), 'row')}: {left_out}")
        if not len(usable):
            raise DataError(f"{source}: no row has both a text and a label: check the columns")
        if unseen := task.unseen_labels(columns):
            found = counted(sum(unseen.values()), "row has", "rows have")
            notes.append(f"{found} a label that no training row had, which counts as wrong")
        notes += task.label_notes(columns)
        rows = table.select(usable)
        clusters = find_clusters(rows, recipe.cluster_settings())
        if note := clusters_note(clusters):
            notes.append(note)
        if lacking := [name for name in recipe.times if name not in table.column_names]:
            notes.append(f"there is no column {lacking[0]!r}, so that each row reads a history as of now")
        if recipe.data.shuffled:
            rows = shuffle_columns(rows, predictor.schema.names, seed=recipe.training.seed)
            notes.append("the attributes are shuffled over the rows, as in the training of this run")
        return cls(rows=rows, numbers=usable, labels=labels[usable], source=source, clusters=clusters, notes=notes)

    def first(self, count: int) -> Self:
        """Return the first `count` rows."""
        return self._select(np.arange(count))

    def learnable(self) -> Self:
        """Return the rows with a label that training rows had: the loss of others is zero, whatever is learned.

        Raises:
            DataError: if there are none.
        """
        if np.asarray(self.labels).dtype != np.int64:
            return self
        known = np.flatnonzero((self.labels.reshape(len(self.labels), -1) != UNSEEN).any(axis=1))
        if not len(known):
            raise DataError(f"{self.source}: no row has a label that a training row had, so there is nothing to learn")
        return self if len(known) == len(self.labels) else self._select(known)

    def _select(self, rows: npt.NDArray[np.int64]) -> Self:
        return replace(
            self,
            rows=self.rows.select(rows),
            numbers=self.numbers[rows],
            labels=self.labels[rows],
            clusters={name: kind[rows] for name, kind in self.clusters.items()},
        )

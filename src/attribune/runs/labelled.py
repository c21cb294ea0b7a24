"""The rows of a table that have a text and a label, read with the settings of a run."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Self

import numpy as np
from datasets import Dataset

from attribune.core.arrays import Array, BoolArray, IntArray
from attribune.core.wording import counted
from attribune.data.clusters import Clusters, clusters_note, find_clusters
from attribune.data.selection import listed_labels, missing_label_words, rows_with_text, shuffle_columns
from attribune.data.tables import read_table, table_source_name
from attribune.errors import AttribuneError, DataError, numbered_in_file, of_column
from attribune.models.predictor import Predictor
from attribune.runs.folder import RunFolder
from attribune.runs.recipe import Recipe
from attribune.runs.stored_scores import StoredScores, own_table, rows_of_training
from attribune.schema.columns import require_columns
from attribune.tasks.labels import UNSEEN

_FEW = 0.1  # of rows whose texts a run was trained on, or with labels that it cannot predict


@dataclass(frozen=True, kw_only=True)
class LabelledRows:
    """The rows of a table that have a text and a label.

    Args:
        numbers: indices of the rows in the table, from 0.
        labels: as the task encodes them.
        source: name of the table, for messages.
        clusters: those of rows that are not independent.
        notes: messages for the user about rows that were dropped or cannot be right.
        unseen: number of labels that no training row has.
        trained: number of rows whose text is among the training texts of the run, where these could be read.
    """

    rows: Dataset
    numbers: IntArray
    labels: Array
    source: str
    clusters: Clusters
    notes: list[str]
    unseen: int = 0
    trained: int = 0

    @property
    def silence(self) -> str | None:
        """Why the rows show nothing of the attributes, with the cure; None if they do."""
        if self.trained > _FEW * len(self.labels):
            return f"over {_FEW:.0%} of the rows have a text of the training: give rows with other texts"
        if self.unseen > _FEW * len(self.labels):
            return f"labels of no training row are over {_FEW:.0%} as many as the rows: write labels as in the training"
        return None

    @classmethod
    def read(cls, recipe: Recipe, predictor: Predictor, data: Any) -> Self:
        """Read a table as the run's own tables were read; DataError naming file, row or column and the cure."""
        table = read_table(data)
        return cls._of(recipe, predictor, table, np.arange(len(table)), source=table_source_name(data))

    @classmethod
    def to_score(cls, run: str | Path, recipe: Recipe, predictor: Predictor, data: Any) -> Self:
        """Read the rows on which a run is scored: those of a table, or with None its own test rows.

        A note counts the rows whose text is among the training texts of the run, as `trained` does, or says that these
        cannot be read.

        Raises:
            DataError: naming file, row or column and the cure.
        """
        if data is not None:
            rows = cls.read(recipe, predictor, data)
        else:
            table, numbers, source, note = _own_rows(run, recipe)
            rows = cls._of(recipe, predictor, table, numbers, source=source)
            rows.notes.insert(0, note)
        trained = rows_of_training(RunFolder.of(run), rows.rows)
        if trained is None and data is not None:
            rows.notes.append(
                f"the training rows of the run, from {recipe.data.train}, cannot be read again: if texts of these rows "
                "are among them, the figures are too high"
            )
        if trained:
            rows.notes.append(
                f"{counted(trained, 'row has', 'rows have')} a text that is among the training texts of the run: the "
                "figures are too high, and what the attributes seem to add may be learned by heart"
            )
        return replace(rows, trained=trained or 0)

    @classmethod
    def _of(cls, recipe: Recipe, predictor: Predictor, table: Dataset, numbers: IntArray, *, source: str) -> Self:
        """Choose the rows with a text and a label; `numbers` are the indices of the rows in the source."""
        needed = [*recipe.data.text_input().names, *recipe.data.label, *recipe.label_columns]
        require_columns(table.column_names, needed, source=source)
        predictor.check_columns(table.column_names, source=source)
        task = predictor.task
        notes: list[str] = []
        if recipe.data.bad_labels == "drop":
            table, numbers, notes = _on_the_scale(recipe, table, numbers)
        columns = [list(table[column]) for column in recipe.label_columns]
        with numbered_in_file(numbers, source), of_column(recipe.label_columns):
            labels, has_label = task.encode_labels(columns)
        enough = all if task.input.needs_every_text else any
        has_text = rows_with_text(table, recipe.data.texts, words=task.input.reads_words, enough=enough)
        usable = np.flatnonzero(has_label & has_text)
        words = ""
        if recipe.data.label:
            unlabelled, missing = has_text & ~has_label, recipe.missing_labels
            words = missing_label_words(table, recipe.data.label, unlabelled, missing=missing)
        words = f": labels {words}, which mean missing (task.missing of the run)" if words else ""
        if len(usable) < len(table):
            left_out = f"{len(table) - len(usable):,} with {task.codec.unusable}{words}"
            notes.append(f"left out of {counted(len(table), 'row')}: {left_out}")
        if not len(usable):
            raise DataError(f"{source}: no row has both a text and a label{words}: check the columns")
        rows = table.select(usable)
        unseen = task.unseen_labels([list(rows[column]) for column in recipe.label_columns])
        if unseen:
            listed = ", ".join(f"{label!r} ({count:,})" for label, count in unseen.most_common(5))
            more = f", and {len(unseen) - 5:,} others" if len(unseen) > 5 else ""
            known = _with_known_label(labels[usable])
            if known is not None and not known.any():
                classes = ", ".join(map(repr, task.output_names[:5]))
                raise DataError(
                    f"{source}: no row has a label that a training row had: {listed}{more}; the run predicts {classes}"
                    f"{', ...' if len(task.output_names) > 5 else ''}: write labels as in the training"
                )
            found = counted(unseen.total(), "label is", "labels are")
            notes.append(f"{found} of no training row, and counted as wrong: {listed}{more}")
        notes += task.codec.notes(columns)
        clusters = find_clusters(rows, recipe.cluster_settings())
        if note := clusters_note(clusters):
            notes.append(note)
        if lacking := [name for name in recipe.learner.times if name not in table.column_names]:
            notes.append(f"there is no column {lacking[0]!r}, so that each row reads a history as of now")
        if recipe.data.shuffled:
            rows = shuffle_columns(rows, predictor.schema.columns, seed=recipe.training.seed)
            notes.append("the attributes are shuffled over the rows, as in the training of this run")
        return cls(
            rows=rows,
            numbers=numbers[usable],
            labels=labels[usable],
            source=source,
            clusters=clusters,
            notes=notes,
            unseen=unseen.total(),
        )

    def first(self, count: int) -> Self:
        """Return the first `count` rows."""
        return self._select(np.arange(count))

    def learnable(self) -> Self:
        """Return the rows with a label that training rows had: the loss of others is zero, whatever is learned."""
        known = _with_known_label(self.labels)
        return self if known is None or known.all() else self._select(np.flatnonzero(known))

    def _select(self, rows: IntArray) -> Self:
        return replace(
            self,
            rows=self.rows.select(rows),
            numbers=self.numbers[rows],
            labels=self.labels[rows],
            clusters={name: kind[rows] for name, kind in self.clusters.items()},
        )


def _with_known_label(labels: Array) -> BoolArray | None:
    """Return (n,) whether a row has a label of the training; None for labels that are no numbers of classes."""
    if np.asarray(labels).dtype != np.int64:
        return None
    return np.asarray((labels.reshape(len(labels), -1) != UNSEEN).any(axis=1))


def _own_rows(run: str | Path, recipe: Recipe) -> tuple[Dataset, IntArray, str, str]:
    """Read the test rows of a run: the rows, their indices in their table, its name, and a note that says so."""
    try:
        scores = StoredScores.read(run)
        table = scores.own_rows(recipe)
    except (AttribuneError, OSError) as error:
        raise DataError(
            f"the test rows of {run} cannot be read again: give a table of labelled rows (DATA). The reason: {error}"
        ) from error
    part = scores.own_part
    source = own_table(recipe, part)
    note = f"no table is given, so these are the {len(table):,} {part} rows of the run, from {source}"
    return table, scores.parts[part]["rows"].astype(np.int64), source, note


def _on_the_scale(recipe: Recipe, table: Dataset, numbers: IntArray) -> tuple[Dataset, IntArray, list[str]]:
    """Leave out the rows whose label is outside the scale, as the training of the run did, with a note."""
    columns = [list(table[column]) for column in recipe.label_columns]
    bad = recipe.task_class.codec_for(recipe.task_options).outside(columns)
    if not bad.any():
        return table, numbers, []
    good = np.flatnonzero(~bad)
    note = (
        f"{counted(int(bad.sum()), 'row')} left out for a label outside the scale, as in the training "
        f"(data.bad_labels=drop): {listed_labels(columns[0], bad, numbers)}"
    )
    return table.select(good), numbers[good], [note]

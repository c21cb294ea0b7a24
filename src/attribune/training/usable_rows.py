"""Rows that a training can use: those with a text and a label on the scale, their weights, and the split."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from datasets import Dataset

from attribune.core.door import as_argument
from attribune.core.wording import counted
from attribune.data.annotation_exports import naming_exports
from attribune.data.selection import (
    listed_labels,
    missing_label_words,
    placeholder_texts,
    placeholder_words,
    read_weights,
    rows_with_label,
    rows_with_text,
)
from attribune.data.splits import split_table
from attribune.data.tables import read_table, table_source_name
from attribune.data.texts import share_texts
from attribune.errors import DataError, numbered_in_file, of_column
from attribune.schema.columns import require_columns
from attribune.tasks import Task
from attribune.training.plan import DataPlan

__all__ = ["UsableRows", "decided_rows", "split_rows", "usable_rows", "with_weights"]


def _if_labels() -> str:
    return (
        "these words count as no label; if one of them is a label, name the words that are none, without it, as in "
        f"{as_argument('task.missing', [''])}"
    )


@dataclass(frozen=True, kw_only=True)
class UsableRows:
    """Rows of a table that have a text and a label, and their numbers in it.

    Attributes:
        missing: the words that stood for a missing label in rows that were left out, and what to do if one is a label.
    """

    table: Dataset
    rows: npt.NDArray[np.int64]
    source: str
    weights: npt.NDArray[np.float32] | None = None
    missing: str = ""

    def take(self, index: npt.NDArray[np.int64]) -> UsableRows:
        """Select rows by index."""
        weights = None if self.weights is None else self.weights[index]
        return replace(self, table=self.table.select(index), rows=self.rows[index], weights=weights)


Noted = tuple[UsableRows, list[str]]
"""Rows, and notes for the user about those that were left out."""


def usable_rows(plan: DataPlan, source: Any, name: str) -> Noted:
    """Read a table and drop the rows without a text or a label, or with one outside the scale.

    Raises:
        DataError: for a table without a usable row, naming file, column and the cure.
    """
    table = read_table(source, **plan.source.reading)
    shown = table_source_name(source) if isinstance(source, str | Path) else name
    weights = [plan.source.weight] if plan.source.weight is not None and name == "train" else []
    with naming_exports(table, shown):
        require_columns(table.column_names, [*plan.columns, *weights], source=shown)
    reads, labels = plan.task.input, plan.true_columns
    enough_text = all if reads.needs_every_text else any
    has_text = rows_with_text(table, plan.source.texts, words=reads.reads_words, enough=enough_text)
    is_partial = plan.source.partial_labels and name == "train"
    enough = all if reads.needs_every_label and not is_partial else any
    has_objects = reads.has_objects or plan.task_options.get("soft_labels") is True
    missing = plan.task_options["missing"]
    has_label = (
        rows_with_label(table, labels, missing=missing, enough=enough, objects=has_objects)
        if labels
        else np.ones(len(table), dtype=bool)
    )
    usable = np.flatnonzero(has_text & has_label)
    limit = "" if plan.source.rows is None else f", at most its first {plan.source.rows:,}"
    notes = [f"{name}: {counted(len(table), 'row')} read from {shown}{limit}"]
    unlabelled = has_text & ~has_label
    words = missing_label_words(table, labels, unlabelled, missing=missing) if unlabelled.any() else ""
    about_words = f": {words}; {_if_labels()}" if words else ""
    if not has_text.all():
        notes.append(f"{name}: {counted((~has_text).sum(), 'row')} without a text left out")
    if found := placeholder_texts(table, plan.source.texts):
        notes.append(f"{name}: {placeholder_words(found)}")
    if unlabelled.any():
        notes.append(f"{name}: {counted(unlabelled.sum(), 'row')} without a label left out{about_words}")
    if not len(usable):
        raise DataError(
            f"{shown}: none of its {len(table):,} rows has both a text in {', '.join(plan.source.texts)} and a label "
            f"in {', '.join(plan.label_columns)}: check the column names and the strings that mean missing{about_words}"
        )
    rows = UsableRows(
        table=table if len(usable) == len(table) else table.select(usable),
        rows=usable,
        source=shown,
        missing=f"{counted(unlabelled.sum(), 'row')} without a label left out{about_words}" if words else "",
    )
    rows, outside = _rows_on_the_scale(rows, plan, name)
    return rows, notes + outside


def _rows_on_the_scale(part: UsableRows, plan: DataPlan, name: str) -> Noted:
    """Refuse labels that are outside the scale of the task, or leave out their rows."""
    columns = [list(part.table[column]) for column in plan.label_columns]
    codec = plan.task.codec_for(plan.task_options)
    bad = codec.outside(columns)
    if not bad.any():
        return part, []
    listed = listed_labels(columns[0], bad, part.rows) + codec.scale_words
    what = f"{bad.sum():,} of {len(bad):,} rows have a label outside the scale of the task {plan.task.kind!r}"
    if bad.all():
        cure = "name another label column, or choose another task, such as classification"
        raise DataError(f"{part.source}: {what}: {listed}: {cure}")
    if plan.source.bad_labels == "error":
        raise DataError(
            f"{part.source}: {what}: {listed}: correct them, choose another task, or leave these rows out by "
            f"{as_argument('data.bad_labels', 'drop')}"
        )
    return part.take(np.flatnonzero(~bad)), [f"{name}: {what}, and are left out: {listed}"]


def decided_rows(name: str, part: UsableRows, plan: DataPlan, task: Task) -> Noted:
    """Leave out the rows of a split whose texts cannot be compared."""
    columns = [list(part.table[column]) for column in plan.label_columns]
    with numbered_in_file(part.rows, part.source), of_column(plan.label_columns):
        decided = np.flatnonzero(task.encode_labels(columns)[1])
    if len(decided) == len(part.rows):
        return part, []
    if not len(decided):
        raise DataError(f"{part.source}: each of the {len(part.rows):,} {name} rows has {task.codec.unusable}")
    return part.take(decided), [f"{name}: {line}" for line in task.codec.notes(columns)]


def with_weights(train: UsableRows, name: str) -> Noted:
    """Read the weights of the training rows, and leave out those of weight 0."""
    with numbered_in_file(train.rows, train.source):
        weights = read_weights(train.table, name)
    weighted = replace(train, weights=weights)
    if weights.all():
        return weighted, []
    note = f"train: {counted(int((weights == 0).sum()), 'row')} of weight 0 left out"
    return weighted.take(np.flatnonzero(weights)), [note]


def split_rows(plan: DataPlan, usable: dict[str, UsableRows]) -> tuple[dict[str, UsableRows], list[str]]:
    """Keep the splits that have a table of their own; cut the others from the training rows, with notes."""
    train, split = usable["train"], plan.source.split
    parts, notes = dict(usable), list[str]()
    if "validation" in usable:
        if "test" not in usable:
            notes.append("no test rows: a validation file was given without a test file, so only validation is scored")
    else:
        fractions = split.fractions
        if "test" in usable:
            fractions = (1 - fractions[1], fractions[1], 0.0)
        cut = split_table(
            train.table,
            text=plan.source.texts,
            seed=split.seed,
            fractions=fractions,
            by=split.by,
            column=split.column,
            date_format=split.date_format,
            shared_texts=split.shared_texts,
        )
        notes.extend(cut.report.lines())
        for name, index in zip(("train", "validation", "test"), cut.rows, strict=True):
            if len(index):
                parts[name] = train.take(index)
    for name in [name for name in usable if name != "train"]:
        shared = share_texts(parts["train"].table, usable[name].table, text=plan.source.texts)
        if shared:
            notes.append(f"{name}: {shared:,} of its texts are also among the training texts: its figures are too high")
    return {name: parts[name] for name in ("train", "validation", "test") if name in parts}, notes

"""Preparation of tables for training: splits, schema, task and encoded texts."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Self

import numpy as np
import pyarrow as pa
from datasets import Dataset

from attribune.backbones.loading import load_tokenizer
from attribune.core.arrays import Array, FloatArray, IntArray
from attribune.core.door import as_argument
from attribune.core.flags import LONGEST_LENGTH, USUAL_LENGTH
from attribune.core.hashing import checksum
from attribune.core.wording import counted, listed_counts
from attribune.data.annotation_exports import naming_exports
from attribune.data.checking.findings import attribute_finding, leak_finding
from attribune.data.checking.profiles import Codes, are_stars, arrow_columns, column_codes, number_codes
from attribune.data.clusters import Clusters, clusters_note, find_clusters
from attribune.data.encoding import encode_with_report
from attribune.data.file_options import FileOptions
from attribune.data.readers.base import MANY_CUT, EncodedRows
from attribune.data.selection import (
    listed_labels,
    missing_label_words,
    placeholder_finding,
    placeholder_texts,
    read_weights,
    rows_with_label,
    rows_with_text,
    shuffle_columns,
)
from attribune.data.splits import split_table
from attribune.data.tables import TableFile, read_table, table_source_name
from attribune.data.texts import share_texts, text_digests
from attribune.data.windows import SpecialTokens, content_ids, longest_input
from attribune.errors import ConfigError, DataError, RowError, numbered_in_file, of_column
from attribune.findings import Finding, if_labels, outside_scale
from attribune.models.base import ConditionedModel
from attribune.models.transfer import AttributeSource
from attribune.runs.folder import RunFolder
from attribune.runs.recipe import Recipe, ValuesRecipe
from attribune.runs.stored_scores import rows_of_training
from attribune.schema import EncodingReport, Schema
from attribune.schema.columns import canonical, column_batches, require_columns
from attribune.schema.schema import Revision
from attribune.schema.times import are_times, time_split_finding
from attribune.tasks import Task, fit_task
from attribune.tasks.labels import FEW_ROWS, UNSEEN, rare_classes
from attribune.training.plan import DataPlan
from attribune.values.reading import read_value_tables

_LOOKED_AT, _STEP = 1_000, 32  # training rows, to see how long texts are, and what the window is a multiple of
_EXAMPLES, _SHOWN_CLASSES = 5, 20  # of labels that are named
_FOLDS, _FEWEST, _FEW = 5, 200, 1_000  # folds of a table with so many rows and fewer than that


@dataclass(frozen=True, kw_only=True)
class _Rows:
    """Rows of a table that have a text and a label, and their numbers in it.

    Attributes:
        missing: the words that stood for a missing label in rows that were left out, and what to do if one is a label.
    """

    table: Dataset
    rows: IntArray
    source: str
    weights: FloatArray | None = None
    missing: str = ""

    def take(self, index: IntArray) -> Self:
        """Select rows by index."""
        weights = None if self.weights is None else self.weights[index]
        return replace(self, table=self.table.select(index), rows=self.rows[index], weights=weights)


def _lines(code: str, lines: Iterable[str], part: str | None = None) -> list[Finding]:
    """Return findings that a report or a task has put into words."""
    found = [Finding.of(code, text=line) for line in lines]
    return found if part is None else [one.of_part(part) for one in found]


def usable_rows(plan: DataPlan, source: Any, name: str, notes: list[Finding]) -> _Rows:
    """Read a table and drop the rows without a text or a label, or with one outside the scale.

    Args:
        notes: gets what is worth saying of them, here and in all steps of `prepare`.

    Raises:
        DataError: for a table without a usable row, naming file, column and the cure.
    """
    table = read_table(source, **plan.source.reading)
    shown = table_source_name(source)
    if name != "train" and not isinstance(source, str | Path | TableFile):
        shown += f" of {name} rows"
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
    notes.append(Finding.of("rows-read", part=name, rows=len(table), source=shown, limit=plan.source.rows))
    unlabelled = has_text & ~has_label
    words = missing_label_words(table, labels, unlabelled, missing=missing) if unlabelled.any() else ""
    left_out = Finding.of("left-out-without-label", rows=unlabelled.sum(), words=words)
    if not has_text.all():
        notes.append(Finding.of("left-out-without-text", part=name, rows=(~has_text).sum()))
    if placeholders := placeholder_texts(table, plan.source.texts):
        notes.append(placeholder_finding(placeholders).of_part(name))
    if unlabelled.any():
        notes.append(left_out.of_part(name))
    if not len(usable):
        raise DataError(
            f"{shown}: none of its {len(table):,} rows has both a text in {', '.join(plan.source.texts)} and a label "
            f"in {', '.join(plan.label_columns)}: check the column names and the strings that mean missing"
            f"{f': {words}; {if_labels()}' if words else ''}"
        )
    rows = _Rows(
        table=table if len(usable) == len(table) else table.select(usable),
        rows=usable,
        source=shown,
        missing=left_out.text if words else "",
    )
    return _on_the_scale(rows, plan, name, notes)


def _on_the_scale(part: _Rows, plan: DataPlan, name: str, notes: list[Finding]) -> _Rows:
    """Refuse labels that are outside the scale of the task, or leave out their rows."""
    columns = [list(part.table[column]) for column in plan.label_columns]
    codec = plan.task.codec_for(plan.task_options)
    bad = codec.outside(columns)
    if not bad.any():
        return part
    listed = listed_labels(columns[0], bad, part.rows) + codec.scale_words
    counts = {"rows": bad.sum(), "of": len(bad), "task": plan.task.kind}
    what = outside_scale(counts)
    if bad.all():
        raise DataError(f"{part.source}: {what}: {listed}: {codec.scale_cure}")
    if plan.source.bad_labels == "error":
        raise DataError(
            f"{part.source}: {what}: {listed}: correct them, choose another task, or leave these rows out by "
            f"{as_argument('data.bad_labels', 'drop')}"
        )
    notes.append(Finding.of("left-out-outside-scale", part=name, **counts, listed=listed))
    return part.take(np.flatnonzero(~bad))


def _decided(name: str, part: _Rows, plan: DataPlan, task: Task, notes: list[Finding]) -> _Rows:
    """Leave out the rows of a split whose texts cannot be compared."""
    columns = [list(part.table[column]) for column in plan.label_columns]
    with numbered_in_file(part.rows, part.source), of_column(plan.label_columns):
        decided = np.flatnonzero(task.encode_labels(columns)[1])
    if len(decided) == len(part.rows):
        return part
    if not len(decided):
        raise DataError(f"{part.source}: each of the {len(part.rows):,} {name} rows has {task.codec.unusable}")
    notes += _lines("label-note", task.codec.notes(columns), name)
    return part.take(decided)


def _weighted(train: _Rows, name: str, notes: list[Finding]) -> _Rows:
    """Read the weights of the training rows, and leave out those of weight 0."""
    with numbered_in_file(train.rows, train.source):
        weights = read_weights(train.table, name)
    weighted = replace(train, weights=weights)
    if weights.all():
        return weighted
    notes.append(Finding.of("left-out-weight-zero", part="train", rows=(weights == 0).sum()))
    return weighted.take(np.flatnonzero(weights))


def _fold_count(plan: DataPlan, usable: Mapping[str, _Rows], *, may_choose: bool) -> int:
    """Return the number of folds into which the rows are divided; 0 for none.

    Args:
        may_choose: whether it may follow from the number of rows, where none is given: a tenth of some hundred rows
            shows nothing, and so many are trained on in a minute.

    Raises:
        ConfigError: for folds beside validation or test rows.
    """
    split, texts = plan.source.split, plan.source.texts
    if split.folds is not None:
        if split.folds and len(usable) > 1:
            raise ConfigError("folds are made of all rows, so validation and test rows are not read: leave one out")
        return split.folds
    is_small = _FEWEST <= len(usable["train"].rows) < _FEW
    is_usual = split.by == "random" and split.fractions == type(split).model_fields["fractions"].default
    if not (may_choose and is_small and len(usable) == 1 and is_usual):
        return 0
    different = len(set(text_digests(usable["train"].table, texts)))
    return _FOLDS if different >= _FEWEST // 2 else 0


def _split(plan: DataPlan, usable: dict[str, _Rows], notes: list[Finding], *, folds: int) -> dict[str, _Rows]:
    """Keep the splits that have a table of their own, and cut the others from the training rows.

    Args:
        folds: with some, no test rows are cut.
    """
    train, split, parts = usable["train"], plan.source.split, dict(usable)
    if "validation" in usable:
        if "test" not in usable:
            notes.append(Finding("no-test-rows"))
    else:
        fractions = split.fractions
        if "test" in usable or folds:
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
        notes += _lines("split-counts", cut.report.lines())
        if split.by == "random":
            notes += map(time_split_finding, _time_columns(plan, train.table))
        for name, index in zip(("train", "validation", "test"), cut.rows, strict=True):
            if len(index):
                parts[name] = train.take(index)
    for name in [name for name in usable if name != "train"]:
        shared = share_texts(parts["train"].table, usable[name].table, text=plan.source.texts)
        if shared:
            notes.append(Finding.of("texts-of-training", part=name, texts=shared))
    return {name: parts[name] for name in ("train", "validation", "test") if name in parts}


def _time_columns(plan: DataPlan, table: Dataset) -> list[str]:
    """Return the columns that the recipe names and that hold times."""
    names = (name for name in plan.columns if name not in (*plan.source.texts, *plan.label_columns))
    return [name for name in names if name in plan.times or are_times(_texts(table, name))]


def _texts(table: Dataset, name: str) -> Iterator[str | None]:
    for _, columns in column_batches(table, [name], batch_size=1_000):
        for cell in columns[name].to_pylist():
            yield None if isinstance(cell, list | dict) else canonical(cell)


@dataclass(frozen=True, kw_only=True)
class PreparedSplit:
    """The rows of training, validation or test.

    Attributes:
        table: the rows that have a text and a label, with all their columns.
        rows: (n,), their numbers in the source file, from 0.
        labels: as the task encodes them.
        clusters: those of scored rows.
        weights: (n,) of training rows; None if all count the same.
        unshuffled: the table with every row's own attributes, where `table` has those of others.
    """

    table: Dataset
    rows: IntArray
    labels: Array
    clusters: Clusters = field(default_factory=dict)
    weights: FloatArray | None = None
    unshuffled: Dataset | None = None

    def ids(self, schema: Schema) -> IntArray:
        """Return the ids of the attributes of a schema, (n, slots)."""
        return schema.encode(self.table)[0] if len(schema) else np.zeros((len(self.table), 0), np.int64)

    def at_most(self, count: int) -> PreparedSplit:
        """Return the split, of more rows than that so many drawn at random, in their order."""
        if len(self.rows) <= count:
            return self
        return self.chosen(np.sort(np.random.default_rng(0).permutation(len(self.rows))[:count]))

    def chosen(self, index: IntArray) -> PreparedSplit:
        """Return some of the rows, by index."""
        return PreparedSplit(
            table=self.table.select(index),
            rows=self.rows[index],
            labels=self.labels[index],
            clusters={name: kind[index] for name, kind in self.clusters.items()},
            weights=None if self.weights is None else self.weights[index],
            unshuffled=None if self.unshuffled is None else self.unshuffled.select(index),
        )


@dataclass(frozen=True, kw_only=True)
class PreparedData:
    """The rows of a training, the same for every method that is compared.

    Attributes:
        splits: ``train``, ``validation`` and, if there is one, ``test``.
        schema: fitted on the training rows, as is `task`.
        notes: what is worth saying: rows dropped, values trimmed or unseen, classes with few rows.
        fold_count: into how many folds they are to be divided.
        folds: the same rows divided for a cross-validation, each time with others as test rows; none without one.
    """

    splits: dict[str, PreparedSplit]
    schema: Schema
    task: Task
    notes: list[Finding] = field(default_factory=list)
    fold_count: int = 0
    folds: tuple[PreparedData, ...] = ()

    @property
    def scored(self) -> dict[str, PreparedSplit]:
        """The splits on which models are compared: validation and test."""
        return {name: split for name, split in self.splits.items() if name != "train"}


def prepare(plan: DataPlan, tables: Mapping[str, Any] | None = None, *, may_choose_folds: bool = False) -> PreparedData:
    """Read and split the tables, fit schema and task, and encode the labels.

    Args:
        tables: ``train``, ``validation`` and ``test`` instead of the plan's files, as anything `read_table` takes.
        may_choose_folds: whether few rows may be divided into folds, where the plan does not say.

    Raises:
        DataError: for tables that cannot be used, naming file, row or column and the cure.
    """
    notes: list[Finding] = []
    parts, folds = _parts(plan, tables, notes, may_choose_folds=may_choose_folds)
    source = None if plan.transfer is None else AttributeSource.load(plan.transfer.run)
    task = _task_of(plan, parts["train"], source)
    if plan.task.input.needs_every_text:
        parts = {name: _decided(name, part, plan, task, notes) for name, part in parts.items()}
    schema = _schema_of(plan, parts["train"], source)
    if schema.fit_report is not None:
        notes += _lines("attribute-counts", schema.fit_report.lines())
    if plan.continued is not None:
        notes += _trained_before(plan.continued, parts, folds=folds)
    splits = {name: _encode_labels(name, parts, plan, schema, task, notes) for name in parts}
    notes += _class_notes(splits, task)
    notes += [one.of_part("train") for one in _column_findings(plan, splits["train"])]
    return PreparedData(splits=splits, schema=schema, task=task, notes=notes, fold_count=folds)


def _parts(
    plan: DataPlan, tables: Mapping[str, Any] | None, notes: list[Finding], *, may_choose_folds: bool
) -> tuple[dict[str, _Rows], int]:
    """Read the tables and split them; returns the parts, and the number of folds."""
    sources = tables or {name: getattr(plan.source, name) for name in ("train", "validation", "test")}
    usable = {name: usable_rows(plan, source, name, notes) for name, source in sources.items() if source is not None}
    if plan.source.partial_labels and "validation" not in usable:
        raise ConfigError(
            "partial_labels is on, but there are no validation rows of their own, which must have all labels: give "
            "them as a file, or turn it off"
        )
    with numbered_in_file(usable["train"].rows, usable["train"].source):
        folds = _fold_count(plan, usable, may_choose=may_choose_folds)
        parts = _split(plan, usable, notes, folds=folds)
    if plan.source.weight is not None:
        parts["train"] = _weighted(parts["train"], plan.source.weight, notes)
    return parts, folds


def _schema_of(plan: DataPlan, train: _Rows, source: AttributeSource | None) -> Schema:
    """Fit the schema on the training rows, or take over that of another run."""
    with numbered_in_file(train.rows, train.source):
        values = read_value_tables(plan.source.values, encoder=plan.encoder, reading=FileOptions.of(plan.source))
        missing = plan.source.missing
        schema = Schema.fit(train.table, plan.attributes, missing=missing, values=values, described=source is None)
        if source is None or plan.transfer is None:
            return schema
        return source.schema_with(schema, frozen=plan.transfer.frozen, values=values)


def _trained_before(run: str, parts: Mapping[str, _Rows], *, folds: int) -> Iterator[Finding]:
    """Say which rows that are scored were training rows of the run that is trained further."""
    for name in ("train", "validation") if folds else ("validation", "test"):
        if name in parts and (count := rows_of_training(RunFolder.of(run), parts[name].table)):
            yield Finding.of("trained-before", part=name, rows=count, run=run)


def _fit_task(plan: DataPlan, *tables: Dataset) -> Task:
    columns = [[label for table in tables for label in table[column]] for column in plan.label_columns]
    return fit_task(plan.task.kind, columns, **plan.task_options)


def _task_of(plan: DataPlan, train: _Rows, source: AttributeSource | None) -> Task:
    """Fit the task on the training rows, or take over that of a run that is trained further.

    Raises:
        DataError: about labels, which says which words were read as none.
    """
    if source is not None and plan.continued is not None:
        return _continued_task(plan, source)
    with (
        numbered_in_file(train.rows, train.source),
        naming_exports(train.table, train.source),
        of_column(plan.label_columns),
    ):
        try:
            return _fit_task(plan, train.table)
        except RowError:
            raise
        except DataError as error:
            raise DataError(f"{error}. {train.missing}" if train.missing else str(error)) from error


def _continued_task(plan: DataPlan, source: AttributeSource) -> Task:
    """Return the task of the run that is trained further, with those of its options that may change.

    Raises:
        ConfigError: for another task, or an option on which the weights depend.
    """
    task, run = source.task(plan.task.kind), RunFolder.of(source.folder)
    if run.is_begun:
        before = DataPlan.of(run.read_recipe()).task_options
    else:  # a model alone has only the fitted task, whose plain options are as they were given
        fitted = {name: getattr(task, name, None) for name in plan.task_options}
        before = {**plan.task_options, **{name: x for name, x in fitted.items() if isinstance(x, str | int | float)}}
    changes = {}
    for name in sorted({*before, *plan.task_options}):
        own, asked = before.get(name), plan.task_options.get(name)
        if own == asked:
            continue
        if name not in task.changeable or asked is None:
            raise ConfigError(
                f"the task's {name} is {asked!r}, but {own!r} in {source.folder}, which is trained further: give the "
                "same options and columns, or begin a new run"
            )
        changes[name] = asked
    return replace(task, **changes)  # type: ignore[type-var]  # tasks are dataclasses


def _class_notes(splits: Mapping[str, PreparedSplit], task: Task) -> list[Finding]:
    """Say how many rows each class has, and which have few training rows or none on which models are scored."""
    counts = {name: task.codec.counts(split.labels) for name, split in splits.items()}
    odd = [one.of_part("train") for one in task.codec.class_notes(splits["train"].labels)]
    if not (train := counts["train"]):
        return odd
    found = [Finding.of("class-counts", part="train", rows=dict(train)), *odd]
    if few := rare_classes(train):
        found.append(Finding.of("hardly-learned-classes", part="train", rows=dict(few), least=FEW_ROWS))
    for name, rows in counts.items():
        absent = [one for one, count in rows.items() if not count]
        if absent and name != "train":
            found.append(Finding.of("absent-classes", part=name, classes=absent))
    return found


def _column_findings(plan: DataPlan, train: PreparedSplit) -> list[Finding]:
    """Say which attributes cannot help, and which tell the label."""
    single = [kind for kind in plan.attributes if kind.is_nested or not kind.takes_several]
    kinds = {column: kind for kind in single for column in kind.columns}
    if not kinds:
        return []
    labels = [] if plan.task.input.has_objects or len(plan.source.label) != 1 else list(plan.source.label)
    table = arrow_columns(train.table, [*kinds, *labels])
    codes = {name: column_codes(table[name], missing=plan.source.missing) for name in kinds}
    label = None if not labels else _label_codes(table[labels[0]], plan)
    found = []
    for name, kind in kinds.items():
        may_be_unique = kind.of_numbers or name in plan.source.values or plan.transfer is not None
        finding = attribute_finding(name, codes[name], may_be_unique=may_be_unique)
        found += [finding or (None if label is None else leak_finding(name, codes[name], label))]
    return [finding for finding in found if finding is not None]


def _label_codes(column: pa.ChunkedArray, plan: DataPlan) -> Codes:
    """Number the labels as the task reads them, and ``4 stars`` and four signs of stars as one in any task."""
    codes = column_codes(column, missing=plan.task_options["missing"])
    return number_codes(codes) if plan.task.no_label or are_stars(codes) else codes


def _encode_labels(
    name: str, parts: Mapping[str, _Rows], plan: DataPlan, schema: Schema, task: Task, notes: list[Finding]
) -> PreparedSplit:
    """Encode the labels of a split, and note labels and values that no training row has."""
    part = parts[name]
    columns = [list(part.table[column]) for column in plan.label_columns]
    with numbered_in_file(part.rows, part.source):
        with of_column(plan.label_columns):
            labels, _ = task.encode_labels(columns)
        # Values of training rows are in the vocabulary, unless it is that of another run, but may be too many.
        is_new = name != "train" or plan.transfer is not None
        may_be_dropped = any(one.spec.takes_several and one.slots == one.spec.max_per_row for one in schema)
        report = schema.encode(part.table)[1] if len(schema) and (is_new or may_be_dropped) else None
    if unseen := task.unseen_labels(columns):
        is_none_known = labels.dtype == np.int64 and (labels == UNSEEN).all()
        if name == "train" and is_none_known:
            raise _other_labels(unseen, part, plan, task)
        if name == "validation" and is_none_known:
            raise DataError(
                f"{part.source}: none of the {counted(len(labels), 'validation row')} has a label that a training row "
                f"has, but {listed_counts(unseen, most=_EXAMPLES)}: join labels to classes that recur, or "
                "name another label column"
            )
        # The classes of training rows are those of the run that is trained further.
        code = "labels-not-learned" if name == "train" else "labels-not-in-training"
        examples = dict(unseen.most_common(_EXAMPLES))
        notes.append(Finding.of(code, part=name, rows=unseen.total(), labels=len(unseen), examples=examples))
    notes += _lines("label-note", task.codec.notes(columns), name)
    if report is not None and is_new:
        notes += _lines("attribute-counts", report.lines(), name)
    if report is not None and name == "train":
        notes += _dropped_notes(report, schema)
    whole = [one.table for one in parts.values() if one.source == part.source]
    clusters = find_clusters(part.table, plan.clusters, parts=whole) if name != "train" else {}
    if note := clusters_note(clusters):
        notes += _lines("intervals-over", [note], name)
    return PreparedSplit(table=part.table, rows=part.rows, labels=labels, clusters=clusters, weights=part.weights)


def _other_labels(unseen: Mapping[str, int], part: _Rows, plan: DataPlan, task: Task) -> DataError:
    """Say that no training row has a class of the task: that of the run that is trained further, or of the recipe."""
    of = "task.classes" if plan.transfer is None else f"{plan.transfer.run}, which is trained further"
    names = task.answer_names
    classes = ", ".join(map(repr, names[:_SHOWN_CLASSES])) + (", ..." if len(names) > _SHOWN_CLASSES else "")
    return DataError(
        f"{part.source}: none of its training rows has a class of {of} ({classes}); their labels are "
        f"{listed_counts(unseen, most=_SHOWN_CLASSES)}: write them as these classes, name another label column, or "
        "begin a new run"
    )


def _dropped_notes(report: EncodingReport, schema: Schema) -> Iterator[Finding]:
    """Say which attributes have more values in a training row than are kept, and what changes it."""
    for name, counts in report.attributes.items():
        if counts.dropped:
            yield Finding.of(
                "values-dropped",
                part="train",
                name=name,
                dropped=counts.dropped,
                slots=schema[name].slots,
                separator=schema[name].spec.separator,
                kind=schema[name].spec.kind,
            )


def with_all_classes(recipe: Recipe, tables: Mapping[str, Dataset]) -> Recipe:
    """Return the recipe with the classes of all these rows, as `all_classes` has them."""
    return recipe.model_copy(update={"task": {**recipe.task, **all_classes(DataPlan.of(recipe), tables)}})


def all_classes(plan: DataPlan, tables: Mapping[str, Dataset]) -> dict[str, Any]:
    """Return the options of a task with the classes of all these rows, so that models of subsets have the same outputs.

    Balanced class weights become those of the training rows, 1 for a class that none of them has; a task without
    classes has no such options.
    """
    options = _fit_task(plan, *tables.values()).to_dict()
    if "classes" not in options:
        return {}
    chosen = {"classes": options["classes"]}
    if plan.task_options.get("class_weights") == "balanced":
        fitted = _fit_task(plan, tables["train"]).to_dict()
        weights = dict(zip(fitted["classes"], fitted["class_weights"], strict=True))
        chosen["class_weights"] = [weights.get(name, 1.0) for name in options["classes"]]
    return chosen


def shuffle(data: PreparedData, *, seed: int) -> PreparedData:
    """Shuffle the attributes over the rows of each split, as a control."""
    splits = {
        name: replace(split, table=shuffle_columns(split.table, data.schema.columns, seed=seed), unshuffled=split.table)
        for name, split in data.splits.items()
    }
    return replace(data, splits=splits, folds=tuple(shuffle(fold, seed=seed) for fold in data.folds))


def describe_as(data: PreparedData, values: Mapping[str, ValuesRecipe]) -> PreparedData:
    """Return the data with the values described as `values` has them.

    What is left out there is not described at all, and values without training rows are unknown then.
    """
    attributes = []
    for attribute in data.schema:
        if attribute.spec.lists_values:  # a number is its own description
            description = attribute.description if attribute.name in values else None
            if description is not None:
                description = replace(description, own_vectors=values[attribute.name].own_vectors)
            attribute = replace(attribute, description=description)
        attributes.append(attribute)
    schema = Schema(attributes, missing=data.schema.missing, fit_report=data.schema.fit_report)
    without_rows = {
        one.name: tuple(value for value, count in zip(one.values, one.counts[1:], strict=True) if not count)
        for one in schema
        if one.description is None and data.schema[one.name].description is not None
    }
    folds = tuple(describe_as(fold, values) for fold in data.folds)
    return replace(data, schema=Revision.removing(schema, without_rows, count_rows=False).schema, folds=folds)


def rows_digest(data: PreparedData, plan: DataPlan) -> str:
    """Return a checksum of the texts, labels, attributes and weights of all splits."""
    return checksum(_content(data, plan), size=16)


def _content(data: PreparedData, plan: DataPlan) -> Iterator[bytes]:
    columns = list(dict.fromkeys([*plan.columns, *data.schema.columns]))
    for name, split in data.splits.items():
        yield name.encode() + split.rows.tobytes()
        if split.weights is not None:
            yield split.weights.tobytes()
        for _, batch in column_batches(split.table, columns):
            yield repr([array.to_pylist() for array in batch.values()]).encode()
    for attribute in data.schema:
        if attribute.description is not None:
            yield attribute.description.digest().encode()


def longer_window(plan: DataPlan, data: PreparedData) -> Finding | None:
    """Return how many tokens are to be read of texts of which the usual window would cut many; None for the usual one.

    It is chosen where no number is given, and holds all of 95 % of the texts as far as the backbone takes them.
    """
    source = plan.source
    is_fixed = source.max_length is not None or source.window not in ("head", "head+tail")
    if is_fixed or not plan.encoder.is_pretrained or plan.task.input.scores == "tokens":
        return None
    tokenizer = load_tokenizer(plan.encoder.name, revision=plan.encoder.revision)
    table = data.splits["train"].table
    chosen = np.unique(np.linspace(0, len(table) - 1, num=_LOOKED_AT, dtype=np.int64))
    texts = content_ids(tokenizer, plan.text.read_all(table.select(chosen)))
    lengths = np.array([len(ids) for ids in texts]) + len(SpecialTokens.of(tokenizer))
    if (lengths > USUAL_LENGTH).mean() <= MANY_CUT:
        return None
    wanted = _STEP * math.ceil(np.quantile(lengths, 1 - MANY_CUT) / _STEP)
    size = min(wanted, LONGEST_LENGTH, longest_input(tokenizer) or LONGEST_LENGTH)
    if size <= USUAL_LENGTH:
        return None
    cost = np.minimum(lengths, size).sum() / np.minimum(lengths, USUAL_LENGTH).sum()
    longer = (lengths > USUAL_LENGTH).mean()
    return Finding.of("window-lengthened", longer=longer, usual=USUAL_LENGTH, size=size, cost=cost)


def encode_split(name: str, data: PreparedData, plan: DataPlan, model: ConditionedModel) -> Dataset:
    """Return the rows of a split as the Trainer takes them, with a note about truncated texts.

    Raises:
        ConfigError: when the plan's texts are longer than the model takes.
    """
    encoder = model.row_encoder(plan.text)
    if name == "train":
        encoder = encoder.for_training(seed=plan.seed)
    rows, report = encode_with_report(
        data.splits[name].table,
        data.schema,
        model.tokenizer,
        text=plan.text,
        label=None if encoder.makes_labels else plan.label_columns or None,
        task=data.task,
        weight=plan.source.weight if name == "train" else None,
        encoder=encoder,
        on_missing_label="partial" if plan.source.partial_labels and name == "train" else "drop",
    )
    notes = encoder.value_notes(data.schema) if name == "train" else []
    if report.shortened:
        notes += _lines("texts-cut", [encoder.cut_note(report.shortened, report.rows)], name)
    if report.unlearned:
        counts = {"answers": report.unlearned, "rows": report.rows, "window": plan.text.window}
        notes.append(Finding.of("answers-not-in-window", part=name, **counts))
    data.notes.extend(note for note in notes if note not in data.notes)
    return rows


def encode_validation(data: PreparedData, plan: DataPlan, model: ConditionedModel) -> Dataset | EncodedRows:
    """Return the validation rows as `encode_split` does, or whole with their labels where a model reads pieces."""
    if model.reader.cuts_rows:
        return encode_labelled(data.splits["validation"], plan, model)
    return encode_split("validation", data, plan, model)


def encode_labelled(split: PreparedSplit, plan: DataPlan, model: ConditionedModel) -> EncodedRows:
    """Return the rows of a split with their labels, none of them cut into pieces."""
    encoder, schema = model.row_encoder(plan.text), model.input_schema
    names = (*plan.text.names, *schema.sources)
    parts = [
        encoder.encode(columns, schema, text=plan.text, first_row=row)
        for row, columns in column_batches(split.table, names)
    ]
    return EncodedRows.concat(parts).with_labels(split.labels)

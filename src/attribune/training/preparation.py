"""From the files that a recipe names to rows ready for training: splits, schema, task and encoded texts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt
from datasets import Dataset

from attribune.conditioned import ConditionedModel
from attribune.data.encoding import encode_with_report
from attribune.data.selection import rows_with_label, rows_with_text, shuffle_columns
from attribune.data.splits import share_texts, split_table
from attribune.data.tables import read_table, require_columns
from attribune.errors import ConfigError, DataError, numbered_in_file
from attribune.recipe import Recipe
from attribune.schema import Schema, canonical
from attribune.tasks import Task, fit_task
from attribune.transfer import AttributeSource

__all__ = ["Part", "Prepared", "encode_part", "prepare", "with_all_classes"]

_MANY_CUT = 0.05  # of the texts


@dataclass(frozen=True, kw_only=True)
class Part:
    """The rows of training, validation or test.

    Args:
        table: the rows that have a text and a label, with all their columns.
        rows: (n,), their numbers in the file they came from, the first row being 0.
        labels: as the task encodes them.
    """

    table: Dataset
    rows: npt.NDArray[np.int64]
    labels: npt.NDArray[Any]


@dataclass(frozen=True, kw_only=True)
class Prepared:
    """Everything a method needs for training, the same for every method that is compared.

    Args:
        parts: ``train``, ``validation`` and, unless there is none, ``test``.
        schema: fitted on the training rows.
        task: fitted on the training rows.
        notes: what was counted on the way: rows dropped, values trimmed or unseen.
    """

    parts: dict[str, Part]
    schema: Schema
    task: Task
    notes: list[str] = field(default_factory=list)


def prepare(recipe: Recipe, tables: Mapping[str, Any] | None = None) -> Prepared:
    """Read, split and encode.

    Args:
        recipe: what to read.
        tables: instead of the recipe's files: ``train``, ``validation``, ``test`` as anything `read_table` takes.

    Raises:
        DataError: for tables that cannot be used, naming file, row or column and the cure.
    """
    notes: list[str] = []
    usable = {
        name: _usable_rows(recipe, source, name=name, notes=notes) for name, source in _sources(recipe, tables).items()
    }
    if recipe.data.partial_labels and "validation" not in usable:
        raise ConfigError(
            "partial_labels is on, but there are no validation rows of their own, which must have all labels: give "
            "them as a file, or turn it off"
        )
    with numbered_in_file(usable["train"].rows, usable["train"].source):
        tables_, rows = _split(recipe, usable, notes)
    sources = {name: usable.get(name, usable["train"]).source for name in tables_}
    with numbered_in_file(rows["train"], sources["train"]):
        schema = Schema.fit(tables_["train"], recipe.data.kinds(), missing=recipe.data.missing)
    source = None if recipe.transfer is None else AttributeSource.load(recipe.transfer.run)
    if source is not None and recipe.transfer is not None:
        schema = source.schema_with(schema, frozen=recipe.transfer.frozen)
    if schema.fit_report is not None:
        notes.extend(schema.fit_report.lines())
    with numbered_in_file(rows["train"], sources["train"]):
        goes_on = source is not None and recipe.transfer is not None and recipe.transfer.everything
        labels_ = _label_columns(tables_["train"], recipe)
        task = source.task(recipe.task_kind) if goes_on and source is not None else _fit_task(recipe, labels_)
    parts = {}
    for name, table in tables_.items():
        columns = _label_columns(table, recipe)
        with numbered_in_file(rows[name], sources[name]):
            labels, _ = task.encode_labels(columns)
            foreign = name != "train" or recipe.transfer is not None  # its values need not be in the vocabulary
            encoded = schema.encode(table)[1] if foreign and len(schema) else None
        unseen = task.unseen_labels(columns)
        if unseen:
            listed = ", ".join(f"{value!r} ({count:,})" for value, count in unseen.most_common(5))
            notes.append(
                f"{name}: {sum(unseen.values()):,} rows have a label that no training row has: {listed}; no model can "
                "predict it, and these rows count as wrong"
            )
        parts[name] = Part(table=table, rows=rows[name], labels=labels)
        if encoded is not None:
            notes.extend(f"{name}: {line}" for line in encoded.lines())
    return Prepared(parts=parts, schema=schema, task=task, notes=notes)


def _fit_task(recipe: Recipe, columns: list[list[Any]]) -> Task:
    options = {key: value for key, value in recipe.task.items() if key != "kind"}
    options["missing"] = _missing_labels(recipe)
    if recipe.task_kind == "aspects":
        options.setdefault("names", recipe.data.label)
    return fit_task(recipe.task_kind, columns, **options)


def with_all_classes(recipe: Recipe, tables: Mapping[str, Dataset]) -> Recipe:
    """The recipe with the classes of all these rows, so that models trained on other parts of them predict the same."""
    found = [_label_columns(table, recipe) for table in tables.values()]
    task = _fit_task(recipe, [[label for part in column for label in part] for column in zip(*found, strict=True)])
    classes = task.to_dict().get("classes")
    return recipe if classes is None else recipe.model_copy(update={"task": {**recipe.task, "classes": classes}})


def shuffled(prepared: Prepared, *, seed: int) -> Prepared:
    """The same rows with attributes dealt out anew in each part: what a method gains by these is not their doing."""
    parts = {
        name: replace(part, table=shuffle_columns(part.table, prepared.schema.names, seed=seed))
        for name, part in prepared.parts.items()
    }
    return replace(prepared, parts=parts)


def encode_part(name: str, prepared: Prepared, recipe: Recipe, model: ConditionedModel) -> Dataset:
    """The rows of a part as the Trainer takes them; texts that were cut are noted.

    Raises:
        ConfigError: when the recipe's texts are longer than the model takes.
    """
    part, text = prepared.parts[name], recipe.data.text_input()
    rows, report = encode_with_report(
        part.table,
        prepared.schema,
        model.tokenizer,
        text=text,
        label=recipe.data.label or None,
        task=prepared.task,
        encoder=model.row_encoder(text),
        on_missing_label="partial" if recipe.data.partial_labels and name == "train" else "drop",
    )
    note = f"{name}: {report.shortened:,} of {report.rows:,} texts cut to the window {text.window}"
    if report.shortened > _MANY_CUT * report.rows:
        share = report.shortened / report.rows
        others = "" if recipe.writes else ", or read the ends too (window head+tail) or all (chunks)"
        note += f", which is {share:.0%}: raise max_length{others}"
    if report.shortened and note not in prepared.notes:
        prepared.notes.append(note)
    return rows


def _sources(recipe: Recipe, tables: Mapping[str, Any] | None) -> dict[str, Any]:
    named = tables or {part: getattr(recipe.data, part) for part in ("train", "validation", "test")}
    return {part: source for part, source in named.items() if source is not None}


@dataclass(frozen=True, kw_only=True)
class _Usable:
    table: Dataset
    rows: npt.NDArray[np.int64]
    source: str


def _usable_rows(recipe: Recipe, source: Any, *, name: str, notes: list[str]) -> _Usable:
    """Read a table and leave out the rows without a text or a label, counting them."""
    table = read_table(source, encoding=recipe.data.encoding)
    shown = source if isinstance(source, str) else name
    attributes = [kind.name for kind in recipe.data.kinds()]
    require_columns(table, [*recipe.data.text_input().names, *recipe.data.label, *attributes], source=shown)
    has_text = rows_with_text(table, recipe.data.text)
    enough = any if recipe.data.partial_labels and name == "train" else all
    has_label = rows_with_label(table, recipe.label_columns, missing=_missing_labels(recipe), enough=enough)
    kept = np.flatnonzero(has_text & has_label)
    notes.append(f"{name}: {len(table):,} rows read from {shown}")
    if dropped := int((~has_text).sum()):
        notes.append(f"{name}: {dropped:,} rows without a text left out")
    if dropped := int((has_text & ~has_label).sum()):
        notes.append(f"{name}: {dropped:,} rows without a label left out")
    if not len(kept):
        raise DataError(
            f"{shown}: none of its {len(table):,} rows has both a text in {', '.join(recipe.data.text)} and a label in "
            f"{', '.join(recipe.label_columns)}: check the column names and the strings that mean missing"
        )
    return _Usable(table=table if len(kept) == len(table) else table.select(kept), rows=kept, source=shown)


def _missing_labels(recipe: Recipe) -> tuple[str, ...]:
    """Texts that mean a missing label: those of the recipe, but for a class that the task names."""
    classes = recipe.task.get("classes")
    named = {canonical(name) for name in classes} if isinstance(classes, list | tuple) else set()
    return tuple(text for text in recipe.task.get("missing", recipe.data.missing) if text not in named)


def _label_columns(table: Dataset, recipe: Recipe) -> list[list[Any]]:
    return [list(table[column]) for column in recipe.label_columns]


def _split(
    recipe: Recipe, usable: dict[str, _Usable], notes: list[str]
) -> tuple[dict[str, Dataset], dict[str, npt.NDArray[np.int64]]]:
    """Keep given parts; cut what is not given from the training rows."""
    train = usable["train"]
    given = {name: part for name, part in usable.items() if name != "train"}
    tables, rows = {name: part.table for name, part in given.items()}, {name: part.rows for name, part in given.items()}
    if "validation" in given:
        tables["train"], rows["train"] = train.table, train.rows
        if "test" not in given:
            notes.append("no test rows: a validation file was given without a test file, so only validation is scored")
    else:
        fractions = recipe.data.split.fractions
        if "test" in given:
            fractions = (1 - fractions[1], fractions[1], 0.0)
        parts = split_table(
            train.table,
            text=recipe.data.text,
            seed=recipe.data.split.seed,
            fractions=fractions,
            by=recipe.data.split.by,
            column=recipe.data.split.column,
        )
        notes.extend(parts.report.lines())
        for name, index in zip(("train", "validation", "test"), parts.rows, strict=True):
            if len(index):
                tables[name], rows[name] = train.table.select(index), train.rows[index]
    for name in given:
        shared = share_texts(tables["train"], tables[name], text=recipe.data.text)
        if shared:
            notes.append(f"{name}: {shared:,} of its texts are also among the training texts: its figures are too high")
    order = [name for name in ("train", "validation", "test") if name in tables]
    return {name: tables[name] for name in order}, {name: rows[name] for name in order}

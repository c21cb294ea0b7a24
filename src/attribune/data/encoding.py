"""Encoding: a table of texts, attributes and labels becomes `input_ids`, `attribute_ids` and `labels`."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, NamedTuple, Protocol, Self

import datasets
import numpy as np
import pyarrow as pa

from attribune.core.arguments import as_list, checked_arguments
from attribune.core.arrays import Array, BoolArray, IntArray
from attribune.core.wording import shortened
from attribune.data.readers import READERS
from attribune.data.readers.base import EncodedRows, Reader
from attribune.data.readers.text import TextEncoder
from attribune.data.selection import row_weights
from attribune.data.tables import ArrowStore
from attribune.data.texts import TextInput
from attribune.data.windows import Window
from attribune.errors import AttribuneWarning, ConfigError, DataError
from attribune.schema import EncodingReport, Schema
from attribune.schema.columns import Table, column_batches
from attribune.schema.description_kinds import holds_numbers
from attribune.schema.reports import count_lines
from attribune.tasks.base import Task

_BATCH = 2_000
_UNSEEN = -100
_LOST = {
    "empty_text": "rows left out, without a text",
    "no_label": "rows left out, without a label",
    "unseen_labels": "rows whose label is not among the classes",
}
_CUT = {"shortened": "texts cut to the window", "unlearned": "answers that no window has whole"}


class LabelEncoder(Protocol):
    """What encoding asks of a task."""

    def encode_labels(self, columns: Sequence[Sequence[Any]], *, first_row: int = 1) -> tuple[Array, Array]:
        """Return labels (n,) or (n, k), int64 or float32, and a mask (n,) that is False where the label is missing."""


@dataclass(frozen=True, kw_only=True)
class RowReport:
    """Which rows encoding kept, left out and changed; what it did to their attributes is in `schema`.

    Attributes:
        kept: (kept rows,) index of each encoded row in the source, from 0.
        empty_text: rows left out because they have no text.
        no_label: rows left out because they have no label.
        unseen_labels: rows kept whose label is not among the task's classes; they count as wrong.
        shortened: texts that did not fit the window.
        unlearned: answers that no window has whole.
    """

    kept: IntArray
    rows: int
    empty_text: int
    no_label: int
    unseen_labels: int
    shortened: int
    unlearned: int
    schema: EncodingReport

    @classmethod
    def total(cls, reports: Sequence[Self]) -> Self:
        """Add up the reports of consecutive batches."""
        names = ("rows", "empty_text", "no_label", "unseen_labels", "shortened", "unlearned")
        return cls(
            kept=np.concatenate([np.zeros(0, dtype=np.int64), *(report.kept for report in reports)]),
            schema=sum((report.schema for report in reports), EncodingReport({})),
            **{name: sum(getattr(report, name) for report in reports) for name in names},
        )

    def lines(self) -> list[str]:
        """Say in short lines what is not zero."""
        return self._lines(_LOST | _CUT) + self.schema.lines()

    def lost(self) -> list[str]:
        """Say in short lines which rows no training learns from."""
        return self._lines(_LOST)

    def _lines(self, words: Mapping[str, str]) -> list[str]:
        return [f"{line} of {self.rows:,}" for line in count_lines(self, words)]


def encode(table: Table, schema: Schema, tokenizer: Any, **settings: Any) -> datasets.Dataset:
    """Encode a table; see `encode_with_report` for the settings. A warning counts the rows that are lost.

    Returns:
        A Dataset with `input_ids`, `attribute_ids`, `length` and, with a label, `labels`.
    """
    rows, report = encode_with_report(table, schema, tokenizer, **settings)
    if lost := report.lost():
        warnings.warn(f"encode: {'; '.join(lost)}", AttribuneWarning, stacklevel=2)
    return rows


@checked_arguments
def encode_with_report(
    table: Table,
    schema: Schema,
    tokenizer: Any,
    *,
    text: str | Sequence[str] | TextInput,
    label: str | Sequence[str] | None = None,
    task: LabelEncoder | None = None,
    weight: str | None = None,
    window: Window | None = None,
    limit: int | None = None,
    separator: str = "\n",
    encoder: Reader | None = None,
    on_empty_text: Literal["drop", "error", "keep"] = "drop",
    on_missing_label: Literal["drop", "error", "partial"] = "drop",
    cache_dir: str | Path | None = None,
) -> tuple[datasets.Dataset, RowReport]:
    """Encode a table batch by batch, and report what was kept, left out and changed.

    Args:
        text: name of the text column, or of several to join; or a `TextInput`, which has the window and separator.
        label: name of the label column, or of several for aspects; None for rows without labels.
        task: turns labels into numbers; None if the label column holds numbers already.
        weight: name of the column with the weight of each row in the loss; None weighs all rows the same.
        window: how long texts are fitted; None keeps the beginning, at most 512 ids.
        limit: maximum number of ids that the backbone takes; None asks the tokenizer.
        separator: text between two joined texts.
        encoder: replaces tokenizer, window and limit: the ``row_encoder()`` of a model that writes, whose labels are
            the ids to write, or of one that scores tokens, whose windows are the rows of the result.
        on_empty_text: what happens to a row without a text.
        on_missing_label: what happens to a row without its label; with several, ``partial`` drops a row that lacks all.
        cache_dir: folder for a result too large for memory; None takes a temporary one.

    Returns:
        A Dataset with `input_ids`, `attribute_ids`, `length`, perhaps `labels` and `weights`, and `segment_start` for
        pairs of texts with segments; and the report.

    Raises:
        DataError: for a missing column, a value that cannot be used, or when no row is left.
        ConfigError: for a window that the backbone cannot take, or labels that need a task.
    """
    choices = _Choices(on_empty_text=on_empty_text, on_missing_label=on_missing_label)
    text_input = text if isinstance(text, TextInput) else TextInput.of(text, separator=separator, window=window)
    if encoder is None:
        encoder = _text_encoder(tokenizer, text_input, task, limit=limit)
    labels, reports = () if label is None else _names(label), []
    weight_names = () if weight is None else (weight,)
    names = encoder.columns_in(table, [*text_input.names, *schema.sources, *labels, *weight_names])
    with ArrowStore(folder=cache_dir) as store:
        for first_row, columns in column_batches(table, names, batch_size=_BATCH):
            rows = encoder.encode(columns, schema, text=text_input, first_row=first_row)
            label_ids = choices.labelled(_encode_labels([columns[name] for name in labels], labels, task, first_row))
            keep = choices.keep(rows.empty, label_ids, first_row)
            chosen = np.flatnonzero(keep)
            pieces = rows.take(chosen).with_labels(None if label_ids is None else label_ids.values[chosen]).pieces()
            reports.append(choices.report(rows, label_ids, keep, first_row, unlearned=pieces.unlearned))
            written = pieces.rows.columns()
            if weight is not None:
                weights = row_weights(columns[weight], weight, first_row=first_row)[chosen]
                written["weights"] = pa.array(weights[pieces.owners])
            store.write(pa.table(written))
        report = RowReport.total(reports)
        if not len(report.kept):
            raise DataError("no row is left to encode" + "".join(f"; {line}" for line in report.lines()))
    return store.finish(), report


def _text_encoder(
    tokenizer: Any, text_input: TextInput, task: LabelEncoder | None, *, limit: int | None
) -> TextEncoder:
    if isinstance(task, Task) and READERS[task.input.name] is not TextEncoder:
        raise ConfigError(f"the task {task.kind!r} {task.input.does}: give encoder=model.row_encoder()")
    if text_input.written:
        raise ConfigError(
            f"text.written is {', '.join(text_input.written)}, which the reader of a model writes: give "
            "encoder=model.row_encoder()"
        )
    if not hasattr(tokenizer, "model_max_length"):
        raise ConfigError(
            f"a tokenizer cannot be {type(tokenizer).__name__}: give one of transformers, such as "
            "AutoTokenizer.from_pretrained returns"
        )
    return TextEncoder(tokenizer, window=text_input.window, limit=limit)


class _Labels(NamedTuple):
    values: Array
    is_labelled: BoolArray


@dataclass(frozen=True, kw_only=True)
class _Choices:
    """What happens to rows without a text or a label."""

    on_empty_text: str
    on_missing_label: str

    def __post_init__(self) -> None:
        if self.on_empty_text not in ("drop", "error", "keep"):
            raise ConfigError(f"on_empty_text={self.on_empty_text!r} must be 'drop', 'error' or 'keep'")
        if self.on_missing_label not in ("drop", "error", "partial"):
            raise ConfigError(f"on_missing_label={self.on_missing_label!r} must be 'drop', 'error' or 'partial'")

    def labelled(self, labels: _Labels | None) -> _Labels | None:
        """Return the labels, with the rows that count as labelled."""
        if labels is None or self.on_missing_label != "partial" or labels.values.ndim == 1:
            return labels
        return labels._replace(is_labelled=(labels.values != _UNSEEN).any(axis=1))

    def keep(self, empty: BoolArray, labels: _Labels | None, first_row: int) -> BoolArray:
        """Return which rows stay, (rows,)."""
        keep = np.ones(len(empty), dtype=bool) if self.on_empty_text == "keep" else ~empty
        if self.on_empty_text == "error" and empty.any():
            raise DataError(
                f"row {first_row + int(np.argmax(empty))} has no text ({int(empty.sum())} such rows in its batch): "
                "correct it, or use on_empty_text='drop'"
            )
        if labels is None:
            return keep
        if self.on_missing_label == "error" and not labels.is_labelled.all():
            raise DataError(
                f"row {first_row + int(np.argmin(labels.is_labelled))} has no label: "
                "correct it, or use on_missing_label='drop'"
            )
        return keep & labels.is_labelled

    def report(
        self, rows: EncodedRows, labels: _Labels | None, keep: BoolArray, first_row: int, *, unlearned: int
    ) -> RowReport:
        """Count what happened to the rows of a batch."""
        empty = rows.empty if self.on_empty_text == "drop" else np.zeros(len(keep), dtype=bool)
        no_label = unseen_labels = 0
        if labels is not None:
            no_label = int((~labels.is_labelled & ~empty).sum())
            # With partial labels, one that is missing looks like one that is unseen.
            if labels.values.dtype.kind == "i" and self.on_missing_label != "partial":
                unseen = (labels.values[keep] == _UNSEEN).any(axis=tuple(range(1, labels.values.ndim)))
                unseen_labels = int(unseen.sum())
        return RowReport(
            kept=np.flatnonzero(keep).astype(np.int64) + first_row - 1,
            rows=len(keep),
            empty_text=int(empty.sum()),
            no_label=no_label,
            unseen_labels=unseen_labels,
            shortened=int(rows.shortened.sum()),
            unlearned=unlearned,
            schema=rows.report,
        )


def _encode_labels(
    columns: Sequence[pa.Array], names: Sequence[str], task: LabelEncoder | None, first_row: int
) -> _Labels | None:
    if not columns:
        return None
    if task is not None:
        values, is_labelled = task.encode_labels([column.to_pylist() for column in columns], first_row=first_row)
        return _Labels(values, np.asarray(is_labelled, dtype=bool))
    if len(columns) > 1:
        raise ConfigError(f"the label columns {', '.join(map(repr, names))} need a task, such as Aspects: give task=")
    column = columns[0]
    if not holds_numbers(column.type):
        example = next((value for value in column.to_pylist() if value is not None), None)
        raise ConfigError(
            f"the label column {names[0]!r} holds {column.type}, such as {shortened(str(example), 40)!r}: "
            "give the task that turns labels into numbers (task=), or a column of numbers"
        )
    is_labelled = ~column.is_null(nan_is_null=True).to_numpy(zero_copy_only=False)
    dtype = np.float32 if pa.types.is_floating(column.type) else np.int64
    return _Labels(column.fill_null(0).to_numpy(zero_copy_only=False).astype(dtype), is_labelled)


def _names(label: str | Sequence[str]) -> tuple[str, ...]:
    names = tuple(as_list(label))
    if not names:
        raise ConfigError("label=() names no column: name at least one, or leave label out")
    return names

"""Readers: how rows become what a model reads, one class for each kind of input; and the base of their batches."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any, ClassVar, Self, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import torch
from datasets import Dataset

from attribune.core.arrays import Array, BoolArray, IntArray
from attribune.core.wording import shortened
from attribune.data.id_lists import IdLists
from attribune.data.memory import Memory
from attribune.data.texts import TextInput, usual_window
from attribune.data.windows import FILLER, Head, SpecialTokens, Window, longest_input
from attribune.errors import ConfigError, DataError
from attribune.findings import Finding
from attribune.schema import EncodingReport, Schema
from attribune.schema.columns import Table, column_names, require_columns
from attribune.tasks.base import Task
from attribune.tasks.inputs import InputSettings


class Collator:
    """Pad encoded rows to a batch; the `data_collator` of the stock Trainer.

    Padding is on the tokenizer's side. A tokenizer without a padding token, such as that of many decoders, pads with
    its end token; the attention mask hides both. `token_type_ids` are added only for pairs of texts.

    Args:
        pad_to_multiple_of: round the length up, for hardware that prefers it.

    Raises:
        ConfigError: for a tokenizer with neither padding nor end token.
    """

    def __init__(self, tokenizer: Any, schema: Schema, *, pad_to_multiple_of: int | None = None) -> None:
        ends = (tokenizer.pad_token_id, tokenizer.eos_token_id)
        padding = next((token for token in ends if token is not None), None)
        if padding is None:
            raise ConfigError(
                f"{type(tokenizer).__name__} has neither a padding nor an end token: set tokenizer.pad_token"
            )
        if pad_to_multiple_of is not None and pad_to_multiple_of < 1:
            raise ConfigError(f"pad_to_multiple_of={pad_to_multiple_of} must be at least 1, or None")
        self.pad_id = int(padding)
        self.left = tokenizer.padding_side == "left"
        self.slots = schema.slots
        self.multiple = pad_to_multiple_of or 1

    def __call__(self, rows: Sequence[Mapping[str, Any]]) -> dict[str, torch.Tensor]:
        """Make a batch.

        Args:
            rows: `input_ids` and `attribute_ids` of each row, and `labels`, `weights` and `segment_start` in all rows
                or none; the rest is ignored.

        Returns:
            `input_ids` and `attention_mask` (B, length) and `attribute_ids` (B, slots), int64; `text_keys` (B,), int64,
            equal for rows with the same text; `labels` (B,) or (B, k), int64 or float32 as the rows have them;
            `weights` (B,), float32; `token_type_ids` (B, length), 1 in the second segment.

        Raises:
            DataError: for no rows, rows of another schema, or labels in some rows only.
        """
        if not rows:
            raise DataError("a batch needs at least one row")
        names = [name for name in ("input_ids", "attribute_ids", "segment_start", "weights") if name in rows[0]]
        columns: dict[str, Any] = {name: [row[name] for row in rows] for name in names}
        labels = [row.get("labels") for row in rows]
        if any(label is not None for label in labels):
            columns["labels"] = labels
        return self.collate(columns)

    def collate(self, columns: Mapping[str, Any]) -> dict[str, torch.Tensor]:
        """Make a batch of rows that are given as columns; otherwise as for rows."""
        batch = self._texts(columns)
        attribute_ids = self._attribute_ids(columns["attribute_ids"])
        return batch | {"attribute_ids": attribute_ids} | self._targets(columns, length=batch["input_ids"].shape[-1])

    def _texts(self, columns: Mapping[str, Any]) -> dict[str, torch.Tensor]:
        """Pad the texts of rows, and number the distinct ones."""
        lists, starts = IdLists.of(columns["input_ids"]), columns.get("segment_start")
        longest = int(lists.lengths.max())
        ids = lists.padded(-(-longest // self.multiple) * self.multiple, filler=FILLER, left=self.left)
        is_real = ids != FILLER
        batch = {"input_ids": np.where(is_real, ids, self.pad_id), "attention_mask": is_real.astype(np.int64)}
        if starts is not None:
            starts = np.asarray(starts, dtype=np.int64)
            places = np.arange(ids.shape[1]) - (ids.shape[1] - lists.lengths[:, None] if self.left else 0)
            inside = places < lists.lengths[:, None]
            batch["token_type_ids"] = (inside & (places >= starts[:, None])).astype(np.int64)
        batch["text_keys"] = lists.numbers(starts)
        return {name: torch.from_numpy(values) for name, values in batch.items()}

    def _targets(self, columns: Mapping[str, Any], *, length: int) -> dict[str, torch.Tensor]:
        """Return labels and weights of a batch of texts of this length, where the rows have them."""
        found = {}
        if (labels := columns.get("labels")) is not None:
            if missing := sum(label is None for label in labels):
                raise DataError(f"{missing} of {len(labels)} rows have no labels: leave them out, or give them one")
            found["labels"] = self.labels(labels, length=length)
        if "weights" in columns:
            found["weights"] = torch.as_tensor(np.asarray(columns["weights"], dtype=np.float32))
        return found

    def labels(self, labels: Sequence[Any] | Array, *, length: int) -> torch.Tensor:
        """Return the labels of a batch of texts of this length."""
        try:
            found = np.array(labels)
        except ValueError as error:
            raise DataError("the rows have different numbers of labels: encode them with one task") from error
        if found.dtype.kind not in "iufb":
            raise DataError(
                f"labels such as {shortened(str(labels[0]), 40)!r} are not numbers: encode the rows with a task"
            )
        return torch.as_tensor(found.astype(np.float32 if found.dtype.kind == "f" else np.int64))

    def _attribute_ids(self, ids: Sequence[Any] | Array) -> torch.Tensor:
        widths = {ids.shape[1]} if isinstance(ids, np.ndarray) else set(map(len, ids))
        if widths != {self.slots}:
            raise DataError(
                f"the rows have {', '.join(map(str, sorted(widths)))} attribute ids, but the schema has {self.slots} "
                "slots: encode the rows with the same schema"
            )
        return torch.as_tensor(np.array(ids, dtype=np.int64))


Rows = TypeVar("Rows", bound="EncodedRows")
MANY_CUT = 0.05
"""If a larger share of the texts is cut to the window, a note says what to do."""


@dataclass(frozen=True, kw_only=True)
class EncodedRows(ABC):
    """Rows as a model reads them; a subclass for each form of their texts.

    Attributes:
        inputs: the text of each row.
        attribute_ids: (rows, slots).
        empty: (rows,) whether the row has no text.
        shortened: (rows,) whether its text did not fit the window.
        labels: for models that write the ids to write; otherwise labels, if they were added.
        texts: the text of each row as it is written, for a linear model that reads it, too.
    """

    inputs: Sequence[Any]
    attribute_ids: IntArray
    empty: BoolArray
    shortened: BoolArray
    labels: Sequence[Any] | Array | None = None
    texts: Sequence[str] | None = None
    report: EncodingReport = field(default_factory=lambda: EncodingReport({}))

    @classmethod
    def without_attributes(
        cls,
        inputs: Sequence[Any],
        *,
        empty: Sequence[bool] | BoolArray | None = None,
        shortened: Sequence[bool] | BoolArray | None = None,
        **more: Any,
    ) -> Self:
        """Make rows of texts alone; by default none is empty or shortened.

        Args:
            more: further attributes of the class.
        """
        none = np.zeros(len(inputs), dtype=bool)
        return cls(
            inputs=inputs,
            attribute_ids=np.zeros((len(inputs), 0), dtype=np.int64),
            empty=none if empty is None else np.asarray(empty, dtype=bool),
            shortened=none if shortened is None else np.asarray(shortened, dtype=bool),
            **more,
        )

    def __len__(self) -> int:
        return len(self.inputs)

    def as_kind(self, kind: type[Rows], **changes: Any) -> Rows:
        """Return the same rows as rows of another kind: with some attributes changed, and without those it lacks."""
        known = {one.name for one in fields(kind)}
        kept = {one.name: getattr(self, one.name) for one in fields(self) if one.name in known}
        return kind(**(kept | changes))

    def pieces(self) -> Pieces:
        """Return what a model reads at once; by default each row is one piece."""
        return Pieces(rows=self, owners=np.arange(len(self)))

    def with_attribute_ids(self, attribute_ids: IntArray, *, report: EncodingReport | None = None) -> Self:
        """Return the same texts with other attributes, (rows, slots)."""
        return replace(self, attribute_ids=attribute_ids, report=self.report if report is None else report)

    def with_labels(self, labels: Array | None) -> Self:
        """Return the same rows with labels, (rows, ...); with their own for None."""
        return self if labels is None else replace(self, labels=labels)

    def hide_attributes(self, columns: Iterable[slice] = (slice(None),)) -> Self:
        """Return the same rows with every attribute missing, or those in some columns of `attribute_ids`."""
        ids = self.attribute_ids.copy()
        for some in columns:
            ids[:, some] = 0
        return self.with_attribute_ids(ids)

    def take(self, rows: Sequence[int] | slice | Array) -> Self:
        """Select rows by index, slice or mask."""
        index = np.arange(len(self))[rows]
        selected = {name: _selected(getattr(self, name), index) for name in self._by_row}
        return replace(self, inputs=[self.inputs[row] for row in index], **selected)

    @classmethod
    def concat(cls, parts: Sequence[EncodedRows]) -> EncodedRows:
        """Join at least one batch of rows, in order; the reports add up."""
        first = parts[0]
        joined = {name: _joined([getattr(part, name) for part in parts]) for name in first._by_row}
        inputs = [text for part in parts for text in part.inputs]
        report = sum((part.report for part in parts), EncodingReport({}))
        return replace(first, inputs=inputs, report=report, **joined)

    _by_row: ClassVar[tuple[str, ...]] = ("attribute_ids", "empty", "shortened", "labels", "texts")
    """The attributes with an element for each row, beside `inputs`."""

    @property
    @abstractmethod
    def lengths(self) -> IntArray:
        """How long each row's text is, (rows,): the number of ids where it has any."""

    def text_numbers(self) -> IntArray:
        """Number the distinct texts in their order: (rows,), equal for rows with the same text."""
        raise NotImplementedError(f"{type(self).__name__} are numbered as their pieces")

    def features(self) -> dict[str, Sequence[Any] | Array]:
        """Return the columns of which a collator makes a batch."""
        labels = {} if self.labels is None else {"labels": self.labels}
        return {"input_ids": self.inputs, "attribute_ids": self.attribute_ids, **labels}

    def columns(self) -> dict[str, pa.Array]:
        """Return the columns of the Dataset from which the stock Trainer makes batches."""
        raise NotImplementedError(f"{type(self).__name__} are stored as their pieces")


def _selected(values: Any, index: npt.NDArray[np.intp]) -> Any:
    if values is None:
        return None
    return values[index] if isinstance(values, np.ndarray) else [values[row] for row in index]


def _joined(parts: Sequence[Any]) -> Any:
    if parts[0] is None:
        return None
    if isinstance(parts[0], np.ndarray):
        return np.concatenate(parts)
    return [value for part in parts for value in part]


@dataclass(frozen=True, kw_only=True)
class TextRows(EncodedRows):
    """Rows of one text each, or of two that are read together: its ids, special tokens included.

    Attributes:
        segment_starts: (rows,) where the second of two texts begins, for backbones that tell segments apart.
    """

    inputs: Sequence[list[int]]
    segment_starts: IntArray | None = None

    _by_row: ClassVar[tuple[str, ...]] = (*EncodedRows._by_row, "segment_starts")

    @property
    def lengths(self) -> IntArray:
        """Number of ids of each row, (rows,)."""
        return np.fromiter(map(len, self.inputs), dtype=np.int64, count=len(self.inputs))

    def text_numbers(self) -> IntArray:
        """Number the distinct texts in their order: (rows,), equal for rows with the same text."""
        return IdLists.of(self.inputs).numbers(self.segment_starts)

    def features(self) -> dict[str, Sequence[Any] | Array]:
        """Return the columns of which a collator makes a batch."""
        starts = {} if self.segment_starts is None else {"segment_start": self.segment_starts}
        return super().features() | starts

    def columns(self) -> dict[str, pa.Array]:
        """Return `input_ids`, `attribute_ids`, `length`, and where there are any `segment_start` and `labels`.

        Labels that are ids count in the length, too.
        """
        lengths = self.lengths
        columns = {
            "input_ids": self._ids_column(),
            "attribute_ids": labels_column(self.attribute_ids, kind=pa.int32()),
            "length": pa.array(lengths, type=pa.int32()),
        }
        if self.segment_starts is not None:
            columns["segment_start"] = labels_column(self.segment_starts, kind=pa.int32())
        if isinstance(self.labels, np.ndarray):
            columns["labels"] = labels_column(self.labels)
        elif self.labels is not None:
            columns["labels"] = ids_column(self.labels)
            longest = np.maximum(lengths, [len(ids) for ids in self.labels])
            columns["length"] = pa.array(longest, type=pa.int32())
        return columns

    def _ids_column(self) -> pa.Array:
        return ids_column(self.inputs)


def ids_column(lists: Sequence[Any]) -> pa.Array:
    """Write lists of ids, or labels of ids, as a column."""
    return pa.array(lists, type=pa.list_(pa.int32()))


def labels_column(values: Array, *, kind: pa.DataType | None = None) -> pa.Array:
    """Write numbers (n,), or (n, k) as n lists; by default as float32 or int64, whichever they are."""
    if kind is None:
        kind = pa.float32() if values.dtype.kind == "f" else pa.int64()
    if values.ndim == 1:
        return pa.array(values, type=kind)
    ends = np.arange(len(values) + 1, dtype=np.int32) * values.shape[1]
    return pa.ListArray.from_arrays(pa.array(ends), pa.array(values.reshape(-1)).cast(kind))


@dataclass(frozen=True, kw_only=True)
class Pieces:
    """What a model reads at once of rows, and how the scores of rows are made of theirs.

    Args:
        rows: a row for each piece.
        owners: (pieces,) the row of each.
        unlearned: how many rows have a label that no piece has whole.
    """

    rows: EncodedRows
    owners: npt.NDArray[np.intp]
    unlearned: int = 0

    def sheet(self, task: Task) -> Any:
        """Return where the scores of pieces are put."""
        return task.empty_scores(len(self.rows))

    def put(self, sheet: Any, index: npt.NDArray[np.intp], scores: Array) -> None:
        """Put the scores (B, ...) of some pieces there."""
        sheet[index] = scores

    def merged(self, sheet: Any, task: Task) -> Array:
        """Return the scores of rows."""
        return np.asarray(sheet)


@dataclass(frozen=True, kw_only=True)
class Reading:
    """What a reader must know of the model for which it reads.

    Args:
        tokenizer: that of the backbone; None where the model has none.
        task: what is predicted.
        limit: ids that the backbone takes; None asks the tokenizer.
        segments: whether the backbone tells the texts of a pair apart by `token_type_ids`.
        is_causal: whether it reads from left to right.
        is_encoder_decoder: whether an encoder reads what is before the text that is written.
        chunk: ids that it reads at once, where texts are cut into chunks.
        memory: the training rows that are kept with the model, if the method reads any.
        written: the attributes whose values are written in front of a text.
        written_dropout: probability that one of them is left out of a training row.
    """

    tokenizer: Any
    task: Task
    limit: int | None = None
    segments: bool = False
    is_causal: bool = False
    is_encoder_decoder: bool = False
    chunk: int | None = None
    memory: Memory | None = None
    written: tuple[str, ...] = ()
    written_dropout: float = 0.0


class Reader(ABC):
    """Reads the rows of one kind of input: makes ids of their texts, and batches of them.

    ``name`` is that of the kind, see `attribune.tasks.inputs`; ``columns`` are those that are read where a table has
    them, ``cuts_rows`` says whether a row may be several pieces, whose scores are merged, ``makes_labels`` whether
    labels are ids of the text itself, and ``stores_texts`` whether a stored row is a single text; ``batches`` makes
    batches of rows.
    """

    name: ClassVar[str]
    cuts_rows: ClassVar[bool] = False
    makes_labels: ClassVar[bool] = False
    stores_texts: ClassVar[bool] = True
    batches: ClassVar[type[Collator]] = Collator
    window: Window
    columns: tuple[str, ...] = ()

    @classmethod
    def of(cls, reading: Reading, text: TextInput | None) -> Self:
        """Return the reader of a model; `text` says how texts are fitted.

        Raises:
            ConfigError: for a window that the model cannot take.
        """
        raise ConfigError(f"{cls.__name__} reads for no model with a backbone")

    @classmethod
    def collator(cls, reading: Reading, schema: Schema) -> Collator:
        """Return what makes batches of the rows, the `data_collator` of the stock Trainer."""
        return cls.batches(reading.tokenizer, schema)

    @classmethod
    def shared_texts(cls, rows: Dataset) -> TextRows | None:
        """Return the texts of stored rows, which are read once for all rows of a batch that share one; None if not."""
        if not cls.stores_texts:
            return None
        starts = np.asarray(rows["segment_start"]) if "segment_start" in rows.column_names else None
        return TextRows.without_attributes(list(rows["input_ids"]), segment_starts=starts)

    @classmethod
    def refusal(cls, settings: InputSettings) -> str | None:
        """Return why the method of a recipe cannot read its rows, with the cure; None if it can."""
        return None

    @abstractmethod
    def rows(self, text: TextInput, columns: Mapping[str, Sequence[Any]], *, first_row: int = 1) -> EncodedRows:
        """Encode the rows of some columns by name.

        Raises:
            DataError: for a missing column, or a cell that cannot be used, naming the row.
        """

    def encode(
        self, columns: Mapping[str, Sequence[Any]], schema: Schema, *, text: TextInput, first_row: int = 1
    ) -> EncodedRows:
        """Encode the rows of some columns by name, with their attributes.

        Raises:
            DataError: naming column and row of a value that cannot be used.
        """
        require_columns(list(columns), (*text.names, *schema.sources))
        return self._with_attributes(self.rows(text, columns, first_row=first_row), columns, schema, first_row)

    @staticmethod
    def _with_attributes(rows: Rows, columns: Mapping[str, Sequence[Any]], schema: Schema, first_row: int) -> Rows:
        """Return rows with the ids of their attributes."""
        attribute_ids, report = schema.encode(
            {name: columns[name] for name in schema.sources} or {"text": rows.empty}, first_row=first_row
        )
        return rows.with_attribute_ids(attribute_ids, report=report)

    def _take_window(self, tokenizer: Any, window: Window | None, limit: int | None, *, no_other: str = "") -> None:
        """Fit texts to a window, by default to their beginning; `no_other` says why only `Head` can be taken."""
        limit = limit if limit is not None else longest_input(tokenizer)
        self.tokenizer, self.special = tokenizer, SpecialTokens.of(tokenizer)
        self.window = window if window is not None else usual_window(limit)
        if no_other and not isinstance(self.window, Head):
            raise ConfigError(f"the window {str(window)!r} {no_other}: choose head:N")
        self.window.check(self.special, limit=limit)

    def columns_in(self, table: Table, names: Sequence[str]) -> list[str]:
        """Return names of columns, and of those that are read where a table has them."""
        has = column_names(table) if self.columns else ()
        return list(dict.fromkeys([*names, *(name for name in self.columns if name in has)]))

    def kept_texts(self, text: TextInput, table: Any) -> list[str] | None:
        """Return the part of the text of each row that the window keeps, for a model of words to read as much.

        None where the parts cannot be found; by default they cannot.
        """
        return None

    def of_single_texts(self, text: TextInput, *, place: int) -> tuple[Reader, TextInput] | None:
        """Return what reads the text of a row at a place, from 0, alone, and its columns; None where there is none."""
        return (self, text) if place == 0 else None

    def cut_note(self, cut: int, rows: int) -> str:
        """Say how many texts of rows were cut to the window, and what to do where these are many."""
        note = f"{cut:,} of {rows:,} texts cut to the window {self.window}"
        if cut > MANY_CUT * rows:
            note += f", which is {cut / rows:.0%}: {self._cut_cure()}"
        return note

    def _cut_cure(self) -> str:
        if self.window.chunk is not None:
            return "raise the numbers of the window"
        if str(self.window).startswith("head+tail"):
            return "raise max_length, or the numbers of the window if it has some, or read all (chunks)"
        return "raise max_length, or read the ends too (window head+tail) or all (chunks)"

    def value_notes(self, schema: Schema) -> list[Finding]:
        """Return what is worth saying of the values of the attributes as they are read; by default nothing."""
        return []

    def for_training(self, *, seed: int) -> Reader:
        """Return the reader of training rows, which may leave out at random what is read beside a text."""
        return self

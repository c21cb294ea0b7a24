"""`Predictor`: a trained model with everything that turns raw rows into logits; what evaluation and prediction use."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Self

import numpy as np
import numpy.typing as npt
import torch

from attribune.conditioned import ConditionedModel
from attribune.data.encoding import encode_rows
from attribune.data.texts import TextInput
from attribune.errors import ConfigError, DataError
from attribune.loading import load_model
from attribune.methods.linear import LinearModel
from attribune.schema import EncodingReport, Schema
from attribune.schema.columns import Table, column_batches, column_names, missing_column

__all__ = ["Predictor", "ReadyRows"]

_NO_ATTRIBUTES = Schema([])
_ROWS = 4096  # rows encoded and sorted by length at once
_BUSY = {"cpu": 512}  # ids of a batch with which a device is as fast as with more
_BUSY_OTHER = 16384
_NEAR = 0.75  # of the longest row of a batch; shorter ones are worth a batch of their own


@dataclass(frozen=True, kw_only=True)
class ReadyRows:
    """Rows as a model takes them.

    Attributes:
        texts: of each row the ids of its text; the text itself for a linear baseline.
        attribute_ids: (rows, slots).
        report: what happened to the attributes.
        labels: of each row what it teaches; where the model writes, the ids that are to be written.
    """

    texts: list[Any]
    attribute_ids: npt.NDArray[np.int64]
    report: EncodingReport
    labels: Sequence[Any] | npt.NDArray[Any] | None = None

    def __len__(self) -> int:
        return len(self.texts)

    def hidden(self) -> Self:
        """The same rows with every attribute missing."""
        return self.with_ids(self.attribute_ids * 0)

    def with_ids(self, attribute_ids: npt.NDArray[np.int64]) -> Self:
        """The same texts with other attributes, (rows, slots)."""
        return replace(self, attribute_ids=attribute_ids)

    def picked(self, rows: Sequence[int] | slice | npt.NDArray[Any]) -> Self:
        """Some of the rows, by their numbers from 0."""
        numbers = np.arange(len(self))[rows]
        labels = None if self.labels is None else [self.labels[row] for row in numbers]
        return replace(
            self, texts=[self.texts[row] for row in numbers], attribute_ids=self.attribute_ids[numbers], labels=labels
        )

    @classmethod
    def joined(cls, parts: Sequence[Self]) -> Self:
        """Rows of several, one after the other."""
        return cls(
            texts=[text for part in parts for text in part.texts],
            attribute_ids=np.concatenate([part.attribute_ids for part in parts]),
            report=sum((part.report for part in parts), EncodingReport({})),
            labels=None if parts[0].labels is None else [one for part in parts for one in part.labels or ()],
        )


class Predictor:
    """Scores raw rows with a trained model; threads may share it, their passes follow one another.

    Args:
        model: a neural model, or a linear baseline.
        text_input: which columns are the text, and how it is fitted; what the model was saved with unless given.
        batch_size: rows in one forward pass.
        precision: ``float32`` or ``bf16``.
        device: where a neural model runs; a GPU when there is one.
        kept_megabytes: of weights generated for the values seen last, which are kept for the next rows with these
            values; 0 keeps none. See `AttributeModel.keep_weights`.

    Raises:
        ConfigError: for a model without a tokenizer, or of which nobody says what its text is.
    """

    def __init__(
        self,
        model: ConditionedModel | LinearModel,
        *,
        text_input: TextInput | None = None,
        batch_size: int = 64,
        precision: str = "float32",
        device: str | None = None,
        kept_megabytes: float = 256,
    ) -> None:
        text_input = text_input or model.text_input
        if text_input is None:
            raise ConfigError(
                "the model does not say which columns are its text: give text_input=TextInput.of('column')"
            )
        self.model, self.schema, self.task, self.text_input = model, model.schema, model.task, text_input
        self.batch_size, self.precision = batch_size, precision
        self._lock = threading.Lock()
        self.device = torch.device(device or ("cuda" if torch.cuda.is_available() else "cpu"))
        if isinstance(model, ConditionedModel):
            if model.tokenizer is None:
                raise ConfigError("the model has no tokenizer: set model.tokenizer before scoring raw rows")
            chunk = None if text_input.window is None else text_input.window.chunk
            if chunk is not None and chunk != model.config.chunk:
                raise ConfigError(
                    f"the window {text_input.window} is of chunks of {chunk}, but the model was built with "
                    f"chunk={model.config.chunk}: give both the same"
                )
            self._encoder = model.row_encoder(text_input)
            self._collator = model.collator(self.schema if self.reads_attributes else _NO_ATTRIBUTES)
            model.eval()
            self.use(self.device)
            model.keep_weights(kept_megabytes)

    def use(self, device: torch.device | str) -> None:
        """Score on another device from now on."""
        self.device = torch.device(device)
        if isinstance(self.model, ConditionedModel):
            self.model.to(self.device)

    @property
    def reads_attributes(self) -> bool:
        """Whether the predictions depend on the attributes."""
        return isinstance(self.model, LinearModel) or self.model.method_config.uses_attributes

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that rows must have."""
        text = self.text_input.names
        return (*text, *self.schema.names) if self.reads_attributes else text

    @classmethod
    def from_pretrained(
        cls,
        name: str | Path,
        *,
        backbone: str | None = None,
        revision: str | None = None,
        batch_size: int = 64,
        precision: str = "float32",
        device: str | None = None,
        kept_megabytes: float = 256,
    ) -> Self:
        """Load a saved neural model, from a folder or the hub, with all it needs to score raw rows.

        Args:
            name: folder of a run or of its model, or a name on the hub.
            backbone: where the backbone's weights are, if no longer where they were.
            revision: branch, tag or commit of the model on the hub.
            batch_size: rows in one forward pass.
            precision: ``float32`` or ``bf16``.
            device: where the model runs; a GPU when there is one.
            kept_megabytes: of weights generated for the values seen last; 0 keeps none.

        Raises:
            ModelFolderError: for a missing, truncated or foreign file, or another backbone than in training.
            ConfigError: for a model saved without tokenizer or text columns.
        """
        model = load_model(name, backbone=backbone, revision=revision)
        return cls(model, batch_size=batch_size, precision=precision, device=device, kept_megabytes=kept_megabytes)

    def check_columns(self, names: Sequence[str], *, source: str) -> None:
        """Check that a table has the columns.

        Raises:
            DataError: naming the missing column and the cure.
        """
        for name in self.columns:
            if name not in names:
                error = missing_column(names, name, source=source)
                cure = "; where its values are not known, add it with empty cells" if name in self.schema.names else ""
                raise DataError(f"{error}{cure}")

    def predict(self, rows: Table | Sequence[Mapping[str, Any]]) -> dict[str, Any]:
        """Predictions and probabilities by the column names that `attribune predict` writes.

        Args:
            rows: columns by name, a DataFrame or a datasets object; or a list of one mapping per row, in which an
                attribute that is not known may be left out.

        Raises:
            DataError: naming the column that is missing, or column and row of a value that cannot be used.
        """
        if isinstance(rows, list | tuple):
            names = [name for name in self.columns if name in self.schema.names or all(name in row for row in rows)]
            rows = {name: [row.get(name) for row in rows] for name in names}
        self.check_columns(column_names(rows), source="the input")
        return self.task.decode(self.logits(rows)[0]).columns()

    def logits(
        self, table: Table, *, hide_attributes: bool = False, first_row: int = 1
    ) -> tuple[npt.NDArray[np.float32], EncodingReport]:
        """Logits of every row, in the order of the rows.

        Args:
            table: columns by name, a DataFrame, an Arrow table, or a datasets object.
            hide_attributes: treat every attribute as missing.
            first_row: number of the first row, for messages.

        Returns:
            (n, outputs), and what happened to the attributes.

        Raises:
            DataError: naming column and row of a value that cannot be used.
        """
        found = [np.zeros((0, self.task.outputs), dtype=np.float32)]
        report = EncodingReport({})
        for row, columns in column_batches(table, self.columns, batch_size=_ROWS, first_row=first_row):
            rows = self._encode(columns, first_row=row)
            found.append(self.score(rows.hidden() if hide_attributes else rows))
            report = report + rows.report
        return np.concatenate(found), report

    def encode(self, table: Table, *, first_row: int = 1) -> ReadyRows:
        """Read rows to the point where they can be scored, more than once perhaps with other attributes.

        Args:
            table: as for `logits`.
            first_row: number of the first row, for messages.

        Raises:
            DataError: naming column and row of a value that cannot be used.
        """
        slots = self.schema.slots if self.reads_attributes else 0
        parts = [ReadyRows(texts=[], attribute_ids=np.zeros((0, slots), dtype=np.int64), report=EncodingReport({}))]
        for row, columns in column_batches(table, self.columns, batch_size=_ROWS, first_row=first_row):
            parts.append(self._encode(columns, first_row=row))
        return ReadyRows.joined(parts[1:] or parts)

    def _encode(self, columns: Mapping[str, Sequence[Any]], *, first_row: int) -> ReadyRows:
        if isinstance(self.model, LinearModel):
            texts = self.text_input.read(columns, first_row=first_row) if self.model.uses_text else None
            ids, report = self.schema.encode(columns, first_row=first_row)
            return ReadyRows(texts=texts or [""] * len(ids), attribute_ids=ids, report=report)
        schema = self.schema if self.reads_attributes else _NO_ATTRIBUTES
        rows = encode_rows(columns, schema, self._encoder, text=self.text_input, first_row=first_row)
        return ReadyRows(
            texts=rows.input_ids, attribute_ids=rows.attribute_ids, report=rows.schema_report, labels=rows.labels
        )

    def score(self, rows: ReadyRows) -> npt.NDArray[np.float32]:
        """Logits (n, outputs) of rows that `encode` read."""
        if isinstance(self.model, LinearModel):
            texts = rows.texts if self.model.uses_text else None
            return self.model.logits(texts, rows.attribute_ids).astype(np.float32)
        return self._forward(self.model, rows)

    def batch(self, rows: ReadyRows) -> dict[str, torch.Tensor]:
        """Rows of a neural model, padded to one batch on its device."""
        given: dict[str, Any] = {"input_ids": rows.texts, "attribute_ids": rows.attribute_ids}
        given |= {} if rows.labels is None else {"labels": rows.labels}
        picked = [{name: values[i] for name, values in given.items()} for i in range(len(rows))]
        return {name: tensor.to(self.device) for name, tensor in self._collator(picked).items()}

    def batches(self, rows: ReadyRows, *, size: int) -> Iterator[tuple[npt.NDArray[np.intp], dict[str, torch.Tensor]]]:
        """Batches of rows of about one length, the longest first: which rows, and what the model takes.

        A batch ends where rows become much shorter, once it has enough ids to keep the processor busy.

        Args:
            rows: that `encode` read.
            size: of a batch, at most.
        """
        by_length = np.argsort([-len(ids) for ids in rows.texts], kind="stable")
        busy = _BUSY.get(self.device.type, _BUSY_OTHER)
        for start, end in _cuts([len(rows.texts[row]) for row in by_length], size=size, busy=busy):
            yield by_length[start:end], self.batch(rows.picked(by_length[start:end]))

    def _forward(self, model: ConditionedModel, rows: ReadyRows) -> npt.NDArray[np.float32]:
        out = np.zeros((len(rows), self.task.outputs), dtype=np.float32)
        for index, batch in self.batches(rows, size=self.batch_size):
            # One pass at a time: the layers read the attributes of the pass under way.
            with self._lock, torch.inference_mode(), self.autocast():
                scores = model.row_scores(model(**batch).logits, batch.get("labels"))
                out[index] = scores.float().cpu().numpy()
        return out

    def autocast(self) -> AbstractContextManager[Any]:
        """What a pass of the model runs in: nothing for float32."""
        if self.precision != "bf16":
            return nullcontext()
        return torch.autocast(self.device.type, dtype=torch.bfloat16)


def _cuts(lengths: Sequence[int], *, size: int, busy: int) -> Iterator[tuple[int, int]]:
    """Where batches of rows, the longest first, begin and end: where much shorter ones come, or after ``size`` rows."""
    start = 0
    for place in range(1, len(lengths) + 1):
        longest, rows = lengths[start], place - start
        shorter = place < len(lengths) and lengths[place] < _NEAR * longest and rows * longest >= busy
        if place == len(lengths) or rows == size or shorter:
            yield start, place
            start = place

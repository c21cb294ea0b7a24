"""`Predictor`: a trained model with everything that turns raw rows into logits; what evaluation and prediction use."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from attribune.data.collator import Collator
from attribune.data.encoding import TextEncoder, encode_rows, join_text, listed_text
from attribune.data.windows import Window
from attribune.errors import ConfigError, DataError
from attribune.methods.linear import LinearModel
from attribune.model import AttributeModel
from attribune.schema import EncodingReport, Schema
from attribune.schema.columns import missing_column
from attribune.tasks import Task

__all__ = ["Predictor"]

_NO_ATTRIBUTES = Schema([])
_ROWS = 4096  # rows encoded and sorted by length at once


class Predictor:
    """Scores raw rows with a trained model; threads may share it, their passes follow one another.

    Args:
        model: a neural model, or a linear baseline.
        schema: the attributes, as fitted in training.
        task: what is predicted.
        text: the text columns.
        separator: stands between two joined text columns.
        window: how long texts are fitted; not read by baselines.
        batch_size: rows in one forward pass.
        precision: ``float32`` or ``bf16``.
        device: where a neural model runs; a GPU when there is one.
    """

    def __init__(
        self,
        model: AttributeModel | LinearModel,
        *,
        schema: Schema,
        task: Task,
        text: Sequence[str],
        separator: str = "\n",
        window: Window | None = None,
        batch_size: int = 64,
        precision: str = "float32",
        device: str | None = None,
    ) -> None:
        self.model, self.schema, self.task = model, schema, task
        self.text, self.separator = tuple(text), separator
        self.batch_size, self.precision = batch_size, precision
        self._lock = threading.Lock()
        self.device = torch.device(device or ("cuda" if torch.cuda.is_available() else "cpu"))
        if isinstance(model, AttributeModel):
            if model.tokenizer is None:
                raise ConfigError("the model has no tokenizer: set model.tokenizer before scoring raw rows")
            self._texts = TextEncoder(model.tokenizer, window=window)
            self._collator = Collator(model.tokenizer, schema if self.reads_attributes else _NO_ATTRIBUTES)
            model.to(self.device).eval()

    @property
    def reads_attributes(self) -> bool:
        """Whether the predictions depend on the attributes."""
        return isinstance(self.model, LinearModel) or self.model.method_config.uses_attributes

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that rows must have."""
        return (*self.text, *self.schema.names) if self.reads_attributes else self.text

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

    def logits(
        self, table: Any, *, hide_attributes: bool = False, first_row: int = 1
    ) -> tuple[npt.NDArray[np.float32], EncodingReport]:
        """Logits of every row, in the order of the rows.

        Args:
            table: columns by name, or a datasets object.
            hide_attributes: treat every attribute as missing.
            first_row: number of the first row, for messages.

        Returns:
            (n, outputs), and what happened to the attributes.

        Raises:
            DataError: naming column and row of a value that cannot be used.
        """
        n = len(table[self.text[0]])
        out = np.zeros((n, self.task.outputs), dtype=np.float32)
        report = EncodingReport({})
        for start in range(0, n, _ROWS):
            stop = min(n, start + _ROWS)
            columns = {name: table[name][start:stop] for name in self.columns}
            out[start:stop], counted = self._logits_of(columns, hide=hide_attributes, first_row=first_row + start)
            report = report + counted
        return out, report

    def _logits_of(
        self, columns: Mapping[str, Sequence[Any]], *, hide: bool, first_row: int
    ) -> tuple[npt.NDArray[Any], EncodingReport]:
        if isinstance(self.model, LinearModel):
            texts = join_text(
                [listed_text(columns[name], name, first_row) for name in self.text], separator=self.separator
            )
            ids, report = self.schema.encode(columns, first_row=first_row)
            return self.model.logits(texts if self.model.uses_text else None, ids * (not hide)), report
        schema = self.schema if self.reads_attributes else _NO_ATTRIBUTES
        rows = encode_rows(columns, schema, self._texts, text=self.text, separator=self.separator, first_row=first_row)
        ids = rows.attribute_ids * (not hide)
        return self._forward(self.model, rows.input_ids, ids), rows.schema_report

    def _forward(
        self, model: AttributeModel, input_ids: list[list[int]], attribute_ids: npt.NDArray[np.int64]
    ) -> npt.NDArray[np.float32]:
        out = np.zeros((len(input_ids), self.task.outputs), dtype=np.float32)
        by_length = np.argsort([-len(ids) for ids in input_ids], kind="stable")
        for start in range(0, len(by_length), self.batch_size):
            index = by_length[start : start + self.batch_size]
            rows = [{"input_ids": input_ids[i], "attribute_ids": attribute_ids[i]} for i in index]
            batch = {name: tensor.to(self.device) for name, tensor in self._collator(rows).items()}
            # One pass at a time: the layers read the attributes of the pass under way.
            with self._lock, torch.inference_mode(), self._autocast():
                out[index] = model(**batch).logits.float().cpu().numpy()
        return out

    def _autocast(self) -> AbstractContextManager[Any]:
        if self.precision != "bf16":
            return nullcontext()
        return torch.autocast(self.device.type, dtype=torch.bfloat16)

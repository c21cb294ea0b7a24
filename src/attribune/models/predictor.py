"""`Predictor`: a trained model with everything that turns raw rows into logits; what evaluation and prediction use."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any, Self

import numpy as np
import numpy.typing as npt
import torch

from attribune.core.deprecation import renamed_arguments
from attribune.data.encoding import encode_rows
from attribune.data.rows import EncodedRows
from attribune.data.texts import TextInput
from attribune.errors import ConfigError, DataError
from attribune.models.auto import load_model
from attribune.models.scorer import Scorer
from attribune.schema import EncodingReport
from attribune.schema.columns import Table, column_batches, column_names, missing_column

__all__ = ["Predictor"]

_ROWS = 4096  # rows encoded and sorted by length at once


class Predictor:
    """Scores raw rows with a trained model; threads may share it, their passes follow one another.

    Args:
        model: a neural model, or a linear baseline.
        text_input: which columns are the text, and how it is fitted; what the model was saved with unless given.
        batch_size: rows in one forward pass.
        precision: ``float32`` or ``bf16``.
        cache_mb: of weights generated for the values seen last, which are kept for the next rows with these
            values; 0 keeps none. See `AttributeModel.enable_weight_cache`.

    Raises:
        ConfigError: for a model without a tokenizer, or of which nobody says what its text is.
    """

    @renamed_arguments(kept_megabytes="cache_mb")
    def __init__(
        self,
        model: Scorer,
        *,
        text_input: TextInput | None = None,
        batch_size: int = 64,
        precision: str = "float32",
        device: str | None = None,
        cache_mb: float = 256,
    ) -> None:
        text_input = text_input or model.text_input
        if text_input is None:
            raise ConfigError(
                "the model does not say which columns are its text: give text_input=TextInput.of('column')"
            )
        self.model, self.schema, self.task, self.text_input = model, model.schema, model.task, text_input
        self.batch_size, self.precision = batch_size, precision
        self._lock = threading.Lock()
        self._encoder = model.row_encoder(text_input)
        self.device = torch.device(device or ("cuda" if torch.cuda.is_available() else "cpu"))
        model.prepare(self.device, cache_mb=cache_mb)

    def use(self, device: torch.device | str) -> None:
        """Score on another device from now on."""
        self.device = torch.device(device)
        self.model.prepare(self.device)

    @property
    def reads_attributes(self) -> bool:
        """Whether the predictions depend on the attributes."""
        return self.model.reads_attributes

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that rows must have."""
        text = self.text_input.names
        return (*text, *self.schema.names) if self.reads_attributes else text

    @classmethod
    @renamed_arguments(kept_megabytes="cache_mb")
    def from_pretrained(
        cls,
        name: str | Path,
        *,
        backbone: str | None = None,
        revision: str | None = None,
        batch_size: int = 64,
        precision: str = "float32",
        device: str | None = None,
        cache_mb: float = 256,
    ) -> Self:
        """Load a saved neural model, from a folder or the hub, with all it needs to score raw rows.

        Args:
            name: folder of a run or of its model, or a name on the hub.
            backbone: where the backbone's weights are, if no longer where they were.
            revision: branch, tag or commit of the model on the hub.
            batch_size: rows in one forward pass.
            precision: ``float32`` or ``bf16``.
            device: where the model runs; a GPU when there is one.
            cache_mb: of weights generated for the values seen last; 0 keeps none.

        Raises:
            ModelFolderError: for a missing, truncated or foreign file, or another backbone than in training.
            ConfigError: for a model saved without tokenizer or text columns.
        """
        model = load_model(name, backbone=backbone, revision=revision)
        return cls(model, batch_size=batch_size, precision=precision, device=device, cache_mb=cache_mb)

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
        """Return predictions and probabilities by the column names that `attribune predict` writes.

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
        """Return the logits of every row, in the order of the rows.

        Args:
            table: columns by name, a DataFrame, an Arrow table, or a datasets object.
            hide_attributes: treat every attribute as missing.

        Returns:
            (n, outputs), and what happened to the attributes.

        Raises:
            DataError: naming column and row of a value that cannot be used.
        """
        logits = [np.zeros((0, self.task.outputs), dtype=np.float32)]
        report = EncodingReport({})
        for row, columns in column_batches(table, self.columns, batch_size=_ROWS, first_row=first_row):
            rows = self._encode(columns, first_row=row)
            logits.append(self.score(rows.hide_attributes() if hide_attributes else rows))
            report = report + rows.report
        return np.concatenate(logits), report

    def encode(self, table: Table, *, first_row: int = 1) -> EncodedRows:
        """Read rows to the point where they can be scored, more than once perhaps with other attributes.

        Args:
            table: as for `logits`.

        Raises:
            DataError: naming column and row of a value that cannot be used.
        """
        parts = [
            self._encode(columns, first_row=row)
            for row, columns in column_batches(table, self.columns, batch_size=_ROWS, first_row=first_row)
        ]
        nothing = np.zeros((0, self.model.input_schema.slots), dtype=np.int64)
        return EncodedRows.concat(parts or [EncodedRows.without_attributes([]).with_attribute_ids(nothing)])

    def _encode(self, columns: Mapping[str, Sequence[Any]], *, first_row: int) -> EncodedRows:
        schema = self.model.input_schema
        return encode_rows(columns, schema, self._encoder, text=self.text_input, first_row=first_row)

    def score(self, rows: EncodedRows) -> npt.NDArray[np.float32]:
        """Return the logits (n, outputs) of rows that `encode` read."""
        logits = np.zeros((len(rows), self.task.outputs), dtype=np.float32)
        for index, batch in self.model.batches(rows, size=self.batch_size):
            # One pass at a time: the layers read the attributes of the pass under way.
            with self._lock, torch.inference_mode(), self.autocast():
                logits[index] = self.model.score(batch)
        return logits

    def autocast(self) -> AbstractContextManager[Any]:
        """Return the context in which the model runs: autocast for bf16."""
        if self.precision != "bf16":
            return nullcontext()
        return torch.autocast(self.device.type, dtype=torch.bfloat16)

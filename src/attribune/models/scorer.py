"""What is asked of a model that scores rows, neural or linear."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import torch

from attribune.data.encoding import RowEncoder
from attribune.data.rows import EncodedRows
from attribune.data.texts import TextInput
from attribune.models.config import Sizes
from attribune.schema import Schema
from attribune.tasks import Task

__all__ = ["Scorer"]


class Scorer(Protocol):
    """A model that scores rows: `ConditionedModel` and `LinearModel`."""

    @property
    def schema(self) -> Schema:
        """The attributes."""

    @property
    def input_schema(self) -> Schema:
        """The attributes that the scores depend on: the schema, or one without attributes."""

    @property
    def task(self) -> Task:
        """What is predicted."""

    @property
    def text_input(self) -> TextInput | None:
        """Which columns are the text; None where the model was saved without it."""

    @property
    def reads_attributes(self) -> bool:
        """Whether the scores depend on the attributes."""

    def row_encoder(self, text_input: TextInput | None = None) -> RowEncoder:
        """Return what encodes the texts of rows.

        Raises:
            ConfigError: for a model without a tokenizer, or a window that it cannot take.
        """

    def prepare(self, device: torch.device, *, cache_mb: float | None = None) -> None:
        """Make ready to score on a device.

        Args:
            device: ignored by linear models.
            cache_mb: size of the weight cache; None leaves it as it is.
        """

    def batches(self, rows: EncodedRows, *, size: int) -> Iterator[tuple[npt.NDArray[np.intp], Any]]:
        """Cut rows into batches of at most `size` as `score` takes them, each with the indices of its rows."""

    def score(self, batch: Any) -> npt.NDArray[np.float32]:
        """Return the scores of a batch, (rows, outputs), which the task decodes."""

    def rows_of_values(self) -> dict[str, str]:
        """Return the names of the parameters with a row for each id, and the attribute of each; none if linear."""

    def value_vectors(self, attribute: str, *, count: int) -> npt.NDArray[np.float64]:
        """Return the learned vectors of the first values of an attribute side by side, (count, numbers)."""

    def sizes(self) -> Sizes:
        """Count the parameters."""

    def describe(self, *, precision: str) -> dict[str, Any]:
        """Return method, backbone, number of parameters and precision as plain JSON values.

        Args:
            precision: in which the model is asked to compute, ``float32`` or ``bf16``.
        """

"""The protocol of models that score rows, with a backbone or without."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, Self

import numpy as np
import numpy.typing as npt
import torch

from attribune.data.readers.base import EncodedRows, Reader
from attribune.data.texts import TextInput
from attribune.schema import Schema
from attribune.schema.revision import Revision
from attribune.tasks import Task

__all__ = ["Baseline", "Scorer", "Sizes"]


@dataclass(frozen=True, kw_only=True)
class Sizes:
    """Numbers of parameters, and the bytes of the stored ones.

    Args:
        outputs: number of outputs of the head.
        encoder: parameters of the backbone's layers without LoRA; the papers' measure, 85.05M for BERT-base.
        injected: trained parameters in the layers and the method, without attribute tables and head; the papers' TP is
            `injected` over `encoder`.
    """

    total: int
    trained: int
    stored: int
    stored_bytes: int
    outputs: int
    encoder: int
    injected: int


class Scorer(Protocol):
    """A model that scores rows: `ConditionedModel`, `LinearModel` and `AutoMLModel`."""

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
    def precision(self) -> str | None:
        """In which it predicts by default, ``float32`` or ``bf16``; None for float32."""

    @property
    def reads_attributes(self) -> bool:
        """Whether the scores depend on the attributes."""

    def row_encoder(self, text_input: TextInput | None = None) -> Reader:
        """Return the encoder of the texts of rows; `text_input` replaces the model's own.

        Raises:
            ConfigError: for a model without a tokenizer, or a window that it cannot take.
        """

    def prepare(self, device: torch.device, *, cache_mb: float | None = None) -> None:
        """Move the model to a device, which baselines ignore, and switch to evaluation.

        Args:
            cache_mb: size of the weight cache; None leaves it unchanged.
        """

    def batches(self, rows: EncodedRows, *, size: int) -> Iterator[tuple[npt.NDArray[np.intp], Any]]:
        """Cut rows into batches of at most `size` rows, each with the indices of its rows."""

    def score(self, batch: Any) -> npt.NDArray[np.float32]:
        """Return the scores of a batch, (rows, outputs), which the task decodes."""

    def rows_of_values(self) -> dict[str, str]:
        """Return the parameters with one row per id by name, each with its attribute; empty for baselines."""

    def value_vectors(self, attribute: str, *, count: int) -> npt.NDArray[np.float64]:
        """Concatenate the learned vectors of the first `count` values of an attribute, (count, numbers)."""

    def sizes(self) -> Sizes:
        """Count the parameters."""

    def save_pretrained(self, folder: str | Path) -> None:
        """Write the model into a folder; ModelFolderError when it cannot be written."""

    def describe(self, *, precision: str) -> dict[str, Any]:
        """Return method, backbone, number of parameters and precision (``float32`` or ``bf16``) as JSON values."""


class Baseline(Scorer, Protocol):
    """A scorer without a backbone, which has a folder of its own form: `LinearModel` and `AutoMLModel`."""

    def revised(self, revision: Revision) -> Self:
        """Return the model with values added to the schema, without weights, or taken away with theirs."""

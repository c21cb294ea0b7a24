"""The protocol of models that score rows, with a backbone or without."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, NoReturn, Protocol, Self

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from transformers import PreTrainedModel

from attribune.data.memory import Memory
from attribune.data.readers.base import EncodedRows, Reader
from attribune.data.texts import TextInput
from attribune.errors import ConfigError
from attribune.methods.base import Method
from attribune.models.baseline_files import BaselineFiles, StoredBaseline
from attribune.models.sizes import Sizes
from attribune.models.value_tables import ValueTables
from attribune.schema import Schema
from attribune.schema.schema import Revision
from attribune.tasks import Task

__all__ = ["Baseline", "FittedBaseline", "Scorer"]


class Scorer(Protocol):
    """A model that scores rows: `ConditionedModel`, or a `Baseline`."""

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
    def temperature(self) -> float | None:
        """By which logits are divided for calibrated scores; None where none was fitted."""

    @property
    def blend(self) -> Any:
        """The simple models beside it, a `Blend`; None for none."""

    @property
    def reads_attributes(self) -> bool:
        """Whether the scores depend on the attributes."""

    @property
    def method(self) -> Method:
        """What acts in the backbone; of baselines one that does nothing."""

    @property
    def values(self) -> ValueTables:
        """The vectors of values; baselines have none."""

    @property
    def memory(self) -> Memory | None:
        """The training rows that are kept with the model, if any are."""

    @property
    def quantised(self) -> str | None:
        """``int8`` if the backbone's weights are rounded to it."""

    def neural(self, refusal: str = ...) -> PreTrainedModel:
        """Return the model itself, a `ConditionedModel`; of a baseline raise a ConfigError that says `refusal`."""

    def networks(self) -> list[PreTrainedModel]:
        """Return the model itself in a list, which of a baseline is empty."""

    def batch_refusal(self) -> str | None:
        """Return why its rows cannot be in one batch with those of other models; None if they can."""

    def row_encoder(self, text_input: TextInput | None = None) -> Reader:
        """Return the encoder of the texts of rows; `text_input` replaces the model's own.

        Raises:
            ConfigError: for a model without a tokenizer, or a window that it cannot take.
        """

    def prepare(self, device: torch.device) -> None:
        """Move the model to a device, which baselines ignore, and switch to evaluation."""

    def batches(self, rows: EncodedRows, *, size: int) -> Iterator[tuple[npt.NDArray[np.intp], Any]]:
        """Cut rows into batches of at most `size` rows, each with the indices of its rows."""

    def score(self, batch: Any) -> Tensor | npt.NDArray[np.float32]:
        """Return the scores of a batch, (rows, outputs), which the task decodes; a tensor is on the model's device."""

    def sizes(self) -> Sizes:
        """Count the parameters."""

    def save_pretrained(self, folder: str | Path) -> None:
        """Write the model into a folder; ModelFolderError when it cannot be written."""

    def describe(self, *, precision: str) -> dict[str, Any]:
        """Return method, backbone, number of parameters and precision (``float32`` or ``bf16``) as JSON values."""


class FittedBaseline(Scorer, Protocol):
    """A scorer without a backbone: a `Baseline` that scores and is saved."""

    def revised(self, revision: Revision) -> Self:
        """Return it with a changed schema; the weights of values that are kept are those of before."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Baseline:
    """A scorer without a backbone, which has a folder of its own form: such as `LinearModel`.

    Args:
        features: of texts and attributes, whose values have weights and no vectors.
        text_input: which columns are the text; None where it is not known.
    """

    task: Task
    features: Any
    text_input: TextInput | None = None
    files: ClassVar[BaselineFiles]
    reads_attributes: ClassVar[bool] = True
    precision: ClassVar[None] = None
    temperature: ClassVar[None] = None
    blend: ClassVar[None] = None
    memory: ClassVar[None] = None
    quantised: ClassVar[None] = None
    method: ClassVar[Method] = Method()
    values: ClassVar[ValueTables] = ValueTables(method)

    @classmethod
    def load(cls, folder: str | Path, *, verify: bool = True, backbone: str | Path | None = None) -> Self:
        """Read what was saved; arguments and errors are those of `BaselineFiles.load`.

        Args:
            backbone: new location of the weights of a frozen backbone, if there is one, and they were moved.
        """
        stored = cls.files.load(folder, verify=verify)
        with stored.fitting():
            return cls.from_stored(stored, backbone=backbone)

    @classmethod
    def from_stored(cls, stored: StoredBaseline, *, backbone: str | Path | None) -> Self:
        """Return the model of its files, in `StoredBaseline.fitting`; other arguments are those of `load`."""
        raise NotImplementedError(cls.__name__)

    @property
    def schema(self) -> Schema:
        """The attributes."""
        schema: Schema = self.features.schema
        return schema

    @property
    def input_schema(self) -> Schema:
        """The attributes, all of which are features."""
        return self.schema

    def neural(
        self, refusal: str = "the model is a baseline, which acts in no backbone: train a method that does"
    ) -> NoReturn:
        """Refuse what needs a backbone."""
        raise ConfigError(refusal)

    def networks(self) -> list[PreTrainedModel]:
        """Return nothing."""
        return []

    def batch_refusal(self) -> str:
        """Refuse batches with rows of other models."""
        return "it has no pretrained backbone"

    def prepare(self, device: Any) -> None:
        """Do nothing: baselines compute on the CPU."""

    def batches(self, rows: EncodedRows, *, size: int) -> Iterator[tuple[npt.NDArray[np.intp], Any]]:
        """Return all rows as one batch: what needs smaller ones cuts them itself."""
        if len(rows):
            yield np.arange(len(rows)), rows

"""A model as it was at one time, which can be saved while the model changes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from torch import Tensor
from transformers import PreTrainedTokenizerBase

from attribune.data.histories import Histories
from attribune.models.config import AttributeConfig
from attribune.models.files import write_model
from attribune.models.sizes import Sizes
from attribune.schema import Schema

__all__ = ["ModelSnapshot"]


@dataclass(frozen=True, kw_only=True)
class ModelSnapshot:
    """What is saved of a model.

    Args:
        tensors: those learned, by name.
    """

    tensors: Mapping[str, Tensor]
    config: AttributeConfig
    schema: Schema
    tokenizer: PreTrainedTokenizerBase | None
    sizes: Sizes
    histories: Histories | None = None

    def save_pretrained(self, folder: Path, /) -> None:
        """Write the folder that `StoredModel.from_pretrained` reads.

        Raises:
            ModelFolderError: when it cannot be written.
        """
        write_model(
            folder,
            tensors=self.tensors,
            config=self.config,
            schema=self.schema,
            tokenizer=self.tokenizer,
            sizes=self.sizes,
            histories=self.histories,
        )

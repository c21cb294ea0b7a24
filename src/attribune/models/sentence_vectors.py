"""Vectors of texts by a frozen backbone, pooled as in its training."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from attribune.backbones.loading import load_tokenizer
from attribune.data.encoding import RowEncoder
from attribune.data.rows import EncodedRows
from attribune.data.texts import TextInput
from attribune.methods import Plain
from attribune.models.classifier import AttributeModel
from attribune.schema import Schema
from attribune.tasks import Regression

__all__ = ["SentenceVectors"]

_BATCH = 64


class SentenceVectors:
    """Turns tokenized texts into vectors.

    Args:
        backbone: a hub name or a folder.

    Raises:
        ConfigError: for a backbone of no known family.
    """

    def __init__(self, backbone: str) -> None:
        self.backbone = backbone
        self._model = AttributeModel.build(
            backbone, Schema([]), task=Regression(), method=Plain(), tuning="frozen", tokenizer=load_tokenizer(backbone)
        ).eval()

    @property
    def size(self) -> int:
        """H, of a vector."""
        return int(self._model.head.in_features)

    def row_encoder(self, text_input: TextInput | None = None) -> RowEncoder:
        """Return the encoder of the texts of rows."""
        encoder: RowEncoder = self._model.row_encoder(text_input)
        return encoder

    def to(self, device: Any) -> None:
        """Compute on another device."""
        self._model.to(device)

    def encode(self, inputs: Sequence[Any]) -> npt.NDArray[np.float32]:
        """Return the vectors (n, H) of texts, given as ids."""
        rows = EncodedRows.without_attributes(list(inputs))
        found = np.zeros((len(rows), self.size), dtype=np.float32)
        for index, batch in self._model.batches(rows, size=_BATCH):
            with torch.inference_mode():
                found[index] = self._model.document_vectors(**batch).float().cpu().numpy()
        return found

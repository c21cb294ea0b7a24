"""Vectors of texts by a plain model."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from attribune.data.readers.base import TextRows
from attribune.data.texts import TextInput

__all__ = ["TextVectors"]

_BATCH = 64
_TEXT = TextInput(("text",))


class TextVectors:
    """Turns texts into vectors.

    Args:
        model: without attributes, whose document vectors these are.
    """

    def __init__(self, model: Any) -> None:
        self._model = model.eval()

    @property
    def size(self) -> int:
        """H, of a vector."""
        return int(self._model.document_size)

    def to(self, device: Any) -> None:
        """Compute on another device."""
        self._model.to(device)

    def encode(self, inputs: Sequence[Any]) -> npt.NDArray[np.float32]:
        """Return the vectors (n, H) of texts, given as ids."""
        rows = TextRows.without_attributes(list(inputs))
        found = np.zeros((len(rows), self.size), dtype=np.float32)
        for index, batch in self._model.batches(rows, size=_BATCH):
            with torch.inference_mode():
                found[index] = self._model.documents_and_logits(**batch)[0].float().cpu().numpy()
        return found

    def of_texts(self, texts: Sequence[str]) -> npt.NDArray[np.float32]:
        """Return the vectors (n, H) of texts, of length 1."""
        vectors = self.encode(self._model.row_encoder(_TEXT).rows(_TEXT, {"text": list(texts)}).inputs)
        lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
        return np.asarray(vectors / np.maximum(lengths, 1e-12), dtype=np.float32)

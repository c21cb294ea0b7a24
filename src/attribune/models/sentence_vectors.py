"""Vectors of texts by a frozen backbone, pooled as in its training."""

from __future__ import annotations

from typing import Any

from attribune.backbones.loading import load_tokenizer
from attribune.data.readers.base import Reader
from attribune.data.texts import TextInput
from attribune.methods import Plain
from attribune.models.model import AttributeModel
from attribune.models.text_vectors import TextVectors
from attribune.schema import Schema
from attribune.tasks import Regression

__all__ = ["SentenceVectors"]


class SentenceVectors(TextVectors):
    """Turns tokenized texts into vectors.

    Args:
        backbone: a hub name or a folder.
        revision: branch, tag or commit on the hub.

    Raises:
        ConfigError: for a backbone of no known family.
    """

    def __init__(self, backbone: str, *, revision: str | None = None) -> None:
        self.backbone = backbone
        options: dict[str, Any] = {"task": Regression(), "method": Plain(), "tuning": "frozen"}
        tokenizer = load_tokenizer(backbone, revision=revision)
        super().__init__(AttributeModel.build(backbone, Schema([]), tokenizer=tokenizer, revision=revision, **options))

    def row_encoder(self, text_input: TextInput | None = None) -> Reader:
        """Return the encoder of the texts of rows."""
        encoder: Reader = self._model.row_encoder(text_input)
        return encoder

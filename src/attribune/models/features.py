"""Rows as the features of linear baselines: vectors of a backbone, and a column for each value."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt
import torch
from scipy import sparse

from attribune.backbones.loading import load_tokenizer
from attribune.core.arrays import Array
from attribune.data.readers.base import Reader, TextRows
from attribune.data.texts import TextInput
from attribune.methods import Plain
from attribune.models.model import AttributeModel
from attribune.models.word_features import described, described_width, former_values, one_hot, values_of
from attribune.schema import Schema
from attribune.schema.schema import Revision
from attribune.tasks import Regression

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
                found[index] = self._model.document_vectors(**batch).float().cpu().numpy()
        return found

    def of_texts(self, texts: Sequence[str]) -> npt.NDArray[np.float32]:
        """Return the vectors (n, H) of texts, of length 1."""
        vectors = self.encode(self._model.row_encoder(_TEXT).rows(_TEXT, {"text": list(texts)}).inputs)
        lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
        return np.asarray(vectors / np.maximum(lengths, 1e-12), dtype=np.float32)


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
        text = None if text_input is None else replace(text_input, written=())
        encoder: Reader = self._model.row_encoder(text)
        return encoder


@dataclass(frozen=True, kw_only=True)
class VectorFeatures:
    """What turns rows into a sparse matrix (n, F).

    First the standardised vector h of the text, then for each value ``intercept`` where the row has it, and where
    `weights` is above 0 ``weights * h`` as well, at last what is known of the values. A penalty on the squares of the
    features' weights then shrinks what a value adds towards zero, the more the smaller these factors are: it is a
    random effect whose deviation they are.

    Args:
        method: the name of the baseline, ``intercept`` or ``heads``; of the latter `weights` may be 0, too.
        mean: (H,) of the vectors of the training texts.
        scale: (H,) their deviation.
    """

    method: str
    backbone: str
    schema: Schema
    mean: Array
    scale: Array
    intercept: float = 1.0
    weights: float = 0.0
    vectors: SentenceVectors | None = field(default=None, compare=False, repr=False)
    uses_text: ClassVar[bool] = True

    @cached_property
    def encoder(self) -> SentenceVectors:
        """What computes the vectors; loaded when it is first used."""
        return SentenceVectors(self.backbone) if self.vectors is None else self.vectors

    @property
    def width(self) -> int:
        """Number of features F."""
        H = len(self.mean)
        return H + values_of(self.schema) * (1 + (H if self.weights else 0)) + described_width(self.schema)

    def row_encoder(self, text_input: TextInput | None = None) -> Reader:
        """Return the encoder of the texts of rows."""
        return self.encoder.row_encoder(text_input)

    def prepare(self, device: Any) -> None:
        """Compute vectors on a device."""
        self.encoder.to(device)

    def transform(self, texts: Sequence[Any] | None, attribute_ids: Array) -> Any:
        """Return the matrix (n, F) in CSR form of tokenized texts."""
        return self.of_vectors(self.encoder.encode(texts or []), attribute_ids)

    def of_vectors(self, vectors: Array, attribute_ids: Array) -> Any:
        """Return the matrix of texts whose vectors (n, H) are known."""
        h = sparse.csr_array((vectors.astype(np.float64) - self.mean) / self.scale)
        values = one_hot(np.asarray(attribute_ids), self.schema)
        parts = [h, self.intercept * values]
        if self.weights:
            parts.append(self.weights * _products(values, h))
        parts.append(described(np.asarray(attribute_ids), self.schema))
        return sparse.hstack(parts, format="csr")

    def revised(self, revision: Revision) -> tuple[Self, npt.NDArray[np.int64]]:
        """Return the features with values added or taken away, and for each the number of the one that it was.

        That of a value that was not there is the former `width`.
        """
        H, values = len(self.mean), former_values(self.schema, revision)
        parts = [np.arange(H), np.where(values >= 0, H + values, self.width)]
        if self.weights:
            own = (H + values_of(self.schema) + values[:, None] * H + np.arange(H)).reshape(-1)
            parts.append(np.where(np.repeat(values >= 0, H), own, self.width))
        parts.append(np.arange(self.width - described_width(self.schema), self.width))
        return replace(self, schema=revision.schema), np.concatenate(parts)

    def settings(self) -> dict[str, Any]:
        """Return what is stored as JSON."""
        deviations = {"intercept": self.intercept, "weights": self.weights}
        return {"method": self.method, "backbone": self.backbone, **deviations}

    def tensors(self) -> dict[str, Array]:
        """Return what is stored as arrays."""
        return {"mean": self.mean, "scale": self.scale}

    @classmethod
    def from_stored(
        cls, settings: Mapping[str, Any], tensors: Mapping[str, Array], schema: Schema, *, backbone: str | Path | None
    ) -> Self:
        """Restore the features; `backbone` is the new location of its weights, if they were moved."""
        return cls(
            method=str(settings["method"]),
            backbone=str(backbone or settings["backbone"]),
            schema=schema,
            mean=tensors["mean"],
            scale=tensors["scale"],
            intercept=float(settings["intercept"]),
            weights=float(settings["weights"]),
        )


def _products(values: Any, h: Any) -> Any:
    """Return (n, V H): for each value that a row has, the row's vector."""
    rows, columns = values.nonzero()
    H, dense = h.shape[1], h.toarray()
    index = columns[:, None] * H + np.arange(H)
    data = values.data[:, None] * dense[rows]
    starts = np.concatenate([[0], np.cumsum(np.bincount(rows, minlength=values.shape[0]) * H)])
    shape = (values.shape[0], values.shape[1] * H)
    return sparse.csr_array((data.reshape(-1), index.reshape(-1), starts), shape=shape)

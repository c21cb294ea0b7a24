"""Rows as the features of the linear baselines: TF-IDF of the words or vectors of a backbone, a column per value."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
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
from attribune.data.readers.text import PlainReader
from attribune.data.texts import TextInput
from attribune.errors import ConfigError, DataError
from attribune.methods import Plain
from attribune.models.model import AttributeModel
from attribune.schema import FittedAttribute, Schema
from attribune.schema.description_kinds import FittedField
from attribune.schema.schema import Revision
from attribune.tasks import Regression

__all__ = [
    "LinearFeatures",
    "SentenceVectors",
    "TextVectors",
    "VectorFeatures",
    "check_ids",
    "described",
    "described_width",
    "one_hot",
]

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


_FEW_ROWS = 1_000


@dataclass(frozen=True, kw_only=True)
class LinearFeatures:
    """What turns rows into a sparse matrix (n, F).

    First TF-IDF of the words, then one column per (attribute, id above 0), then what is known of the values, see
    `described`. `words` is None for a model without text; `idf` (len(words),) are the inverse document frequencies.
    """

    words: tuple[str, ...] | None
    idf: Array
    schema: Schema
    backbone: ClassVar[None] = None

    @property
    def method(self) -> str:
        """The name of the baseline."""
        return "linear" if self.uses_text else "attributes-only"

    @property
    def uses_text(self) -> bool:
        """Whether texts are read."""
        return self.words is not None

    def row_encoder(self, text_input: TextInput | None = None) -> Reader:
        """Return what reads the texts of rows."""
        return PlainReader(uses_text=self.uses_text)

    def prepare(self, device: Any) -> None:
        """Do nothing: words are counted on the CPU."""

    def settings(self) -> dict[str, Any]:
        """Return what is stored as JSON."""
        return {"words": self.words}

    def tensors(self) -> dict[str, Array]:
        """Return what is stored as arrays."""
        return {"idf": self.idf}

    @classmethod
    def fit(cls, texts: Sequence[str] | None, schema: Schema, *, max_features: int) -> Self:
        """Count the words of training texts; with 1,000 texts or more, only words that at least 2 texts have."""
        if texts is None:
            if sum(attribute.size - 1 for attribute in schema.attributes) == 0:
                raise ConfigError("without text and without attribute values nothing can be learned: name an attribute")
            return cls(words=None, idf=np.zeros(0), schema=schema)
        vectorizer = _vectorizer(max_features=max_features, min_df=1 if len(texts) < _FEW_ROWS else 2)
        try:
            vectorizer.fit(texts)
        except ValueError as error:
            raise DataError(
                f"the {len(texts)} training texts give no words ({error}):"
                " check the text column, or use attributes-only"
            ) from error
        return cls(words=tuple(vectorizer.get_feature_names_out().tolist()), idf=vectorizer.idf_, schema=schema)

    def revised(self, revision: Revision) -> tuple[Self, npt.NDArray[np.int64]]:
        """Return the features with values added or taken away, and for each the number of the one that it was.

        That of a value that was not there is the former `width`.
        """
        start = len(self.words or ())
        rows = [np.arange(start)]
        for attribute in self.schema:
            ids = revision.ids.get(attribute.name, np.arange(attribute.size))[1:]
            rows.append(np.where(ids > 0, start + ids - 1, self.width))
            start += attribute.size - 1
        rows.append(np.arange(start, self.width))
        return replace(self, schema=revision.schema), np.concatenate(rows)

    @property
    def idf_shape(self) -> tuple[int]:
        """The shape of `idf`."""
        return (len(self.words or ()),)

    @property
    def width(self) -> int:
        """Number of features F."""
        values = sum(attribute.size - 1 for attribute in self.schema.attributes)
        return len(self.words or ()) + values + described_width(self.schema)

    @cached_property
    def _fitted(self) -> Any:
        vectorizer = _vectorizer(vocabulary={word: i for i, word in enumerate(self.words or ())})
        vectorizer.idf_ = self.idf
        return vectorizer

    def transform(self, texts: Sequence[str] | None, attribute_ids: Array) -> Any:
        """Return the matrix (n, F) in CSR form."""
        if (texts is None) != (self.words is None):
            have, cure = ("without", "texts=None") if self.words is None else ("with", "the texts")
            raise ConfigError(f"this linear model was trained {have} text: pass {cure}")
        parts = [one_hot(np.asarray(attribute_ids), self.schema)]
        if texts is not None:
            if len(texts) != parts[0].shape[0]:
                raise DataError(f"{len(texts)} texts for {parts[0].shape[0]} rows of attribute_ids: give the same rows")
            if self.words:
                parts.insert(0, self._fitted.transform(texts))
        parts.append(described(np.asarray(attribute_ids), self.schema))
        return sparse.hstack(parts, format="csr")


def _vectorizer(**options: Any) -> Any:
    # Half a second to import, and needed by baselines alone.
    from sklearn.feature_extraction.text import TfidfVectorizer

    return TfidfVectorizer(ngram_range=(1, 2), sublinear_tf=True, **options)


def check_ids(ids: Array, schema: Schema) -> None:
    """Raise a DataError unless ids (n, slots) can be those that a schema encodes."""
    if ids.ndim != 2 or ids.shape[1] != schema.slots:
        raise DataError(f"attribute_ids have shape {ids.shape}: the schema of this model needs (rows, {schema.slots})")
    for attribute in schema.attributes:
        last = attribute.size - 1
        part = ids[:, attribute.columns]
        if (wrong := part[(part < 0) | (part > last)]).size:
            raise DataError(
                f"attribute {attribute.name!r} has the id {wrong.max()}, but ids from 0 to {last}: encode the rows "
                "with the schema of this model"
            )


def one_hot(ids: Array, schema: Schema) -> Any:
    """Return (n, sum of sizes without id 0); several slots of one attribute add up.

    Those of values that have nothing but their descriptions are empty.
    """
    check_ids(ids, schema)
    rows, columns, offset = [np.zeros(0, dtype=np.int64)], [np.zeros(0, dtype=np.int64)], 0
    for attribute in schema.attributes:
        part = ids[:, attribute.columns]
        row, slot = np.nonzero(part if attribute.layout.has_own_vectors else np.zeros_like(part))
        rows.append(row)
        columns.append(offset + part[row, slot] - 1)
        offset += attribute.size - 1
    index = (np.concatenate(rows), np.concatenate(columns))
    return sparse.csr_array((np.ones(len(index[0])), index), shape=(len(ids), offset))


def described_width(attributes: Iterable[FittedAttribute]) -> int:
    """Return the number of columns of `described`."""
    descriptions = (attribute.description for attribute in attributes)
    return sum(_columns(one) for description in descriptions if description for one in description.fields)


def described(ids: Array, attributes: Iterable[FittedAttribute]) -> Any:
    """Return what is known of the values of rows (n, D): a column for each category, and the figures.

    Several values of an attribute add up.

    Args:
        ids: (n, slots) of all attributes.
        attributes: those of a schema, or some of them.
    """
    parts = [sparse.csr_array((len(ids), 0))]
    for attribute in attributes:
        if attribute.description is None:
            continue
        start, blocks = 0, []
        of_rows, index = np.unique(ids[:, attribute.columns], return_inverse=True)
        index = index.reshape(len(ids), attribute.slots)
        for one in attribute.description.fields:
            features = attribute.description.features[of_rows, start : start + one.width]
            start += one.width
            blocks.append(_categories(features, _columns(one)) if one.slots else sparse.csr_array(features))
        known = sparse.hstack(blocks, format="csr")
        parts += [sum(known[column] for column in index.T)]
    return sparse.hstack(parts, format="csr")


def _columns(field: FittedField) -> int:
    return len(field.categories) if field.slots else field.width


def _categories(ids: Array, count: int) -> Any:
    """Return (n, count) with 1 where one of the ids (n, slots), from 1, is."""
    rows, slots = np.nonzero(ids)
    columns = ids[rows, slots].astype(np.int64) - 1
    return sparse.csr_array((np.ones(len(rows)), (rows, columns)), shape=(len(ids), count))


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
    def _values(self) -> int:
        return sum(attribute.size - 1 for attribute in self.schema.attributes)

    @property
    def width(self) -> int:
        """Number of features F."""
        H = len(self.mean)
        return H + self._values * (1 + (H if self.weights else 0)) + described_width(self.schema)

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
        H, start = len(self.mean), 0
        origins = []
        for attribute in self.schema:
            ids = revision.ids.get(attribute.name, np.arange(attribute.size))[1:]
            origins.append(np.where(ids > 0, start + ids - 1, -1))
            start += attribute.size - 1
        values = np.concatenate(origins) if origins else np.zeros(0, dtype=np.int64)
        parts = [np.arange(H), np.where(values >= 0, H + values, self.width)]
        if self.weights:
            own = (H + self._values + values[:, None] * H + np.arange(H)).reshape(-1)
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

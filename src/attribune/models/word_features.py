"""Rows as the features of linear models: TF-IDF of the words, a column for each value, and what is known of values."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt
from scipy import sparse

from attribune.core.arrays import Array
from attribune.data.readers.base import Reader
from attribune.data.readers.text import PlainReader
from attribune.data.texts import TextInput
from attribune.errors import ConfigError, DataError
from attribune.models.surface import SURFACE, ScaledSurface
from attribune.schema import FittedAttribute, Schema
from attribune.schema.description_kinds import FittedField
from attribune.schema.schema import Revision

_FEW_ROWS = 1_000


@dataclass(frozen=True, kw_only=True)
class LinearFeatures:
    """What turns rows into a sparse matrix (n, F).

    First TF-IDF of the words, then one column per (attribute, id above 0), then what is known of the values, see
    `described`. `words` is None for a model without text; `idf` (len(words),) are the inverse document frequencies.
    With a `surface`, its figures of how the text looks stand behind those of the words.
    """

    words: tuple[str, ...] | None
    idf: Array
    schema: Schema
    surface: ScaledSurface | None = None
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
        return {"idf": self.idf} | ({} if self.surface is None else {"surface": self.surface.moments})

    @property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """The shapes of `tensors`."""
        return {"idf": (len(self.words or ()),)} | ({} if self.surface is None else {"surface": (2, SURFACE)})

    @classmethod
    def from_stored(cls, words: tuple[str, ...] | None, tensors: Mapping[str, Array], schema: Schema) -> Self:
        """Return the features of what `tensors` returned; files of earlier versions have no surface."""
        surface = ScaledSurface(moments=tensors["surface"]) if "surface" in tensors else None
        return cls(words=words, idf=tensors["idf"], schema=schema, surface=surface)

    def with_surface(self, texts: Sequence[str]) -> Self:
        """Return the features with how texts look, standardised by training texts."""
        return replace(self, surface=ScaledSurface.fit(texts))

    @classmethod
    def fit(cls, texts: Sequence[str] | None, schema: Schema, *, max_features: int) -> Self:
        """Count the words of training texts; with 1,000 texts or more, only words that at least 2 texts have."""
        if texts is None:
            if values_of(schema) == 0:
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
        start, values = self.text_width, former_values(self.schema, revision)
        values = np.where(values >= 0, start + values, self.width)
        known = np.arange(start + values_of(self.schema), self.width)
        return replace(self, schema=revision.schema), np.concatenate([np.arange(start), values, known])

    @property
    def text_width(self) -> int:
        """Number of the features of texts, which are the first ones."""
        return len(self.words or ()) + (0 if self.surface is None else SURFACE)

    @property
    def width(self) -> int:
        """Number of features F."""
        return self.text_width + values_of(self.schema) + described_width(self.schema)

    @cached_property
    def _numbers(self) -> dict[str, int]:
        return {word: number for number, word in enumerate(self.words or ())}

    @cached_property
    def _analyse(self) -> Callable[[str], list[str]]:
        """What turns a text into its words and word pairs."""
        analyse: Callable[[str], list[str]] = _vectorizer().build_analyzer()
        return analyse

    def transform(self, texts: Sequence[str] | None, attribute_ids: Array) -> Any:
        """Return the matrix (n, F) in CSR form."""
        if (texts is None) != (self.words is None):
            have, cure = ("without", "texts=None") if self.words is None else ("with", "the texts")
            raise ConfigError(f"this linear model was trained {have} text: pass {cure}")
        values = self.of_values(attribute_ids)
        if texts is None:
            return values
        if len(texts) != values.shape[0]:
            raise DataError(f"{len(texts)} texts for {values.shape[0]} rows of attribute_ids: give the same rows")
        return sparse.hstack([self.of_texts(texts), values], format="csr")

    def of_texts(self, texts: Sequence[str]) -> Any:
        """Return the first columns of the matrix (n, text_width), in CSR form."""
        return self.with_looks(self.of_words(texts), texts)

    def with_looks(self, words: Any, texts: Sequence[str]) -> Any:
        """Return the matrix of `of_words` with how the texts look, where that is read."""
        if self.surface is None:
            return words
        return sparse.hstack([words, sparse.csr_array(self.surface.of_texts(texts))], format="csr")

    def of_words(self, texts: Sequence[str]) -> Any:
        """Return TF-IDF of the words (n, words), in CSR form.

        That is what the vectorizer of scikit-learn computes, without its checks, which take longer than a short text.
        """
        words: list[int] = []
        counts: list[int] = []
        starts = [0]
        numbers, analyse = self._numbers, self._analyse
        for text in texts:
            found = Counter(number for word in analyse(text) if (number := numbers.get(word)) is not None)
            words += found.keys()
            counts += found.values()
            starts.append(len(words))
        columns, ends = np.array(words, dtype=np.int32), np.array(starts)
        weights = (np.log(np.array(counts, dtype=np.float64)) + 1) * self.idf[columns]
        rows = np.repeat(np.arange(len(texts)), np.diff(ends))
        weights /= np.sqrt(np.bincount(rows, weights=weights**2, minlength=len(texts)))[rows]
        matrix = sparse.csr_array((weights, columns, ends), shape=(len(texts), len(self.words or ())))
        matrix.sort_indices()
        return matrix

    def of_values(self, attribute_ids: Array) -> Any:
        """Return the other columns of the matrix, in CSR form."""
        ids = np.asarray(attribute_ids)
        return sparse.hstack([one_hot(ids, self.schema), described(ids, self.schema)], format="csr")


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


def values_of(schema: Schema) -> int:
    """Return the number of columns of `one_hot`: the sizes of all attributes without id 0."""
    return sum(attribute.size - 1 for attribute in schema)


def former_values(schema: Schema, revision: Revision) -> npt.NDArray[np.int64]:
    """Return for each column of `one_hot` after a revision the number that it had; -1 for a new value."""
    start, found = 0, [np.zeros(0, dtype=np.int64)]
    for attribute in schema:
        ids = revision.ids.get(attribute.name, np.arange(attribute.size))[1:]
        found.append(np.where(ids > 0, start + ids - 1, -1))
        start += attribute.size - 1
    return np.concatenate(found)


def one_hot(ids: Array, schema: Schema) -> Any:
    """Return (n, `values_of`); several slots of one attribute add up.

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

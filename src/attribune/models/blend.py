"""Simple models beside a neural one, whose logits are added with weights that fit validation rows.

A neural model reads a text as a whole, and a linear one its words and one weight for each value; boosted trees see how
a text looks, and what several values say together. On tables of a few thousand rows, each sees what the others do not.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import ClassVar, Self

import numpy as np
from pydantic import BaseModel, ConfigDict, ValidationError
from safetensors import SafetensorError
from safetensors import numpy as safetensors

from attribune.core.arrays import Array, IntArray
from attribune.core.files import read_json, replace_file, write_json
from attribune.errors import ModelFolderError
from attribune.models.boosting import BoostingFeatures, BoostingModel
from attribune.models.word_features import LinearFeatures
from attribune.schema import Schema
from attribune.schema.schema import Revision
from attribune.tasks import Task

_OWNERS = "owners_of_words"
_ENTRIES = 100_000  # words of rows that are looked at at once


class _Trees(BaseModel):
    """What ``blend.json`` holds of the trees."""

    model_config = ConfigDict(strict=True, extra="allow")
    weight: float
    learning_rate: float
    min_samples_leaf: int
    iterations: int
    width: int


class _Settings(BaseModel):
    """What ``blend.json`` holds."""

    model_config = ConfigDict(strict=True, extra="allow")
    neural_weight: float
    linear_weight: float
    words: list[str]
    trees: _Trees | None = None


@dataclass(frozen=True, kw_only=True, eq=False)
class Blend:
    """A linear model of words and attributes, boosted trees where they help, and the weights of all logits.

    F are its features, O the outputs of the task.

    Args:
        features: of whole texts; their schema has the values of the neural model.
        weight: (F, O) float32.
        bias: (O,) float32.
        neural_weight: a in ``a z + b l + c t`` of neural logits z, as a forward pass gives them, linear ones l, and
            those of trees t.
        linear_weight: b.
        trees_weight: c.
        trees: of the words of the linear model, and of all text in one column; None where they do not help.
        owners: (n, 3) int32 of words that belong to a value, which all training rows with the word have: the number
            of the word, that of the attribute, and the id of the value. Where rows have several values of an attribute,
            a word may belong to several of them.
    """

    files: ClassVar[tuple[str, str]] = ("blend.json", "blend.safetensors")
    stored_texts: ClassVar[str] = (
        "The words of the training texts, all but the rarest, are in `blend.json` in plain text: a linear model of "
        "them counts beside the network, and boosted trees where they help."
    )
    features: LinearFeatures
    weight: Array
    bias: Array
    neural_weight: float
    linear_weight: float
    owners: IntArray
    trees_weight: float = 0.0
    trees: BoostingModel | None = None

    @cached_property
    def _of_words(self) -> Array:
        """What a word adds, (words, O)."""
        return self.weight[: self.features.text_width].astype(np.float64)

    @cached_property
    def _of_no_value(self) -> Array:
        """The logits (1, O) of a row without words and values."""
        return self._of_ids(np.zeros((1, self.features.schema.slots), dtype=np.int64)) + self.bias

    @cached_property
    def _of_values(self) -> list[Array]:
        """What a value adds to them, (size, O) of each attribute: its own weight, and what is known of it."""
        tables, slots = [], self.features.schema.slots
        for attribute in self.features.schema:
            ids = np.zeros((attribute.size, slots), dtype=np.int64)
            ids[:, attribute.columns.start] = np.arange(attribute.size)
            tables.append(self._of_ids(ids) + self.bias - self._of_no_value)
        return tables

    def _of_ids(self, ids: IntArray) -> Array:
        weight = self.weight[self.features.text_width :].astype(np.float64)
        return np.asarray(self.features.of_values(ids) @ weight)

    @property
    def weights(self) -> dict[str, float]:
        """The weights by name; that of trees where there are some."""
        weights = {"neural_weight": self.neural_weight, "linear_weight": self.linear_weight}
        return weights if self.trees is None else {**weights, "trees_weight": self.trees_weight}

    def logits(self, neural: Array, texts: Sequence[str], attribute_ids: IntArray) -> Array:
        """Return the logits (n, O) of rows.

        Args:
            neural: (n, O) of the neural model.
            texts: whole, as they are written.
            attribute_ids: (n, slots) as the schema encodes them.
        """
        numbers: dict[str, int] = {}
        index = [numbers.setdefault(text, len(numbers)) for text in texts]  # each distinct text is read once
        distinct = [*numbers]
        words = self.features.of_words(distinct)
        linear = (self.features.with_looks(words, distinct) @ self._of_words)[index] + self._of_no_value
        for attribute, table in zip(self.features.schema, self._of_values, strict=True):
            linear += table[attribute_ids[:, attribute.columns]].sum(axis=1)
        found = self.neural_weight * neural + self.linear_weight * linear
        if self.trees is not None and distinct:
            features = self.trees.features
            of_texts = features.of_texts([(text,) for text in distinct], words)[index]
            rows = np.hstack([of_texts, features.of_values(attribute_ids)])
            found = found + self.trees_weight * self.trees.forest.logits(rows)
        return np.asarray(found, dtype=np.float32)

    def under(self, schema: Schema) -> Self:
        """Return it with the values of another schema.

        New values have no weight. The weights of values that are gone go, and the words that only their rows had.
        """
        before = self.features.schema
        if schema is before:
            return self
        origins = {
            one.name: np.concatenate([[0], before[one.name].values.ids(list(one.values))])
            for one in schema
            if one.spec.lists_values and one.values is not before[one.name].values
        }
        owners, keep = self.owners.copy(), np.ones(len(self.features.words or ()), dtype=bool)
        for number, attribute in enumerate(before):
            if attribute.name in origins:
                moved = np.zeros(attribute.size, dtype=owners.dtype)
                moved[origins[attribute.name]] = np.arange(len(origins[attribute.name]))
                moved[0] = 0  # where the origin of new values is
                own = owners[:, 1] == number
                owners[own, 2] = moved[owners[own, 2]]
        keep[owners[owners[:, 2] == 0, 0]] = False
        owners = owners[keep[owners[:, 0]]]
        owners[:, 0] = (np.cumsum(keep) - 1)[owners[:, 0]]
        words = tuple(word for word, is_kept in zip(self.features.words or (), keep, strict=True) if is_kept)
        kept = np.concatenate([np.flatnonzero(keep), np.arange(len(keep), self.features.width)])
        fewer = replace(self.features, words=words, idf=self.features.idf[keep])
        features, rows = fewer.revised(Revision(schema=schema, ids=origins))
        weight = np.vstack([self.weight[kept], np.zeros_like(self.weight[:1])])  # the last row is that of new values
        trees = self.trees
        if trees is not None:
            trees = replace(trees, features=trees.features.with_words(words_alone(fewer), keep))
            trees = trees.revised(Revision(schema=schema, ids=origins))
        return replace(self, features=features, weight=weight[rows], owners=owners, trees=trees)

    def save(self, folder: Path) -> tuple[str, ...]:
        """Write the files into the folder of the neural model; returns their names."""
        settings = _Settings(
            neural_weight=self.neural_weight,
            linear_weight=self.linear_weight,
            words=list(self.features.words or ()),
            trees=None if self.trees is None else _Trees(weight=self.trees_weight, **self.trees.tree_settings),
        )
        tensors = {"weight": self.weight, "bias": self.bias, _OWNERS: self.owners, **self.features.tensors()}
        if self.trees is not None:
            tensors |= {**self.trees.features.tensors(), **self.trees.forest.tensors()}
        write_json(folder / self.files[0], settings.model_dump(), what="simple part of the model")
        data = safetensors.save({name: np.ascontiguousarray(array) for name, array in tensors.items()})
        replace_file(folder / self.files[1], data)
        return self.files

    @classmethod
    def load(cls, folder: Path, *, schema: Schema, task: Task) -> Self | None:
        """Read what `save` wrote; None where it wrote nothing.

        Args:
            schema: of the neural model.
            task: what both predict.

        Raises:
            ModelFolderError: for a file that is missing or damaged, or does not fit the model.
        """
        settings_file, tensors_file = (folder / name for name in cls.files)
        if not settings_file.is_file():
            return None
        try:
            settings = _Settings.model_validate(read_json(settings_file, what="simple part of the model"))
            tensors = safetensors.load(tensors_file.read_bytes())
            features = LinearFeatures.from_stored(tuple(settings.words), tensors, schema)
            owners, trees = _stored_owners(tensors), _read_trees(settings.trees, tensors, features, task)
            shapes = {"weight": (features.width, task.outputs), "bias": (task.outputs,), **features.shapes}
            if trees is not None:
                shapes |= {**trees.features.shapes(task.outputs), "trees.baseline": (task.outputs,)}
            wrong = [name for name, shape in shapes.items() if tensors[name].shape != shape]
            wrong += [] if _owners_fit(owners, features) else ["owners"]
        except (ValidationError, SafetensorError, OSError, KeyError, ValueError) as error:
            raise ModelFolderError(
                f"{folder}: the simple part of the model cannot be read ({error}): copy the folder again"
            ) from error
        if wrong:
            raise ModelFolderError(
                f"{tensors_file} does not fit the model ({', '.join(wrong)}): the files come from two different saves; "
                "copy the folder again"
            )
        return cls(
            features=features,
            weight=tensors["weight"],
            bias=tensors["bias"],
            neural_weight=settings.neural_weight,
            linear_weight=settings.linear_weight,
            owners=owners,
            trees_weight=0.0 if settings.trees is None else settings.trees.weight,
            trees=trees,
        )


def words_alone(features: LinearFeatures) -> LinearFeatures:
    """Return the words of features, without what else they read."""
    return LinearFeatures(words=features.words, idf=features.idf, schema=Schema([]))


def _read_trees(
    settings: _Trees | None, tensors: dict[str, Array], features: LinearFeatures, task: Task
) -> BoostingModel | None:
    """Return the trees of a file; ValueError or KeyError where they do not fit."""
    if settings is None:
        return None
    own = BoostingFeatures.from_stored(words_alone(features), tensors, features.schema, columns=1)
    return BoostingModel.of_features(own, settings.model_dump(), tensors, task=task)


def _stored_owners(tensors: dict[str, Array]) -> IntArray:
    """Return the owners of words in a file; earlier ones have an id for each word and attribute, 0 for none."""
    if _OWNERS in tensors:
        return tensors[_OWNERS]
    ids = tensors["owners"]
    words, attributes = np.nonzero(ids)
    return np.column_stack([words, attributes, ids[words, attributes]]).astype(np.int32)


def _owners_fit(owners: IntArray, features: LinearFeatures) -> bool:
    """Whether there are such words, attributes and values."""
    if owners.ndim != 2 or owners.shape[1] != 3:
        return False
    words, attributes, ids = owners.T
    sizes = np.array([attribute.size for attribute in features.schema], dtype=np.int64)
    if not (_are_within(words, len(features.words or ())) and _are_within(attributes, len(sizes))):
        return False
    return bool(((ids > 0) & (ids < sizes[attributes])).all()) if len(owners) else True


def _are_within(numbers: IntArray, count: int) -> bool:
    return bool(((numbers >= 0) & (numbers < count)).all())


def owners_of_words(features: LinearFeatures, texts: Sequence[str], attribute_ids: IntArray) -> IntArray:
    """Return which values all rows with a word have, as `Blend` keeps them.

    Args:
        texts: n, of the training rows.
        attribute_ids: (n, slots) of the same rows.
    """
    found = [np.zeros((0, 3), dtype=np.int32)]
    counts = features.of_words(texts).tocoo()
    a_row = np.full(len(features.words or ()), -1)
    a_row[counts.col] = counts.row
    for number, attribute in enumerate(features.schema):
        if not attribute.spec.lists_values:
            continue
        ids = attribute_ids[:, attribute.columns]
        shared = np.where(a_row[:, None] >= 0, ids[a_row], 0)
        for start in range(0, counts.nnz, _ENTRIES):
            rows, columns = (index[start : start + _ENTRIES] for index in (counts.row, counts.col))
            is_open = (shared[columns] > 0).any(axis=1)  # soon of rare words alone
            rows, columns = rows[is_open], columns[is_open]
            is_there = (shared[columns][:, :, None] == ids[rows][:, None, :]).any(axis=2)
            entries, slots = np.nonzero(~is_there)
            shared[columns[entries], slots] = 0
        owned, slots = np.nonzero(shared)
        one = np.column_stack([owned, np.full(len(owned), number), shared[owned, slots]])
        found.append(np.unique(one, axis=0).astype(np.int32))
    return np.concatenate(found)

"""A linear model beside a neural one, whose logits are added with weights that fit validation rows.

A neural model reads a text as a whole, and a linear one its words and one weight for each value: on tables of a few
thousand rows, or with attributes that add up, each sees what the other does not.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import ClassVar, Self

import numpy as np
from pydantic import BaseModel, ConfigDict, ValidationError
from safetensors import SafetensorError
from safetensors import numpy as safetensors

from attribune.core.arrays import Array, IntArray
from attribune.core.files import read_json, replace_file, write_json
from attribune.errors import ModelFolderError
from attribune.models.word_features import LinearFeatures
from attribune.schema import Schema
from attribune.schema.schema import Revision

__all__ = ["Blend", "owners_of_words"]


class _Settings(BaseModel):
    """What ``blend.json`` holds."""

    model_config = ConfigDict(strict=True, extra="allow")
    neural_weight: float
    linear_weight: float
    words: list[str]


@dataclass(frozen=True, kw_only=True, eq=False)
class Blend:
    """A linear model of words and attributes, and the weights of its logits and of the neural model's.

    F are its features, O the outputs of the task.

    Args:
        features: of whole texts; their schema has the values of the neural model.
        weight: (F, O) float32.
        bias: (O,) float32.
        neural_weight: a in ``a z + b l`` of neural logits z, as a forward pass gives them, and linear ones l.
        linear_weight: b.
        owners: (words, attributes) the id of the only value whose training rows have a word; 0 where several have it,
            or where rows may have several values of the attribute.
    """

    files: ClassVar[tuple[str, str]] = ("blend.json", "blend.safetensors")
    stored_texts: ClassVar[str] = (
        "The words of the training texts, all but the rarest, are in `blend.json` in plain text: a linear model of "
        "them counts beside the network."
    )
    features: LinearFeatures
    weight: Array
    bias: Array
    neural_weight: float
    linear_weight: float
    owners: IntArray

    @property
    def weights(self) -> dict[str, float]:
        """Both weights by name."""
        return {"neural_weight": self.neural_weight, "linear_weight": self.linear_weight}

    def logits(self, neural: Array, texts: Sequence[str], attribute_ids: IntArray) -> Array:
        """Return the logits (n, O) of rows.

        Args:
            neural: (n, O) of the neural model.
            texts: whole, as they are written.
            attribute_ids: (n, slots) as the schema encodes them.
        """
        numbers: dict[str, int] = {}
        index = [numbers.setdefault(text, len(numbers)) for text in texts]  # each distinct text is read once
        first, weight = self.features.text_width, self.weight.astype(np.float64)
        of_texts = self.features.of_texts([*numbers]) @ weight[:first]
        linear = of_texts[index] + self.features.of_values(attribute_ids) @ weight[first:] + self.bias
        return np.asarray(self.neural_weight * neural + self.linear_weight * linear, dtype=np.float32)

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
        keep, owners = np.ones(len(self.owners), dtype=bool), self.owners.copy()
        for number, attribute in enumerate(before):
            if attribute.name in origins:
                moved = np.zeros(attribute.size, dtype=np.int64)
                moved[origins[attribute.name]] = np.arange(len(origins[attribute.name]))
                moved[0] = 0  # where the origin of new values is
                owners[:, number] = moved[self.owners[:, number]]
                keep &= (self.owners[:, number] == 0) | (owners[:, number] > 0)
        words = tuple(word for word, is_kept in zip(self.features.words or (), keep, strict=True) if is_kept)
        kept = np.concatenate([np.flatnonzero(keep), np.arange(len(keep), self.features.width)])
        fewer = replace(self.features, words=words, idf=self.features.idf[keep])
        features, rows = fewer.revised(Revision(schema=schema, ids=origins))
        weight = np.vstack([self.weight[kept], np.zeros_like(self.weight[:1])])  # the last row is that of new values
        return replace(self, features=features, weight=weight[rows], owners=owners[keep])

    def save(self, folder: Path) -> tuple[str, ...]:
        """Write the files into the folder of the neural model; returns their names."""
        settings = _Settings(
            neural_weight=self.neural_weight,
            linear_weight=self.linear_weight,
            words=list(self.features.words or ()),
        )
        tensors = {"weight": self.weight, "bias": self.bias, "owners": self.owners, **self.features.tensors()}
        write_json(folder / self.files[0], settings.model_dump(), what="linear part of the model")
        data = safetensors.save({name: np.ascontiguousarray(array) for name, array in tensors.items()})
        replace_file(folder / self.files[1], data)
        return self.files

    @classmethod
    def remove(cls, folder: Path) -> None:
        """Remove the files of an earlier save."""
        for name in cls.files:
            (folder / name).unlink(missing_ok=True)

    @classmethod
    def load(cls, folder: Path, *, schema: Schema, outputs: int) -> Self | None:
        """Read what `save` wrote; None where it wrote nothing.

        Args:
            schema: of the neural model.
            outputs: O.

        Raises:
            ModelFolderError: for a file that is missing or damaged, or does not fit the model.
        """
        settings_file, tensors_file = (folder / name for name in cls.files)
        if not settings_file.is_file():
            return None
        try:
            settings = _Settings.model_validate(read_json(settings_file, what="linear part of the model"))
            tensors = safetensors.load(tensors_file.read_bytes())
            features = LinearFeatures.from_stored(tuple(settings.words), tensors, schema)
            shapes = {
                "weight": (features.width, outputs),
                "bias": (outputs,),
                **features.shapes,
                "owners": (len(settings.words), len(schema)),
            }
            wrong = [name for name, shape in shapes.items() if tensors[name].shape != shape]
        except (ValidationError, SafetensorError, OSError, KeyError) as error:
            raise ModelFolderError(
                f"{folder}: the linear part of the model cannot be read ({error}): copy the folder again"
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
            owners=tensors["owners"],
        )


def owners_of_words(features: LinearFeatures, texts: Sequence[str], attribute_ids: IntArray) -> IntArray:
    """Return for each word and attribute the id of the only value whose rows have it, 0 for none; see `Blend`."""
    words = len(features.words or ())
    owners = np.zeros((words, len(features.schema)), dtype=np.int64)
    counts = features.of_words(texts).tocoo()
    for number, attribute in enumerate(features.schema):
        if attribute.slots == 1 and attribute.spec.lists_values:
            values = attribute_ids[counts.row, attribute.columns][:, 0]
            least, most = np.full(words, attribute.size), np.zeros(words, dtype=np.int64)
            np.minimum.at(least, counts.col, values)
            np.maximum.at(most, counts.col, values)
            owners[:, number] = np.where(least == most, most, 0)
    return owners

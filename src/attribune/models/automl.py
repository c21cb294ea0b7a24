"""The baseline ``automl`` after its search: a small network over word vectors, without a pretrained transformer.

Houlsby et al. 2019, "Parameter-Efficient Transfer Learning for NLP", section 3.3 and table 5; `training.automl`
searches.

Shapes: n rows, O outputs of the task.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from attribune.data.batching import length_cuts
from attribune.data.readers.base import EncodedRows, Reader
from attribune.data.readers.plain import PartsReader
from attribune.data.texts import TextInput
from attribune.data.words import WordVocabulary
from attribune.models.baseline_files import BaselineFiles, stored_text
from attribune.models.linear_features import LinearFeatures
from attribune.models.sizes import Sizes
from attribune.models.word_network import NetworkSettings, SparseRows, WordNetwork
from attribune.models.word_rows import WordRows, read_words
from attribune.schema import Schema
from attribune.schema.revision import Revision
from attribune.tasks import Task, task_from_dict

__all__ = ["AutoMLModel"]

_FILES = BaselineFiles("automl", "automl model")
_BUSY = 4096  # words of a batch beyond which the CPU gets no faster
_WIDE, _IDF = "wide", "idf"


class _Batch(NamedTuple):
    texts: tuple[Tensor, ...]
    rows: SparseRows


@dataclass(frozen=True, kw_only=True, eq=False)
class AutoMLModel:
    """The best network of a search.

    Args:
        features: of the wide tower, those of the baseline ``linear``: TF-IDF of words and word pairs, one column per
            attribute value.
        network: in evaluation mode, on the CPU.
        text_input: which columns are the text; None where it is not known.
    """

    task: Task
    settings: NetworkSettings
    vocabulary: WordVocabulary
    features: LinearFeatures
    network: WordNetwork
    text_input: TextInput | None = None
    reads_attributes: ClassVar[bool] = True
    precision: ClassVar[None] = None

    @property
    def schema(self) -> Schema:
        """The attributes."""
        return self.features.schema

    @property
    def input_schema(self) -> Schema:
        """The attributes, all of which are features."""
        return self.schema

    def sizes(self) -> Sizes:
        """Count the parameters; word vectors that are not fine-tuned are stored, and not trained."""
        parameters = list(self.network.parameters())
        total = sum(parameter.numel() for parameter in parameters)
        trained = sum(parameter.numel() for parameter in parameters if parameter.requires_grad)
        counts = {"total": total, "trained": trained, "stored": total, "stored_bytes": 4 * total}
        return Sizes(**counts, outputs=self.task.outputs, encoder=0, injected=0)

    def row_encoder(self, text_input: TextInput | None = None) -> Reader:
        """Return what reads the texts of rows."""
        return PartsReader(is_pair=self.network.is_pair)

    def prepare(self, device: Any, *, cache_mb: float | None = None) -> None:
        """Do nothing: the network computes on the CPU, and generates no weights."""

    def batches(self, rows: EncodedRows, *, size: int) -> Iterator[tuple[npt.NDArray[np.intp], _Batch]]:
        """Cut rows into batches of similar length, each with the indices of its rows."""
        if not len(rows):
            return
        options = {"lowercase": self.settings.lowercase, "alphanumeric": self.settings.alphanumeric}
        columns = zip(*(row.parts for row in rows.inputs), strict=True)
        texts = [[read_words(text, **options) for text in column] for column in columns]
        features = self.features.transform([row.joined for row in rows.inputs], rows.attribute_ids)
        words = WordRows.encode(texts, self.vocabulary, features)
        order = np.argsort(-words.lengths, kind="stable")
        for cut in length_cuts(words.lengths[order].tolist(), size=size, busy=_BUSY):
            yield order[cut], _Batch(*words.batch(order[cut], dtype=self.network.wide.dtype))

    def score(self, batch: _Batch) -> npt.NDArray[np.float32]:
        """Return the logits of rows, (n, O), in float32 whatever the precision of other models."""
        with torch.inference_mode(), torch.autocast("cpu", enabled=False):
            return self.network(batch.texts, batch.rows).float().numpy()  # type: ignore[no-any-return]

    def rows_of_values(self) -> dict[str, str]:
        """Return nothing: values have weights, no vectors."""
        return {}

    def value_vectors(self, attribute: str, *, count: int) -> npt.NDArray[np.float64]:
        """Return vectors without numbers, (count, 0)."""
        return np.zeros((count, 0))

    def describe(self, *, precision: str) -> dict[str, Any]:
        """Return method, backbone, number of parameters and precision; the precision asked for makes no difference."""
        return {"method": "automl", "backbone": None, "parameters": self.sizes().total, "precision": "float32"}

    def revised(self, revision: Revision) -> Self:
        """Return the model with values added to the schema, without weights, or taken away with theirs."""
        features, rows = self.features.revised(revision)
        tensors = dict(self.network.state_dict())
        wide = torch.cat([tensors[_WIDE], torch.zeros_like(tensors[_WIDE][:1])])  # the last row is that of new values
        tensors[_WIDE] = wide[torch.from_numpy(rows)]
        network = _network(self.settings, tensors, self.task, is_pair=self.network.is_pair)
        return replace(self, features=features, network=network)

    def save_pretrained(self, folder: str | Path) -> None:
        """Write `automl.json`, `automl.safetensors` and `schema.json`.

        Raises:
            ModelFolderError: when the folder cannot be written.
        """
        settings = {
            "task": self.task.to_dict(),
            **stored_text(self.text_input),
            "network": self.settings.model_dump(mode="json"),
            "is_pair": self.network.is_pair,
            "words": self.vocabulary.words,
            "features": self.features.words,
        }
        tensors = {name: tensor.numpy() for name, tensor in self.network.state_dict().items()}
        _FILES.save(folder, settings=settings, tensors=tensors | {_IDF: self.features.idf}, schema=self.schema)

    @staticmethod
    def is_in(folder: str | Path) -> bool:
        """Whether `save_pretrained` wrote the folder."""
        return _FILES.are_in(folder)

    @classmethod
    def load(cls, folder: str | Path, *, verify: bool = True) -> Self:
        """Read what `save_pretrained` wrote; arguments and errors are those of `BaselineFiles.load`."""
        stored = _FILES.load(folder, verify=verify)
        with stored.fitting():
            saved = stored.settings
            task, is_pair = task_from_dict(saved["task"]), bool(saved["is_pair"])
            settings = NetworkSettings.from_dict(saved["network"], source=str(stored.path), saved=True)
            vocabulary = WordVocabulary(stored.texts("words"))
            words, idf = stored.texts("features"), stored.tensors[_IDF]
            features = LinearFeatures(words=words, idf=idf, schema=stored.schema)
            size = stored.tensors["embedding.weight"].shape[-1]
            with torch.device("meta"):
                vectors = torch.empty(len(vocabulary), size)
                network = WordNetwork(
                    settings, vectors=vectors, features=features.width, outputs=task.outputs, is_pair=is_pair
                )
            expected = network.state_dict()
            shapes = {name: tuple(tensor.shape) for name, tensor in expected.items()}
            stored.check_shapes(shapes | {_IDF: features.idf_shape})
            tensors = {name: torch.from_numpy(stored.tensors[name]) for name in expected}
            network = _network(settings, tensors, task, is_pair=is_pair)
            return cls(
                task=task,
                settings=settings,
                vocabulary=vocabulary,
                features=features,
                network=network,
                text_input=stored.text_input,
            )


def _network(settings: NetworkSettings, tensors: Mapping[str, Tensor], task: Task, *, is_pair: bool) -> WordNetwork:
    """Make a network of its tensors."""
    vectors, features = tensors["embedding.weight"], len(tensors[_WIDE])
    network = WordNetwork(settings, vectors=vectors, features=features, outputs=task.outputs, is_pair=is_pair)
    network.load_state_dict(dict(tensors))
    return network.eval()

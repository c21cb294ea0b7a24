"""The rows of which the networks of ``automl`` make their own, and the word vectors that these begin with."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from attribune.core.files import read_json, write_json
from attribune.core.progress import Reporter
from attribune.data.word_vectors import WordVectors, read_word_vectors
from attribune.data.words import PADDING, WordVocabulary
from attribune.errors import ConfigError, DataError
from attribune.models.automl import NetworkSettings, WordRows, read_words
from attribune.models.baselines import AutoML
from attribune.models.features import LinearFeatures
from attribune.runs.folder import RunFolder
from attribune.training.plan import TrainingPlan
from attribune.training.preparation import PreparedData

__all__ = ["RANDOM", "NetworkTexts"]

RANDOM = ("random-50", "random-128")
"""Sizes of random word vectors."""
_RANGE = 0.1  # of random word vectors
_MOST_WORDS, _MOST_FEATURES = 100_000, 100_000


@dataclass(frozen=True, eq=False)
class NetworkTexts:
    """Training and validation rows, from which a trial makes its own.

    Attributes:
        raw: by split, for each text of a row the texts of all rows.
        vectors: by the name of the file.
        features: sparse features, and `matrices` those of the splits.
        weights: (n,) of the training rows; None if all count the same.
    """

    raw: Mapping[str, Sequence[Sequence[str]]]
    labels: Mapping[str, npt.NDArray[Any]]
    vectors: Mapping[str, WordVectors]
    features: LinearFeatures
    matrices: Mapping[str, Any]
    weights: npt.NDArray[np.float32] | None = None
    words: dict[tuple[str, bool, bool], Sequence[Sequence[list[str]]]] = field(default_factory=dict)

    @classmethod
    def read(
        cls, config: AutoML, plan: TrainingPlan, data: PreparedData, folder: RunFolder, reporter: Reporter
    ) -> NetworkTexts:
        """Read texts and attributes of the rows, and the vectors of the words of training rows."""
        text = plan.data.text
        splits = {name: data.splits[name] for name in ("train", "validation")}
        raw = {
            name: [text.read(split.table), *([text.read_pairs(split.table)] if text.pair else [])]
            for name, split in splits.items()
        }
        joined = {name: text.read_all(split.table) for name, split in splits.items()}
        ids = {
            name: data.schema.encode(split.table)[0] if len(data.schema) else np.zeros((len(split.rows), 0), np.int64)
            for name, split in splits.items()
        }
        features = LinearFeatures.fit(joined["train"], data.schema, max_features=_MOST_FEATURES)
        texts = cls(
            raw=raw,
            labels={name: split.labels for name, split in splits.items()},
            vectors={},
            features=features,
            matrices={name: features.transform(joined[name], ids[name]) for name in splits},
            weights=splits["train"].weights,
        )
        return replace(texts, vectors=texts._read_vectors(config.word_vectors, folder, reporter))

    def _read_vectors(self, files: Sequence[str], folder: RunFolder, reporter: Reporter) -> dict[str, WordVectors]:
        """Read the vectors of all forms of the words of training rows."""
        if not files:
            return {}
        words = {
            word
            for options in ((True, False), (False, False))  # without marks there are no other words
            for column in self._words_of("train", *options)
            for row in column
            for word in row
        }
        vectors = {}
        for file in files:
            read = vectors[Path(file).name] = read_word_vectors(file, words)
            if not read.words:
                raise DataError(
                    f"{file}: has none of the {len(words):,} words of the training rows: give vectors of their language"
                )
            found = f"vectors of {read.size} numbers for {len(read.words):,} of {len(words):,} words"
            reporter.note(f"{Path(file).name}: {found}")
        _check_same_vectors(folder, vectors)
        return vectors

    def _words_of(self, split: str, lowercase: bool, alphanumeric: bool) -> Sequence[Sequence[list[str]]]:
        """Return the words of the texts of a split, which are found once."""
        key = (split, lowercase, alphanumeric)
        if key not in self.words:
            options = {"lowercase": lowercase, "alphanumeric": alphanumeric}
            self.words[key] = [[read_words(text, **options) for text in column] for column in self.raw[split]]
        return self.words[key]

    def rows(self, settings: NetworkSettings) -> tuple[WordVocabulary, dict[str, WordRows]]:
        """Return the vocabulary and the rows of a network."""
        words = {name: self._words_of(name, settings.lowercase, settings.alphanumeric) for name in self.raw}
        vectors = self.vectors.get(settings.vectors)
        known = frozenset(vectors.words) if vectors is not None else frozenset()
        every = (row for column in words["train"] for row in column)
        vocabulary = WordVocabulary.fit(every, known=known, limit=_MOST_WORDS)
        rows = {name: WordRows.encode(words[name], vocabulary, self.matrices[name]) for name in words}
        return vocabulary, rows

    def initial_vectors(self, settings: NetworkSettings, vocabulary: WordVocabulary, *, seed: int) -> Tensor:
        """Return (V, E): pretrained vectors, U(-0.1, 0.1) for words without one, zeros for padding."""
        vectors = self.vectors.get(settings.vectors)
        size = int(settings.vectors.removeprefix("random-")) if vectors is None else vectors.size
        matrix = np.random.default_rng(seed).uniform(-_RANGE, _RANGE, (len(vocabulary), size)).astype(np.float32)
        if vectors is not None:
            ids = vocabulary.encode(vectors.words)
            has_id = ids >= len(vocabulary) - len(vocabulary.words)
            matrix[ids[has_id]] = vectors.matrix[has_id]
        matrix[PADDING] = 0
        return torch.from_numpy(matrix)


def _check_same_vectors(folder: RunFolder, vectors: Mapping[str, WordVectors]) -> None:
    """Refuse to go on with other word vectors than those of earlier trials."""
    path = folder.trials / "word_vectors.json"
    marks = {
        name: hashlib.blake2b(repr(read.words).encode() + read.matrix.tobytes(), digest_size=16).hexdigest()
        for name, read in vectors.items()
    }
    if not path.is_file():
        path.parent.mkdir(parents=True, exist_ok=True)
        write_json(path, marks, what="mark of the word vectors")
    elif read_json(path, what="mark of the word vectors") != marks:
        raise ConfigError(
            f"the word vectors are not those with which {folder.path} was started: restore the files, or choose "
            "another output folder"
        )

"""Rows as a `WordNetwork` reads them: the ids of their words, and their sparse features."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Self

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from attribune.data.words import PADDING, WordVocabulary, split_words
from attribune.models.word_network import SparseRows

__all__ = ["WordRows", "read_words"]

_LONGEST = 1_000  # words of a text for the deep tower; the features are those of the whole text


def read_words(text: str, *, lowercase: bool, alphanumeric: bool) -> list[str]:
    """Return the words of a text that the deep tower reads."""
    return split_words(text, lowercase=lowercase, alphanumeric=alphanumeric)[:_LONGEST]


@dataclass(frozen=True, eq=False)
class WordRows:
    """Rows of words and features.

    Args:
        texts: for each text of a row, the ids of its words, one array for each row.
        features: (rows, features) in CSR form.
    """

    texts: tuple[list[npt.NDArray[np.int64]], ...]
    features: Any

    @classmethod
    def encode(cls, texts: Sequence[Sequence[Sequence[str]]], vocabulary: WordVocabulary, features: Any) -> Self:
        """Make rows of words; `texts` has, for each text of a row, the words of every row."""
        return cls(tuple([vocabulary.encode(words) for words in column] for column in texts), features)

    def __len__(self) -> int:
        return int(self.features.shape[0])

    @cached_property
    def lengths(self) -> npt.NDArray[np.int64]:
        """The number of words of each row's longest text, (rows,)."""
        lengths = np.array([[len(ids) for ids in column] for column in self.texts], dtype=np.int64)
        return np.asarray(lengths.max(axis=0))

    def batch(self, rows: npt.NDArray[np.intp], *, dtype: torch.dtype) -> tuple[tuple[Tensor, ...], SparseRows]:
        """Return the arguments of `WordNetwork.forward` for some rows."""
        part = self.features[rows]
        features = SparseRows(
            columns=torch.from_numpy(part.indices.astype(np.int64)),
            starts=torch.from_numpy(part.indptr[:-1].astype(np.int64)),
            values=torch.from_numpy(part.data).to(dtype),
        )
        return tuple(_padded([column[row] for row in rows]) for column in self.texts), features


def _padded(texts: Sequence[npt.NDArray[np.int64]]) -> Tensor:
    """Return (rows, T), at least one column wide."""
    lengths = np.array([len(ids) for ids in texts])
    ids = np.full((len(texts), max(1, int(lengths.max(initial=0)))), PADDING, dtype=np.int64)
    ids[np.arange(ids.shape[1]) < lengths[:, None]] = np.concatenate([ids[0, :0], *texts])
    return torch.from_numpy(ids)

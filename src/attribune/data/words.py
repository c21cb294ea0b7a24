"""Texts as words, and the vocabulary of the words of training rows."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from typing import Self

import numpy as np
import numpy.typing as npt

__all__ = ["PADDING", "UNKNOWN", "WordVocabulary", "split_words"]

PADDING, UNKNOWN = 0, 1
_FIRST = 2  # the id of the first word
_WORDS = re.compile(r"[^\W_]+")
_WORDS_AND_MARKS = re.compile(r"[^\W_]+|[^\w\s]|_")


def split_words(text: str, *, lowercase: bool = True, alphanumeric: bool = False) -> list[str]:
    """Split a text into words, runs of letters and digits, and single marks.

    Args:
        lowercase: lower-case the text.
        alphanumeric: leave out the marks.
    """
    return (_WORDS if alphanumeric else _WORDS_AND_MARKS).findall(text.lower() if lowercase else text)


@dataclass(frozen=True)
class WordVocabulary:
    """The words that have an id: 0 is padding, 1 any other word, and `words` begin at 2."""

    words: tuple[str, ...]

    @classmethod
    def fit(
        cls, texts: Iterable[Sequence[str]], *, known: Collection[str] = (), limit: int, min_count: int = 2
    ) -> Self:
        """Count the words of training texts; the most frequent come first.

        A word that occurs fewer than `min_count` times has an id only if it is `known`, as one with a pretrained vector
        is. The others train what stands for words that no training text has.
        """
        counts = Counter(chain.from_iterable(texts))
        words = [word for word, count in counts.items() if count >= min_count or word in known]
        return cls(tuple(sorted(words, key=lambda word: (-counts[word], word))[:limit]))

    def __len__(self) -> int:
        return len(self.words) + _FIRST

    @cached_property
    def _ids(self) -> dict[str, int]:
        return {word: number for number, word in enumerate(self.words, start=_FIRST)}

    def encode(self, words: Sequence[str]) -> npt.NDArray[np.int64]:
        """Return the ids of words, (len(words),)."""
        ids = self._ids
        return np.fromiter((ids.get(word, UNKNOWN) for word in words), dtype=np.int64, count=len(words))

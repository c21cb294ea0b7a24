"""Texts as words, and the vocabulary of the words of training rows."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from typing import Any, Self

import numpy as np
import numpy.typing as npt
from tokenizers import Regex, Tokenizer
from tokenizers.models import WordLevel
from tokenizers.normalizers import NFC, Lowercase, Replace
from tokenizers.normalizers import Sequence as Steps
from tokenizers.pre_tokenizers import PreTokenizer, Split, WhitespaceSplit
from transformers import PreTrainedTokenizerFast

from attribune.data.windows import split_sentences

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


SENTENCE_END = "␞"
"""Stands between two sentences of a text; one that a text has itself ends a sentence, too."""

_PAD, _UNK = "[PAD]", "[UNK]"
_STEPS = (NFC(), Lowercase())
_NORMALIZER = Steps([*_STEPS])
_SPLITS: dict[str, PreTokenizer] = {
    # Runs of letters, digits and marks on letters; other characters, spaces aside, stand alone.
    "words": Split(Regex(r"[^\W_]+|[^\w\s]|_"), behavior="removed", invert=True),
    "whitespace": WhitespaceSplit(),
}
_MARK = "<sssss>"  # the end of a sentence in tokenized sets of reviews


class SentenceTokenizer(PreTrainedTokenizerFast):
    """A tokenizer of words that puts `SENTENCE_END` between the sentences of a text.

    The space between two sentences becomes the mark; where there is none it is inserted, and moves offsets behind it.

    Args:
        language: ISO 639 code of the language by whose rules sentences end.
        is_tokenized: whether the text says itself where sentences end, by ``<sssss>``.
    """

    # It has no constructor of its own: transformers would not read its tokenizer.json, but build it from the words.

    def _encode_plus(self, text: Any, text_pair: Any = None, **options: Any) -> Any:
        if not options.get("is_split_into_words"):
            text, text_pair = self._marked(text), self._marked(text_pair)
        return super()._encode_plus(text, text_pair, **options)

    def _marked(self, text: Any) -> Any:
        if isinstance(text, str):
            return self.mark_sentences(text)
        return [self._marked(one) for one in text] if isinstance(text, list | tuple) else text

    def mark_sentences(self, text: str) -> str:
        """Return a text with the mark between its sentences; one of line breaks alone becomes the mark."""
        if self.init_kwargs.get("is_tokenized"):
            return text.replace(_MARK, f" {SENTENCE_END} ")
        if not text.strip():
            return SENTENCE_END if "\n" in text else text
        *before, last = split_sentences(text, language=self.init_kwargs.get("language", "en"))
        return "".join([*map(_with_end, before), last])


def _with_end(sentence: str) -> str:
    """Return a sentence with the mark at its end; white space between paragraphs is none."""
    if not sentence.strip():
        return sentence
    return (sentence[:-1] if sentence[-1].isspace() else sentence) + SENTENCE_END


def tokenized_words(texts: Sequence[str], *, tokenization: str = "words") -> Iterator[list[str]]:
    """Split texts into words as the tokenizer does: what a vocabulary is fitted on, of which `SENTENCE_END` is none."""
    split = _SPLITS[tokenization]
    for text in texts:
        plain = text.replace(_MARK, " ") if tokenization == "whitespace" else text
        words = [word for word, _ in split.pre_tokenize_str(_NORMALIZER.normalize_str(plain))]
        yield [word for word in words if word != SENTENCE_END]


def word_tokenizer(
    vocabulary: WordVocabulary, *, tokenization: str = "words", language: str | None = None
) -> PreTrainedTokenizerFast:
    """Return the tokenizer that knows the words of a vocabulary, under their ids.

    There are no other special tokens than padding and the unknown word; their names in a text are words like others.

    Args:
        language: that of a `SentenceTokenizer`, in which the id ``len(vocabulary)`` is that of `SENTENCE_END`; None for
            texts that are not split into sentences.
    """
    ids = {_PAD: PADDING, _UNK: UNKNOWN}
    ids |= {word: number for number, word in enumerate(vocabulary.words, start=len(ids))}
    if language is not None:
        ids[SENTENCE_END] = len(ids)
    tokenizer = Tokenizer(WordLevel(ids, unk_token=_UNK))
    # A tokenizer of sentences replaces the mark itself.
    drops_mark = tokenization == "whitespace" and language is None
    tokenizer.normalizer = Steps([Replace(_MARK, " "), *_STEPS]) if drops_mark else _NORMALIZER
    tokenizer.pre_tokenizer = _SPLITS[tokenization]
    options: dict[str, Any] = {
        "tokenizer_object": tokenizer,
        "pad_token": _PAD,
        "unk_token": _UNK,
        "model_input_names": ["input_ids", "attention_mask"],
        "clean_up_tokenization_spaces": False,
        "split_special_tokens": True,
    }
    if language is None:
        return PreTrainedTokenizerFast(**options)
    return SentenceTokenizer(**options, language=language, is_tokenized=tokenization == "whitespace")

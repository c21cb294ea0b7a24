"""A tokenizer of whole words, fitted on the training rows, as a fast tokenizer of transformers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from tokenizers import Regex, Tokenizer
from tokenizers.models import WordLevel
from tokenizers.normalizers import NFC, Lowercase, Replace
from tokenizers.normalizers import Sequence as Steps
from tokenizers.pre_tokenizers import PreTokenizer, Split, WhitespaceSplit
from transformers import PreTrainedTokenizerFast

from attribune.data.sentences import split_sentences
from attribune.data.words import PADDING, UNKNOWN, WordVocabulary

__all__ = ["SENTENCE_END", "SentenceTokenizer", "tokenized_words", "word_tokenizer"]

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

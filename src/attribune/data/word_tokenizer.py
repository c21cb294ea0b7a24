"""A tokenizer of whole words, fitted on the training rows, as a fast tokenizer of transformers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tokenizers import Regex, Tokenizer
from tokenizers.models import WordLevel
from tokenizers.normalizers import NFC, Lowercase
from tokenizers.normalizers import Sequence as Steps
from tokenizers.pre_tokenizers import Split
from transformers import PreTrainedTokenizerFast

from attribune.data.words import PADDING, UNKNOWN, WordVocabulary

__all__ = ["tokenized_words", "word_tokenizer"]

_PAD, _UNK = "[PAD]", "[UNK]"
_NORMALIZER = Steps([NFC(), Lowercase()])
# Runs of letters, digits and marks on letters; other characters, spaces aside, stand alone.
_SPLIT = Split(Regex(r"[^\W_]+|[^\w\s]|_"), behavior="removed", invert=True)


def tokenized_words(texts: Sequence[str]) -> Iterator[list[str]]:
    """Split texts into words as the tokenizer does: what a vocabulary is fitted on."""
    for text in texts:
        yield [word for word, _ in _SPLIT.pre_tokenize_str(_NORMALIZER.normalize_str(text))]


def word_tokenizer(vocabulary: WordVocabulary) -> PreTrainedTokenizerFast:
    """Return the tokenizer that knows the words of a vocabulary, under their ids.

    There are no other special tokens than padding and the unknown word; their names in a text are words like others.
    """
    ids = {_PAD: PADDING, _UNK: UNKNOWN}
    ids |= {word: number for number, word in enumerate(vocabulary.words, start=len(ids))}
    tokenizer = Tokenizer(WordLevel(ids, unk_token=_UNK))
    tokenizer.normalizer = _NORMALIZER
    tokenizer.pre_tokenizer = _SPLIT
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        pad_token=_PAD,
        unk_token=_UNK,
        model_input_names=["input_ids", "attention_mask"],
        clean_up_tokenization_spaces=False,
        split_special_tokens=True,
    )

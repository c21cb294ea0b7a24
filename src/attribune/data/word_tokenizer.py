"""A tokenizer of whole words, fitted on the training rows, as a fast tokenizer of transformers."""

from __future__ import annotations

from tokenizers import Regex, Tokenizer
from tokenizers.models import WordLevel
from tokenizers.normalizers import Lowercase
from tokenizers.pre_tokenizers import Split
from transformers import PreTrainedTokenizerFast

from attribune.data.words import PADDING, UNKNOWN, WORDS_AND_MARKS, WordVocabulary

__all__ = ["word_tokenizer"]

_PAD, _UNK = "[PAD]", "[UNK]"


def word_tokenizer(vocabulary: WordVocabulary) -> PreTrainedTokenizerFast:
    """Return the tokenizer that splits texts as `split_words` does, in lower case, and knows the words of a vocabulary.

    The ids are those of the vocabulary; there are no other special tokens than padding and the unknown word.
    """
    ids = {_PAD: PADDING, _UNK: UNKNOWN}
    ids |= {word: number for number, word in enumerate(vocabulary.words, start=len(ids))}
    tokenizer = Tokenizer(WordLevel(ids, unk_token=_UNK))
    tokenizer.normalizer = Lowercase()
    tokenizer.pre_tokenizer = Split(Regex(WORDS_AND_MARKS), behavior="removed", invert=True)
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        pad_token=_PAD,
        unk_token=_UNK,
        model_input_names=["input_ids", "attention_mask"],
        clean_up_tokenization_spaces=False,
    )

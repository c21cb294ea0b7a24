"""Small tokenizers: of whole words, of pieces without the spaces between words, and of words that begin with them."""

from __future__ import annotations

from collections.abc import Iterable

from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors
from transformers import PreTrainedTokenizerFast

__all__ = ["LETTERS", "bytes_with_spaces", "pieces", "whole_words"]

LETTERS = "abcdefghijklmnopqrstuvwxyz"


def pieces() -> PreTrainedTokenizerFast:
    """Every letter is a token, as in a tokenizer of word pieces that cleans control characters."""
    names = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", *LETTERS, *(f"##{letter}" for letter in LETTERS)]
    core = Tokenizer(models.WordPiece({name: place for place, name in enumerate(names)}, unk_token="[UNK]"))
    core.normalizer = normalizers.BertNormalizer()
    core.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    core.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]",
        pair="[CLS] $A [SEP] $B:1 [SEP]:1",
        special_tokens=[("[CLS]", 2), ("[SEP]", 3)],
    )
    named = {"unk_token": "[UNK]", "pad_token": "[PAD]", "cls_token": "[CLS]", "sep_token": "[SEP]"}
    return PreTrainedTokenizerFast(tokenizer_object=core, **named)


def bytes_with_spaces() -> PreTrainedTokenizerFast:
    """Bytes, where a space belongs to the word after it, as in the tokenizers of RoBERTa and GPT-2."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    names = ["<end>", *alphabet, *(f"Ġ{letter}" for letter in LETTERS)]
    core = Tokenizer(
        models.BPE({name: place for place, name in enumerate(names)}, [("Ġ", letter) for letter in LETTERS])
    )
    core.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    core.decoder = decoders.ByteLevel()
    return PreTrainedTokenizerFast(tokenizer_object=core, eos_token="<end>", pad_token="<end>")


def whole_words(words: Iterable[str]) -> PreTrainedTokenizerFast:
    """Each of these words is a token, and any other is unknown."""
    names = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", *words]
    core = Tokenizer(models.WordLevel({name: place for place, name in enumerate(names)}, unk_token="[UNK]"))
    core.pre_tokenizer = pre_tokenizers.Whitespace()
    core.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B:1 [SEP]:1", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    named = {"unk_token": "[UNK]", "pad_token": "[PAD]", "cls_token": "[CLS]", "sep_token": "[SEP]"}
    return PreTrainedTokenizerFast(tokenizer_object=core, **named)

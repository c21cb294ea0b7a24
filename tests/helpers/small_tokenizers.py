"""Small tokenizers: of letters without the spaces, of bytes where words begin with them, and of whole words."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors
from transformers import PreTrainedTokenizerFast

WORDS = ["the", "film", "was", "a", "plot", "cast", "very", "quite", "so", "1", "."]
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


_BERT = {"pad_token": "[PAD]", "cls_token": "[CLS]", "sep_token": "[SEP]"}
_WHOLE: dict[str, tuple[str | None, str | None, dict[str, str]]] = {  # templates of a text and a pair, special tokens
    "bert": ("[CLS] $A [SEP]", "[CLS] $A [SEP] $B:1 [SEP]:1", _BERT),
    "roberta": ("[CLS] $A [SEP]", "[CLS] $A [SEP] [SEP] $B [SEP]", _BERT),
    "decoder": ("[CLS] $A", "[CLS] $A [CLS] $B:1", _BERT),
    "nothing": ("$A", "$A $B:1", _BERT),
    "llama": ("<s> $A", None, {"bos_token": "<s>", "eos_token": "</s>", "padding_side": "left"}),
    "t5": ("$A </s>", None, {"pad_token": "[PAD]", "eos_token": "</s>"}),
    "gpt2": (None, None, {"eos_token": "<|end|>", "bos_token": "<|end|>"}),
}


def whole_words(kind: str = "bert", **options: Any) -> PreTrainedTokenizerFast:
    """Every word is a token; the special tokens are those of BERT, RoBERTa, Llama (bos), T5 (eos) or GPT-2 (none)."""
    special = ["[PAD]", "[CLS]", "[SEP]", "[UNK]", "<s>", "</s>", "<|end|>"]
    vocabulary = {word: place for place, word in enumerate([*special, *(f"w{number}" for number in range(50)), *WORDS])}
    core = Tokenizer(models.WordLevel(vocabulary, unk_token="[UNK]"))
    core.pre_tokenizer = pre_tokenizers.Whitespace()
    single, pair, named = _WHOLE[kind]
    if single is not None:
        used = [(token, vocabulary[token]) for token in special if token in single or token in (pair or "")]
        core.post_processor = processors.TemplateProcessing(single=single, pair=pair, special_tokens=used)
    return PreTrainedTokenizerFast(tokenizer_object=core, **{"unk_token": "[UNK]", **named, **options})


def only_words(words: Iterable[str]) -> PreTrainedTokenizerFast:
    """Each of these words is a token, and any other is unknown."""
    names = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", *words]
    core = Tokenizer(models.WordLevel({name: place for place, name in enumerate(names)}, unk_token="[UNK]"))
    core.pre_tokenizer = pre_tokenizers.Whitespace()
    core.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B:1 [SEP]:1", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    named = {"unk_token": "[UNK]", "pad_token": "[PAD]", "cls_token": "[CLS]", "sep_token": "[SEP]"}
    return PreTrainedTokenizerFast(tokenizer_object=core, **named)

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from tokenizers import Tokenizer, models, pre_tokenizers, processors
from transformers import PreTrainedTokenizerFast

WORDS = [f"w{number}" for number in range(50)]


def make_tokenizer(kind: str = "bert", **options: Any) -> PreTrainedTokenizerFast:
    """A word-level tokenizer whose special tokens are those of BERT, Llama (bos), T5 (eos) or GPT-2 (none)."""
    special = ["[PAD]", "[CLS]", "[SEP]", "[UNK]", "<s>", "</s>", "<|end|>"]
    vocabulary = {word: number for number, word in enumerate([*special, *WORDS, "a"])}
    core = Tokenizer(models.WordLevel(vocabulary, unk_token="[UNK]"))
    core.pre_tokenizer = pre_tokenizers.Whitespace()
    template = {"bert": "[CLS] $A [SEP]", "llama": "<s> $A", "t5": "$A </s>", "gpt2": None}[kind]
    if template is not None:
        used = [(token, vocabulary[token]) for token in special if token in template]
        core.post_processor = processors.TemplateProcessing(single=template, special_tokens=used)
    tokens = {
        "bert": {"pad_token": "[PAD]", "cls_token": "[CLS]", "sep_token": "[SEP]"},
        "llama": {"bos_token": "<s>", "eos_token": "</s>", "padding_side": "left"},
        "t5": {"pad_token": "[PAD]", "eos_token": "</s>"},
        "gpt2": {"eos_token": "<|end|>", "bos_token": "<|end|>"},
    }[kind]
    return PreTrainedTokenizerFast(tokenizer_object=core, **{"unk_token": "[UNK]", **tokens, **options})


@pytest.fixture
def tokenizer_of() -> Callable[..., PreTrainedTokenizerFast]:
    return make_tokenizer


@pytest.fixture
def tokenizer() -> PreTrainedTokenizerFast:
    return make_tokenizer()

from __future__ import annotations

from collections.abc import Callable

import pytest
from small_tokenizers import whole_words
from transformers import PreTrainedTokenizerFast


@pytest.fixture
def tokenizer_of() -> Callable[..., PreTrainedTokenizerFast]:
    return whole_words


@pytest.fixture
def tokenizer() -> PreTrainedTokenizerFast:
    return whole_words()

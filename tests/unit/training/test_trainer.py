from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from torch import nn
from transformers import PreTrainedModel, TrainerState

from attribune.training.preparation import longest_text
from attribune.training.trainer import _StopWhenStale


class Tokenizer:
    def __init__(self, limit: int) -> None:
        self.model_max_length = limit


@pytest.mark.parametrize(
    ("values", "higher", "patience", "stale"),
    [
        ([], True, 1, False),
        ([0.5], True, 1, False),
        ([0.5, 0.5], True, 1, True),
        ([0.5, 0.6, 0.6, 0.7], True, 1, False),
        ([0.5, 0.6, 0.6, 0.6], True, 2, True),
        ([0.5, 0.6, 0.6, 0.6], True, 3, False),
        ([0.9, 0.5, 0.6, 0.7], False, 2, True),
        ([0.9, 0.5, 0.6, 0.4], False, 2, False),
    ],
)
def test_training_is_stale_when_patience_checks_brought_nothing(
    values: list[float], higher: bool, patience: int, stale: bool
) -> None:
    history: list[dict[str, Any]] = [{"loss": 3.0, "step": 1}]
    history += [{"eval_score": value} for value in values]
    state = TrainerState(log_history=history)
    assert _StopWhenStale("eval_score", higher_is_better=higher, patience=patience).is_stale(state) is stale


@pytest.mark.parametrize(
    ("family", "positions"),
    [("bert", 67), ("roberta", 65), ("mpnet", 65), ("gpt2", 67), ("electra", 67), ("llama", None), ("t5", None)],
)
def test_the_longest_text_is_that_of_tokenizer_and_positions(
    tiny_backbone: Callable[..., PreTrainedModel], family: str, positions: int | None
) -> None:
    backbone: nn.Module = tiny_backbone(family)
    assert longest_text(backbone, Tokenizer(10**30)) == positions  # type: ignore[arg-type]
    assert longest_text(backbone, Tokenizer(31)) == 31  # type: ignore[arg-type]
    assert longest_text(backbone, Tokenizer(512)) == (positions or 512)  # type: ignore[arg-type]

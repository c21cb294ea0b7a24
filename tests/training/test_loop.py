from __future__ import annotations

from typing import Any

import pytest
from transformers import TrainerState

from attribune.training.callbacks.early_stopping import EarlyStopping


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
def test_training_is_exhausted_when_patience_checks_brought_nothing(
    values: list[float], higher: bool, patience: int, stale: bool
) -> None:
    history: list[dict[str, Any]] = [{"loss": 3.0, "step": 1}]
    history += [{"eval_score": value} for value in values]
    state = TrainerState(log_history=history)
    assert EarlyStopping("eval_score", greater_is_better=higher, patience=patience).is_exhausted(state) is stale

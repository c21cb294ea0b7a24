"""Early stopping by the history of the run."""

from __future__ import annotations

from typing import Any

import numpy as np
from transformers import TrainerCallback, TrainerControl, TrainerState, TrainingArguments

__all__ = ["EarlyStopping"]


class EarlyStopping(TrainerCallback):
    """Stop when a metric has not improved for `patience` evaluations; the history is its only state.

    Args:
        metric: name in the history, such as ``eval_accuracy``.
    """

    def __init__(self, metric: str, *, greater_is_better: bool, patience: int) -> None:
        self.metric, self.greater_is_better, self.patience = metric, greater_is_better, patience

    def is_exhausted(self, state: TrainerState) -> bool:
        """Whether the last `patience` evaluations brought no improvement."""
        sign = 1 if self.greater_is_better else -1
        values = [sign * entry[self.metric] for entry in state.log_history if self.metric in entry]
        return bool(values) and len(values) - 1 - int(np.argmax(values)) >= self.patience

    def on_evaluate(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **_: Any) -> None:
        """End the training when patience has run out."""
        control.should_training_stop |= self.is_exhausted(state)

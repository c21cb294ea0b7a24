"""Early stopping that goes by the history of the run."""

from __future__ import annotations

from typing import Any

import numpy as np
from transformers import TrainerCallback, TrainerControl, TrainerState, TrainingArguments

__all__ = ["EarlyStopping"]


class EarlyStopping(TrainerCallback):
    """Stop when a metric has not improved for some evaluations; it reads the history: resuming needs no state.

    Args:
        metric: as the history names it, such as ``eval_accuracy``.
        greater_is_better: whether its best value is the largest.
        patience: evaluations without an improvement.
    """

    def __init__(self, metric: str, *, greater_is_better: bool, patience: int) -> None:
        self.metric, self.greater_is_better, self.patience = metric, greater_is_better, patience

    def is_exhausted(self, state: TrainerState) -> bool:
        """Whether the last `patience` evaluations brought nothing better than the best before them."""
        values = [entry[self.metric] for entry in state.log_history if self.metric in entry]
        if not self.greater_is_better:
            values = [-value for value in values]
        return bool(values) and len(values) - 1 - int(np.argmax(values)) >= self.patience

    def on_evaluate(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **_: Any) -> None:
        """Ask for the end when patience has run out."""
        if self.is_exhausted(state):
            control.should_training_stop = True

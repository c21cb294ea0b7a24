from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from transformers import TrainerControl, TrainerState, TrainingArguments

from attribune.core.progress import Reporter
from attribune.training import callbacks
from attribune.training.callbacks import EarlyStopping


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


class Notes(Reporter):
    def __init__(self) -> None:
        self.notes: list[str] = []

    def note(self, text: str) -> None:
        self.notes.append(text)


@pytest.mark.parametrize(
    ("step", "resumed", "said"),
    [
        (0.01, 0, []),
        (0.2, 0, ["training: 289 more steps take about 58 seconds, and less if it stops early"]),
        (2.0, 0, ["training: 289 more steps take about 10 minutes, and less if it stops early"]),
        (2.0, 200, ["training: 89 more steps take about 3 minutes, and less if it stops early"]),
        (60.0, 0, ["training: 289 more steps take about 4.8 hours, and less if it stops early"]),
        (2.0, 290, []),
    ],
)
def test_a_long_training_says_how_long_it_takes(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, step: float, resumed: int, said: list[str]
) -> None:
    """The first step, here of a minute, is not counted."""
    clock = [0.0]
    monkeypatch.setattr(callbacks.time, "perf_counter", lambda: clock[0])
    notes = Notes()
    callback = callbacks.Progress(notes, tmp_path / "log.jsonl")
    arguments, state, control = TrainingArguments(output_dir=str(tmp_path)), TrainerState(), TrainerControl()
    state.global_step, state.max_steps = resumed, 300
    callback.on_train_begin(arguments, state, control)
    for number in range(resumed, 300):
        clock[0] += step if number > resumed else 60
        state.global_step = number + 1
        callback.on_step_end(arguments, state, control)
    assert notes.notes == said

"""Progress of a training for the reporter and for the log of the run."""

from __future__ import annotations

import json
import logging
import time
from pathlib import Path
from typing import Any

from transformers import TrainerCallback, TrainerControl, TrainerState, TrainingArguments

from attribune.core.files import replace_file
from attribune.core.progress import Reporter
from attribune.training.distributed import is_main

__all__ = ["Progress"]

_log = logging.getLogger(__name__)
_TIMED_STEPS = 10  # after which the rest is estimated; the first one, which is slower, is left out
_LONG = 30  # seconds that are announced


class Progress(TrainerCallback):
    """Notify the reporter, write the log file (one JSON object per line) and measure the time spent in training."""

    def __init__(self, reporter: Reporter, log_file: Path) -> None:
        self.reporter, self.log_file = reporter, log_file
        self._since = time.perf_counter()
        self._begun = 0
        self._first_done = 0.0

    def on_train_begin(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **_: Any) -> None:
        """Start the clock and the display."""
        self._since = time.perf_counter()
        self._begun = state.global_step
        epochs = args.num_train_epochs if args.max_steps <= 0 else None
        self.reporter.started(done=state.global_step, total=state.max_steps, epochs=epochs)

    def on_step_end(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **_: Any) -> None:
        """Advance the display, and say after some steps how long the others will take."""
        done = state.global_step - self._begun
        if done == 1:
            self._first_done = time.perf_counter()
        if done == _TIMED_STEPS + 1:
            self._announce(state.max_steps - state.global_step)
        self._log_before_saving(control)
        loss = next((entry["loss"] for entry in reversed(state.log_history) if "loss" in entry), None)
        self.reporter.step(done=state.global_step, loss=loss, epoch=state.epoch)

    def _announce(self, steps: int) -> None:
        seconds = steps * (time.perf_counter() - self._first_done) / _TIMED_STEPS
        if seconds >= _LONG:
            words = f"{seconds:.0f} seconds" if seconds < 90 else f"{seconds / 60:.0f} minutes"
            words = words if seconds < 5400 else f"{seconds / 3600:.1f} hours"
            self.reporter.note(f"training: {steps:,} more steps take about {words}, and less if it stops early")

    def on_epoch_end(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **_: Any) -> None:
        """Log the pending losses before the checkpoint of the epoch is written."""
        self._log_before_saving(control)

    def write_log(self, state: TrainerState) -> None:
        """Write the log of a state; a run may have been killed between its last checkpoint and its log."""
        if is_main():
            lines = "".join(json.dumps(entry) + "\n" for entry in state.log_history)
            replace_file(self.log_file, lines.encode())

    @staticmethod
    def _log_before_saving(control: TrainerControl) -> None:
        # Checkpoints do not contain the losses since the last log entry: a resumed run would average over fewer.
        control.should_log |= control.should_save

    def on_evaluate(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, metrics: dict[str, float], **_: Any
    ) -> None:
        """Show the metrics, and add the time since the last evaluation to the history, which checkpoints carry."""
        now = time.perf_counter()
        state.log_history.append({"step": state.global_step, "train_seconds": now - self._since})
        self._since = now
        values = {key.removeprefix("eval_"): value for key, value in metrics.items() if key.startswith("eval_")}
        self.reporter.checked(epoch=float(state.epoch or 0), metrics=values)

    def on_save(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **_: Any) -> None:
        """Rewrite the log from the history, so that a resumed run repeats no line."""
        _log.debug("checkpoint of step %d written to %s", state.global_step, args.output_dir)
        self.write_log(state)

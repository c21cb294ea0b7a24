"""Callbacks of the Trainer: early stopping, progress, and experiment trackers."""

from __future__ import annotations

import copy
import json
import logging
import os
import time
import warnings
from collections.abc import Sequence
from functools import partialmethod
from pathlib import Path
from typing import Any

import numpy as np
from transformers import TrainerCallback, TrainerControl, TrainerState, TrainingArguments
from transformers.integrations import INTEGRATION_TO_CALLBACK, get_available_reporting_integrations

from attribune.core.files import replace_file
from attribune.core.processes import is_main
from attribune.core.progress import Reporter
from attribune.errors import AttribuneWarning, ConfigError
from attribune.metrics.metric import MetricInfo
from attribune.runs.folder import RunFolder


class EarlyStopping(TrainerCallback):
    """Stop when a metric has not improved for `patience` evaluations; the history is its only state.

    Args:
        metric: of the task, or the loss.
    """

    def __init__(self, metric: MetricInfo, *, patience: int) -> None:
        self.metric, self.patience = metric, patience

    def is_exhausted(self, state: TrainerState) -> bool:
        """Whether the last `patience` evaluations brought no improvement."""
        name, sign = f"eval_{self.metric.name}", 1 if self.metric.higher_is_better else -1
        values = [sign * entry[name] for entry in state.log_history if name in entry]
        return bool(values) and len(values) - 1 - int(np.argmax(values)) >= self.patience

    def on_evaluate(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **_: Any) -> None:
        """End the training when patience has run out."""
        control.should_training_stop |= self.is_exhausted(state)


_log = logging.getLogger(__name__)
_TIMED_STEPS = 10  # after which the rest is estimated; the first one, which is slower, is left out
_LONG = 30  # seconds that are announced


class Progress(TrainerCallback):
    """Notify the reporter, write the log file (one JSON object per line) and measure the time spent in training.

    Args:
        may_stop_early: whether the training may have fewer steps.
    """

    def __init__(self, reporter: Reporter, log_file: Path, *, may_stop_early: bool) -> None:
        self.reporter, self.log_file, self.may_stop_early = reporter, log_file, may_stop_early
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
        control.should_log |= control.should_save  # as at the end of an epoch
        loss = next((entry["loss"] for entry in reversed(state.log_history) if "loss" in entry), None)
        self.reporter.step(done=state.global_step, loss=loss, epoch=state.epoch)

    def _announce(self, steps: int) -> None:
        seconds = steps * (time.perf_counter() - self._first_done) / _TIMED_STEPS
        if seconds >= _LONG:
            words = f"{seconds:.0f} seconds" if seconds < 90 else f"{seconds / 60:.0f} minutes"
            words = words if seconds < 5400 else f"{seconds / 3600:.1f} hours"
            less = ", and less if it stops early" if self.may_stop_early else ""
            self.reporter.note(f"training: {steps:,} more steps take about {words}{less}")

    def on_epoch_end(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **_: Any) -> None:
        """Log the pending losses before the checkpoint of the epoch is written.

        Checkpoints do not contain the losses since the last log entry: a resumed run would average over fewer.
        """
        control.should_log |= control.should_save

    def write_log(self, state: TrainerState) -> None:
        """Write the log of a state; a run may have been killed between its last checkpoint and its log."""
        if is_main():
            lines = "".join(json.dumps(entry) + "\n" for entry in state.log_history)
            replace_file(self.log_file, lines.encode())

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


_CURES = {
    "azure_ml": "pip install azureml-sdk, without mlflow beside it",
    "dagshub": "pip install dagshub mlflow",
    "kubeflow": "set KUBEFLOW_TRAINER_SERVER_URL",
}


def check_trackers(names: Sequence[str]) -> None:
    """Refuse trackers that are unknown or not installed; ConfigError naming what to install or set."""
    for name in names:
        if name not in INTEGRATION_TO_CALLBACK:
            raise ConfigError(
                f"unknown tracker {name!r}: choose from {', '.join(sorted(INTEGRATION_TO_CALLBACK))}, or leave "
                "report_to out"
            )
        _callback(name)


def trackers(names: Sequence[str], folder: RunFolder) -> list[TrainerCallback]:
    """Return the callbacks of trackers, named as in ``report_to`` of transformers.

    TensorBoard's files are written into the run's folder unless ``TENSORBOARD_LOGGING_DIR`` is set.
    """
    callbacks: list[TrainerCallback] = []
    for name in names:
        callback = _callback(name)
        if name == "tensorboard" and "TENSORBOARD_LOGGING_DIR" not in os.environ:
            callback.logging_dir = str(folder.tensorboard)
        callbacks.append(Tracker(name, callback, folder.path))
    return callbacks


def run_name(run: Path) -> str:
    """Return a run's name for trackers: that of its folder, for a comparison after the name of the main run."""
    return "/".join(run.parts[-3:]) if run.parent.name == "compare" else run.name


class Tracker(TrainerCallback):
    """Forward all events to the callback of a tracker.

    A tracker that fails at the beginning stops the training. One that fails later, as the network may, is disabled with
    a warning, and the training continues.
    """

    def __init__(self, name: str, callback: Any, run: Path) -> None:
        self.name, self.callback, self.run, self.failed = name, callback, run, False

    def _tell(
        self, event: str, args: TrainingArguments, state: TrainerState, control: TrainerControl, **details: Any
    ) -> None:
        if self.failed:
            return
        if event == "on_init_end":  # codecarbon chooses its folder here; that of the checkpoints is removed at the end
            args = copy.copy(args)
            args.output_dir = str(self.run)
        try:
            getattr(self.callback, event)(args, state, control, **details)
        except Exception as error:  # each tracker has errors of its own
            if event in ("on_init_end", "on_train_begin"):
                raise ConfigError(
                    f"the tracker {self.name!r} cannot start ({_reason(error)}): check its settings or the network, "
                    "or leave it out of report_to"
                ) from error
            self.failed = True
            warnings.warn(
                f"the tracker {self.name!r} failed at step {state.global_step} ({_reason(error)}): it gets nothing "
                "more, and the training continues; log.jsonl in the run's folder holds all losses and metrics",
                AttribuneWarning,
                stacklevel=2,
            )


for _event in [name for name in dir(TrainerCallback) if name.startswith("on_")]:
    setattr(Tracker, _event, partialmethod(Tracker._tell, _event))


def _callback(name: str) -> Any:
    if name not in (*get_available_reporting_integrations(), "flyte"):  # flyte is missing from that list
        cure = _CURES.get(name, f"pip install {name}")
        raise ConfigError(f"the tracker {name!r} cannot be used here: {cure}, or leave it out of report_to")
    try:
        return INTEGRATION_TO_CALLBACK[name]()
    except Exception as error:  # each tracker has errors of its own
        raise ConfigError(
            f"the tracker {name!r} cannot be used here ({_reason(error)}): fix that, or leave it out of report_to"
        ) from error


def _reason(error: Exception) -> str:
    return " ".join(str(error).split()) or type(error).__name__

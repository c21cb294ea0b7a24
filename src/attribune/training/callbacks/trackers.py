"""Experiment trackers (TensorBoard, Weights & Biases, MLflow, ...) through the callbacks of transformers."""

from __future__ import annotations

import copy
import os
import warnings
from collections.abc import Sequence
from functools import partialmethod
from pathlib import Path
from typing import Any

from transformers import TrainerCallback, TrainerControl, TrainerState, TrainingArguments
from transformers.integrations import INTEGRATION_TO_CALLBACK, get_available_reporting_integrations

from attribune.errors import AttribuneWarning, ConfigError
from attribune.runs.folder import RunFolder

__all__ = ["Tracker", "check_trackers", "run_name", "trackers"]

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

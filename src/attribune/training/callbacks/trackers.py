"""Trackers of experiments (TensorBoard, Weights & Biases, MLflow, ...), by the callbacks of transformers."""

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
    """Refuse trackers that are not known, or cannot be used here, before any time is spent.

    Raises:
        ConfigError: naming the tracker and what to install or set.
    """
    for name in names:
        if name not in INTEGRATION_TO_CALLBACK:
            raise ConfigError(
                f"unknown tracker {name!r}: choose from {', '.join(sorted(INTEGRATION_TO_CALLBACK))}, or leave "
                "report_to out"
            )
        _callback(name)


def trackers(names: Sequence[str], folder: RunFolder) -> list[TrainerCallback]:
    """The callbacks that tell these trackers of a training.

    Args:
        names: as ``report_to`` of transformers takes them.
        folder: of the run; TensorBoard's files lie in it unless ``TENSORBOARD_LOGGING_DIR`` says otherwise.
    """
    found = []
    for name in names:
        callback = _callback(name)
        if name == "tensorboard" and "TENSORBOARD_LOGGING_DIR" not in os.environ:
            callback.logging_dir = str(folder.tensorboard)
        found.append(Tracker(name, callback, folder.path))
    return found


def run_name(run: Path) -> str:
    """By what trackers know a run: the name of its folder, after that of the run with which it is compared."""
    return "/".join(run.parts[-3:]) if run.parent.name == "compare" else run.name


class Tracker(TrainerCallback):
    """Passes all that happens on to a tracker.

    One that fails at the beginning stops the training, when little is lost. One that fails later, as a network may, is
    told nothing more, with a warning: the training is worth more.

    Args:
        callback: that of transformers.
        run: the folder in which it may leave files.
    """

    def __init__(self, name: str, callback: Any, run: Path) -> None:
        self.name, self.callback, self.run, self.failed = name, callback, run, False

    def _tell(
        self, event: str, args: TrainingArguments, state: TrainerState, control: TrainerControl, **details: Any
    ) -> None:
        if self.failed:
            return
        if event == "on_init_end":  # when codecarbon chooses its folder; that of the checkpoints is removed at the end
            args = copy.copy(args)
            args.output_dir = str(self.run)
        try:
            getattr(self.callback, event)(args, state, control, **details)
        except Exception as error:  # each tracker has errors of its own
            if event in ("on_init_end", "on_train_begin"):
                raise ConfigError(
                    f"the tracker {self.name!r} cannot begin ({_reason(error)}): see to its settings or the network, "
                    "or leave it out of report_to"
                ) from error
            self.failed = True
            warnings.warn(
                f"the tracker {self.name!r} failed at step {state.global_step} ({_reason(error)}): it is told nothing "
                "more, and the training goes on; log.jsonl in the run's folder holds all losses and metrics",
                AttribuneWarning,
                stacklevel=2,
            )


for _event in [name for name in dir(TrainerCallback) if name.startswith("on_")]:
    setattr(Tracker, _event, partialmethod(Tracker._tell, _event))


def _callback(name: str) -> Any:
    if name not in (*get_available_reporting_integrations(), "flyte"):  # flyte can be had, and is not in that list
        cure = _CURES.get(name, f"pip install {name}")
        raise ConfigError(f"the tracker {name!r} cannot be used here: {cure}, or leave it out of report_to")
    try:
        return INTEGRATION_TO_CALLBACK[name]()
    except Exception as error:  # a package that is there may fail in a way of its own
        raise ConfigError(
            f"the tracker {name!r} cannot be used here ({_reason(error)}): mend that, or leave it out of report_to"
        ) from error


def _reason(error: Exception) -> str:
    return " ".join(str(error).split()) or type(error).__name__

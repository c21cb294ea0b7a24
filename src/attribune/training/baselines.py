"""Training of the methods without a backbone."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from attribune.core.progress import Reporter
from attribune.models.baselines import AttributesOnly, AutoML, BaselineConfig, Linear
from attribune.runs.folder import RunFolder
from attribune.training.automl import train_automl
from attribune.training.plan import TrainingPlan
from attribune.training.preparation import PreparedData
from attribune.training.scoring import fit_linear

__all__ = ["train_baseline"]


def train_baseline(
    config: BaselineConfig, plan: TrainingPlan, folder: RunFolder, data: PreparedData, reporter: Reporter
) -> None:
    """Train a baseline, or go on with an interrupted training; saves the model and the record of the training."""
    folder.write_outcome(_TRAINERS[type(config)](config, plan, folder, data, reporter))


def _train_linear(
    config: BaselineConfig, plan: TrainingPlan, folder: RunFolder, data: PreparedData, reporter: Reporter
) -> dict[str, Any]:
    started = time.perf_counter()
    linear = fit_linear(data, plan.data.text if config.reads_text else None)
    linear.save(folder.model)
    return {"C": linear.C, "seconds": time.perf_counter() - started}


_TRAINERS: dict[type[BaselineConfig], Callable[..., dict[str, Any]]] = {
    Linear: _train_linear,
    AttributesOnly: _train_linear,
    AutoML: train_automl,
}
"""They save the model and return fields of `TrainingRecord`."""

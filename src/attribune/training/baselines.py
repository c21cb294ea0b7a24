"""Training of the methods that act in no backbone."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from attribune.core.progress import Reporter
from attribune.models.baselines import AttributesOnly, AutoML, BaselineConfig, Heads, Intercept, Linear
from attribune.runs.folder import RunFolder
from attribune.training.automl import train_automl
from attribune.training.frozen import fit_frozen
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
    linear = fit_linear(data, plan.data.text if config.reads_text else None, by=plan.training.select_by)
    replace(linear, text_input=plan.data.text).save_pretrained(folder.model)
    return {"C": linear.C, "seconds": time.perf_counter() - started}


def _train_frozen(
    config: BaselineConfig, plan: TrainingPlan, folder: RunFolder, data: PreparedData, reporter: Reporter
) -> dict[str, Any]:
    started = time.perf_counter()
    backbone, with_weights = plan.recipe.backbone.name, isinstance(config, Heads)
    by = plan.training.select_by
    model = fit_frozen(backbone, plan.data, data, reporter, with_weights=with_weights, by=by)
    replace(model, text_input=plan.data.text).save_pretrained(folder.model)
    return {"C": model.C, "seconds": time.perf_counter() - started}


_TRAINERS: dict[type[BaselineConfig], Callable[..., dict[str, Any]]] = {
    Linear: _train_linear,
    AttributesOnly: _train_linear,
    Intercept: _train_frozen,
    Heads: _train_frozen,
    AutoML: train_automl,
}
"""They save the model and return fields of `TrainingRecord`."""

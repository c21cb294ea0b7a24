"""The training of one model with a method: built, fitted, and saved."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import asdict
from functools import partial
from typing import Any

import numpy as np
import torch
import transformers

from attribune.core.precision import computing_in
from attribune.core.progress import Reporter
from attribune.data.rows import EncodedRows
from attribune.errors import ConfigError
from attribune.models.base import ConditionedModel
from attribune.models.token_scores import score_tokens
from attribune.runs.folder import RunFolder
from attribune.runs.recipe_parts import TrainingRecipe
from attribune.tasks import TokenTask
from attribune.training.distributed import is_main
from attribune.training.fitting import fit
from attribune.training.histories import fit_histories
from attribune.training.model_building import build_model
from attribune.training.new_values import check_set_encoders, prepare_new_values
from attribune.training.own_values import train_own_values
from attribune.training.plan import ModelPlan, TrainingPlan
from attribune.training.preparation import (
    PreparedData,
    encode_rows_of_split,
    encode_split,
)

__all__ = ["train_neural"]


def train_neural(
    training: TrainingPlan,
    plan: ModelPlan,
    folder: RunFolder,
    data: PreparedData,
    reporter: Reporter,
    *,
    profile: bool,
    before_training: Callable[[ConditionedModel], None] | None = None,
) -> None:
    """Build the model of a training, encode the rows, train, and save the model.

    Args:
        before_training: what is done before, with the model as it was built.
    """
    source, settings = training.data, training.training
    transformers.set_seed(settings.seed)
    model = build_model(plan, source, data, reporter)
    model.config.precision = settings.precision
    fit_histories(model, source, data, reporter)
    _check_checkpointing(model, settings)
    check_set_encoders(model, settings)
    note_count = len(data.notes)
    train = encode_split("train", data, source, model)
    validation = (
        encode_rows_of_split(data.splits["validation"], source, model)
        if source.reads_tokens
        else encode_split("validation", data, source, model)
    )
    for note in data.notes[note_count:]:
        reporter.note(note)
    if before_training is not None:
        before_training(model)
    outcome = fit(model, train, validation, settings, folder, reporter, profile=profile)
    outcome["seconds"] += train_own_values(model, train, settings, reporter, run=_precision(model, settings))
    if isinstance(model.task, TokenTask) and isinstance(validation, EncodedRows) and model.task.is_tuned:
        _tune_task(model, model.task, validation, settings)
    if is_main():
        if not training.is_candidate:
            outcome["seconds"] += prepare_new_values(
                model, data, source, settings, reporter, run=_precision(model, settings)
            )
        model.save_pretrained(folder.model)
        folder.write_outcome({**outcome, "parameters": asdict(model.sizes())})


def _precision(model: ConditionedModel, settings: TrainingRecipe) -> Callable[[], AbstractContextManager[Any]]:
    """Return what makes the context of a forward pass in the precision of the training."""
    return partial(computing_in, settings.precision, model.device.type)


def _tune_task(model: ConditionedModel, task: TokenTask, validation: EncodedRows, settings: TrainingRecipe) -> None:
    """Fit what a task that scores tokens learns of the validation rows, such as a threshold."""
    precision = _precision(model, settings)

    @contextmanager
    def run() -> Iterator[None]:
        with torch.inference_mode(), precision():
            yield

    model.eval()
    scores, _ = score_tokens(model, validation, task, size=settings.batch_size, run=run)
    model.task = task.tuned(scores, np.asarray(validation.labels))
    model.config.task = model.task.to_dict()


def _check_checkpointing(model: ConditionedModel, settings: TrainingRecipe) -> None:
    if settings.gradient_checkpointing and not model.supports_gradient_checkpointing:
        raise ConfigError(
            f"training.gradient_checkpointing is on, but backbones of type {model.config.text_config.model_type!r} do "
            "not support it: turn it off, or choose another backbone"
        )

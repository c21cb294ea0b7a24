"""One model trained on encoded rows: the Trainer, its callbacks, a resumed run, and what comes out."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from datasets import Dataset
from transformers import TrainerState

from attribune.core.device import default_device
from attribune.core.door import as_argument
from attribune.core.process import keep_freed_memory
from attribune.core.progress import Reporter
from attribune.data.batching import LengthGroupedBatches, padding_share
from attribune.data.rows import EncodedRows
from attribune.errors import DataError
from attribune.metrics.definitions import MetricInfo
from attribune.models.base import ConditionedModel
from attribune.runs.folder import RunFolder
from attribune.runs.recipe_parts import TrainingRecipe
from attribune.training.callbacks.early_stopping import EarlyStopping
from attribune.training.callbacks.profile import ProfileSteps
from attribune.training.callbacks.progress import Progress
from attribune.training.callbacks.trackers import run_name, trackers
from attribune.training.checkpoints import last_checkpoint, read_state
from attribune.training.distributed import is_main, process_count, process_number
from attribune.training.optimizer import MaxHeadNorm, update_rows_alone
from attribune.training.selection import selection_metric
from attribune.training.trainer import AttributeTrainer, training_arguments

if TYPE_CHECKING:
    from attribune.training.sharding import ShardedTables

__all__ = ["fit"]

_MUCH_PADDING = 1 / 3


def fit(
    model: ConditionedModel,
    train: Dataset,
    validation: Dataset | EncodedRows,
    settings: TrainingRecipe,
    folder: RunFolder,
    reporter: Reporter,
    *,
    profile: bool,
) -> dict[str, Any]:
    """Train until the last epoch or until patience runs out, and load the best weights into the model.

    An interrupted training continues from its last complete checkpoint. Of several processes only the first one has the
    best weights at the end.

    Returns:
        Fields of `TrainingRecord`.
    """
    keep_freed_memory()
    padding = _padding(train, settings, reporter)
    model.to(default_device())  # before the tables are sharded, whose processes exchange rows from where they are
    sharded = _prepare_tables(model, settings, reporter)
    metric = selection_metric(model.task, settings)
    patience = EarlyStopping(
        f"eval_{metric.name}", greater_is_better=metric.higher_is_better, patience=settings.patience
    )
    progress = Progress(reporter, folder.log)
    trainer = AttributeTrainer(
        model,
        settings,
        training_arguments(settings, checkpoints=folder.checkpoints, run_name=run_name(folder.path), metric=metric),
        train=train,
        validation=validation,
        callbacks=[
            patience,
            progress,
            *trackers(settings.report_to, folder),
            *([] if settings.max_head_norm is None else [MaxHeadNorm(model, settings.max_head_norm)]),
            *([ProfileSteps(model, folder.profile)] if profile and is_main() else []),
        ],
        sharded=sharded,
    )
    if not is_main():  # every process needs its own dropout
        torch.manual_seed(settings.seed + process_number())
    checkpoint = last_checkpoint(folder.checkpoints)
    state = None if checkpoint is None else read_state(checkpoint)
    if state is not None:
        progress.write_log(state)
    if state is not None and (patience.is_exhausted(state) or state.global_step >= state.max_steps):
        trainer.restore_best_model(state, folder.checkpoints)
    else:
        with reporter.training():
            trainer.train(resume_from_checkpoint=None if checkpoint is None else str(checkpoint))
        _check_losses(trainer.state)
    if sharded is not None:
        sharded.gather(model)
    return {**_outcome(trainer.state, metric=metric, padding=padding), "selected_by": metric.name}


def _prepare_tables(model: ConditionedModel, settings: TrainingRecipe, reporter: Reporter) -> ShardedTables | None:
    """Choose which rows of the attribute tables a step updates, and shard the tables over the processes."""
    choice = settings.table_updates if settings.optimizer == "adamw" else "all"
    if not update_rows_alone(model, choice):
        return None
    reporter.note("attribute tables: only the rows of the values in a batch are updated (RowAdamW)")
    if process_count() == 1:
        return None
    from attribune.training.sharding import ShardedTables

    reporter.note(f"attribute tables: each of the {process_count()} processes has a share of the rows")
    return ShardedTables(model)


def _padding(train: Dataset, settings: TrainingRecipe, reporter: Reporter) -> float:
    """Return the share of padding in the batches, with a note if it is high."""
    lengths, size = np.asarray(train["length"]), settings.batch_size
    order = LengthGroupedBatches(lengths, batch_size=size, seed=settings.seed).order()
    share = padding_share(lengths[order], batch_size=size)
    if share > _MUCH_PADDING:
        reporter.note(
            f"train: {share:.0%} of the tokens in the batches are padding, since few texts are as long as the longest "
            f"of their batch: lower max_length (the longest text has {lengths.max():,} ids, the middle one "
            f"{int(np.median(lengths)):,}) or batch_size"
        )
    return share


def _check_losses(state: TrainerState) -> None:
    if not all(math.isfinite(entry["loss"]) for entry in state.log_history if "loss" in entry):
        raise DataError(
            f"the loss became infinite or not a number: lower {as_argument('training.learning_rate')}, or use "
            f"{as_argument('training.precision', 'float32')}"
        )


def _outcome(state: TrainerState, *, metric: MetricInfo, padding: float) -> dict[str, Any]:
    return {
        "steps": state.global_step,
        "epochs": float(state.epoch or 0),
        "best_step": int(state.best_global_step or state.global_step),
        "best_value": float(state.best_metric if state.best_metric is not None else math.nan),
        "seconds": float(sum(entry.get("train_seconds", 0) for entry in state.log_history)),
        "checks": sum(f"eval_{metric.name}" in entry for entry in state.log_history),
        "stopped_early": state.global_step < state.max_steps,
        "padding_share": padding,
    }

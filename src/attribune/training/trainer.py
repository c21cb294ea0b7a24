"""From a prepared data set and a recipe to trained weights, with the stock Trainer; interrupted runs go on."""

from __future__ import annotations

import math
import zipfile
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
import transformers
from datasets import Dataset
from safetensors import SafetensorError, safe_open
from transformers import EvalPrediction, TrainerCallback, TrainerState, TrainingArguments

from attribune.conditioned import ConditionedModel
from attribune.data.batching import LengthGroupedBatches, padding_share
from attribune.errors import ConfigError, DataError
from attribune.process_memory import keep_freed_memory
from attribune.recipe import Recipe
from attribune.training.folder import RunFolder
from attribune.training.loop import Report, StopWhenStale, TrainingLoop
from attribune.training.optimizer import build_optimizer, update_rows_alone
from attribune.training.processes import PATIENCE, backend, is_main, process_count, process_number
from attribune.training.profile import ProfileSteps
from attribune.training.progress import Reporter
from attribune.training.trackers import run_name, trackers

if TYPE_CHECKING:
    from attribune.sharding import ShardedTables

__all__ = ["Outcome", "fit_model", "resolve_precision"]

_MUCH_PADDING = 1 / 3
_WEIGHTS, _STATES = "model.safetensors", ("optimizer.pt", "scheduler.pt")
_RANDOM = "rng_state*.pth"  # one of each process


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """How a training went.

    Args:
        steps: optimiser steps made.
        epochs: passes over the training rows made.
        best_step: the step whose model was kept.
        best_value: its main metric on the validation rows.
        seconds: time spent in training, interruptions and their repeated steps left out.
        stopped_early: whether the patience ran out before the last epoch.
        padding_share: of the tokens of the training batches, 0 to 1.
    """

    steps: int
    epochs: float
    best_step: int
    best_value: float
    seconds: float
    stopped_early: bool
    padding_share: float

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return asdict(self)


def resolve_precision(precision: str) -> str:
    """``auto`` as this machine understands it: bf16 where the processor computes in it, else float32."""
    if precision != "auto":
        return precision
    if torch.cuda.is_available():
        return "bf16" if torch.cuda.is_bf16_supported(including_emulation=False) else "float32"
    return "bf16" if torch.cpu._is_avx512_bf16_supported() else "float32"


def fit_model(
    model: ConditionedModel,
    *,
    train: Dataset,
    validation: Dataset,
    recipe: Recipe,
    folder: RunFolder,
    reporter: Reporter,
    resume: bool,
    profile: bool = False,
) -> Outcome:
    """Train until the last epoch or until patience runs out, and leave the best weights in the model.

    Args:
        model: with a tokenizer.
        train: encoded rows with a column ``length``.
        validation: encoded rows, on which the best model is chosen.
        recipe: optimisation and task.
        folder: of the run, for its checkpoints and the log.
        reporter: is told of every step.
        resume: go on from the last whole checkpoint in the folder, if there is one.
        profile: write a trace of some steps and a summary of where their time went.

    Several processes make steps together; the first one then has the best weights.
    """
    assert model.tokenizer is not None
    keep_freed_memory()
    _check_checkpointing(model, recipe)
    padding = _padding(train, recipe, reporter)
    sharded = None
    if update_rows_alone(model, recipe.training.table_updates):
        reporter.note("attribute tables: of each batch, the rows of its values alone are updated (RowAdamW)")
        sharded = _share_tables(model, reporter)
    last = last_checkpoint(folder.checkpoints) if resume else None
    metric = f"eval_{model.task.main_metric}"
    stop = StopWhenStale(metric, higher_is_better=model.task.higher_is_better, patience=recipe.training.patience)
    callbacks: list[TrainerCallback] = [
        stop,
        Report(reporter, folder.log),
        *trackers(recipe.training.report_to, folder),
        *([ProfileSteps(model, folder.profile)] if profile and is_main() else []),
    ]
    trainer = _loop(model, train, validation, recipe=recipe, folder=folder, callbacks=callbacks, sharded=sharded)
    if not is_main():  # with other dropout than the rows of the first process have
        torch.manual_seed(recipe.training.seed + process_number())
    before = _read_state(last) if last is not None else None
    if before is not None and (stop.is_stale(before) or before.global_step >= before.max_steps):
        # The folder may have been moved since the path was written.
        before.best_model_checkpoint = str(folder.checkpoints / f"checkpoint-{before.best_global_step}")
        trainer.state = before
        trainer._load_best_model()
    else:
        _run(trainer, reporter, resume_from=last)
    if sharded is not None:
        sharded.put_together(model)
    return _outcome(trainer.state, padding=padding)


def _loop(
    model: ConditionedModel,
    train: Dataset,
    validation: Dataset,
    *,
    recipe: Recipe,
    folder: RunFolder,
    callbacks: Sequence[TrainerCallback],
    sharded: ShardedTables | None,
) -> TrainingLoop:
    trainer = TrainingLoop(
        model=model,
        args=_arguments(model, recipe, folder),
        train_dataset=train,
        eval_dataset=_sorted_by_length(validation),
        data_collator=model.collator(),
        compute_metrics=_metrics_of(model),
        preprocess_logits_for_metrics=model.row_scores,
        callbacks=list(callbacks),
        optimizers=(_optimizer(model, recipe), None),
        batch_size=recipe.training.batch_size,
        sharded=sharded,
    )
    trainer.remove_callback(transformers.PrinterCallback)
    trainer.remove_callback(transformers.trainer_callback.ProgressCallback)
    return trainer


def _check_checkpointing(model: ConditionedModel, recipe: Recipe) -> None:
    if recipe.training.gradient_checkpointing and not model.supports_gradient_checkpointing:
        raise ConfigError(
            f"training.gradient_checkpointing is on, but backbones of type {model.config.text_config.model_type!r} do "
            "not support it: turn it off, or choose another backbone"
        )


def _outcome(state: TrainerState, *, padding: float) -> Outcome:
    return Outcome(
        steps=state.global_step,
        epochs=float(state.epoch or 0),
        best_step=int(state.best_global_step or state.global_step),
        best_value=float(state.best_metric if state.best_metric is not None else math.nan),
        seconds=_seconds(state),
        stopped_early=state.global_step < state.max_steps,
        padding_share=padding,
    )


def _share_tables(model: ConditionedModel, reporter: Reporter) -> ShardedTables | None:
    """Deal the tables out where there are several processes."""
    if process_count() == 1:
        return None
    from attribune.sharding import ShardedTables

    reporter.note(f"attribute tables: each of the {process_count()} processes has a share of the rows")
    return ShardedTables(model)


def _padding(train: Dataset, recipe: Recipe, reporter: Reporter) -> float:
    """The share of padding in the batches, which is said where it is much."""
    lengths, size = np.asarray(train["length"]), recipe.training.batch_size
    order = LengthGroupedBatches(lengths, batch_size=size, seed=recipe.training.seed).order()
    share = padding_share(lengths[order], batch_size=size)
    if share > _MUCH_PADDING:
        reporter.note(
            f"train: {share:.0%} of the tokens in the batches are padding, since few texts are as long as the longest "
            f"of their batch: lower max_length (the longest text has {lengths.max():,} ids, the middle one "
            f"{int(np.median(lengths)):,}) or batch_size"
        )
    return share


def last_checkpoint(folder: Path) -> Path | None:
    """The newest checkpoint that was written to its end; one that an interruption cut short does not count."""
    found = sorted(folder.glob("checkpoint-*"), key=lambda path: int(path.name.rpartition("-")[2]), reverse=True)
    return next((path for path in found if _is_whole(path)), None)


def _is_whole(checkpoint: Path) -> bool:
    # trainer_state.json is written last; the others are looked at as well, for a copy that was cut short.
    try:
        with safe_open(checkpoint / _WEIGHTS, framework="pt"):
            pass
    except (OSError, SafetensorError):
        return False
    random = list(checkpoint.glob(_RANDOM))
    states = [*(checkpoint / name for name in _STATES), *random]
    return bool(random) and all(map(zipfile.is_zipfile, states)) and _read_state(checkpoint) is not None


def _read_state(checkpoint: Path) -> TrainerState | None:
    try:
        return TrainerState.load_from_json(str(checkpoint / "trainer_state.json"))
    except (OSError, ValueError, TypeError):
        return None


def _run(trainer: TrainingLoop, reporter: Reporter, *, resume_from: Path | None) -> None:
    with reporter.training():
        trainer.train(resume_from_checkpoint=str(resume_from) if resume_from is not None else None)
    losses = [entry["loss"] for entry in trainer.state.log_history if "loss" in entry]
    if any(not math.isfinite(loss) for loss in losses):
        raise DataError(
            "the loss became infinite or not a number: lower --learning-rate, or use training.precision=float32"
        )


def _optimizer(model: ConditionedModel, recipe: Recipe) -> torch.optim.Optimizer:
    model.to("cuda" if torch.cuda.is_available() else "cpu")
    return build_optimizer(
        model,
        learning_rate=recipe.training.learning_rate,
        backbone_learning_rate=recipe.backbone_learning_rate,
        weight_decay=recipe.training.weight_decay,
    )


def _arguments(model: ConditionedModel, recipe: Recipe, folder: RunFolder) -> TrainingArguments:
    settings = recipe.training
    by_epoch = settings.evaluate_every == "epoch"
    every: dict[str, Any] = (
        {} if by_epoch else {"eval_steps": settings.evaluate_every, "save_steps": settings.evaluate_every}
    )
    on_cpu = not torch.cuda.is_available()
    arguments = TrainingArguments(
        output_dir=str(folder.checkpoints),
        run_name=run_name(folder.path),
        num_train_epochs=settings.epochs,
        max_steps=settings.steps or -1,
        per_device_train_batch_size=settings.batch_size,  # recorded alone: the loader shares batches out
        per_device_eval_batch_size=-(-settings.batch_size * 2 // process_count()),
        gradient_accumulation_steps=settings.gradient_accumulation,
        activation_checkpointing=settings.gradient_checkpointing,
        learning_rate=settings.learning_rate,
        warmup_steps=settings.warmup,
        lr_scheduler_type="linear",
        max_grad_norm=settings.max_grad_norm,
        bf16=settings.precision == "bf16",
        eval_strategy="epoch" if by_epoch else "steps",
        save_strategy="epoch" if by_epoch else "steps",
        **every,
        save_total_limit=1,
        load_best_model_at_end=True,
        metric_for_best_model=model.task.main_metric,
        greater_is_better=model.task.higher_is_better,
        logging_steps=10,
        logging_nan_inf_filter=False,
        label_names=["labels"],
        seed=settings.seed,
        data_seed=settings.seed,
        use_cpu=on_cpu,
        ddp_backend=backend(),
        ddp_timeout=int(PATIENCE.total_seconds()),
        ddp_find_unused_parameters=False,
        ddp_broadcast_buffers=False,
        dataloader_pin_memory=not on_cpu,
        disable_tqdm=True,
        report_to="none",  # its trackers are among the callbacks
    )
    arguments._n_gpu = min(arguments.n_gpu, 1)  # several devices need a process each
    return arguments


def _metrics_of(model: ConditionedModel) -> Callable[[EvalPrediction], dict[str, float]]:
    def compute(prediction: EvalPrediction) -> dict[str, float]:
        logits = np.asarray(prediction.predictions)
        labels = np.asarray(prediction.label_ids)
        return {name: metric.value() for name, metric in model.task.metrics(logits, labels).items()}

    return compute


def _sorted_by_length(rows: Dataset) -> Dataset:
    """Rows of like length together, so that evaluation pads little; metrics do not depend on the order."""
    return rows.select(np.argsort(np.asarray(rows["length"]), kind="stable")[::-1])


def _seconds(state: TrainerState) -> float:
    return float(sum(entry["train_seconds"] for entry in state.log_history if "train_seconds" in entry))

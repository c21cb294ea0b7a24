"""The training of one network with a method: built, its rows encoded, fitted, and saved."""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import asdict
from functools import partial
from pkgutil import resolve_name
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import torch
import transformers
from datasets import Dataset
from transformers import PreTrainedModel, PreTrainedTokenizerBase, TrainerState

from attribune.backbones.loading import build_backbone, load_tokenizer
from attribune.backbones.untrained import UNTRAINED
from attribune.core.arrays import Array, IntArray
from attribune.core.device import computing_in, default_device
from attribune.core.door import as_argument
from attribune.core.process import keep_freed_memory
from attribune.core.processes import is_main, process_count, process_number
from attribune.core.progress import Reporter
from attribune.data.batching import LengthGroupedBatches, padding_share
from attribune.data.memory import memory_of
from attribune.data.readers.base import EncodedRows
from attribune.errors import ConfigError, DataError
from attribune.models.auto import model_class
from attribune.models.base import ConditionedModel
from attribune.models.config import architecture_of
from attribune.models.folder import SCHEMA, ModelFolder
from attribune.models.linear import LinearModel
from attribune.models.transfer import AttributeSource
from attribune.runs.folder import RunFolder
from attribune.runs.learner import MethodLearner
from attribune.runs.recipe import TrainingRecipe
from attribune.schema import Schema
from attribune.tasks.base import LAST
from attribune.tasks.capabilities import VALUE_PRIORS, can
from attribune.training.blending import UnreadRows, fit_on_unread, models_beside, reads_unread_rows
from attribune.training.callbacks import EarlyStopping, Progress, run_name, trackers
from attribune.training.distributed import last_checkpoint, read_state, refuse_separate_folders
from attribune.training.optimizer import MaxHeadNorm, update_rows_alone
from attribune.training.plan import DataPlan, TrainingPlan
from attribune.training.preparation import PreparedData, encode_labelled, encode_split, encode_validation
from attribune.training.scoring import selection_metric
from attribune.training.trainer import AttributeTrainer, kept_step, training_arguments
from attribune.values.posterior import learn_value_priors

if TYPE_CHECKING:
    from attribune.training.sharding import ShardedTables

FitBaselines: TypeAlias = Callable[[ConditionedModel], Mapping[str, LinearModel]]
"""Fits what is compared with a model that reads texts as this one does; returns the linear models by name."""


def fill_memory(model: ConditionedModel, source: DataPlan, data: PreparedData, reporter: Reporter) -> None:
    """Give a model the training rows that it keeps, behind those of the run that it continues; none for most methods.

    Raises:
        ConfigError: for a model that cannot find rows.
        DataError: for a cell that cannot be read.
    """
    if (kind := memory_of(model.method_config)) is None:
        return
    memory = kind.empty(model)
    memory.to(default_device())
    if source.continued is not None:
        folder = ModelFolder.find(source.continued).path
        stored = memory.loaded(folder, Schema.load(folder / SCHEMA))
        memory = memory if stored is None else stored.moved_to(data.schema)
    model.memory = memory.added(
        data.splits["train"].table,
        text=source.text,
        labels=source.source.label,
        missing=source.task_options["missing"],
    )
    reporter.note(model.memory.note())


_log = logging.getLogger(__name__)
_MUCH_PADDING = 1 / 3
_VALIDATION_ROWS = 10_000
_MANY_ROWS = 500  # of which the prior of new values is learned in some seconds


def train_neural(
    training: TrainingPlan,
    plan: MethodLearner,
    folder: RunFolder,
    data: PreparedData,
    reporter: Reporter,
    fit_baselines: FitBaselines | None = None,
) -> None:
    """Build the model of a training, encode the rows, train, and save the model.

    Args:
        fit_baselines: called before the training, with the model as it was built.
    """
    source, settings = training.data, training.training
    transformers.set_seed(settings.seed)
    model = build_model(plan, source, data, reporter)
    model.config.precision = settings.precision
    fill_memory(model, source, data, reporter)
    if settings.gradient_checkpointing and not model.supports_gradient_checkpointing:
        raise ConfigError(
            f"training.gradient_checkpointing is on, but backbones of type {model.config.text_config.model_type!r} do "
            "not support it: turn it off, or choose another backbone"
        )
    note_count = len(data.notes)
    train = encode_split("train", data, source, model)
    validation = encode_validation(data, source, model)
    for note in data.notes[note_count:]:
        reporter.note(note.text)
    linears = {} if fit_baselines is None else fit_baselines(model)
    outcome = fit(model, train, validation, settings, folder, reporter)
    if plan.options.further_training:
        train_further = resolve_name(plan.options.further_training)
        outcome["seconds"] += train_further(model, train, settings, reporter, run=_precision(model, settings))
    if model.task.is_tuned and isinstance(validation, EncodedRows):
        model.task = model.task.tuned(_scores(model, validation, settings), np.asarray(validation.labels))
        model.config.task = model.task.to_dict()
    if is_main():
        found = _fit_on_validation(model, data, training, linears, reporter)
        if not training.is_candidate:
            _learn_value_priors(model, data, source, settings, reporter)
        model.save_pretrained(folder.model)
        found["parameters"] = asdict(model.sizes())
        folder.write_outcome({**outcome, **found})


def _precision(model: ConditionedModel, settings: TrainingRecipe) -> Callable[[], AbstractContextManager[Any]]:
    """Return what makes the context of a forward pass in the precision of the training."""
    return partial(computing_in, settings.precision, model.device.type)


def _learn_value_priors(
    model: ConditionedModel, data: PreparedData, source: DataPlan, settings: TrainingRecipe, reporter: Reporter
) -> None:
    """Learn from validation rows how far new values are from the unknown one."""
    if not (can(model.task, VALUE_PRIORS) and model.values.owners()):
        return
    started, split = time.perf_counter(), data.splits["validation"]
    ids = model.schema.encode(split.table)[0]
    if len(ids) > _MANY_ROWS:
        reporter.note("learning from validation rows how far the vectors of new values may be from the others")

    def rows(index: IntArray) -> EncodedRows:
        return encode_labelled(split.chosen(index), source, model)

    run, size = _precision(model, settings), min(32, settings.batch_size)
    try:
        model.config.value_priors = learn_value_priors(model, rows, ids, run=run, batch_size=size) or None
    except RuntimeError as error:  # of torch: memory, or an operation without derivatives
        reporter.note(f"the prior of new values was not learned, and will have a typical weight ({error!s:.200})")
    _log.info("priors of new values learned in %.1f s: %s", time.perf_counter() - started, model.config.value_priors)


def _fit_on_validation(
    model: ConditionedModel,
    data: PreparedData,
    training: TrainingPlan,
    linears: Mapping[str, LinearModel],
    reporter: Reporter,
) -> dict[str, Any]:
    """Fit temperature and blend on validation rows, of which some thousands are enough.

    Returns:
        What the record of the training says of it.
    """
    beside, rows = models_beside(model, data, training, linears), None
    if reads_unread_rows(training, model.task):
        split = data.splits["validation"].at_most(_VALIDATION_ROWS)
        scores = _scores(model, encode_labelled(split, training.data, model), training.training)
        rows = UnreadRows.of(split, training.data, model, scores, beside)
    return fit_on_unread(model, data, training, rows, beside=beside, reporter=reporter)


def _scores(model: ConditionedModel, rows: EncodedRows, settings: TrainingRecipe) -> Array:
    model.eval()
    return model.evaluate_rows(rows, size=settings.batch_size, run=_precision(model, settings))[0]


def build_model(plan: MethodLearner, source: DataPlan, data: PreparedData, reporter: Reporter) -> ConditionedModel:
    """Build the untrained model, with parameters transferred from another run."""
    backbone = plan.backbone
    loaded: str | PreTrainedModel = backbone.name
    tokenizer: PreTrainedTokenizerBase | None
    if backbone.is_pretrained:
        tokenizer = load_tokenizer(backbone.name, revision=backbone.revision)
    elif source.continued is not None:  # its weights belong to the ids of its tokenizer
        folder = ModelFolder.find(source.continued)
        loaded, tokenizer = build_backbone(folder.read_config().text_config), folder.read_tokenizer()
    else:
        build = resolve_name(UNTRAINED[backbone.name].builder)
        loaded, tokenizer = build(backbone, plan.options, source, data, reporter)
    dropout, usual_dropout = backbone.attention_dropout, "off" if plan.tuning == "frozen" else None
    options: dict[str, Any] = {
        "task": data.task,
        "method": plan.options,
        "tuning": plan.tuning,
        "attention_dropout": usual_dropout if dropout == "auto" else dropout,
        "revision": backbone.revision,
        "tokenizer": tokenizer,
        "text_input": source.text,
    }
    kind = model_class(architecture_of(source.task))
    options |= {name: getattr(backbone, name) for name in kind.head_options}
    model: ConditionedModel = kind.build(loaded, data.schema, **options)
    if (transfer := source.transfer) is not None:
        transferred = AttributeSource.load(transfer.run)
        transferred.load_into(model, frozen=transfer.frozen, full_model=transfer.full_model)
    return model


def fit(
    model: ConditionedModel,
    train: Dataset,
    validation: Dataset | EncodedRows,
    settings: TrainingRecipe,
    folder: RunFolder,
    reporter: Reporter,
) -> dict[str, Any]:
    """Train until the last epoch or until patience runs out; the model has the best weights then, or the last ones.

    An interrupted training continues from its last complete checkpoint. Of several processes only the first one has the
    weights at the end.

    Returns:
        Fields of `TrainingRecord`.
    """
    keep_freed_memory()
    padding = _padding(train, settings, reporter)
    model.to(default_device())  # before the tables are sharded, whose processes exchange rows from where they are
    sharded = _prepare_tables(model, settings, reporter)
    metric = selection_metric(model.task, settings)
    stopping = None if metric is None else EarlyStopping(metric, patience=settings.patience)
    progress = Progress(reporter, folder.log, may_stop_early=stopping is not None)
    arguments = training_arguments(
        settings, rows=len(train), checkpoints=folder.checkpoints, run_name=run_name(folder.path), metric=metric
    )
    trainer = AttributeTrainer(
        model,
        settings,
        arguments,
        train=train,
        validation=validation,
        callbacks=[
            *([] if stopping is None else [stopping]),
            progress,
            *trackers(settings.report_to, folder),
            *([] if settings.max_head_norm is None else [MaxHeadNorm(model, settings.max_head_norm)]),
        ],
        sharded=sharded,
    )
    if not is_main():  # every process needs its own dropout
        torch.manual_seed(settings.seed + process_number())
    checkpoint = last_checkpoint(folder.checkpoints)
    refuse_separate_folders(checkpoint)
    state = None if checkpoint is None else read_state(checkpoint)
    if state is not None:
        progress.write_log(state)
    has_stopped = state is not None and stopping is not None and stopping.is_exhausted(state)
    if state is not None and (has_stopped or state.global_step >= state.max_steps):
        trainer.restore_model(state, folder.checkpoints)
    else:
        with reporter.training():
            trainer.train(resume_from_checkpoint=None if checkpoint is None else str(checkpoint))
        _check_losses(trainer.state)
    if sharded is not None:
        sharded.gather(model)
    state = trainer.state
    return {
        "steps": state.global_step,
        "epochs": float(state.epoch or 0),
        "best_step": kept_step(state),
        "best_value": None if state.best_metric is None else float(state.best_metric),
        "seconds": float(sum(entry.get("train_seconds", 0) for entry in state.log_history)),
        "checks": sum("eval_loss" in entry for entry in state.log_history),
        "stopped_early": state.global_step < state.max_steps,
        "padding_share": padding,
        "selected_by": LAST if metric is None else metric.name,
    }


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

"""The Trainer of transformers with the batches, gradients and checkpoints of this package."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
import transformers
from datasets import Dataset
from torch import nn
from torch.nn.functional import scaled_dot_product_attention
from torch.overrides import TorchFunctionMode
from torch.utils.checkpoint import checkpoint
from torch.utils.data import DataLoader
from transformers import EvalPrediction, TrainerCallback, TrainerControl, TrainerState, TrainingArguments
from transformers.trainer_utils import EvalLoopOutput

from attribune.core.door import as_argument
from attribune.core.processes import process_count, process_number
from attribune.data.batching import LengthGroupedBatches, SharedBatches
from attribune.data.readers.base import EncodedRows
from attribune.errors import ModelFolderError
from attribune.metrics.metric import MetricInfo
from attribune.models.base import ConditionedModel
from attribune.runs.recipe import TrainingRecipe
from attribune.training.distributed import PATIENCE, all_rows, backend
from attribune.training.optimizer import build_optimizer, clip_gradients

if TYPE_CHECKING:
    from attribune.training.sharding import ShardedTables


class RecomputedAttention(TorchFunctionMode):
    """Forward passes in this context keep only what attention reads, if it has dropout and runs on the CPU.

    PyTorch has no fused attention with dropout for the CPU: it keeps the probabilities, the mask and the product, three
    tensors (B, heads, T, T) a layer. Computing them again draws the same mask, so that gradients do not change by a
    bit. Other devices have fused kernels, and are left alone.
    """

    def __torch_function__(
        self,
        function: Callable[..., Any],
        types: Sequence[type],
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        """Call `function`, and attention with dropout so that it is computed again."""
        options = dict(kwargs or {})
        if function is not scaled_dot_product_attention or not options.get("dropout_p") or args[0].device.type != "cpu":
            return function(*args, **options)
        return checkpoint(function, *args, use_reentrant=False, **options)


class AttributeTrainer(transformers.Trainer):
    """The stock Trainer with batches of texts of similar length, also in a resumed run and with several processes.

    Args:
        model: with a tokenizer, on the device that trains it.
        args: as `training_arguments` makes them.
        train: encoded rows with a column ``length``, as `validation`; for a task that scores tokens windows, and
            `validation` whole rows with labels.
        callbacks: replace the stock callbacks that print.
        sharded: the tables whose rows are sharded over the processes.
    """

    def __init__(
        self,
        model: ConditionedModel,
        settings: TrainingRecipe,
        args: TrainingArguments,
        *,
        train: Dataset,
        validation: Dataset | EncodedRows,
        callbacks: Sequence[TrainerCallback],
        sharded: ShardedTables | None,
    ) -> None:
        optimizer = build_optimizer(model, settings)
        super().__init__(
            model=model,
            args=args,
            train_dataset=train,
            eval_dataset=validation if isinstance(validation, EncodedRows) else _sorted(validation, model),
            data_collator=model.collator(),
            compute_metrics=_metrics_of(model),
            preprocess_logits_for_metrics=model.row_scores,
            callbacks=[_EpochOrder(), *callbacks],
            optimizers=(optimizer, None),
        )
        self.remove_callback(transformers.PrinterCallback)
        self.remove_callback(transformers.trainer_callback.ProgressCallback)
        order = LengthGroupedBatches(np.asarray(train["length"]), batch_size=settings.batch_size, seed=args.seed)
        self._batches = SharedBatches(order, process=process_number(), processes=process_count())
        self._sharded = sharded
        self._mean_count = torch.ones(())  # over the batches of a step, of what their losses are divided by

    def get_train_dataloader(self) -> DataLoader[Any]:
        """Return the loader of this process's rows of every batch."""
        rows = self._remove_unused_columns(self.train_dataset, description="training")
        pinned = self.args.dataloader_pin_memory
        return DataLoader(rows, batch_sampler=self._batches, collate_fn=self.data_collator, pin_memory=pinned)

    def get_batch_samples(self, *args: Any, **options: Any) -> tuple[list[Any], Any]:
        """Return the batches of a step, and their number of items, which weights count as they do losses."""
        batches, items = super().get_batch_samples(*args, **options)
        if not batches or "weights" not in batches[0]:
            return batches, items
        counts = [self._count(batch["labels"], batch["weights"]) for batch in batches]
        total = self.accelerator.gather(torch.stack(counts).sum().to(self.args.device)).sum()
        self._mean_count = total / len(batches)
        return batches, None if items is None else total

    def _count(self, labels: torch.Tensor, weights: torch.Tensor) -> torch.Tensor:
        """Return what the weighted losses of rows are divided by."""
        counts: torch.Tensor = self.model.row_counts(labels)
        return (weights * counts).sum()

    def compute_loss(self, model: nn.Module, inputs: dict[str, Any], *args: Any, **options: Any) -> Any:
        """Return the loss, in training over the rows of all processes, which may differ from the mean of their losses.

        Models that accept the number of items divide by that of all processes themselves. The mean over the batches of
        a step is that of the losses of weighted rows, of which a batch has its share.
        """
        if not model.training or self.model_accepts_loss_kwargs:
            return super().compute_loss(model, inputs, *args, **options)
        rows = [inputs[name] for name in ("labels", "weights") if name in inputs]
        with nullcontext() if self.args.gradient_checkpointing else RecomputedAttention():
            if process_count() == 1:
                loss = super().compute_loss(model, inputs, *args, **options)
            else:
                read = {name: x for name, x in inputs.items() if name not in ("labels", "weights")}
                logits, *rows = all_rows(model(**read).logits.float(), *rows, limit=self._batches.most)
                loss = self.model.weighted_loss(logits, *rows)
        return loss * self._count(*rows) / self._mean_count if len(rows) == 2 else loss

    def evaluation_loop(self, dataloader: Any, description: str, *args: Any, **options: Any) -> EvalLoopOutput:
        """Compute the metrics of the validation rows; those of a task that scores tokens are merged from windows."""
        rows, model = self.eval_dataset, self.model
        if not isinstance(rows, EncodedRows):
            output = super().evaluation_loop(dataloader, description, *args, **options)
            if output.metrics and "eval_loss" in output.metrics and model.task.codec.has_row_losses:
                # The mean over all rows at once; the stock one is of the losses of batches, of which some weigh more.
                output.metrics["eval_loss"] = model.mean_loss(output.predictions, output.label_ids)
            return output
        model.eval()
        size = self.args.per_device_eval_batch_size
        scores, loss = model.evaluate_rows(rows, size=size, run=self.compute_loss_context_manager)
        metrics = {name: metric.value() for name, metric in model.task.metrics(scores, rows.labels).items()}
        metrics = {f"eval_{name}": value for name, value in {"loss": loss, **metrics}.items()}
        return EvalLoopOutput(predictions=scores, label_ids=None, metrics=metrics, num_samples=len(rows))

    def restore_model(self, state: TrainerState, checkpoints: Path) -> None:
        """Load the model that is kept of a training that had ended before it was interrupted.

        Args:
            state: of its last checkpoint.
            checkpoints: their folder, which may have been moved since.
        """
        state.best_model_checkpoint = str(checkpoints / f"checkpoint-{kept_step(state)}")
        self.state = state
        self._load_best_model()

    def _save_checkpoint(self, model: Any, trial: Any) -> None:
        try:
            with nullcontext() if self._sharded is None else self._sharded.written(self.optimizer):
                super()._save_checkpoint(model, trial)
        except (OSError, RuntimeError) as error:  # PyTorch reports a full disk as a RuntimeError
            raise ModelFolderError(
                f"a checkpoint could not be written to {self.args.output_dir}, most likely because the disk is full "
                f"({error}): free some space, then continue from the previous checkpoint with "
                f"{as_argument('resume', True)}"
            ) from error

    def _load_from_checkpoint(self, *args: Any, **options: Any) -> None:
        with self._reading():
            super()._load_from_checkpoint(*args, **options)

    def _load_best_model(self) -> None:
        with self._reading():
            super()._load_best_model()

    def _load_optimizer_and_scheduler(self, checkpoint: str | None) -> None:
        super()._load_optimizer_and_scheduler(checkpoint)
        if self._sharded is not None and checkpoint is not None:
            self._sharded.keep_own_state(self.optimizer)

    def _reading(self) -> AbstractContextManager[None]:
        return nullcontext() if self._sharded is None else self._sharded.read()

    def _clip_grad_norm(self, model: torch.nn.Module) -> torch.Tensor:
        return clip_gradients(model.parameters(), self.args.max_grad_norm, self._sharded)

    def _get_grad_norm(self, model: torch.nn.Module, grad_norm: Any = None) -> Any:
        return clip_gradients(model.parameters(), math.inf, self._sharded) if grad_norm is None else grad_norm


class _EpochOrder(TrainerCallback):
    """Set the order of the rows of each epoch, also in a resumed run, where the data loader was replaced."""

    def on_epoch_begin(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        batches = kwargs["train_dataloader"].batch_sampler
        while not isinstance(batches, SharedBatches):  # a resumed epoch starts with a sampler that skips batches
            batches = batches.batch_sampler
        batches.set_epoch(int(state.epoch or 0))


def _checkpointing_option() -> str:
    """Return the name that the installed version of transformers has for gradient checkpointing."""
    return (
        "activation_checkpointing"
        if hasattr(TrainingArguments, "activation_checkpointing")
        else "gradient_checkpointing"
    )


def kept_step(state: TrainerState) -> int:
    """Return the step whose weights are kept: the best one, or the last where none is selected."""
    return int(state.best_global_step or state.global_step)


def training_arguments(
    settings: TrainingRecipe, *, rows: int, checkpoints: Path, run_name: str, metric: MetricInfo | None
) -> TrainingArguments:
    """Return the arguments of the stock Trainer for so many rows.

    Args:
        metric: by which the best weights are kept; None keeps the last ones.
    """
    by_epoch = settings.evaluate_every == "epoch"
    strategy = "epoch" if by_epoch else "steps"
    interval = {} if by_epoch else {"eval_steps": settings.evaluate_every, "save_steps": settings.evaluate_every}
    on_cpu = not torch.cuda.is_available()
    arguments = TrainingArguments(
        output_dir=str(checkpoints),
        run_name=run_name,
        num_train_epochs=settings.epochs_of(rows),
        max_steps=settings.steps or -1,
        per_device_train_batch_size=settings.batch_size,  # only recorded: the loader distributes batches
        per_device_eval_batch_size=-(-settings.batch_size * 2 // process_count()),
        gradient_accumulation_steps=settings.gradient_accumulation,
        **{_checkpointing_option(): settings.gradient_checkpointing},
        learning_rate=settings.learning_rate,
        warmup_steps=settings.warmup,
        lr_scheduler_type="linear" if settings.schedule == "linear" else "constant_with_warmup",
        max_grad_norm=settings.max_grad_norm,
        bf16=settings.precision == "bf16",
        eval_strategy=strategy,
        save_strategy=strategy,
        **interval,
        save_total_limit=1,
        load_best_model_at_end=metric is not None,
        metric_for_best_model=None if metric is None else metric.name,
        greater_is_better=None if metric is None else metric.higher_is_better,
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
        metrics = model.task.metrics(np.asarray(prediction.predictions), np.asarray(prediction.label_ids))
        return {name: metric.value() for name, metric in metrics.items()}

    return compute


def _sorted(rows: Dataset, model: ConditionedModel) -> Dataset:
    """Sort rows for evaluation, where metrics do not depend on the order: by length, and by text where it is shared."""
    lengths = np.asarray(rows["length"])
    texts = model.reader.shared_texts(rows)
    if texts is None or model.shared_depth == 0:
        return rows.select(np.argsort(-lengths, kind="stable"))
    return rows.select(np.lexsort((texts.text_numbers(), -lengths)))

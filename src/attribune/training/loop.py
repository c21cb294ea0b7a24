"""The stock Trainer as it is used here: what it does otherwise, when it stops, and whom it tells."""

from __future__ import annotations

import json
import logging
import math
import time
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
import transformers
from datasets import Dataset
from torch import nn
from torch.utils.data import DataLoader
from transformers import TrainerCallback, TrainerControl, TrainerState, TrainingArguments

from attribune.data.batching import LengthGroupedBatches, SharedBatches
from attribune.errors import ModelFolderError
from attribune.json_file import replace_file
from attribune.training.optimizer import clip_gradients
from attribune.training.processes import all_rows, is_main, process_count, process_number
from attribune.training.progress import Reporter

if TYPE_CHECKING:
    from attribune.sharding import ShardedTables

__all__ = ["Report", "StopWhenStale", "TrainingLoop"]

_log = logging.getLogger(__name__)


class TrainingLoop(transformers.Trainer):
    """The stock Trainer with batches of texts of like length, the same ones in a resumed run and with more processes.

    Args:
        train_dataset: with a column ``length``.
        batch_size: rows of a batch, in all processes together.
        sharded: the tables of which each process has some rows.
    """

    def __init__(
        self, *, train_dataset: Dataset, batch_size: int, sharded: ShardedTables | None, **options: Any
    ) -> None:
        lengths = np.asarray(train_dataset["length"])
        super().__init__(train_dataset=train_dataset, **options)
        order = LengthGroupedBatches(lengths, batch_size=batch_size, seed=self.args.seed)
        self._batches = SharedBatches(order, process=process_number(), processes=process_count())
        self._sharded = sharded

    def get_train_dataloader(self) -> DataLoader[Any]:
        """This process's rows of every batch."""
        rows = self._remove_unused_columns(self.train_dataset, description="training")
        pinned = self.args.dataloader_pin_memory
        return DataLoader(rows, batch_sampler=self._batches, collate_fn=self.data_collator, pin_memory=pinned)

    def compute_loss(self, model: nn.Module, inputs: dict[str, Any], *args: Any, **options: Any) -> Any:
        """The loss; in training that of the rows of all processes, which the mean of their losses need not be.

        A model that divides by a number that it is given is given that of all processes.
        """
        if process_count() == 1 or not model.training or self.model_accepts_loss_kwargs:
            return super().compute_loss(model, inputs, *args, **options)
        labels = inputs.pop("labels")
        logits = model(**inputs).logits.float()
        return self.model.task.loss(*all_rows(logits, labels, most=self._batches.most))

    def _save_checkpoint(self, model: Any, trial: Any) -> None:
        try:
            with nullcontext() if self._sharded is None else self._sharded.written(self.optimizer):
                super()._save_checkpoint(model, trial)
        except (OSError, RuntimeError) as error:  # PyTorch reports a full disk as a RuntimeError
            raise ModelFolderError(
                f"a checkpoint could not be written to {self.args.output_dir}, most likely for want of room ({error}): "
                "make room; the training then goes on from the checkpoint before with --resume"
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


class StopWhenStale(TrainerCallback):
    """Early stopping that reads the history of the run, so that it needs no state of its own."""

    def __init__(self, metric: str, *, higher_is_better: bool, patience: int) -> None:
        self.metric, self.higher_is_better, self.patience = metric, higher_is_better, patience

    def is_stale(self, state: TrainerState) -> bool:
        """Whether the last `patience` checks brought nothing better than the best before them."""
        values = [entry[self.metric] for entry in state.log_history if self.metric in entry]
        if not self.higher_is_better:
            values = [-value for value in values]
        return bool(values) and len(values) - 1 - int(np.argmax(values)) >= self.patience

    def on_evaluate(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **_: Any) -> None:
        """Ask for the end when nothing gets better."""
        if self.is_stale(state):
            control.should_training_stop = True


class Report(TrainerCallback):
    """Tells the reporter what happens, and keeps the log file and the time spent."""

    def __init__(self, reporter: Reporter, log: Path) -> None:
        self.reporter, self.log = reporter, log
        self.since = time.perf_counter()

    def on_epoch_begin(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        """Set the order of the rows of this epoch, also in a resumed run, where the data loader was replaced."""
        batches = kwargs["train_dataloader"].batch_sampler
        while not isinstance(batches, SharedBatches):  # a resumed epoch begins with one that passes batches over
            batches = batches.batch_sampler
        batches.set_epoch(int(state.epoch or 0))

    def on_train_begin(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **_: Any) -> None:
        """Start the clock and the display."""
        self.since = time.perf_counter()
        self.reporter.started(done=state.global_step, total=state.max_steps)

    def on_step_end(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **_: Any) -> None:
        """Move the display on."""
        self._log_before_saving(control)
        loss = next((entry["loss"] for entry in reversed(state.log_history) if "loss" in entry), None)
        self.reporter.step(done=state.global_step, loss=loss)

    def on_epoch_end(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **_: Any) -> None:
        """See that no loss is pending when the checkpoint of the epoch is written."""
        self._log_before_saving(control)

    @staticmethod
    def _log_before_saving(control: TrainerControl) -> None:
        # Checkpoints do not hold the losses since the last line of the log: a resumed run would average over fewer.
        control.should_log |= control.should_save

    def on_evaluate(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, metrics: dict[str, float], **_: Any
    ) -> None:
        """Show the metrics, and add the time since the last check to the history, which checkpoints carry."""
        now = time.perf_counter()
        state.log_history.append({"step": state.global_step, "train_seconds": now - self.since})
        self.since = now
        values = {key.removeprefix("eval_"): value for key, value in metrics.items() if key.startswith("eval_")}
        self.reporter.checked(epoch=float(state.epoch or 0), metrics=values)

    def on_save(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **_: Any) -> None:
        """Write the log anew from the history, so that a resumed run repeats no line."""
        _log.debug("checkpoint of step %d written to %s", state.global_step, args.output_dir)
        if is_main():
            lines = "".join(json.dumps(entry) + "\n" for entry in state.log_history)
            replace_file(self.log, lines.encode())

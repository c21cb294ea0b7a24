"""The training of one network of ``automl``, with checks on the validation rows."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from attribune.data.batching import LengthGroupedBatches, length_cuts
from attribune.models.automl import NetworkSettings, WordNetwork, WordRows
from attribune.runs.recipe import TrainingRecipe
from attribune.tasks import Task
from attribune.tasks.scores import selection_score
from attribune.training.ftrl import FTRL

__all__ = ["Check", "NetworkFit"]

_CHECK = 2_000  # rows at least between two checks, however few the training rows are
_CLEAR_SCORE, _CLEAR_LOSS = 1e-3, 5e-2  # shares by which a check must be better for patience to begin anew
_MOST_EPOCHS = 200
_START = 0.1  # of the sums of AdaGrad, as in TensorFlow


class Check(NamedTuple):
    """The validation rows after `samples` training rows: score and loss, lower is better, and the metrics."""

    score: float
    loss: float
    selected_by: str
    metrics: dict[str, float]
    samples: int

    def is_clearly_better_than(self, other: Check) -> bool:
        """Whether the score is, or the same while the loss is, as before the first row that is predicted otherwise."""
        if self.score == other.score:
            return self.loss < (1 - _CLEAR_LOSS) * other.loss
        return self.score < other.score - _CLEAR_SCORE * abs(other.score)


class NetworkFit:
    """A network in training: AdaGrad for the deep tower, FTRL for the wide one (Cheng et al. 2016, section 3.2)."""

    def __init__(
        self,
        network: WordNetwork,
        settings: NetworkSettings,
        rows: Mapping[str, WordRows],
        labels: Mapping[str, npt.NDArray[Any]],
        task: Task,
        training: TrainingRecipe,
        *,
        weights: npt.NDArray[np.float32] | None = None,
    ) -> None:
        self.network, self.settings, self.rows, self.labels = network, settings, rows, labels
        self.weights = None if weights is None else torch.from_numpy(weights)
        self.task, self.training, self.samples = task, training, 0
        self.best: dict[str, Tensor] = {}
        self.is_finite = True  # logits and score
        self.optimizers = _optimizers(network, settings)

    def checks(self) -> Iterator[Check]:
        """Train, and yield the validation scores after every epoch, or after enough of them for small data.

        Ends when the rows of the settings are seen, or before numbers that are not finite.
        """
        count = len(self.rows["train"])
        samples, interval = min(self.settings.samples, _MOST_EPOCHS * count), max(count, _CHECK)
        next_check = interval
        for batch in self._batches():
            if self.samples >= next_check:
                next_check += interval
                check = self._check()
                if check is None:
                    return
                yield check
            if self.samples >= samples:
                break
            self._step(batch)
        if self.samples > next_check - interval and (check := self._check()) is not None:
            yield check

    def remember(self) -> None:
        """Copy the weights."""
        self.best = {name: tensor.clone() for name, tensor in self.network.state_dict().items()}

    def _batches(self) -> Iterator[npt.NDArray[np.int64]]:
        """Yield the rows of batches without end; none has a single row, of which there is no variance."""
        rows, size = self.rows["train"], self.training.batch_size
        order = LengthGroupedBatches(rows.lengths, batch_size=size, seed=self.training.seed)
        epoch = 0
        while True:
            order.set_epoch(epoch)
            index = order.order()
            cuts = list(range(size, len(index), size))
            if cuts and len(index) - cuts[-1] == 1:
                cuts.pop()
            yield from np.split(index, cuts)
            epoch += 1

    def _step(self, index: npt.NDArray[np.int64]) -> None:
        self.network.train()
        logits = self.network(*self.rows["train"].batch(index, dtype=torch.float32))
        labels = torch.from_numpy(self.labels["train"][index])
        if self.weights is None:
            loss = self.task.loss(logits, labels)
        else:
            loss = self.task.weighted_loss(logits, labels, self.weights[torch.from_numpy(index)])
        for optimizer in self.optimizers:
            optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        with torch.sparse.check_sparse_tensor_invariants(enable=False):  # type: ignore[no-untyped-call]
            # torch's own AdaGrad makes sparse tensors, and warns unless their checks are set.
            for optimizer in self.optimizers:
                optimizer.step()
        self.samples += len(index)

    def _check(self) -> Check | None:
        """Score the validation rows; None for logits or a score that are not finite."""
        labels = self.labels["validation"]
        logits = self._logits()
        self.is_finite = bool(np.isfinite(logits).all())
        if not self.is_finite:
            return None
        loss = float(self.task.loss(torch.from_numpy(logits), torch.from_numpy(labels)))
        metrics = {name: metric.value() for name, metric in self.task.metrics(logits, labels).items()}
        selected = selection_score(self.task, logits, labels, by=self.training.select_by)
        value = selected.value()
        self.is_finite = math.isfinite(value)
        if not self.is_finite:
            return None
        metrics = {name: value for name, value in metrics.items() if math.isfinite(value)}
        metrics = {selected.name: value, **metrics}
        return Check(-value if selected.higher_is_better else value, loss, selected.name, metrics, self.samples)

    @torch.inference_mode()
    def _logits(self) -> npt.NDArray[np.float32]:
        self.network.eval()
        rows = self.rows["validation"]
        logits = np.zeros((len(rows), self.task.outputs), dtype=np.float32)
        order = np.argsort(-rows.lengths, kind="stable")
        for cut in length_cuts(rows.lengths[order].tolist(), size=256, busy=4096):
            logits[order[cut]] = self.network(*rows.batch(order[cut], dtype=torch.float32)).numpy()
        return logits


def _optimizers(network: WordNetwork, settings: NetworkSettings) -> list[torch.optim.Optimizer]:
    """Return those of the deep and the wide tower; the squared norm is that of matrices, without word vectors."""
    vectors = network.embedding.weight
    deep = [
        parameter
        for name, parameter in network.named_parameters()
        if parameter.requires_grad and parameter is not network.wide and parameter is not vectors
    ]
    groups: list[dict[str, Any]] = [
        {"params": [p for p in deep if p.ndim > 1], "weight_decay": settings.deep_regularization},
        {"params": [p for p in deep if p.ndim == 1]},
    ]
    if isinstance(vectors, nn.Parameter) and vectors.requires_grad:
        groups.append({"params": [vectors]})
    adagrad = torch.optim.Adagrad(groups, lr=settings.deep_learning_rate, initial_accumulator_value=_START)
    return [adagrad, FTRL([network.wide], rate=settings.wide_learning_rate, l1=settings.wide_regularization)]

"""The interface of all tasks, decoded predictions, and the checks that tasks share.

Shapes: B rows of a batch, n rows of a data set, C classes. Class ids follow the order of a task's classes.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Self

import numpy as np
from pydantic import BeforeValidator

from attribune.core.arrays import Array
from attribune.errors import ConfigError
from attribune.metrics.metric import Metric, metric_info
from attribune.tasks.codecs import LabelCodec, checked_logits
from attribune.tasks.inputs import SingleText, TaskInput
from attribune.tasks.labels import Column

if TYPE_CHECKING:
    from torch import Tensor

    from attribune.tasks.losses import Link

__all__ = [
    "AUTO",
    "LOSS",
    "MAIN_METRIC",
    "Decoded",
    "ScoreBy",
    "Task",
    "TaskHead",
    "check_metrics",
    "checked_logits",
    "scored_metrics",
    "selection_score",
    "unknown_selection",
    "validation_score",
]


@dataclass(frozen=True, kw_only=True)
class TaskHead:
    """A linear layer on the vector of each text that a model reads, whose outputs are logits.

    Args:
        outputs: size of the linear layer. It is 0 for a task without one: the logits are those of the language model,
            or are made of the vectors of a row's texts.
        texts: how many texts of a row the model reads, each for itself.
    """

    outputs: int
    texts: int = 1

    def logits(self, outputs: Tensor) -> Tensor:
        """Return the logits (B, outputs of the task), in front of the link; by default those of all texts of a row.

        Args:
            outputs: of the linear layer, (B texts, outputs); the vectors (B texts, H) where there is none.
        """
        return outputs if self.texts == 1 else outputs.view(-1, self.texts * outputs.shape[1])

    def reads_attribute(self, name: str, *, place: int) -> bool:
        """Whether the text of a row at a place, from 0, is read with an attribute; by default all are."""
        return True

    def check_attributes(self, names: Sequence[str]) -> None:
        """Check that each attribute has a text that is read with it; ConfigError for others."""
        for name in names:
            if not any(self.reads_attribute(name, place=place) for place in range(self.texts)):
                raise ConfigError(
                    f"no text is read with the attribute {name!r}: name it in task.text_attributes or "
                    "task.pair_attributes, or leave it out of the attributes"
                )

    def build_link(self, vector_sizes: Mapping[str, int] | None = None) -> Link | None:
        """Return a module that makes logits (B, outputs) of the linear layer's outputs; None if they are the logits.

        Args:
            vector_sizes: size of the vectors of each attribute that has any; None for a model without attributes.
        """
        return None


def _named(names: Any) -> Any:
    return (names,) if isinstance(names, str) else tuple(names) if isinstance(names, Sequence) else names


ScoreBy = Annotated[tuple[str, ...], BeforeValidator(_named)]
"""Names of metrics; a single one may be given as a text."""
ADDED_LATER = ("score_by", "personal_cut_points", "soft_labels", "learn_ties", "tie_share")
"""Fields that a stored task may lack; they are stored when they are not empty, for the sake of earlier releases."""


@dataclass(frozen=True, kw_only=True)
class Decoded:
    """Predictions of n rows.

    Args:
        predictions: column name (`prediction`, or `prediction_<aspect>`) to n values: text, numbers, or lists of text.
        probabilities: (n, outputs), or None for a regression.
        probability_columns: the name of each column of `probabilities`, such as `probability_fresh`.
        spaced: columns of lists with an item per word, which CSV joins by spaces.
    """

    predictions: dict[str, list[Any] | Array]
    probabilities: Array | None
    probability_columns: tuple[str, ...]
    spaced: tuple[str, ...] = ()

    def columns(self) -> dict[str, list[Any] | Array]:
        """Return predictions and probabilities by column name."""
        if self.probabilities is None:
            return dict(self.predictions)
        return self.predictions | dict(zip(self.probability_columns, self.probabilities.T, strict=True))


class Task(ABC):
    """The interface of a task to model, data and evaluation; subclasses are frozen dataclasses.

    ``kind`` is its name in recipes and saved models, ``pipeline`` what the hub calls its models, and ``input`` what of
    a row it reads.
    ``changeable`` names the options that may change when a run is trained further, and ``no_label`` which texts, beside
    those that a recipe names, are no labels: among numbers they cannot be a class.
    """

    kind: ClassVar[str]
    pipeline: ClassVar[str] = "text-classification"
    input: ClassVar[TaskInput] = SingleText()
    changeable: ClassVar[tuple[str, ...]] = ("missing", "score_by")
    no_label: ClassVar[tuple[str, ...]] = ()

    @property
    @abstractmethod
    def outputs(self) -> int:
        """Number of logits of a row."""

    @property
    def head(self) -> TaskHead:
        """What is put on the vectors of a row's texts; by default a linear layer with an output for each logit."""
        return TaskHead(outputs=self.outputs)

    def with_vector_size(self, size: int) -> Self:
        """Return the task of a model whose vectors of texts have this size."""
        return self

    def without_attributes(self) -> Self:
        """Return the task of a model in which fixed values were merged."""
        return self

    @property
    @abstractmethod
    def main_metric(self) -> str:
        """Name of the metric by which models are compared."""

    @property
    def higher_is_better(self) -> bool:
        """Whether a higher value of the main metric is better."""
        return metric_info(self.main_metric).higher_is_better

    @classmethod
    @abstractmethod
    def fit(cls, *args: Any, **options: Any) -> Self:
        """Fit on the label columns of training rows, the first argument; options are keywords."""

    @classmethod
    def codec_for(cls, options: Mapping[str, Any]) -> LabelCodec:
        """Return what the labels are of a task with these options of `fit`, or with these fields.

        A task that does not define it defines `encode_labels` and `loss`.
        """
        return LabelCodec()

    @property
    def codec(self) -> LabelCodec:
        """What the labels of the task are."""
        return self.codec_for(vars(self))

    def encode_labels(self, columns: Sequence[Column], *, first_row: int = 1) -> tuple[Array, Array]:
        """Return labels, and a mask (n,), False for a missing label, whose row must be dropped.

        A label that no training row has becomes `UNSEEN`; its row stays. `first_row` is the number of the first row in
        the whole table, for messages.
        """
        self.codec.check(columns, task=self.kind)
        return self.codec.encode(columns, first_row=first_row)

    def unseen_labels(self, columns: Sequence[Column]) -> Counter[str]:
        """Count the labels that no training row has; by default every label can be predicted."""
        return self.codec.unseen(columns)

    def loss(self, logits: Tensor, labels: Tensor) -> Tensor:
        """Return the float32 scalar loss of logits (B, outputs); zero if all labels are ignored."""
        return self.codec.loss(logits, labels)

    def row_losses(self, logits: Tensor, labels: Tensor) -> Tensor:
        """Return the loss of each row, (B,), whose sum is the negative log-likelihood of a batch up to a constant.

        That of a task with a `loss` of its own is by default that of each row alone; if its mean weights rows
        differently, it defines it.
        """
        if type(self).loss is Task.loss:
            return self.codec.row_losses(logits, labels)
        from attribune.tasks.losses import each_alone

        return each_alone(self.loss, logits, labels)

    def row_counts(self, labels: Tensor) -> Tensor:
        """Return what the losses of rows are divided by in the mean of a batch, (B,).

        It is 1 for a loss that is the mean of `row_losses`; tasks with a `loss` that divides by anything else define
        it.
        """
        return self.codec.row_counts(labels)

    def weighted_loss(self, logits: Tensor, labels: Tensor, weights: Tensor) -> Tensor:
        """Return the loss of rows with weights (B,), in which one of weight k counts as if it stood there k times."""
        from attribune.tasks.losses import weighted_mean

        return weighted_mean(self.row_losses(logits, labels), self.row_counts(labels), weights)

    @abstractmethod
    def decode(self, logits: Array) -> Decoded:
        """Turn logits (n, outputs) into predictions and probabilities."""

    @property
    def answer_names(self) -> list[str]:
        """The names of the answers that have a probability; empty for a task without any."""
        columns = self.decode(np.zeros((1, self.outputs))).probability_columns
        return [name.removeprefix("probability_") for name in columns]

    @property
    def output_names(self) -> list[str]:
        """A name for each logit: those of the answers, or ``LABEL_0`` and so on where logits are none."""
        names = self.answer_names
        return names if len(names) == self.outputs else [f"LABEL_{number}" for number in range(self.outputs)]

    @abstractmethod
    def metrics(self, logits: Array, labels: Array) -> dict[str, Metric]:
        """Return the metrics of logits (n, outputs) by name, the main one first."""

    @property
    def is_tuned(self) -> bool:
        """Whether something is fitted on the scores of validation rows after training, by `tuned`."""
        return False

    def tuned(self, logits: Array, labels: Array) -> Self:
        """Return the task with what is fitted on the scores of validation rows."""
        return self

    @property
    def metrics_note(self) -> str:
        """What tables say about the metrics, where one prediction has several forms; empty by default."""
        return ""

    def proper_score(self, logits: Array, labels: Array) -> Metric | None:
        """Return the score by which models are judged before the main metric; None for a task without one."""
        return self.codec.proper_score(logits, labels)

    def empty_scores(self, rows: int) -> Array:
        """Return an array for the scores of rows, (n, outputs) of zeros."""
        return np.zeros((rows, self.outputs), dtype=np.float32)

    def prior(self, train_labels: Array) -> Array:
        """Return the constant logits (outputs,) that fit the training labels best."""
        prior = self.codec.prior(train_labels)
        if prior is None:
            raise ConfigError(f"the task {self.kind!r} has no prior: define it, or majority")
        return prior

    def to_dict(self) -> dict[str, Any]:
        """Return plain values from which `task_from_dict` restores the task."""
        values = {field.name: getattr(self, field.name) for field in fields(self)}  # type: ignore[arg-type]
        plain = {name: _plain(value) for name, value in values.items() if value or name not in ADDED_LATER}
        return {"kind": self.kind} | plain

    def majority(self, train_labels: Array, labels: Array) -> dict[str, Metric]:
        """Return the metrics of the prior of the training labels."""
        prior = self.constant(train_labels, len(labels))
        if prior is None:
            raise ConfigError(f"the task {self.kind!r} has no prior: define majority")
        return self.metrics(prior, labels)

    def constant(self, train_labels: Array, rows: int) -> Array | None:
        """Return the prior of the training labels as logits (n, outputs) of as many rows; None where rows differ."""
        prior = self.prior(np.asarray(train_labels))
        return np.broadcast_to(prior, (rows, len(prior)))


def check_metrics(score_by: Sequence[str], offered: Iterable[str], *, task: str) -> None:
    """Check the metrics by which a task is scored.

    Raises:
        ConfigError: for a metric that the task does not have, or one that is named twice.
    """
    names = tuple(offered)
    if len(set(score_by)) < len(score_by) or not set(score_by) <= set(names):
        raise ConfigError(f"score_by is {list(score_by)}: {task} has the metrics {', '.join(names)}; name each once")


def _plain(value: Any) -> Any:
    return [_plain(item) for item in value] if isinstance(value, tuple) else value


AUTO, LOSS, LAST, MAIN_METRIC = "auto", "loss", "last", "main_metric"
"""What may be named to select by, beside the metrics of a task."""


def scored_metrics(task: Task, logits: Array, labels: Array) -> dict[str, Metric]:
    """Return the main metric, the proper score, if the task has one, and the other metrics."""
    metrics, proper = task.metrics(logits, labels), task.proper_score(logits, labels)
    first = {task.main_metric: metrics[task.main_metric]}
    return first | metrics if proper is None else {**first, proper.name: proper, **metrics}


def selection_score(task: Task, logits: Array, labels: Array, *, by: str = LOSS) -> Metric:
    """Return the score of validation rows by which models are compared that were trained on the same rows.

    Args:
        by: ``auto``, ``loss`` and ``last`` are the proper score of the task, which distinguishes models on few rows
            better than an accuracy, or the main metric of a task without one; ``main_metric``, or the name of a metric.

    Raises:
        ConfigError: for a metric that the task does not compute.
    """
    metrics = task.metrics(logits, labels)
    if by in (AUTO, LOSS, LAST):
        proper = task.proper_score(logits, labels)
        return metrics[task.main_metric] if proper is None else proper
    if by == MAIN_METRIC:
        return metrics[task.main_metric]
    if by not in metrics:
        raise unknown_selection(by, task, metrics)
    return metrics[by]


def unknown_selection(by: str, task: Task, computed: Iterable[str]) -> ConfigError:
    """Return the error for a name that is no metric of the task."""
    return ConfigError(
        f"training.select_by is {by!r}: write auto, loss, last, main_metric, or a metric of the task {task.kind!r}, "
        f"{', '.join(computed)}; others are computed where task.score_by names them"
    )


def validation_score(task: Task, logits: Array, labels: Array, *, by: str = LOSS) -> float:
    """Return `selection_score` with such a sign that lower is better."""
    metric = selection_score(task, logits, labels, by=by)
    return -metric.value() if metric.higher_is_better else metric.value()

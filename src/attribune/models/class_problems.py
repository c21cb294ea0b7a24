"""What a model of one kind of labels alone, such as a logistic regression, has to learn of a task with classes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from attribune.core.arrays import Array
from attribune.errors import DataError
from attribune.tasks import Task
from attribune.tasks.codecs import ClassCodec

# Logit of a class that no training row has: its probability is 0, and the logit stays finite.
_ABSENT = -1e4


@dataclass(frozen=True, kw_only=True)
class ClassProblem:
    """One class of several for each row: a choice of a task, or of several labels per row whether a row has one.

    Args:
        first: the first of its columns among the logits of the task.
        classes: their number K.
        is_label: whether the second of two classes is a label, and the task has one logit for both, its log-odds.
        rows: (m,) indices of the training rows; one with shares of several classes is there for each of them.
        ids: (m,) their classes.
        weights: (m,) of the rows, times those of their classes.

    Raises:
        DataError: without a row.
    """

    first: int
    classes: int
    is_label: bool = False
    rows: Array
    ids: Array
    weights: Array

    def __post_init__(self) -> None:
        if not len(self.rows):
            raise DataError("none of the training labels is known: fit the task on the labels of these training rows")

    @cached_property
    def present(self) -> Array:
        """The classes that training rows have, ascending."""
        return np.unique(self.ids)

    @property
    def learned(self) -> Array:
        """The classes whose logits are learned: none of one class, and of two the second against the first."""
        present = self.present
        return present if len(present) > 2 else present[1:]

    @property
    def outputs(self) -> list[int]:
        """The columns of what is learned among the logits of the task."""
        return [self.first] if self.is_label else [self.first + int(number) for number in self.learned]

    def logits(self, learned: Array) -> Array:
        """Return the task's logits (..., K), or (..., 1) of a label, given those that are learned."""
        logits = np.full((*learned.shape[:-1], self.classes), _ABSENT)
        logits[..., self.present] = 0
        logits[..., self.learned] = learned
        return self.of_task(logits)

    def of_task(self, values: Array) -> Array:
        """Return values (..., K) of classes as the task has them: of a label the difference of both."""
        return values[..., 1:] - values[..., :1] if self.is_label else values


def class_problems(task: Task, labels: Array, weights: Array) -> Iterator[ClassProblem]:
    """Yield the problems of a task, in the order of its logits.

    Args:
        labels: as the task encodes them; rows whose label is unseen are left out.
        weights: (n,) of the rows.

    Raises:
        DataError: where no label is known.
    """
    for choice in task.codec.choices:
        yield from _of_codec(choice.codec, choice.labels(labels), weights, choice.first)


def _of_codec(codec: ClassCodec, labels: Array, weights: Array, first: int) -> Iterator[ClassProblem]:
    K = len(codec.classes)
    of_class = np.ones(K) if codec.weights is None else np.asarray(codec.weights)
    if codec.has_shares:
        rows, ids = np.nonzero(labels)
        own = weights[rows] * labels[rows, ids] * of_class[ids]
        yield ClassProblem(first=first, classes=K, rows=rows, ids=ids, weights=own)
    elif codec.has_one_class:
        rows = np.flatnonzero(labels >= 0)
        ids = labels[rows]
        yield ClassProblem(first=first, classes=K, rows=rows, ids=ids, weights=weights[rows] * of_class[ids])
    else:
        rows = np.arange(len(labels))
        for number, positive in enumerate(of_class):
            ids = (labels[:, number] > 0).astype(np.int64)
            own = weights * np.where(ids, positive, 1.0)
            yield ClassProblem(first=first + number, classes=2, is_label=True, rows=rows, ids=ids, weights=own)

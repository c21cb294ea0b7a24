"""How the labels of rows become numbers that a model learns, and what its logits say of them.

A codec has one answer to each question that depends on the kind of labels: one class a row, several, a share of each
class, one of several numbers, or any number; tasks of other labels have theirs in their file. Shapes: B rows of a
batch, n rows of a table, C classes.
"""

from __future__ import annotations

import math
import numbers
from abc import ABC, abstractmethod
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from scipy.special import expit, softmax

from attribune.core.arrays import Array
from attribune.core.door import as_argument
from attribune.core.wording import shortened
from attribune.errors import ConfigError, DataError, RowError
from attribune.findings import Finding
from attribune.metrics import formulas
from attribune.metrics.distributions import distribution_metrics
from attribune.metrics.metric import Metric
from attribune.schema.columns import canonical, json_value, refuse_split_lists
from attribune.tasks.labels import (
    UNSEEN,
    Column,
    class_ids,
    count_classes,
    label_lists,
    label_numbers,
    label_texts,
    number_of,
    odd_classes,
    outside_of,
    require_columns,
)

if TYPE_CHECKING:
    from torch import Tensor

SOFT_METRICS = ("cross_entropy", "manhattan", "jensen_shannon")
"""What is computed of distributions unasked, the main one first."""
_TOLERANCE = 0.02  # published shares are rounded
_SHOWN = 10  # classes in a message
_EXAMPLE = 'give an object of shares that sum to 1, such as {"yes": 0.75, "no": 0.25}'

ShareOf = Mapping[str, float]


@dataclass(frozen=True, kw_only=True)
class LabelCodec:
    """The labels of a task: how the cells of its label columns become numbers, and what a model learns from these.

    What is here is that of a task which encodes its labels itself; `ClassCodec` has what labels of classes have more.

    Args:
        classes: their names in the order of ids; none as long as they are not known, or where labels are none.
        missing: texts that mean a missing label.
        weights: C weights of the classes in the loss, if there are any.
    """

    classes: tuple[str, ...] = ()
    missing: Sequence[str] = ()
    weights: tuple[float, ...] | None = None

    has_row_losses: ClassVar[bool] = True
    """Whether the loss of a row depends on that row alone, and not on others of its batch."""
    has_free_dispersion: ClassVar[bool] = False
    """Whether the loss of a row is a negative log-likelihood only up to an unknown factor."""
    has_comparable_loss: ClassVar[bool] = True
    """Whether the loss is a score by which models can be compared."""
    unusable: ClassVar[str] = "no text or no label"
    """What the rows have that are left out."""

    def check(self, columns: Sequence[Column], *, task: str) -> None:
        """Check the number of label columns; by default there is one."""
        require_columns(columns, ["label"], task=task)

    def encode(self, columns: Sequence[Column], *, first_row: int = 1) -> tuple[Array, Array]:
        """Return labels, and a mask (n,), False for a missing one; a name that is no class is `UNSEEN`."""
        raise NotImplementedError("a task without a codec defines encode_labels and loss")

    def unseen(self, columns: Sequence[Column]) -> Counter[str]:
        """Count the labels that no training row has; by default every label can be predicted."""
        return Counter()

    def outside(self, columns: Sequence[Column]) -> Array:
        """Return (n,) whether a label is outside the scale; by default none is."""
        return np.zeros(len(columns[0]), dtype=bool)

    @property
    def scale_words(self) -> str:
        """Which labels there may be, behind a list of those that are outside the scale; by default nothing."""
        return ""

    @property
    def scale_cure(self) -> str:
        """What to do where all labels are outside the scale."""
        return "name another label column, or choose another task, such as classification"

    def counts(self, labels: Array) -> dict[str, int]:
        """Count the rows of each class, of encoded labels; empty where a row has no class of its own."""
        return {}

    def class_notes(self, labels: Array) -> list[Finding]:
        """Say what is odd about the classes; by default which are written in several ways."""
        return odd_classes(self.counts(labels))

    def notes(self, columns: Sequence[Column]) -> list[str]:
        """Say in short lines what is odd about the labels of rows, or was changed in them."""
        return []

    def loss(self, logits: Tensor, labels: Tensor) -> Tensor:
        """Return the mean of `row_losses`, divided by `row_counts`; zero if all labels are ignored."""
        from attribune.tasks.losses import weighted_mean

        counts = self.row_counts(labels)
        return weighted_mean(self.row_losses(logits, labels), counts, counts.new_ones(len(labels)))

    def row_losses(self, logits: Tensor, labels: Tensor) -> Tensor:
        """Return the loss of each row, (B,); by default that of each row alone."""
        from attribune.tasks.losses import each_alone

        return each_alone(self.loss, logits, labels)

    def row_counts(self, labels: Tensor) -> Tensor:
        """Return what the losses of rows are divided by in the mean of a batch, (B,); by default 1."""
        import torch

        return torch.ones(len(labels), device=labels.device)

    def answers(self, logits: Array) -> Array | None:
        """Return the probabilities (n, K) of K answers of which a row has one; None for labels of another kind."""
        return None

    @property
    def positions(self) -> Array | None:
        """The numbers (K,) of answers that are ordered; None for others."""
        return None

    @property
    def choices(self) -> tuple[Choice, ...]:
        """The choices among classes that are predicted of each row: one, or one for each aspect; by default none."""
        return ()

    def numbers(self, labels: Array) -> Array | None:
        """Return the numbers (n,) that labels stand for; None where no numbers are predicted."""
        return None

    def proper_score(self, logits: Array, labels: Array) -> Metric | None:
        """Return the score by which models are judged before the main metric; None where there is none.

        It is proper: the true probabilities have the best one, so that it shows differences that no answer shows. By
        default that is the log loss of answers, or the cross-entropy of distributions of them. Rows with a label that
        no training row has count alike for every model.
        """
        labels, p = np.asarray(labels), self.answers(logits)
        if p is None or not (labels.shape == p.shape or (labels.ndim == 1 and labels.dtype.kind == "i")):
            return None
        nats = -np.log(np.maximum(p, np.finfo(np.float64).tiny))
        if labels.ndim == 2:
            return formulas.mean_of("cross_entropy", (labels * nats).sum(axis=1))
        return formulas.mean_of("log_loss", log_losses(nats, labels))

    def prior(self, labels: Array) -> Array | None:
        """Return the constant logits (outputs,) that fit labels best; None where there are none."""
        return None

    def packed(self, arrays: Mapping[str, Array]) -> dict[str, Array]:
        """Return ``logits`` and ``labels`` of rows as arrays of numbers, which can be stored."""
        return dict(arrays)

    def unpacked(self, arrays: Mapping[str, Array]) -> dict[str, Array]:
        """Undo `packed`."""
        return dict(arrays)


@dataclass(frozen=True, kw_only=True)
class ClassCodec(LabelCodec, ABC):
    """Labels in one column that are made of classes, or of numbers of which there are as few."""

    has_one_class: ClassVar[bool] = True
    """Whether exactly one of the classes is right, so that probabilities sum to 1."""
    has_shares: ClassVar[bool] = False
    """Whether a label is a distribution over the classes."""

    @property
    def choices(self) -> tuple[Choice, ...]:
        """The one among the classes."""
        return (Choice(codec=self),)

    @abstractmethod
    def names(self, column: Column) -> list[str | None]:
        """Return the names of classes in the cells of a column, None for a missing one."""

    def check_names(self, names: Sequence[str | None]) -> None:
        """Raise a DataError for names of classes that are none, but what other tasks or settings read."""

    def unseen(self, columns: Sequence[Column]) -> Counter[str]:
        """Count the names that are not among the classes."""
        return unknown(self.names(columns[0]), self.classes)

    def counts(self, labels: Array) -> dict[str, int]:
        """Count the rows of each class."""
        return count_classes(labels, self.classes)

    def chances(self, logits: Array) -> Array:
        """Return the probabilities (n, C) of the classes, of finite logits (n, C)."""
        return np.asarray(softmax(logits, axis=1))

    def answers(self, logits: Array) -> Array | None:
        """Return the probabilities of the classes, unless a row may have several."""
        checked = checked_logits(logits, len(self.classes))
        return self.chances(checked) if self.has_one_class else None

    def true_classes(self, labels: Array, scores: Array) -> Array:
        """Return the class id (n,) with which a prediction is compared.

        Args:
            scores: (n, C) of the prediction, which decide between classes that a label has alike.
        """
        return labels

    def marks(self, labels: Array) -> Array:
        """Return (n, C) how much of each class a label has: all of one, unless a codec says otherwise."""
        return np.asarray(labels[:, None] == np.arange(len(self.classes)))

    def cells(self, labels: Array, scores: Array, probabilities: Array) -> tuple[Array, Array]:
        """Return (n, C) which classes are true and which are predicted; arguments as in `true_classes`."""
        ids = np.arange(len(self.classes))
        true = self.true_classes(labels, scores)
        return true[:, None] == ids, probabilities.argmax(axis=1)[:, None] == ids

    def calibrated(self, labels: Array, probabilities: Array) -> tuple[Array, Array]:
        """Return the probabilities that should be as often right as they say, and how much of each is true.

        By default those of the predicted class of each row, (n,).
        """
        predicted = probabilities.argmax(axis=1)[:, None]
        true = np.take_along_axis(self.marks(labels), predicted, axis=1)[:, 0]
        return probabilities.max(axis=1), true.astype(np.float64)

    @property
    def share_metrics(self) -> tuple[str, ...]:
        """The metrics of distributions, if labels are some."""
        return ()

    def of_shares(self, logits: Array, labels: Array) -> dict[str, Metric]:
        """Return the metrics of distributions, if labels are some; see `distribution_metrics`."""
        return {}

    @abstractmethod
    def prior(self, labels: Array) -> Array:
        """Return the constant logits (C,) that fit labels best."""

    def positives(self, labels: Array) -> Array:
        """Return the rows (C,) of each class."""
        return np.bincount(labels[labels >= 0], minlength=len(self.classes))

    def balanced(self, labels: Array) -> tuple[float, ...]:
        """Return rows / (C · rows of the class); DataError where a class has none."""
        positives = self.positives(labels)
        if not positives.all():
            absent = self.classes[int(positives.argmin())]
            raise DataError(
                f"no training row has the class {absent!r}: balanced class weights need rows of every class"
            )
        return tuple(float(weight) for weight in self._balance(len(labels), positives) / positives)

    def _balance(self, rows: int, positives: Array) -> Array:
        return np.asarray(positives.sum() / len(self.classes))


@dataclass(frozen=True, kw_only=True)
class One(ClassCodec):
    """One class a row, compared as text; labels are ids int64 (n,)."""

    def names(self, column: Column) -> list[str | None]:
        """Return the text of each cell."""
        return self._texts(column, 1)

    def check_names(self, names: Sequence[str | None]) -> None:
        """Refuse distributions over classes."""
        refuse_distributions(names)

    def _texts(self, column: Column, first_row: int) -> list[str | None]:
        return label_texts(column, missing=self.missing, known=self.classes, first_row=first_row)

    def encode(self, columns: Sequence[Column], *, first_row: int = 1) -> tuple[Array, Array]:
        """Return ids, and the mask of labelled rows."""
        return class_ids(self._texts(columns[0], first_row), self.classes)

    def outside(self, columns: Sequence[Column]) -> Array:
        """Return (n,) whether a label is none of the classes, where they are given."""
        if not self.classes:
            return super().outside(columns)
        return outside_of(columns[0], missing=self.missing, known=self.classes, as_numbers=False)

    @property
    def scale_words(self) -> str:
        """Which classes are given."""
        more = ", ..." if len(self.classes) > _SHOWN else ""
        return f"; the classes are {', '.join(map(repr, self.classes[:_SHOWN]))}{more}" if self.classes else ""

    def loss(self, logits: Tensor, labels: Tensor) -> Tensor:
        """Return the weighted cross-entropy."""
        from attribune.tasks.losses import cross_entropy

        return cross_entropy(logits, labels, self.weights)

    def row_losses(self, logits: Tensor, labels: Tensor) -> Tensor:
        """Return the weighted cross-entropy of each row; a mean over single rows would cancel the weights."""
        from attribune.tasks.losses import row_cross_entropy

        return row_cross_entropy(logits, labels, self.weights)

    def row_counts(self, labels: Tensor) -> Tensor:
        """Return the weights of the rows' classes; 0 for a class that no training row has."""
        from attribune.tasks.losses import known_weights

        return known_weights(labels, self.weights)

    def prior(self, labels: Array) -> Array:
        """Return the log frequencies of the classes."""
        return log_frequencies(labels, len(self.classes))


@dataclass(frozen=True, kw_only=True)
class Level(One):
    """One of several levels a row, such as ``low``, ``medium`` and ``high``: classes in their order, from 1 to C."""

    @property
    def positions(self) -> Array:
        """The numbers (C,) of the classes, ascending."""
        return level_numbers(self.classes)

    def numbers(self, labels: Array) -> Array:
        """Return the numbers; the mean of all for one that no training row has."""
        values = self.positions
        return np.asarray(np.where(labels >= 0, values[labels.clip(min=0)], values.mean()))


@dataclass(frozen=True, kw_only=True)
class Number(Level):
    """One of several numbers a row, compared as numbers: 4, "4.0" and "4 stars" are one class."""

    def names(self, column: Column) -> list[str | None]:
        """Return the text of each number; DataError for a label that is none."""
        return [canonical(number) for number in label_numbers(column, missing=self.missing)]

    def encode(self, columns: Sequence[Column], *, first_row: int = 1) -> tuple[Array, Array]:
        """Return ids, and the mask of labelled rows; DataError for a label that is not a number."""
        found = label_numbers(columns[0], missing=self.missing, first_row=first_row)
        values = self.positions
        ids = np.clip(np.searchsorted(values, found), 0, len(self.classes) - 1)
        return np.where(values[ids] == found, ids, UNSEEN), ~np.isnan(found)

    def unseen(self, columns: Sequence[Column]) -> Counter[str]:
        """Count the numbers that are not among the classes."""
        return unknown(self.names(columns[0]), [str(canonical(value)) for value in self.positions])

    def outside(self, columns: Sequence[Column]) -> Array:
        """Return (n,) whether a label is no finite number, or none of the given ones."""
        return outside_of(columns[0], missing=self.missing, known=self.classes or None, as_numbers=True)

    @property
    def scale_cure(self) -> str:
        """How levels are named, unless numbers are given."""
        levels = f"name levels in their order with {as_argument('task.classes', ['low', 'high'])}, or "
        return f"{'' if self.classes else levels}{super().scale_cure}"


@dataclass(frozen=True, kw_only=True)
class Several(ClassCodec):
    """Any number of classes a row; labels are float32 (n, C + 1), the last column for one that no training row has.

    Args:
        separator: between the labels of one cell; None for cells that are lists.
    """

    separator: str | None = None

    has_one_class = False
    has_free_dispersion = True  # the loss is a mean over classes, which are not independent

    def names(self, column: Column) -> list[str | None]:
        """Return the labels of all cells; those of missing ones are left out."""
        return [label for cell in self._lists(column, 1) for label in cell or ()]

    def check_names(self, names: Sequence[str | None]) -> None:
        """Refuse parts of lists that were split at the separator."""
        if self.separator is not None:
            parts = Counter(filter(None, names))
            refuse_split_lists(parts, what="the labels", cure="leave task.separator out")

    def _lists(self, column: Column, first_row: int) -> list[list[str] | None]:
        return label_lists(
            column, missing=self.missing, separator=self.separator, known=self.classes, first_row=first_row
        )

    def encode(self, columns: Sequence[Column], *, first_row: int = 1) -> tuple[Array, Array]:
        """Return ones and zeros, and the mask of labelled rows."""
        cells, index = self._lists(columns[0], first_row), {name: i for i, name in enumerate(self.classes)}
        labels = np.zeros((len(cells), len(self.classes) + 1), dtype=np.float32)
        for row, cell in zip(labels, cells, strict=True):
            row[[index.get(label, len(self.classes)) for label in cell or ()]] = 1
        return labels, np.array([cell is not None for cell in cells], dtype=bool)

    def notes(self, columns: Sequence[Column]) -> list[str]:
        """Say which labels of lists mean missing."""
        cells = label_lists(columns[0], missing=(), separator=self.separator)
        hidden = frozenset(self.missing) - {"", *self.classes}
        words = Counter(label for cell in cells if len(cell or ()) > 1 for label in cell or () if label in hidden)
        listed = ", ".join(f"{word!r} ({count:,})" for word, count in words.most_common())
        return [f"labels left out beside others, since they mean missing (task.missing): {listed}"] if words else []

    def loss(self, logits: Tensor, labels: Tensor) -> Tensor:
        """Return the binary cross-entropy averaged over rows and classes; weights are those of the positives."""
        from attribune.tasks.losses import binary_cross_entropy

        return binary_cross_entropy(logits, labels[:, : len(self.classes)], self.weights)

    def row_losses(self, logits: Tensor, labels: Tensor) -> Tensor:
        """Return the mean over classes of the binary cross-entropies of each row."""
        from attribune.tasks.losses import row_binary_cross_entropy

        return row_binary_cross_entropy(logits, labels[:, : len(self.classes)], self.weights)

    def chances(self, logits: Array) -> Array:
        """Return the probability of each class by itself."""
        return np.asarray(expit(logits))

    def marks(self, labels: Array) -> Array:
        """Return which classes a row has."""
        return np.asarray(labels[:, : len(self.classes)] > 0)

    def cells(self, labels: Array, scores: Array, probabilities: Array) -> tuple[Array, Array]:
        """Return which classes a row has, and which have a probability above one half."""
        return self.marks(labels), probabilities > 0.5

    def calibrated(self, labels: Array, probabilities: Array) -> tuple[Array, Array]:
        """Return the probability of each class in each row, (n · C,), and whether the row has it."""
        return probabilities.reshape(-1), self.marks(labels).reshape(-1).astype(np.float64)

    def proper_score(self, logits: Array, labels: Array) -> Metric | None:
        """Return the mean over the classes of the log loss of each."""
        logits = checked_logits(logits, len(self.classes))
        true = np.asarray(labels)[:, : len(self.classes)] > 0
        return formulas.mean_of("log_loss", np.logaddexp(0.0, np.where(true, -logits, logits)).mean(axis=1))

    def prior(self, labels: Array) -> Array:
        """Return the log odds of the classes."""
        share = np.clip(labels[:, : len(self.classes)].mean(axis=0, dtype=np.float64), 1e-12, 1 - 1e-12)
        return np.asarray(np.log(share) - np.log1p(-share))

    def positives(self, labels: Array) -> Array:
        """Return the rows (C,) that have each class."""
        return np.asarray(labels[:, : len(self.classes)].sum(axis=0, dtype=np.float64))

    def _balance(self, rows: int, positives: Array) -> Array:
        return np.asarray(np.maximum(rows - positives, 1))


@dataclass(frozen=True, kw_only=True)
class Shares(ClassCodec):
    """A share of each class, such as that of those who judged a text; labels are float32 (n, C).

    Args:
        as_numbers: whether classes are compared as numbers.
    """

    as_numbers: bool = False

    has_shares = True

    def names(self, column: Column) -> list[str | None]:
        """Return the classes that have a share in each cell, one after the other."""
        return [name for cell in _label_shares(column, missing=self.missing) for name in cell or ()]

    def encode(self, columns: Sequence[Column], *, first_row: int = 1) -> tuple[Array, Array]:
        """Return shares, and the mask of labelled rows; DataError for a class that is not known and has a share."""
        shares = _label_shares(columns[0], missing=self.missing, first_row=first_row)
        if self.as_numbers:
            shares = _named_as(shares, self.classes)
        return _encode_shares(shares, self.classes, first_row=first_row)

    def unseen(self, columns: Sequence[Column]) -> Counter[str]:
        """Return an empty count: a share of a class that is not known is an error."""
        return Counter()

    def counts(self, labels: Array) -> dict[str, int]:
        """Return nothing: a row has no class of its own."""
        return {}

    def notes(self, columns: Sequence[Column]) -> list[str]:
        """Say how many distributions have no single most frequent class."""
        labels, keep = self.encode(columns)
        shares = labels[keep]
        ties = int(((shares >= shares.max(axis=1, keepdims=True)).sum(axis=1) > 1).sum())
        if not ties:
            return []
        return [f"{ties:,} of {len(shares):,} labels have several most frequent classes, each of which counts as right"]

    def row_losses(self, logits: Tensor, labels: Tensor) -> Tensor:
        """Return the weighted cross-entropy of each row from its shares."""
        from attribune.tasks.losses import row_soft_cross_entropy

        return row_soft_cross_entropy(logits, labels, self.weights)

    def row_counts(self, labels: Tensor) -> Tensor:
        """Return the mean weight of the rows' classes by their shares, by default 1."""
        from attribune.tasks.losses import share_weights

        return labels.new_ones(len(labels)) if self.weights is None else share_weights(labels, self.weights)

    def true_classes(self, labels: Array, scores: Array) -> Array:
        """Return the class of the largest share; of a tie the one whose score is highest, so that each is right."""
        is_top = labels >= labels.max(axis=1, keepdims=True)
        return np.asarray(np.where(is_top, scores, -np.inf).argmax(axis=1))

    def marks(self, labels: Array) -> Array:
        """Return the shares."""
        return labels

    @property
    def positions(self) -> Array | None:
        """The numbers (C,), if classes are some."""
        return level_numbers(self.classes) if self.as_numbers else None

    def numbers(self, labels: Array) -> Array | None:
        """Return the means of the distributions, if classes are numbers."""
        return np.asarray(labels @ self.positions) if self.as_numbers else None

    @property
    def share_metrics(self) -> tuple[str, ...]:
        """`SOFT_METRICS`; between numbers also the distance by which shares are moved."""
        return (*SOFT_METRICS, "wasserstein") if self.as_numbers else SOFT_METRICS

    def of_shares(self, logits: Array, labels: Array) -> dict[str, Metric]:
        """Return the metrics of distributions by name."""
        return distribution_metrics(labels, self.chances(logits), positions=self.positions)

    def prior(self, labels: Array) -> Array:
        """Return the logarithm of the mean shares; -27.6 for a class without any."""
        return np.asarray(np.log(np.maximum(labels.mean(axis=0, dtype=np.float64), 1e-12)))

    def positives(self, labels: Array) -> Array:
        """Return the sum of the shares of each class."""
        return np.asarray(labels.sum(axis=0, dtype=np.float64))


@dataclass(frozen=True, kw_only=True)
class Choice:
    """A choice among classes that is predicted of each row, which labels, logits and probabilities are parts of.

    Args:
        name: of the aspect; empty for a task with one choice.
        codec: what its labels are.
        column: its column among the labels; None where all of them are its own.
        first: the column of its first class among logits and probabilities.
    """

    codec: ClassCodec
    name: str = ""
    column: int | None = None
    first: int = 0

    def labels(self, labels: Array) -> Array:
        """Return its own labels of those of a task."""
        return labels if self.column is None else labels[:, self.column]

    def scores(self, scores: Array) -> Array:
        """Return its own (n, C) of the logits or probabilities (n, outputs) of a task."""
        return scores[:, self.first : self.first + len(self.codec.classes)]


@dataclass(frozen=True, kw_only=True)
class PerToken(LabelCodec):
    """Labels that become ids (B, T) of the tokens of a text, `UNSEEN` where there is nothing to learn."""

    def loss(self, logits: Tensor, labels: Tensor) -> Tensor:
        """Return the mean cross-entropy of logits (B, T, C) over all tokens with a label."""
        from attribune.tasks.losses import cross_entropy

        return cross_entropy(logits.flatten(0, 1), labels.flatten())

    def row_losses(self, logits: Tensor, labels: Tensor) -> Tensor:
        """Return the sum of the cross-entropies of each row, in nats."""
        from attribune.tasks.losses import token_scores

        return token_scores(logits, labels)[:, 0]

    def row_counts(self, labels: Tensor) -> Tensor:
        """Return the number of labels of each row."""
        from attribune.tasks.losses import known_weights

        return known_weights(labels).sum(dim=1)


@dataclass(frozen=True, kw_only=True)
class Numbers(LabelCodec):
    """Any number a row, standardised: labels are float32 (n,), (number - mean) / std.

    Args:
        mean: mean of the training numbers.
        std: their standard deviation, above 0.
    """

    mean: float = 0.0
    std: float = 1.0

    has_free_dispersion = True  # the variance of the noise

    def encode(self, columns: Sequence[Column], *, first_row: int = 1) -> tuple[Array, Array]:
        """Return standardised numbers, and the mask of labelled rows; DataError for text."""
        values = label_numbers(columns[0], missing=self.missing, first_row=first_row)
        return ((values - self.mean) / self.std).astype(np.float32), ~np.isnan(values)

    def outside(self, columns: Sequence[Column]) -> Array:
        """Return (n,) whether a label is no finite number."""
        return outside_of(columns[0], missing=self.missing, known=None, as_numbers=True)

    def numbers(self, labels: Array) -> Array | None:
        """Return the numbers in their unit."""
        return np.asarray(labels.reshape(-1).astype(np.float64) * self.std + self.mean)

    def row_losses(self, logits: Tensor, labels: Tensor) -> Tensor:
        """Return the squared error of each row, of logits (B, 1) and labels (B,); zero for a label that is NaN."""
        from attribune.tasks.losses import row_squared_error

        return row_squared_error(logits, labels)

    def row_counts(self, labels: Tensor) -> Tensor:
        """Return 1 for rows with a label, and 0 for others."""
        return labels.isfinite().float()

    def prior(self, labels: Array) -> Array:
        """Return the mean of the labels."""
        return np.array([labels.mean(dtype=np.float64)])


def refuse_distributions(names: Iterable[str | None]) -> None:
    """Raise a ConfigError if the name of a class is a distribution, in a task without soft labels."""
    for name in dict.fromkeys(names):
        if name is None or not name.startswith("{"):
            continue
        with suppress(DataError):
            _shares(name, ())
            raise ConfigError(f"the label {shortened(name, 60)!r} is a distribution: set task.soft_labels=true")


def _label_shares(column: Column, *, missing: Collection[str], first_row: int = 1) -> list[ShareOf | None]:
    """Return the share of each class in the cells, None for a missing one.

    A cell is an object of shares or its JSON text. Shares are scaled to sum to 1, and those that are null are left out:
    tables of objects have all keys in every row.

    Raises:
        DataError: naming the row of a cell that is anything else.
    """
    shares: list[ShareOf | None] = []
    for row, cell in enumerate(column, start=first_row):
        try:
            shares.append(_shares(cell, missing))
        except DataError as error:
            raise RowError("the label of ", row, f" {error}") from error
    return shares


def _shares(cell: Any, missing: Collection[str]) -> ShareOf | None:
    if cell is None or (isinstance(cell, str | float) and (canonical(cell) or "") in {*missing, ""}):
        return None
    pairs = list(cell.items()) if isinstance(cell, Mapping) else _pairs(cell)
    found = [(canonical(name) or "", share) for name, share in pairs if share is not None]
    if not found:
        raise DataError(f"is an empty distribution: {_EXAMPLE}, or empty the cell")
    names = [name for name, _ in found]
    if twice := [name for name in names if names.count(name) > 1 or not name]:
        what = f"names the class {twice[0]!r} twice" if twice[0] else "has a class without a name"
        raise DataError(f"{what}: {_EXAMPLE}")
    for name, share in found:
        is_number = isinstance(share, numbers.Real) and not isinstance(share, bool | np.bool_)
        if not is_number or not 0 <= share <= 1 + _TOLERANCE:
            raise DataError(
                f"gives the class {name!r} the share {shortened(str(share), 40)}, not one from 0 to 1: {_EXAMPLE}"
            )
    total = math.fsum(share for _, share in found)
    if abs(total - 1) > _TOLERANCE:
        raise DataError(f"has shares that sum to {total:.4g}, and not to 1: {_EXAMPLE}")
    return {name: share / total for name, share in found}


def _pairs(cell: Any) -> list[tuple[str, Any]]:
    """Return the keys and values of the JSON text of an object; a key may come twice."""
    pairs = json_value(cell, object_pairs_hook=_Pairs) if isinstance(cell, str) else None
    if not isinstance(pairs, _Pairs):
        raise DataError(
            f"is {shortened(str(cell), 60)!r}, not a distribution: {_EXAMPLE}, as `attribune data distributions` "
            "makes them of single judgements, or leave soft_labels out"
        )
    return pairs


class _Pairs(list[tuple[str, Any]]):
    """The pairs of a JSON object."""


def _encode_shares(
    shares: Sequence[ShareOf | None], classes: Sequence[str], *, first_row: int = 1
) -> tuple[Array, Array]:
    """Return shares as float32 (n, C), and a mask (n,), False for a missing label.

    Raises:
        DataError: naming the row of a class that is none of `classes` and has a share.
    """
    index = {name: number for number, name in enumerate(classes)}
    labels = np.zeros((len(shares), len(classes)), dtype=np.float32)
    for row, cell in enumerate(shares):
        for name, share in (cell or {}).items():
            if name in index:
                labels[row, index[name]] = share
            elif share:
                raise RowError(
                    "the label of ",
                    first_row + row,
                    f" gives the share {share:.4g} to {name!r}, which is not among the classes "
                    f"({', '.join(map(repr, classes))}): name all of them with task.classes",
                )
    return labels, np.array([cell is not None for cell in shares], dtype=bool)


def _named_as(shares: Sequence[ShareOf | None], classes: Sequence[str]) -> list[ShareOf | None]:
    """Return shares whose keys are written as the classes that are the same numbers."""

    def key(name: str) -> float | str:
        number = number_of(name)
        return name if number is None else number

    names = {key(name): name for name in classes}
    named: list[ShareOf | None] = []
    for cell in shares:
        found: dict[str, float] = defaultdict(float)
        for name, share in (cell or {}).items():
            found[names.get(key(name), name)] += share
        named.append(None if cell is None else found)
    return named


def level_numbers(classes: Sequence[str]) -> Array:
    """Return the numbers (C,) that ordered classes are, or 1 to C in their order if they are other names."""
    numbers = list(map(number_of, classes))
    return np.arange(1.0, len(classes) + 1) if None in numbers else np.array(numbers, dtype=np.float64)


def log_frequencies(ids: Array, classes: int) -> Array:
    """Return the logarithm (C,) of the share of each class among known ids; -27.6 for a class without a row."""
    seen = ids[ids >= 0]
    if len(seen) == 0:
        raise DataError("none of the training labels is known: fit the task on the labels of these training rows")
    return np.asarray(np.log(np.maximum(np.bincount(seen, minlength=classes) / len(seen), 1e-12)))


def log_losses(nats: Array, labels: Array) -> Array:
    """Return -log p (n,) of the labels (n,), given that of all answers (n, K); log K for labels outside 0..K-1."""
    answers = nats.shape[1]
    known = (labels >= 0) & (labels < answers)
    own = np.take_along_axis(nats, np.where(known, labels, 0)[:, None], axis=1)[:, 0]
    return np.where(known, own, np.log(answers))


def checked_logits(logits: Array, outputs: int) -> Array:
    """Return finite logits (n, outputs) as float64; DataError for another shape, NaN or infinity."""
    logits = np.asarray(logits, dtype=np.float64)
    if logits.ndim != 2 or logits.shape[1] != outputs:
        raise DataError(f"logits have shape {logits.shape}: this task needs (rows, {outputs})")
    finite = np.isfinite(logits).all(axis=1)
    if not finite.all():
        raise DataError(
            f"the model's output is not finite in {int((~finite).sum())} of {len(logits)} rows, first in row"
            f" {int(finite.argmin())}: the training diverged; lower the learning rate or train in float32"
        )
    return logits


def unknown(texts: Sequence[str | None], classes: Sequence[str]) -> Counter[str]:
    """Count the texts that are present and not among the classes."""
    known = frozenset(classes)
    return Counter(text for text in texts if text is not None and text not in known)

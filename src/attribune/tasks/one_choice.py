"""Tasks with one column of labels, of which a codec says what they are."""

from __future__ import annotations

from abc import abstractmethod
from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING

from attribune.metrics.metric import Metric
from attribune.tasks.base import Task, checked_logits
from attribune.tasks.codecs import Choice, LabelCodec
from attribune.tasks.labels import Array, Column, require_columns

if TYPE_CHECKING:
    from torch import Tensor

__all__ = ["OneChoice"]


class OneChoice(Task):
    """The interface of a task that chooses one class of each row, or any number of them, beside that of all tasks."""

    @property
    @abstractmethod
    def codec(self) -> LabelCodec:
        """What the labels of a row are."""

    @property
    def choices(self) -> tuple[Choice, ...]:
        """The one among the classes."""
        return (Choice(codec=self.codec),)

    def encode_labels(self, columns: Sequence[Column], *, first_row: int = 1) -> tuple[Array, Array]:
        """Return class ids int64 (n,), or float32 (n, C + 1) for several labels, and the mask of labelled rows.

        Distributions are float32 (n, C). DataError for a label that must be a number and is none.
        """
        require_columns(columns, ["label"], task=self.kind)
        return self.codec.encode(columns[0], first_row=first_row)

    def class_counts(self, labels: Array) -> dict[str, int]:
        """Count the rows of each class; distributions have none."""
        return self.codec.counts(labels)

    def unseen_labels(self, columns: Sequence[Column]) -> Counter[str]:
        """Count the labels that are not among the classes; distributions have none."""
        require_columns(columns, ["label"], task=self.kind)
        return self.codec.unseen(columns[0])

    def label_notes(self, columns: Sequence[Column]) -> list[str]:
        """Say how many distributions have no single most frequent class, and which labels of lists mean missing."""
        return self.codec.notes(columns[0])

    def loss(self, logits: Tensor, labels: Tensor) -> Tensor:
        """Return the weighted cross-entropy, or the binary cross-entropy for several labels per row."""
        return self.codec.loss(logits, labels)

    def row_losses(self, logits: Tensor, labels: Tensor) -> Tensor:
        """Return the weighted loss of each row; zero for a class that no training row has."""
        return self.codec.row_losses(logits, labels)

    def row_counts(self, labels: Tensor) -> Tensor:
        """Return the weights of the rows' classes; 1 for several labels per row."""
        return self.codec.row_counts(labels)

    @property
    def has_free_dispersion(self) -> bool:
        """Whether a row has several labels: the loss is a mean over classes, which are not independent."""
        return not self.codec.has_one_class

    def answer_probabilities(self, logits: Array) -> Array | None:
        """Return the probabilities (n, C) of the classes, unless a row may have several."""
        checked, codec = checked_logits(logits, self.outputs), self.codec
        return codec.chances(checked) if codec.has_one_class else None

    def proper_score(self, logits: Array, labels: Array) -> Metric | None:
        """Return the log loss, or of several labels the mean over the classes of that of each."""
        own = self.codec.proper_score(checked_logits(logits, self.outputs), labels)
        return super().proper_score(logits, labels) if own is None else own

    def prior(self, train_labels: Array) -> Array:
        """Return the log frequencies of the classes, or their log odds for several labels per row."""
        return self.codec.prior(train_labels)

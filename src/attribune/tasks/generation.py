"""A text per row, which the model writes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Self

import numpy as np

from attribune.core.arrays import Array
from attribune.core.config import checked_dataclass
from attribune.core.hashing import text_numbers
from attribune.errors import ConfigError
from attribune.metrics import formulas as metric
from attribune.metrics.metric import Metric
from attribune.schema.columns import MISSING
from attribune.tasks.base import Decoded, Task, TaskHead, checked_logits
from attribune.tasks.codecs import PerToken
from attribune.tasks.inputs import TaskInput, WrittenText
from attribune.tasks.labels import Column, MissingTexts, label_texts

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True, kw_only=True)
class Texts(PerToken):
    """The texts that are written; the label of a row is a hash of them, int64 (n,)."""

    def check(self, columns: Sequence[Column], *, task: str) -> None:
        """Check that there is a column."""
        if not columns:
            raise ConfigError(f"the task {task!r} was given no column: name the columns of the text")

    def encode(self, columns: Sequence[Column], *, first_row: int = 1) -> tuple[Array, Array]:
        """Return a hash of each text, and the mask of rows in which every column has a text."""
        texts = [label_texts(column, missing=self.missing, first_row=first_row) for column in columns]
        rows = list(zip(*texts, strict=True))
        has_text = np.array([None not in row for row in rows], dtype=bool)
        return text_numbers(map(repr, rows)).view(np.int64), has_text


@checked_dataclass(kw_only=True)
class Generation(Task):
    """Write one text per row, learned by the cross-entropy of its ids given all ids before them.

    The text itself is predicted; there is no other label. The model returns two scores per row: the negative
    log-likelihood of the text in nats, and the number of its ids, including the end token unless the text was cut. The
    label of a row is a hash of its text, which identifies runs over the same rows.

    Args:
        missing: strings that mean a missing text.
    """

    kind: ClassVar[str] = "generation"
    pipeline: ClassVar[str] = "text-generation"
    input: ClassVar[TaskInput] = WrittenText()
    main_metric: ClassVar[str] = "perplexity"
    outputs: ClassVar[int] = 2
    head: ClassVar[TaskHead] = TaskHead(outputs=0)
    missing: MissingTexts = MISSING

    @classmethod
    def fit(cls, label_columns: Sequence[Column], *, missing: Sequence[str] = MISSING) -> Self:
        """Return the task; training rows say nothing about it."""
        return cls(missing=missing)

    @property
    def codec(self) -> Texts:
        """What the labels of a row are."""
        return Texts(missing=self.missing)

    def scores(self, logits: Tensor, labels: Tensor) -> Tensor:
        """Return the negative log-likelihood in nats and the number of ids of each row, (B, 2) float32."""
        from attribune.tasks.losses import token_scores

        return token_scores(logits, labels)

    def decode(self, logits: Array) -> Decoded:
        """Return the perplexity and the number of ids of each text, of scores (n, 2)."""
        nats, ids = checked_logits(logits, self.outputs).T
        perplexity = np.exp(nats / np.maximum(ids, 1))  # a text may have no ids
        predictions = {"perplexity": perplexity, "tokens": ids.astype(np.int64)}
        return Decoded(predictions=dict(predictions), probabilities=None, probability_columns=())

    def metrics(self, logits: Array, labels: Array) -> dict[str, Metric]:
        """Return the perplexity per id, of scores (n, 2)."""
        nats, ids = checked_logits(logits, self.outputs).T
        result = metric.perplexity(nats, ids)
        return {result.name: result}

    def majority(self, train_labels: Array, labels: Array) -> dict[str, Metric]:
        """Raise ConfigError: no text can stand for all."""
        raise ConfigError("the task 'generation' has no majority class: compare with another method instead")

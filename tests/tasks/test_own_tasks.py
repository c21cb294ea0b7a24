"""Tasks of other packages: with a codec of the library, or with labels and a loss of their own."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
import pytest
import torch

from attribune.errors import ConfigError
from attribune.metrics import formulas
from attribune.metrics.metric import Metric
from attribune.tasks import Classification, Decoded, Task
from attribune.tasks.codecs import Numbers, One
from attribune.tasks.labels import UNSEEN


@dataclass(frozen=True, kw_only=True)
class Answer(Task):
    """One of a few answers, decoded alone."""

    kind: ClassVar[str] = "answer"
    main_metric: ClassVar[str] = "accuracy"
    outputs: ClassVar[int] = 2

    @classmethod
    def fit(cls, label_columns: Sequence[Any]) -> Self:
        return cls()

    def decode(self, logits: Any) -> Decoded:
        return Decoded(predictions={"prediction": logits.argmax(axis=1)}, probabilities=None, probability_columns=())

    def metrics(self, logits: Any, labels: Any) -> dict[str, Metric]:
        return {"accuracy": formulas.accuracy(labels, logits.argmax(axis=1))}


class Known(Answer):
    codec = One(classes=("no", "yes"))


class Halves(Answer):
    """Labels are numbers, and the loss is of its own."""

    def encode_labels(self, columns: Sequence[Any], *, first_row: int = 1) -> tuple[Any, Any]:
        return np.array(columns[0], dtype=np.float32), np.ones(len(columns[0]), dtype=bool)

    def loss(self, logits: Any, labels: Any) -> Any:
        return (logits[:, 0] / 2 - labels).square().mean()


def test_a_codec_stands_for_all_that_depends_on_labels() -> None:
    task, cells = Known(), ["yes", "no", "", "maybe", "yes"]
    like = Classification(classes=("no", "yes"), missing=())
    labels, is_labelled = task.encode_labels([cells])
    assert (labels[is_labelled].tolist(), is_labelled.tolist()) == ([1, 0, UNSEEN, 1], [True, True, False, True, True])
    assert task.unseen_labels([cells]) == {"maybe": 1}
    logits, known = torch.randn(4, 2), torch.from_numpy(labels[is_labelled])
    assert task.loss(logits, known) == like.loss(logits, known)
    assert torch.equal(task.row_losses(logits, known), like.row_losses(logits, known))
    assert task.prior(known.numpy()).tolist() == like.prior(known.numpy()).tolist()
    assert task.majority(known.numpy(), known.numpy())["accuracy"].value() == 0.5
    proper = task.proper_score(logits.numpy(), known.numpy())
    assert proper.name == "log_loss"


def test_a_loss_of_its_own_is_that_of_each_row() -> None:
    task, labels = Halves(), torch.tensor([1.0, 2.0, 4.0])
    logits, weights = torch.tensor([[2.0, 0.0]] * 3), torch.tensor([1.0, 3.0, 0.0])
    assert task.row_losses(logits, labels).tolist() == [0, 1, 9]
    assert task.row_counts(labels).tolist() == [1, 1, 1]
    assert float(task.weighted_loss(logits, labels, weights)) == pytest.approx(3 / 4)
    assert not task.unseen_labels([[1, 2]])
    assert not task.codec_for({}).outside([[1, 2]]).any()
    assert task.proper_score(logits.numpy(), labels.numpy()) is None
    with pytest.raises(ConfigError, match="has no prior: define it, or majority"):
        task.prior(labels.numpy())


def test_numbers_are_in_their_unit_again() -> None:
    codec = Numbers(mean=10.0, std=2.0)
    labels, is_labelled = codec.encode([["12", "", "6"]])
    assert labels[is_labelled].tolist() == [1, -2]
    assert np.array_equal(np.asarray(codec.numbers(labels[is_labelled])), [12, 6])

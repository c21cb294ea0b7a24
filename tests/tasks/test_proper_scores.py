"""The proper score of each task: its formula, and that no other prediction has a better one than the truth."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy.special import log_softmax, softmax

from attribune.tasks import Aspects, Classification, Ordinal, Preference, Rating, Regression, Similarity, Tags, Task
from attribune.tasks.labels import UNSEEN
from attribune.tasks.tokens import object_array

RNG = np.random.default_rng(0)
LOGITS = RNG.normal(size=(40, 3))
LABELS = RNG.integers(0, 3, 40)
ROWS = np.arange(40)


def of_classes(labels: Any) -> float:
    return float(-log_softmax(LOGITS, axis=1)[ROWS, labels].mean())


@pytest.mark.parametrize("task", [Classification(classes=("a", "b", "c")), Rating(classes=("1", "2", "3"))])
def test_of_one_answer_it_is_the_log_loss(task: Task) -> None:
    found = task.proper_score(LOGITS, LABELS)
    assert found is not None
    assert (found.name, found.value()) == ("log_loss", pytest.approx(of_classes(LABELS)))
    unseen = np.where(ROWS < 4, UNSEEN, LABELS)
    some = task.proper_score(LOGITS, unseen)
    known = task.proper_score(LOGITS[4:], LABELS[4:])
    assert some is not None
    assert known is not None
    assert len(some) == 40, "rows stay, so that clusters of rows remain"
    assert some.value() == pytest.approx((4 * np.log(3) + 36 * known.value()) / 40)


def test_of_ordered_answers_it_is_their_log_loss() -> None:
    task = Ordinal(classes=("1", "2", "3"))
    p = task.codec.answers(LOGITS)
    found = task.proper_score(LOGITS, LABELS)
    assert p is not None
    assert found is not None
    assert found.value() == pytest.approx(-np.log(p[ROWS, LABELS]).mean())


def test_of_distributions_it_is_the_cross_entropy() -> None:
    shares = softmax(RNG.normal(size=(40, 3)), axis=1)
    found = Classification(classes=("a", "b", "c"), soft_labels=True).proper_score(LOGITS, shares)
    assert found is not None
    assert found.name == "cross_entropy"
    assert found.value() == pytest.approx(-(shares * log_softmax(LOGITS, axis=1)).sum(axis=1).mean())


def test_of_several_answers_it_is_the_mean_log_loss_of_each() -> None:
    true = RNG.integers(0, 2, (40, 3))
    p = 1 / (1 + np.exp(-LOGITS))
    found = Classification(classes=("a", "b", "c"), multi_label=True).proper_score(LOGITS, true)
    assert found is not None
    assert found.value() == pytest.approx(-np.log(np.where(true > 0, p, 1 - p)).mean())


def test_of_numbers_it_is_the_error_in_their_unit() -> None:
    found = Regression(mean=3.0, std=2.0).proper_score(LOGITS[:, :1], LOGITS[:, 1])
    assert found is not None
    assert found.name == "rmse"
    assert found.value() == pytest.approx(2 * np.sqrt(np.square(LOGITS[:, 0] - LOGITS[:, 1]).mean()))


def test_of_preferences_it_is_the_log_loss_of_the_preferred() -> None:
    labels = RNG.integers(0, 2, 40)
    task = Preference()
    found = task.proper_score(LOGITS[:, :2], labels)
    assert found is not None
    assert found.value() == pytest.approx(task.metrics(LOGITS[:, :2], labels)["log_loss"].value())


def test_of_aspects_it_is_the_mean_log_loss() -> None:
    task = Aspects(names=("x", "y"), classes=(("a", "b"), ("c", "d", "e")))
    logits, labels = RNG.normal(size=(40, 5)), np.stack([RNG.integers(0, 2, 40), RNG.integers(0, 3, 40)], axis=1)
    losses = [
        -log_softmax(logits[:, :2], axis=1)[ROWS, labels[:, 0]],
        -log_softmax(logits[:, 2:], axis=1)[ROWS, labels[:, 1]],
    ]
    found = task.proper_score(logits, labels)
    assert found is not None
    assert found.value() == pytest.approx(np.mean(losses))


def test_of_tags_it_is_the_log_loss_of_a_word() -> None:
    sizes = [3, 1, 5]
    ends = np.cumsum(sizes)[:-1]
    labels = object_array([tuple(part.tolist()) for part in np.split(LABELS[:9], ends)])
    found = Tags(classes=("a", "b", "c")).proper_score(object_array(np.split(LOGITS[:9], ends)), labels)
    assert found is not None
    assert len(found) == 3
    assert found.value() == pytest.approx(-log_softmax(LOGITS[:9], axis=1)[np.arange(9), LABELS[:9]].mean())


def test_of_similarities_there_is_none() -> None:
    assert Similarity(form="scores").proper_score(LOGITS[:, :1], LOGITS[:, 1]) is None


def test_a_certain_mistake_is_a_finite_loss() -> None:
    found = Classification(classes=("a", "b")).proper_score(np.array([[2_000.0, 0.0], [0.0, 0.0]]), np.array([1, 0]))
    assert found is not None
    assert np.isfinite(found.value())

"""The proper score of each task: its formula, and what it makes of labels that no training row has."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy.special import expit, log_softmax, softmax

from attribune.tasks import Aspects, Classification, Ordinal, Preference, Rating, Regression, Similarity, Tags, Task
from attribune.tasks.labels import UNSEEN
from attribune.tasks.tokens import object_array

RNG = np.random.default_rng(0)
LOGITS = RNG.normal(size=(40, 3))
LABELS = RNG.integers(0, 3, 40)
ROWS = np.arange(40)
CLASSES = ("a", "b", "c")


def log_loss(logits: Any, labels: Any) -> float:
    return float(-log_softmax(logits, axis=1)[np.arange(len(logits)), labels].mean())


def score(task: Task, logits: Any, labels: Any) -> tuple[str, float]:
    found = task.proper_score(logits, labels)
    assert len(found) == len(labels)
    return found.name, pytest.approx(found.value())


def test_of_one_answer_it_is_the_log_loss() -> None:
    expected = ("log_loss", log_loss(LOGITS, LABELS))
    assert score(Classification(classes=CLASSES), LOGITS, LABELS) == expected
    assert score(Rating(classes=("1", "2", "3")), LOGITS, LABELS) == expected
    ordered = Ordinal(classes=("1", "2", "3"))
    p = ordered.codec.answers(LOGITS)[ROWS, LABELS]
    assert score(ordered, LOGITS, LABELS) == ("log_loss", -np.log(p).mean())
    two = LABELS % 2
    assert score(Preference(), LOGITS[:, :2], two) == ("log_loss", log_loss(LOGITS[:, :2], two))


def test_of_several_answers_it_is_their_mean() -> None:
    several, p = RNG.integers(0, 2, (40, 3)), expit(LOGITS)
    of_labels = -np.log(np.where(several > 0, p, 1 - p)).mean()
    assert score(Classification(classes=CLASSES, multi_label=True), LOGITS, several) == ("log_loss", of_labels)
    aspects = Aspects(names=("x", "y"), classes=(("a", "b"), CLASSES))
    logits, labels = RNG.normal(size=(40, 5)), np.stack([LABELS % 2, LABELS], axis=1)
    of_aspects = (log_loss(logits[:, :2], labels[:, 0]) + log_loss(logits[:, 2:], labels[:, 1])) / 2
    assert score(aspects, logits, labels) == ("log_loss", of_aspects)
    words, tags = np.split(LOGITS[:9], [3, 4]), [tuple(part.tolist()) for part in np.split(LABELS[:9], [3, 4])]
    found = score(Tags(classes=CLASSES), object_array(words), object_array(tags))
    assert found == ("log_loss", log_loss(LOGITS[:9], LABELS[:9])), "over words"


def test_of_shares_and_numbers_it_is_another_error() -> None:
    shares = softmax(RNG.normal(size=(40, 3)), axis=1)
    cross_entropy = -(shares * log_softmax(LOGITS, axis=1)).sum(axis=1).mean()
    assert score(Classification(classes=CLASSES, soft_labels=True), LOGITS, shares) == ("cross_entropy", cross_entropy)
    rmse = 2 * np.sqrt(np.square(LOGITS[:, 0] - LOGITS[:, 1]).mean())
    assert score(Regression(mean=3.0, std=2.0), LOGITS[:, :1], LOGITS[:, 1]) == ("rmse", rmse), "in their unit"
    assert Similarity(form="scores").proper_score(LOGITS[:, :1], LOGITS[:, 1]) is None


@pytest.mark.parametrize("task", [Classification(classes=CLASSES), Rating(classes=("1", "2", "3"))])
def test_unseen_labels_cost_what_guessing_does(task: Task) -> None:
    """Their rows stay, so that clusters of rows remain."""
    some = task.proper_score(LOGITS, np.where(ROWS < 4, UNSEEN, LABELS))
    assert len(some) == 40
    assert some.value() == pytest.approx((4 * np.log(3) + 36 * log_loss(LOGITS[4:], LABELS[4:])) / 40)


def test_a_certain_mistake_is_a_finite_loss() -> None:
    found = Classification(classes=("a", "b")).proper_score(np.array([[2_000.0, 0.0], [0.0, 0.0]]), np.array([1, 0]))
    assert np.isfinite(found.value())

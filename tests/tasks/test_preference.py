"""The task that compares two texts: labels of all kinds, ties, metrics, and what it refuses."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch
from drawn_values import drawn_labels
from sklearn.metrics import accuracy_score, log_loss
from task_checks import figures, through_json

from attribune.errors import ConfigError, DataError
from attribune.tasks import UNSEEN, Preference, fit_task

FIRST, SECOND = ["good one", "b", "c", "d"], ["bad one", "bb", "cc", "dd"]


def fitted(cells: list[Any], **options: Any) -> Preference:
    return Preference.fit([cells, FIRST[: len(cells)], SECOND[: len(cells)]], **options)


NUMBERS = [("1", "2"), (1, 2), (1.0, 2.0)]
NAMES = [("first", "second"), ("First", "Second"), ("a", "b"), ("A", "B"), ("model_a", "model_b"), *NUMBERS]


@pytest.mark.parametrize("names", NAMES)
def test_usual_labels_are_understood(names: tuple[Any, Any]) -> None:
    columns = [[names[1], names[0], "tie", names[1]], FIRST, SECOND]
    task = Preference.fit(columns)
    labels, keep = task.encode_labels(columns)
    assert labels[keep].tolist() == [1, 0, 1]
    assert keep.tolist() == [True, True, False, True]
    assert labels.dtype == np.int64
    assert task.codec.notes(columns) == ["1 row is a tie and is left out"]


def test_other_labels_are_named() -> None:
    task = fitted(["a2", "a1", "equal", "none"], labels=["a1", "a2"], ties=["equal", "none"])
    assert (task.labels, task.ties) == (("a1", "a2"), ("equal", "none"))
    assert task.encode_labels([["a1", "none", "a2"]])[0].tolist() == [0, UNSEEN, 1]
    assert fitted([1, 0], labels=[1, 0]).encode_labels([[0, 1.0]])[0].tolist() == [1, 0]
    assert fitted(["NA", "2", "1"], ties="NA", missing=["NA"]).ties == ("NA",)


def test_without_labels_the_first_text_is_preferred() -> None:
    columns = [["chosen", "same", "", None, "x"], ["rejected", " same ", "y", "z", float("nan")]]
    task = Preference.fit(columns)
    labels, keep = task.encode_labels(columns)
    assert labels[keep].tolist() == [0]
    assert keep.tolist() == [True, False, False, False, False]
    assert task.codec.notes(columns) == ["1 row has the same text twice and is left out"]


def test_missing_labels_and_texts_are_left_out() -> None:
    task = fitted(["first", "second"])
    cells = ["first", None, "nan", " ", "second", "first", "tie"]
    columns = [cells, ["a"] * 5 + ["", "e"], ["b"] * 4 + ["a", "c", "e"]]
    assert task.encode_labels(columns)[1].tolist() == [True] + [False] * 6
    ties = ["1 row is a tie and is left out", "1 row has the same text twice and is left out"]
    assert task.codec.notes(columns) == ties
    assert task.unseen_labels(columns) == {}


PAIR = ["first", "second"]


@pytest.mark.parametrize(
    ("labels", "options", "message"),
    [
        (["east", "west"], {}, r"the labels are 'east', 'west': name the label of the first text"),
        ([0, 1], {}, "the labels are '0', '1': name the label of the first"),
        ([True, False], {}, "the labels are 'false', 'true': name the label of the first"),
        (["a", "B"], {}, "the labels are 'B', 'a': name the label of the first"),
        (["a", "b", "c"], {}, "the labels are 'a', 'b', 'c': name the label of the first"),
        (["a", "b"], {"labels": ["a"]}, "has 1 class"),
        (["a", "b"], {"labels": ["a", "b", "c"]}, r"labels is \['a', 'b', 'c'\]: give a list of two"),
        (["a", "b"], {"labels": ["a", "a"]}, r"name \['a'\] more than once"),
        (["a", "b"], {"labels": "ab"}, "labels is 'ab': give a list of two"),
        (["a", "b"], {"labels": ["a", "b"], "ties": ["b"]}, "the label 'b' is a preference and a tie"),
        (["a", "b"], {"ties": {"tie": 1}}, r"ties is \{'tie': 1\}: give a list of labels"),
        (["a", "b"], {"score_by": "f1"}, "a preference has the metrics accuracy, log_loss"),
    ],
)
def test_settings_that_labels_do_not_have_are_refused(labels: list[Any], options: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        fitted(labels, **options)


@pytest.mark.parametrize(
    ("labels", "options", "message"),
    [
        (["first"] * 2, {}, "every training label is 'first': where the first text is always the prefer"),
        (["1", "1"], {}, "every training label is '1'"),
        (["tie", None], {}, "no training row has a label that prefers a text"),
        ([], {}, "no training row has a label that prefers a text"),
        (["x", "y"], {"labels": PAIR}, "the label of row 1 is 'x', which is none of first, seco"),
        (["tie"] * 2, {"labels": PAIR}, "no training row has two different texts of which"),
        ([["a"], "b"], {}, "row 1 is the list"),
    ],
)
def test_labels_that_say_nothing_are_refused(labels: list[Any], options: dict[str, Any], message: str) -> None:
    with pytest.raises(DataError, match=message):
        fitted(labels, **options)


def test_other_columns_are_refused() -> None:
    with pytest.raises(ConfigError, match="at most one label column beside its two texts, and was given 4 columns"):
        Preference.fit([["a"]] * 4)
    with pytest.raises(ConfigError, match=r"has no option classes; did you mean 'labels'\? It has labels, ties"):
        fit_task("preference", [["first", "second"]], classes=["a", "b"])
    with pytest.raises(DataError, match="row 8 is 'third', which is none of first, second, tie, equal: correct the ce"):
        Preference().encode_labels([["first", "third"]], first_row=7)


def test_predictions_are_rewards_and_probabilities() -> None:
    task = fitted(["a", "b"])
    decoded = task.decode(np.array([[1.0, -1.0], [0.0, 800.0], [2.0, 2.0]])).columns()
    assert list(decoded) == ["prediction", "reward_a", "reward_b", "probability_a", "probability_b"]
    assert decoded["prediction"] == ["a", "b", "a"]
    assert decoded["reward_b"].tolist() == [-1.0, 800.0, 2.0]
    assert decoded["probability_a"].tolist() == pytest.approx([1 / (1 + math.exp(-2)), 0.0, 0.5])
    assert task.codec.answers(np.zeros((1, 2))).tolist() == [[0.5, 0.5]]
    with pytest.raises(DataError, match="not finite in 1 of 1 rows"):
        task.decode(np.array([[np.nan, 0.0]]))


def test_metrics_are_those_of_scikit_learn() -> None:
    generator = np.random.default_rng(0)
    logits, labels = 2 * generator.normal(size=(53, 2)), generator.integers(0, 2, size=53)
    task = Preference()
    metrics = figures(task.metrics(logits, labels))
    assert list(metrics) == ["accuracy", "log_loss"]
    assert metrics["accuracy"] == pytest.approx(accuracy_score(labels, logits.argmax(axis=1)))
    assert metrics["log_loss"] == pytest.approx(log_loss(labels, task.codec.answers(logits)))
    assert figures(task.metrics(logits[:, ::-1], 1 - labels))["log_loss"] == pytest.approx(metrics["log_loss"])
    by_loss = fitted(["a", "b"], score_by="log_loss")
    assert (by_loss.main_metric, by_loss.higher_is_better) == ("log_loss", False)
    assert list(by_loss.metrics(logits, labels)) == ["log_loss", "accuracy"]
    with pytest.raises(DataError, match="1 labels for 53 rows"):
        task.metrics(logits, labels[:1])


def test_guessing_is_right_half_of_the_time() -> None:
    """Where the first text is always preferred, a constant that knew it would be always right."""
    labels = np.zeros(9, dtype=np.int64)
    assert figures(Preference().majority(labels, labels)) == pytest.approx({"accuracy": 0.5, "log_loss": math.log(2)})


@pytest.mark.slow
def test_rows_without_a_label_teach_nothing() -> None:
    task, logits = Preference(), torch.randn(3, 2, requires_grad=True)
    loss = task.loss(logits, torch.tensor([UNSEEN, 1, UNSEEN]))
    assert loss == task.row_losses(logits, torch.tensor([UNSEEN, 1, UNSEEN]))[1]
    (gradient,) = torch.autograd.grad(loss, logits)
    assert (gradient[[0, 2]] == 0).all()
    assert task.loss(logits, torch.full((3,), UNSEEN)) == 0


def test_labels_are_drawn_by_their_probability() -> None:
    logits = torch.tensor([[1.0, 0.0]]).repeat(20_000, 1)
    drawn = drawn_labels(Preference(), logits, torch.Generator().manual_seed(0))
    assert drawn.float().mean() == pytest.approx(1 / (1 + math.e), abs=0.01)


TIED = ["first", "tie", "second", "equal", "first"]
TEXTS = [["a", "b", "c", "d", "e"], ["v", "w", "x", "y", "z"]]


def test_a_tie_may_be_an_answer() -> None:
    task = Preference.fit([TIED, *TEXTS], learn_ties=True)
    labels, keep = task.encode_labels([TIED, *TEXTS])
    assert (labels.tolist(), keep.all()) == ([0, 2, 1, 2, 0], True)
    assert task.tie_share == 2 / 5
    assert task.codec.notes([TIED, *TEXTS]) == []
    same = [["tie", "tie", None], ["a", "a", "b"], ["a", "b", "c"]]
    assert task.encode_labels(same)[1].tolist() == [False, True, False]
    assert task.codec.notes(same) == ["1 row has the same text twice and is left out"]
    link = task.head.build_link()
    assert link(torch.zeros(1, 2)).softmax(dim=1)[0].tolist() == pytest.approx([0.3, 0.3, 0.4])  # as often as they are
    assert Preference().head.build_link() is None
    assert (Preference().outputs, task.outputs, task.answer_names) == (2, 3, ["first", "second", "tie"])
    assert through_json(task) == task
    assert "learn_ties" not in Preference().to_dict()


def test_predictions_and_metrics_with_ties() -> None:
    task = Preference.fit([TIED, *TEXTS], learn_ties=True)
    logits = np.array([[2.0, 0.0, 0.5], [0.0, 0.0, 1.0], [0.0, 3.0, 0.0], [1.0, 1.0, 0.0]])
    decoded = task.decode(logits).columns()
    assert decoded["prediction"] == ["first", "tie", "second", "first"]
    assert decoded["reward_second"].tolist() == [0.0, 0.0, 3.0, 1.0]
    probabilities = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    assert decoded["probability_tie"] == pytest.approx(probabilities[:, 2])
    labels = np.array([0, 2, 0, 1])
    found = task.metrics(logits, labels)
    assert found["accuracy"].value() == (1 + 1 + 0 + 0.5) / 4
    assert found["log_loss"].value() == pytest.approx(log_loss(labels, probabilities))
    proper = task.proper_score(logits, labels)
    assert proper is not None
    assert proper.value() == pytest.approx(log_loss(labels, probabilities))
    majority = {name: one.value() for name, one in task.majority(np.array([0, 2, 1, 2, 0]), labels).items()}
    assert majority["accuracy"] == pytest.approx(1 / 4), "ties are the most frequent answer"
    with pytest.raises(DataError, match=r"logits have shape \(1, 2\): this task needs \(rows, 3\)"):
        task.metrics(np.zeros((1, 2)), np.array([0]))


@pytest.mark.parametrize(
    ("labels", "options", "message"),
    [
        (["first", "second"], {}, r"no training row is a tie of two different texts \(tie, equal\)"),
        (["first", "tie"], {"ties": []}, "name the labels that prefer neither text in ties"),
        (["tie", "tie"], {"labels": ["first", "second"]}, "no training row has two different texts of which"),
        (["first", "tie"], {"learn_ties": "yes"}, "learn_ties is 'yes': give true or false"),
    ],
)
def test_ties_that_cannot_be_learned(labels: list[Any], options: dict[str, Any], message: str) -> None:
    with pytest.raises((ConfigError, DataError), match=message):
        fitted(labels, **{"labels": ["first", "second"], "learn_ties": True, **options})
    with pytest.raises(ConfigError, match="give a number from 0 to below 1"):
        Preference(tie_share=1.0)


def test_a_stored_task_is_the_same() -> None:
    task = fitted(["x", "y"], labels=["x", "y"], ties=["same"])
    assert through_json(task) == task

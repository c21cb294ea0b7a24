"""Classification: one label and several labels per row."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from sklearn import metrics as sk
from sklearn.utils.class_weight import compute_class_weight
from task_checks import figures, through_json

from attribune.errors import ConfigError, DataError
from attribune.tasks import UNSEEN, Classification

TRAIN = ["rotten", "fresh ", None, "fresh", "fresh", "plot"]


def test_fit_takes_the_classes_of_training_rows():
    task = Classification.fit([TRAIN])
    assert task.classes == ("fresh", "plot", "rotten")
    assert task.outputs == 3
    assert (task.kind, task.main_metric, task.higher_is_better) == ("classification", "accuracy", True)
    assert Classification(classes=3).classes == ("0", "1", "2")


def test_labels_missing_and_unseen():
    task, cells = Classification.fit([TRAIN]), ["plot", "new", "", "fresh", "new"]
    labels, keep = task.encode_labels([cells])
    assert labels.tolist() == [1, UNSEEN, UNSEEN, 0, UNSEEN]
    assert keep.tolist() == [True, True, False, True, True]
    assert task.unseen_labels([[*cells, "other"]]) == {"new": 2, "other": 1}


def test_given_classes_keep_their_order():
    task = Classification.fit([["b", "a"]], classes=["b", "a", "None"])
    assert task.classes == ("b", "a", "None")
    assert task.encode_labels([["None", "a"]])[0].tolist() == [2, 1]


def test_loss_equals_torch_with_and_without_weights():
    logits = torch.randn(7, 3, generator=torch.Generator().manual_seed(0))
    labels = torch.tensor([0, 1, UNSEEN, 2, 1, UNSEEN, 0])
    weights = (0.5, 1.0, 4.0)
    plain, weighted = Classification(classes=3), Classification(classes=3, class_weights=weights)
    expected = torch.nn.functional.cross_entropy(logits, labels)
    torch.testing.assert_close(plain.loss(logits, labels), expected)
    expected = torch.nn.functional.cross_entropy(logits, labels, weight=torch.tensor(weights))
    torch.testing.assert_close(weighted.loss(logits, labels), expected)


@pytest.mark.parametrize("weights", [None, (0.5, 1.0, 4.0)])
def test_a_batch_of_unseen_labels_has_zero_loss_and_gradient(weights):
    logits = torch.randn(4, 3, requires_grad=True)
    loss = Classification(classes=3, class_weights=weights).loss(logits, torch.full((4,), UNSEEN))
    loss.backward()
    assert loss.item() == 0.0
    assert torch.equal(logits.grad, torch.zeros(4, 3))


def test_loss_of_half_precision_is_float32():
    logits = torch.randn(4, 3).bfloat16().requires_grad_()
    loss = Classification(classes=3, class_weights=(1, 2, 3)).loss(logits, torch.tensor([0, 1, 2, 2]))
    loss.backward()
    assert loss.dtype == torch.float32
    assert logits.grad.isfinite().all()


def test_balanced_weights_equal_scikit_learn_and_need_every_class():
    task = Classification.fit([TRAIN], class_weights="balanced")
    known = [text.strip() for text in TRAIN if text]
    expected = compute_class_weight("balanced", classes=np.array(task.classes), y=np.array(known))
    np.testing.assert_allclose(task.class_weights, expected)
    with pytest.raises(DataError, match="no training row has the class 'c'"):
        Classification.fit([["a", "b"]], classes=["a", "b", "c"], class_weights="balanced")


def test_decode():
    task, p = Classification.fit([TRAIN]), [[0.2, 0.7, 0.1], [0.5, 0.25, 0.25]]
    decoded = task.decode(np.log(p))
    assert decoded.predictions == {"prediction": ["plot", "fresh"]}
    assert decoded.probability_columns == ("probability_fresh", "probability_plot", "probability_rotten")
    np.testing.assert_allclose(decoded.probabilities, p)
    columns = decoded.columns()
    assert list(columns) == ["prediction", *decoded.probability_columns]
    np.testing.assert_allclose(columns["probability_plot"], [0.7, 0.25])
    large = Classification(classes=2).decode(np.array([[1e4, -1e4]], dtype=np.float32))
    assert large.probabilities.tolist() == [[1.0, 0.0]]


def test_metrics_count_unseen_labels_as_wrong():
    found = figures(Classification(classes=3).metrics(np.eye(3)[[0, 1, 1, 2]], np.array([0, 1, UNSEEN, 0])))
    assert list(found) == ["accuracy", "macro_f1"]
    expected = sk.f1_score([0, 1, -100, 0], [0, 1, 1, 2], average="macro", zero_division=0)
    assert found == pytest.approx({"accuracy": 0.5, "macro_f1": expected})


def test_a_positive_class_makes_its_f1_the_main_metric():
    task = Classification(classes=("no", "yes"), positive="yes", class_weights=(0.5, 1.0))
    found = figures(task.metrics(np.eye(2)[[1, 1, 0, 0]], np.array([1, 0, 1, 0])))
    assert task.main_metric == "f1"
    assert list(found) == ["f1", "accuracy", "macro_f1"]
    assert found["f1"] == 0.5


def test_majority_predicts_the_most_frequent_training_class():
    found = Classification(classes=3).majority(np.array([2, 2, 0, UNSEEN, UNSEEN, UNSEEN]), np.array([2, 0, 2, 1, 2]))
    assert found["accuracy"].value() == pytest.approx(3 / 5)
    with pytest.raises(DataError, match="none of the training labels is known"):
        Classification(classes=3).majority(np.array([UNSEEN]), np.array([0]))


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_output_that_is_not_finite_or_of_another_width_is_refused(value):
    task, logits = Classification(classes=3), np.zeros((4, 3))
    logits[2, 1] = value
    for use in (task.decode, lambda x: task.metrics(x, np.zeros(4, int))):
        with pytest.raises(DataError, match="not finite in 1 of 4 rows, first in row 2"):
            use(logits)
    with pytest.raises(DataError, match=r"\(4, 2\): this task needs \(rows, 3\)"):
        task.decode(np.zeros((4, 2)))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"class_weights": "balanced"}, "computed from training rows"),
        ({"class_weights": (1.0,)}, "one positive number for each of the 2 classes"),
        ({"class_weights": (1.0, 0.0)}, "one positive number"),
        ({"class_weights": (1.0, float("nan"))}, "one positive number"),
        ({"class_weights": ("x", 1.0)}, "one positive number"),
        ({"class_weights": 3.0}, "one positive number"),
        ({"positive": "7"}, "positive is '7'"),
        ({"positive": "1", "multi_label": True}, "positive is '1'"),
        ({"separator": "|"}, "separator is"),
        ({"separator": "", "multi_label": True}, "separator is"),
        ({"missing": "NA"}, "missing is 'NA'"),
    ],
)
def test_wrong_options_are_named(options, message):
    with pytest.raises(ConfigError, match=message):
        Classification(classes=2, **options)


def test_a_column_is_no_list_of_columns():
    for labels in (["a", "b"], np.array([1, 2])):
        with pytest.raises(ConfigError, match=r"takes a list of label columns: give one as \[labels\]"):
            Classification.fit(labels)


CELLS = ["a|b", "b", None, "c", "a|b|c"]


def several(**options):
    return Classification.fit([CELLS], multi_label=True, separator="|", **options)


def test_an_empty_separator_is_refused_before_labels_are_read() -> None:
    with pytest.raises(ConfigError, match=r"the separator is empty.*in quotes"):
        Classification.fit([CELLS], multi_label=True, separator="")


def test_several_labels_are_cells_of_zero_and_one():
    task, cells = several(), ["b|a", "", "x|c", "x|y"]
    labels, keep = task.encode_labels([cells])
    assert task.classes == ("a", "b", "c")
    assert labels.tolist() == [[1, 1, 0, 0], [0, 0, 0, 0], [0, 0, 1, 1], [0, 0, 0, 1]]
    assert labels.dtype == np.float32
    assert keep.tolist() == [True, False, True, True]
    assert task.unseen_labels([cells]) == {"x": 2, "y": 1}


def test_an_empty_list_is_a_row_without_labels():
    task = Classification.fit([[["a"], ["b"]]], multi_label=True)
    labels, keep = task.encode_labels([[[], None, ["b"]]])
    assert labels.tolist() == [[0, 0, 0], [0, 0, 0], [0, 1, 0]]
    assert keep.tolist() == [True, False, True]


@pytest.mark.parametrize("weights", [None, [2 / 2, 1 / 3, 2 / 2]])
def test_loss_of_several_labels_equals_torch(weights):
    """Of 4 labelled rows 2 have a, 3 have b, 2 have c."""
    task = several(class_weights=weights and "balanced")
    assert task.class_weights == (weights and pytest.approx(weights))
    logits = torch.randn(3, 3, generator=torch.Generator().manual_seed(1))
    labels = torch.from_numpy(task.encode_labels([["a", "b|c", "x"]])[0])
    expected = torch.nn.functional.binary_cross_entropy_with_logits(
        logits, labels[:, :3], pos_weight=weights and torch.tensor(weights)
    )
    torch.testing.assert_close(task.loss(logits, labels), expected)


def test_several_labels_decode_and_metrics():
    task = several()
    logits = np.array([[3.0, -1.0, 2.0], [-1.0, -1.0, -1.0], [1.0, 1.0, 1.0]])
    labels, _ = task.encode_labels([["a|c", "b", "a|b|c"]])
    decoded = task.decode(logits)
    assert decoded.predictions == {"prediction": [["a", "c"], [], ["a", "b", "c"]]}
    np.testing.assert_allclose(decoded.probabilities, 1 / (1 + np.exp(-logits)))
    found = figures(task.metrics(logits, labels))
    assert list(found) == ["micro_f1", "macro_f1", "subset_accuracy"]
    assert task.main_metric == "micro_f1"
    f1 = {f"{kind}_f1": sk.f1_score(labels[:, :3], logits > 0, average=kind) for kind in ("micro", "macro")}
    assert found == pytest.approx({**f1, "subset_accuracy": 2 / 3})
    assert figures(task.metrics(logits, labels[:, :3])) == found


def test_unseen_of_several_labels_count_as_missed():
    labels, _ = several().encode_labels([["a|new"]])
    found = figures(several().metrics(np.array([[1.0, -1.0, -1.0]]), labels))
    assert found == pytest.approx({"micro_f1": 2 / 3, "macro_f1": 1 / 4, "subset_accuracy": 0.0})


def test_majority_of_several_labels_predicts_those_of_most_rows():
    task = several()
    train, keep = task.encode_labels([CELLS])
    found = task.majority(train[keep], task.encode_labels([["b", "a|b"]])[0])
    assert found["subset_accuracy"].value() == 0.5


@pytest.mark.parametrize(
    "task", [Classification(classes=3, class_weights=(1, 2, 3)), several(class_weights="balanced")]
)
def test_way_through_json(task):
    assert through_json(task) == task


def test_losses_of_rows_keep_the_weights_of_their_classes() -> None:
    task = Classification(classes=2, class_weights=(1.0, 4.0))
    logits, labels = torch.zeros(3, 2), torch.tensor([0, 1, -100])
    torch.testing.assert_close(task.row_losses(logits, labels), torch.tensor([1.0, 4.0, 0.0]) * math.log(2))
    assert Classification(classes=2).row_losses(logits, labels)[:2].tolist() == pytest.approx([math.log(2)] * 2)

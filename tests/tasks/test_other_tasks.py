"""Rating, regression, aspects, and the table of tasks."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from sklearn.metrics import cohen_kappa_score
from task_checks import figures, through_json

from attribune.errors import ConfigError, DataError
from attribune.tasks import (
    TASKS,
    UNSEEN,
    Aspects,
    Classification,
    Ordinal,
    Rating,
    Regression,
    fit_task,
    task_from_dict,
)

STARS = [5, "1.0", "4.5", None, "4.50", 10]
BEER = {"taste": ["3.5", "4", None, "4"], "aroma": ["1", "2", "3", "1"]}
SCALE = ("1", "2", "5")


def test_ratings_are_compared_and_ordered_as_numbers():
    task = Rating.fit([STARS])
    assert task.classes == ("1", "4.5", "5", "10")
    labels, keep = task.encode_labels([["10.00", "4.50", 7, "", 0, 99]])
    assert labels.tolist() == [3, 1, UNSEEN, UNSEEN, UNSEEN, UNSEEN]
    assert labels.dtype == np.int64
    assert keep.tolist() == [True, True, True, False, True, True]
    assert task.unseen_labels([["10.00", "4.50", 7, "7.0", "", 0.5]]) == {"7": 2, "0.5": 1}
    assert Rating(classes=("10", "2")).classes == ("2", "10")


def test_rating_metrics_by_hand():
    found = figures(Rating(classes=SCALE, expected=False).metrics(np.eye(3)[[0, 1, 2, 2]], np.array([0, 2, 2, 0])))
    assert list(found) == ["accuracy", "rmse", "mae"]
    assert found == pytest.approx({"accuracy": 0.5, "rmse": np.sqrt((9 + 16) / 4), "mae": 7 / 4})
    unseen = figures(Rating(classes=SCALE).metrics(np.eye(3)[[1, 2]], np.array([UNSEEN, UNSEEN])))
    assert (unseen["accuracy"], unseen["mae"]) == (0, pytest.approx((3 + 4) / 2)), "as far away as the scale allows"


def test_kappa_of_ratings_is_that_of_ordered_answers():
    """With quadratic weights, of the most probable ratings, an unseen one at the farther end, where it is named."""
    logits = np.random.default_rng(0).normal(size=(50, 4))
    labels = np.where(np.arange(50) % 9 == 4, UNSEEN, np.random.default_rng(1).integers(4, size=50))
    options = {"classes": ("1", "2", "3", "4"), "expected": True, "score_by": ("kappa",)}
    found = figures(Rating(**options).metrics(logits, labels))
    assert list(found) == ["kappa", "accuracy", "rmse", "mae"]
    assert found["kappa"] == pytest.approx(Ordinal(**options).metrics(logits, labels)["kappa"].value())
    known, predicted = labels != UNSEEN, logits.argmax(axis=1)
    expected = cohen_kappa_score(labels[known], predicted[known], weights="quadratic")
    assert Rating(**options).metrics(logits[known], labels[known])["kappa"].value() == pytest.approx(expected)


def test_expected_rating():
    logits = np.log([[0.5, 0.25, 0.25], [0.1, 0.1, 0.8]])
    likely, expected = (Rating(classes=SCALE, expected=expected) for expected in (False, True))
    assert likely.decode(logits).predictions == {"prediction": ["1", "5"]}
    np.testing.assert_allclose(expected.decode(logits).predictions["prediction"], [2.25, 4.3])
    np.testing.assert_allclose(expected.decode(logits).probabilities, np.exp(logits))
    found = expected.metrics(logits, np.array([0, 2]))
    assert found["accuracy"].value() == 1.0
    assert found["mae"].value() == pytest.approx((1.25 + 0.7) / 2)


def test_the_mean_stands_beside_the_most_probable_rating_where_squared_error_counts():
    logits, labels = np.log([[0.5, 0.25, 0.25], [0.1, 0.1, 0.8], [0.1, 0.1, 0.8]]), np.array([1, 2, UNSEEN])
    both, alone = (Rating(classes=SCALE, expected=expected) for expected in (None, False))
    assert both == Rating(classes=SCALE)
    predictions = both.decode(logits).predictions
    assert predictions["prediction"] == ["1", "5", "5"]
    np.testing.assert_allclose(predictions["expected"], [2.25, 4.3, 4.3])
    rmse = np.sqrt((0.25**2 + 0.7**2 + 3.3**2) / 3)
    assert figures(both.metrics(logits, labels)) == pytest.approx(
        figures(alone.metrics(logits, labels)) | {"rmse": rmse}
    )
    assert "rmse of the mean" in both.metrics_note
    assert not alone.metrics_note
    assert through_json(both) == both
    assert task_from_dict(both.to_dict() | {"expected": False}) == alone, "as earlier releases wrote it"


def test_majority_of_ratings_is_the_mode_or_the_mean():
    train, test = np.array([0, 0, 0, 2]), np.array([0])
    assert Rating(classes=SCALE).majority(train, test)["mae"].value() == 0.0
    expected = figures(Rating(classes=SCALE, expected=True).majority(train, test))
    assert (expected["mae"], expected["accuracy"]) == (pytest.approx(1.0), 1.0)


def test_rating_loss_is_cross_entropy():
    logits, labels = torch.randn(3, 3), torch.tensor([0, UNSEEN, 2])
    expected = torch.nn.functional.cross_entropy(logits, labels)
    torch.testing.assert_close(Rating(classes=SCALE).loss(logits, labels), expected)


def test_regression_standardises_by_training_rows():
    task = Regression.fit([[10, "20", None, 30.0]])
    assert (task.mean, task.std) == (20, pytest.approx(np.sqrt(200 / 3)))
    labels, keep = task.encode_labels([["20", "", 30]])
    np.testing.assert_allclose(labels, [0, np.nan, 10 / task.std], rtol=1e-6)
    assert labels.dtype == np.float32
    assert keep.tolist() == [True, False, True]
    assert task.unseen_labels([["7"]]) == {}


def test_regression_predicts_and_measures_in_the_unit_of_the_values():
    task = Regression(mean=100.0, std=10.0)
    logits = np.array([[0.0], [1.0], [-1.0]], dtype=np.float32)
    decoded = task.decode(logits)
    np.testing.assert_allclose(decoded.predictions["prediction"], [100, 110, 90])
    assert decoded.probabilities is None
    assert list(decoded.columns()) == ["prediction"]
    labels, _ = task.encode_labels([[100, 120, 93]])
    found = figures(task.metrics(logits, labels))
    assert list(found) == ["rmse", "mae", "r2"]
    assert found["rmse"] == pytest.approx(np.sqrt((100 + 9) / 3), rel=1e-6)
    assert found["mae"] == pytest.approx(13 / 3, rel=1e-6)
    assert (task.main_metric, task.higher_is_better, task.outputs) == ("rmse", False, 1)


def test_regression_loss_ignores_what_is_missing():
    logits = torch.tensor([[1.0], [5.0], [3.0]], requires_grad=True)
    loss = Regression().loss(logits, torch.tensor([2.0, float("nan"), 0.0]))
    loss.backward()
    assert loss.item() == pytest.approx((1 + 9) / 2)
    torch.testing.assert_close(logits.grad, torch.tensor([[-1.0], [0.0], [3.0]]))
    empty = Regression().loss(logits, torch.full((3,), float("nan")))
    assert (empty.item(), empty.requires_grad) == (0.0, True)


def test_majority_of_numbers_is_the_training_mean():
    task = Regression.fit([[0, 10]])
    train, test = (task.encode_labels([numbers])[0] for numbers in ([0, 10], [8, 2]))
    found = figures(task.majority(train, test))
    assert (found["mae"], found["r2"]) == (pytest.approx(3.0), pytest.approx(0.0, abs=1e-6))


def beer(**options):
    return Aspects.fit(list(BEER.values()), names=list(BEER), **options)


def test_aspects_have_their_own_or_shared_classes():
    assert beer().classes == (("3.5", "4"), ("1", "2", "3"))
    assert beer().outputs == 5
    assert beer(shared=True).classes == (("1", "2", "3", "3.5", "4"),) * 2
    assert Aspects(names=("a", "b"), classes=("x", "y")).classes == (("x", "y"), ("x", "y"))
    given = Aspects(names=("a", "b"), classes={"b": ("x", "y"), "a": ("p", "q", "r")})
    assert given.classes == (("p", "q", "r"), ("x", "y"))
    assert beer(classes=given.classes).classes == given.classes


def test_aspect_labels():
    columns = [["4", "3.5", "9"], ["2", "", "1"]]
    labels, keep = beer().encode_labels(columns)
    assert labels.tolist() == [[1, 1], [0, UNSEEN], [UNSEEN, 0]]
    assert keep.tolist() == [True, False, True]
    assert beer().unseen_labels(columns) == {"taste: 9": 1}


def test_aspect_loss_is_the_mean_over_heads():
    logits, labels = torch.randn(4, 5), torch.tensor([[0, 2], [1, 0], [UNSEEN, 1], [0, 0]])
    taste = torch.nn.functional.cross_entropy(logits[:, :2], labels[:, 0])
    aroma = torch.nn.functional.cross_entropy(logits[:, 2:], labels[:, 1])
    torch.testing.assert_close(beer().loss(logits, labels), (taste + aroma) / 2)
    assert beer().loss(logits, torch.full((4, 2), UNSEEN)).item() == 0.0


def test_aspect_predictions_and_metrics():
    logits = np.array([[2.0, 0, 0, 0, 2], [0, 2, 2, 0, 0], [0, 2, 0, 2, 0]])
    decoded = beer().decode(logits)
    assert decoded.predictions == {"prediction_taste": ["3.5", "4", "4"], "prediction_aroma": ["3", "1", "2"]}
    names = ["taste_3.5", "taste_4", "aroma_1", "aroma_2", "aroma_3"]
    assert decoded.probability_columns == tuple(f"probability_{name}" for name in names)
    np.testing.assert_allclose(decoded.probabilities[:, :2].sum(axis=1), 1)
    np.testing.assert_allclose(decoded.probabilities[:, 2:].sum(axis=1), 1)
    found = beer().metrics(logits, np.array([[0, 2], [1, 1], [UNSEEN, 0]]))
    expected = {"mean_accuracy": 0.5, "accuracy_taste": 2 / 3, "accuracy_aroma": 1 / 3}
    assert figures(found) == pytest.approx(expected)
    assert beer().main_metric == "mean_accuracy"


def test_majority_of_aspects():
    train, keep = beer().encode_labels(list(BEER.values()))
    found = figures(beer().majority(train[keep], np.array([[1, 0], [0, 0]])))
    assert (found["accuracy_taste"], found["accuracy_aroma"]) == (0.5, 1.0)


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda: Rating.fit([[5, "5 apples"]]), DataError, "row 2 is '5 apples'"),
        (
            lambda: Rating(classes=SCALE).encode_labels([[1, "5 apples"]], first_row=41),
            DataError,
            "row 42 is '5 apples'",
        ),
        (lambda: Rating.fit([[5, "5.0", None]]), DataError, "same label '5'"),
        (lambda: Rating.fit([[None]]), DataError, "no labelled training row"),
        (lambda: Rating(classes=("1", "x")), ConfigError, r"\['x'\] are not numbers"),
        (lambda: Rating(classes=("4.5", "4.50")), ConfigError, "the same number"),
        (lambda: Regression.fit([[1, "many"]]), DataError, "row 2 is 'many'"),
        (lambda: Regression.fit([[3, "3.0"]]), DataError, "every training label is 3"),
        (lambda: Regression.fit([[None]]), DataError, "no labelled training row"),
        (lambda: Regression(mean=0.0, std=0.0), ConfigError, "std is 0"),
        (lambda: Regression().metrics(np.zeros((2, 1)), np.array([0, np.nan])), DataError, "1 of 2 labels are missing"),
        (lambda: Aspects.fit([["1", "2"], ["1", "1"]], names=list(BEER)), DataError, "'aroma' has the same label '1'"),
        (lambda: beer().encode_labels([["4"]]), ConfigError, r"2 label column\(s\) \(taste, aroma\) and was given 1"),
        (lambda: Aspects(names=("a", "b"), classes={"a": ("x", "y")}), ConfigError, "give the same"),
        (lambda: Aspects(names=("a", "b"), classes=(("x", "y"),) * 3), ConfigError, "3 lists of classes for 2 aspects"),
        (lambda: Aspects(names=("a", "a"), classes=("x", "y")), ConfigError, "more than once"),
    ],
)
def test_what_cannot_be_is_refused(make, error, message):
    with pytest.raises(error, match=message):
        make()


@pytest.mark.parametrize(
    "task",
    [
        Rating(classes=("1", "2.5"), expected=True, missing=("", "-")),
        Regression(mean=0.1, std=3.5),
        Aspects(names=("a", "b"), classes={"a": ("x", "y"), "b": ("1", "2", "3")}),
    ],
)
def test_way_through_json(task):
    assert through_json(task) == task


def test_every_task_is_in_the_table():
    kinds = {"classification", "rating", "ordinal", "regression", "aspects", "preference", "similarity"}
    kinds |= {"generation", "tags", "spans"}
    assert {kind: task.__name__ for kind, task in TASKS.items()} == {kind: kind.capitalize() for kind in kinds}


def test_fit_by_kind():
    assert fit_task("rating", [[1, 2]], expected=True) == Rating(classes=("1", "2"), expected=True)
    assert fit_task("classification", [["a", "b"]]) == Classification(classes=("a", "b"))


NO_METRIC = r"score_by is \['\w+'.*has the metrics"


@pytest.mark.parametrize(
    ("kind", "options", "message"),
    [
        ("stars", {}, "no task 'stars': choose one of classification, rating, ordinal, regression, aspects"),
        ("rating", {"expcted": True}, "no option expcted; did you mean 'expected'. It has classes, expected"),
        ("rating", {"expected": "false"}, "expected is 'false': give true or false"),
        ("classification", {"multi_label": 1}, "multi_label is 1"),
        ("aspects", {"names": ["a"], "shared": "no"}, "shared is 'no'"),
        ("aspects", {"names": "taste"}, "list of aspects are 'taste'"),
        ("rating", {"classes": 3.5}, "are 3.5"),
        ("classification", {"class_weights": 3.5}, "class_weights is 3.5"),
        ("classification", {"class_weights": "balance"}, "class_weights is 'balance'"),
        ("classification", {"missing": "NA"}, "missing is 'NA'"),
        ("aspects", {}, "needs names"),
        ("classification", {"score_by": ["pearson"]}, NO_METRIC),
        ("classification", {"score_by": ["f1"]}, NO_METRIC),
        ("classification", {"score_by": ["matthews", "matthews"]}, NO_METRIC),
        ("rating", {"score_by": ["matthews"]}, NO_METRIC),
        ("regression", {"score_by": "accuracy"}, NO_METRIC),
    ],
)
def test_unknown_kinds_and_options(kind, options, message):
    with pytest.raises(ConfigError, match=message):
        fit_task(kind, [[1, 2, 3]], **options)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ({}, "must be a mapping with the key 'kind'"),
        ([1], "must be a mapping"),
        ({"kind": "poems"}, "no task 'poems'"),
        ({"kind": ["rating"]}, "no task"),
        ({"kind": "regression", "mean": 0.0}, "needs missing, std"),
        ({"kind": "regression", "mean": 0.0, "std": 1.0, "missing": [], "max": 3}, "no option max"),
        ({"kind": "regression", "mean": "a", "std": 1.0, "missing": []}, "mean"),
        ({"kind": "rating", "classes": 3.5, "expected": False, "missing": []}, "3.5"),
        ({"kind": "rating", "classes": ["1", "2"], "expected": False, "missing": None}, "missing is None"),
    ],
)
def test_foreign_records_are_refused(data, message):
    with pytest.raises(ConfigError, match=message):
        task_from_dict(data)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("task", "labels"),
    [
        (Classification(classes=3, class_weights=(1, 2, 3)), torch.tensor([0, 2, UNSEEN])),
        (Classification(classes=3, multi_label=True), torch.tensor([[1.0, 0, 1, 0]] * 3)),
        (Regression(), torch.tensor([0.5, float("nan"), 1.0])),
        (Aspects(names=("a",), classes=("x", "y", "z")), torch.tensor([[0], [2], [UNSEEN]])),
    ],
)
def test_losses_can_be_captured_as_one_graph(task, labels):
    logits = torch.randn(3, task.outputs)
    captured = torch.compile(task.loss, backend="eager", fullgraph=True)
    torch.testing.assert_close(captured(logits, labels), task.loss(logits, labels))


BY_SUBSET = Classification(classes=2, multi_label=True, score_by="subset_accuracy")
SCORED = [
    (Classification(classes=2, score_by=("matthews",)), ["matthews", "accuracy", "macro_f1"]),
    (Classification(classes=2, positive="1", score_by=("accuracy", "f1")), ["accuracy", "f1", "macro_f1"]),
    (BY_SUBSET, ["subset_accuracy", "micro_f1", "macro_f1"]),
    (Rating(classes=("1", "2"), score_by=("spearman", "pearson")), ["spearman", "pearson", "accuracy", "rmse", "mae"]),
    (Rating(classes=("1", "2"), score_by=("mae", "kappa")), ["mae", "kappa", "accuracy", "rmse"]),
    (Regression(score_by=("mae", "pearson")), ["mae", "pearson", "rmse", "r2"]),
]


@pytest.mark.parametrize(("task", "names"), SCORED, ids=lambda one: getattr(one, "kind", None))
def test_named_metrics_come_first_and_the_first_one_is_the_main_one(task, names):
    labels = np.eye(2)[[0, 1, 1, 0]] if task is BY_SUBSET else np.array([0, 1, 1, 0])
    logits = np.random.default_rng(0).normal(size=(4, task.outputs))
    found = task.metrics(logits, labels)
    assert list(found) == names
    assert task.main_metric == names[0]
    assert task.higher_is_better == found[names[0]].higher_is_better
    assert through_json(task) == task


def test_a_stored_task_is_as_that_of_earlier_releases_unless_metrics_are_named():
    assert "score_by" not in Regression().to_dict()
    assert Regression(score_by=("r2",)).to_dict()["score_by"] == ["r2"]

"""Boosted trees: what they read, that they are scikit-learn's, and that broken folders are refused."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import pytest
from safetensors.numpy import load_file, save_file
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor

from attribune.core.checksums import CHECKSUMS
from attribune.core.hashing import sha256
from attribune.data.texts import TextInput
from attribune.errors import ConfigError, DataError, ModelFolderError
from attribune.models.boosting import BoostingFeatures, BoostingModel, choose_boosting
from attribune.models.predictor import Predictor
from attribune.schema import Categorical, MultiLabel, Number, Numeric, Schema
from attribune.schema.schema import Revision
from attribune.tasks import Aspects, Classification, Rating, Regression, Similarity

TABLE = pd.DataFrame(
    {
        "text": ["good fine day", "good good film", "bad film", "bad bad day", "fine film", "awful day"] * 8,
        "title": ["Yes!", "", "No? 12", "NO", "so-so", "no"] * 8,
        "user": ["ann", "bob", "ann", None, "cid", "bob"] * 8,
        "tags": ["x|y", "x", "", "y|z", "z", "y"] * 8,
        "age": [30, 40.5, None, 20, 20, 60] * 8,
        "year": [1999, 2000, 2001, None, 2003, 2004] * 8,
        "label": ["pos", "pos", "neg", "neg", "mid", "neg"] * 8,
        "number": [5, 4, 2, 1, 3, 1] * 8,
        "several": ["p|q", "p", "q", "p", "p|q", "q"] * 8,
        "shares": [{"a": 0.75, "b": 0.25}, {"a": 1.0}, {"b": 1.0}, {"b": 1.0}, {"a": 0.5, "b": 0.5}, {"b": 1.0}] * 8,
    }
)
KINDS = [Categorical("user"), MultiLabel("tags", separator="|"), Number("age"), Numeric("year", bins=3)]
SCHEMA = Schema.fit(TABLE, KINDS)
IDS = SCHEMA.encode(TABLE)[0]
TEXT = TextInput.of(["text", "title"])
TEXTS = TEXT.read_rows(TABLE)
TASKS: dict[str, Any] = {
    "label": Classification.fit([TABLE["label"]]),
    "weighted": Classification.fit([TABLE["label"]], class_weights="balanced"),
    "number": Regression.fit([TABLE["number"]]),
    "rating": Rating.fit([TABLE["number"]]),
    "several": Classification.fit([TABLE["several"]], multi_label=True, separator="|"),
    "shares": Classification.fit([TABLE["shares"]], soft_labels=True),
    "aspects": Aspects.fit([TABLE["label"], TABLE["number"]], names=["mood", "stars"]),
}
COLUMNS = {"weighted": ["label"], "rating": ["number"], "aspects": ["label", "number"]}
FILES = ("boosting.json", "boosting.safetensors", "schema.json")


def labels_of(name: str) -> Any:
    return TASKS[name].encode_labels([TABLE[column] for column in COLUMNS.get(name, [name])])[0]


def fitted(name: str = "label", texts: Any = TEXTS, **options: Any) -> BoostingModel:
    settings = {"iterations": 30, "min_samples_leaf": 2, "learning_rate": 0.3}
    given = {"ids": IDS, "schema": SCHEMA, "labels": labels_of(name), "task": TASKS[name], **settings, **options}
    return BoostingModel.fit(texts, given.pop("ids"), **given)


def matrix_of(targets: Any, **options: Any) -> tuple[BoostingFeatures, Any]:
    given = {"schema": SCHEMA, "targets": targets, "weights": np.ones(len(targets)), "max_features": 100, **options}
    return BoostingFeatures.fit(TEXTS[: len(targets)], IDS[: len(targets)], **given)


def one_hot(name: str) -> Any:
    return np.eye(len(TASKS[name].classes))[labels_of(name)]


def options(**more: Any) -> dict[str, Any]:
    known = {"learning_rate": 0.3, "min_samples_leaf": 2, "max_iter": 30}
    return {**known, "max_depth": 6, "l2_regularization": 1.0, "early_stopping": False, "random_state": 0, **more}


def test_trees_are_those_of_scikit_learn() -> None:
    """Also for rows that nobody has seen, with values that are missing."""
    features, matrix = matrix_of(one_hot("label"))
    chance = np.random.default_rng(0)
    ids = np.where(chance.random(IDS.shape) < 0.4, 0, IDS)
    new = features.transform(TEXTS, ids)
    assert np.isnan(new).any()

    expected = HistGradientBoostingClassifier(**options()).fit(matrix, labels_of("label")).decision_function(new)
    np.testing.assert_allclose(fitted().logits(TEXTS, ids), expected, atol=1e-6)

    features, matrix = matrix_of(labels_of("number")[:, None])
    expected = (
        HistGradientBoostingRegressor(**options())
        .fit(matrix, labels_of("number"))
        .predict(features.transform(TEXTS, ids))
    )
    np.testing.assert_allclose(fitted("number").logits(TEXTS, ids)[:, 0], expected, atol=1e-6)


def test_each_label_has_trees_of_its_own() -> None:
    labels = labels_of("several")[:, :2]
    features, matrix = matrix_of(labels)
    found = fitted("several").logits(TEXTS, IDS)
    for number in range(2):
        model = HistGradientBoostingClassifier(**options()).fit(matrix, labels[:, number] > 0)
        expected = model.decision_function(features.transform(TEXTS, IDS))
        np.testing.assert_allclose(found[:, number], expected, atol=1e-6)


def test_many_rows_are_walked_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    model = fitted()
    whole = model.logits(TEXTS, IDS)
    monkeypatch.setattr("attribune.models.trees._CELLS", 500)
    np.testing.assert_array_equal(model.logits(TEXTS, IDS), whole)


@pytest.mark.parametrize("name", TASKS)
def test_every_task_is_learned_and_stored(name: str, tmp_path: Any) -> None:
    task, model = TASKS[name], replace(fitted(name), text_input=TEXT)
    logits = model.logits(TEXTS, IDS)
    assert logits.shape == (48, task.outputs)
    metrics = task.metrics(logits, labels_of(name))
    if name == "shares":
        assert metrics["manhattan"].value() < 0.2
    else:
        found = metrics[task.main_metric].value()
        assert found > 0.95 if task.higher_is_better else found < 0.3

    model.save_pretrained(tmp_path / "new" / "folder")
    loaded = BoostingModel.load(tmp_path / "new" / "folder")
    np.testing.assert_array_equal(loaded.logits(TEXTS, IDS), logits)
    assert (loaded.task, loaded.text_input) == (task, TEXT)
    assert (loaded.learning_rate, loaded.min_samples_leaf, loaded.iterations) == (0.3, 2, 30)
    files = {path.name for path in (tmp_path / "new" / "folder").iterdir()}
    assert {name for name in files if not name.startswith("schema.features-")} == {CHECKSUMS, *FILES}
    predictor = Predictor.from_pretrained(tmp_path / "new" / "folder")
    np.testing.assert_allclose(predictor.logits(TABLE)[0], logits, rtol=1e-6)


def test_features_are_what_they_say() -> None:
    """The look of each column, the ids of numbers, and for each value its mean label and its rows."""
    targets = labels_of("number")[:, None].astype(np.float64)
    features, training = matrix_of(targets)
    matrix = features.transform(TEXTS, IDS)
    assert matrix.shape == training.shape == (48, features.width)
    words = len(features.components)
    np.testing.assert_allclose(matrix[0, words : words + 14], [13, 3, 0, 0, 0, 0, 0, 4, 1, 0.25, 0, 0.25, 1, 0])
    np.testing.assert_allclose(matrix[2, words + 7 : words + 14], [6, 2, 1 / 6, 2 / 6, 1 / 6, 0, 1])
    np.testing.assert_array_equal(matrix[1, words + 7 : words + 14], np.zeros(7))
    numbers = matrix[:6, words + 14 : words + 16]
    np.testing.assert_array_equal(
        np.isnan(numbers), [[False, False]] * 2 + [[True, False], [False, True]] + [[False] * 2] * 2
    )
    assert numbers[3, 0] == numbers[4, 0] < numbers[0, 0] < numbers[1, 0] < numbers[5, 0]

    mean = targets.mean()
    of_ann, of_x, of_y = (
        targets[TABLE[name].fillna("").str.contains(value), 0]
        for name, value in [("user", "ann"), ("tags", "x"), ("tags", "y")]
    )
    shrunk = {
        name: (rows.sum() + 10 * mean) / (len(rows) + 10) for name, rows in [("ann", of_ann), ("x", of_x), ("y", of_y)]
    }
    encoded = matrix[:6, words + 16 :]
    np.testing.assert_allclose(encoded[0], [shrunk["ann"], 16, (shrunk["x"] + shrunk["y"]) / 2, 16], atol=1e-6)
    np.testing.assert_allclose(encoded[3, :2], [mean, 0], atol=1e-6)
    np.testing.assert_allclose(encoded[2, 2:], [mean, 0], atol=1e-6)


def test_a_training_row_does_not_see_its_own_label() -> None:
    """A value of one row alone is unknown to it, and one of few rows is known by the others."""
    users = [f"u{number}" for number in range(len(TABLE))]
    schema = Schema.fit(TABLE.assign(user=users), [Categorical("user")])
    ids = schema.encode({"user": users})[0]
    targets = labels_of("number")[:, None].astype(np.float64)
    given = {"schema": schema, "targets": targets, "weights": np.ones(48), "max_features": 100}
    features, training = BoostingFeatures.fit(TEXTS, ids, **given)
    np.testing.assert_allclose(training[:, -2], targets.mean(), atol=1e-6)
    assert not training[:, -1].any()
    assert (features.transform(TEXTS, ids)[:, -1] == 1).all()

    changed = targets.copy()
    changed[0] += 100
    same = targets.mean() - changed.mean()
    for before, after in [(matrix_of(targets)[1], matrix_of(changed)[1])]:
        shift = (before - after)[0, -4]
        assert shift == pytest.approx(same * 10 / (10 + before[0, -3]), abs=1e-4), "the mean of all is what it shares"


def test_hidden_and_unknown_values_are_one() -> None:
    model = fitted()
    hidden = model.logits(TEXTS[:1], np.zeros((1, SCHEMA.slots), dtype=np.int64))
    unknown = SCHEMA.encode({"user": ["dora"], "tags": ["new"], "age": [None], "year": [None]})[0]
    np.testing.assert_array_equal(model.logits(TEXTS[:1], unknown), hidden)
    assert np.isfinite(hidden).all()


def test_values_are_added_and_taken_away() -> None:
    model = fitted()
    grown = model.revised(Revision.adding(SCHEMA, {"user": {"dora": 3}}))
    ids = grown.schema.encode(TABLE)[0]
    np.testing.assert_array_equal(grown.logits(TEXTS, ids), model.logits(TEXTS, IDS))
    new = grown.schema.encode(TABLE.assign(user="dora"))[0]
    assert (new[:, 0] > 0).all()
    unknown = SCHEMA.encode(TABLE.assign(user=None))[0]
    np.testing.assert_array_equal(grown.logits(TEXTS, new), model.logits(TEXTS, unknown))

    shrunk = model.revised(Revision.removing(SCHEMA, {"user": ("ann",)}))
    assert len(shrunk.features.encodings["user"]) == len(model.features.encodings["user"]) - 1
    kept = TABLE["user"] != "ann"
    ids = shrunk.schema.encode(TABLE)[0]
    expected = np.where(kept.to_numpy()[:, None], model.logits(TEXTS, IDS), model.logits(TEXTS, unknown))
    np.testing.assert_array_equal(shrunk.logits(TEXTS, ids), expected)


def test_rows_with_an_unseen_label_are_left_out() -> None:
    labels = labels_of("label").copy()
    labels[24:] = -100
    found = fitted(labels=labels)
    counts = found.features.encodings["user"]
    assert np.isfinite(found.logits(TEXTS, IDS)).all()
    assert np.isfinite(counts).all()
    known = one_hot("label")
    known[24:] = np.nan
    np.testing.assert_array_equal(matrix_of(known)[0].encodings["user"], counts)


def test_a_class_without_training_rows_has_a_logit_and_no_probability() -> None:
    task = Classification(classes=("mid", "neg", "new", "pos"))
    model = fitted(labels=task.encode_labels([TABLE["label"]])[0], task=task)
    probabilities = task.decode(model.logits(TEXTS, IDS)).probabilities
    assert (probabilities[:, 2] == 0).all()
    assert (probabilities.argmax(axis=1) == task.encode_labels([TABLE["label"]])[0]).all()


def test_one_class_alone_is_always_predicted(tmp_path: Any) -> None:
    task = Classification(classes=3)
    model = fitted(labels=np.ones(48, dtype=int), task=task)
    assert task.decode(model.logits(TEXTS, IDS)).predictions["prediction"] == ["1"] * 48
    model.save_pretrained(tmp_path)
    np.testing.assert_array_equal(BoostingModel.load(tmp_path).logits(TEXTS, IDS), model.logits(TEXTS, IDS))


@pytest.mark.parametrize("name", TASKS)
@pytest.mark.parametrize("rows", [1, 3])
def test_few_rows_are_enough(name: str, rows: int) -> None:
    model = fitted(name, texts=TEXTS[:rows], ids=IDS[:rows], labels=labels_of(name)[:rows])
    assert np.isfinite(model.logits(TEXTS, IDS)).all()


def test_a_row_with_a_weight_counts_as_often() -> None:
    """The trees of rows with weights are those of scikit-learn, and rows without one teach nothing."""
    weights = np.arange(48) % 3
    features, matrix = matrix_of(one_hot("label"), weights=weights)
    model = HistGradientBoostingClassifier(**options()).fit(matrix, labels_of("label"), sample_weight=weights)
    found = fitted(weights=weights).logits(TEXTS, IDS)
    np.testing.assert_allclose(found, model.decision_function(features.transform(TEXTS, IDS)), atol=1e-6)
    ones = features.encodings["user"][:, 1]
    own = (TABLE["user"] == "ann") * weights
    mean = np.average(labels_of("label") == 1, weights=weights)
    expected = (((labels_of("label") == 1) * own).sum() + 10 * mean) / (own.sum() + 10)
    assert ones[SCHEMA.encode(TABLE)[0][0, 0]] == pytest.approx(expected, abs=1e-6)


def chosen(labels: Any, validation: Any, name: str = "number", **more: Any) -> BoostingModel:
    rows = {"validation_texts": TEXTS, "validation_ids": IDS, "validation_labels": validation}
    return choose_boosting(TEXTS, IDS, schema=SCHEMA, labels=labels, task=TASKS[name], **rows, **more)


def test_validation_rows_choose_the_settings() -> None:
    """Labels that repeat are learned by many trees; of those that contradict them, the fewest are best."""
    labels = labels_of("number")
    learned = chosen(labels, labels)
    assert learned.iterations > 20
    assert len(learned.forest.roots) == learned.iterations
    contrary = chosen(labels, -labels)
    assert (contrary.iterations, contrary.learning_rate) == (20, 0.05)
    again = chosen(labels, labels)
    np.testing.assert_allclose(again.logits(TEXTS, IDS), learned.logits(TEXTS, IDS), atol=1e-9)


def test_another_metric_may_choose() -> None:
    model = chosen(labels_of("label"), labels_of("label"), "label", by="accuracy")
    assert model.iterations == 20, "of equally good models the one with the fewest trees"


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: fitted().logits(TEXTS, IDS[:, :2]), DataError, r"\(48, 2\): the schema of this model needs \(rows, 5"),
        (
            lambda: fitted().logits(TEXTS, np.add(IDS, [99, 0, 0, 0, 0])),
            DataError,
            "'user' has the id 10., but ids from 0",
        ),
        (lambda: fitted().logits(TEXTS[1:], IDS), DataError, "47 texts for 48 rows"),
        (lambda: fitted(labels=np.array([0, 1])), DataError, "2 labels and 48 attribute_ids for 48 texts"),
        (lambda: fitted(labels=np.full(48, -100)), DataError, "none of the training labels is known"),
        (lambda: fitted("number", labels=np.full(48, np.nan)), DataError, "none of the training labels is known"),
        (lambda: fitted(texts=[("", "")] * 48), DataError, "give no words"),
        (lambda: fitted(task=Similarity(form="pairs")), ConfigError, "cannot learn the task 'similarity'"),
        (lambda: Predictor(fitted(), text_input="text"), ConfigError, r"names 1 columns \(text\), .* trained with 2"),
    ],
)
def test_wrong_input_is_named(call: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        call()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"format": "attribune-linear"}, "is not a boosting model"),
        ({"task": {"kind": "regression", "mean": 0, "std": 1, "missing": []}}, "arrays of shapes"),
        ({"words": ["a"]}, "arrays of shapes"),
        ({"words": None}, "do not fit"),
        ({"columns": 1}, "trees of 49 features, and there are 42"),
        ({"iterations": None}, "do not fit"),
    ],
)
def test_changed_settings_are_refused(tmp_path: Any, change: dict[str, Any], message: str) -> None:
    fitted().save_pretrained(tmp_path)
    path = tmp_path / "boosting.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | change))
    with pytest.raises(ModelFolderError, match=message):
        BoostingModel.load(tmp_path, verify=False)


@pytest.mark.parametrize(
    ("name", "change", "message"),
    [
        ("left", lambda nodes: np.zeros_like(nodes), "a node before its parent"),
        ("right", lambda nodes: nodes + 10_000, "trees whose right"),
        ("roots", lambda nodes: nodes - 1, "trees whose roots"),
        ("value", lambda values: values[1:], "of different lengths"),
        ("baseline", lambda values: values[1:], "arrays of shapes"),
    ],
)
def test_trees_that_cannot_be_walked_are_refused(tmp_path: Any, name: str, change: Any, message: str) -> None:
    fitted().save_pretrained(tmp_path)
    tensors = load_file(tmp_path / "boosting.safetensors")
    tensors[f"trees.{name}"] = np.ascontiguousarray(change(tensors[f"trees.{name}"]))
    save_file(tensors, tmp_path / "boosting.safetensors")
    path = tmp_path / "boosting.json"
    digest = sha256([(tmp_path / "boosting.safetensors").read_bytes()])
    path.write_text(json.dumps(json.loads(path.read_text()) | {"sha256": digest}))
    with pytest.raises(ModelFolderError, match=message):
        BoostingModel.load(tmp_path, verify=False)

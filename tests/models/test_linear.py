"""The cheap baselines: what they learn, that they are scikit-learn's, and that broken folders are refused."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression, Ridge

from attribune.backbones.sharing import SharedBackbones
from attribune.core.checksums import CHECKSUMS
from attribune.data.texts import TextInput
from attribune.errors import AttribuneWarning, ConfigError, DataError, ModelFolderError
from attribune.models import linear
from attribune.models import word_features as linear_features
from attribune.models.linear import LinearModel, choose_c
from attribune.models.predictor import Predictor, quantised
from attribune.models.predictor_group import PredictorGroup
from attribune.models.word_features import LinearFeatures
from attribune.schema import Categorical, MultiLabel, Schema
from attribune.tasks import Aspects, Classification, Rating, Regression

TABLE = pd.DataFrame(
    {
        "text": ["good fine day", "good good film", "bad film", "bad bad day", "fine film", "awful day"] * 4,
        "user": ["ann", "bob", "ann", None, "cid", "bob"] * 4,
        "tags": ["x|y", "x", "", "y|z", "z", "y"] * 4,
        "label": ["pos", "pos", "neg", "neg", "mid", "neg"] * 4,
        "number": [5, 4, 2, 1, 3, 1] * 4,
        "several": ["p|q", "p", "q", "", "p|q", "q"] * 4,
    }
)
TEXTS = TABLE["text"].tolist()
FILES = ("linear.json", "linear.safetensors", "schema.json")
SCHEMA = Schema.fit(TABLE, [Categorical("user"), MultiLabel("tags", separator="|")])
IDS = SCHEMA.encode(TABLE)[0]

TASKS = {
    "label": Classification.fit([TABLE["label"]]),
    "weighted": Classification.fit([TABLE["label"]], class_weights="balanced"),
    "number": Regression.fit([TABLE["number"]]),
    "rating": Rating.fit([TABLE["number"]]),
    "several": Classification.fit([TABLE["several"].replace("", "p")], multi_label=True, separator="|"),
    "aspects": Aspects.fit([TABLE["label"], TABLE["number"]], names=["mood", "stars"]),
}
COLUMNS = {"weighted": ["label"], "rating": ["number"], "aspects": ["label", "number"]}


def labels_of(name):
    columns = [TABLE[column] for column in COLUMNS.get(name, [name])]
    if name == "several":
        columns = [TABLE["several"].replace("", "p")]
    return TASKS[name].encode_labels(columns)[0]


def fitted(name="label", texts=TEXTS, *, ids=IDS, schema=SCHEMA, max_features=100_000, **options):
    features = LinearFeatures.fit(texts, schema, max_features=max_features)
    given = {"labels": labels_of(name), "task": TASKS[name], "C": 1.0, **options}
    return LinearModel.from_matrix(features, features.transform(texts, ids), **given)


def one_hot():
    """Columns in the order of attributes and ids, written as a slow loop."""
    offset = SCHEMA["user"].size - 1
    matrix = np.zeros((len(IDS), offset + SCHEMA["tags"].size - 1))
    for row, ids in enumerate(IDS):
        for slot, value in enumerate(ids):
            if value:
                matrix[row, (value - 1) if slot == 0 else offset + value - 1] += 1
    return matrix


def all_features(min_df=1):
    words = TfidfVectorizer(ngram_range=(1, 2), sublinear_tf=True, min_df=min_df).fit_transform(TEXTS).toarray()
    return np.hstack([words, one_hot()])


def regression(features, labels, **options):
    return LogisticRegression(max_iter=5_000, **options).fit(features, labels)


@pytest.mark.parametrize("texts", [TEXTS, None])
def test_probabilities_equal_scikit_learn(texts):
    features = one_hot() if texts is None else all_features()
    expected = regression(features, labels_of("label"), C=3.0).predict_proba(features)
    found = TASKS["label"].decode(fitted(texts=texts, C=3.0).logits(texts, IDS)).probabilities
    np.testing.assert_allclose(found, expected, atol=2e-3)


def test_other_tasks_equal_scikit_learn():
    """With class weights, two classes with a logit each, a regression for each label and each aspect, and numbers."""
    features = all_features()
    labels, task = labels_of("weighted"), TASKS["weighted"]
    weighted = LogisticRegression(max_iter=5_000)
    weighted.fit(features, labels, sample_weight=np.array(task.class_weights)[labels])
    found = task.decode(fitted("weighted").logits(TEXTS, IDS)).probabilities
    np.testing.assert_allclose(found, weighted.predict_proba(features), atol=2e-3)

    task = Classification.fit([["a", "b"] * 12])
    labels = task.encode_labels([["a", "b"] * 12])[0]
    model = fitted(labels=labels, task=task)
    expected = regression(features, labels).predict_proba(features)
    np.testing.assert_allclose(task.decode(model.logits(TEXTS, IDS)).probabilities, expected, atol=2e-3)

    labels, found = labels_of("several"), fitted("several").logits(TEXTS, IDS)
    for i in range(2):
        expected = regression(features, labels[:, i]).decision_function(features)
        np.testing.assert_allclose(found[:, i], expected, atol=1e-2)

    labels = labels_of("aspects")
    found = TASKS["aspects"].decode(fitted("aspects").logits(TEXTS, IDS)).probabilities
    for i, part in enumerate((slice(0, 3), slice(3, 8))):
        expected = regression(features, labels[:, i]).predict_proba(features)
        np.testing.assert_allclose(found[:, part], expected, atol=2e-3)

    expected = Ridge(alpha=0.5).fit(features, labels_of("number")).predict(features)
    np.testing.assert_allclose(fitted("number", C=2.0).logits(TEXTS, IDS)[:, 0], expected, atol=1e-4)


@pytest.mark.parametrize("name", TASKS)
def test_every_task_is_learned(name):
    task = TASKS[name]
    model = fitted(name, C=100.0)
    found = task.metrics(model.logits(TEXTS, IDS), labels_of(name))[task.main_metric].value()
    assert found == pytest.approx(1.0, abs=0.02) if task.higher_is_better else found < 0.3
    assert model.logits(TEXTS, IDS).shape == (24, task.outputs)


@pytest.mark.slow
@pytest.mark.parametrize("name", TASKS)
@pytest.mark.parametrize("texts", [TEXTS, None])
def test_saves_and_loads_to_the_same_numbers(name, texts, tmp_path):
    model = replace(fitted(name, texts), text_input=TextInput.of(["title", "text"], separator=" "))
    model.save_pretrained(tmp_path / "new" / "folder")
    loaded = LinearModel.load(tmp_path / "new" / "folder")
    np.testing.assert_array_equal(loaded.logits(texts, IDS), model.logits(texts, IDS))
    assert (loaded.task, loaded.C, loaded.text_input) == (model.task, model.C, model.text_input)
    assert loaded.uses_text is (texts is not None)
    assert {path.name for path in (tmp_path / "new" / "folder").iterdir()} == {CHECKSUMS, *FILES}


def test_id_0_gives_nothing_and_unknown_words_give_nothing():
    model = fitted()
    found = model.logits(["unheard words only"], np.zeros((1, SCHEMA.slots), dtype=int))
    np.testing.assert_allclose(found[0], model.bias)


def test_a_class_without_training_rows_has_a_logit_and_no_probability():
    task = Classification(classes=("mid", "neg", "new", "pos"))
    model = fitted(labels=task.encode_labels([TABLE["label"]])[0], task=task)
    probabilities = task.decode(model.logits(TEXTS, IDS)).probabilities
    assert (probabilities[:, 2] == 0).all()
    expected = TASKS["label"].decode(fitted().logits(TEXTS, IDS)).probabilities
    np.testing.assert_allclose(probabilities[:, [0, 1, 3]], expected)


def test_one_class_alone_is_always_predicted():
    task = Classification(classes=3)
    model = fitted(labels=np.ones(24, dtype=int), task=task)
    assert task.decode(model.logits(TEXTS, IDS)).predictions["prediction"] == ["1"] * 24


def test_rows_with_an_unseen_label_are_left_out():
    labels = labels_of("label").copy()
    labels[12:] = -100
    assert np.isfinite(fitted(labels=labels).logits(TEXTS, IDS)).all()


def test_rare_words_are_left_out_when_rows_are_many(monkeypatch):
    for few, is_kept in ((24, False), (25, True)):
        monkeypatch.setattr(linear_features, "_FEW_ROWS", few)
        assert ("solitary" in fitted(texts=[*TEXTS[:-1], "solitary"]).features.words) == is_kept


def test_max_features_keeps_the_most_frequent_words():
    assert fitted(texts=["often seldom often"] * 24, max_features=1).features.words == ("often",)


def chosen(task, validation_labels, labels, texts=TEXTS, **options):
    rows = {"validation_texts": texts, "validation_ids": IDS, "validation_labels": validation_labels}
    return choose_c(texts, IDS, schema=SCHEMA, labels=labels, task=task, **rows, **options)


def test_choose_c_takes_the_best_on_validation_rows():
    for name in ("label", "number"):
        labels = labels_of(name)
        model, scores = chosen(TASKS[name], labels, labels, grid=(100.0, 0.001))
        assert list(scores) == [0.001, 100.0]
        assert scores[100.0] < scores[0.001]
        assert model.C == 100.0
    # Validation numbers that are all the training mean: the strongest penalty is nearest.
    assert chosen(TASKS["number"], np.zeros(24), labels_of("number"), grid=(100.0, 0.001))[0].C == 0.001


def test_choose_c_takes_the_smaller_of_equals():
    ones = np.ones(24, dtype=int)
    model, scores = chosen(Classification(classes=3), ones, ones, texts=None)
    assert model.C == 0.1
    assert scores == dict.fromkeys([0.1, 0.3, 1.0, 3.0, 10.0], scores[0.1])


def test_a_regression_that_does_not_settle_is_reported(monkeypatch):
    monkeypatch.setattr(linear, "_ITERATIONS", 1)
    with pytest.warns(AttribuneWarning, match="did not settle at C = 1.0 .*lower C"):
        fitted()


def test_what_needs_a_backbone_is_refused():
    model = fitted()
    predictor = Predictor(model, text_input="text")
    group = PredictorGroup({"linear": predictor}, shared=SharedBackbones("cpu"))
    assert group.refusals == {"linear": "it has no pretrained backbone"}
    assert group.networks() == []
    assert not model.method.site_layers()
    assert not model.values.owners()
    with pytest.raises(ConfigError, match="quantise='int8' is for neural models, and this one is a baseline"):
        quantised(model, "int8")
    with pytest.raises(ConfigError, match="a baseline, which has no tensors to share: load it again"):
        predictor.twin()
    with pytest.raises(ConfigError, match="LinearModel has no vectors of texts: train a method with a backbone"):
        predictor.encode("good")
    with pytest.raises(ConfigError, match="a baseline, which acts in no backbone"):
        model.neural()


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: fitted().logits(None, IDS), ConfigError, "trained with text: pass the texts"),
        (lambda: fitted(texts=None).logits(TEXTS, IDS), ConfigError, "trained without text: pass texts=None"),
        (lambda: fitted().logits(TEXTS, IDS[:, :2]), DataError, r"\(24, 2\): the schema of this model needs \(rows, 3"),
        (
            lambda: fitted().logits(TEXTS, np.add(IDS, [99, 0, 0])),
            DataError,
            "'user' has the id 10., but ids from 0 to 3",
        ),
        (lambda: fitted().logits(TEXTS, np.subtract(IDS, [0, 99, 0])), DataError, "'tags' has the id -"),
        (lambda: fitted().logits(TEXTS[1:], IDS), DataError, "23 texts for 24 rows"),
        (lambda: fitted(labels=np.array([0, 1])), DataError, "2 labels for 24 rows"),
        (lambda: fitted(labels=np.full(24, -100)), DataError, "none of the training labels is known"),
        (lambda: fitted(texts=[""] * 24), DataError, "give no words"),
        (lambda: fitted(C=0), ConfigError, "C is 0"),
        (lambda: fitted(texts=None, ids=IDS[:, :0], schema=Schema.fit(TABLE, [])), ConfigError, "name an attribute"),
    ],
)
def test_wrong_input_is_named(call, error, message):
    with pytest.raises(error, match=message):
        call()


def test_text_alone_works():
    model = fitted(ids=IDS[:, :0], schema=Schema.fit(TABLE, []), C=100.0)
    assert TASKS["label"].metrics(model.logits(TEXTS, IDS[:, :0]), labels_of("label"))["accuracy"].value() == 1.0


@pytest.fixture
def folder(tmp_path):
    fitted().save_pretrained(tmp_path / "model")
    (tmp_path / "model" / CHECKSUMS).unlink()  # as of an earlier release
    return tmp_path / "model"


def test_an_earlier_release_did_not_save_which_columns_are_the_text(folder):
    assert "text_input" not in json.loads((folder / "linear.json").read_text())
    assert LinearModel.load(folder).text_input is None
    with pytest.raises(ConfigError, match="give text_input='text'"):
        Predictor.from_pretrained(folder)
    assert Predictor.from_pretrained(folder, text_input="title").text_input == TextInput.of("title")


@pytest.mark.parametrize("name", FILES)
def test_a_changed_file_is_refused(tmp_path, name):
    fitted().save_pretrained(tmp_path)
    content = bytearray((tmp_path / name).read_bytes())
    content[-3] ^= 1
    (tmp_path / name).write_bytes(content)
    with pytest.raises(ModelFolderError, match=f"{name} differs from what was saved"):
        LinearModel.load(tmp_path)


@pytest.mark.parametrize("name", FILES)
def test_missing_and_truncated_files_are_refused(folder, name):
    whole = (folder / name).read_bytes()
    for size in (0, 1, len(whole) // 2, len(whole) - 2):
        (folder / name).write_bytes(whole[:size])
        with pytest.raises(ModelFolderError, match=name):
            LinearModel.load(folder)
    (folder / name).unlink()
    with pytest.raises(ModelFolderError, match=name):
        LinearModel.load(folder)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"format": "attribune-schema"}, "is not a linear model"),
        ({"version": 2}, "version 2"),
        ({"task": {"kind": "poems"}}, "no task 'poems'"),
        ({"task": {"kind": "regression", "mean": 0, "std": 1, "missing": []}}, "arrays of shapes"),
        ({"words": ["a"]}, "arrays of shapes"),
        ({"words": 3}, "do not fit"),
        ({"C": None}, "do not fit"),
        ({"sha256": None}, "checksum"),
    ],
)
def test_changed_settings_are_refused(folder, change, message):
    path = folder / "linear.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | change))
    with pytest.raises(ModelFolderError, match=message):
        LinearModel.load(folder)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("linear.safetensors", "of another model"),
        ("schema.json", "arrays of shapes"),
        ("linear.json", "is not a linear model"),
    ],
)
def test_files_of_something_else_are_refused(folder, tmp_path, name, message):
    fitted(C=2.0).save_pretrained(tmp_path / "other")
    Schema([]).save(tmp_path / "other" / "schema.json")
    (tmp_path / "other" / "linear.json").write_text("[1, 2]")
    shutil.copy(tmp_path / "other" / name, folder)
    with pytest.raises(ModelFolderError, match=message):
        LinearModel.load(folder)


def test_a_folder_that_cannot_be_written_is_named(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(ModelFolderError, match="cannot be written"):
        fitted().save_pretrained(tmp_path / "file" / "model")


def test_words_are_counted_as_scikit_learn_counts_them() -> None:
    texts = ["a good film, a very good film", "Dull plot", "", "!?", "good plot"]
    features = LinearFeatures.fit(texts, Schema([]), max_features=100)
    vectorizer = TfidfVectorizer(ngram_range=(1, 2), sublinear_tf=True)
    expected = vectorizer.fit_transform(texts)
    assert features.words == tuple(vectorizer.get_feature_names_out())
    new = [*texts, "good good film noir"]
    np.testing.assert_allclose(features.of_texts(texts).toarray(), expected.toarray(), rtol=1e-12)
    np.testing.assert_allclose(features.of_texts(new).toarray(), vectorizer.transform(new).toarray(), rtol=1e-12)
    assert features.of_texts([]).shape == (0, len(features.words))

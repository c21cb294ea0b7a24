"""The estimators of scikit-learn: a training and its predictor, and nothing beside them."""

from __future__ import annotations

import copy
import pickle
import shutil
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
import small_runs
import torch
from datasets import Dataset
from lab_methods import needs_lab, require_lab
from sklearn.base import clone
from sklearn.ensemble import BaggingClassifier
from sklearn.exceptions import DataConversionWarning, NotFittedError
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import FunctionTransformer
from sklearn.utils.estimator_checks import check_estimator

from attribune import (
    AttributeClassifier,
    AttributeOrdinal,
    AttributeRegressor,
    ConfigError,
    DataError,
    ModelFolderError,
    MultiLabel,
    Number,
    Predictor,
    PredictorGroup,
    train,
)
from attribune.models.baselines import Linear
from attribune.runs.loading import load_predictor

slow = pytest.mark.slow
ROWS = small_runs.reviews(60)
FRAME = pd.DataFrame(ROWS)
ATTRIBUTES = ["user", MultiLabel("tags", separator=";")]
SETTINGS = {"training.precision": "float32", "training.steps": 2, "training.select_by": "loss"}
SMALL: dict[str, Any] = {
    "attributes": ATTRIBUTES,
    "method": "upa",
    "backbone": "cnn",
    "max_length": 16,
    "random_state": 3,
    "settings": SETTINGS,
    "verbose": False,
}
LINEAR: dict[str, Any] = {"attributes": ["user"], "method": "linear", "random_state": 0, "verbose": False}
NAMED = "it names columns 0 and 1, and the estimators need text names"
NOT_APPLICABLE = {
    "check_classifier_data_not_an_array": NAMED,
    "check_regressor_data_not_an_array": NAMED,
    "check_sample_weights_pandas_series": NAMED,
    "check_sample_weight_equivalence_on_dense_data": "the number of rows decides which ones are held out",
    "check_classifiers_classes": "it uses texts as classes, and an ordinal model needs numbers",
}
"""Checks of scikit-learn that do not apply, by the reason; docs/scikit_learn.md names the reasons, too."""


def small(**more: Any) -> AttributeClassifier:
    """A fitted one that reads attributes."""
    return AttributeClassifier(**{**SMALL, **more}).fit(FRAME, FRAME["stars"])


def linear(**more: Any) -> AttributeClassifier:
    """A fitted one without a backbone."""
    return AttributeClassifier(**{**LINEAR, **more}).fit(FRAME, FRAME["stars"])


@pytest.fixture(scope="module")
def classifier() -> AttributeClassifier:
    require_lab("a backbone without pretraining is the quickest to train")
    return small()


@slow
def test_a_fit_is_a_training(classifier: AttributeClassifier, tmp_path: Path) -> None:
    seed = int(np.random.RandomState(3).randint(np.iinfo(np.int32).max))
    options = {"method": "upa", "backbone": "cnn", "max_length": 16, "seed": seed}
    settings = {**SETTINGS, "data.split.fractions": (0.9, 0.1, 0.0)}
    columns = {"text": "text", "label": "stars", "attributes": ATTRIBUTES}
    train(FRAME, tmp_path / "run", **columns, **options, baselines=False, settings=settings)
    expected = Predictor.from_pretrained(tmp_path / "run").predict(FRAME)
    found = classifier.predict_proba(FRAME)
    np.testing.assert_array_equal(found, expected[["probability_bad", "probability_good"]].to_numpy())
    assert np.ptp(found[:, 0]) > 0
    assert classifier.classes_.tolist() == ["bad", "good"]
    assert classifier.predict(FRAME).tolist() == expected["prediction"].tolist()
    assert classifier.score(FRAME, FRAME["stars"]) == (expected["prediction"] == FRAME["stars"]).mean()
    assert "validation" in repr(classifier.results_)
    assert list(classifier.feature_names_in_) == list(FRAME.columns)


@contextmanager
def float64_by_default() -> Iterator[None]:
    torch.set_default_dtype(torch.float64)
    try:
        yield
    finally:
        torch.set_default_dtype(torch.float32)


@slow
@pytest.mark.parametrize("around", [torch.no_grad, torch.inference_mode, float64_by_default])
def test_what_pytorch_is_set_to_does_not_matter(
    classifier: AttributeClassifier, around: Callable[[], AbstractContextManager[Any]]
) -> None:
    with around():
        fitted = small()
        found, again = fitted.predict_proba(FRAME), pickle.loads(pickle.dumps(fitted)).predict_proba(FRAME)
    np.testing.assert_array_equal(found, classifier.predict_proba(FRAME))
    np.testing.assert_array_equal(again, found)


@needs_lab
@slow
def test_fits_in_threads_are_fits_alone(classifier: AttributeClassifier) -> None:
    with ThreadPoolExecutor(2) as pool:
        first, other = (pool.submit(small) for _ in range(2))
    for one in (first.result(), other.result()):
        np.testing.assert_array_equal(one.predict_proba(FRAME), classifier.predict_proba(FRAME))


@needs_lab
@slow
def test_a_fit_without_a_seed_draws_one_of_the_process() -> None:
    np.random.seed(4)  # noqa: NPY002  which scikit-learn draws from
    first, other = (small(random_state=None).predict_proba(FRAME) for _ in range(2))
    np.random.seed(4)  # noqa: NPY002  which scikit-learn draws from
    again = small(random_state=None).predict_proba(FRAME)
    assert np.abs(first - other).max() > 0
    np.testing.assert_array_equal(again, first)


@needs_lab
@slow
def test_every_door_predicts_in_the_precision_of_the_training(tmp_path: Path) -> None:
    fitted = small(settings={**SETTINGS, "training.precision": "bf16"})
    expected, model = fitted.predict_proba(FRAME), fitted.predictor_.model
    model.save_pretrained(tmp_path / "model")
    names = ["probability_bad", "probability_good"]
    size = fitted.predictor_.batch_size
    for rounded in (
        Predictor.from_pretrained(tmp_path / "model", batch_size=size),
        PredictorGroup.from_pretrained([tmp_path / "model"], batch_size=size)["model"],
        load_predictor(tmp_path / "model"),
        Predictor(model, batch_size=size),
        pickle.loads(pickle.dumps(fitted)).predictor_,
    ):
        assert rounded.precision == "bf16"
        np.testing.assert_allclose(rounded.predict(FRAME)[names], expected, atol=5e-3)
    np.testing.assert_array_equal(Predictor(model, batch_size=size).predict(FRAME)[names], expected)
    exact = Predictor.from_pretrained(tmp_path / "model", batch_size=size, precision="float32")
    difference = np.abs(exact.predict(FRAME)[names] - expected).to_numpy().max()
    assert 1e-5 < difference < 5e-3
    assert load_predictor(tmp_path / "model", precision="float32").precision == "float32"
    texts = {name: FRAME[name].tolist() for name in ("text", "user", "tags")}
    vectors = model.encode(texts, batch_size=size)
    np.testing.assert_array_equal(Predictor(model, batch_size=size).encode(texts), vectors)
    assert np.abs(exact.encode(texts) - vectors).max() > 1e-5


class Stream:
    """A table of another library: nothing but the Arrow interface."""

    def __init__(self, frame: pd.DataFrame) -> None:
        self._table = pa.Table.from_pandas(frame)

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        return self._table.__arrow_c_stream__(requested_schema)


@needs_lab
@slow
def test_every_form_of_rows_is_read(classifier: AttributeClassifier) -> None:
    expected = classifier.predict_proba(FRAME)
    columns = {name: FRAME[name].tolist() for name in ("text", "user", "tags")}
    for given in (FRAME[::-1][["tags", "user", "text"]][::-1], pa.table(columns), Stream(FRAME), ROWS, columns):
        np.testing.assert_array_equal(classifier.predict_proba(given), expected)
    odd = FRAME.assign(mixed=[[1] if row % 2 else 3 for row in range(len(FRAME))], **{"7": 1}).rename(columns={"7": 7})
    for given in (odd, Dataset.from_pandas(FRAME)):  # nobody reads the columns that no column of Arrow can be
        np.testing.assert_array_equal(classifier.predict_proba(given), expected)
    np.testing.assert_allclose(classifier.predict_proba(FRAME.iloc[2]), expected[2:3], atol=1e-5)
    texts = classifier.predict_proba(FRAME["text"].tolist())
    np.testing.assert_array_equal(texts, classifier.predict_proba(FRAME.assign(user=None, tags=None)))
    assert np.abs(texts - expected).max() > 0

    array = FRAME[["text", "user"]].to_numpy()
    of_array = AttributeClassifier("x0", **{**LINEAR, "attributes": ["x1"]}).fit(array, FRAME["stars"])
    of_frame = AttributeClassifier(**LINEAR).fit(Stream(FRAME), pa.array(FRAME["stars"]))
    np.testing.assert_allclose(of_array.predict_proba(array), of_frame.predict_proba(FRAME))


@slow
def test_columns_of_fit_and_no_attributes() -> None:
    texts = linear(attributes=None)
    assert texts.predictor_.columns == ("text",)
    assert texts.feature_names_in_.tolist() == FRAME.columns.tolist()
    expected = linear(attributes=[]).predict_proba(FRAME)
    np.testing.assert_array_equal(texts.predict_proba(FRAME), expected)
    np.testing.assert_allclose(texts.predict_proba(FRAME["text"][0]), expected[:1])
    assert texts.predict_proba([]).shape == (0, 2)
    stars = FRAME["stars"]
    for given in (FRAME[["text", "user"]].assign(**{"7": 1}).rename(columns={"7": 7}), Stream(FRAME[["text", "user"]])):
        texts.fit(given, stars)  # a column that nobody can read has no name
        assert (texts.feature_names_in_.tolist(), texts.n_features_in_) == (["text", "user"], 2)
    texts.set_params(text="x0").fit(FRAME[["text"]].to_numpy(), stars)
    assert texts.n_features_in_ == 1
    assert not hasattr(texts, "feature_names_in_")


@slow
def test_the_model_of_a_baseline_is_saved_as_any_other(tmp_path: Path) -> None:
    fitted = linear()
    fitted.predictor_.model.save_pretrained(tmp_path / "model")
    again = Predictor.from_pretrained(tmp_path / "model").predict(FRAME)
    np.testing.assert_array_equal(again[["probability_bad", "probability_good"]], fitted.predict_proba(FRAME))


@slow
@pytest.mark.parametrize("fit", [pytest.param(small, marks=needs_lab), linear])
def test_it_is_saved_and_loaded(fit: Callable[[], AttributeClassifier], tmp_path: Path) -> None:
    fitted, folder = fit(), tmp_path / "saved"
    expected = fitted.predict_proba(FRAME)
    fitted.save(folder)
    for _ in range(2):  # what is loaded is saved again, in the place of the earlier one
        loaded = AttributeClassifier.load(folder)
        np.testing.assert_array_equal(loaded.predict_proba(FRAME), expected)
        assert loaded.get_params() == fitted.get_params()
        assert loaded.classes_.tolist() == fitted.classes_.tolist()
        assert loaded.classes_.dtype == fitted.classes_.dtype
        assert list(loaded.feature_names_in_) == list(FRAME.columns)
        assert (dict(loaded.results_), repr(loaded.results_)) == (dict(fitted.results_), repr(fitted.results_))
        loaded.save(folder)
    assert [path.name for path in tmp_path.iterdir()] == ["saved"]
    columns = ["probability_bad", "probability_good"]
    found = Predictor.from_pretrained(folder, batch_size=fitted.predictor_.batch_size).predict(FRAME)[columns]
    np.testing.assert_allclose(found, expected, atol=1e-6)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(loaded)).predict_proba(FRAME), expected)
    if fit is small:
        assert loaded.partial_fit(FRAME, FRAME["stars"]).predict(FRAME).shape == (60,)


@slow
def test_numbers_are_saved_and_another_class_is_refused(tmp_path: Path) -> None:
    regressor = AttributeRegressor(**{**LINEAR, "attributes": [Number("price")]}).fit(FRAME, FRAME["look"])
    regressor.save(tmp_path / "look")
    loaded = AttributeRegressor.load(tmp_path / "look")
    np.testing.assert_array_equal(loaded.predict(FRAME), regressor.predict(FRAME))
    assert loaded.attributes == [Number("price")]
    with pytest.raises(ConfigError, match=r"holds 'AttributeRegressor', and no AttributeClassifier: load it with"):
        AttributeClassifier.load(tmp_path / "look")
    days = AttributeClassifier(**LINEAR).fit(FRAME, pd.to_datetime(FRAME["stars"].map({"bad": 1, "good": 2}), unit="D"))
    days.save(tmp_path / "look")
    assert AttributeClassifier.load(tmp_path / "look").classes_.tolist() == days.classes_.tolist()
    stars = AttributeOrdinal(**LINEAR).fit(FRAME, FRAME["taste"])
    stars.save(tmp_path / "look")
    ordinal = AttributeClassifier.load(tmp_path / "look")
    assert type(ordinal) is AttributeOrdinal
    assert ordinal.predict(FRAME).tolist() == stars.predict(FRAME).tolist()
    with pytest.raises(ConfigError, match=r"random_state is RandomState.*set_params\(random_state=0\)"):
        linear(random_state=np.random.RandomState(0)).save(tmp_path / "drawn")
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "mine.txt").write_text("mine")
    with pytest.raises(ConfigError, match="other is there already, and is no saved estimator"):
        stars.save(tmp_path / "other")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["look", "other"]
    with pytest.raises(ModelFolderError, match=r"other has no estimator\.json, so it is no saved estimator"):
        AttributeClassifier.load(tmp_path / "other")
    with pytest.raises(NotFittedError):
        AttributeClassifier(**LINEAR).save(tmp_path / "new")
    record = tmp_path / "look" / "estimator.json"
    record.write_text(record.read_text().replace("classes", "glasses", 1))
    with pytest.raises(ModelFolderError, match="is damaged"):
        AttributeOrdinal.load(tmp_path / "look")


@slow
def test_values_are_added_and_explained(classifier: AttributeClassifier) -> None:
    expected, twin = classifier.predict_proba(FRAME), copy.deepcopy(classifier)
    new = FRAME[:10].assign(user="new")
    added = twin.enrol(new, new["stars"], attributes="user", prior=1e-3)
    assert [(one.attribute, one.value, one.rows) for one in added.values] == [("user", "new", 10)]
    np.testing.assert_array_equal(twin.predict_proba(FRAME), expected)
    assert np.abs(twin.predict_proba(new) - classifier.predict_proba(new)).max() > 0
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(twin)).predict_proba(new), twin.predict_proba(new))
    with pytest.raises(DataError, match="no new value"):
        twin.enrol(FRAME, FRAME["stars"])
    with pytest.raises(ValueError, match="inconsistent numbers"):
        twin.enrol(FRAME, FRAME["stars"][:5])
    record = twin.explain(new, new["stars"], row=3, instead=[{"user": "u1"}], top=2)
    assert (record["rows"], record["row"]["number"], record["method"]) == (10, 3, "upa")
    assert "What is lost without an attribute" in repr(record)
    baseline = linear()
    with pytest.raises(ConfigError, match="method 'linear' has no vector for each value"):
        baseline.enrol(new, new["stars"])
    explained = baseline.explain(FRAME, FRAME["stars"])
    assert (explained["rows"], explained["data"]) == (60, "X")
    with pytest.raises(NotFittedError):
        clone(baseline).explain(FRAME, FRAME["stars"])
    prices = AttributeRegressor(**LINEAR).fit(FRAME, FRAME["look"])
    with pytest.raises(ValueError, match="could not convert string to float: 'bad'"):
        prices.explain(FRAME, FRAME["stars"])


@slow
def test_it_is_pickled_with_its_model(classifier: AttributeClassifier, tmp_path: Path) -> None:
    expected = classifier.predict_proba(FRAME)
    for twin in (pickle.loads(pickle.dumps(classifier)), copy.deepcopy(classifier)):
        np.testing.assert_array_equal(twin.predict_proba(FRAME), expected)
        assert twin.predictor_.batch_size == classifier.predictor_.batch_size
    with pytest.raises(NotFittedError):
        clone(classifier).predict(FRAME)

    backbone = small_runs.save_backbone(tmp_path / "here")
    fitted = small(backbone=backbone, tuning="frozen")
    expected, packed = fitted.predict_proba(FRAME), pickle.dumps(fitted)
    shutil.move(backbone, tmp_path / "there")
    moved = pickle.loads(packed)
    with pytest.raises(ConfigError, match="here"):
        moved.predict(FRAME)
    moved.set_params(backbone=tmp_path / "there")
    np.testing.assert_array_equal(moved.predict_proba(FRAME), expected)


@slow
def test_a_training_continues(classifier: AttributeClassifier) -> None:
    before, twin = classifier.predict_proba(FRAME), copy.deepcopy(classifier).set_params(learning_rate=1e-5)
    newer = FRAME[:20].assign(user="u99", stars="good")
    twin.partial_fit(newer, newer["stars"])
    assert twin.predictor_.schema["user"].values == (*classifier.predictor_.schema["user"].values, "u99")
    assert twin.classes_.tolist() == ["bad", "good"]
    # From new weights, two such small steps would lead elsewhere.
    assert 0 < np.abs(twin.predict_proba(FRAME) - before).max() < 1e-3
    with pytest.raises(ConfigError, match="y has 'awful', which is none of the classes"):
        twin.partial_fit(newer, ["awful"] * 20)
    first = AttributeClassifier(**SMALL).partial_fit(newer, newer["stars"], classes=["bad", "good", "awful"])
    assert first.predict_proba(FRAME).shape == (60, 3)
    of_array = AttributeClassifier("x0", **{**SMALL, "attributes": ["x1"]})
    with pytest.raises(ConfigError, match="at the first call it was"):
        first.partial_fit(newer, newer["stars"], classes=["bad", "good"])
    of_array.partial_fit(newer[["text", "user"]].to_numpy(), newer["stars"], classes=["bad", "good"])
    with pytest.raises(ValueError, match="X has 3 features"):
        of_array.partial_fit(newer[["text", "user", "tags"]].to_numpy(), newer["stars"])
    for baseline in ("linear", {"name": "linear"}, Linear()):
        assert not hasattr(AttributeClassifier(**{**LINEAR, "method": baseline}), "partial_fit")
    warm = AttributeClassifier(**{**SMALL, "warm_start": True}).fit(FRAME[:40], FRAME["stars"][:40])
    earlier = warm.predictor_.schema["user"].values
    warm.fit(newer, newer["stars"])
    assert warm.predictor_.schema["user"].values == (*earlier, "u99")


@slow
def test_models_are_selected() -> None:
    scores = cross_val_score(AttributeClassifier(**LINEAR), FRAME, FRAME["stars"], cv=2)
    assert np.isfinite(scores).tolist() == [True, True]
    grid = [
        {"model__method": ["linear"], "model__attributes": [["user"]]},
        {"model__method": ["attributes-only"], "model__attributes": [["user", "price"]]},
    ]
    lower = FunctionTransformer(lambda frame: frame.assign(text=frame["text"].str.lower()))
    search = GridSearchCV(Pipeline([("lower", lower), ("model", AttributeClassifier(**LINEAR))]), grid, cv=2)
    search.fit(FRAME, FRAME["stars"])
    assert len(search.cv_results_["params"]) == 2
    assert search.best_estimator_.predict(FRAME).shape == (60,)
    bagged = BaggingClassifier(AttributeClassifier("x0", **{**LINEAR, "attributes": ["x1"]}), 2, random_state=0)
    bagged.fit(FRAME[["text", "user"]], FRAME["stars"])
    assert set(bagged.predict(FRAME[["text", "user"]])) == {"bad", "good"}
    weights = np.where(FRAME["stars"] == "bad", 1.0, 0.01)
    weighted = AttributeClassifier(**LINEAR).fit(FRAME, FRAME["stars"], sample_weight=weights)
    assert (weighted.predict_proba(FRAME) - linear().predict_proba(FRAME))[:, 0].min() > 0


@needs_lab
@slow
def test_an_ordered_categorical_tells_the_order_of_names() -> None:
    names = ["poor", "fair", "good", "great"]
    y = pd.Series(pd.Categorical.from_codes(FRAME["taste"] - 1, names, ordered=True))
    with pytest.warns(DataConversionWarning, match="column-vector y"):
        ordinal = AttributeOrdinal(**SMALL).fit(FRAME, y.to_frame())
    assert ordinal.classes_.tolist() == names
    assert set(ordinal.predict(FRAME)) <= set(names)


@pytest.mark.exhaustive
@slow
def test_ordered_classes_and_numbers() -> None:
    stars = FRAME["taste"].map({1: "2", 2: "9", 3: "10", 4: "11"})
    ordinal = AttributeOrdinal(**SMALL).fit(FRAME, stars)
    assert ordinal.predictor_.task.kind == "ordinal"
    assert ordinal.classes_.tolist() == ["2", "9", "10", "11"]
    probabilities = ordinal.predict_proba(FRAME)
    np.testing.assert_allclose(probabilities.sum(axis=1), 1, atol=1e-6)
    assert ordinal.predict(FRAME).tolist() == ordinal.classes_[probabilities.argmax(axis=1)].tolist()
    numbers = 1000 + 5 * FRAME["look"]
    regressor = AttributeRegressor(**SMALL).fit(FRAME, numbers)
    found = regressor.predict(FRAME)
    assert np.abs(found - numbers).max() < 20
    assert regressor.score(FRAME, numbers) == pytest.approx(1 - ((found - numbers) ** 2).mean() / numbers.var(ddof=0))
    assert regressor.partial_fit(FRAME, numbers).predict(FRAME).shape == (60,)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: linear(text="txt"), "no column 'txt'; did you mean"),
        (lambda: linear(attributes=["usr"]), "no column 'usr'"),
        (lambda: linear(attributes=5), "the attributes are 5"),
        (lambda: linear(validation_fraction=2), "between 0 and 1"),
        (lambda: linear(settings=5), "settings"),
        (
            lambda: linear(settings={"data.test": "test.csv"}),
            "settings has data.test, which the rows or a parameter decide",
        ),
        (lambda: linear(settings={"data": {"text": "tags"}}), "settings has data.text, which the rows"),
        (lambda: linear(settings={"task.classes": ["bad", "good", "ugly"]}), "settings has task.classes, which the"),
        (lambda: linear(text=5), "text"),
        (lambda: linear(text=None), "text is None: give the name of a column"),
        (lambda: linear(text=[]), r"text is \[\]: give the name of a column"),
        (
            lambda: BaggingClassifier(AttributeClassifier(**LINEAR), 2).fit(FRAME[["text", "user"]], FRAME["stars"]),
            r"an array has no names: its columns are x0, x1, and the estimator reads text, user; .* text='x0'",
        ),
        (
            lambda: AttributeOrdinal(**LINEAR).fit(FRAME, FRAME["stars"]),
            "of which nothing tells the order: give numbers",
        ),
        (lambda: AttributeOrdinal(**LINEAR).fit(FRAME, FRAME["taste"] / 2), r"fractions, such as 1.5 stars, as texts"),
        (lambda: AttributeRegressor(**LINEAR).fit(FRAME, pd.to_datetime(FRAME["taste"])), r"datetime64.*give numbers"),
        (
            lambda: linear(warm_start=True).fit(FRAME, FRAME["stars"]),
            "warm_start is True, and the baseline 'linear' learns all rows at once",
        ),
        (
            lambda: AttributeClassifier(**LINEAR).fit(pd.concat([FRAME, FRAME[["user"]]], axis=1), FRAME["stars"]),
            "several columns 'user'",
        ),
        (lambda: AttributeClassifier(**LINEAR).fit(FRAME, FRAME["stars"], sample_weight=np.zeros(60)), "are zero"),
        (
            lambda: AttributeClassifier(**LINEAR).fit(FRAME, FRAME["stars"], sample_weight=[1.0] * 59 + [-1.0]),
            r"sample_weight\[59\] is -1.0: give finite numbers of at least 0",
        ),
        (lambda: AttributeClassifier(**LINEAR).fit([], []), "X has 0 rows: give at least 2"),
        (lambda: AttributeClassifier(**LINEAR).fit(FRAME[:1], FRAME["stars"][:1]), "X has 1 row: give at least 2"),
    ],
)
def test_mistakes_are_named(call: Callable[[], Any], message: str) -> None:
    with pytest.raises((ConfigError, DataError), match=message):
        call()


@pytest.mark.exhaustive
@pytest.mark.parametrize("kind", [AttributeClassifier, AttributeOrdinal, AttributeRegressor])
@pytest.mark.filterwarnings("ignore")
def test_the_checks_of_scikit_learn_that_apply_pass(kind: Any) -> None:
    estimator = kind("x0", **{**LINEAR, "attributes": [Number("x0")], "method": "attributes-only"})
    results = check_estimator(estimator, on_fail=None, on_skip=None)
    failed = {one["check_name"]: str(one["exception"]) for one in results if one["status"] == "failed"}
    assert set(failed) <= set(NOT_APPLICABLE), failed
    assert sum(one["status"] == "passed" for one in results) > 40

"""Simple models count beside a network, with weights that fit the validation rows."""

from __future__ import annotations

import copy
import json
import logging
import math
import pickle
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import small_runs
from live_service import client_of
from reporters import Notes
from safetensors.numpy import load_file, save_file

from attribune import (
    Categorical,
    MultiLabel,
    Predictor,
    Schema,
    compare_runs,
    enrol,
    evaluate,
    export,
    forget,
    predict,
    train,
)
from attribune.apps.report.run_page import report
from attribune.apps.serve.models import load_models
from attribune.core.progress import Reporter
from attribune.errors import ConfigError, ModelFolderError
from attribune.models.blend import Blend, owners_of_words
from attribune.models.boosting import BoostingModel
from attribune.models.predictor_group import PredictorGroup
from attribune.models.word_features import LinearFeatures
from attribune.runs.folder import RunFolder
from attribune.schema.schema import Revision
from attribune.tasks import Classification, Regression
from attribune.tasks.calibration import fit_weights
from attribune.training.blending import Continued, UnreadRows, cross_fitted

TASK = Classification(classes=("a", "b", "c"))
TEXTS = ["good film", "dull plot", "good plot", "odd cast", "film", "plot noir"]
USERS = ["u0", "u1", "u0", "u2", None, "u3"]


@pytest.mark.parametrize("weights", [(1.0, 0.8), (0.5, 1.5), (2.0, 0.0)])
def test_the_weights_are_those_of_the_best_score(weights: tuple[float, float]) -> None:
    rng = np.random.default_rng(0)
    one, two = 1.5 * rng.normal(size=(2, 3_000, 3))
    labels = (weights[0] * one + weights[1] * two + rng.gumbel(size=one.shape)).argmax(axis=1)
    found = fit_weights(TASK, [one, two], labels)
    assert found == pytest.approx(weights, abs=0.1)

    def loss(a: float, b: float) -> float:
        score = TASK.proper_score(a * one + b * two, labels)
        assert score is not None
        return score.value()

    grid = [loss(found[0] * x, max(0.0, found[1] + y)) for x in (0.9, 1, 1.1) for y in (-0.1, 0, 0.1)]
    assert loss(*found) == pytest.approx(min(grid), abs=2e-4)


def test_few_rows_leave_the_first_model_as_it_is() -> None:
    one, two = np.zeros((4, 3)), 5 * np.eye(3)[[0, 1, 2, 0]]
    a, b = fit_weights(TASK, [one, two], np.array([0, 1, 2, 0]))
    assert a == pytest.approx(1, abs=0.01)
    assert 0 < b < 0.6, "though the second one is always right"


def test_some_tens_of_rows_leave_the_second_model_alone() -> None:
    rng = np.random.default_rng(0)
    one, two = 2 * rng.normal(size=(2, 80, 3))
    labels = (two + rng.gumbel(size=two.shape)).argmax(axis=1)
    a, b = fit_weights(TASK, [one, two], labels)
    assert a < 0.1
    assert b > 0.6


def test_numbers_are_weighted_by_their_errors() -> None:
    rng = np.random.default_rng(0)
    one, two = rng.normal(size=(2, 2_000, 1))
    labels = (0.6 * one + 0.3 * two)[:, 0] + 0.1 * rng.normal(size=2_000)
    assert fit_weights(Regression(mean=3.0, std=2.0), [one, two], labels) == pytest.approx((0.6, 0.3), abs=0.02)


TAGS = [["war", "short"], ["war"], ["short", "war"], ["short"], [], ["noir", "war"]]


def schema_of(users: list[str | None]) -> Schema:
    table = {"user": users, "site": ["s"] * len(users), "tags": TAGS}
    return Schema.fit(table, [Categorical("user"), Categorical("site"), MultiLabel("tags")])


def drawn(schema: Schema) -> tuple[Blend, np.ndarray]:
    """A blend of random weights and small trees, and the ids of the rows."""
    rows = {"user": USERS, "site": ["s"] * len(USERS), "tags": TAGS}
    ids = schema.encode(rows)[0]
    features = LinearFeatures.fit(TEXTS, schema, max_features=100)
    rng = np.random.default_rng(0)
    labels = np.array([0, 1, 2, 1, 0, 2])
    growth = {"task": TASK, "min_samples_leaf": 1, "iterations": 3, "max_features": 100}
    return Blend(
        features=features,
        weight=rng.normal(size=(features.width, 3)).astype("f4"),
        bias=rng.normal(size=3).astype("f4"),
        neural_weight=0.7,
        linear_weight=1.3,
        owners=owners_of_words(features, TEXTS, ids),
        trees_weight=1.9,
        trees=BoostingModel.fit(one_column(TEXTS), ids, schema=schema, labels=labels, **growth),
    ), ids


def one_column(texts: list[str]) -> list[tuple[str]]:
    return [(text,) for text in texts]


def words_of(text: str) -> list[str]:
    """Of texts of one or two words."""
    return [*text.split(), text]


def owned(blend: Blend) -> set[tuple[str, str]]:
    """Words with the values that all their rows have."""
    attributes = list(blend.features.schema)
    return {
        (blend.features.words[word], list(attributes[number].values)[value - 1])
        for word, number, value in blend.owners.tolist()
    }


def slow_logits(blend: Blend, neural: np.ndarray, texts: list[str], ids: np.ndarray) -> np.ndarray:
    matrix = blend.features.transform(texts, ids).toarray()
    rows = []
    for z, x in zip(neural, matrix, strict=True):
        linear = [b + sum(v * w for v, w in zip(x, blend.weight[:, o], strict=True)) for o, b in enumerate(blend.bias)]
        rows.append([0.7 * own + 1.3 * other for own, other in zip(z, linear, strict=True)])
    assert blend.trees is not None
    trees = [blend.trees.logits(one_column([text]), one[None])[0] for text, one in zip(texts, ids, strict=True)]
    return np.array(rows) + 1.9 * np.array(trees)


def test_the_logits_are_the_weighted_sum() -> None:
    blend, ids = drawn(schema_of(USERS))
    texts, rows = TEXTS * 2, np.concatenate([ids, ids[::-1]])
    neural = np.random.default_rng(1).normal(size=(len(texts), 3))
    np.testing.assert_allclose(blend.logits(neural, texts, rows), slow_logits(blend, neural, texts, rows), rtol=1e-5)
    without = replace(blend, trees=None, trees_weight=0.0)
    assert np.abs(blend.logits(neural, texts, rows) - without.logits(neural, texts, rows)).min(axis=0).max() > 0.01


def test_a_word_belongs_to_the_values_that_all_its_rows_have() -> None:
    blend, _ = drawn(schema_of(USERS))
    expected = set()
    for word in {word for text in TEXTS for word in words_of(text)}:
        rows = [row for row, text in enumerate(TEXTS) if word in words_of(text)]
        shared = [{USERS[row], "s", *TAGS[row]} - {None} for row in rows]
        expected |= {(word, value) for value in set.intersection(*shared)}
    assert owned(blend) == expected
    assert {("good", "u0"), ("good", "war"), ("good", "short"), ("plot", "war"), ("plot noir", "noir")} <= expected


def test_owners_are_the_same_in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    expected = owned(drawn(schema_of(USERS))[0])
    monkeypatch.setattr("attribune.models.blend._ENTRIES", 2)
    assert owned(drawn(schema_of(USERS))[0]) == expected


@pytest.mark.parametrize(
    ("forgotten", "kept_rows"),
    [({"user": ("u0", "u2")}, [1, 4, 5]), ({"tags": ("war",)}, [3, 4]), ({"user": ("u1",), "tags": ("noir",)}, [0, 2])],
)
def test_words_and_weights_go_with_a_value(forgotten: dict[str, tuple[str, ...]], kept_rows: list[int]) -> None:
    schema = schema_of(USERS)
    blend, ids = drawn(schema)
    revision = Revision.removing(schema, forgotten)
    fewer = blend.under(revision.schema)
    values = {value for some in forgotten.values() for value in some}
    gone = {word for word, value in owned(blend) if value in values}
    assert gone
    assert set(blend.features.words) - set(fewer.features.words) == gone
    assert owned(fewer) == {(word, value) for word, value in owned(blend) if word not in gone}
    assert fewer.under(revision.schema) is fewer
    assert fewer.trees is not None
    assert fewer.trees.features.words.words == fewer.features.words
    for name, table in fewer.trees.features.encodings.items():
        assert len(table) == revision.schema[name].size == schema[name].size - len(forgotten.get(name, ()))
    before = dict(zip(blend.features.words, blend.weight, strict=False))
    for word, weight in zip(fewer.features.words, fewer.weight, strict=False):
        assert (before[word] == weight).all()
    rows = {"user": USERS, "site": ["s"] * len(USERS), "tags": TAGS}
    now = revision.schema.encode({name: [cells[row] for row in kept_rows] for name, cells in rows.items()})[0]
    texts = fewer.features.words[: len(kept_rows)]
    assert not gone & set(texts)
    zero = np.zeros((len(kept_rows), 3))
    np.testing.assert_allclose(
        fewer.logits(zero, texts, now), blend.logits(zero, texts, ids[kept_rows]), rtol=1e-5, atol=1e-6
    )


def test_a_new_value_has_no_weight() -> None:
    schema = schema_of(USERS)
    blend, ids = drawn(schema)
    more = blend.under(Revision.adding(schema, {"user": {"u9": 4, "u8": 2}}).schema)
    new = more.features.schema.encode({"user": ["u9", "u8", None], "site": ["s"] * 3, "tags": [[]] * 3})[0]
    found = more.logits(np.zeros((3, 3)), ["film"] * 3, new)
    assert (found == found[2]).all()
    assert (more.logits(np.zeros((6, 3)), TEXTS, ids) == blend.logits(np.zeros((6, 3)), TEXTS, ids)).all()


def test_what_is_saved_is_read(tmp_path: Path) -> None:
    schema = schema_of(USERS)
    blend, ids = drawn(schema)
    assert Blend.load(tmp_path, schema=schema, task=TASK) is None
    blend.save(tmp_path)
    again = Blend.load(tmp_path, schema=schema, task=TASK)
    neural = np.ones((6, 3))
    assert (again.logits(neural, TEXTS, ids) == blend.logits(neural, TEXTS, ids)).all()
    with pytest.raises(ModelFolderError, match="does not fit the model"):
        Blend.load(tmp_path, schema=schema, task=Classification(classes=("a", "b")))
    damages: list[Callable[[], Any]] = [
        lambda: (tmp_path / "blend.json").write_text(json.dumps({"words": ["film"]})),
        lambda: (tmp_path / "blend.safetensors").write_bytes(b"no tensors"),
        lambda: (tmp_path / "blend.safetensors").unlink(),
        lambda: without_tensor(tmp_path / "blend.safetensors", "trees.left"),
        lambda: without_tensor(tmp_path / "blend.safetensors", "encodings.user"),
    ]
    for damage in damages:
        blend.save(tmp_path)
        damage()
        with pytest.raises(ModelFolderError, match="the simple part of the model cannot be read"):
            Blend.load(tmp_path, schema=schema, task=TASK)


def without_tensor(file: Path, name: str) -> None:
    tensors = load_file(file)
    del tensors[name]
    save_file(tensors, file)


def test_trees_of_other_features_are_refused(tmp_path: Path) -> None:
    schema = schema_of(USERS)
    blend, _ = drawn(schema)
    blend.save(tmp_path)
    file = tmp_path / "blend.safetensors"
    tensors = load_file(file)
    save_file(tensors | {"components": tensors["components"][:-1]}, file)
    with pytest.raises(ModelFolderError, match=r"the simple part of the model cannot be read \(trees of \d+ features"):
        Blend.load(tmp_path, schema=schema, task=TASK)
    save_file(tensors | {"components": np.ascontiguousarray(tensors["components"][:, :-1])}, file)
    with pytest.raises(ModelFolderError, match=r"does not fit the model \(components\)"):
        Blend.load(tmp_path, schema=schema, task=TASK)


def test_owners_of_an_earlier_version_are_read(tmp_path: Path) -> None:
    schema = schema_of(USERS)
    blend, _ = drawn(schema)
    blend.save(tmp_path)
    file = tmp_path / "blend.safetensors"
    tensors = load_file(file)
    del tensors["owners_of_words"]
    before = np.zeros((len(blend.features.words), len(schema)), dtype=np.int64)  # nothing of several values
    for word, number, value in blend.owners.tolist():
        before[word, number] = value if number < 2 else 0
    save_file(tensors | {"owners": before}, file)
    again = Blend.load(tmp_path, schema=schema, task=TASK)
    assert owned(again) == {(word, value) for word, value in owned(blend) if value in {"s", *filter(None, USERS)}}
    again.save(tmp_path)
    assert owned(Blend.load(tmp_path, schema=schema, task=TASK)) == owned(again)


@pytest.mark.parametrize("row", [[99, 0, 1], [0, 3, 1], [0, 0, 9], [0, 0, 0], [0, -1, 1]])
def test_owners_that_do_not_fit_are_refused(tmp_path: Path, row: list[int]) -> None:
    schema = schema_of(USERS)
    blend, _ = drawn(schema)
    replace(blend, owners=np.array([row], dtype=np.int32)).save(tmp_path)
    with pytest.raises(ModelFolderError, match=r"does not fit the model \(owners\)"):
        Blend.load(tmp_path, schema=schema, task=TASK)


ROWS = pd.DataFrame(small_runs.reviews(600))
NEW = pd.DataFrame(small_runs.reviews(12, seed=1))


def trained(
    folder: Path,
    backbone: Path,
    rows: pd.DataFrame = ROWS,
    *,
    reporter: Reporter | None = None,
    options: dict[str, Any] | None = None,
    **settings: Any,
) -> RunFolder:
    given: dict[str, Any] = {"text": "text", "label": "stars", "attributes": ["user"], "max_length": 32}
    given |= {"backbone": backbone, "method": "pln", "epochs": 0.2, **(options or {})}
    train(rows, folder, settings={"training.precision": "float32", **settings}, reporter=reporter, **given)
    return RunFolder(folder)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory, backbone: Path) -> RunFolder:
    return trained(tmp_path_factory.mktemp("blended") / "run", backbone)


@pytest.fixture
def copied(run: RunFolder, tmp_path: Path) -> RunFolder:
    shutil.copytree(run.path, tmp_path / "run")
    return RunFolder(tmp_path / "run")


def test_where_validation_rows_show_a_gain_the_linear_model_counts(run: RunFolder, tmp_path: Path) -> None:
    predictor = Predictor.from_pretrained(run.path)
    alone = Predictor(predictor.model, text_input=predictor.text_input, blend=False)
    blend, rows = predictor.blend, predictor.encode_rows(NEW)
    assert blend.linear_weight + blend.trees_weight > 0.3
    assert alone.blend is None
    raw = alone.logits(NEW)[0] * (predictor.model.temperature or 1)
    linear = blend.features.transform(NEW["text"].tolist(), rows.attribute_ids) @ blend.weight + blend.bias
    trees = blend.trees.logits([(text,) for text in NEW["text"]], rows.attribute_ids)
    expected = blend.neural_weight * raw + blend.linear_weight * linear + blend.trees_weight * trees
    np.testing.assert_allclose(predictor.logits(NEW)[0], expected, rtol=1e-4, atol=1e-5)
    results = run.read_results()
    assert [model.name for model in results.models[:3]] == ["pln", "pln, attributes hidden", "pln, not blended"]
    (found,) = (one for one in results.findings if one.code == "blended-with-linear")
    assert {name: found.values[name] for name in blend.weights} == blend.weights
    better, worse = (results.models[number].parts["test"]["log_loss"].value for number in (0, 2))
    assert found.values["figures"][0]["difference"] == pytest.approx(better - worse)
    assert "blend.json" in (run.model / "README.md").read_text()
    page = report(run.path, output=tmp_path / "page.html").read_text(encoding="utf-8")
    assert found.text.partition(", with the weight")[0] in page


def test_everything_that_predicts_predicts_alike(run: RunFolder, tmp_path: Path) -> None:
    predictor = Predictor.from_pretrained(run.path)
    expected = predictor.logits(NEW)[0]
    rows = predictor.encode_rows(NEW)
    pure = Predictor(predictor.model, text_input=predictor.text_input, blend=False).logits(NEW)[0]
    assert np.abs(expected - pure).max() > 0.1

    def close(found: Any) -> None:
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4)

    close(predictor.score(rows))
    close(predictor.score(type(rows).concat([rows.take(slice(5)), rows.take(slice(5, None))])))
    for other in (copy.deepcopy(predictor), pickle.loads(pickle.dumps(predictor)), predictor.twin()):
        close(other.logits(NEW)[0])
    group = PredictorGroup.from_pretrained({"one": run.path, "two": run.path})
    close(group.score({"one": rows, "two": rows})["two"])
    hidden = predictor.logits(NEW, hide_attributes=True)[0]
    np.testing.assert_allclose(predictor.logits(NEW.assign(user=None))[0], hidden, rtol=1e-4, atol=1e-4)
    predict(run.path, NEW, tmp_path / "out.parquet")
    good = predictor.task.decode(expected).columns()["probability_good"]
    np.testing.assert_allclose(pd.read_parquet(tmp_path / "out.parquet")["probability_good"], good, atol=1e-4)
    with client_of(load_models([str(run.path)])) as client:
        pairs = zip(NEW["text"], NEW["user"], strict=True)
        sent = [{"text": text, "attributes": {"user": user}} for text, user in pairs]
        answer = client.post("/v1/predict", json={"rows": sent})
    served = [one["output"]["probability_good"] for one in answer.json()["predictions"]]
    assert served == pytest.approx(good.tolist(), abs=1e-4)
    scored = evaluate(run.path, ROWS[:60])
    assert scored.metrics["as given"]["log_loss"].value < 0.6


LENGTH = np.random.default_rng(0).integers(0, 12, len(ROWS))
LONG = ROWS.assign(
    text=[text + " so" * more for text, more in zip(ROWS["text"], LENGTH, strict=True)],
    is_long=np.where(LENGTH > 5, "yes", "no"),
    length=LENGTH,
    short=11 - LENGTH,
    kinds=[";".join(["all", *(["long"] if more > 5 else []), *(["huge"] if more > 8 else [])]) for more in LENGTH],
)


@pytest.mark.parametrize(
    "options",
    [
        {"label": "is_long"},
        {"label": "is_long", "folds": 3},
        {"label": "is_long", "method": "adapter"},
        {"label": "length", "task": "regression"},
        {"label": "length", "task": "ordinal"},
        {"label": "kinds", "task": {"kind": "classification", "multi_label": True, "separator": ";"}},
        {"label": ["is_long", "stars"], "task": "aspects"},
        {"label": "is_long", "attributes": ["user", {"name": "short", "kind": "numeric"}]},
    ],
    ids=str,
)
def test_trees_count_where_they_see_what_the_others_do_not(
    backbone: Path, tmp_path: Path, options: dict[str, Any]
) -> None:
    other = trained(tmp_path / "run", backbone, LONG, options={"baselines": False, **options})
    blend, results = Predictor.from_pretrained(other.path).blend, other.read_results()
    assert blend.trees is not None, "repeated words say little of how long a text is"
    assert blend.weights == results.training.blend
    metric = next(iter(results.models[0].parts["test"]))
    scored = evaluate(other.path, LONG[:60]).metrics["as given"]
    (found,) = (one for one in results.findings if one.code == "blended-with-linear")
    assert found.values["trees_weight"] == blend.trees_weight
    assert "oosted trees of words and attributes count beside the network" in found.text
    (alone,) = (model for model in results.models if model.name.endswith(", not blended"))
    assert alone.parts["test"][metric].value != results.models[0].parts["test"][metric].value
    assert np.isfinite(scored[metric].value)


@pytest.mark.parametrize(("rows", "outputs"), [(100, 20), (20_000, 1)])
def test_many_rows_and_classes_have_a_linear_model_alone(
    backbone: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rows: int, outputs: int
) -> None:
    monkeypatch.setattr("attribune.training.blending._TREES_ROWS", rows)
    monkeypatch.setattr("attribune.training.blending._TREES_OUTPUTS", outputs)
    other = trained(
        tmp_path / "run", backbone, ROWS[:300], options={"baselines": False}, **{"training.blend": "always"}
    )
    blend = Predictor.from_pretrained(other.path).blend
    assert blend.trees is None
    assert blend.linear_weight > 0


def test_rows_without_texts_are_refused(run: RunFolder) -> None:
    predictor = Predictor.from_pretrained(run.path)
    alone = Predictor(predictor.model, text_input=predictor.text_input, blend=False)
    rows = alone.encode_rows(NEW)
    assert len(alone.score(rows)) == len(NEW)
    group = PredictorGroup.from_pretrained({"one": run.path, "two": run.path})
    for score in (predictor.score, lambda given: group.score({"one": given, "two": given})):
        with pytest.raises(ConfigError, match="the 12 rows have no texts as they are written"):
            score(rows)
    assert predictor.score(predictor.encode_rows(NEW[:0])).shape == (0, 2)


def test_forgetting_takes_words_and_weights(copied: RunFolder) -> None:
    before = Predictor.from_pretrained(copied.path)
    forget(copied.path, "user", ["u3"])
    after = Predictor.from_pretrained(copied.path)
    others = NEW[NEW["user"] != "u3"]
    gone = {*before.blend.features.words} - {*after.blend.features.words}
    assert gone == {word for word, value in owned(before.blend) if value == "u3"}
    assert "u3" not in after.schema["user"].values
    same = [not ({*text.split()} & gone) for text in others["text"]]
    assert any(same)
    kept = others[same]
    np.testing.assert_allclose(after.logits(kept)[0], before.logits(kept)[0], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("sureness", [0.5, 1.0, 2.0])
def test_models_of_a_continued_run_are_as_sure_as_its_new_rows_say(run: RunFolder, sureness: float) -> None:
    predictor = Predictor.from_pretrained(run.path)
    random, before = np.random.default_rng(0), predictor.blend
    neural, others = random.normal(size=(2, 4_000, 2))
    joined = before.neural_weight * neural + others
    likely = 1 / (1 + np.exp(sureness * (joined[:, 0] - joined[:, 1])))
    labels = (random.random(len(likely)) < likely).astype(np.int64)
    rows = UnreadRows(texts=list(map(str, range(len(labels)))), labels=labels, neural=neural, others=[others])
    after = Continued(run="before", blend=before).scaled(predictor.task, rows)
    for name in ("neural_weight", "linear_weight", "trees_weight"):
        assert getattr(after, name) == pytest.approx(sureness * getattr(before, name), rel=0.1)
    few = UnreadRows(texts=["one"], labels=labels[:1], neural=neural[:1], others=[others[:1]])
    after = Continued(run="before", blend=before).scaled(predictor.task, few)
    assert after.neural_weight == pytest.approx(before.neural_weight, rel=0.5), "one row is not enough"
    assert Continued(run="before", blend=before).scaled(predictor.task, None) is before


def test_an_enrolled_value_leaves_others_as_they_are(copied: RunFolder) -> None:
    before = Predictor.from_pretrained(copied.path).logits(NEW)[0]
    table = pd.DataFrame(small_runs.reviews(40, seed=5)).assign(user="new")
    enrol(copied.path, table)
    after = Predictor.from_pretrained(copied.path)
    assert "new" in after.schema["user"].values
    assert (after.logits(NEW)[0] == before).all()
    assert math.isfinite(after.logits(NEW.assign(user="new"))[0].sum())


def test_an_export_says_that_it_is_of_the_network_alone(run: RunFolder, tmp_path: Path) -> None:
    done = export(run.path, tmp_path / "model.pt2", kind="torch")
    assert done.description.endswith("of the network alone: predictions of the run also count simple models beside it")


def test_a_network_that_reads_no_attributes_has_a_linear_model_that_reads_none(
    run: RunFolder, backbone: Path, tmp_path: Path
) -> None:
    other = trained(tmp_path / "run", backbone, **{"method.name": "adapter", "training.blend": "always"})
    predictor = Predictor.from_pretrained(other.path)
    assert len(predictor.blend.features.schema) == 0
    assert predictor.predict("great film")["prediction"] in ("good", "bad")
    results = other.read_results()
    assert [model.name for model in results.models[:2]] == ["adapter", "adapter, not blended"]
    both = [[model for model in one.models if model.condition == "given"][:2] for one in (run.read_results(), results)]
    pairs = [pair for pair in compare_runs(run.path, other.path) if pair["metric"] == "accuracy"]
    for pair, models, end in zip(pairs, zip(*both, strict=True), ("", ", not blended"), strict=True):
        assert (pair["a"], pair["b"]) == (f"{run.path}{end}", f"{other.path}{end}")
        ours, theirs = (model.parts["test"]["accuracy"].value for model in models)
        assert pair["difference"] == pytest.approx(ours - theirs)


OPPOSITE = ROWS[300:].assign(stars=ROWS["stars"][300:].map({"good": "bad", "bad": "good"}))
FEW = ROWS[:300].assign(
    marks=["!" * (1 + row // 20) + " " + "?" * (row % 20) for row in range(300)],
    other=ROWS["text"][300:].tolist(),
    cosine=ROWS["look"][:300] / 4,
)


@pytest.mark.parametrize(
    ("options", "reason", "words"),
    [
        ({"validation": OPPOSITE}, "weight", "the best weights for them on rows that none of them had read are 0"),
        ({"text": "marks"}, "fit", "the 240 training texts give no words"),
        ({"label": "cosine", "text_pair": "other", "task": "similarity"}, "task", "none for the task 'similarity'"),
        ({"method": "linear"}, "method", "none beside the method linear"),
    ],
)
def test_where_it_is_asked_for_and_cannot_be_it_is_said_why(
    backbone: Path, tmp_path: Path, options: dict[str, Any], reason: str, words: str
) -> None:
    notes = Notes()
    other = trained(tmp_path / "run", backbone, FEW, reporter=notes, options=options, **{"training.blend": "always"})
    results = other.read_results()
    (found,) = (one for one in results.findings if one.code == "blend-not-possible")
    assert found.values["reason"] == reason
    assert words in found.text
    assert notes.lines.count(found.text) == 1
    assert results.training.no_blend["reason"] == reason
    assert found.text in results.verdict.sentences()
    assert not (other.model / "blend.json").exists()


def test_where_it_is_not_asked_for_the_log_alone_has_why(
    backbone: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    notes = Notes()
    with caplog.at_level(logging.INFO, logger="attribune"):
        other = trained(tmp_path / "run", backbone, FEW, reporter=notes)
    assert "no model counts beside the network: few-rows (30 of at least 50)" in caplog.text
    assert not any("counts beside" in one for one in notes.lines)
    assert "blend-not-possible" not in {one.code for one in other.read_results().findings}


@pytest.mark.parametrize("is_calibrated", [True, False])
def test_a_gain_is_over_what_would_be_used_otherwise(is_calibrated: bool) -> None:
    rng = np.random.default_rng(0)
    sharp, noise = 6 * rng.normal(size=(400, 3)), rng.normal(size=(400, 3))
    labels = (sharp / 6 + rng.gumbel(size=(400, 3))).argmax(axis=1)
    rows = UnreadRows(texts=[f"t{row}" for row in range(400)], labels=labels, neural=sharp, others=[noise])
    gain = cross_fitted(TASK, rows, is_calibrated=is_calibrated)
    assert (gain.difference < -0.1) != is_calibrated, "the linear model is noise, and the network too sure of itself"
    assert abs(gain.difference) < 0.002 or not is_calibrated
    assert gain.is_better == (gain.difference < 0)
    assert str(gain).startswith("log_loss -")
    assert not replace(gain, difference=float("nan")).is_better


def test_a_run_that_is_continued_keeps_its_simple_models(run: RunFolder, backbone: Path, tmp_path: Path) -> None:
    notes, transfer = Notes(), {"transfer.run": str(run.path), "transfer.frozen": False, "transfer.full_model": True}
    other = trained(tmp_path / "run", backbone, FEW, reporter=notes, **transfer)
    before, after = (Predictor.from_pretrained(one.path).blend for one in (run, other))
    assert after.features.words == before.features.words
    np.testing.assert_array_equal(after.bias, before.bias)
    scale = after.neural_weight / before.neural_weight
    assert {**after.weights} == pytest.approx({name: scale * weight for name, weight in before.weights.items()})
    assert f"what counts beside the network is that of {run.path}, and has not read the new rows" in notes.lines


def test_methods_are_compared_with_the_same_beside_them(backbone: Path, tmp_path: Path) -> None:
    """So that what simple models add is not taken for what the attributes do."""
    other = trained(tmp_path / "run", backbone, options={"compare": "none"}, **{"training.blend": "always"})
    assert (other.path / "compare" / "none" / "model" / "blend.json").is_file()


@pytest.mark.parametrize("settings", [{"training.blend": "never"}, {"data.shuffled": True}])
def test_nothing_is_blended(backbone: Path, tmp_path: Path, settings: dict[str, Any]) -> None:
    other = trained(tmp_path / "run", backbone, **settings)
    assert not (other.model / "blend.json").exists()
    assert "blended-with-linear" not in {one.code for one in other.read_results().findings}

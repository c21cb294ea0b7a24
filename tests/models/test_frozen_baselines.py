"""The baselines on the vectors of a frozen backbone: features, fits, files, and the verbs that take them."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import small_runs
import torch
from commands import assert_verbs_run
from lab_methods import needs_lab
from scipy import sparse
from trained_runs import ROWS, TrainedRuns

from attribune import AttributeModel, Plain, Regression, load_tokenizer
from attribune.apps.cli import main
from attribune.models.features import SentenceVectors, VectorFeatures
from attribune.models.linear import LinearModel
from attribune.models.predictor import Predictor
from attribune.runs.folder import RunFolder
from attribune.runs.loading import load_run
from attribune.schema import Categorical, MultiLabel, Schema
from attribune.schema.schema import Revision


def trained(runs: TrainedRuns, label: str, *more: str, method: str) -> Path:
    words = small_runs.train_command(runs.table(ROWS), "", backbone=runs.backbone(), method=method, label=[label])
    return runs.trained([*words, *more, "--no-baselines"])


SCHEMA = Schema.fit(
    {"user": ["a", "b", "a", "b", "c"], "tags": [["x"], ["x", "y"], ["y"], None, ["x"]]},
    [Categorical("user"), MultiLabel("tags")],
)


def features(**options: Any) -> VectorFeatures:
    mean, scale = np.array([1.0, 0.0]), np.array([2.0, 0.5])
    return VectorFeatures(method="heads", backbone="none", schema=SCHEMA, mean=mean, scale=scale, **options)


def test_features_are_the_vector_and_its_products_with_values() -> None:
    ids = SCHEMA.encode({"user": ["b", None], "tags": [["x", "y"], ["y"]]})[0]
    vectors = np.array([[3.0, 1.0], [1.0, -2.0]], dtype=np.float32)
    made = features(intercept=0.5, weights=3.0)
    found = made.of_vectors(vectors, ids)
    assert isinstance(found, sparse.csr_array)
    assert found.shape == (2, made.width) == (2, 2 + 5 + 5 * 2)
    h = np.array([[1.0, 2.0], [0.0, -4.0]])
    onehot = np.array([[0, 1, 0, 1, 1], [0, 0, 0, 0, 1]])  # user a b c, tags x y
    products = np.concatenate([onehot[:, [value]] * h for value in range(5)], axis=1)
    assert found.toarray() == pytest.approx(np.hstack([h, 0.5 * onehot, 3.0 * products]))
    assert features().of_vectors(vectors, ids).toarray() == pytest.approx(np.hstack([h, onehot]))


def test_values_come_and_go_with_their_weights() -> None:
    made = features(weights=1.0)
    generator = np.random.default_rng(0)
    model = LinearModel(
        task=Regression(), features=made, weight=generator.normal(size=(made.width, 1)), bias=np.zeros(1), C=1.0
    )
    less = model.revised(Revision.removing(SCHEMA, {"user": ("a",)}))
    vectors = generator.normal(size=(4, 2)).astype(np.float32)

    def scores(one: LinearModel, users: list[Any]) -> Any:
        ids = one.schema.encode({"user": users, "tags": [["x"], None, ["y"], ["x", "y"]]})[0]
        assert isinstance(one.features, VectorFeatures)
        return one.features.of_vectors(vectors, ids) @ one.weight

    assert scores(less, ["b", "c", None, "b"]) == pytest.approx(scores(model, ["b", "c", None, "b"]))
    assert scores(less, ["a", "a", "a", "a"]) == pytest.approx(scores(model, [None] * 4))
    more = less.revised(Revision.adding(less.schema, {"user": {"new": 3}}))
    assert scores(more, ["new", "c", "b", "new"]) == pytest.approx(scores(model, [None, "c", "b", None]))


def test_vectors_are_the_pooled_states_of_the_backbone(trained_runs: TrainedRuns) -> None:
    name = str(trained_runs.backbone())
    vectors = SentenceVectors(name)
    ids = [[3, 7, 9, 4], [3, 8, 4], [3, *range(6, 25), 4]]
    model = AttributeModel.build(
        name, Schema([]), task=Regression(), tokenizer=load_tokenizer(name), method=Plain()
    ).eval()
    for text, found in zip(ids, vectors.encode(ids), strict=True):
        states = model.backbone(torch.tensor([text])).last_hidden_state
        pooled = model.pool(states, torch.ones(1, len(text)))
        assert found == pytest.approx(pooled[0].detach().numpy(), abs=1e-5)
    assert vectors.encode([]).shape == (0, vectors.size)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("method", "label", "task", "main_metric"),
    [
        ("heads", "stars", "classification", "accuracy"),
        ("intercept", "look", "ordinal", "rmse"),
        pytest.param("intercept", "stars", "classification", "accuracy", marks=pytest.mark.exhaustive),
        pytest.param("intercept", "look", "regression", "rmse", marks=pytest.mark.exhaustive),
        pytest.param("heads", "look", "rating", "accuracy", marks=pytest.mark.exhaustive),
    ],
)
def test_they_train_and_are_read_again(
    trained_runs: TrainedRuns, tmp_path: Path, method: str, label: str, task: str, main_metric: str
) -> None:
    run = trained(trained_runs, label, "--task", task, method=method)
    results = RunFolder(run).read_results()
    assert results.main_metric == main_metric
    assert [one.name for one in results.models[:2]] == [method, f"{method}, attributes hidden"]
    recipe, predictor = load_run(run)
    assert recipe.learner.baseline is not None
    assert isinstance(predictor.model, LinearModel)
    assert predictor.model.describe(precision="bf16")["method"] == method
    rows = {"text": ["great film", "awful", ""], "user": ["u0", "u1", None]}
    before = predictor.logits(rows)[0]
    for folder in (run, run / "model"):
        assert np.array_equal(Predictor.from_pretrained(folder).logits(rows)[0], before)
    assert np.abs(before[0] - predictor.logits(rows | {"user": ["u2"] * 3})[0][0]).max() > 1e-4  # values differ
    copy = shutil.copytree(run, tmp_path / "copy")
    again = load_run(copy, backbone=str(trained_runs.backbone()))[1]
    assert again.logits(rows)[0] == pytest.approx(before, abs=1e-6)
    assert "(frozen)" in (run / "model" / "README.md").read_text(encoding="utf-8")


@pytest.mark.slow
def test_other_verbs_take_them(trained_runs: TrainedRuns, tmp_path: Path) -> None:
    run = trained(trained_runs, "stars", "--task", "classification", method="heads")
    run = trained_runs.copy(run, tmp_path / "run")
    new = small_runs.write_csv(tmp_path / "new.csv", small_runs.reviews(9, seed=5))
    assert_verbs_run(run, new, tmp_path, ["forget", str(run), "--attribute", "user", "--value", "u1"])
    assert "u1" not in load_run(run)[1].schema["user"].values


@pytest.mark.slow
@pytest.mark.exhaustive
def test_one_is_trained_beside_another_method(trained_runs: TrainedRuns) -> None:
    both = trained_runs("none", "--compare", "intercept")
    names = [one.name for one in RunFolder(both).read_results().models]
    assert names[:3] == ["none", "intercept", "linear"]


@pytest.mark.slow
def test_without_attributes_it_is_the_text_alone(trained_runs: TrainedRuns) -> None:
    words = small_runs.train_command(trained_runs.table(ROWS), "", backbone=trained_runs.backbone(), method="intercept")
    place = words.index("--attributes")
    del words[place : place + 2]
    model = load_run(trained_runs.trained([*words, "--no-baselines"]))[1].model
    assert isinstance(model, LinearModel)
    assert len(model.weight) == len(model.features.tensors()["mean"])


@pytest.mark.slow
def test_fits_find_what_values_add(trained_runs: TrainedRuns) -> None:
    """Numbers that a value shifts: the intercepts are those shifts, but for what the penalty takes."""
    generator = np.random.default_rng(3)
    shift = {f"u{number}": float(generator.normal(scale=2)) for number in range(6)}
    rows = small_runs.reviews(240, seed=9, users=6)
    for row in rows:
        row["price"] = f"{shift[row['user']] + generator.normal(scale=0.2):.3f}"
    table, backbone = trained_runs.table(rows), trained_runs.backbone()
    words = small_runs.train_command(table, "", backbone=backbone, method="intercept", label=["price"])
    run = trained_runs.trained([*words, "--task", "regression", "--no-baselines"])
    predictor: Predictor = load_run(run)[1]
    told = predictor.predict({"text": ["great film"] * 6, "user": list(shift)})["prediction"]
    assert np.corrcoef(told, list(shift.values()))[0, 1] > 0.99
    assert np.ptp(told) > 0.8 * np.ptp(list(shift.values()))


@needs_lab
@pytest.mark.parametrize(
    ("more", "message"),
    [
        (["--backbone", "bilstm"], "'bilstm' is not pretrained"),
        (["--set", "method.C=3"], "method 'heads' has no option C"),
    ],
)
def test_settings_that_cannot_be(
    trained_runs: TrainedRuns, tmp_path: Path, capsys: pytest.CaptureFixture[str], more: list[str], message: str
) -> None:
    words = small_runs.train_command(
        trained_runs.table(ROWS), tmp_path / "run", backbone=trained_runs.backbone(), method="heads"
    )
    assert main([*words, *more]) == 1
    assert message in capsys.readouterr().err
    assert not (tmp_path / "run").exists()

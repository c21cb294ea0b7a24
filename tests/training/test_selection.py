"""The metric by which the weights of a training are chosen."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import small_runs
import torch
from trained_runs import TrainedRuns

from attribune.errors import ConfigError
from attribune.metrics.metric import metric_info
from attribune.runs.folder import RunFolder
from attribune.runs.recipe import Recipe, TrainingRecipe
from attribune.runs.stored_scores import StoredScores
from attribune.tasks import Classification, Preference, Rating, Regression, Similarity, Task
from attribune.tasks.base import selection_score, validation_score
from attribune.training.plan import TrainingPlan
from attribune.training.scoring import selection_metric
from attribune.training.train import train


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory, trained_runs: TrainedRuns) -> Path:
    folder = tmp_path_factory.mktemp("selection")
    (folder / "backbone").symlink_to(trained_runs.backbone())
    for seed, (name, texts) in enumerate({"train": 48, "validation": 24, "test": 24}.items()):
        rows = small_runs.reviews(texts, seed=seed)
        found = {value: place for place, value in enumerate(sorted({row["stars"] for row in rows}), 1)}
        small_runs.write_csv(folder / f"{name}.csv", [{**row, "stars": found[row["stars"]]} for row in rows])
    return folder


def run_of(
    folder: Path, kind: str, *, method: str = "tokens", task: dict[str, Any] | None = None, **training: Any
) -> RunFolder:
    output = folder / "-".join([kind, *map(str, training.values())])
    data: dict[str, Any] = {name: str(folder / f"{name}.csv") for name in ("train", "validation", "test")}
    data |= {"text": "text", "label": "stars", "attributes": [{"name": "user"}], "max_length": 32}
    settings = {"epochs": 3, "batch_size": 16, "precision": "float32", "learning_rate": 0.05, **training}
    recipe: dict[str, Any] = {"data": data, "task": {"kind": kind, **(task or {})}, "method": {"name": method}}
    if method != "linear":
        recipe["backbone"] = {"name": str(folder / "backbone")}
    train(Recipe.from_dict({**recipe, "training": settings}), output, baselines=False)
    return RunFolder(output)


@pytest.mark.one_in(2)
@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "select_by", "chosen"),
    [
        ("rating", None, "loss"),
        pytest.param("ordinal", None, "loss", marks=pytest.mark.exhaustive),
        ("classification", "main_metric", "accuracy"),
        pytest.param("rating", "rmse", "rmse", marks=pytest.mark.exhaustive),
        pytest.param("classification", None, "loss", marks=pytest.mark.exhaustive),
    ],
)
def test_the_best_check_by_that_metric_is_kept(folder: Path, kind: str, select_by: str | None, chosen: str) -> None:
    run = run_of(folder, kind, **({} if select_by is None else {"select_by": select_by}))
    results, lines = run.read_results(), [json.loads(line) for line in run.log.read_text(encoding="utf-8").splitlines()]
    checks = {line["step"]: line[f"eval_{chosen}"] for line in lines if f"eval_{chosen}" in line}
    sign = 1 if metric_info(chosen).higher_is_better else -1
    best = max(checks, key=lambda step: (sign * checks[step], -step))
    assert len(checks) == 3
    assert results.training.selected_by == chosen
    assert results.training.best_step == best
    assert results.training.best_value == pytest.approx(checks[best])
    card = (run.model / "README.md").read_text(encoding="utf-8")
    assert f"the best by {chosen} on the validation rows at step {best}" in card


@pytest.mark.parametrize("method", ["tokens", "linear"])
def test_a_metric_that_the_task_does_not_compute_is_refused_before_the_training(folder: Path, method: str) -> None:
    with pytest.raises(ConfigError, match=r"is 'acuracy': write auto, loss, last, main_metric, or a"):
        run_of(folder, "rating", method=method, select_by="acuracy")
    assert not (folder / "rating-acuracy").exists()


@pytest.mark.slow
def test_the_last_weights_are_kept_also_where_the_loss_has_risen(folder: Path) -> None:
    run = run_of(folder, "classification", select_by="last", calibration=False, learning_rate=0.5, patience=1)
    lines = [json.loads(line) for line in run.log.read_text(encoding="utf-8").splitlines()]
    losses = [line["eval_loss"] for line in lines if "eval_loss" in line]
    assert len(losses) == 3
    assert losses[-1] > min(losses), "or the test tells nothing"
    training = run.read_results().training
    assert training.keeps_last
    assert (training.best_value, training.stopped_early) == (None, False)
    assert training.best_step == training.steps == 9
    scores = StoredScores.read(run.path)
    logits, labels = (torch.from_numpy(scores.parts["validation"][name]) for name in ("logits", "labels"))
    assert float(scores.task.loss(logits, labels)) == pytest.approx(losses[-1], abs=1e-5)
    assert "whose last weights are kept" in (run.model / "README.md").read_text(encoding="utf-8")


def selected_by(task: Task, settings: TrainingRecipe) -> str:
    metric = selection_metric(task, settings)
    return "last" if metric is None else metric.name


def test_the_loss_selects_unless_it_is_no_proper_score() -> None:
    for task in (
        Rating(classes=("1", "2")),
        Classification(classes=2, score_by="macro_f1"),
        Similarity(form="scores"),
        Preference(score_by="accuracy"),
    ):
        assert selected_by(task, TrainingRecipe()) == "loss"
        assert selected_by(task, TrainingRecipe(select_by="main_metric")) == task.main_metric
    assert selected_by(Similarity(form="pairs", score_by="recall_at_5"), TrainingRecipe()) == "recall_at_5"
    assert selected_by(Similarity(form="triplets"), TrainingRecipe()) == "accuracy"


def test_folds_keep_the_last_weights_unless_something_else_is_named() -> None:
    def selected(task: Task, **training: Any) -> str:
        data = {"train": "rows.csv", "text": "text", "label": "stars"}
        plan = TrainingPlan.of(
            Recipe.from_dict({"data": data, "method": {"name": "none"}, "training": training})
        ).cross_validated(task)
        return selected_by(task, plan.training)

    classes = Classification(classes=2)
    assert selected(classes) == "last"
    assert selected(classes, select_by="loss") == selected(classes, calibration=False) == "loss"
    assert selected(Regression(mean=0.0, std=1.0)) == "loss", "nothing cures what it has learned too well"


LOGITS, IDS = np.array([[2.0, 0.0], [0.0, 1.0], [0.0, 3.0]]), np.array([0, 1, 0])


@pytest.mark.parametrize(
    ("by", "name"),
    [("auto", "log_loss"), ("loss", "log_loss"), ("main_metric", "macro_f1"), ("accuracy", "accuracy")],
)
def test_models_are_compared_by_the_proper_score_or_what_is_named(by: str, name: str) -> None:
    task = Classification(classes=("bad", "good"), score_by="macro_f1")
    expected = {"log_loss": np.log1p(np.exp([-2.0, -1.0, 3.0])).mean(), "macro_f1": 2 / 3, "accuracy": 2 / 3}
    score = selection_score(task, LOGITS, IDS, by=by)
    assert score.name == name
    assert score.value() == pytest.approx(expected[name])
    sign = 1 if name == "log_loss" else -1
    assert validation_score(task, LOGITS, IDS, by=by) == pytest.approx(sign * expected[name])
    with pytest.raises(ConfigError, match=r"is 'acuracy'"):
        selection_score(task, LOGITS, IDS, by="acuracy")


def test_numbers_are_compared_by_squared_error() -> None:
    task = Regression(mean=1.0, std=2.0, score_by="spearman")
    score = selection_score(task, np.array([[0.0], [1.0]]), np.array([0.5, 0.0]))
    assert (score.name, score.value()) == ("rmse", pytest.approx(np.sqrt((1 + 4) / 2)))


@pytest.mark.slow
@pytest.mark.parametrize("batch_size", [4, pytest.param(16, marks=pytest.mark.exhaustive)])
def test_the_loss_of_the_validation_rows_does_not_depend_on_their_batches(folder: Path, batch_size: int) -> None:
    """With class weights, the batches of a mean would weigh unlike."""
    task = {"class_weights": [1.0, 30.0]}
    run = run_of(folder, "classification", task=task, select_by="loss", batch_size=batch_size, calibration=False)
    scores = StoredScores.read(run.path)
    logits, labels = (torch.from_numpy(scores.parts["validation"][name]) for name in ("logits", "labels"))
    assert run.read_results().training.best_value == pytest.approx(float(scores.task.loss(logits, labels)), abs=1e-5)

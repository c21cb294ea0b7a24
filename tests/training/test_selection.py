"""The metric by which the weights of a training are chosen."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import small_runs
import torch
import yaml
from trained_runs import TrainedRuns

from attribune.errors import ConfigError
from attribune.metrics.definitions import metric_info
from attribune.runs.folder import RunFolder
from attribune.runs.recipe import Recipe
from attribune.runs.stored_scores import StoredScores
from attribune.tasks import TASKS, Classification
from attribune.tasks.ordinal import Ordinal
from attribune.tasks.rating import Rating
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


def run_of(folder: Path, kind: str, *, task: dict[str, Any] | None = None, **training: Any) -> RunFolder:
    output = folder / "-".join([kind, *map(str, training.values())])
    data: dict[str, Any] = {name: str(folder / f"{name}.csv") for name in ("train", "validation", "test")}
    data |= {"text": "text", "label": "stars", "attributes": [{"name": "user"}], "max_length": 32}
    settings = {"epochs": 3, "batch_size": 16, "precision": "float32", "learning_rate": 0.05, **training}
    recipe = {
        "data": data,
        "task": {"kind": kind, **(task or {})},
        "method": {"name": "tokens"},
        "backbone": {"name": str(folder / "backbone")},
        "training": settings,
    }
    train(Recipe.from_dict(yaml.safe_load(json.dumps(recipe))), output, baselines=False)
    return RunFolder(output)


@pytest.mark.one_in(2)
@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "select_by", "chosen"),
    [
        ("rating", None, "loss"),
        pytest.param("ordinal", None, "loss", marks=pytest.mark.exhaustive),
        ("classification", None, "accuracy"),
        pytest.param("rating", "rmse", "rmse", marks=pytest.mark.exhaustive),
        pytest.param("classification", "loss", "loss", marks=pytest.mark.exhaustive),
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


def test_a_metric_that_the_task_does_not_compute_is_refused_before_the_training(folder: Path) -> None:
    with pytest.raises(ConfigError, match=r"training.select_by is 'acuracy': write auto, loss, or a metric"):
        run_of(folder, "rating", select_by="acuracy")
    assert not (folder / "rating-acuracy").exists()


def test_ordered_labels_are_chosen_by_the_loss_and_others_by_the_main_metric() -> None:
    assert Rating(classes=("1", "2")).selection_metric == "loss"
    assert Ordinal(classes=("1", "2"), cut_points=(0.0,)).selection_metric == "loss"
    assert Classification(classes=2, score_by="macro_f1").selection_metric == "macro_f1"
    assert not metric_info("loss").higher_is_better
    assert {"rating", "ordinal", "classification"} <= set(TASKS)


@pytest.mark.slow
@pytest.mark.parametrize("batch_size", [4, pytest.param(16, marks=pytest.mark.exhaustive)])
def test_the_loss_of_the_validation_rows_does_not_depend_on_their_batches(folder: Path, batch_size: int) -> None:
    """With class weights, the batches of a mean would weigh unlike."""
    task = {"class_weights": [1.0, 30.0]}
    run = run_of(folder, "classification", task=task, select_by="loss", batch_size=batch_size)
    scores = StoredScores.read(run.path)
    logits, labels = (torch.from_numpy(scores.parts["validation"][name]) for name in ("logits", "labels"))
    assert run.read_results().training.best_value == pytest.approx(float(scores.task.loss(logits, labels)), abs=1e-5)

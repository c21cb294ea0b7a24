"""``attribune search``: drawn on validation rows, repeatable, and interrupted without loss."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import similarity_tables
import small_runs
import yaml
from token_tables import questions, write_json_lines
from trained_runs import TrainedRuns

from attribune.apps.cli import main
from attribune.errors import ConfigError
from attribune.runs.recipe import Recipe
from attribune.training import search as searching
from attribune.training.search import default_space, search
from attribune.training.study import read_space

COLUMNS = {"text": "text", "label": "stars", "attributes": [{"name": "user"}]}
SPACE = {
    "training.learning_rate": {"low": 1e-4, "high": 1e-2, "log": True},
    "method.bottleneck": [4, 8],
    "training.batch_size": {"low": 8, "high": 16, "integer": True},
}


@pytest.fixture(scope="module")
def recipe(trained_runs: TrainedRuns) -> Recipe:
    table, backbone = trained_runs.table(small_runs.reviews(60, seed=2)), trained_runs.backbone()
    return Recipe.from_dict(
        {
            "data": {"train": str(table), **COLUMNS, "max_length": 32},
            "method": {"name": "injector", "bottleneck": 4, "vector_size": 4},
            "backbone": {"name": str(backbone)},
            "training": {"steps": 3, "batch_size": 16, "precision": "float32"},
        }
    )


@pytest.mark.slow
def test_an_interrupted_search_goes_on_to_the_same_trials_and_never_reads_test_rows(
    recipe: Recipe, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trained, rates, parts_given = searching.train, [], []

    def spied(*args: Any, **kwargs: Any) -> Any:
        parts_given.append(set(kwargs["tables"]))
        rates.append(args[0].training.learning_rate)
        if len(rates) == 5:  # the second trial of the second search
            raise KeyboardInterrupt
        return trained(*args, **kwargs)

    monkeypatch.setattr(searching, "train", spied)
    whole = search(recipe, tmp_path / "whole", trials=3, space=SPACE)
    with pytest.raises(KeyboardInterrupt):
        search(recipe, tmp_path / "parts", trials=2, space=SPACE)
    search(recipe, tmp_path / "parts", trials=2, space=SPACE)
    parts = search(recipe, tmp_path / "parts", trials=3, space=SPACE)
    assert parts.tried == whole.tried
    assert parts_given == [{"train", "validation"}] * 7
    assert rates[3:] == [rates[0], rates[1], rates[1], rates[2]], "the interrupted one is repeated with its values"
    assert search(recipe, tmp_path / "parts", trials=1, space=SPACE).best == whole.best, "fewer trials lose nothing"
    assert len({json.dumps(trial.values) for trial in whole.tried}) == 3
    scores = [trial.score for trial in whole.tried if trial.score is not None]
    assert len(scores) == 3
    assert whole.best.score == min(scores)
    written = Recipe.from_dict(yaml.safe_load((tmp_path / "whole" / "recipe.yaml").read_text()))
    assert written.training.learning_rate == whole.best.values["training.learning_rate"]
    assert written.method["bottleneck"] == whole.best.values["method.bottleneck"]
    assert not list(tmp_path.rglob("model")), "weights of trials are not kept"


@pytest.mark.slow
@pytest.mark.parametrize("task", ["similarity", pytest.param("spans", marks=pytest.mark.exhaustive)])
def test_tasks_without_classes_are_scored_by_their_main_metric(task: str, recipe: Recipe, tmp_path: Path) -> None:
    texts, label = ("query", "document"), []
    if task == "spans":
        texts, label = ("question", "context"), ["answers"]
        table = write_json_lines(tmp_path / "rows.jsonl", questions(60))
    else:
        table = small_runs.write_csv(tmp_path / "rows.csv", similarity_tables.pairs(60))
    data = {"train": str(table), "text": [texts[0]], "text_pair": [texts[1]], "label": label}
    other = Recipe.from_dict(
        {**recipe.model_dump(), "data": {**recipe.data.model_dump(), **data}, "task": {"kind": task}}
    )
    best = search(other, tmp_path / "out", trials=1, space=SPACE).best
    assert best.score == -next(iter(best.metrics.values()))


@pytest.mark.slow
def test_a_trial_that_kills_its_process_is_given_up(
    recipe: Recipe, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def killed(*_: Any, **__: Any) -> Any:
        raise SystemExit(137)  # what is left on the disk is the same

    with monkeypatch.context() as patch:
        patch.setattr(searching, "train", killed)
        for _ in range(3):
            with pytest.raises(SystemExit):
                search(recipe, tmp_path / "out", trials=2, space=SPACE)
    found = search(recipe, tmp_path / "out", trials=2, space=SPACE)
    assert [trial.score is None for trial in found.tried] == [True, False]
    assert "was killed 3 times" in str(found.tried[0].error)


@pytest.mark.exhaustive
@pytest.mark.slow
def test_folders_of_something_else(recipe: Recipe, tmp_path: Path) -> None:
    table = tmp_path / "train.csv"
    table.write_bytes(Path(recipe.data.train).read_bytes())
    mine = Recipe.from_dict({**recipe.model_dump(), "data": {**recipe.data.model_dump(), "train": str(table)}})
    search(mine, tmp_path / "out", trials=1, space=SPACE)
    with (
        searching.SearchFolder(tmp_path / "out").held(),
        pytest.raises(ConfigError, match=r"another process .*works in"),
    ):
        search(mine, tmp_path / "out", trials=2, space=SPACE)
    with pytest.raises(ConfigError, match="started with another recipe, space, seed or other rows"):
        search(mine, tmp_path / "out", trials=1, space={"method.bottleneck": [4, 8]})
    with table.open("a") as file:
        file.write(table.read_text().splitlines()[-1] + "\n")
    with pytest.raises(ConfigError, match="started with another recipe, space, seed or other rows"):
        search(mine, tmp_path / "out", trials=2, space=SPACE)
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "mine.txt").write_text("kept")
    with pytest.raises(ConfigError, match="holds no search"):
        search(recipe, tmp_path / "other", trials=1, space=SPACE)


@pytest.mark.slow
def test_later_draws_go_by_what_was_found(recipe: Recipe, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With a score that a rate of 1e-3 makes best, draws come nearer to it than draws at random."""

    def scored(trial: searching.Trial, *_: Any) -> searching.Trial:
        far = abs(math.log10(trial.values["training.learning_rate"]) + 3)
        return replace(trial, score=far)

    monkeypatch.setattr(searching, "_run", scored)
    space = {"training.learning_rate": {"low": 1e-7, "high": 1.0, "log": True}}
    found = search(recipe, tmp_path / "out", trials=40, space=space)
    far = [trial.score for trial in found.tried if trial.score is not None]
    at_random = (3**2 / 2 + 4**2 / 2) / 7  # the mean distance from -3 of numbers drawn evenly from -7 to 0
    assert sum(far[20:]) / 20 < 0.65 * at_random
    assert min(far) < 0.1


def test_what_is_searched_unless_a_space_is_given(recipe: Recipe) -> None:
    space = default_space(recipe)
    assert space["training.learning_rate"] == {"low": 5e-5, "high": 5e-3, "log": True}
    assert space["method.hypercomplex"] == [2, 4], "48 is divisible by 4 and 16, not by 64"
    assert {"method.bottleneck", "method.vector_size"} <= set(space)
    assert set(read_space(space)) == set(space)
    plain = Recipe.from_dict({**recipe.model_dump(), "method": {"name": "none"}})
    assert set(default_space(plain)) == {"training.learning_rate", "training.backbone_learning_rate"}
    with pytest.raises(ConfigError, match="'linear' chooses its settings itself"):
        search(Recipe.from_dict({**recipe.model_dump(), "method": {"name": "linear"}}), "nowhere", trials=1)


@pytest.mark.parametrize(
    ("space", "message"),
    [
        ({}, "is empty: name at least one setting"),
        ({"training.learning_rate": []}, "training.learning_rate.*give a list of values"),
        ({"training.learning_rate": {"low": 1.0}}, "training.learning_rate.*high.*give a list"),
        ({"training.learning_rate": {"low": 1.0, "high": 0.1}}, "goes from 1 to 0.1: give low below high"),
        ({"training.learning_rate": {"low": 0.0, "high": 0.1, "log": True}}, "above 0 with log"),
        ({"training.learn": [1]}, "training.learn: there is no such setting"),
        ({"nothing.at": [1]}, "there is no setting 'nothing.at'"),
        ({"method.bottleneck": ["wide"]}, "bottleneck"),
    ],
)
def test_a_space_that_does_not_hold(recipe: Recipe, tmp_path: Path, space: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=f"(?s){message}"):
        search(recipe, tmp_path / "out", trials=1, space=space)
    assert not (tmp_path / "out").exists()


@pytest.mark.slow
def test_the_command(recipe: Recipe, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "recipe.yaml").write_text(recipe.to_yaml())
    (tmp_path / "space.yaml").write_text(yaml.safe_dump({"method.hypercomplex": [4, 5]}))
    words = ["search", "--config", str(tmp_path / "recipe.yaml"), "--space", str(tmp_path / "space.yaml")]
    assert main([*words, "--trials", "3", "--output", str(tmp_path / "out")]) == 0
    shown = capsys.readouterr().out
    assert "best on the validation rows: method.hypercomplex=4" in shown
    assert "failed" in shown, "5² does not divide 48"
    assert f"attribune train --config {tmp_path / 'out' / 'recipe.yaml'}" in shown
    (tmp_path / "space.yaml").write_text(yaml.safe_dump({"method.hypercomplex": [5]}))
    assert main([*words, "--trials", "1", "--output", str(tmp_path / "failed")]) == 1
    assert "all 1 trials failed, the first with: injector: hypercomplex is 5" in capsys.readouterr().err

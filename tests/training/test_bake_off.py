"""A bake-off chooses the method: few rows for all, more for the better half; interrupted, it goes on."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import small_runs
from datasets import Dataset
from trained_runs import TrainedRuns

from attribune import ConfigError, DataError, train
from attribune.apps.cli import main
from attribune.core.progress import Reporter
from attribune.metrics import formulas
from attribune.metrics.results import compare_metrics
from attribune.runs.folder import RunFolder
from attribune.runs.recipe import Recipe
from attribune.training import bake_off
from attribune.training.bake_off import CANDIDATES, Choice, choose_method, read_budget
from attribune.training.preparation import with_all_classes
from attribune.training.train import _recipe_of

SETTINGS = {"training.steps": 2, "training.precision": "float32", "training.batch_size": 8}
COLUMNS: dict[str, Any] = {"text": "text", "label": "stars", "attributes": ["user"], "max_length": 16}


@pytest.fixture(scope="module")
def frame() -> pd.DataFrame:
    return pd.DataFrame(small_runs.reviews(120))


class Stopped(Reporter):
    """Interrupts when a method begins."""

    def __init__(self, method: str) -> None:
        self.method = method
        self.begun: list[str] = []

    def note(self, text: str) -> None:
        if "training " in text and "rows" in text:
            self.begun.append(text.split()[3])
        if f"training {self.method} on" in text:
            raise KeyboardInterrupt


@pytest.mark.exhaustive
@pytest.mark.slow
def test_an_interrupted_bake_off_goes_on_and_the_choice_is_trained(
    frame: pd.DataFrame, trained_runs: TrainedRuns, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bake_off, "_FIRST_ROWS", 24)
    output = tmp_path / "run"
    options = {**COLUMNS, "backbone": trained_runs.backbone(), "settings": SETTINGS, "method": "auto"}
    options |= {"baselines": False, "budget": "10h"}
    with pytest.raises(KeyboardInterrupt):
        train(frame, output, **options, reporter=Stopped("plora"))
    with pytest.raises(ConfigError, match="interrupted bake-off, which resume=True continues"):
        train(frame, output, **options)
    with pytest.raises(ConfigError, match="other settings or rows"):
        train(frame[:-1], output, **options, resume=True)
    going_on = Stopped("nothing")
    results = train(frame, output, **options, resume=True, reporter=going_on)
    assert going_on.begun[:2] == ["plora", "modulated"]

    choice = Choice.read(output / "bake_off.json")
    always = ["linear", "none", "injector"]
    assert [tried.method for tried in choice.rounds[0]] == [*always, "in-text", "tokens", "pln", "plora", "modulated"]
    assert [tried[0].rows for tried in choice.rounds] == [24, 96]
    first = {one.method: one.score for one in choice.rounds[0]}
    assert set(first) == set(CANDIDATES)
    better = sorted(first, key=lambda name: first[name] or 0)[:4]
    assert {one.method for one in choice.rounds[1]} == {*always, *better}
    assert results["method"] == choice.method == RunFolder(output).read_recipe().method["name"]
    assert results["rows"] == {"train": 96, "validation": 12, "test": 12}
    assert not (output / ".bake_off").exists()
    assert choice.lines[-1] in results.__repr__()
    assert choice.lines[-1] in (output / "model" / "README.md").read_text()
    assert train(frame, output, **options, resume=True)["method"] == choice.method


def scores(method: str, labels: np.ndarray) -> np.ndarray:
    """Logits that are right in a share of rows that depends on the method, and on the number of training rows."""
    shares = {"linear": 0.6, "none": 0.5, "tokens": 0.62, "pln": 0.3, "plora": 0.3, "modulated": 0.9, "injector": 0.905}
    shares |= {"in-text": 0.4}
    right = np.random.default_rng(list(shares).index(method)).random(len(labels)) < shares[method]
    guessed = np.where(right, labels, 1 - labels)
    return np.eye(2, dtype=np.float32)[guessed] * 4


@pytest.mark.slow
def test_the_simplest_is_taken_of_those_that_show_no_difference(
    frame: pd.DataFrame, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = pd.concat([frame.assign(text=frame["text"] + f" {number}") for number in range(8)])
    settings = {"data.split.fractions": [0.4, 0.5, 0.1], "training.select_by": "accuracy"}
    recipe, tables = _recipe_of(rows, {**COLUMNS}, settings, None)
    metrics: dict[str, Any] = {}

    def fake(other: Any, path: Path, parts: Mapping[str, Any]) -> None:
        name = other.method["name"]
        labels = (np.array(parts["validation"]["stars"]) == "good").astype(int)
        metrics[path] = formulas.accuracy(labels, scores(name, labels).argmax(axis=1))
        if name == "pln":
            raise ConfigError("does not fit")

    monkeypatch.setattr(bake_off._BakeOff, "_metric", lambda self, path: metrics[path])
    chosen = choose_method(recipe, tmp_path / "runs", tables=tables, budget=36_000, train=fake, reporter=Reporter())
    final = tmp_path / "runs" / f"rows-{chosen.rounds[-1][0].rows}"
    last = {one.method: metrics[final / one.method] for one in chosen.rounds[-1]}
    pair = compare_metrics(last["injector"], last["modulated"], names=("injector", "modulated"), part="validation")
    assert pair.difference > 0
    assert not pair.shows_difference
    assert chosen.method == "modulated"
    assert (
        "modulated is taken, the simplest one within a standard error of the best: injector against" in chosen.lines[-1]
    )
    assert "pln failed" in chosen.lines[0]
    assert {one.method: one.error for one in chosen.rounds[0]}["pln"] == "does not fit"

    def failing(other: Any, path: Path, parts: Mapping[str, Any]) -> None:
        if other.method["name"] != "linear":
            raise DataError("no text")
        fake(other, path, parts)

    monkeypatch.setattr(bake_off, "_FIRST_ROWS", 10)
    alone = choose_method(recipe, tmp_path / "one", tables=tables, budget=36_000, train=failing, reporter=Reporter())
    assert alone.method == "linear"
    assert alone.lines[-2] == "method auto: no round on more than 24 rows, since one method alone is left"
    beside = recipe.model_copy(update={"data": recipe.data.model_copy(update={"written": ("user",)})})
    left = choose_method(beside, tmp_path / "left", tables=tables, budget=36_000, train=failing, reporter=Reporter())
    said = "method auto: linear cannot have values in front of the text: written is left out (user)"
    assert left.lines[-1] == said
    assert said not in alone.lines
    monkeypatch.undo()
    monkeypatch.setattr(bake_off._BakeOff, "_metric", lambda self, path: metrics[path])

    hurried = choose_method(recipe, tmp_path / "two", tables=tables, budget=1e-9, train=fake, reporter=Reporter())
    assert [one.method for one in hurried.rounds[0]] == ["linear", "none", "injector"]
    assert "tokens left out for lack of time" in hurried.lines[0]
    assert hurried.method == "injector"


@pytest.mark.parametrize(
    ("budget", "rounds"),
    [
        (10, [(100, 3), (233, 3)]),  # 7 of 10 seconds are left for 12 on four times as many rows
        (20, [(100, 7), (400, 3)]),
        (60, [(100, 8), (400, 6), (933, 3)]),
        (1000, [(100, 8), (400, 6), (1600, 5)]),
    ],
)
def test_time_is_kept_for_the_default_and_the_text_alone_on_many_rows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, budget: float, rounds: list[tuple[int, int]]
) -> None:
    """Each method takes a second on a hundred rows."""
    monkeypatch.setattr(bake_off, "_FIRST_ROWS", 100)
    ranks = {name: rank for rank, name in enumerate(["tokens", "pln", "none", "plora", "linear", "modulated"])}

    def tried(self: Any, name: str, tables: Mapping[str, Dataset]) -> bake_off.Tried:
        rows = len(tables["train"])
        return bake_off.Tried(method=name, rows=rows, seconds=rows / 100, score=ranks.get(name, 9))

    monkeypatch.setattr(bake_off._BakeOff, "_try", tried)
    data = {"train": "given", "text": "text", "label": "stars", "attributes": [{"name": "user"}]}
    given: dict[str, Any] = {"folder": tmp_path, "selected": "log_loss", "reporter": Reporter()}
    rows = Dataset.from_dict({"text": ["x"] * 1600})
    trying = bake_off._BakeOff(recipe=Recipe.from_dict({"data": data}), **given, train=print)
    found = trying.rounds(rows, rows, budget=budget)
    assert [(one[0].rows, len(one)) for one in found] == rounds
    assert {"linear", "none", "injector"} <= {one.method for one in found[-1]}
    assert ("for which the budget has no time" in trying.said[-1]) == (len(rounds) < 3)


@pytest.mark.slow
def test_a_loss_that_is_not_of_classes_is_compared_by_its_proper_score(
    frame: pd.DataFrame, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The squared error of numbers, whatever the main metric is."""
    rows = pd.concat([frame.assign(text=frame["text"] + f" {number}") for number in range(5)])
    rows = rows.assign(price=np.arange(len(rows)) / 20)
    settings = {"training.select_by": "loss", "task.score_by": ["r2"], "data.split.fractions": [0.4, 0.5, 0.1]}
    given = {**COLUMNS, "label": "price", "task": "regression"}
    recipe, tables = _recipe_of(rows, given, settings, None)
    metrics: dict[Path, Any] = {}

    def fake(other: Any, path: Path, parts: Mapping[str, Any]) -> None:
        labels = np.array(parts["validation"]["price"], dtype=float)
        off = 0.1 if other.method["name"] == "plora" else 3.0
        metrics[path] = formulas.rmse(labels, labels + off)

    monkeypatch.setattr(bake_off._BakeOff, "_metric", lambda self, path: metrics[path])
    chosen = choose_method(recipe, tmp_path / "runs", tables=tables, budget=36_000, train=fake, reporter=Reporter())
    assert (chosen.metric, chosen.method) == ("rmse", "plora")


def test_wrong_budgets_and_tasks_are_refused(frame: pd.DataFrame, tmp_path: Path) -> None:
    assert [read_budget(text) for text in ("90s", "1.5m", "2h")] == [90, 90, 7200]
    for text in ("10", "0m", "ten", "-1h"):
        with pytest.raises(ConfigError, match="give a time such as 90s, 10m or 2h"):
            read_budget(text)
    with pytest.raises(ConfigError, match="budget 5m is for method auto"):
        train(frame, tmp_path / "run", **COLUMNS, method="upa", budget="5m")
    path = tmp_path / "t.csv"
    frame.to_csv(path, index=False)
    words = ["train", str(path), "--task", "generation", "--text", "text", "--attributes", "user", "--method", "auto"]
    assert main([*words, "--output", str(tmp_path / "other")]) == 1
    assert not (tmp_path / "other" / "recipe.yaml").exists()


def test_a_class_that_a_subset_lacks_keeps_its_balanced_weight(frame: pd.DataFrame) -> None:
    """Weights are those of all training rows; a class of other parts alone counts 1."""
    rows = frame.assign(stars=["good"] * 10 + ["bad"] * (len(frame) - 10))
    parts = {
        "train": Dataset.from_pandas(rows),
        "validation": Dataset.from_pandas(rows.assign(stars=["ugly"] * 3 + ["bad"] * (len(rows) - 3))),
    }
    data = {"train": "given", "text": "text", "label": "stars", "attributes": [{"name": "user"}]}
    recipe = Recipe.from_dict({"data": data, "task": {"class_weights": "balanced"}})
    task = with_all_classes(recipe, parts).task
    half = len(rows) / 2
    assert dict(zip(task["classes"], task["class_weights"], strict=True)) == pytest.approx(
        {"bad": half / (len(rows) - 10), "good": half / 10, "ugly": 1.0}
    )

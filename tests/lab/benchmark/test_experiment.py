"""Experiments, and the parts of their tables, without a training."""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

from attribune.errors import ConfigError
from attribune.metrics.bootstrap import PairedResult, interval
from attribune.metrics.formulas import accuracy, macro_f1, pooled
from attribune.metrics.results import count_ranges
from attribune_lab.benchmark.experiment import Experiment, experiment_names
from attribune_lab.benchmark.runner import check_experiment
from attribune_lab.benchmark.tables import readable_json, verdict

Begin = Callable[..., str]


def test_rates_of_each_fold_are_tried_on_it_alone(experiment: dict[str, Any]) -> None:
    each = Experiment.from_dict({**experiment, "rates": {"factors": [0.5, 4.0], "fold": "each"}})
    cells = list(each.cells())
    assert len({cell.path for cell in cells}) == len(cells)
    for cell in cells:
        trials = each.trials(cell)
        assert all(trial.fold == cell.fold for trial in trials)
        assert {trial.path for trial in trials} <= {other.path for other in cells}
        assert len(trials) == (2 if cell.factor is None and cell.setting.name not in ("user alone", "linear") else 0)
    assert sum(cell.factor is not None for cell in cells) == 8


def test_a_setting_has_factors_of_its_own(experiment: dict[str, Any]) -> None:
    settings = ["none", {"name": "own", "method": "none", "rates": [0.1, 0.3, 1.0]}, {"method": "upa", "rates": "own"}]
    made = Experiment.from_dict(
        {**experiment, "settings": settings, "rates": {"factors": [0.5, 4.0]}, "reference": "none"}
    )
    assert Experiment.from_dict(yaml.safe_load(made.to_yaml())) == made
    tried = {
        cell.setting.name: [trial.factor for trial in made.trials(cell)] for cell in made.cells() if cell.factor is None
    }
    assert tried == {"none": [0.5, 4.0], "own": [0.1, 0.3, 1.0], "upa": [0.1, 0.3, 1.0]}


@pytest.mark.parametrize("factors", [[1.0], [2.0, 2.0], [0.0, 1.0], []])
def test_factors_that_are_none_are_refused(experiment: dict[str, Any], factors: list[float]) -> None:
    with pytest.raises(ConfigError, match="name two or more, each once, above 0"):
        Experiment.from_dict({**experiment, "settings": [{"method": "none", "rates": factors}]})


def test_a_set_changes_the_training_and_a_setting_goes_before_it(experiment: dict[str, Any]) -> None:
    (plan,) = experiment["sets"]
    settings = ["none", {"name": "short", "method": "none", "training": {"steps": 3}}]
    own = {**plan, "name": "own", "training": {"steps": 7, "batch_size": 4}}
    made = Experiment.from_dict({**experiment, "sets": [plan, own], "settings": settings, "rates": None})
    assert Experiment.from_dict(yaml.safe_load(made.to_yaml())) == made
    trainings = {
        (cell.set.name, cell.setting.name): made.recipe(cell, data={}, task={})["training"] for cell in made.cells()
    }
    usual = trainings[plan["name"], "none"]
    assert usual["seed"] == 1
    assert trainings["own", "none"] == {**usual, "steps": 7, "batch_size": 4}
    assert trainings["own", "short"] == {**usual, "steps": 3, "batch_size": 4}


def test_a_set_is_trained_with_the_one_that_it_builds_on(experiment: dict[str, Any]) -> None:
    (plan,) = experiment["sets"]
    names = {"moved": {"attributes_from": "source"}, "look": {}, "source": {}}
    sets = [{**plan, "name": name, **more} for name, more in names.items()]
    made = Experiment.from_dict({**experiment, "sets": sets, "settings": ["injector", "none"], "rates": None})
    some = made.only(sets=["moved"])
    assert [one.name for one in some.sets] == ["source", "moved"], "in the order of training"
    for cell in some.cells():
        begun = some.source(cell)
        assert some.is_source(cell) == (cell.set.name == "source")
        if cell.set.name == "moved":
            assert begun.path == cell.path.replace("moved", "source", 1)
        else:
            assert begun is None
        assert [other.path for other in some.needs(cell)] == ([begun.path] if begun else [])


def test_a_setting_changes_the_task(experiment: dict[str, Any]) -> None:
    task = {"kind": "rating", "expected": True, "score_by": ["rmse", "kappa"]}
    sets = [{**experiment["sets"][0], "task": task, "folds": [0]}]
    settings = ["injector", {"name": "ordinal", "method": "injector", "task": {"kind": "ordinal"}}]
    made = Experiment.from_dict({**experiment, "sets": sets, "settings": settings, "rates": None})
    rating, ordinal = (made.recipe(cell, data={}, task=task)["task"] for cell in made.cells())
    assert rating == task
    assert ordinal == {**task, "kind": "ordinal"}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "is not the record of a benchmark"),
        ("[]", "has 1 error"),
        ('{"part": "test", "rows": 3}', "rows: there is no such setting"),
    ],
)
def test_another_file_is_no_record(text: str, message: str, tmp_path: Path, table: Callable[..., str]) -> None:
    file = tmp_path / "record.json"
    file.write_text(text)
    told = table(file, code=1)
    assert str(file) in told
    assert message in told


def test_json_with_a_line_for_what_fits() -> None:
    tree = {"a": [1, 2.5, None], "b": {"c": "ä" * 119, "d": [float(number) for number in range(40)]}, "e": {}}
    text = readable_json(tree)
    assert json.loads(text) == tree
    assert ' "a": [1, 2.5, null],' in text.splitlines()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"sets": []}, "sets: .*at least 1 item"),
        ({"settings": ["none", "none"]}, "'none' is named twice"),
        ({"reference": "injectr"}, "there is no setting 'injectr': choose one of none, injector"),
        ({"stepz": 3}, "stepz: there is no such setting"),
        ({"sets": [{"name": "x"}]}, "the set 'x' needs either prepared"),
        ({"sets": [{"name": "x", "prepared": "nowhere"}]}, "nowhere holds no prepared data set"),
        ({"settings": ["injectr"]}, "unknown method 'injectr'"),
        (
            {"sets": [{"name": "x", "data": {"train": "no.csv", "text": "t", "label": "l"}}]},
            r"no\.csv, the train rows of the set 'x', does not exist",
        ),
        (
            {"settings": [{"method": "injector", "attributes": ["colour"]}]},
            "names the attribute 'colour', which reviews",
        ),
        ({"training": {"steps": 0}}, "training.steps"),
        ({"settings": [{"name": "x", "method": {"bottleneck": 3}}]}, "the method .* has no name"),
        ({"rates": {"factors": [1, 1]}}, "each once, above 0"),
    ],
)
def test_what_is_wrong_is_said_before_anything_is_trained(
    experiment: dict[str, Any], tmp_path: Path, begin: Begin, change: dict[str, Any], message: str
) -> None:
    error = begin({**experiment, **change}, code=1)
    assert re.search(message, error), error
    assert not (tmp_path / "out").exists()


def test_a_folder_of_something_else_is_left_as_it_is(experiment: dict[str, Any], tmp_path: Path, begin: Begin) -> None:
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / "thesis.txt").write_text("mine")
    error = begin(experiment, output=tmp_path / "home", code=1)
    assert "home is not empty and holds no benchmark (thesis.txt): choose another output folder" in error
    assert [path.name for path in (tmp_path / "home").iterdir()] == ["thesis.txt"]


def test_the_experiments_of_the_papers(tmp_path: Path, fails: Callable[..., str]) -> None:
    words = ["benchmark", "run", "--output", tmp_path / "o", "--preset"]
    known = ", ".join(experiment_names())
    assert f"unknown experiment 'mian': choose one of {known}, or give a file" in fails(*words, "mian")
    assert {"main", "small", "glue", "tradeoff"} <= set(experiment_names())
    assert "has no set 'polmedd': choose from yelp-2013" in fails(*words, "main", "--sets", "polmedd")
    assert "is not the folder of a benchmark" in fails("benchmark", "table", tmp_path)


def test_bins_hold_all_rows_and_never_look_at_labels() -> None:
    chance = np.random.default_rng(0)
    for counts in (chance.zipf(1.5, 2000) - 1, np.zeros(50, int), np.arange(300), np.repeat([0, 5], [3, 400])):
        ranges = count_ranges(counts)
        held = [int(((counts >= low) & (counts <= high)).sum()) for low, high in ranges]
        assert sum(held) == len(counts)
        assert all(low <= high for low, high in ranges)
        assert all(first[1] < second[0] for first, second in itertools.pairwise(ranges))
        assert len(ranges) <= 12
        assert len(held) == 1 or min(held[1:]) >= 1
    zero = count_ranges(np.repeat([0, 1, 2, 3], [40, 30, 200, 200]))
    assert zero[0] == (0, 0), "values that were never trained on have a bin of their own"


@pytest.mark.parametrize(("low", "high", "shown"), [(0.1, 0.3, 1), (-0.3, -0.1, -1), (-0.1, 0.1, 0)])
def test_a_lower_error_is_better(low: float, high: float, shown: int) -> None:
    pair = PairedResult(difference=(low + high) / 2, low=low, high=high, p_value=0.01, level=0.95, resamples=10)
    assert verdict(pair, higher_is_better=True) == shown
    assert verdict(pair, higher_is_better=False) == -shown
    assert verdict(replace(pair, p_value=0.06), higher_is_better=True) == 0


def test_other_seeds_on_the_same_rows_make_no_interval_narrower() -> None:
    chance = np.random.default_rng(0)
    true, predicted = chance.integers(0, 3, 90), chance.integers(0, 3, 90)
    for metric in (accuracy(true, predicted), macro_f1(true, predicted, classes=3)):
        rows = np.arange(90)
        once, five = interval(metric), interval(pooled([metric] * 5, [rows] * 5))
        assert five.value == pytest.approx(once.value)
        assert (five.low, five.high) == pytest.approx((once.low, once.high), abs=0.02)
        apart = interval(pooled([metric] * 5, [rows + 90 * seed for seed in range(5)]))
        assert apart.high - apart.low < 0.6 * (once.high - once.low)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"attributes_from": "nothing"}, "takes its attributes from 'nothing': name a set"),
        ({"attributes_from": "reviews", "folds": [0, 5]}, "the set 'reviews' has no fold 5"),
        ({"labels": ["taste"]}, "second has no label 'taste': choose from stars"),
    ],
)
def test_sets_that_do_not_build_on_each_other(
    experiment: dict[str, Any], begin: Begin, change: dict[str, Any], message: str
) -> None:
    second = {**experiment["sets"][0], "name": "second", **change}
    assert message in begin({**experiment, "sets": [experiment["sets"][0], second]}, code=1)


def test_a_table_of_ones_own(experiment: dict[str, Any], tmp_path: Path, attribune: Callable[..., Any]) -> None:
    words = ["benchmark", "new", "--data", experiment["sets"][0]["data"]["train"], "--text", "text", "--label", "stars"]
    words += ["--attributes", "user", "--multi-label", "tags:;", "--seeds", "2", "--steps", "5"]
    words += ["--output", tmp_path / "mine.yaml"]
    assert f"attribune benchmark run {tmp_path / 'mine.yaml'}" in attribune(*words)[2]
    made = Experiment.read(tmp_path / "mine.yaml")
    check_experiment(made)
    assert {cell.fold for cell in made.cells()} == {0, 1}
    recipes = [made.recipe(cell, data=made.sets[0].data or {}, task={}) for cell in made.cells()]
    assert {recipe["training"]["steps"] for recipe in recipes} == {5}
    attributes = {tuple(one["name"] for one in recipe["data"]["attributes"]) for recipe in recipes}
    assert attributes >= {("user", "tags"), ("user",), ("tags",)}
    code, _, err = attribune(*words)
    assert code == 1
    assert "already exists" in err

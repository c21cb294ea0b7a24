"""``attribune benchmark plan``, and the choice of what of an experiment is run."""

from __future__ import annotations

import math
import re
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml
from commands import Outcome

from attribune.errors import ConfigError
from attribune_lab.benchmark import plan as planning
from attribune_lab.benchmark.experiment import Cell, Experiment
from attribune_lab.benchmark.plan import Pace, make_plan, probe, with_paces
from attribune_lab.benchmark.runner import check_experiment


def test_cells_steps_and_rows_are_counted(experiment: dict[str, Any]) -> None:
    """Two folds of five settings, and two trials of each of two; the linear model has no steps."""
    plan = make_plan(Experiment.from_dict(experiment))
    counts = {part.setting.name: (part.cells, part.trials, part.steps) for part in plan.parts}
    assert counts["none"] == counts["injector"] == (2, 2, 6)
    assert counts["injector, shuffled"] == counts["user alone"] == (2, 0, 6)
    assert counts["linear"] == (2, 0, 0)
    rows = plan.parts[0].rows
    assert rows is not None
    assert rows.train + rows.validation + rows.test == 200
    text = plan.text()
    assert "tiny: 14 cells, 4 of them trials of learning rates, at most 72 steps" in text
    assert "without steps, and not in the time: linear" in text
    assert re.search(rf"^reviews +14 +{rows.train} +{rows.test} ", text, re.M)


def test_steps_and_checks_follow_from_epochs_and_rows(experiment: dict[str, Any]) -> None:
    training = {"epochs": 2.5, "batch_size": 16, "gradient_accumulation": 2}
    settings = ["none", {"name": "short", "method": "none", "training": {"epochs": 1}}]
    made = Experiment.from_dict({**experiment, "training": training, "settings": settings, "rates": None})
    usual, short = make_plan(made).parts
    assert usual.rows is not None
    per_epoch = math.ceil(math.ceil(usual.rows.train / 16) / 2)
    assert (usual.checks, short.checks) == (3, 1)
    assert (usual.steps, short.steps) == (math.ceil(2.5 * per_epoch), per_epoch)
    by_steps = make_plan(made.with_steps(3 * per_epoch)).parts[1]
    assert (by_steps.steps, by_steps.checks) == (3 * per_epoch, 3)


def test_hours_follow_from_a_probe_of_each_set_and_each_setting(
    experiment: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    (plan,) = experiment["sets"]
    sets = [{**plan, "name": name, "folds": [0]} for name in ("first", "second")]
    made = Experiment.from_dict({**experiment, "sets": sets, "settings": ["none", "injector", "linear"], "rates": None})
    known = {
        ("first", "none"): Pace(start=1.0, step=0.1, row=0.01),
        ("first", "injector"): Pace(start=2.0, step=0.3, row=0.04),
        ("second", "none"): Pace(start=5.0, step=0.2, row=0.02),
    }
    asked = []

    def measured(_: Experiment, cell: Cell, steps: int) -> Pace:
        asked.append(steps)
        return known[cell.set.name, cell.setting.name]

    monkeypatch.setattr(planning, "probe", measured)
    found = with_paces(make_plan(made), 7, tell=lambda cell, word: None)
    assert asked == [7, 7, 7]
    injector = found.paces["second", "injector"]
    assert (injector.start, injector.step, injector.row) == pytest.approx((5.0, 0.6, 0.08))
    seconds = 0.0
    for part in found.parts:
        if part.setting.name != "linear":
            pace, rows = found.paces[part.set.name, part.setting.name], part.rows
            assert rows is not None
            seconds += pace.start + 6 * pace.step + (2 * rows.validation + rows.validation + rows.test) * pace.row
    assert found.seconds(found.parts) == pytest.approx(seconds)
    assert re.search(r"\d+ s to \d+ s with one cell at a time", found.text())
    parts = [replace(part, rows=None) if part.set.name == "second" else part for part in found.parts]
    half = replace(
        found, parts=tuple(parts), paces={key: pace for key, pace in found.paces.items() if key[0] == "first"}
    )
    assert "for 3 of the cells, of the sets that are prepared" in half.text()


def test_baselines_have_no_pace(experiment: dict[str, Any]) -> None:
    sets = [{**experiment["sets"][0], "name": name} for name in ("first", "second")]
    made = Experiment.from_dict({**experiment, "sets": sets, "settings": ["linear"], "rates": None})
    found = with_paces(make_plan(made), 7, tell=lambda cell, word: None)
    assert not found.paces
    assert "one cell at a time" not in found.text()


def test_a_probe_is_a_short_training(experiment: dict[str, Any]) -> None:
    made = Experiment.from_dict(experiment)
    cell = Cell(set=made.sets[0], setting=made.setting("injector"), fold=0)
    pace = probe(made, cell, 6)
    assert min(pace.start, pace.step, pace.row) > 0
    with pytest.raises(ConfigError, match="a probe of 4 steps is too short to be timed: give at least 5"):
        probe(made, cell, 4)


def test_a_preset_is_planned_without_its_data(attribune: Callable[..., Outcome]) -> None:
    words = ("benchmark", "plan", "--preset", "main")
    code, text, _ = attribune(*words)
    assert code == 0
    assert text.startswith("main: 495 cells, 0 of them trials of learning rates, at most 99,000,000 steps\n")
    assert "(`attribune data prepare`): yelp-2013, yelp-2014, imdb, aapr, polmed, food, good, beer" in text
    chosen = ("--sets", "polmed", "food", "--settings", "none", "injector", "--seeds", "0", "2", "--steps", "500")
    code, text, _ = attribune(*words, *chosen)
    assert text.startswith("main: 8 cells, 0 of them trials of learning rates, at most 4,000 steps\n")
    assert "yelp-2013" not in text


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--preset", "main", "--sets", "yelp"], "the experiment has no set 'yelp': choose from yelp-2013"),
        (["--preset", "main", "--settings", "full"], "the experiment has no setting 'full': choose from none"),
        (["--preset", "main", "--seeds", "7"], "the set 'yelp-2013' has no fold or seed 7: choose from 0, 1, 2, 3, 4"),
        (["--preset", "main", "--steps", "0"], "--steps 0: give at least 1"),
        (["--steps", "9"], "--steps changes an experiment: name its RECIPE or --preset"),
        ([], "there is nothing to plan: name a RECIPE or a --preset"),
    ],
)
def test_what_cannot_be_planned(attribune: Callable[..., Outcome], words: list[str], message: str) -> None:
    code, _, messages = attribune("benchmark", "plan", *words)
    assert code == 1
    assert message in messages


def test_without_its_backbone_a_plan_has_no_time(
    experiment: dict[str, Any], attribune: Callable[..., Outcome], tmp_path: Path
) -> None:
    tree = {**experiment, "backbone": {"name": "/nowhere/minilm"}}
    (tmp_path / "tiny.yaml").write_text(Experiment.from_dict(tree).to_yaml())
    code, text, messages = attribune("benchmark", "plan", tmp_path / "tiny.yaml")
    assert code == 0
    assert text.startswith("tiny: 14 cells")
    assert "no step was tried, so the time is unknown: " in messages
    code, _, messages = attribune("benchmark", "plan", tmp_path / "tiny.yaml", "--probe", "2")
    assert (code, "a probe of 2 steps is too short" in messages) == (1, True)


def test_a_part_of_an_experiment_has_what_it_builds_on(experiment: dict[str, Any]) -> None:
    """A setting whose rates another takes comes along, and a source is trained where rates are tuned."""
    made = Experiment.from_dict(experiment)
    part = made.only(settings=["injector, shuffled"], folds=[1])
    assert [cell.path for cell in part.cells()] == [
        *(f"reviews/injector/rate-x{factor}-0" for factor in ("0.5", "4")),
        "reviews/injector/1",
        "reviews/injector_shuffled/1",
    ]
    names = {"source": {}, "moved": {"attributes_from": "source"}}
    sets = [{**experiment["sets"][0], "name": name, **more} for name, more in names.items()]
    built = Experiment.from_dict({**experiment, "sets": sets, "settings": ["injector"]}).only(folds=[1])
    cells = {cell.path for cell in built.cells()}
    assert all(other.path in cells for cell in built.cells() for other in built.needs(cell))


def test_steps_replace_those_of_sets_and_settings(experiment: dict[str, Any]) -> None:
    of_series = {"shrunk": {"epochs": 4}}
    sets = [{**experiment["sets"][0], "training": {"steps": 9}, "series_training": of_series}]
    settings = [{"name": "own", "method": "none", "training": {"epochs": 3, "evaluate_every": 50}}]
    settings.append({"name": "injector", "method": "injector", "series": "shrunk"})
    made = Experiment.from_dict({**experiment, "sets": sets, "settings": settings, "rates": None}).with_steps(2)
    assert {(cell.setting.name, made.training_of(cell)["evaluate_every"]) for cell in made.cells()} == {
        ("own", 2),
        ("injector", 2),
    }
    assert all(made.training_of(cell)["steps"] == 2 for cell in made.cells())
    assert Experiment.from_dict(yaml.safe_load(made.to_yaml())) == made


def test_settings_of_a_series_are_trained_as_a_set_says(experiment: dict[str, Any]) -> None:
    sets = [{**experiment["sets"][0], "training": {"epochs": 9}, "series_training": {"adapters": {"epochs": 4}}}]
    settings = ["none", {"name": "small", "method": "adapter", "series": "adapters"}]
    tree = {**experiment, "sets": sets, "settings": settings, "rates": None}
    made = Experiment.from_dict(tree)
    assert {cell.setting.name: made.training_of(cell)["epochs"] for cell in made.cells()} == {"none": 9, "small": 4}
    with pytest.raises(ConfigError, match="no setting is of the series 'adapters' of the set 'reviews': there is none"):
        Experiment.from_dict({**tree, "settings": ["none"]})


def test_backbones_are_looked_for_before_the_first_cell(experiment: dict[str, Any], tmp_path: Path) -> None:
    def check_with(backbone: str | Path, **changes: Any) -> None:
        check_experiment(Experiment.from_dict({**experiment, "backbone": {"name": str(backbone), **changes}}))

    with pytest.raises(ConfigError, match="there is no folder /nowhere/minilm"):
        check_with("/nowhere/minilm")
    half = Path(shutil.copytree(experiment["backbone"]["name"], tmp_path / "half"))
    (half / "model.safetensors").unlink()
    with pytest.raises(ConfigError, match=r"has no weights: copy its model\.safetensors"):
        check_with(half)
    for path in half.iterdir():
        if path.name != "config.json":
            path.unlink()
    with pytest.raises(ConfigError, match=r"tokenizer of the backbone .*half' (knows no words|could not be loaded)"):
        check_with(half)
    with pytest.raises(ConfigError, match=r"word vectors of nowhere\.txt, and there is no such file"):
        check_with("bilstm", word_vectors="nowhere.txt")

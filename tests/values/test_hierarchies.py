"""Runs with a hierarchy: an unseen child predicts as its parent, and commands read the columns of its levels."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import small_runs
from commands import Attribune
from trained_runs import ROWS, TrainedRuns

from attribune import AttributeClassifier, Hierarchy, Recipe, enrol, explain, forget, next_texts
from attribune.errors import ConfigError, DataError
from attribune.models.predictor import Predictor
from attribune.runs.folder import RunFolder
from attribune.values.panel import Panel

pytestmark = pytest.mark.slow

NAME = "shop > user"
SHOPS = {"u0": "A", "u1": "A", "u2": "A", "u3": "B", "u4": "B", "u5": "C", "u6": ""}
NESTED = [{**row, "shop": SHOPS[row["user"]]} for row in ROWS]
METHODS = ["injector", "linear"]


@pytest.fixture
def run(trained_runs: TrainedRuns) -> Any:
    """Factory: the finished run of a method; the vectors of the injector are of size one."""

    def make(method: str) -> Path:
        table, backbone = trained_runs.table(NESTED), trained_runs.backbone()
        words = small_runs.train_command(table, "", backbone=backbone, method=method)
        place = words.index("--attributes")
        words[place : place + 2] = ["--hierarchy", NAME]
        size = ["method.vector_size=1"] if method == "injector" else []
        return trained_runs.trained([*words, *size, "--no-baselines"])

    return make


def rows(**columns: Any) -> dict[str, Any]:
    return {"text": ["the film was great"], **{name: [cell] for name, cell in columns.items()}}


def numbers(predictor: Predictor, given: Any) -> Any:
    return predictor.predict(given)["probability_good"]


@pytest.mark.parametrize("method", METHODS)
def test_an_unseen_child_predicts_as_its_parent(run: Any, method: str) -> None:
    predictor = Predictor.from_pretrained(run(method))
    parent = numbers(predictor, rows(shop="A", user=None))
    assert np.array_equal(numbers(predictor, rows(shop="A", user="new")), parent)
    assert not np.array_equal(numbers(predictor, rows(shop="A", user="u1")), parent)
    assert not np.array_equal(numbers(predictor, rows(shop="B", user="new")), parent)
    assert np.array_equal(numbers(predictor, rows(shop="D", user="u1")), numbers(predictor, rows(shop=None, user=None)))


@pytest.mark.parametrize("method", METHODS)
def test_rows_may_have_the_columns_or_the_path(run: Any, method: str) -> None:
    predictor = Predictor.from_pretrained(run(method))
    by_column = numbers(predictor, rows(shop="A", user="u1"))[0]
    text = "the film was great"
    assert numbers(predictor, rows(**{NAME: "A > u1"}))[0] == by_column
    assert numbers(predictor, {"text": text, "shop": "A", "user": "u1"}) == by_column
    assert predictor.predict(text, shop="A", user="u1")["probability_good"] == by_column
    assert predictor.predict(text, shop="A")["probability_good"] == numbers(predictor, rows(shop="A", user=None))[0]
    with pytest.raises(DataError, match="give one of the two"):
        predictor.predict(text, **{NAME: "A > u1", "shop": "A"})
    with pytest.raises(DataError, match="no column 'user'"):
        predictor.predict(pd.DataFrame(rows(shop="A")))


@pytest.mark.parametrize("method", METHODS)
def test_commands_read_its_columns(
    run: Any, method: str, trained_runs: TrainedRuns, tmp_path: Path, attribune: Attribune
) -> None:
    table, output = trained_runs.table(NESTED), tmp_path / "out.csv"
    attribune("predict", run(method), table, "--output", output)
    assert list(pd.read_csv(output).columns)[: len(NESTED[0])] == list(NESTED[0])
    found = explain(run(method), table, row=1)
    assert {record["attribute"] for record in found["losses"]} == {NAME}
    assert found["row"]["attributes"] == {NAME: f"{NESTED[0]['shop']} > {NESTED[0]['user']}".strip()}


@pytest.mark.parametrize("method", METHODS)
def test_forgetting_a_parent_forgets_its_children(
    run: Any, method: str, trained_runs: TrainedRuns, tmp_path: Path
) -> None:
    folder = trained_runs.copy(run(method), tmp_path / "run")
    kept = numbers(Predictor.from_pretrained(folder), rows(shop="B", user="u3"))
    done = forget(folder, NAME, "A")
    values = list(RunFolder.of(folder).read_schema()[NAME].values)
    assert values
    assert not [value for value in values if value == "A" or value.startswith("A > ")]
    for part in ("validation", "test"):
        assert "A" not in {NESTED[row]["shop"] for row in small_runs.scored_rows(folder, part)}
    assert done.predictions
    assert np.array_equal(numbers(Predictor.from_pretrained(folder), rows(shop="B", user="u3")), kept)


def test_a_new_child_is_learned_beside_its_parent(run: Any, trained_runs: TrainedRuns, tmp_path: Path) -> None:
    folder = trained_runs.copy(run("injector"), tmp_path / "run")
    before = Predictor.from_pretrained(folder)
    new = pd.DataFrame([{**row, "shop": "A", "user": "new"} for row in NESTED[:6]])
    enrol(folder, new)
    after = Predictor.from_pretrained(folder)
    assert "A > new" in after.schema[NAME].values
    assert np.array_equal(numbers(after, rows(shop="A", user="u1")), numbers(before, rows(shop="A", user="u1")))
    assert not np.array_equal(numbers(after, rows(shop="A", user="new")), numbers(before, rows(shop="A", user="new")))
    with pytest.raises(ConfigError, match="hierarchy"):
        next_texts(folder, new, attribute=NAME, value="A > new", count=1)


def test_estimators_read_its_columns() -> None:
    table = pd.DataFrame(NESTED)
    model = AttributeClassifier(text="text", attributes=[Hierarchy(["shop", "user"])], method="linear")
    model.fit(table, table["stars"])
    new = table[:2].assign(user=["new", None], shop="A", text="the film was great")
    first, second = model.predict_proba(new)
    assert np.array_equal(first, second)


def test_a_label_among_its_columns_is_refused() -> None:
    data = {"train": "a.csv", "text": "text", "label": "user", "attributes": [{"kind": "hierarchy", "name": NAME}]}
    with pytest.raises(ConfigError, match="column user is the label"):
        Recipe.from_dict({"data": data})


def test_a_recipe_has_the_name(run: Any) -> None:
    (attribute,) = RunFolder.of(run("linear")).read_recipe().data.attributes
    assert (attribute["kind"], attribute["name"]) == ("hierarchy", NAME)
    assert NAME in json.dumps(RunFolder.of(run("linear")).read_recipe().model_dump(mode="json"))


@pytest.mark.parametrize("members", [NAME, pd.DataFrame({"shop": ["A", "B"], "user": ["u1", "u3"]})])
def test_a_panel_replaces_the_levels_that_a_table_has(run: Any, members: Any) -> None:
    predictor = Predictor.from_pretrained(run("injector"))
    panel, text = Panel.of(predictor, members), {"text": ["the film was great"]}
    logits = [
        panel.scores(predictor, panel.encode(predictor, text | own)) for own in ({}, {"shop": ["C"], "user": ["u5"]})
    ]
    np.testing.assert_array_equal(*logits)

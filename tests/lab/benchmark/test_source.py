"""Rows of a benchmark's sets."""

from __future__ import annotations

from pathlib import Path

import pytest
import small_runs
from published import write_source

from attribune.errors import ConfigError
from attribune.runs.recipe import Recipe
from attribune_lab.benchmark.experiment import SetPlan
from attribune_lab.benchmark.source import SetSource
from attribune_lab.datasets.preparation import prepare
from attribune_lab.datasets.sets import find_card


@pytest.mark.slow
@pytest.mark.parametrize("rows", [None, 40])
def test_disjoint_sets_share_no_row_though_labels_are_missing(tmp_path: Path, rows: int | None) -> None:
    table = small_runs.reviews(200, seed=1)
    for number, row in enumerate(table):
        row["text"] = f"{row['text']} row{number}"
        row["look"] = "" if number % 7 == 2 else row["look"]
        row["taste"] = "" if number % 5 == 1 else row["taste"]
    whole = small_runs.reviews(40, seed=2)
    files = {"train": table, "validation": whole[:20], "test": whole[20:]}
    paths = {name: str(small_runs.write_csv(tmp_path / f"{name}.csv", part)) for name, part in files.items()}
    data = {**paths, "text": "text", "label": ["look", "taste"], "attributes": [{"name": "user"}]}
    found = {}
    for label, cap in (("look", rows), ("taste", None)):
        plan = SetPlan.from_dict(
            {"name": label, "data": data, "labels": [label], "disjoint": True, "rows": cap, "task": {"kind": "aspects"}}
        )
        recipe = Recipe.from_dict(
            {"data": {**data, "label": [label], "partial_labels": True}, "task": {"kind": "aspects"}}
        )
        train = SetSource(plan).tables(recipe, 0, trial=False)[1]["train"]
        assert all(value for value in train[label])
        found[label] = set(train["text"])
    assert not found["look"] & found["taste"]
    assert len(found["look"]) == (40 if rows else pytest.approx(86, abs=20))
    assert len(found["taste"]) == pytest.approx(80, abs=20)


def cold_source(tmp_path: Path, **changes: object) -> tuple[SetSource, Recipe]:
    table = small_runs.reviews(400, seed=1, users=40)
    data = {"train": str(small_runs.write_csv(tmp_path / "rows.csv", table)), "text": "text", "label": "stars"}
    data |= {"attributes": [{"name": "user"}]} | changes
    plan = SetPlan.from_dict({"name": "cold", "data": data, "cold": 0.5})
    return SetSource(plan), Recipe.from_dict({"data": data, "method": {"name": "none"}})


@pytest.mark.slow
def test_cold_values_have_no_training_rows(tmp_path: Path) -> None:
    source, recipe = cold_source(tmp_path)
    folds = [source.tables(recipe, fold, trial=False)[1] for fold in (0, 1)]
    every = {user for table in folds[0].values() for user in table["user"]}
    warm = [set(tables["train"]["user"]) for tables in folds]
    assert warm[0] == warm[1]
    assert 0.25 < len(warm[0]) / len(every) < 0.75
    assert set(folds[0]["test"]["user"]) - warm[0], "test rows are those of all values"
    assert len(folds[0]["train"]) < 0.8 * 320


def test_a_missing_value_is_not_cold(tmp_path: Path) -> None:
    """In a file it is an empty cell; with nearly all values cold, rows without a value are left."""
    rows = small_runs.reviews(200, seed=1, users=40)
    for row in rows[::3]:
        row["user"] = ""
    data = {"train": str(small_runs.write_csv(tmp_path / "rows.csv", rows)), "text": "text", "label": "stars"}
    data |= {"attributes": [{"name": "user"}]}
    source = SetSource(SetPlan.from_dict({"name": "cold", "data": data, "cold": 0.999}))
    recipe = Recipe.from_dict({"data": data, "method": {"name": "none"}})
    left = source.tables(recipe, 0, trial=False)[1]["train"]["user"]
    assert len(left) > 30
    assert not any(left)


def test_no_attribute_can_be_cold(tmp_path: Path) -> None:
    source, recipe = cold_source(tmp_path, attributes=[])
    with pytest.raises(ConfigError, match="'cold' has no categorical attribute whose values could be cold"):
        source.tables(recipe, 0, trial=False)


@pytest.mark.parametrize("classes", [{}, {"classes": ["1", "9", "25"]}])
def test_numbers_of_a_prepared_set_can_be_ratings(tmp_path: Path, classes: dict[str, list[str]]) -> None:
    """Its record lists no classes of numbers: those of the task are taken, or those of the rows."""
    write_source(tmp_path / "source", "politeness")
    prepare(find_card("politeness"), source=tmp_path / "source", output=tmp_path / "out", partial=True)
    plan = SetPlan.from_dict({"name": "x", "prepared": str(tmp_path / "out"), "task": {"kind": "rating", **classes}})
    assert SetSource(plan).recipe_parts()[1] == {"kind": "rating", **classes}

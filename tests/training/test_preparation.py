from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any
from unittest import mock

import datasets
import numpy as np
import pandas as pd
import pytest

from attribune.errors import ConfigError, DataError
from attribune.runs.folder import RunFolder
from attribune.runs.recipe import Recipe
from attribune.tasks import Similarity
from attribune.training.plan import DataPlan
from attribune.training.preparation import PreparedData, _continued_task, prepare


def recipe(**data: Any) -> Recipe:
    settings = {"train": "rows", "text": "text", "label": "answer", "attributes": [{"name": "user"}], **data}
    return Recipe.from_dict({"data": settings, "task": {"kind": "classification", "classes": ["Yes", "No", "None"]}})


def table() -> dict[str, Any]:
    return {
        "text": [f"text {i}" for i in range(60)],
        "answer": [["Yes", "No", "None"][i % 3] for i in range(60)],
        "user": [f"u{i % 4}" for i in range(60)],
    }


def said(prepared: PreparedData) -> list[str]:
    return [note.text for note in prepared.notes]


def test_a_class_that_is_named_is_not_a_missing_label() -> None:
    prepared = prepare(DataPlan.of(recipe()), {"train": datasets.Dataset.from_dict(table())})
    assert sum(len(part.rows) for part in prepared.splits.values()) == 60
    assert set(prepared.splits["train"].labels.tolist()) == {0, 1, 2}
    assert not any("without a label" in note for note in said(prepared))


def test_what_happens_to_the_attributes_of_the_other_parts_is_noted() -> None:
    rows = table()
    test = {"text": ["new"], "answer": ["Yes"], "user": ["never seen"]}
    tables = {"train": datasets.Dataset.from_dict(rows), "test": datasets.Dataset.from_dict(test)}
    prepared = prepare(DataPlan.of(recipe()), tables)
    assert any(note.startswith("test: ") and "not in the vocabulary" in note for note in said(prepared))


BAD = {4: "maybe", 17: "Yes!", 30: "maybe"}


def with_labels(labels: list[Any]) -> dict[str, Any]:
    return {"train": datasets.Dataset.from_dict({**table(), "answer": labels})}


def test_labels_that_are_no_class_are_counted_and_named() -> None:
    labels = [BAD.get(row, label) for row, label in enumerate(table()["answer"])]
    with pytest.raises(DataError, match=r"3 of 60 rows .*'maybe' \(2, first in row 5\), 'Yes!' \(1, first in row 18\)"):
        prepare(DataPlan.of(recipe()), with_labels(labels))
    prepared = prepare(DataPlan.of(recipe(bad_labels="drop")), with_labels(labels))
    kept = np.concatenate([part.rows for part in prepared.splits.values()])
    assert sorted(kept.tolist()) == [row for row in range(60) if row not in BAD]
    assert any("3 of 60 rows have a label outside the scale" in note for note in said(prepared))
    with pytest.raises(DataError, match=r"60 of 60 rows .*name another label column"):
        prepare(DataPlan.of(recipe(bad_labels="drop")), with_labels(["?"] * 60))


@pytest.mark.parametrize(
    ("task", "wrong"),
    [
        ({"kind": "rating"}, "four"),
        ({"kind": "ordinal"}, "inf"),
        ({"kind": "rating", "classes": [1, 2, 3]}, "9"),
        ({"kind": "regression"}, "good"),
    ],
)
def test_labels_that_are_not_on_the_scale_are_left_out(task: dict[str, Any], wrong: str) -> None:
    labels = [str(row % 3 + 1) for row in range(58)] + [wrong, "3.0"]
    settings = {"train": "rows", "text": "text", "label": "answer", "attributes": ["user"]}
    with pytest.raises(DataError, match=f"1 of 60 rows .*'{wrong}' .1, first in row 59.[:;] .*bad_labels='drop'"):
        prepare(DataPlan.of(Recipe.from_dict({"data": settings, "task": task})), with_labels(labels))
    dropping = Recipe.from_dict({"data": {**settings, "bad_labels": "drop"}, "task": task})
    prepared = prepare(DataPlan.of(dropping), with_labels(labels))
    assert sum(len(part.rows) for part in prepared.splits.values()) == 59


@pytest.mark.parametrize(
    ("task", "said"),
    [
        (
            {"kind": "ordinal"},
            r"'high' \(30, .*name levels in their order with .*task.classes.*, or name another label",
        ),
        ({"kind": "ordinal", "classes": ["Low", "High"]}, "the classes are 'Low', 'High'"),
        ({"kind": "ordinal", "classes": ["0", "low", "high"]}, r"the ratings \['low', 'high'\] are not numbers"),
    ],
)
def test_labels_that_are_all_outside_the_scale_are_told_what_it_is(task: dict[str, Any], said: str) -> None:
    settings = {"train": "rows", "text": "text", "label": "answer", "attributes": ["user"]}
    with pytest.raises((DataError, ConfigError), match=said):
        prepare(DataPlan.of(Recipe.from_dict({"data": settings, "task": task})), with_labels(["low", "high"] * 30))


@pytest.mark.parametrize("classes", [[False, True], ["FALSE", "TRUE"]])
@pytest.mark.parametrize("labels", [["True", "False"], [True, False]])
def test_booleans_are_classes_however_they_are_written(classes: list[Any], labels: list[Any]) -> None:
    settings = {"train": "rows", "text": "text", "label": "answer", "attributes": ["user"]}
    recipe = Recipe.from_dict({"data": settings, "task": {"kind": "classification", "classes": classes}})
    prepared = prepare(DataPlan.of(recipe), with_labels(labels * 30))
    assert set(prepared.splits["train"].labels.tolist()) == {0, 1}


def test_the_rows_of_classes_are_said_and_those_of_tiny_ones() -> None:
    labels = ["None", *(["Yes", "No"][row % 2] for row in range(59))]
    prepared = prepare(DataPlan.of(recipe()), with_labels(labels))
    counts = np.bincount(prepared.splits["train"].labels, minlength=3)
    counted = ", ".join(f"{name}: {count}" for name, count in zip(("Yes", "No", "None"), counts, strict=True))
    assert f"train: rows of each class: {counted}" in said(prepared)
    assert any("1 class with fewer than 5 rows (None: " in note for note in said(prepared))
    assert sum("no row of 1 class ('None')" in note for note in said(prepared)) == 2
    several = {"kind": "classification", "multi_label": True, "separator": ";"}
    data = {"train": "rows", "text": "text", "label": "answer"}
    other = Recipe.from_dict({"data": data, "task": several, "method": {"name": "none"}})
    prepared = prepare(DataPlan.of(other), with_labels(["a;b", "b"] * 30))
    rows = [int(count) for count in prepared.splits["train"].labels[:, :2].sum(axis=0)]
    assert f"train: rows of each class: a: {rows[0]}, b: {rows[1]}" in said(prepared)
    assert rows[0] < rows[1] == 48


def free(**data: Any) -> DataPlan:
    """A plan whose classes are those of the rows."""
    settings = {"train": "rows", "text": "text", "label": "answer", "attributes": [{"name": "user"}], **data}
    return DataPlan.of(Recipe.from_dict({"data": settings}))


def test_words_that_mean_no_label_are_named() -> None:
    prepared = prepare(free(), with_labels(table()["answer"]))
    (note,) = (note for note in said(prepared) if "without a label" in note)
    assert note.startswith("train: 20 rows without a label left out: 'None' (20); these words count as no label")
    assert "missing=" in note
    kept = Recipe.from_dict({"data": free().source.model_dump(), "task": {"missing": [""]}})
    prepared = prepare(DataPlan.of(kept), with_labels(table()["answer"]))
    assert prepared.task.to_dict()["classes"] == ["No", "None", "Yes"]
    assert not any("without a label" in note for note in said(prepared))
    with pytest.raises(DataError, match=r"same label 'EU'.*30 rows without a label left out: 'NA' \(30\); these words"):
        prepare(free(), with_labels(["NA", "EU"] * 30))
    with pytest.raises(DataError, match=r"none of its 60 rows .*: 'NA' \(60\); these words"):
        prepare(free(), with_labels(["NA"] * 60))
    empty = prepare(free(), with_labels(["", "a", "b"] * 20))
    assert "train: 20 rows without a label left out" in said(empty)


def test_labels_that_do_not_recur_are_refused() -> None:
    said = r"none of the \d+ validation rows has a label that a training row has, but .*: join"
    with pytest.raises(DataError, match=said):
        prepare(free(), with_labels([f"answer {row}" for row in range(60)]))


def test_classes_that_are_alike_are_named() -> None:
    prepared = prepare(free(), with_labels(["yes", "Yes", "no"] * 20))
    assert any(note.startswith("train: classes that differ in capitals, spaces or ") for note in said(prepared))


@pytest.mark.parametrize(("max_per_row", "dropped"), [(3, 48 * 2), (5, 0), (32, 0)])
def test_values_of_training_rows_beyond_the_slots_are_counted(max_per_row: int, dropped: int) -> None:
    tags = {"kind": "multi_label", "name": "user", "separator": "|", "max_per_row": max_per_row}
    rows = datasets.Dataset.from_dict({**table(), "user": ["a|b|c|d|e"] * 60})
    prepared = prepare(DataPlan.of(recipe(attributes=[tags])), {"train": rows})
    found = [note for note in said(prepared) if note.startswith("train: attribute 'user'")]
    assert len(found) == bool(dropped)
    if dropped:
        assert f"{dropped:,} values dropped, since a row keeps at most 3: raise its max_per_row" in found[0]
        assert '{kind: "multi_label", name: "user", separator: "|", max_per_row: 6}' in found[0]


@pytest.mark.parametrize(("by", "is_said"), [("random", True), ("group", False), ("time", False)])
def test_times_that_are_named_and_not_split_by_are_noted(by: str, is_said: bool) -> None:
    rows = table() | {"posted": [f"2024-01-{i % 28 + 1:02}" for i in range(60)], "year": ["2024"] * 60}
    split = {"by": by, "column": {"random": None, "group": "user", "time": "posted"}[by]}
    plan = DataPlan.of(recipe(attributes=["posted", "year"], split=split))
    prepared = prepare(plan, {"train": datasets.Dataset.from_dict(rows)})
    notes = [note for note in said(prepared) if "has times" in note]
    expected = (
        "column 'posted' has times, and the rows are split at random: to test on the latest ones, use "
        "`train(..., settings={'data.split.by': 'time', 'data.split.column': 'posted'})`"
    )
    assert notes == ([expected] if is_said else [])


def test_a_table_without_a_name_is_called_what_it_is() -> None:
    rows = pd.DataFrame({"text": ["a"] * 60, "answer": ["Yes", "No", "None"] * 20})
    with pytest.raises(DataError, match=r"^the DataFrame has no column 'user'"):
        prepare(DataPlan.of(recipe()), {"train": rows})
    tables = {"train": rows.assign(user="u"), "test": rows}
    with pytest.raises(DataError, match=r"^the DataFrame of test rows has no column 'user'"):
        prepare(DataPlan.of(recipe()), tables)


def test_only_the_first_rows_are_read() -> None:
    prepared = prepare(DataPlan.of(recipe(rows=30)), with_labels(table()["answer"]))
    assert sum(len(part.rows) for part in prepared.splits.values()) == 30
    assert "train: 30 rows read from the Dataset, at most its first 30" in said(prepared)


FORMS = {"pairs": {}, "triplets": {"text_negative": "other"}, "scores": {"label": "score"}}


@pytest.mark.parametrize("has_run", [True, False])
@pytest.mark.parametrize(("form", "other"), list(itertools.permutations(FORMS, 2)))
def test_a_similarity_goes_on_with_rows_of_its_form_alone(form: str, other: str, has_run: bool, tmp_path: Path) -> None:
    """Three columns may be read as triplets, as a score with its texts, or as a pair with an attribute."""

    def recipe_of(form: str) -> Recipe:
        data = {"train": "searches.csv", "text": "query", "text_pair": "document", "attributes": [{"name": "user"}]}
        return Recipe.from_dict({"data": data | FORMS[form], "task": {"kind": "similarity"}})

    source = mock.Mock(folder=tmp_path / "run")
    source.task.return_value = Similarity(form=form)  # type: ignore[arg-type]
    if has_run:
        RunFolder(source.folder).begin(recipe_of(form), resume=False)
    assert _continued_task(DataPlan.of(recipe_of(form)), source) == source.task()
    with pytest.raises(ConfigError, match=f"the task's form is '{other}', but '{form}' in .*run, which is trained fur"):
        _continued_task(DataPlan.of(recipe_of(other)), source)

from __future__ import annotations

from typing import Any

import datasets

from attribune.runs.recipe import Recipe
from attribune.training.plan import DataPlan
from attribune.training.preparation import prepare


def recipe(**data: Any) -> Recipe:
    settings = {"train": "rows", "text": "text", "label": "answer", "attributes": [{"name": "user"}], **data}
    return Recipe.from_dict({"data": settings, "task": {"kind": "classification", "classes": ["Yes", "No", "None"]}})


def table() -> dict[str, Any]:
    return {
        "text": [f"text {i}" for i in range(60)],
        "answer": [["Yes", "No", "None"][i % 3] for i in range(60)],
        "user": [f"u{i % 4}" for i in range(60)],
    }


def test_a_class_that_is_named_is_not_a_missing_label() -> None:
    prepared = prepare(DataPlan.of(recipe()), {"train": datasets.Dataset.from_dict(table())})
    assert sum(len(part.rows) for part in prepared.splits.values()) == 60
    assert set(prepared.splits["train"].labels.tolist()) == {0, 1, 2}
    assert not any("without a label" in note for note in prepared.notes)


def test_what_happens_to_the_attributes_of_the_other_parts_is_noted() -> None:
    rows = table()
    test = {"text": ["new"], "answer": ["Yes"], "user": ["never seen"]}
    tables = {"train": datasets.Dataset.from_dict(rows), "test": datasets.Dataset.from_dict(test)}
    prepared = prepare(DataPlan.of(recipe()), tables)
    assert any(note.startswith("test: ") and "not in the vocabulary" in note for note in prepared.notes)

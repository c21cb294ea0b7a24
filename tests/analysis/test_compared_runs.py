"""Why two runs cannot be compared."""

from __future__ import annotations

import numpy as np
import pytest

from attribune.analysis.evaluate import _cure, _forgetful, _other_settings
from attribune.runs.recipe import Recipe
from attribune.runs.stored_scores import StoredScores
from attribune.tasks import Classification, Regression


def stored(rows: list[int], *, scored: int | None = None) -> StoredScores:
    part = {"rows": np.array(rows), "labels": np.zeros(len(rows), dtype=np.int64)}
    return StoredScores(task=Classification(classes=2), parts={"test": part}, scored={"test": scored or len(rows)})


@pytest.mark.parametrize(
    ("first", "second", "forgetful"),
    [
        (stored([1, 4], scored=3), stored([1, 2, 4]), 0),
        (stored([1, 2, 4]), stored([1, 4], scored=3), 1),
        (stored([1, 4]), stored([1, 2, 4]), None),  # it never had the row
        (stored([1, 4], scored=3), stored([1, 4], scored=3), None),
        (stored([1, 5], scored=3), stored([1, 2, 4]), None),  # other rows as well
    ],
)
def test_the_run_whose_rows_were_forgotten_is_found(
    first: StoredScores, second: StoredScores, forgetful: int | None
) -> None:
    scores = (first, second)
    assert _forgetful(scores, "test") == forgetful
    assert ("forget" in _cure(scores, [])) == (forgetful is not None)
    assert _cure(scores, ["the task is another"]).startswith("train both with the same data, task, split and seed")


def recipe(table: str, seed: int) -> Recipe:
    data = {"train": table, "text": "t", "label": "y", "attributes": ["u"], "split": {"seed": seed}}
    return Recipe.from_dict({"data": data})


def test_settings_that_choose_other_rows_are_named() -> None:
    first, second = recipe("one.csv", 1), recipe("two.csv", 2)
    assert _other_settings([first, second], [Classification(classes=2), Regression()]) == [
        "the task is classification in the first, regression in the second",
        "the table is one.csv in the first, two.csv in the second",
        "data.split.seed is 1 in the first, 2 in the second",
    ]
    assert _other_settings([first, first], [Classification(classes=2), Classification(classes=2)]) == []

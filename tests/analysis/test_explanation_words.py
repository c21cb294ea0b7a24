"""Sentences of an explanation, of a record as `explain` makes it, and what needs no run."""

from __future__ import annotations

from typing import Any
from unittest import mock

import numpy as np
import pytest

from attribune import Categorical, Classification, Schema
from attribune.analysis.explain import rescored
from attribune.analysis.explain import run as explanation
from attribune.analysis.explain.wording import _values

TOP = {"value": "-", "rows": 7, "training_rows": 9, "move": 0.2, "of": "bad", "change": 0.2, "low": 0.1, "high": 0.3}


@pytest.mark.parametrize(
    ("values", "enough", "note"),
    [
        (1, 1, "Its only value has at least 5 rows."),
        (25, 1, "1 of 25 values has at least 5 rows."),
        (25, 2, "2 of 25 values have at least 5 rows. The largest of many differences are partly chance."),
        (3, 3, "All 3 values have at least 5 rows. The largest of many differences are partly chance."),
    ],
)
def test_the_values_that_are_compared_are_counted(values: int, enough: int, note: str) -> None:
    (section,) = _values(record(values, enough, [TOP]))
    assert section.note == f"Each value is compared with the same rows without it. {note}"
    assert section.sentences[0].startswith("'-' moves predictions most: by 0.200 on average over its 7 rows")


def test_nothing_is_said_of_differences_where_no_value_has_enough_rows() -> None:
    (section,) = _values(record(59, 0, []))
    assert section.sentences == ["No value has 5 rows or more, so none is compared."]
    assert (section.table, section.note) == ([], "")


def record(values: int, enough: int, top: list[dict[str, Any]]) -> dict[str, Any]:
    return {"least_rows": 5, "values": [{"attribute": "user", "values": values, "enough_rows": enough, "top": top}]}


def test_an_attribute_may_have_any_name(monkeypatch: pytest.MonkeyPatch) -> None:
    """Hiding the attribute "attributes" is not hiding all."""
    names = ["attributes", "user"]
    schema = Schema.fit({name: ["x", "y"] for name in names}, [Categorical(name) for name in names])
    predictor = mock.Mock(schema=schema, reads_attributes=True, task=Classification(classes=2))
    predictor.score = lambda ids: np.stack([ids[:, 0], ids[:, 1]], axis=1).astype(np.float32)
    monkeypatch.setattr(explanation, "rows_of", lambda predictor, texts, ids: ids)
    cases = explanation.counterfactuals(predictor, "a text", np.array([1, 2]), instead=[], top=0)
    assert [case["as"] for case in cases] == ["as given", "attributes hidden", "attributes hidden", "user hidden"]
    seen = [case["numbers"] for case in cases]
    assert len({tuple(numbers.values()) for numbers in seen}) == 4, "four predictions of four different ids"


def test_the_interval_of_many_rows_is_that_of_the_bootstrap() -> None:
    changes = np.random.default_rng(1).exponential(size=2_001)
    assert rescored._interval(changes) == pytest.approx(rescored._interval(changes[:2_000]), abs=0.005)

"""Sentences of an explanation, of a record as `explain` makes it."""

from __future__ import annotations

from typing import Any

import pytest

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

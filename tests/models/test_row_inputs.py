"""Texts with values of attributes beside them, as columns."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest

from attribune import DataError
from attribune.models.row_inputs import RowInput, RowNames, _columns_of_rows, shared_values

NAMES = RowNames(texts=("text",), needed=("text", "user", "tags"), known=("user", "tags"))
TEXTS = ["a b", "c"]


@pytest.mark.parametrize(
    ("given", "value", "column"),
    [
        (TEXTS, "u1", ["u1", "u1"]),
        (TEXTS, None, [None, None]),
        (TEXTS, 5, [5, 5]),
        (TEXTS, np.array(5), [np.array(5)] * 2),
        (TEXTS, ["u1", "u2"], ["u1", "u2"]),
        (TEXTS, ("u1", None), ["u1", None]),
        (TEXTS, np.array(["u1", "u2"]), ["u1", "u2"]),
        (TEXTS, pd.Series(["u1", "u2"], index=[7, 9]), ["u1", "u2"]),
        (TEXTS, [["u1", "u2"], []], [["u1", "u2"], []]),
        (pd.Series(TEXTS, index=[7, 9]), pd.Series(["u1", "u2"], index=[7, 9]), ["u1", "u2"]),
        (pd.Series(TEXTS, index=[7, 9]), ["u1", "u2"], ["u1", "u2"]),
        (np.array(TEXTS), ["u1", "u2"], ["u1", "u2"]),
        (["a"], ["u1"], ["u1"]),
        (["a"], [["u1", "u2"]], [["u1", "u2"]]),
        ([None, float("nan")], "u1", ["u1", "u1"]),
        ([], [], []),
        ([], "u1", []),
        ("a", "u1", ["u1"]),
        ("a", ["u1", "u2"], [["u1", "u2"]]),
    ],
)
@pytest.mark.parametrize("name", ["user", "tags"])
def test_a_list_beside_texts_has_a_value_for_each(name: str, given: Any, value: Any, column: list[Any]) -> None:
    found = RowInput.read(given, NAMES, {name: value})
    assert found.columns[name] == column
    other = "tags" if name == "user" else "user"
    assert found.columns[other] == [None] * len(column)
    assert found.is_single == (given == "a" if isinstance(given, str) else False)


@pytest.mark.parametrize(
    ("given", "value", "message"),
    [
        (TEXTS, ["u1"], r"tags has 1 value for 2 texts: give one value for all, or a list with one for each"),
        (TEXTS, ["u1", "u2", "u3"], r"tags has 3 values for 2 texts"),
        (TEXTS, [], r"tags has 0 values for 2 texts"),
        (["a"], ["u1", "u2"], r"2 values for 1 text: .*\(a list of lists, if each text has several\)"),
        ([], ["u1"], r"1 value for 0 texts"),
        (TEXTS, np.zeros((3, 2)), r"tags has 3 values for 2 texts"),
        (pd.Series(TEXTS), pd.Series(["u1", "u2"], index=[1, 0]), "the index of tags is not that of the texts"),
        ([{"text": "a"}], ["u1"], "cannot be combined with rows"),
    ],
)
def test_other_lists_are_refused(given: Any, value: Any, message: str) -> None:
    with pytest.raises(DataError, match=message):
        RowInput.read(given, NAMES, {"tags": value})


def test_a_list_that_all_texts_share() -> None:
    found = RowInput.read(TEXTS, NAMES, shared_values({"tags": ["x", "y"], "user": "u1"}, 2))
    assert found.columns["tags"] == [["x", "y"], ["x", "y"]]
    assert found.columns["user"] == ["u1", "u1"]


def test_a_row_without_its_text_is_told_so_first() -> None:
    names = RowNames(texts=("text",), needed=("text", "user"))
    with pytest.raises(DataError, match=r"^row 2 has no text: it lacks 'text'; .*'texte', .*did you mean 'text'\?"):
        _columns_of_rows([{"text": "a"}, {"texte": "b"}], names)

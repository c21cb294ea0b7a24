from __future__ import annotations

import datetime as dt
from decimal import Decimal

import datasets
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from attribune.errors import DataError
from attribune.schema.columns import as_array, canonical, column_batches, distinct


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (17, "17"),
        (17.0, "17"),
        ("17 ", "17"),
        ("17.0", "17"),
        ("17.000", "17"),
        (Decimal("17.00"), "17"),
        (np.float32(17), "17"),
        (np.int8(17), "17"),
        (np.float32(0.1), "0.1"),
        (0.1, "0.1"),
        (Decimal("1.50"), "1.5"),
        (1.5, "1.5"),
        ("1.50", "1.50"),
        ("007", "007"),
        ("007.0", "007.0"),
        ("1e3", "1e3"),
        ("-17.0", "-17"),
        (-0.0, "0"),
        ("-0.0", "0"),
        ("0.0", "0"),
        ("17.", "17."),
        (1e300, "1e+300"),
        (10**30, str(10**30)),
        (float("inf"), "inf"),
        (Decimal("Infinity"), "Infinity"),
        (True, "true"),
        (np.bool_(False), "false"),
        (b" x", "x"),
        (np.str_(" y "), "y"),
        (dt.date(2024, 5, 31), "2024-05-31"),
        (dt.datetime(2024, 5, 31), "2024-05-31"),
        (dt.datetime(2024, 5, 31, 10, 30), "2024-05-31 10:30:00"),
        (pd.Timestamp("2024-05-31"), "2024-05-31"),
        (np.datetime64("2024-05-31T00:00:00.000000000"), "2024-05-31"),
        (np.timedelta64(3, "s"), "0:00:03"),
    ],
)
def test_one_value_has_one_text(value: object, text: str) -> None:
    assert canonical(value) == text


@pytest.mark.parametrize(
    "value", [None, "", " \t", float("nan"), np.float32("nan"), Decimal("NaN"), pd.NaT, pd.NA, np.datetime64("NaT")]
)
def test_no_value_has_no_text(value: object) -> None:
    assert canonical(value) is None


@pytest.mark.parametrize("value", [["a"], ("a",), {"a"}, {"a": 1}, np.array(["a"])])
def test_a_list_is_not_one_value(value: object) -> None:
    with pytest.raises(DataError, match="is not one value: use MultiLabel"):
        canonical(value)


def test_bytes_that_are_not_text_are_refused() -> None:
    with pytest.raises(DataError, match="are not UTF-8"):
        canonical(b"\xff")


@pytest.mark.slow
@given(st.one_of(st.text(), st.floats(), st.integers(), st.decimals(allow_nan=False)))
def test_canonical_text_stays_as_it_is(value: object) -> None:
    text = canonical(value)
    assert text is None or canonical(text) == text


@given(st.integers(min_value=-(10**15), max_value=10**15))
def test_integers_floats_and_their_texts_are_one_value(number: int) -> None:
    assert {canonical(number), canonical(float(number)), canonical(str(float(number)))} == {str(number)}


def test_mixed_types_become_text_and_keep_their_spaces_to_be_counted() -> None:
    array = as_array(["17", 17, None, "17 ", 2.5], column="c")
    found = distinct(array, missing=frozenset(), column="c", rows=np.arange(1, 6))
    assert [found.texts[code] if code >= 0 else None for code in found.codes] == ["17", "17", None, "17", "2.5"]
    assert found.padded[found.codes[3]]
    assert found.padded.sum() == 1


def test_float32_columns_read_as_they_were_written() -> None:
    array = pa.array([0.1, 2.0, None, float("nan")], pa.float32())
    found = distinct(array, missing=frozenset(), column="c", rows=np.arange(4))
    assert found.texts[found.codes[0]] == "0.1"
    assert found.texts[found.codes[1]] == "2"
    assert found.codes[2] == -1
    assert found.texts[found.codes[3]] is None


def test_values_that_do_not_fit_name_column_and_row() -> None:
    with pytest.raises(DataError, match=r"column 'c', row 12: 'b' is not a list"):
        as_array([["a"], None, "b"], column="c", first_row=10)
    with pytest.raises(
        DataError, match=r"column 'c', row 6: b'.xff' .*bytes .* are not UTF-8|column 'c', row 6: bytes"
    ):
        distinct(pa.array([b"a", b"\xff"]), missing=frozenset(), column="c", rows=np.array([5, 6]))
    with pytest.raises(DataError, match=r"column 'c', row 5: .* is not one value"):
        distinct(pa.array([None, {"x": 1}]), missing=frozenset(), column="c", rows=np.array([4, 5]))
    with pytest.raises(DataError, match="half of a character pair"):
        as_array(["\ud800"], column="c")
    with pytest.raises(DataError, match="is str, not a sequence"):
        as_array("abc", column="c")


@pytest.mark.parametrize("batch_size", [1, 2, 3, 10])
def test_every_kind_of_table_gives_the_same_batches(batch_size: int) -> None:
    columns = {"a": ["x", None, "z", "w"], "b": [1, 2, 3, 4], "c": [0, 0, 0, 0]}
    arrow = pa.table(columns)
    whole = datasets.Dataset(arrow)
    doubled = datasets.Dataset(pa.table({name: values[::-1] for name, values in columns.items()})).select([3, 2, 1, 0])
    for table in (columns, arrow, pd.DataFrame(columns), whole, whole.with_format("torch"), doubled):
        batches = list(column_batches(table, ["b", "a"], batch_size=batch_size))
        assert [start for start, _ in batches] == list(range(1, 5, batch_size))
        assert [value for _, batch in batches for value in batch["a"].to_pylist()] == columns["a"]
        assert [value for _, batch in batches for value in batch["b"].to_pylist()] == columns["b"]


def test_a_missing_column_names_the_closest_one() -> None:
    for table in ({"user": ["a"], "stars": [1]}, datasets.Dataset(pa.table({"user": ["a"], "stars": [1]}))):
        with pytest.raises(DataError, match=r"no column 'users'; did you mean 'user'\? \(columns: 'user', 'stars'\)"):
            list(column_batches(table, ["users"]))


def test_columns_of_different_lengths_are_refused() -> None:
    with pytest.raises(DataError, match=r"different numbers of rows, \{'a': 1, 'b': 2\}"):
        list(column_batches({"a": [1], "b": [1, 2]}, ["a", "b"]))

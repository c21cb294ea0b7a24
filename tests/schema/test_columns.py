from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import Any

import datasets
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from attribune.errors import DataError
from attribune.schema.columns import as_array, canonical, column_batches, distinct

NIGHT = dt.datetime(2024, 5, 31)
VALUES: dict[str, list[object]] = {
    "17": [17, 17.0, "17 ", "17.0", "17.000", Decimal("17.00"), np.float32(17), np.int8(17)],
    "-17": ["-17.0"],
    "17.": ["17."],
    "0": [-0.0, "-0.0", "0.0"],
    "0.1": [np.float32(0.1), 0.1],
    "1.5": [Decimal("1.50"), 1.5],
    "1.50": ["1.50"],
    "007": ["007"],
    "007.0": ["007.0"],
    "1e3": ["1e3"],
    "1e+300": [1e300],
    str(10**30): [10**30],
    "inf": [float("inf")],
    "Infinity": [Decimal("Infinity")],
    "true": [True],
    "false": [np.bool_(False)],
    "x": [b" x", np.str_(" x ")],
    "2024-05-31": [NIGHT.date(), NIGHT, pd.Timestamp(NIGHT), np.datetime64("2024-05-31T00:00:00.000000000")],
    "2024-05-31 10:30:00": [dt.datetime(2024, 5, 31, 10, 30)],
    "0:00:03": [np.timedelta64(3, "s")],
}


@pytest.mark.parametrize("text", VALUES)
def test_one_value_has_one_text(text: str) -> None:
    assert [canonical(value) for value in VALUES[text]] == [text] * len(VALUES[text])


@pytest.mark.parametrize(
    "value", [None, "", " \t", float("nan"), np.float32("nan"), Decimal("NaN"), pd.NaT, pd.NA, np.datetime64("NaT")]
)
def test_no_value_has_no_text(value: object) -> None:
    assert canonical(value) is None


@pytest.mark.parametrize(
    ("value", "message"),
    [
        *((value, "is not one value: use MultiLabel") for value in (["a"], ("a",), {"a"}, {"a": 1}, np.array(["a"]))),
        (b"\xff", "are not UTF-8"),
    ],
)
def test_lists_and_bytes_that_are_no_text_are_refused(value: object, message: str) -> None:
    with pytest.raises(DataError, match=message):
        canonical(value)


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
    assert (found.padded[found.codes[3]], found.padded.sum()) == (True, 1)


def test_float32_columns_read_as_they_were_written() -> None:
    array = pa.array([0.1, 2.0, None, float("nan")], pa.float32())
    found = distinct(array, missing=frozenset(), column="c", rows=np.arange(4))
    assert found.codes[2] == -1
    assert [found.texts[code] for code in found.codes[[0, 1, 3]]] == ["0.1", "2", None]


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ([["a"], None, "b"], r"column 'c', row 12: 'b' is not a list"),
        (["\ud800"], "half of a character pair"),
        ("abc", "is str, not a sequence"),
        (pa.array([b"a", b"\xff"]), r"column 'c', row 11: b'.xff' .*bytes .* are not UTF-8|column 'c', row 11: bytes"),
        (pa.array([None, {"x": 1}]), r"column 'c', row 11: .* is not one value"),
    ],
)
def test_values_that_do_not_fit_name_column_and_row(values: Any, message: str) -> None:
    with pytest.raises(DataError, match=message):
        distinct(as_array(values, column="c", first_row=10), missing=frozenset(), column="c", rows=np.array([10, 11]))


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
    with pytest.raises(DataError, match=r"no column '0'; did you mean '0'\? The names of the table are no texts"):
        list(column_batches(pd.DataFrame([[1, 2]]), ["0"]))


def test_several_tables_are_none() -> None:
    part = datasets.Dataset.from_dict({"user": ["a"]})
    with pytest.raises(DataError, match=r"several tables \('train', 'test'\): choose one, as in source\['train'\]"):
        list(column_batches(datasets.DatasetDict({"train": part, "test": part}), ["user"]))


def test_columns_of_different_lengths_are_refused() -> None:
    with pytest.raises(DataError, match=r"different numbers of rows, \{'a': 1, 'b': 2\}"):
        list(column_batches({"a": [1], "b": [1, 2]}, ["a", "b"]))

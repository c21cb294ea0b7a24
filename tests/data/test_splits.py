from __future__ import annotations

import datetime as dt
from typing import Any

import datasets
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from attribune.data.splits import Splits, split_table
from attribune.data.texts import share_texts
from attribune.errors import ConfigError, DataError


def table(**columns: Any) -> datasets.Dataset:
    return datasets.Dataset(pa.table(columns))


def parts(splits: Splits, column: str) -> list[set[Any]]:
    return [set(part[column]) for part in (splits.train, splits.validation, splits.test)]


def assert_disjoint(sets: list[set[Any]]) -> None:
    assert len(set().union(*sets)) == sum(map(len, sets))


def test_unique_rows_are_split_exactly_and_by_seed() -> None:
    rows = table(text=[f"text {number}" for number in range(1000)])
    splits, again, other = (split_table(rows, text=["text"], seed=seed) for seed in (3, 3, 4))
    assert splits.report.lines() == ["rows: 800 train, 100 validation, 100 test"]
    assert sorted(np.concatenate(splits.rows).tolist()) == list(range(1000))
    assert splits.test["text"] == [f"text {row}" for row in splits.rows[2]]
    assert all((one == two).all() for one, two in zip(splits.rows, again.rows, strict=True))
    assert set(other.rows[2]) != set(splits.rows[2])


@pytest.mark.slow
@settings(max_examples=60)
@given(st.lists(st.integers(0, 12), min_size=3, max_size=80), st.integers(0, 5))
def test_equal_texts_stay_in_one_part_and_no_row_is_lost(texts: list[int], seed: int) -> None:
    if len(set(texts)) < 3:
        return
    padded = [f" t{text} " if place % 2 else f"t{text}" for place, text in enumerate(texts)]
    splits = split_table(table(text=padded), text=["text"], seed=seed)
    trimmed = [{text.strip() for text in part} for part in parts(splits, "text")]
    assert_disjoint(trimmed)
    assert all(trimmed)
    assert sorted(np.concatenate(splits.rows).tolist()) == list(range(len(texts)))
    assert splits.report.repeated == len(texts) - len(set(texts))
    assert splits.report.left_out == 0


def test_rows_without_text_have_nothing_in_common() -> None:
    splits = split_table(table(text=[None, "", " "] * 10), text=["text"])
    assert (splits.report.train, splits.report.validation, splits.report.test) == (24, 3, 3)


def test_several_text_columns_are_one_text() -> None:
    rows = table(title=["a", "a", "b", None], body=["x", "y", "x", "x"])
    assert split_table(rows, text=["title", "body"]).report.repeated == 0
    assert split_table(rows, text=["title"]).report.repeated == 1


@pytest.mark.slow
@settings(max_examples=60)
@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 40)), min_size=3, max_size=80), st.integers(0, 5))
def test_groups_and_texts_stay_whole_and_what_conflicts_is_counted(rows: list[tuple[int, int]], seed: int) -> None:
    users = [str(user) for user, _ in rows]
    texts = [f"t{text}" for _, text in rows]
    try:
        splits = split_table(table(u=users, text=texts), text=["text"], by="group", column="u", seed=seed)
    except DataError:
        return
    assert_disjoint(parts(splits, "u"))
    assert_disjoint(parts(splits, "text"))
    sizes = splits.report
    assert sizes.train + sizes.validation + sizes.test + sizes.left_out == len(rows)
    for row in set(range(len(rows))) - set(np.concatenate(splits.rows).tolist()):
        assert any(texts[row] in part for part in parts(splits, "text"))


@pytest.mark.slow
@settings(max_examples=60)
@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9)), min_size=3, max_size=80), st.integers(0, 5))
def test_new_texts_and_new_judges(rows: list[tuple[int, int]], seed: int) -> None:
    """Split by both no text and no judge is in two parts, and no row is lost uncounted."""
    judges, texts = [f"j{judge}" for judge, _ in rows], [f"t{text}" for _, text in rows]
    wanted: dict[str, Any] = {"text": ["text"], "by": "both", "column": "j", "fractions": (0.5, 0.25, 0.25)}
    try:
        splits = split_table(table(j=judges, text=texts), seed=seed, **wanted)
    except DataError:
        return
    assert_disjoint(parts(splits, "j"))
    assert_disjoint(parts(splits, "text"))
    sizes = splits.report
    assert sizes.train + sizes.validation + sizes.test + sizes.apart == len(rows)
    assert sizes.left_out == 0


def test_new_judges_of_known_texts() -> None:
    """Five judgements of every text: split by judge, with shared texts, no row is left out."""
    judges = [f"j{(text + 3 * place) % 11}" for text in range(60) for place in range(5)]
    rows = table(j=judges, text=[f"t{text}" for text in range(60) for _ in range(5)])
    wanted: dict[str, Any] = {"text": ["text"], "column": "j", "fractions": (0.6, 0.2, 0.2)}
    shared = split_table(rows, by="group", shared_texts=True, **wanted)
    assert_disjoint(parts(shared, "j"))
    assert sum(map(len, shared.rows)) == 300
    assert shared.report.shared > 80
    assert (
        f"rows of validation and test whose text is in training, too: {shared.report.shared}" in shared.report.lines()
    )
    apart = split_table(rows, by="both", **wanted)
    assert 5 < apart.report.test < 30
    said = f"rows left out, their text and their group being in different parts: {apart.report.apart}"
    assert said in apart.report.lines()
    with pytest.raises(DataError, match=r"repeat a text of an earlier part: set data.split.shared_texts or give the"):
        split_table(rows, by="group", **wanted)
    few = table(j=["a", "b", "c"], text=["x", "y", "z"])
    different = [seed for seed in range(20) if not _splits(few, seed)]
    assert different
    with pytest.raises(DataError, match=r"have their text and their group in different parts: raise the fractions or"):
        split_table(few, text=["text"], by="both", column="j", seed=different[0])


def _splits(rows: datasets.Dataset, seed: int) -> bool:
    try:
        split_table(rows, text=["text"], by="both", column="j", seed=seed)
    except DataError:
        return False
    return True


def test_groups_fill_the_parts() -> None:
    users = [f"u{number // 5}" for number in range(500)] + [None, ""]
    rows = table(u=users, text=[str(n) for n in range(502)])
    splits = split_table(rows, text=["text"], by="group", column="u", fractions=(0.6, 0.2, 0.2))
    assert 95 < splits.report.validation <= 100
    assert 95 < splits.report.test <= 100
    assert splits.report.without_group == 2
    assert splits.report.lines()[1] == "rows without a group, each taken as its own: 2"
    few = split_table(table(u=list("aaabbbccc"), text=list("123456789")), text=["text"], by="group", column="u")
    assert (few.report.train, few.report.validation, few.report.test) == (3, 3, 3)


DAYS = [f"2024-01-{day:02}" for day in range(1, 11)]


@pytest.mark.parametrize(
    "times",
    [
        DAYS,
        [f"{day}T10:00:00+02:00" for day in DAYS],
        [dt.date.fromisoformat(day) for day in DAYS],
        [dt.datetime.fromisoformat(day) for day in DAYS],
        [str(number) for number in range(5, 15)],
        [number / 3 for number in range(10)],
    ],
)
def test_the_earliest_train_and_the_latest_test(times: list[Any]) -> None:
    order = [3, 9, 0, 5, 1, 8, 2, 7, 4, 6]
    rows = table(when=[times[place] for place in order], text=[f"t{place}" for place in order])
    splits = split_table(rows, text=["text"], by="time", column="when")
    assert parts(splits, "text") == [{f"t{place}" for place in range(8)}, {"t8"}, {"t9"}]


def test_one_point_in_time_stays_together_and_later_repeats_are_left_out() -> None:
    when = [1, 1, 1, 2, 2, 3, 3, 3]
    text = ["a", "b", "c", "d", "a", "e", "b", "d"]
    rows = table(when=when, text=text)
    splits = split_table(rows, text=["text"], by="time", column="when", fractions=(0.4, 0.2, 0.4))
    assert [part.tolist() for part in splits.rows] == [[0, 1, 2], [3], [5]]
    assert splits.report.left_out == 3
    assert "rows left out, their text being in an earlier part: 3" in splits.report.lines()


@pytest.mark.parametrize(
    ("when", "message"),
    [
        (["1", "2", "soon"], r"column 'when', row 3: the time 'soon' is not a number"),
        (["2024-01-01", None, "2024-01-02"], r"row 2 has no time: correct or remove the row"),
        (["2024-01-01", "01/02/2024", "2024-01-02"], r"row 2: the time '01/02/2024' is not an ISO date"),
        (["2024", "inf", "2025"], "row 2"),
        ([1, 1, 2], "2 different points in time"),
    ],
)
def test_times_that_cannot_be_used_are_named(when: list[Any], message: str) -> None:
    with pytest.raises(DataError, match=message):
        split_table(table(when=when, text=["a", "b", "c"]), text=["text"], by="time", column="when")


@pytest.mark.parametrize(
    ("columns", "by", "message"),
    [
        ({"text": ["a", "b"]}, "random", "2 rows with 2 different texts cannot make three parts"),
        ({"text": ["a"] * 5}, "random", "5 rows with 1 different text cannot"),
        ({"text": list("abc"), "group": [1, 1, 2]}, "group", "3 rows with 2 different values of 'group'"),
        ({"text": list("aab"), "time": [1, 2, 3]}, "time", "all rows of validation repeat a text of an earlier part"),
        ({"txt": list("abc")}, "random", "no column 'text'"),
    ],
)
def test_too_few_rows_or_groups_are_refused(columns: dict[str, Any], by: Any, message: str) -> None:
    with pytest.raises(DataError, match=message):
        split_table(table(**columns), text=["text"], by=by, column=None if by == "random" else by)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"fractions": (0.8, 0.1, 0.2)}, "add up to 1"),
        ({"fractions": (1.0, 0.0, 0.0)}, "three positive numbers"),
        ({"by": "size"}, "must be 'random', 'group', 'time' or 'both'"),
        ({"by": "both"}, "name the column"),
        ({"shared_texts": True}, "split by 'random' with shared_texts: split by 'group'"),
        ({"by": "both", "column": "u", "shared_texts": True}, "leave shared_texts out"),
        ({"by": "group"}, "name the column"),
        ({"column": "u"}, "leave column out"),
    ],
)
def test_settings_that_cannot_be_are_refused(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        split_table(table(text=["a", "b", "c"]), text=["text"], **settings)


def test_shared_texts_are_counted() -> None:
    train = table(text=["a", "b", ""])
    assert share_texts(train, table(text=[" a", "a", "c", "", None]), text=["text"]) == 2


@pytest.mark.parametrize("by", ["random", "group", "time"])
def test_a_test_share_of_zero_makes_two_parts(by: Any) -> None:
    columns = {"text": [f"t{n}" for n in range(20)], "group": [n // 2 for n in range(20)], "time": list(range(20))}
    wanted: dict[str, Any] = {"text": ["text"], "by": by, "column": None if by == "random" else by}
    splits = split_table(table(**columns), fractions=(0.9, 0.1, 0.0), **wanted)
    assert [len(rows) for rows in splits.rows] == [18, 2, 0]
    assert sorted([*splits.rows[0], *splits.rows[1]]) == list(range(20))
    if by == "time":
        assert splits.rows[1].tolist() == [18, 19]
    pair, wanted["fractions"] = table(**{name: values[:3:2] for name, values in columns.items()}), (0.5, 0.5, 0.0)
    assert [len(rows) for rows in split_table(pair, **wanted).rows] == [1, 1, 0]
    with pytest.raises(DataError, match=r"1 row with 1 .* cannot make two parts"):
        split_table(pair.select([0]), **wanted)

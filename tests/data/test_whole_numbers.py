"""Ids that are whole numbers, and amounts: told by their values, whatever a column is called."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from attribune import check
from attribune.data.checking.judgements import is_told_by, never_twice, numbers_the_texts
from attribune.data.checking.profiles import profile_column
from attribune.data.checking.whole_numbers import kind_of_numbers

ROWS = 3_000
CHANCE = np.random.default_rng(0)
Numbers = np.ndarray[Any, np.dtype[Any]]


def drawn(names: Any, *, spread: float = 1.0) -> Numbers:
    """Rows of names, some of which have far more rows than others."""
    shares = CHANCE.lognormal(0, spread, len(names))
    return CHANCE.choice(names, ROWS, p=shares / shares.sum())


def far(lowest: int, highest: int, count: int) -> Numbers:
    return CHANCE.choice(np.arange(lowest, highest), count, replace=False)


IDS = {
    "rater": drawn(np.arange(219)),
    "client": drawn(far(10_000, 99_999, 300)),
    "agent": drawn(np.arange(1, 61)),
    "player": drawn(CHANCE.integers(0, 10**7, 500)),
    "patient": drawn(far(100_000, 999_999, 250)),
    "member": drawn(CHANCE.integers(2**40, 2**45, 200)),
    "store": drawn(np.arange(101, 151)),
    "movie": drawn(far(0, 200_000, 700)),
    "school": drawn(np.arange(1000, 9000, 100)),
    "employee": drawn(np.arange(2000, 2080)),
    "kunde": drawn(far(1, 5_000, 600), spread=0.3),
    "plz": drawn(far(10_001, 99_950, 400), spread=0.3),
}
AMOUNTS = {
    "alter": np.clip(CHANCE.normal(42, 14, ROWS), 18, None).astype(int),
    "prix": np.round(CHANCE.lognormal(3, 1, ROWS)).astype(int) * 100 - 1,
    "annee": 2024 - np.minimum(CHANCE.exponential(15, ROWS), 80).astype(int),
    "klicks": np.floor(CHANCE.lognormal(2.5, 1.5, ROWS)).astype(int),
    "followers": np.floor(CHANCE.lognormal(6, 2, ROWS)).astype(int),
    "punkte": np.clip(CHANCE.normal(70, 15, ROWS), 0, 100).astype(int),
    "stars": CHANCE.choice(np.arange(1, 11), ROWS) / 2,
    "einkommen": np.round(CHANCE.lognormal(10.5, 0.5, ROWS), -3).astype(int),
    "breite": np.round(CHANCE.normal(40, 6, ROWS)).astype(int),
    "x": np.round(CHANCE.normal(-90, 15, ROWS)).astype(int),
    "minuten": CHANCE.choice([*range(5, 55, 5), 60, 75, 80, 90, 105, 120, 150, 180, 7, 22, 33], ROWS),
    "words": CHANCE.negative_binomial(3, 0.03, ROWS),
}


@pytest.fixture
def chance() -> np.random.Generator:
    """A generator of the test alone, whatever runs before it."""
    return np.random.default_rng(1)


def labels(chance: np.random.Generator, column: Numbers, *, of_names: bool) -> Numbers:
    """Labels that each name, or the size of an amount, moves."""
    names, codes = np.unique(column, return_inverse=True)
    moved = chance.normal(0, 0.6, len(names))[codes] if of_names else 1.5 * np.sin(3 * codes / len(names))
    return np.digitize(moved + chance.normal(0, 1, ROWS), [-0.5, 0.7]).astype(str)


def found(column: Numbers, label: Numbers | None, texts: Numbers | None = None) -> Any:
    numbers, labels = (
        None if one is None else profile_column("label", pa.chunked_array([pa.array(one)])) for one in (column, label)
    )
    return kind_of_numbers("column", numbers.codes, texts=texts, label=labels)


@pytest.mark.parametrize("name", IDS)
def test_ids_are_names(name: str, chance: np.random.Generator) -> None:
    noise = chance.integers(0, 2, ROWS).astype(str)
    for label in (None, noise, labels(chance, IDS[name], of_names=True)):
        assert found(IDS[name], label).kind == "categorical"


@pytest.mark.parametrize("name", AMOUNTS)
def test_amounts_are_numbers(name: str, chance: np.random.Generator) -> None:
    noise = chance.integers(0, 2, ROWS).astype(str)
    for label in (None, noise, labels(chance, AMOUNTS[name], of_names=False)):
        assert found(AMOUNTS[name], label).kind == "number"


def test_what_the_values_leave_open_is_tried(chance: np.random.Generator) -> None:
    even = np.arange(ROWS) % 60
    by_name, by_size = (found(even, labels(chance, even, of_names=of_names)) for of_names in (True, False))
    assert (by_name.kind, by_size.kind) == ("categorical", "number")
    assert by_name.reason.startswith("tried on 3,000 rows, each number for itself explains ")
    assert found(even, None).kind == "categorical"
    scale = np.clip(np.round(chance.normal(13, 5, ROWS)), 1, 25)
    favourites = np.where(chance.random(ROWS) < 0.7, chance.choice([5, 9, 13, 17, 21], ROWS), scale)
    assert found(favourites, labels(chance, favourites, of_names=False)).kind == "number"


def test_one_negative_number_stands_for_a_missing_value() -> None:
    assert found(np.where(np.arange(ROWS) % 50 == 0, -1, IDS["client"]), None).kind == "categorical"


def test_raters_judge_no_text_twice(chance: np.random.Generator) -> None:
    texts = np.repeat(np.arange(600), 5)
    raters = np.concatenate([chance.choice(40, 5, replace=False) for _ in range(600)])
    ages = chance.integers(18, 78, ROWS)
    seen = never_twice(raters, texts)
    assert seen[0] == 0
    assert seen[1] == pytest.approx(600 * 10 / 40, rel=0.05)
    assert never_twice(ages, texts) is None
    assert never_twice(raters, np.arange(ROWS)) is None
    assert "same number 0 times, where amounts would 1" in found(raters, None, texts).reason
    assert is_told_by(raters % 3, raters)
    assert not is_told_by(raters, raters % 3)
    assert numbers_the_texts(texts + 7, texts)
    assert not numbers_the_texts(np.arange(ROWS), np.arange(ROWS))


def test_a_table_of_judgements_is_recognised(chance: np.random.Generator) -> None:
    texts = np.repeat(np.arange(400), 5)
    rater = np.concatenate([chance.choice(50, 5, replace=False) for _ in range(400)]) + 1
    table = pd.DataFrame(
        {
            "comment_id": texts + 5_000,
            "comment": [f"a comment of five words {number}" for number in texts],
            "opinion": chance.integers(0, 5, len(texts)),
            "offends": chance.integers(0, 2, len(texts)),
            "rater": rater,
            "gender": np.array(["f", "m"])[rater % 2],
        }
    )
    checked = check(table, label="opinion")
    assert checked.judge == "rater"
    roles = {"comment_id": "id", "comment": "text", "opinion": "label", "offends": "left out"}
    assert {one.name: one.role for one in checked.columns} == roles | {"rater": "attribute", "gender": "attribute"}
    assert checked.task.kind == "rating"
    assert "a table of judgements: 50 values of 'rater' judge the texts" in repr(checked)
    assert "the numbers of 'rater' are taken for names (Categorical('rater')): rows of one text have" in repr(checked)
    assert not any("repeat the text" in str(finding) for finding in checked.findings)
    assert check(table.drop(columns="opinion")).names("label") == ["offends"]


def test_cells_of_values_between_commas_are_lists(chance: np.random.Generator) -> None:
    words = chance.choice(["drama", "war", "short", "comedy", "crime"], (300, 4))
    table = pd.DataFrame(
        {
            "text": [f"a comment of five words {number}" for number in range(300)],
            "tags": [", ".join(sorted(set(line))) for line in words],
            "place": [f"town {number % 40}, {'FR' if number % 2 else 'DE'}" for number in range(300)],
            "size": [f"{number % 30},{number % 9}" for number in range(300)],
            "label": chance.integers(0, 2, 300),
        }
    )
    kinds = {one.name: (one.kind, one.separator) for one in check(table).columns}
    assert kinds["tags"] == ("multi_label", ",")
    assert kinds["place"] == ("categorical", "")
    assert kinds["size"][0] != "multi_label"


def test_a_column_that_no_test_row_knows_is_left_out(chance: np.random.Generator) -> None:
    table = pd.DataFrame(
        {
            "text": [f"a comment of five words {number // 4}" for number in range(400)],
            "source": [f"page {number // 4 - number // 4 % 2 + number // 4 % 2}" for number in range(400)],
            "label": chance.integers(0, 2, 400),
        }
    )
    assert next(one for one in check(table).columns if one.name == "source").role == "id"
    table["source"] = [f"page {number}" for number in np.arange(400) // 4 * 2 + np.arange(400) % 2]
    source = next(one for one in check(table).columns if one.name == "source")
    assert (source.role, source.reason) == ("left out", "hardly any test row has a value that training rows have")

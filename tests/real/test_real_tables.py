from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from attribune.data.splits import split_table
from attribune.data.tables import read_table
from attribune.errors import AttribuneWarning
from attribune.schema import Categorical, MultiLabel, Numeric, Schema

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]


@pytest.fixture
def real() -> Callable[[str], Path]:
    folder = Path(os.environ.get("ATTRIBUNE_DATA", ROOT.parent / "shared" / "data"))

    def find(name: str) -> Path:
        if not (folder / name).exists():
            pytest.skip(f"{folder / name} is not here: set ATTRIBUNE_DATA to the folder of the data files")
        return folder / name

    return find


def test_polmed_is_read_whole_with_mixed_line_ends_and_a_warning(real: Callable[[str], Path]) -> None:
    with pytest.warns(AttribuneWarning, match=r"310 bytes fit neither\): it is read as Latin-1"):
        table = read_table(real("polmed/political_social_media.csv"))
    assert table.num_rows == 5000
    names = ["label", "source", "audience", "bias"]
    schema = Schema.fit(table, [Categorical(name) for name in names])
    assert [schema[name].size - 1 for name in names] == [505, 2, 2, 2]
    ids, report = schema.encode(table)
    assert ids.min() == 1
    assert report.lines() == []
    assert len(set(table["message"])) == 9


@pytest.mark.exhaustive
def test_critics_are_read_whole(real: Callable[[str], Path]) -> None:
    table = read_table(real("rt_critics/critics.csv"))
    assert table.num_rows == 27_669
    used = [
        row
        for row, (quote, fresh) in enumerate(zip(table["quote"], table["fresh"], strict=True))
        if quote.strip() and fresh != "none"
    ]
    assert 15_000 < len(used) < 16_000
    quotes = table.select(used)
    schema = Schema.fit(quotes, [Categorical("critic"), Categorical("title"), Categorical("publication")])
    assert [schema[name].size - 1 for name in schema.names] == [619, 1921, 65]
    splits = split_table(quotes, text=["quote"])
    sizes = splits.report
    assert sizes.train + sizes.validation + sizes.test == len(used)
    assert not {quote.strip() for quote in splits.train["quote"]} & {quote.strip() for quote in splits.test["quote"]}


def test_beer_and_recipes_are_read_with_their_lists(real: Callable[[str], Path]) -> None:
    beer = read_table(real("beeradvocate/beer_head.jsonl"))
    assert beer.num_rows == 2469
    assert Schema.fit(beer, [Numeric("review/overall", bins=4), Categorical("beer/beerId")]).slots == 2
    recipes = read_table(real("foodcom/nsakuja_RAW_recipes_sample.csv"))
    assert recipes.num_rows == 100
    schema = Schema.fit(recipes, [Categorical("contributor_id"), MultiLabel("tags", max_per_row=64)])
    assert "vegetarian" in schema["tags"].values
    assert schema["tags"].slots > 20


@pytest.mark.parametrize(
    ("name", "rows"),
    [
        ("foodcom/dishcovery_interactions_small.csv", 10_077),
        ("foodcom/dishcovery_recipes_small.csv", 381),
        ("amazon_musical_instruments/Musical_instruments_reviews.csv", 10_261),
        ("crowdflower/airline_tweets.csv", 14_640),
    ],
)
def test_other_tables_have_their_rows(real: Callable[[str], Path], name: str, rows: int) -> None:
    assert read_table(real(name)).num_rows == rows

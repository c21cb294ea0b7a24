"""FOOD: the time that a recipe of Food.com takes."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from attribune_lab.datasets.card import NOT_STATED, Card, Shuffled, SourceFile, table_1
from attribune_lab.datasets.row_log import GET_AGAIN, Row, RowLog, SplitName, read_csv, whole_number, words

__all__ = ["FOOD"]

_NEEDS = ("name", "id", "minutes", "contributor_id", "tags", "steps", "ingredients")
_DURATIONS = frozenset(
    {
        "15-minutes-or-less",
        "30-minutes-or-less",
        "60-minutes-or-less",
        "4-hours-or-less",
        "1-day-or-more",
        "time-to-make",
    }
)
_MINUTES = range(5, 151)
_WORDS = range(10, 501)
_TAG_LIMIT = 50


def _read(files: Mapping[str, Path], log: RowLog) -> Iterator[tuple[SplitName | None, Row]]:
    for place, row in read_csv(files["recipes"], role="recipes", log=log, needs=_NEEDS):
        recipe = _recipe(place, row, log)
        if recipe is not None and log.first("recipe", row["id"], place) and log.writable(place, recipe):
            yield None, recipe


def _recipe(place: str, row: dict[str, str], log: RowLog) -> Row | None:
    minutes = whole_number(row["minutes"], low=0, high=2**31)
    lists = {name: _parse_list(row[name]) for name in ("tags", "steps", "ingredients")}
    wrong = next((name for name, value in lists.items() if value is None), None)
    if minutes is None or wrong is not None:
        name = "minutes" if minutes is None else str(wrong)
        kind = "a whole number" if minutes is None else "a list of texts"
        log.broken(place, f"{name} is not {kind}", GET_AGAIN, found=repr(row[name][:40]))
        return None
    tags = lists["tags"] or []
    text = "\n".join(part for part in (row["name"], " ".join(lists["steps"] or ())) if part.strip())
    if log.leave_out_if(
        {
            "less than 5 or more than 150 minutes": minutes not in _MINUTES,
            "less than 10 or more than 500 words": words(text) not in _WORDS,
            "more than 50 tags": len(tags) > _TAG_LIMIT,
        }
    ):
        return None
    return {
        "text": text,
        "minutes": str(minutes // 10 * 10),
        "user": row["contributor_id"],
        "ingredient": list(dict.fromkeys(lists["ingredients"] or ())),
        "tag": [tag for tag in dict.fromkeys(tags) if tag not in _DURATIONS],
    }


def _parse_list(text: str) -> list[str] | None:
    """Parse a list of texts as Python writes it; None for anything else."""
    try:
        value: Any = ast.literal_eval(text)
    except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
        return None
    if not isinstance(value, list) or not all(isinstance(part, str) for part in value):
        return None
    return [part.strip() for part in value if part.strip()]


FOOD = Card(
    name="food",
    title="FOOD",
    source="Bodhisattwa Majumder et al., UC San Diego: Food.com Recipes and Interactions",
    obtain="Get RAW_recipes.csv from the data set 'Food.com Recipes and Interactions' on Kaggle (shuyangli94).",
    revision=NOT_STATED,
    licence=NOT_STATED,
    terms="Crawled from Food.com, for research; may not be redistributed.",
    citation=(
        "Majumder, Li, Ni and McAuley 2019, Generating Personalized Recipes from Historical User Preferences, EMNLP"
    ),
    files=(SourceFile(role="recipes", names=("RAW_recipes.csv",), rows=231_637),),
    read=_read,
    split=Shuffled(share=0.1),
    attributes=(
        {"kind": "categorical", "name": "user"},
        {"kind": "multi_label", "name": "ingredient", "max_per_row": _TAG_LIMIT},
        {"kind": "multi_label", "name": "tag", "max_per_row": _TAG_LIMIT},
    ),
    labels=("minutes",),
    task={"kind": "classification"},
    classes=16,
    metric="accuracy",
    preparation=(
        "Text: name and steps. Class: the minutes, rounded down to tens. Left out: recipes of less than 5 or more "
        "than 150 minutes, of less than 10 or more than 500 words, with more than 50 tags. Tags that say the duration "
        "are removed, and time-to-make."
    ),
    published=table_1(train=162_400, validation=20_300, test=20_300, words=(101, 65), values=40_500, sparse=80.0),
    divergence={"random": 2.769, "majority": 2.352, "user": 2.306, "ingredient": 3.708, "tag": 2.277, "all": 2.275},
    notes=(
        "The paper does not say which fields are the text: with name and steps a sample of 481 recipes has 101 (63) "
        "words, as its table 1 has 101 (65); with the description it has 148 (79). It names two of the removed tags; "
        "the others that say a duration are found by their names."
    ),
)

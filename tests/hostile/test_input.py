"""Tables and settings that cannot be used: one clear message each, an exit code, nothing left behind."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
import small_runs
from commands import Attribune, Fails, Words
from trained_runs import ROWS

pytestmark = pytest.mark.slow


def all_with(**cells: str) -> list[dict[str, Any]]:
    return [{**row, **cells} for row in ROWS]


TEXT = "text,stars,user\n" + "".join(f"{row['text']},{row['stars']},{row['user']}\n" for row in ROWS)


def test_mixed_line_ends_change_nothing(attribune: Attribune, train: Words) -> None:
    mixed = TEXT.replace("\n", "\r", 9).replace("\n", "\r\n", 9)
    code, out, err = attribune(*train(mixed, "--no-baselines", method="linear"))
    assert code == 0
    assert "90 rows read" in err
    assert out.startswith("validation, 9 rows\n")


@pytest.mark.parametrize(
    ("table", "more", "parts"),
    [
        (b"", (), ["data.csv", "empty", "give a file with rows"]),
        (b"text,stars,user\n", (), ["data.csv", "no rows", "give a file with rows"]),
        (TEXT + "one,two\n", (), ["data.csv", "line 92 (row 91)", "2 fields", "3", "add the fields that are missing"]),
        (TEXT.replace("film", "fi\0lm", 1), (), ["data.csv, line ", "NUL", "remove it"]),
        (TEXT.replace("user", "author"), (), ["data.csv", "no column 'user'", "'author'"]),
        (TEXT.replace("stars", "star"), (), ["data.csv", "no column 'stars'", "did you mean 'star'?"]),
        (TEXT.replace("text,", "stars,", 1), (), ["data.csv", "two columns are named 'stars'"]),
        (all_with(text="  "), (), ["none of its 90 rows has both a text in text and a label in stars"]),
        (all_with(stars="NaN"), (), ["none of its 90 rows has both a text in text and a label in stars"]),
        (all_with(stars="good"), (), ["same label 'good'", "at least two"]),
        (ROWS[:2], (), ["2 rows with 2 different texts cannot make three parts"]),
        (ROWS, ("--task", "regression"), ["90 of 90 rows have a label outside the scale", "'good'", "classification"]),
        (ROWS, ("--numeric", "stars", "--label", "look"), ["column 'stars', row 1", "good"]),
        (ROWS, ("--multi-label", "tags"), ["column 'tags', row 1", "not a list", "--multi-label 'tags:;'"]),
        (ROWS, ("--label", "user"), ["column user is the label and also"]),
        (ROWS, ("--test", "missing.csv"), ["missing.csv", "no such file"]),
        (ROWS, ("--max-length", "99"), ["99 tokens", "takes 67", "smaller"]),
        (ROWS, ("--set", "method.hypercomplex=7"), ["48 is not divisible by 7² = 49", "choose one of 1, 2, 4"]),
        (ROWS, ("--learning-rate", "1e30"), ["training.learning_rate", "less than or equal to 1000"]),
        (ROWS, ("--set", "data.split.by=time", "data.split.column=user"), ["column 'user', row 1", "time"]),
        (ROWS, ("--set", "data.split.by=group"), ["name the column"]),
    ],
)
def test_unusable_tables_and_settings_are_named(
    fails: Fails, train: Words, tmp_path: Path, table: Any, more: Any, parts: list[str]
) -> None:
    message = fails(*train(table, *more))
    assert [part for part in parts if part not in message] == []
    assert not (tmp_path / "run").exists()  # the next attempt finds nothing in its way


LISTS = [{**row, "tags": row["tags"].split(";")} for row in ROWS]


@pytest.mark.parametrize(
    ("rows", "more", "message"),
    [
        (LISTS, ("--attributes", "tags"), "column 'tags', row 1: ['drama', 'short', 'war'] is not one value"),
        ([*LISTS, {**ROWS[0], "tags": 3}], ("--multi-label", "tags"), "not a list"),
        (LISTS, ("--text", "tags"), "the text column 'tags' holds lists"),
        ([{**row, "tags": ["a"]} for row in ROWS], ("--label", "tags"), "is the list ['a']"),
    ],
)
def test_lists_where_none_belong(fails: Fails, train: Words, rows: list[Any], more: Any, message: str) -> None:
    assert message in fails(*train("\n".join(map(json.dumps, rows)), *more, name="data.jsonl"))


def test_an_unknown_backbone_is_named(fails: Fails, train: Words, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    message = fails(*train(None, "--backbone", "no/such-model"))
    assert "'no/such-model' could not be loaded" in message
    assert "give a name on the hub, or a folder" in message


def test_rows_without_text_or_label_are_counted(attribune: Attribune, train: Words, tmp_path: Path) -> None:
    rows = [dict(row) for row in ROWS]
    for number, text in ((0, ""), (5, "   "), (9, "NaN")):
        rows[number]["text"] = text
    for number in (5, 11, 12):
        rows[number]["stars"] = ""
    code, _, err = attribune(*train(rows, "--no-baselines", method="linear"))
    assert code == 0
    assert re.search("[23] rows without a text left out", err)
    assert "2 rows without a label left out" in err
    assert sum(json.loads((tmp_path / "run" / "metrics.json").read_text())["rows"].values()) in (85, 86)


def test_a_label_only_in_the_test_rows_counts_as_wrong(attribune: Attribune, train: Words, tmp_path: Path) -> None:
    test = small_runs.write_csv(tmp_path / "test.csv", [{**row, "stars": "ugly"} for row in small_runs.reviews(20)])
    code, _, err = attribune(*train(None, "--test", test, "--no-baselines", method="linear"))
    assert code == 0
    assert "test: 20 rows have a label that no training row has: 'ugly' (20)" in err
    results = json.loads((tmp_path / "run" / "metrics.json").read_text())
    assert results["results"][0]["parts"]["test"]["accuracy"]["value"] == 0
    assert results["rows"] == {"train": 81, "validation": 9, "test": 20}


def test_all_errors_of_a_recipe_come_at_once(fails: Fails, train: Words) -> None:
    wrong = ["data.foo=1", "training.epoch=2", "training.batch_size=0", "backbone.tuning=odd", "method.bottlneck=3"]
    wrong += ["task.kind=sorting", "training.evaluate_every=0", "training.seed=-1", "training.warmup=.nan"]
    message = fails(*train(None, "--set", *wrong))
    assert "the recipe has 9 errors" in message
    keys = ("data.foo", "training.epoch:", "batch_size", "tuning", "bottlneck", "sorting", "every", "seed", "warmup")
    assert [key for key in keys if key not in message] == []


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--set", "data.foo=["), "--set data.foo=[: the value is not YAML"),
        (("--set", "data.foo"), "write KEY=VALUE"),
        (("--set", "data.train.x=1"), "data.train.x: 'train' is not a group of settings"),
        (("--set", "method=adapter"), "method 'adapter' has no option vector_size"),
        (("--set", "method=[adapter]"), "method: Input should be a valid dictionary, it is ['adapter']"),
        (("--set", "data.attributes=[{kind: numeric}]"), "of kind numeric has no name"),
        (("--set", "data.train=other.csv"), "data.csv is given, and --set data.train=other.csv would be read instead"),
        (("--tuning", "some"), "backbone.tuning"),
        (("--config", "missing.yaml"), "the recipe missing.yaml cannot be read"),
        (("--compare", "sorting"), "unknown method 'sorting'"),
        (("--compare", "none", "none"), "name every method once"),
        (("--compare", "injector"), "trained anyway"),
        (("--text", ""), "data.text.0"),
    ],
)
def test_unusable_settings(fails: Fails, train: Words, tmp_path: Path, words: Any, message: str) -> None:
    assert message in fails(*train(None, *words))
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("content", ["method: [injector]\n", "data:\n", "data: x.csv\n", "- a\n", "a: [", "1: 2\n"])
def test_unusable_recipe_files(fails: Fails, train: Words, tmp_path: Path, content: str) -> None:
    (tmp_path / "recipe.yaml").write_text(content)
    words = train(None, "--config", tmp_path / "recipe.yaml")
    if content.startswith("method"):
        words = [word for word in words if word not in ("--method", "injector")]
    fails(*words)


def test_an_empty_path_is_not_the_current_folder(fails: Fails, train: Words, runs: Path) -> None:
    words = train()
    words[1] = ""
    assert "data.train" in fails(*words)
    assert "no recipe.yaml" in fails("evaluate", "", runs / "data.csv")


@pytest.mark.parametrize(
    ("column", "cell", "flags"),
    [
        ("stars", "four", ("--task", "regression")),
        ("size", "big", ("--numeric", "size")),
        ("tags", "[a, b", ("--multi-label", "tags")),
        ("day", "yesterday", ("--set", "data.split.by=time", "data.split.column=day")),
    ],
)
def test_a_bad_cell_is_named_by_its_row_in_the_file(
    fails: Fails, train: Words, column: str, cell: str, flags: tuple[str, ...]
) -> None:
    rows = [
        {**row, "stars": f"{number % 5}", "size": "3", "tags": '["a"]', "day": "2024-05-31"}
        for number, row in enumerate(ROWS)
    ]
    rows[2]["text"] = ""  # is left out, which moves the rows behind it
    rows[40][column] = cell
    message = fails(*train(rows, *flags))
    assert ".csv: " in message
    assert "row 41" in message
    assert cell in message

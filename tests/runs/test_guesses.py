"""A training that names neither text nor label: the command line and Python take the same from the check of a table."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any

import datasets
import numpy as np
import pandas as pd
import pytest

import attribune
from attribune import ConfigError, MultiLabel, check, train
from attribune.apps.cli import build_parser, main
from attribune.apps.cli.recipe_flags import recipe_of
from attribune.core.config import read_yaml
from attribune.runs.guesses import guess_settings
from attribune.runs.table_recipe import table_recipe

WORDS = np.array("good,bad,film,plot,cast,great,dull,fine,odd,slow,and,was,a,the,very".split(","))  # noqa: SIM905
GROUPS = {"data.split.by": "group", "data.split.column": "user"}
LINEAR: dict[str, Any] = {"method": "linear", "baselines": False}


def rows(count: int = 90, *, labels: str = "stars") -> pd.DataFrame:
    chance = np.random.default_rng(1)
    kinds = {
        "stars": chance.integers(1, 6, count),
        "answer": chance.choice(["yes", "no"], count),
        "topics": [";".join(sorted(set(chance.choice(["war", "art", "sea"], 2)))) for _ in range(count)],
        "score": chance.random(count).round(3),
    }
    return pd.DataFrame(
        {
            "review": [" ".join(line) for line in chance.choice(WORDS, (count, 9))],
            labels if labels != "topics" else "labels": kinds[labels],
            "user": [f"u{number}" for number in chance.integers(0, 20, count)],
            "tags": [";".join(sorted(set(chance.choice(["drama", "war", "short"], 2)))) for _ in range(count)],
            "price": chance.random(count).round(3) * 100,
            "weight": 1.0,
        }
    )


@pytest.mark.parametrize("labels", ["stars", "answer", "topics", "score"])
@pytest.mark.parametrize(
    ("flags", "arguments", "settings"),
    [
        ([], {}, {}),
        (["--method", "none"], {"method": "none"}, {}),
        (["--attributes", "user"], {"attributes": ["user"]}, {}),
        (["--multi-label", "tags:;"], {"attributes": [MultiLabel("tags", separator=";")]}, {}),
        (["--task", "classification"], {"task": "classification"}, {}),
        (["--weight", "price"], {"weight": "price"}, {}),
        (["--set", "training.seed=3"], {}, {"training.seed": 3}),
        (["--encoding", "utf-8", "--rows", "80"], {}, {"data.encoding": "utf-8", "data.rows": 80}),
        (["--set", "data.split.by=group", "data.split.column=user"], {}, GROUPS),
    ],
)
def test_both_doors_guess_the_same(
    labels: str,
    flags: list[str],
    arguments: dict[str, Any],
    settings: dict[str, Any],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    path = tmp_path / "t.csv"
    rows(labels=labels).to_csv(path, index=False)
    words = ["train", str(path), "--yes", "--output", "run", *flags]
    said: list[str] = []
    of_file, tables = table_recipe(
        {"data": path, **arguments}, settings, say=lambda checked: said.append(checked.text())
    )
    assert recipe_of(build_parser().parse_args(words)) == of_file
    assert tables is None
    assert said == [capsys.readouterr().err.rstrip("\n")]
    if not settings:
        of_frame = table_recipe({"data": rows(labels=labels), **arguments}, settings)[0].model_dump()
        assert {**of_frame["data"], "train": str(path)} == of_file.model_dump()["data"]
        assert of_frame["task"] == of_file.model_dump()["task"]


@pytest.mark.parametrize(
    ("given", "paths"),
    [
        ({}, {"text", "label", "attributes", "weight"}),
        ({"data.attributes": ["user"], "data.weight": "weight"}, {"text", "label"}),
        ({"task.kind": "ordinal", "method": "none"}, {"text", "label", "attributes", "weight"}),
    ],
)
def test_what_is_given_is_not_guessed(given: dict[str, Any], paths: set[str]) -> None:
    guesses = guess_settings(rows(), given)
    assert set(guesses.settings["data"]) == paths
    assert guesses.settings["task"]["kind"] == "ordinal"
    assert "method" not in guesses.settings


@pytest.mark.parametrize(
    "given",
    [
        {"data.text": "review", "data.label": "stars"},
        {"data.label": ["stars", "price"], "task.kind": "ordinal"},
        {"task.kind": "aspects"},
        {"data.text_pair": "tags"},
        {"task.kind": "tags"},
        {"task": {"kind": "generation"}},
    ],
)
def test_nothing_is_guessed_beside_named_columns(given: dict[str, Any]) -> None:
    assert guess_settings(rows(), given) is None


@pytest.mark.parametrize("given", [{"data.text": "review"}, {"data.label": "stars"}, {"data.label": ["stars"]}])
def test_the_other_of_text_and_label_is_guessed_as_without_any(given: dict[str, Any]) -> None:
    whole, guesses = guess_settings(rows(), {}), guess_settings(rows(), given)
    assert guesses.settings == whole.settings


@pytest.mark.parametrize("task", [{}, {"task.kind": "aspects"}])
def test_the_text_of_several_labels_is_guessed(task: dict[str, Any]) -> None:
    guesses = guess_settings(rows(), {"data.label": ["stars", "price"], **task})
    assert guesses.settings["data"].keys() == {"text", "label", "attributes", "weight"}
    assert guesses.settings["data"]["label"] == ["stars", "price"]
    assert guesses.settings["task"]["kind"] == "aspects"


def test_a_label_that_is_named_is_the_one_of_the_guess(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    rows().to_csv(path, index=False)
    recipe = recipe_of(build_parser().parse_args(["train", str(path), "--label", "user", "--yes", "--output", "run"]))
    assert recipe.data.text == ("review",)
    assert recipe.data.label == ("user",)
    assert recipe.attribute_names == ["stars", "tags", "price"]


def test_attributes_that_are_given_are_not_replaced_by_no_method() -> None:
    table = rows()[["review", "stars", "user"]].assign(user="u1")
    assert table_recipe({"data": table}, {})[0].method["name"] == "none"
    assert table_recipe({"data": table, "attributes": ["user"]}, {})[0].method["name"] != "none"


@pytest.mark.parametrize(
    ("table", "arguments", "message"),
    [
        (rows()[["user", "price"]], {}, r"no text column .* found in the DataFrame: name it with text="),
        (rows()[["user", "tags"]], {"label": "user"}, r"no text column was found in the DataFrame: name it with text="),
        (rows(), {"attributes": ["stars"]}, "the column 'stars' is named as an attribute, and looks like the label"),
        (rows(), {"attributes": [MultiLabel("review")]}, "the column 'review' is named as an attribute"),
    ],
)
def test_a_guess_that_cannot_be_is_refused(
    table: pd.DataFrame, arguments: dict[str, Any], message: str, tmp_path: Path
) -> None:
    with pytest.raises(ConfigError, match=message):
        train(table, tmp_path / "run", **arguments)
    assert not (tmp_path / "run").exists()


@pytest.mark.slow
def test_a_table_alone_is_trained_on_and_the_guess_is_said(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    results = train(rows(), tmp_path / "frame", **LINEAR)
    said = "\n".join(caplog.messages)
    assert "text or label are not named, so this is what the columns are taken for:\n" in said
    assert "the DataFrame: 90 rows, 6 columns" in said
    assert "train(df, 'runs/table', text='review', label='stars', attributes=['user', MultiLabel('tags', " in said
    assert results["rows"]["train"] == 72
    rows().to_csv(tmp_path / "t.csv", index=False)
    caplog.clear()
    train(str(tmp_path / "t.csv"), tmp_path / "file", **LINEAR)
    assert "labels in 'stars': ratings from 1 to 5: task='ordinal' or task='rating'" in caplog.messages
    recipes = [read_yaml(tmp_path / name / "recipe.yaml") for name in ("frame", "file")]
    assert [recipe["data"].pop("train") for recipe in recipes] == ["the DataFrame", str(tmp_path / "t.csv")]
    assert recipes[0] == recipes[1]


def briefly(call: str) -> str:
    """Return a call with which the training ends soon."""
    return f"{call.removesuffix(')').replace('train(', 'results = train(')}, epochs=1, baselines=False)"


@pytest.mark.slow
@pytest.mark.parametrize("labels", ["stars", "topics"])
def test_what_a_check_prints_runs(labels: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The call for a table in memory, and for a file the command, and the call with how the file is read."""
    monkeypatch.chdir(tmp_path)
    given = rows(labels=labels)
    names: dict[str, Any] = {"df": given}
    exec(briefly(repr(check(given)).split("train on it with:\n")[1]), names)
    assert names["results"]["rows"]["test"] == 9
    given.to_csv("t;t.csv", index=False, sep="~")
    checked = check("t;t.csv", delimiter="~")
    command = shlex.split(checked.command)
    assert main([*command[1:], "--no-baselines", "--epochs", "1"]) == 0
    exec(briefly(checked.call).replace("runs/t-t", "runs/again"), {})
    recipes = [read_yaml(tmp_path / "runs" / name / "recipe.yaml") for name in ("t-t", "again")]
    for recipe in recipes:
        recipe["task"].setdefault("kind", "classification")
    assert recipes[0] == recipes[1]


def test_tables_that_are_no_frames_have_a_call() -> None:
    table = datasets.Dataset.from_pandas(rows())
    assert "\ntrain(table, 'runs/table', text='review'" in repr(check(table))
    nothing = check(rows()[["price"]])
    assert "train(df, 'runs/table', text='COLUMN', label='COLUMN'" in nothing.call
    assert attribune.check is check


def test_a_table_of_judgements_in_one_row_is_refused_in_python_too(tmp_path: Path) -> None:
    lists = pd.DataFrame(
        {
            "text": [f"some words of a comment {row}" for row in range(30)],
            "annotators": ["ann,bob,cem"] * 30,
            "annotations": ["0,1,1", "1,0,1"] * 15,
        }
    )
    checked = check(lists)
    with pytest.raises(ConfigError, match=r"read_judgements\(df\)\.table"):
        train(lists, tmp_path / "run")
    assert not (tmp_path / "run").exists()
    names: dict[str, Any] = {"df": lists}
    exec(checked.call, names)
    assert len(names["judgements"]) == 90

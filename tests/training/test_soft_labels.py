"""Distributions as labels, from the table of judgements to the report."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import datasets
import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest
import small_runs
import yaml
from lab_methods import needs_lab
from trained_runs import TrainedRuns

from attribune.analysis.evaluate import compare_runs
from attribune.apps.cli import main
from attribune.data.clusters import answer_shares
from attribune.errors import AttribuneError
from attribune.runs.distributions import write_distribution_recipe
from attribune.runs.folder import RunFolder
from attribune.runs.recipe import Recipe
from attribune.runs.stored_scores import StoredScores

REVIEWS = small_runs.reviews(60, seed=9)
ORDERED = [("rating", "injector"), ("ordinal", "linear")]


def judgements(texts: int, *, seed: int) -> list[dict[str, Any]]:
    """Each text judged by one to four people, of whom the site of a text is no matter."""
    chance = random.Random(seed)
    return [
        {"text": f"{row['text']} t{seed}", "judge": judge, "user": row["user"], "look": row["look"]}
        | {"stars": row["stars"] if chance.random() < 0.7 else "good"}
        for row in small_runs.reviews(texts, seed=seed)
        for judge in range(chance.randint(1, 4))
    ]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory, trained_runs: TrainedRuns) -> Path:
    """A recipe over judgements, and the one over texts that is made of it."""
    folder = tmp_path_factory.mktemp("soft")
    for seed, (name, texts) in enumerate({"train": 60, "validation": 25, "test": 30}.items()):
        small_runs.write_csv(folder / f"{name}.csv", judgements(texts, seed=seed))
    data = {name: str(folder / f"{name}.csv") for name in ("train", "validation", "test")}
    data |= {"text": "text", "label": "stars", "attributes": [{"name": "user"}, {"name": "judge"}], "max_length": 32}
    settings = {
        "data": data,
        "method": {"name": "injector", "bottleneck": 8, "vector_size": 8},
        "backbone": {"name": str(trained_runs.backbone())},
        "training": {"epochs": 1, "batch_size": 16, "precision": "float32"},
    }
    (folder / "recipe.yaml").write_text(yaml.safe_dump(settings), encoding="utf-8")
    words = ["data", "distributions", "--config", str(folder / "recipe.yaml"), "--output", str(folder / "texts")]
    assert main(words) == 0
    return folder


@pytest.fixture(scope="module")
def run(folder: Path) -> Path:
    words = ["train", "--config", str(folder / "texts" / "recipe.yaml"), "--compare", "linear"]
    assert main([*words, "--weight", "judgements", "--output", str(folder / "run")]) == 0
    return folder / "run"


def test_a_table_of_judgements_becomes_one_of_texts(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = pd.read_parquet(folder / "texts" / "train.parquet")
    rows = pd.read_csv(folder / "train.csv").to_dict("records")
    assert list(found.columns) == ["text", "user", "look", "stars", "judgements"]
    assert found["text"].tolist() == list(dict.fromkeys(row["text"] for row in rows))
    for _, text in found.iterrows():
        answers = [row["stars"] for row in rows if row["text"] == text["text"]]
        assert text["judgements"] == len(answers)
        expected = {answer: answers.count(answer) / len(answers) for answer in sorted(set(answers))}
        assert json.loads(text["stars"]) == expected
    recipe = yaml.safe_load((folder / "texts" / "recipe.yaml").read_text(encoding="utf-8"))
    assert [attribute["name"] for attribute in recipe["data"]["attributes"]] == ["user"]
    assert recipe["task"] == {"soft_labels": True}

    table = ["data", "distributions", str(folder / "train.csv"), "--text", "text", "--label", "stars"]
    for ending in ("csv", "jsonl", "parquet"):
        capsys.readouterr()
        assert main([*table, "--output", str(folder / f"made.{ending}")]) == 0
        messages = capsys.readouterr().err
        assert f"{len(rows)} judgements of 60 texts" in messages
        assert "columns dropped, in which the rows of a text differ: judge" in messages
    pd.testing.assert_frame_equal(pd.read_parquet(folder / "made.parquet"), found)
    assert pd.read_csv(folder / "made.csv")["stars"].tolist() == found["stars"].tolist()


@pytest.mark.slow
def test_it_is_trained_on_and_scored_everywhere(run: Path, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    results = RunFolder(run).read_results()
    names = ["cross_entropy", "manhattan", "jensen_shannon", "accuracy", "macro_f1"]
    assert results.main_metric == "cross_entropy"
    assert [list(model.parts["test"]) for model in results.models] == [names] * len(results.models)
    assert [model.name for model in results.models][-1] == "majority"
    scores = StoredScores.read(run)
    raw = scores.parts["validation"]["logits"] * results.training.temperature
    score = scores.task.proper_score(raw, scores.parts["validation"]["labels"])
    assert results.training.best_value == pytest.approx(score.value())
    assert any("have several most frequent classes, each of which counts as right" in note for note in results.notes)
    stored = StoredScores.read(run).parts["test"]
    np.testing.assert_allclose(stored["labels"].sum(axis=1), 1, atol=1e-6)
    assert "labels are shares of the classes" in (run / "model" / "README.md").read_text(encoding="utf-8")

    capsys.readouterr()
    texts = str(folder / "texts" / "test.parquet")
    assert main(["evaluate", str(run), texts, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    expected = results.models[0].parts["test"]["jensen_shannon"].value
    assert found["metrics"]["as given"]["jensen_shannon"]["value"] == pytest.approx(expected, abs=1e-6)
    assert "judgements" not in found
    assert {pair["metric"] for pair in compare_runs(run, run / "compare" / "linear")} == set(names)


@pytest.fixture(scope="module")
def numbers(folder: Path) -> Path:
    """The recipe of the same table, whose answers are numbers."""
    recipe = yaml.safe_load((folder / "recipe.yaml").read_text(encoding="utf-8"))
    for name in ("train", "validation", "test"):
        frame = pd.read_csv(folder / f"{name}.csv")
        frame["stars"] = np.random.default_rng(0).integers(1, 5, len(frame))
        recipe["data"][name] = str(folder / f"n-{name}.csv")
        frame.to_csv(recipe["data"][name], index=False)
    write_distribution_recipe(recipe, folder / "numbers")
    return folder / "numbers" / "recipe.yaml"


@pytest.mark.one_in(2)
@pytest.mark.parametrize(
    ("kind", "method"),
    [
        pytest.param(kind, method, marks=[] if (kind, method) in ORDERED else pytest.mark.exhaustive)
        for method in ("injector", "linear", "boosting", "automl")
        for kind in ("rating", "ordinal")
    ],
)
@pytest.mark.slow
def test_ordered_answers_and_baselines(numbers: Path, tmp_path: Path, kind: str, method: str) -> None:
    options = {"injector": ["method.bottleneck=8", "method.vector_size=8"], "automl": ["method.trials=1"]}
    changes = ["--set", *options[method]] if method in options else []
    words = ["train", "--config", str(numbers), "--task", kind, "--method", method, "--no-baselines", *changes]
    assert main([*words, "--output", str(tmp_path / "run")]) == 0
    output = tmp_path / "run"
    results = RunFolder(output).read_results()
    assert list(results.models[0].parts["test"])[:4] == ["cross_entropy", "manhattan", "jensen_shannon", "wasserstein"]
    assert results.task["classes"] == ["1", "2", "3", "4"]


@pytest.fixture(scope="module")
def objects(folder: Path) -> Path:
    """Tables whose labels are objects, as LeWiDi publishes them; Parquet has all keys in every row."""
    rows = [row | {"stars": {"good": 0.67, "bad": 0.33} if n % 2 else {"bad": 1.0}} for n, row in enumerate(REVIEWS)]
    (folder / "objects.jsonl").write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    pd.DataFrame(rows).to_parquet(folder / "objects.parquet")
    small_runs.write_csv(folder / "objects.csv", [row | {"stars": json.dumps(row["stars"])} for row in rows])
    return folder


@pytest.mark.slow
def test_objects_are_read_from_all_formats_where_they_are_asked_for(
    objects: Path, fails: Callable[..., str], trained_runs: TrainedRuns
) -> None:
    losses = []
    for ending in ("csv", "jsonl", "parquet"):
        data, run = objects / f"objects.{ending}", objects / f"from-{ending}"
        words = small_runs.train_command(data, run, backbone=trained_runs.backbone(), method="linear")
        assert "set task.soft_labels=true" in fails(*words)
        assert main([*words, "task.soft_labels=true", "--no-baselines"]) == 0
        losses.append(RunFolder(run).read_results().models[0].parts["test"]["cross_entropy"].value)
    assert losses[1:] == pytest.approx(losses[:1] * 2)


@pytest.mark.slow
@pytest.mark.parametrize("method", ["injector", "linear"])
def test_a_label_that_is_no_distribution_is_named_with_its_place(
    tmp_path: Path, backbone: Path, method: str, fails: Callable[..., str]
) -> None:
    rows = [row | {"stars": '{"good": 0.5, "bad": 0.5}'} for row in REVIEWS]
    rows[2]["stars"] = "good"
    data = small_runs.write_csv(tmp_path / "train.csv", rows)
    words = small_runs.train_command(data, tmp_path / "run", backbone=backbone, method=method)
    message = "train.csv: column 'stars': the label of row 3 is 'good', not a distribution"
    assert message in fails(*words, "task.soft_labels=true")
    assert not (tmp_path / "run").exists()


@pytest.mark.slow
def test_a_class_of_test_rows_alone_is_named(run: Path, tmp_path: Path, fails: Callable[..., str]) -> None:
    data = small_runs.write_csv(tmp_path / "x.csv", [{"text": "a film", "user": "u1", "stars": '{"awful": 1}'}])
    named = "row 1 gives the share 1 to 'awful', which is not among the classes ('bad', 'good')"
    assert named in fails("evaluate", run, data)


def shares_of(**columns: list[Any]) -> Any:
    table = datasets.Dataset.from_dict(columns)
    return answer_shares(table, text=["text"], label="label", missing=("", "NA"))


def test_rows_without_a_text_or_an_answer_are_counted() -> None:
    found = shares_of(
        text=["a", " a ", "", None, "b", "b", "c"],
        label=["x", "y", "x", "y", "NA", "x", None],
        site=["s", "s ", "t", "t", "u", "s", "t"],
        tags=[["1"], ["1"], None, None, None, [], []],
    )
    assert found.first.tolist() == [0, 5]
    assert found.shares == ['{"x": 0.5, "y": 0.5}', '{"x": 1.0}']
    assert (found.no_text, found.no_label, found.shared, found.dropped) == (2, 2, ("site", "tags"), ())
    assert found.lines() == [
        "3 judgements of 2 texts, 1 of which have more than one",
        "2 rows without a text left out",
        "2 rows without an answer left out",
    ]
    assert shares_of(text=["a", "a"], label=["x", "x"], site=["s", None]).dropped == ("site",)


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"text": ["a"], "labels": ["x"]}, "the table has no column 'label'; did you mean 'labels'?"),
        ({"text": ["a", ""], "label": ["", "x"]}, "none of its 2 rows has both a text in text and an answer in label"),
        ({"text": ["a"], "label": ["x"], "judgements": [1]}, "has a column 'judgements', which is to hold the number"),
        ({"text": ["a"], "label": [["x", "y"]]}, "the label of row 1 is the list ['x', 'y']"),
    ],
)
def test_tables_that_cannot_be_joined(columns: dict[str, list[Any]], message: str) -> None:
    with pytest.raises(AttribuneError, match=re.escape(message)):
        shares_of(**columns)


def test_commands_that_do_not_fit(folder: Path, fails: Callable[..., str]) -> None:
    table, columns, output = folder / "train.csv", ["--text", "text", "--label", "stars"], folder / "o"
    config = ["--config", folder / "recipe.yaml"]
    (folder / "file").write_text("")
    for words, message in (
        ([*columns, "--output", folder / "o.csv"], "train: this setting is required"),
        ([table, "--text", "text", "--output", folder / "o.csv"], "0 are named: name one"),
        ([table, *columns, "--output", table], "is the table that is read"),
        ([table, *columns, "--output", folder / "o.xlsx"], "the ending '.xlsx' is not one of"),
        ([table, "--text", "txt", "--label", "stars", "--output", folder / "o.csv"], "has no column 'txt'"),
        ([*config, "--label", "stars", "--output", output], "--config names table and columns: leave label out"),
        ([*config, "--output", folder / "file"], "cannot be made a folder"),
    ):
        assert message in fails("data", "distributions", *words)
    recipe = yaml.safe_load((folder / "recipe.yaml").read_text(encoding="utf-8"))
    for change, message in (
        ({"task": {"kind": "regression"}}, "task 'regression' learns no distribution of answers"),
        ({"data": recipe["data"] | {"weight": "look"}}, "the recipe has weights of judgements (look)"),
    ):
        with pytest.raises(AttribuneError, match=re.escape(message)):
            write_distribution_recipe({**recipe, **change}, output)
    assert not output.exists()


def test_a_recipe_of_judgements_loses_what_was_dropped(tmp_path: Path) -> None:
    """Judges differ among the rows of a text: they, what describes them, and their names as answers."""
    rows = [
        {"text": f"text {number // 3}", "answer": ["None", "mild"][number % 2], "judge": f"j{number % 3}", "site": "x"}
        for number in range(24)
    ]
    small_runs.write_csv(tmp_path / "rows.csv", rows)
    small_runs.write_csv(tmp_path / "judges.csv", [{"judge": f"j{number}", "age": number} for number in range(3)])
    recipe = {
        "data": {
            "train": str(tmp_path / "rows.csv"),
            "text": ["text"],
            "label": ["answer"],
            "attributes": [{"name": "judge"}, {"name": "site"}],
            "values": {"judge": str(tmp_path / "judges.csv")},
        },
        "task": {"kind": "classification", "classes": ["None", "mild"]},
    }
    (tmp_path / "recipe.yaml").write_text(yaml.safe_dump(recipe), encoding="utf-8")
    command = ["data", "distributions", "--config", str(tmp_path / "recipe.yaml"), "--output", str(tmp_path / "texts")]
    assert main(command) == 0
    written = Recipe.from_dict(yaml.safe_load((tmp_path / "texts" / "recipe.yaml").read_text(encoding="utf-8")))
    assert (written.attribute_names, written.data.values) == (["site"], {})
    shares = [json.loads(cell) for cell in pq.read_table(tmp_path / "texts" / "train.parquet")["answer"].to_pylist()]
    assert all(set(one) == {"None", "mild"} for one in shares)
    recipe["data"]["attributes"] = [{"name": "judge"}]
    notes = write_distribution_recipe(recipe, tmp_path / "alone")
    assert notes[-1] == "no attribute is left: the recipe is of the method adapter, not injector"
    written = Recipe.from_dict(yaml.safe_load((tmp_path / "alone" / "recipe.yaml").read_text(encoding="utf-8")))
    assert (written.learner.name, written.attribute_names) == ("adapter", [])


@needs_lab
def test_no_history_is_read_with_shares(folder: Path, tmp_path: Path, fails: Callable[..., str]) -> None:
    command = small_runs.train_command(folder / "train.csv", tmp_path / "run", backbone="bert", method="history")
    said = "history puts labels in front of texts, but with soft_labels they are shares"
    assert said in fails(*command, "--set", "task.soft_labels=true")

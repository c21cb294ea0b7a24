"""The verbs as a user gives them: every task and method, every kind of attribute and file."""

from __future__ import annotations

import argparse
import builtins
import io
import json
import math
import os
import re
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest
import small_runs
import yaml
from trained_runs import ROWS, TrainedRuns

from attribune.analysis.evaluate import evaluate
from attribune.apps.cli import build_parser, main
from attribune.apps.cli.train import add_parser, recipe_of
from attribune.data.tables import read_table
from attribune.runs.loading import load_run
from attribune.runs.recipe import Recipe

Words = Callable[..., list[str]]
slow = pytest.mark.slow
exhaustive = pytest.mark.exhaustive


@pytest.fixture
def data(trained_runs: TrainedRuns) -> Path:
    return trained_runs.table(ROWS)


@pytest.fixture
def train(tmp_path: Path, trained_runs: TrainedRuns) -> Words:
    """The words of a training with every setting small; more can be added."""
    backbone = trained_runs.backbone()

    def words(data: Path, *more: object, method: str = "injector", output: str = "run", **columns: str) -> list[str]:
        chosen = {"text": "text", "label": "stars", "attributes": "user"} | columns
        flags = [word for name, value in chosen.items() if value for word in (f"--{name}", *value.split())]
        return [
            *("train", str(data), *flags, "--output", str(tmp_path / output), "--method", method),
            *("--backbone", str(backbone), "--max-length", "32", "--epochs", "1", "--batch-size", "16"),
            *("--set", "training.precision=float32", *small_runs.SMALL.get(method, ()), *map(str, more)),
        ]

    return words


def results_of(run: Path) -> dict[str, Any]:
    return json.loads((run / "metrics.json").read_text())


def values_of(results: dict[str, Any], model: int = 0, part: str = "test") -> dict[str, float]:
    return {name: figure["value"] for name, figure in results["results"][model]["parts"][part].items()}


METHODS = ["injector", "adapter", "none", "tokens", "e2ln", "pln+upa", "poly", "linear", "attributes-only", "automl"]
TAKES_LONG = "automl"


@slow
@pytest.mark.parametrize(
    "method", [pytest.param(name, marks=pytest.mark.exhaustive if name == TAKES_LONG else []) for name in METHODS]
)
def test_every_method_goes_the_whole_way(
    trained_runs: TrainedRuns, data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], method: str
) -> None:
    run = trained_runs(method, *(["--no-baselines"] if method == TAKES_LONG else []))
    capsys.readouterr()
    files = {"recipe.yaml", "model", "metrics.json", "test_predictions.parquet", "validation_predictions.parquet"}
    assert files <= set(os.listdir(run))
    results = results_of(run)
    names = [result["name"] for result in results["results"]]
    reads = method not in ("adapter", "none")
    own = [method, f"{method}, attributes hidden"] if reads else [method]
    cheap = ("linear", "linear, text only", "attributes-only", "majority")
    baselines = [name for name in cheap if name != method]
    assert names == (own if method == TAKES_LONG else [*own, *baselines])

    predictions = pq.read_table(run / "test_predictions.parquet").to_pandas()
    right = predictions["true_stars"] == predictions["prediction"]
    assert right.mean() == pytest.approx(values_of(results)["accuracy"])
    sums = predictions[["probability_bad", "probability_good"]].sum(axis=1)
    assert sums.to_numpy() == pytest.approx(1, abs=1e-6)

    # The test rows, given to evaluate, are worth what the run said of them.
    frame = pd.read_csv(data, keep_default_na=False).iloc[predictions["row"]]
    frame.to_csv(tmp_path / "test.csv", index=False)
    assert main(["evaluate", str(run), str(tmp_path / "test.csv"), "--json"]) == 0
    again = json.loads(capsys.readouterr().out)
    assert again["rows"] == len(frame) == results["rows"]["test"]
    for place, name in enumerate(again["metrics"]):
        figures = {metric: figure["value"] for metric, figure in again["metrics"][name].items()}
        assert figures == pytest.approx(values_of(results, place))
    assert main(["describe", str(run)]) == 0
    assert re.search(r"^user +categorical +unknown +8 +1$", capsys.readouterr().out, flags=re.MULTILINE)


@slow
@pytest.mark.parametrize("method", ["adapter", pytest.param("none", marks=exhaustive), "linear"])
def test_attributes_are_not_needed(train: Words, data: Path, tmp_path: Path, method: str) -> None:
    assert main(train(data, method=method, attributes="")) == 0
    names = [result["name"] for result in results_of(tmp_path / "run")["results"]]
    assert names == ["linear", "majority"] if method == "linear" else [method, "linear", "majority"]


TASKS: dict[str, tuple[dict[str, str], list[str], str, str]] = {
    "classification": ({}, ["task.class_weights=balanced"], "accuracy", "prediction"),
    "several labels": ({"label": "tags"}, ["task.multi_label=true", "task.separator=;"], "micro_f1", "prediction"),
    "rating": ({"label": "look", "task": "rating"}, [], "accuracy", "prediction"),
    "regression": ({"label": "look", "task": "regression"}, [], "rmse", "prediction"),
    "aspects": ({"label": "look taste"}, [], "mean_accuracy", "prediction_taste"),
    "matthews": ({}, ["task.score_by=[matthews, macro_f1]"], "matthews", "prediction"),
    "spearman": ({"label": "look", "task": "regression"}, ["task.score_by=spearman"], "spearman", "prediction"),
}


# An injector of every task is trained for tests/runs/test_kinds_and_verbs.py.
@pytest.mark.exhaustive
@slow
@pytest.mark.parametrize(
    ("task", "method"),
    [
        pytest.param(task, method, marks=exhaustive if method == "injector" else ())
        for task in TASKS
        for method in ("injector", "linear")
    ],
)
def test_every_task_goes_the_whole_way(
    trained_runs: TrainedRuns, data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], task: str, method: str
) -> None:
    columns, settings, main_metric, column = TASKS[task]
    words = small_runs.train_command(data, "", backbone=trained_runs.backbone(), method=method)
    place = words.index("stars")
    words[place : place + 1] = columns.get("label", "stars").split()
    kind = ("--task", columns["task"]) if "task" in columns else ()
    run = trained_runs.trained([*words, *settings, *kind, "--no-baselines"])
    capsys.readouterr()
    results = results_of(run)
    assert results["main_metric"] == main_metric
    assert all(math.isfinite(value) for value in values_of(results).values())
    output = tmp_path / "p.jsonl"
    assert main(["predict", str(run), str(data), "--output", str(output)]) == 0
    rows = [json.loads(line) for line in output.read_text().splitlines()]
    assert len(rows) == len(ROWS)
    assert [row["text"] for row in rows] == [row["text"] for row in ROWS]
    assert all(column in row for row in rows)
    assert main(["evaluate", str(run), str(data)]) == 0
    assert main_metric in capsys.readouterr().out
    assert main(["compare", str(run), str(run)]) == 0
    assert "no difference shown" in capsys.readouterr().out


@slow
def test_every_kind_of_attribute(trained_runs: TrainedRuns, capsys: pytest.CaptureFixture[str]) -> None:
    run = trained_runs("injector", "--multi-label", "tags:;", "--numeric", "price")
    capsys.readouterr()
    assert main(["describe", str(run), "--json"]) == 0
    description = json.loads(capsys.readouterr().out)
    assert description["state"] == "finished"
    attributes = {item["name"]: item for item in description["attributes"]}
    assert list(attributes) == ["user", "tags", "price"]
    assert attributes["tags"]["slots"] == 3
    assert attributes["tags"]["ids"] == 5
    assert attributes["user"]["kind"] == "categorical"
    assert attributes["price"]["kind"] == "numeric"


def test_attributes_may_be_given_in_several_places() -> None:
    words = ["train", "x.csv", "--text", "t", "--label", "l", "--output", "o", "--attributes", "a"]
    recipe = recipe_from(*words, "--numeric", "n", "--attributes", "b", "c")
    assert [attribute["name"] for attribute in recipe.data.attributes] == ["a", "b", "c", "n"]


@slow
@pytest.mark.parametrize("ending", ["tsv", "jsonl", "parquet", "csv.gz"])
def test_every_format_goes_in_and_out(
    trained_runs: TrainedRuns, data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], ending: str
) -> None:
    run, wanted = trained_runs("linear"), tmp_path / "wanted.csv"
    assert main(["predict", str(run), str(data), "--output", str(wanted)]) == 0
    source = tmp_path / f"source.{ending}"
    frame = pd.read_csv(data, keep_default_na=False, dtype=str)
    if ending == "parquet":
        frame.to_parquet(source)
    elif ending == "jsonl":
        frame.to_json(source, orient="records", lines=True)
    else:
        frame.to_csv(source, index=False, sep="\t" if ending == "tsv" else ",")
    output = tmp_path / f"found.{ending.removesuffix('.gz')}"
    capsys.readouterr()
    assert main(["predict", str(run), str(source), "--output", str(output)]) == 0
    assert f"{len(ROWS)} rows written to {output}" in capsys.readouterr().err
    found, expected = (read_table(path).to_pandas() for path in (output, wanted))
    assert list(found.columns) == list(expected.columns)
    numbers = ["probability_bad", "probability_good"]
    words = [name for name in expected if name not in numbers]
    assert (found[words] == expected[words]).all(axis=None)
    assert found[numbers].astype(float).to_numpy() == pytest.approx(expected[numbers].astype(float).to_numpy())


@slow
def test_predictions_are_those_of_the_python_api(trained_runs: TrainedRuns, data: Path, tmp_path: Path) -> None:
    run = trained_runs("injector")
    assert main(["predict", str(run), str(data), "--output", str(tmp_path / "p.parquet")]) == 0
    found = pq.read_table(tmp_path / "p.parquet").to_pandas()
    _, predictor = load_run(run)
    logits, _ = predictor.logits({name: [row[name] for row in ROWS] for name in ("text", "user")})
    odds = np.exp(logits - logits.max(axis=1, keepdims=True))
    probabilities = odds / odds.sum(axis=1, keepdims=True)
    assert found[["probability_bad", "probability_good"]].to_numpy() == pytest.approx(probabilities, abs=1e-5)
    assert found["prediction"].tolist() == [["bad", "good"][place] for place in logits.argmax(axis=1)]
    assert evaluate(run, pd.DataFrame(ROWS)).rows == len(ROWS)


@slow
def test_a_run_can_be_repeated_from_its_recipe_with_changes(trained_runs: TrainedRuns, tmp_path: Path) -> None:
    run = trained_runs("injector", "data.split.seed=5", "--no-baselines")
    recipe = run / "recipe.yaml"
    same = ["train", "--config", str(recipe), "--no-baselines", "--output", str(tmp_path / "same")]
    assert main(same) == 0
    assert results_of(tmp_path / "same")["results"] == results_of(run)["results"]
    other = ["--method", "adapter", "--set", "training.warmup=0.2", "--set", "method.bottleneck=4", "--batch-size", "8"]
    assert main([*same[:-1], str(tmp_path / "other"), *other]) == 0
    changed = yaml.safe_load((tmp_path / "other" / "recipe.yaml").read_text())
    assert changed["method"] == {"name": "adapter", "bottleneck": 4, **_rest(changed["method"])}
    assert "vector_size" not in changed["method"]
    assert (changed["training"]["warmup"], changed["training"]["batch_size"]) == (0.2, 8)
    assert changed["data"] == yaml.safe_load(recipe.read_text())["data"]


def _rest(method: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in method.items() if name not in ("name", "bottleneck")}


@slow
def test_methods_are_compared_on_the_same_rows(
    train: Words, data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*train(data), "--compare", "none", "linear"]) == 0
    out = capsys.readouterr().out
    assert out.startswith("validation, 9 rows\n")
    assert "\ninjector " in out
    assert "\nmajority " in out
    for other in ("injector, attributes hidden", "none", "linear", "linear, text only", "attributes-only", "majority"):
        assert f"injector against {other}, test accuracy: " in out
    run = tmp_path / "run"
    assert main(["compare", str(run), str(run / "compare" / "none"), "--json"]) == 0
    pairs = json.loads(capsys.readouterr().out)
    summary = next(pair for pair in results_of(run)["comparisons"] if pair["b"] == "none")
    same = next(pair for pair in pairs if pair["metric"] == "accuracy")
    for figure in ("difference", "low", "high", "p_value"):
        assert same[figure] == pytest.approx(summary[figure])
    assert main(["compare", str(run), str(run / "compare" / "none"), str(run), "--json"]) == 0
    several = json.loads(capsys.readouterr().out)
    assert several[: len(pairs)] == pairs
    assert [pair["b"] for pair in several[len(pairs) :]] == [str(run)] * len(pairs)


@slow
def test_baselines_can_be_left_out(trained_runs: TrainedRuns) -> None:
    results = results_of(trained_runs("injector", "--tuning", "frozen", "--no-baselines"))["results"]
    assert [result["name"] for result in results] == ["injector", "injector, attributes hidden"]


@slow
def test_runs_on_other_rows_are_not_compared(trained_runs: TrainedRuns, capsys: pytest.CaptureFixture[str]) -> None:
    a, b = trained_runs("linear"), trained_runs("linear", "--seed", "1", "--no-baselines")
    capsys.readouterr()
    assert main(["compare", str(a), str(b)]) == 1
    assert "were not scored on the same rows" in capsys.readouterr().err


class TestSplits:
    def parts(self, run: Path) -> dict[str, set[int]]:
        return {
            part: set(pq.read_table(run / f"{part}_predictions.parquet").column("row").to_pylist())
            for part in ("validation", "test")
            if (run / f"{part}_predictions.parquet").is_file()
        }

    @slow
    def test_validation_without_test(self, train: Words, data: Path, tmp_path: Path) -> None:
        other = small_runs.write_csv(tmp_path / "v.csv", small_runs.reviews(20, seed=8))
        assert main([*train(data, method="linear"), "--validation", str(other)]) == 0
        assert results_of(tmp_path / "run")["rows"] == {"train": 90, "validation": 20}
        assert results_of(tmp_path / "run")["comparisons"][0]["part"] == "validation"

    @slow
    @pytest.mark.parametrize("by", ["random", "group", "time"])
    def test_test_without_validation(self, train: Words, data: Path, tmp_path: Path, by: str) -> None:
        other = small_runs.write_csv(tmp_path / "t.csv", small_runs.reviews(20, seed=8))
        column = {"random": [], "group": ["data.split.column=price"], "time": ["data.split.column=taste"]}[by]
        words = train(data, f"data.split.by={by}", *column, "--no-baselines", method="linear")
        assert main([*words, "--test", str(other)]) == 0
        rows = results_of(tmp_path / "run")["rows"]
        assert rows["test"] == 20
        assert rows["train"] > rows["validation"] > 0
        if by == "random":
            assert rows == {"train": 81, "validation": 9, "test": 20}

    @slow
    def test_groups_stay_together(self, train: Words, data: Path, tmp_path: Path) -> None:
        words = train(data, "data.split.by=group", "data.split.column=user", "--no-baselines", method="linear")
        assert main(words) == 0
        users = {part: {ROWS[row]["user"] for row in rows} for part, rows in self.parts(tmp_path / "run").items()}
        assert users["validation"]
        assert not users["validation"] & users["test"]

    @slow
    def test_time_goes_forward(self, train: Words, tmp_path: Path) -> None:
        rows = [{**row, "day": f"2024-01-{1 + number % 28:02}"} for number, row in enumerate(ROWS)]
        data = small_runs.write_csv(tmp_path / "dated.csv", rows)
        assert main(train(data, "data.split.by=time", "data.split.column=day", "--no-baselines", method="linear")) == 0
        days = {part: {rows[row]["day"] for row in found} for part, found in self.parts(tmp_path / "run").items()}
        assert max(days["validation"]) < min(days["test"])


@slow
def test_results_on_stdout_and_messages_on_stderr(
    trained_runs: TrainedRuns, data: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    run = trained_runs("linear")
    capfd.readouterr()
    assert main(["evaluate", str(run), str(data), "--json"]) == 0
    out, err = capfd.readouterr()
    assert json.loads(out)["rows"] == 90
    assert "72 rows have a text that is among the training texts of the run" in err
    assert main(["evaluate", str(run), "nothing.csv"]) == 1
    out, err = capfd.readouterr()
    assert out == ""
    assert err.startswith("attribune evaluate: error: nothing.csv: there is no such file")
    assert err.count("\n") == 1


@slow
def test_a_reader_that_leaves_early_gets_no_traceback(
    trained_runs: TrainedRuns, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    run = trained_runs("linear")
    capfd.readouterr()
    reader, writer = os.pipe()
    os.close(reader)  # as `head` does when it has its line
    with open(writer, "w") as pipe, monkeypatch.context() as patch:
        patch.setattr("sys.stdout", pipe)
        assert main(["describe", str(run)]) == 1
        pipe.flush()  # as Python does at exit
    assert capfd.readouterr() == ("", "")


@slow
def test_a_terminal_without_the_characters_still_shows_results(
    train: Words, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = [{**row, "user": f"zoë {row['user']}"} for row in ROWS]
    assert main(train(small_runs.write_csv(tmp_path / "z.csv", rows), "--no-baselines", method="linear")) == 0
    screen = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
    monkeypatch.setattr("sys.stdout", screen)
    assert main(["describe", str(tmp_path / "run")]) == 0
    assert b"zo\\xeb u" in screen.buffer.getvalue()


@slow
def test_describe_an_interrupted_run(
    trained_runs: TrainedRuns, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = trained_runs.copy(trained_runs("linear"), tmp_path / "run")
    for name in ("metrics.json", "training.json"):
        (run / name).unlink()
    capsys.readouterr()
    assert main(["describe", str(run)]) == 0
    assert re.match(r"state +interrupted; resume it with `attribune train --resume`\n", capsys.readouterr().out)


@pytest.mark.parametrize("verb", ["train", "evaluate", "predict", "compare", "describe"])
def test_every_verb_explains_itself_with_examples(capsys: pytest.CaptureFixture[str], verb: str) -> None:
    with pytest.raises(SystemExit, match="0"):
        main([verb, "--help"])
    out, err = capsys.readouterr()
    assert f"attribune {verb} " in out.partition("examples:")[2]
    assert err == ""


# Controls, sums, chunks, the papers' recipes


@pytest.mark.exhaustive
@slow
def test_shuffled_attributes_are_compared_with_the_true_ones(
    train: Words, data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(train(data, "--compare", "shuffled", "--no-baselines")) == 0
    results = results_of(tmp_path / "run")
    names = [result["name"] for result in results["results"]]
    assert "injector, attributes shuffled" in names
    pairs = {(record["a"], record["b"]) for record in results["comparisons"]}
    assert ("injector", "injector, attributes shuffled") in pairs
    shuffled = tmp_path / "run" / "compare" / "shuffled"
    assert yaml.safe_load((shuffled / "recipe.yaml").read_text())["data"]["shuffled"] is True
    capsys.readouterr()
    assert main(["evaluate", str(shuffled), str(data)]) == 0
    assert "the attributes are shuffled over the rows" in capsys.readouterr().err
    assert main(["compare", str(tmp_path / "run"), str(shuffled)]) == 0
    # Texts and labels stay where they are; the counts of the values stay what they are.
    true, control = (pq.read_table(run / "test_predictions.parquet") for run in (tmp_path / "run", shuffled))
    assert true["row"].equals(control["row"])
    assert true["true_stars"].equals(control["true_stars"])
    schemas = [(run / "model" / "schema.json").read_bytes() for run in (tmp_path / "run", shuffled)]
    assert schemas[0] == schemas[1]


def test_nothing_to_shuffle(train: Words, data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(train(data, "--shuffled", method="adapter")) == 1
    assert "method 'adapter' reads no attributes here, so there is nothing to shuffle" in capsys.readouterr().err


@slow
def test_a_recipe_of_a_paper_under_flags(
    train: Words, data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = train(
        data, "training.steps=3", "method.bottleneck=4", "--preset", "houlsby", "--no-baselines", method="adapter"
    )
    place = words.index("--epochs")
    assert main([*words[:place], *words[place + 2 :]]) == 0
    recipe = yaml.safe_load((tmp_path / "run" / "recipe.yaml").read_text())
    assert recipe["training"]["learning_rate"] == 3e-4
    assert (recipe["training"]["epochs"], recipe["training"]["steps"]) == (20, 3)
    assert recipe["method"]["bottleneck"] == 4
    assert recipe["backbone"]["tuning"] is None, "each method of a comparison learns what is its own default"
    assert main(train(data, "--preset", "holsby", method="adapter", output="other")) == 1
    assert "unknown recipe 'holsby'; did you mean 'houlsby'? Choose one of e2ln, houlsby" in capsys.readouterr().err


def recipe_from(*words: str) -> Recipe:
    """The recipe that a command asks for."""
    parser = argparse.ArgumentParser()
    add_parser(parser.add_subparsers())
    return recipe_of(parser.parse_args(words))


def test_flags_go_over_the_recipe_of_a_paper(train: Words, data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["train", "x.csv", "--text", "t", "--label", "l", "--attributes", "a", "--output", "o"]
    recipe = recipe_from(*words, "--preset", "injectors-2022", "--epochs", "2")
    assert (recipe.training.steps, recipe.training.epochs) == (None, 2)
    assert main(train(data, "--preset", "injectors-2022")) == 1
    assert "the recipe's window 'head+tail:250+250' already has sizes" in capsys.readouterr().err
    kept = recipe_from(*words, "--preset", "injectors-2022", "--method", "injector")
    assert kept.method["vector_size"] == 768
    other = recipe_from(*words, "--preset", "injectors-2022", "--method", "none")
    assert other.learner.tuning == "full"
    changed = recipe_from(*words, "--preset", "e2ln", "--set", "method.bottleneck=8", "method.name=injector")
    assert (changed.method["name"], changed.method["bottleneck"]) == ("injector", 8)


@slow
def test_long_texts_in_chunks(train: Words, data: Path, tmp_path: Path) -> None:
    words = train(data, "data.window=chunks:6x3", "method.norms=both", "--no-baselines", method="e2ln")
    assert main(words) == 0
    config = json.loads((tmp_path / "run" / "model" / "config.json").read_text())
    assert config["chunk"] == 6
    assert main(["predict", str(tmp_path / "run"), str(data), "--output", str(tmp_path / "out.csv")]) == 0
    assert len(pd.read_csv(tmp_path / "out.csv")) == len(ROWS)


def test_methods_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["methods"]) == 0
    listed = capsys.readouterr().out
    assert re.search(r"^e2ln +sites, pool +full +\w", listed, flags=re.MULTILINE)
    assert re.search(r"^linear +baseline +- +\w", listed, flags=re.MULTILINE)
    assert main(["methods", "e2ln"]) == 0
    assert re.search(r"^method.structured_text=true +\w", capsys.readouterr().out, flags=re.MULTILINE)
    assert main(["methods", "injector+chim"]) == 0
    assert re.search(r"^method.chim.vector_size=64 +Z, the size", capsys.readouterr().out, flags=re.MULTILINE)
    assert main(["methods", "linear"]) == 0
    assert main(["methods", "e3ln"]) == 1
    assert "did you mean 'e2ln'" in capsys.readouterr().err


def test_no_module_of_a_verb_hides_a_word_of_python() -> None:
    """A module becomes an attribute of its package, where `next` would no longer be that of Python."""
    build_parser()
    package = sys.modules["attribune.apps.cli"]
    modules = {name for name, value in vars(package).items() if isinstance(value, ModuleType)}
    assert not modules & {*dir(builtins)}

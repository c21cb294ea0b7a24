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

import pandas as pd
import pyarrow.parquet as pq
import pytest
import small_runs
import yaml
from commands import Outcome
from trained_runs import ROWS, TrainedRuns

from attribune.apps.cli import build_parser, main
from attribune.apps.cli.train import add_parser, recipe_of
from attribune.data.tables import read_table
from attribune.runs.recipe import Recipe

Words = Callable[..., list[str]]
Run = Callable[..., Outcome]
slow = pytest.mark.slow
exhaustive = pytest.mark.exhaustive


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


NETWORKS = ["injector", "adapter", "none", "tokens", "e2ln", "pln+upa", "poly"]
METHODS = [*NETWORKS, "linear", "attributes-only", "boosting", "automl"]
TAKES_LONG = "automl"


@slow
@pytest.mark.parametrize(
    "method", [pytest.param(name, marks=pytest.mark.exhaustive if name == TAKES_LONG else []) for name in METHODS]
)
def test_every_method_goes_the_whole_way(
    trained_runs: TrainedRuns, data: Path, tmp_path: Path, attribune: Run, method: str
) -> None:
    run = trained_runs(method, *(["--no-baselines"] if method == TAKES_LONG else []))
    files = {"recipe.yaml", "model", "metrics.json", "test_predictions.parquet", "validation_predictions.parquet"}
    assert files <= set(os.listdir(run))
    results = results_of(run)
    own = [method] if method in ("adapter", "none") else [method, f"{method}, attributes hidden"]
    cheap = ("linear", "linear, text only", "attributes-only", "majority")
    baselines = [] if method == TAKES_LONG else [name for name in cheap if name != method]
    assert [result["name"] for result in results["results"]] == [*own, *baselines]

    predictions = pq.read_table(run / "test_predictions.parquet").to_pandas()
    right = predictions["true_stars"] == predictions["prediction"]
    assert right.mean() == pytest.approx(values_of(results)["accuracy"])
    sums = predictions[["probability_bad", "probability_good"]].sum(axis=1)
    assert sums.to_numpy() == pytest.approx(1, abs=1e-6)

    # The test rows, given to evaluate, are worth what the run said of them.
    frame = pd.read_csv(data, keep_default_na=False).iloc[predictions["row"]]
    frame.to_csv(tmp_path / "test.csv", index=False)
    code, out, _ = attribune("evaluate", run, tmp_path / "test.csv", "--json")
    again = json.loads(out)
    assert code == 0
    assert again["rows"] == len(frame) == results["rows"]["test"]
    for place, name in enumerate(again["metrics"]):
        figures = {metric: figure["value"] for metric, figure in again["metrics"][name].items()}
        assert figures == pytest.approx(values_of(results, place))
    assert re.search(r"^user +categorical +unknown +8 +1$", attribune("describe", run)[1], flags=re.MULTILINE)


@slow
@pytest.mark.parametrize("method", ["adapter", pytest.param("none", marks=exhaustive), "linear"])
def test_attributes_are_not_needed(train: Words, data: Path, tmp_path: Path, method: str) -> None:
    assert main(train(data, method=method, attributes="")) == 0
    names = [result["name"] for result in results_of(tmp_path / "run")["results"]]
    assert names == ["linear", "majority"] if method == "linear" else [method, "linear", "majority"]


TASKS: dict[str, tuple[str, list[str], str, str]] = {
    "classification": ("stars", ["task.class_weights=balanced"], "accuracy", "prediction"),
    "several labels": ("tags", ["task.multi_label=true", "task.separator=;"], "micro_f1", "prediction"),
    "rating": ("look", ["--task", "rating"], "accuracy", "prediction"),
    "regression": ("look", ["--task", "regression"], "rmse", "prediction"),
    "aspects": ("look taste", [], "mean_accuracy", "prediction_taste"),
    "matthews": ("stars", ["task.score_by=[matthews, macro_f1]"], "matthews", "prediction"),
    "spearman": ("look", ["task.score_by=spearman", "--task", "regression"], "spearman", "prediction"),
}


@pytest.mark.exhaustive
@slow
@pytest.mark.parametrize("task", TASKS)
def test_every_task_of_a_baseline_goes_the_whole_way(
    trained_runs: TrainedRuns, data: Path, tmp_path: Path, attribune: Run, task: str
) -> None:
    """Networks of every task do so in tests/runs/test_kinds_and_verbs.py."""
    label, more, main_metric, column = TASKS[task]
    words = small_runs.train_command(data, "", backbone="unused", method="linear", label=label.split())
    run = trained_runs.trained([*words, *more, "--no-baselines"])
    results = results_of(run)
    assert results["main_metric"] == main_metric
    assert all(math.isfinite(value) for value in values_of(results).values())
    assert attribune("predict", run, data, "--output", tmp_path / "p.jsonl")[0] == 0
    rows = [json.loads(line) for line in (tmp_path / "p.jsonl").read_text().splitlines()]
    assert [row["text"] for row in rows] == [row["text"] for row in ROWS]
    assert all(column in row for row in rows)
    assert main_metric in attribune("evaluate", run, data)[1]
    assert "no difference shown" in attribune("compare", run, run)[1]


@slow
def test_every_kind_of_attribute(trained_runs: TrainedRuns, attribune: Run) -> None:
    run = trained_runs("injector", "--multi-label", "tags:;", "--numeric", "price")
    description = json.loads(attribune("describe", run, "--json")[1])
    assert description["state"] == "finished"
    attributes = {item["name"]: item for item in description["attributes"]}
    assert list(attributes) == ["user", "tags", "price"]
    assert [attributes[name]["kind"] for name in ("user", "price")] == ["categorical", "numeric"]
    assert (attributes["tags"]["slots"], attributes["tags"]["ids"]) == (3, 5)


def test_attributes_may_be_given_in_several_places() -> None:
    words = ["train", "x.csv", "--text", "t", "--label", "l", "--output", "o", "--attributes", "a"]
    recipe = recipe_from(*words, "--numeric", "n", "--attributes", "b", "c")
    assert [attribute["name"] for attribute in recipe.data.attributes] == ["a", "b", "c", "n"]


@slow
@pytest.mark.parametrize("ending", ["tsv", "jsonl", "parquet", "csv.gz"])
def test_every_format_goes_in_and_out(
    trained_runs: TrainedRuns, data: Path, tmp_path: Path, attribune: Run, ending: str
) -> None:
    run, wanted = trained_runs("linear"), tmp_path / "wanted.csv"
    assert attribune("predict", run, data, "--output", wanted)[0] == 0
    source, output = tmp_path / f"source.{ending}", tmp_path / f"found.{ending.removesuffix('.gz')}"
    frame = pd.read_csv(data, keep_default_na=False, dtype=str)
    if ending == "parquet":
        frame.to_parquet(source)
    elif ending == "jsonl":
        frame.to_json(source, orient="records", lines=True)
    else:
        frame.to_csv(source, index=False, sep="\t" if ending == "tsv" else ",")
    code, _, err = attribune("predict", run, source, "--output", output)
    assert (code, f"{len(ROWS)} rows written to {output}" in err) == (0, True)
    found, expected = (read_table(path).to_pandas() for path in (output, wanted))
    assert list(found.columns) == list(expected.columns)
    numbers = ["probability_bad", "probability_good"]
    words = [name for name in expected if name not in numbers]
    assert (found[words] == expected[words]).all(axis=None)
    assert found[numbers].astype(float).to_numpy() == pytest.approx(expected[numbers].astype(float).to_numpy())


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
    assert (changed["method"]["name"], changed["method"]["bottleneck"]) == ("adapter", 4)
    assert "vector_size" not in changed["method"]
    assert (changed["training"]["warmup"], changed["training"]["batch_size"]) == (0.2, 8)
    assert changed["data"] == yaml.safe_load(recipe.read_text())["data"]


@slow
def test_methods_are_compared_on_the_same_rows(train: Words, data: Path, tmp_path: Path, attribune: Run) -> None:
    code, out, _ = attribune(*train(data), "--compare", "none", "linear", "boosting")
    assert code == 0
    assert out.startswith("validation, 9 rows\n")
    assert "\ninjector " in out
    assert "\nmajority " in out
    baselines = ("linear", "linear, text only", "attributes-only", "majority")
    for other in ("injector, attributes hidden", "none", "boosting", *baselines):
        assert f"injector against {other}, test accuracy: " in out
    run = tmp_path / "run"
    none = run / "compare" / "none"
    pairs = json.loads(attribune("compare", run, none, "--json")[1])
    summary = next(pair for pair in results_of(run)["comparisons"] if pair["b"] == "none")
    same = next(pair for pair in pairs if pair["metric"] == "accuracy")
    for figure in ("difference", "low", "high", "p_value"):
        assert same[figure] == pytest.approx(summary[figure])
    several = json.loads(attribune("compare", run, none, run, "--json")[1])
    assert several[: len(pairs)] == pairs
    assert [pair["b"] for pair in several[len(pairs) :]] == [str(run)] * len(pairs)


@slow
def test_baselines_can_be_left_out(trained_runs: TrainedRuns) -> None:
    results = results_of(trained_runs("injector", "--tuning", "frozen", "--no-baselines"))["results"]
    assert [result["name"] for result in results] == ["injector", "injector, attributes hidden"]


@slow
def test_runs_on_other_rows_are_not_compared(trained_runs: TrainedRuns, fails: Callable[..., str]) -> None:
    other = trained_runs("linear", "--seed", "1", "--no-baselines")
    assert "were not scored on the same rows" in fails("compare", trained_runs("linear"), other)


@slow
def test_validation_without_test(train: Words, data: Path, tmp_path: Path) -> None:
    other = small_runs.write_csv(tmp_path / "v.csv", small_runs.reviews(20, seed=8))
    assert main([*train(data, method="linear"), "--validation", str(other)]) == 0
    assert results_of(tmp_path / "run")["rows"] == {"train": 90, "validation": 20}
    assert results_of(tmp_path / "run")["comparisons"][0]["part"] == "validation"


@slow
@pytest.mark.parametrize("by", ["random", "group", "time"])
def test_test_without_validation(train: Words, data: Path, tmp_path: Path, by: str) -> None:
    other = small_runs.write_csv(tmp_path / "t.csv", small_runs.reviews(20, seed=8))
    column = {"random": [], "group": ["data.split.column=price"], "time": ["data.split.column=taste"]}[by]
    words = train(data, f"data.split.by={by}", *column, "--no-baselines", method="linear")
    assert main([*words, "--test", str(other)]) == 0
    rows = results_of(tmp_path / "run")["rows"]
    assert rows["test"] == 20
    assert rows["train"] > rows["validation"] > 0
    assert by != "random" or rows == {"train": 81, "validation": 9, "test": 20}


@slow
@pytest.mark.parametrize(("by", "column"), [("group", "user"), ("time", "day")])
def test_groups_stay_together_and_time_goes_forward(train: Words, tmp_path: Path, by: str, column: str) -> None:
    rows = [{**row, "day": f"2024-01-{1 + number % 28:02}"} for number, row in enumerate(ROWS)]
    data = small_runs.write_csv(tmp_path / "dated.csv", rows)
    split = (f"data.split.by={by}", f"data.split.column={column}")
    assert main(train(data, *split, "--no-baselines", method="linear")) == 0
    stored = [pq.read_table(tmp_path / "run" / f"{part}_predictions.parquet") for part in ("validation", "test")]
    validation, test = ({rows[row][column] for row in part.column("row").to_pylist()} for part in stored)
    assert not validation & test if by == "group" else max(validation) < min(test)
    assert validation
    assert test


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
def test_describe_an_interrupted_run(trained_runs: TrainedRuns, tmp_path: Path, attribune: Run) -> None:
    run = trained_runs.copy(trained_runs("linear"), tmp_path / "run")
    for name in ("metrics.json", "training.json"):
        (run / name).unlink()
    said = attribune("describe", run)[1]
    assert re.match(r"state +interrupted; repeat its training with --resume\n", said)


@pytest.mark.parametrize("verb", ["train", "evaluate", "predict", "compare", "describe"])
def test_every_verb_explains_itself_with_examples(attribune: Run, verb: str) -> None:
    code, out, err = attribune(verb, "--help")
    assert f"attribune {verb} " in out.partition("examples:")[2]
    assert (code, err) == (0, "")


# Controls, sums, chunks, the papers' recipes


@pytest.mark.exhaustive
@slow
def test_shuffled_attributes_are_compared_with_the_true_ones(
    train: Words, data: Path, tmp_path: Path, attribune: Run
) -> None:
    assert main(train(data, "--compare", "shuffled", "--no-baselines")) == 0
    results = results_of(tmp_path / "run")
    assert "injector, attributes shuffled" in [result["name"] for result in results["results"]]
    pairs = {(record["a"], record["b"]) for record in results["comparisons"]}
    assert ("injector", "injector, attributes shuffled") in pairs
    shuffled = tmp_path / "run" / "compare" / "shuffled"
    assert yaml.safe_load((shuffled / "recipe.yaml").read_text())["data"]["shuffled"] is True
    assert "the attributes are shuffled over the rows" in attribune("evaluate", shuffled, data)[2]
    assert attribune("compare", tmp_path / "run", shuffled)[0] == 0
    # Texts and labels stay where they are; the counts of the values stay what they are.
    true, control = (pq.read_table(run / "test_predictions.parquet") for run in (tmp_path / "run", shuffled))
    assert true["row"].equals(control["row"])
    assert true["true_stars"].equals(control["true_stars"])
    schemas = [(run / "model" / "schema.json").read_bytes() for run in (tmp_path / "run", shuffled)]
    assert schemas[0] == schemas[1]


def test_nothing_to_shuffle(train: Words, data: Path, fails: Callable[..., str]) -> None:
    said = fails(*train(data, "--shuffled", method="adapter"))
    assert "method 'adapter' reads no attributes here, so there is nothing to shuffle" in said


@slow
def test_a_recipe_of_a_paper_under_flags(train: Words, data: Path, tmp_path: Path, fails: Callable[..., str]) -> None:
    given = ("training.steps=3", "method.bottleneck=4", "--preset", "houlsby", "--no-baselines")
    words = train(data, *given, method="adapter")
    place = words.index("--epochs")
    assert main([*words[:place], *words[place + 2 :]]) == 0
    recipe = yaml.safe_load((tmp_path / "run" / "recipe.yaml").read_text())
    training = {"learning_rate": 3e-4, "epochs": 20, "steps": 3}
    assert {name: recipe["training"][name] for name in training} == training
    assert recipe["method"]["bottleneck"] == 4
    assert recipe["backbone"]["tuning"] is None, "each method of a comparison learns what is its own default"
    said = fails(*train(data, "--preset", "holsby", method="adapter", output="other"))
    assert "unknown recipe 'holsby'; did you mean 'houlsby'? Choose one of e2ln, houlsby" in said


def recipe_from(*words: str) -> Recipe:
    """The recipe that a command asks for."""
    parser = argparse.ArgumentParser()
    add_parser(parser.add_subparsers())
    return recipe_of(parser.parse_args(words))


def test_flags_go_over_the_recipe_of_a_paper(train: Words, data: Path, fails: Callable[..., str]) -> None:
    words = ["train", "x.csv", "--text", "t", "--label", "l", "--attributes", "a", "--output", "o"]
    recipe = recipe_from(*words, "--preset", "injectors-2022", "--epochs", "2")
    assert (recipe.training.steps, recipe.training.epochs) == (None, 2)
    said = fails(*train(data, "--preset", "injectors-2022"))
    assert "the recipe's window 'head+tail:250+250' already has sizes" in said
    kept = recipe_from(*words, "--preset", "injectors-2022", "--method", "injector")
    assert kept.method["vector_size"] == 768
    other = recipe_from(*words, "--preset", "injectors-2022", "--method", "none")
    assert other.learner.tuning == "full"
    changed = recipe_from(*words, "--preset", "e2ln", "--set", "method.bottleneck=8", "method.name=injector")
    assert (changed.method["name"], changed.method["bottleneck"]) == ("injector", 8)


@slow
def test_long_texts_in_chunks(train: Words, data: Path, tmp_path: Path) -> None:
    run, output = tmp_path / "run", tmp_path / "out.csv"
    assert main(train(data, "data.window=chunks:6x3", "method.norms=both", "--no-baselines", method="e2ln")) == 0
    assert json.loads((run / "model" / "config.json").read_text())["chunk"] == 6
    assert main(["predict", str(run), str(data), "--output", str(output)]) == 0
    assert len(pd.read_csv(output)) == len(ROWS)


def test_a_method_is_described(attribune: Run, fails: Callable[..., str]) -> None:
    """What the lists look like is in golden/."""
    said = attribune("methods", "e2ln")[1]
    assert re.search(r"^method.structured_text=true +\w", said, flags=re.MULTILINE)
    assert attribune("methods", "linear")[0] == 0
    assert "did you mean 'e2ln'" in fails("methods", "e3ln")


def test_no_module_of_a_verb_hides_a_word_of_python() -> None:
    """A module becomes an attribute of its package, where `next` would no longer be that of Python."""
    build_parser()
    package = sys.modules["attribune.apps.cli"]
    modules = {name for name, value in vars(package).items() if isinstance(value, ModuleType)}
    assert not modules & {*dir(builtins)}


@slow
def test_cells_that_are_only_carried_over_stay_as_they_are_written(
    trained_runs: TrainedRuns, data: Path, tmp_path: Path, attribune: Run
) -> None:
    run, wanted = trained_runs("injector", "--multi-label", "tags:;", "--numeric", "price"), tmp_path / "wanted.csv"
    frame = pd.read_csv(data, keep_default_na=False, dtype=str)
    prices = [one and f"{float(one):.3f}" for one in frame["price"]]
    frame.assign(price=prices).to_csv(plain := tmp_path / "plain.csv", index=False)
    frame["price"] = [one.replace(".", ",") for one in prices]
    frame["count"] = ["1.234,0", "-12,5"] * (len(frame) // 2) + ["7"] * (len(frame) % 2)
    frame.to_csv(source := tmp_path / "source.csv", index=False, sep=";")
    for path, output in ((plain, wanted), (source, found := tmp_path / "found.csv")):
        assert attribune("predict", run, path, "--output", output)[0] == 0
    written = pd.read_csv(found, keep_default_na=False, dtype=str, sep=";")
    assert written[[*frame]].equals(frame)
    assert (written["prediction"] == pd.read_csv(wanted, dtype=str)["prediction"]).all()

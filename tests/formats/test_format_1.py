"""Folders that an earlier version wrote are read, used and gone on with; tests/fixtures says what they are."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import yaml
from commands import Attribune
from lab_methods import needs_lab

FORMAT_1 = Path(__file__).parents[1] / "fixtures" / "format_1"
RUNS = ("injector", "linear", "written", "continued", "enrolled")
PREDICTED = {
    "injector": "predictions.csv",
    **{run: f"predictions_{run}.csv" for run in ("linear", "enrolled", "encoded")},
}


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of the folders, to work in: they name each other by relative paths."""
    folder = tmp_path / "format_1"
    shutil.copytree(FORMAT_1, folder)
    monkeypatch.chdir(folder)
    return folder


def figures_of(run: str, part: str = "test") -> dict[str, float]:
    results = json.loads(Path(run, "metrics.json").read_text())["results"][0]
    return {name: figure["value"] for name, figure in results["parts"][part].items()}


def assert_same(found: pd.DataFrame, expected: pd.DataFrame) -> None:
    """The same rows in the same order, numbers to 1e-6."""
    assert list(found.columns) == list(expected.columns)
    for name in expected.columns:
        if pd.api.types.is_float_dtype(expected[name]):
            np.testing.assert_allclose(found[name], expected[name], rtol=0, atol=1e-6, err_msg=name)
        else:
            assert found[name].tolist() == expected[name].tolist(), name


def read(path: str | Path) -> pd.DataFrame:
    return pd.read_csv(path, keep_default_na=False)


@pytest.mark.slow
@pytest.mark.parametrize("run", RUNS)
def test_a_run_is_described_with_its_figures(run: str, attribune: Attribune) -> None:
    code, out, _ = attribune("describe", run)
    assert code == 0
    assert re.search(r"^user +categorical ", out, flags=re.MULTILINE)
    assert f"\n{'linear' if run == 'linear' else 'injector'}, attributes hidden " in out
    for name, value in figures_of(run).items():
        shown = f"{value:.2f}" if name == "perplexity" else f"{100 * value:.1f}"
        assert f" {shown} [" in out, name


@pytest.mark.slow
@pytest.mark.parametrize("run", RUNS)
def test_a_run_is_evaluated_to_the_figures_of_then(run: str, attribune: Attribune) -> None:
    rows = pd.read_parquet(Path(run, "test_predictions.parquet"))["row"]
    read("reviews.csv").iloc[rows].to_csv("test.csv", index=False)
    code, out, _ = attribune("evaluate", run, "test.csv", "--json")
    assert code == 0
    evaluated = json.loads(out)
    assert evaluated["rows"] == len(rows)
    found = {name: figure["value"] for name, figure in evaluated["metrics"]["as given"].items()}
    figures = figures_of(run)
    # A perplexity is of the size of 100; a proper score beside it is newer than the run.
    assert {name: found[name] for name in figures} == pytest.approx(figures, abs=1e-4)


@pytest.mark.slow
@pytest.mark.parametrize("run", PREDICTED)
def test_a_run_predicts_the_same_numbers(run: str, attribune: Attribune) -> None:
    assert attribune("predict", run, "new.csv", "--output", "found.csv")[0] == 0
    assert_same(read("found.csv"), read(PREDICTED[run]))


@pytest.mark.slow
@pytest.mark.parametrize("run", [run for run in RUNS if run != "written"])
def test_a_run_predicts_its_test_rows_as_it_did(run: str, attribune: Attribune) -> None:
    stored = pd.read_parquet(Path(run, "test_predictions.parquet"))
    assert attribune("predict", run, "reviews.csv", "--output", "found.csv")[0] == 0
    found = read("found.csv").iloc[stored["row"]].reset_index(drop=True)
    assert found["stars"].tolist() == stored["true_stars"].tolist()
    names = [name for name in stored.columns if name.startswith("pr")]
    assert_same(found[names], stored[names])


@pytest.mark.slow
def test_a_run_that_writes_goes_on_writing(attribune: Attribune) -> None:
    stored = pd.read_parquet("written/test_predictions.parquet")
    rows = read("reviews.csv").iloc[stored["row"]].to_dict("list")
    assert rows["text"] == stored["true_text"].tolist()
    code, out, _ = attribune("generate", "written", "--attribute", "user=u1", "--max-new-tokens", "4")
    assert code == 0
    assert json.loads(out)["text"]


@pytest.mark.slow
def test_an_interrupted_run_goes_on(attribune: Attribune) -> None:
    before = Path("stopped/log.jsonl").read_text().splitlines()
    code, out, err = attribune("train", "--config", "stopped/recipe.yaml", "--output", "stopped", "--resume")
    assert code == 0
    assert "resuming from step 6 of 2400" in err
    assert out.startswith("validation, 12 rows\n")
    after = [json.loads(line) for line in Path("stopped/log.jsonl").read_text().splitlines()]
    assert after[: len(before) - 1] == [json.loads(line) for line in before[:-1]]
    steps = [line["step"] for line in after if "loss" in line]
    assert steps[0] == 6
    assert steps == sorted(set(steps))
    assert not Path("stopped/checkpoints").exists()
    assert attribune("predict", "stopped", "new.csv", "--output", "found.csv")[0] == 0
    assert len(read("found.csv")) == len(read("new.csv"))


@pytest.mark.slow
def test_a_run_is_continued(attribune: Attribune) -> None:
    words = ("--text", "text", "--label", "stars", "--attributes", "user", "--output", "again", "--epochs", "1")
    assert attribune("train", "reviews.csv", "--continue", "continued", *words)[0] == 0
    assert attribune("describe", "again")[0] == 0


def test_a_folder_of_parts_is_known_to_be_finished(attribune: Attribune) -> None:
    files = {path: (path.read_bytes(), path.stat().st_mtime_ns) for path in Path("parts").iterdir()}
    code, _, err = attribune("predict", "injector", "new.csv", "reviews.csv", "--output", "parts")
    assert code == 0
    assert "finished already: 132 rows in 2 parts" in err
    assert {path: (path.read_bytes(), path.stat().st_mtime_ns) for path in Path("parts").glob("[!.]*")} == files


@pytest.mark.slow
def test_a_missing_part_is_made_again(attribune: Attribune) -> None:
    (part, *_) = sorted(Path("parts").glob("part-*.parquet"))
    expected = pd.read_parquet(part)
    part.unlink()
    Path("parts/_summary.json").unlink()
    assert attribune("predict", "injector", "new.csv", "reviews.csv", "--output", "parts")[0] == 0
    found = pd.read_parquet(part)
    names = [name for name in expected.columns if name.startswith("probability")]
    np.testing.assert_allclose(found[names], expected[names], rtol=0, atol=1e-6)


@needs_lab
@pytest.mark.slow
def test_the_table_of_a_benchmark_is_the_same(attribune: Attribune) -> None:
    code, out, _ = attribune("benchmark", "table", "benchmark", "--format", "markdown")
    assert code == 0
    assert out == Path("benchmark_table.md").read_text()


@needs_lab
@pytest.mark.slow
def test_a_benchmark_is_known_to_be_finished(attribune: Attribune) -> None:
    code, out, _ = attribune("benchmark", "status", "benchmark")
    assert code == 0
    cells = {path: path.stat().st_mtime_ns for path in Path("benchmark").rglob("cell.json")}
    assert len(cells) == 12
    assert "12" in out
    words = ("benchmark", "run", "benchmark/experiment.yaml", "--output", "benchmark")
    assert attribune(*words)[0] == 0
    assert {path: path.stat().st_mtime_ns for path in Path("benchmark").rglob("cell.json")} == cells


@pytest.mark.slow
def test_a_search_goes_on_with_one_more_trial(attribune: Attribune) -> None:
    before = {path: path.read_bytes() for path in Path("search/trials").rglob("[!a]*.json")}
    Path("base.yaml").write_text(yaml.safe_dump(json.loads(Path("search/search.json").read_text())["recipe"]))
    words = ("--space", "space.yaml", "--output", "search", "--trials", "3")
    code, out, err = attribune("search", "--config", "base.yaml", *words)
    assert code == 0
    assert "trial 3 of 3: " in err
    assert "trial 2 of 3: " not in err
    assert len([line for line in out.splitlines() if "training.learning_rate=" in line]) == 4  # and the best
    assert {path: path.read_bytes() for path in before} == before


@pytest.mark.slow
def test_an_enrolment_is_taken_back(attribune: Attribune) -> None:
    assert attribune("enrol", "enrolled", "--undo")[0] == 0
    assert attribune("predict", "enrolled", "new.csv", "--output", "found.csv")[0] == 0
    assert_same(read("found.csv"), read(PREDICTED["injector"]))


@pytest.mark.slow
def test_a_value_is_forgotten(attribune: Attribune) -> None:
    assert attribune("forget", "injector", "--attribute", "user", "--value", "u1")[0] == 0
    assert '"u1"' not in Path("injector/model/schema.json").read_text()


def test_an_encoder_of_new_values_is_left_out(attribune: Attribune) -> None:
    said = "encoded/model has encoders of new values, which are not used any more"
    read("reviews.csv").assign(user="u99")[:3].to_csv("u99.csv", index=False)
    code, _, err = attribune("enrol", "encoded", "u99.csv")
    assert code == 0
    assert err.count(said) == 1
    assert "values added: 1" in err
    code, _, err = attribune("predict", "encoded", "new.csv", "--output", "found.csv")
    assert code == 0
    assert said not in err
    assert "set_encoder" not in Path("encoded/model/config.json").read_text()
    assert_same(read("found.csv"), read(PREDICTED["encoded"]))


def test_a_recipe_with_encoders_of_new_values_says_what_to_leave_out(attribune: Attribune) -> None:
    code, _, err = attribune("train", "--config", "encoded/recipe.yaml", "--output", "again")
    assert code == 1
    assert "training: set_encoders is gone: `attribune enrol` learns new values without an encoder" in err
    words = ("--set", "training.set_encoders=false", "training.steps=1", "--no-baselines")
    assert attribune("train", "--config", "encoded/recipe.yaml", "--output", "again", *words)[0] == 0
    assert "set_encoders" not in Path("again/recipe.yaml").read_text()


def test_the_earlier_folders_themselves_are_left_alone() -> None:
    files = [path for path in FORMAT_1.rglob("*") if path.is_file()]
    assert not [path for path in files if path.name.endswith(".lock")], "a test worked on the folders, not on a copy"
    assert sum(path.stat().st_size for path in files) < 1_500_000

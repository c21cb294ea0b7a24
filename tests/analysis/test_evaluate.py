"""Evaluation of rows on which the run was trained."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import small_runs
from safetensors.numpy import load_file, save
from trained_runs import TrainedRuns

from attribune.analysis.evaluate import compare_runs, evaluate
from attribune.analysis.run_rows import rows_of_run
from attribune.apps.cli import main
from attribune.core.checksums import CheckedFiles
from attribune.runs.loading import load_run
from attribune.runs.stored_scores import StoredScores

pytestmark = pytest.mark.slow

ROWS = [row | {"text": f"{row['text']} n{number}"} for number, row in enumerate(small_runs.reviews(80))]


@pytest.fixture
def table(trained_runs: TrainedRuns) -> Path:
    return trained_runs.table(ROWS)


@pytest.fixture
def run(trained_runs: TrainedRuns) -> Path:
    return trained_runs("injector", "--no-baselines", rows=ROWS)


def test_rows_of_the_training_are_counted_and_show_nothing_of_the_attributes(run: Path, table: Path) -> None:
    """Of 80 rows, 64 are training rows: the others became validation and test rows."""
    found = evaluate(run, table)
    assert found.trained == 64
    assert any("64 rows have a text that is among the training texts of the run" in note for note in found.notes)
    assert "attributes help" not in found.verdict.text()
    assert "shown whether the attributes" not in found.verdict.text()
    page = rows_of_run(run, table)
    assert any("among the training texts" in note for note in page.notes)


def test_rows_that_were_held_out_are_not(run: Path, tmp_path: Path) -> None:
    held_out = sorted(map(int, load_rows(run)))
    small_runs.write_csv(tmp_path / "held_out.csv", [ROWS[row] for row in held_out])
    assert evaluate(run, tmp_path / "held_out.csv").trained == 0
    small_runs.write_csv(tmp_path / "other.csv", small_runs.reviews(20, seed=9))
    found = evaluate(run, tmp_path / "other.csv")
    assert found.trained == 0
    assert not any("training texts" in note for note in found.notes)


def test_nothing_is_said_where_the_training_table_is_gone(
    trained_runs: TrainedRuns, run: Path, table: Path, tmp_path: Path
) -> None:
    recipe = trained_runs.copy(run, tmp_path / "run") / "recipe.yaml"
    content = recipe.read_text().replace(str(table), str(tmp_path / "gone.csv"))
    CheckedFiles(recipe.parent).write({"recipe.yaml": content.encode()})
    assert load_run(recipe.parent)[0].data.train == str(tmp_path / "gone.csv")
    assert evaluate(recipe.parent, table).trained == 0


def test_a_continued_training_says_which_rows_it_was_trained_on(
    run: Path, table: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The rows of both trainings in one file, cut anew."""
    words = ["train", str(table), "--continue", str(run), "--epochs", "1", "--no-baselines"]
    assert main([*words, "--seed", "9", "--output", str(tmp_path / "run")]) == 0
    notes = capsys.readouterr().err
    held_out = set(load_rows(run))
    parts = StoredScores.read(tmp_path / "run").parts
    for part in ("validation", "test"):
        trained = sum(row not in held_out for row in parts[part]["rows"].tolist())
        assert 0 < trained <= len(ROWS)
        assert re.search(rf"{part}: {trained} rows? ha(s|ve) a text on which .*{run.name} was trained", notes)


def load_rows(run: Path) -> list[int]:
    return [row for part in StoredScores.read(run).parts.values() for row in part["rows"].tolist()]


def test_a_comparison_on_the_validation_rows_says_why(run: Path, tmp_path: Path, trained_runs: TrainedRuns) -> None:
    assert compare_runs(run, run).notes == []
    other = trained_runs.copy(run, tmp_path / "other")
    arrays = load_file(other / "test_logits.safetensors")
    CheckedFiles(other).write({"test_logits.safetensors": save({name: array[1:] for name, array in arrays.items()})})
    found = compare_runs(run, other)
    assert {pair["part"] for pair in found} == {"validation"}
    row = arrays["rows"][0] + 1
    expected = f"compared on the validation rows: 1 test row is in one of them only, such as row {row}"
    assert found.notes == [expected]
    assert expected in repr(found)

"""Evaluation of rows on which the run was trained."""

from __future__ import annotations

import csv
import re
from pathlib import Path

import pytest
import small_runs

from attribune.analysis.evaluate import evaluate
from attribune.analysis.run_rows import rows_of_run
from attribune.apps.cli import main
from attribune.runs.loading import load_run
from attribune.runs.stored_scores import StoredScores


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("evaluate")
    small_runs.save_backbone(folder / "backbone")
    rows = [row | {"text": f"{row['text']} n{number}"} for number, row in enumerate(small_runs.reviews(80))]
    small_runs.write_csv(folder / "train.csv", rows)
    words = small_runs.train_command(folder / "train.csv", folder / "run", backbone=folder / "backbone")
    assert main([*words, "--no-baselines"]) == 0
    return folder / "run"


def test_rows_of_the_training_are_counted_and_show_nothing_of_the_attributes(run: Path) -> None:
    """Of 80 rows, 64 are training rows: the others became validation and test rows."""
    found = evaluate(run, run.parent / "train.csv")
    assert found.trained == 64
    assert any("64 rows have a text that is among the training texts of the run" in note for note in found.notes)
    assert "attributes help" not in found.verdict.text()
    assert "shown whether the attributes" not in found.verdict.text()
    page = rows_of_run(run, run.parent / "train.csv")
    assert any("among the training texts" in note for note in page.notes)


def test_rows_that_were_held_out_are_not(run: Path, tmp_path: Path) -> None:
    with (run.parent / "train.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    held_out = sorted(map(int, load_rows(run)))
    small_runs.write_csv(tmp_path / "held_out.csv", [rows[row] for row in held_out])
    assert evaluate(run, tmp_path / "held_out.csv").trained == 0
    small_runs.write_csv(tmp_path / "other.csv", small_runs.reviews(20, seed=9))
    found = evaluate(run, tmp_path / "other.csv")
    assert found.trained == 0
    assert not any("training texts" in note for note in found.notes)


def test_nothing_is_said_where_the_training_table_is_gone(run: Path, tmp_path: Path) -> None:
    table = run.parent / "train.csv"
    small_runs.write_csv(tmp_path / "rows.csv", small_runs.reviews(20))
    moved = table.rename(run.parent / "moved.csv")
    try:
        assert evaluate(run, tmp_path / "rows.csv").trained == 0
    finally:
        moved.rename(table)
    assert load_run(run)[0].data.train == str(table)


def test_a_continued_training_says_which_rows_it_was_trained_on(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The rows of both trainings in one file, cut anew."""
    words = ["train", str(run.parent / "train.csv"), "--continue", str(run), "--epochs", "1", "--no-baselines"]
    assert main([*words, "--seed", "9", "--output", str(tmp_path / "run")]) == 0
    notes = capsys.readouterr().err
    with (run.parent / "train.csv").open(encoding="utf-8", newline="") as file:
        table = list(csv.DictReader(file))
    held_out = set(load_rows(run))
    parts = StoredScores.read(tmp_path / "run").parts
    for part in ("validation", "test"):
        trained = sum(row not in held_out for row in parts[part]["rows"].tolist())
        assert 0 < trained <= len(table)
        assert re.search(rf"{part}: {trained} rows? ha(s|ve) a text on which .*run was trained", notes)


def load_rows(run: Path) -> list[int]:
    return [row for part in StoredScores.read(run).parts.values() for row in part["rows"].tolist()]

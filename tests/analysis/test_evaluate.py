"""Evaluation of rows on which the run was trained."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import small_runs
from commands import Fails
from safetensors.numpy import load_file, save
from trained_runs import TrainedRuns

from attribune.analysis.ablation import ablate
from attribune.analysis.evaluate import compare_runs, evaluate
from attribune.analysis.run_rows import rows_of_run
from attribune.apps.cli import main
from attribune.apps.report.explanation_page import explain
from attribune.core.checksums import CheckedFiles
from attribune.errors import ConfigError, DataError
from attribune.runs.folder import RunFolder
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
    assert any(note.startswith("the verdict says nothing of the attributes, since over 10%") for note in found.notes)
    assert "attributes help" not in found.verdict.text()
    assert "shown whether the attributes" not in found.verdict.text()
    page = rows_of_run(run, table)
    assert any("among the training texts" in note for note in page.notes)


def test_findings_are_the_sentences_of_the_verdict_in_python_and_in_the_file(run: Path, tmp_path: Path) -> None:
    small_runs.write_csv(tmp_path / "other.csv", small_runs.reviews(20, seed=9))
    found = evaluate(run, tmp_path / "other.csv")
    assert [one.text for one in found.findings] == found.verdict.sentences()
    assert {one.code for one in found.findings} >= {"hidden-overstates", "sign-of-differences"}
    stored = RunFolder(run).read_results()
    codes = [one.code for one in stored.findings]
    of_verdict = [one.code for one in stored.verdict.findings()]
    assert codes[: len(of_verdict)] == of_verdict
    assert len(codes) == len(of_verdict) + len(stored.notes)
    assert {"rows-read", "split-counts", "class-counts"} < set(codes)
    written = json.loads((run / "metrics.json").read_text(encoding="utf-8"))["findings"]
    assert [one["text"] for one in written] == [one.text for one in stored.findings]
    assert all(set(one) == {"code", "values", "text"} for one in written)


def test_rows_that_were_held_out_are_not(run: Path, tmp_path: Path) -> None:
    held_out = sorted(map(int, load_rows(run)))
    small_runs.write_csv(tmp_path / "held_out.csv", [ROWS[row] for row in held_out])
    assert evaluate(run, tmp_path / "held_out.csv").trained == 0
    small_runs.write_csv(tmp_path / "other.csv", small_runs.reviews(20, seed=9))
    found = evaluate(run, tmp_path / "other.csv")
    assert found.trained == 0
    assert not any("training texts" in note or "says nothing" in note for note in found.notes)


def test_it_is_said_that_the_training_table_is_gone(
    trained_runs: TrainedRuns, run: Path, table: Path, tmp_path: Path
) -> None:
    recipe = trained_runs.copy(run, tmp_path / "run") / "recipe.yaml"
    content = recipe.read_text().replace(str(table), str(tmp_path / "gone.csv"))
    CheckedFiles(recipe.parent).write({"recipe.yaml": content.encode()})
    assert load_run(recipe.parent)[0].data.train == str(tmp_path / "gone.csv")
    found = evaluate(recipe.parent, table)
    assert found.trained == 0
    assert f"the training rows of the run, from {tmp_path / 'gone.csv'}, cannot be read again" in repr(found)
    assert not any("cannot be read again" in note for note in evaluate(run, table).notes)


def test_other_labels_show_nothing_of_the_attributes(run: Path, tmp_path: Path) -> None:
    others = [{**row, "stars": "9"} for row in small_runs.reviews(20, seed=9)]
    with pytest.raises(DataError, match=r"no row has a label that a training row had: '9' \(20\); the run predicts '"):
        evaluate(run, small_runs.write_csv(tmp_path / "all.csv", others))
    known = small_runs.reviews(40, seed=9)
    found = evaluate(run, small_runs.write_csv(tmp_path / "many.csv", [*known, *others]))
    assert "20 labels are of no training row, and counted as wrong: '9' (20)" in found.notes
    assert any("nothing of the attributes, since labels of no training row are over 10%" in one for one in found.notes)
    assert found.verdict.attributes is None
    few = evaluate(run, small_runs.write_csv(tmp_path / "few.csv", [*known, *others[:1]]))
    assert few.verdict.attributes is not None


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


@pytest.mark.parametrize("scored", [explain, ablate])
def test_other_verbs_say_it_too(scored: Callable[..., dict[str, Any]], run: Path, table: Path) -> None:
    notes = scored(run, table)["notes"]
    assert any("64 rows have a text that is among the training texts of the run" in note for note in notes)


def test_a_run_is_scored_on_its_own_test_rows(run: Path, table: Path) -> None:
    stored = StoredScores.read(run).parts["test"]
    found = evaluate(run)
    assert found.labelled.numbers.tolist() == stored["rows"].tolist()
    np.testing.assert_allclose(found.logits, stored["logits"], atol=1e-5)
    assert found.trained == 0
    assert found.notes[0] == f"no table is given, so these are the 8 test rows of the run, from {table}"
    record = explain(run, row=3)
    assert record["rows"] == ablate(run)["rows"] == 8
    assert record["data"] == str(table)
    assert record["row"]["text"] == ROWS[2]["text"]
    with pytest.raises(ConfigError, match="encoding says how a table is read, and there is none: give data"):
        evaluate(run, encoding="utf-8")


@pytest.mark.parametrize("verb", ["explain", "ablate", "report"])
def test_the_table_of_a_run_is_no_output(fails: Fails, verb: str, run: Path, table: Path) -> None:
    before = table.read_bytes()
    message = fails(verb, run, "--output", table)
    assert f"{table} is the table that is read: choose another output file" in message
    assert table.read_bytes() == before


@pytest.mark.parametrize("change", ["gone", "other labels", "fewer rows", "no column"])
def test_own_rows_that_cannot_be_read_again(
    change: str, trained_runs: TrainedRuns, run: Path, table: Path, tmp_path: Path
) -> None:
    """The table of a run was removed or changed: one message asks for a table."""
    recipe, other = trained_runs.copy(run, tmp_path / "run") / "recipe.yaml", tmp_path / "other.csv"
    (recipe.parent / "checksums.json").unlink()
    recipe.write_text(recipe.read_text().replace(str(table), str(other)))
    changed = {
        "other labels": [row | {"stars": "good"} for row in ROWS],
        "fewer rows": ROWS[:4],
        "no column": [{"text": row["text"], "user": row["user"]} for row in ROWS],
    }
    if change in changed:
        small_runs.write_csv(other, changed[change])
    for scored in (evaluate, explain, ablate):
        with pytest.raises(DataError, match=r"the test rows of .*cannot be read again: give a table .*other.csv"):
            scored(recipe.parent)


def test_words_that_mean_no_label_are_named(run: Path, tmp_path: Path) -> None:
    rows = [row | {"stars": "None" if number % 4 == 0 else row["stars"]} for number, row in enumerate(ROWS)]
    (note, *_) = evaluate(run, small_runs.write_csv(tmp_path / "none.csv", rows)).notes
    assert note.startswith("left out of 80 rows: 20 with no text or no label: labels 'None' (20), which mean missing")


def test_rows_outside_the_scale_are_left_out_as_in_the_training(trained_runs: TrainedRuns, tmp_path: Path) -> None:
    rows = [row | {"look": "four" if number % 40 == 3 else row["look"]} for number, row in enumerate(ROWS)]
    options = ("data.label=look", "task.kind=rating")
    run = trained_runs("injector", *options, "data.bad_labels=drop", "--no-baselines", rows=rows)
    table = small_runs.write_csv(tmp_path / "rows.csv", rows)
    found = evaluate(run, table)
    assert found.rows == 78
    assert found.labelled.numbers.tolist() == [number for number in range(80) if number % 40 != 3]
    said = "2 rows left out for a label outside the scale, as in the training (data.bad_labels=drop): 'four' (2, first"
    assert any(said in note for note in found.notes)
    assert ablate(run, table)["rows"] == 78
    strict = trained_runs("injector", *options, "--no-baselines", rows=ROWS)
    with pytest.raises(DataError, match=r"rows\.csv: column 'look': the label of row 4 is 'four'"):
        evaluate(strict, table)


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
    differs = f"1 test row is in one of them only, such as row {row}, since `forget` removed rows of {other}"
    expected = f"compared on the validation rows: {differs}"
    assert found.notes == [expected]
    assert expected in repr(found)

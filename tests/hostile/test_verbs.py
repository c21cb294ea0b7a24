"""Output folders that are taken, and tables that a finished run cannot score."""

from __future__ import annotations

import errno
import os
import shutil
from pathlib import Path

import pytest
import small_runs
from commands import Attribune, Fails, Words
from trained_runs import ROWS, TrainedRuns

from attribune.apps.cli import main

pytestmark = pytest.mark.slow

WITHOUT_ATTRIBUTES = [{"text": row["text"], "stars": row["stars"]} for row in ROWS]


def test_a_run_is_never_overwritten(fails: Fails, runs: Path, backbone: Path, trained_runs: TrainedRuns) -> None:
    before = (runs / "injector" / "metrics.json").read_bytes()
    words = small_runs.train_command(trained_runs.table(ROWS), runs / "injector", backbone=backbone)
    assert "has a finished run: choose another output folder" in fails(*words)
    message = fails(*words, "training.weight_decay=0.5", "--resume", "--epochs", "3")
    assert "training.epochs: 1.0 in the run, 3.0 now" in message
    assert "training.weight_decay: 0.01 in the run, 0.5 now" in message
    assert (runs / "injector" / "metrics.json").read_bytes() == before


def test_a_finished_run_is_shown_again_and_takes_more_methods(
    attribune: Attribune, trained_runs: TrainedRuns, tmp_path: Path
) -> None:
    run = trained_runs.copy(trained_runs("injector"), tmp_path / "run")
    words = small_runs.train_command(trained_runs.table(ROWS), run, backbone=trained_runs.backbone())
    code, out, err = attribune(*words, "--resume")
    assert (code, "finished already" in err, out[:18]) == (0, True, "validation, 9 rows")
    code, out, err = attribune(*words, "--resume", "--compare", "adapter")
    assert (code, "finished already" in err) == (0, False)
    assert "injector against adapter, test accuracy" in out
    assert (run / "compare" / "adapter" / "metrics.json").is_file()


def test_resume_without_a_run_begins_one(attribune: Attribune, train: Words, tmp_path: Path) -> None:
    assert attribune(*train(None, "--resume", "--no-baselines", method="linear"))[0] == 0
    assert (tmp_path / "run" / "metrics.json").is_file()


def test_foreign_folders_and_files_are_left_alone(fails: Fails, train: Words, tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "letter").write_text("dear")
    assert "is not empty and holds no run" in fails(*train())
    assert (tmp_path / "run" / "letter").read_text() == "dear"
    (tmp_path / "file").write_text("dear")
    assert "is a file" in fails(*train(None, "--output", tmp_path / "file"))
    assert "cannot be written" in fails(*train(None, "--output", tmp_path / "file" / "run"))


def test_changed_data_are_noticed_on_resume(fails: Fails, runs: Path, backbone: Path, tmp_path: Path) -> None:
    data = shutil.copy(runs / "data.csv", tmp_path / "data.csv")
    words = small_runs.train_command(data, tmp_path / "run", backbone=backbone, method="linear")
    assert main([*words, "--no-baselines"]) == 0
    (tmp_path / "run" / "metrics.json").unlink()
    Path(data).write_text(Path(data).read_text().replace("great", "grand", 1))
    assert "the data are not those with which" in fails(*words, "--resume")
    assert (tmp_path / "run" / "recipe.yaml").is_file()


@pytest.mark.parametrize("verb", ["evaluate", "predict"])
def test_a_missing_column_is_named_with_the_cure(fails: Fails, runs: Path, tmp_path: Path, verb: str) -> None:
    data = small_runs.write_csv(tmp_path / "d.csv", WITHOUT_ATTRIBUTES)
    output = ("--output", tmp_path / "p.csv") if verb == "predict" else ()
    message = fails(verb, runs / "injector", data, *output)
    assert "d.csv has no column 'user'" in message
    assert "add it with empty cells" in message
    assert not (tmp_path / "p.csv").exists()


def test_a_method_that_reads_no_attributes_needs_no_attribute_columns(
    attribune: Attribune, runs: Path, tmp_path: Path
) -> None:
    data = small_runs.write_csv(tmp_path / "d.csv", WITHOUT_ATTRIBUTES)
    with_columns = attribune("evaluate", runs / "none", runs / "data.csv", "--json")
    assert attribune("evaluate", runs / "none", data, "--json") == with_columns
    assert attribune("predict", runs / "none", data, "--output", tmp_path / "p.csv")[0] == 0


def test_no_usable_row(fails: Fails, runs: Path, tmp_path: Path) -> None:
    data = small_runs.write_csv(tmp_path / "d.csv", [{**row, "stars": ""} for row in ROWS])
    assert "no row has both a text and a label" in fails("evaluate", runs / "injector", data)


def test_values_never_seen_are_counted(attribune: Attribune, runs: Path, tmp_path: Path) -> None:
    data = small_runs.write_csv(tmp_path / "d.csv", [{**row, "user": "nobody"} for row in ROWS])
    code, out, err = attribune("evaluate", runs / "injector", data)
    assert code == 0
    assert "values not in the vocabulary: 90" in err
    rows = [line for line in out.splitlines() if line.startswith(("as given ", "attributes hidden "))]
    given, hidden = (line.split()[2:] for line in rows if " against " not in line)
    assert given == hidden  # what nobody has seen is as good as hidden


def test_what_is_no_run_is_named(fails: Fails, runs: Path) -> None:
    for verb in (("evaluate", runs, runs / "data.csv"), ("describe", runs), ("compare", runs / "none", runs)):
        assert str(runs) in fails(*verb)
    assert "no such folder" in fails("describe", runs / "nothing")


def test_a_column_called_prediction_is_not_replaced(
    fails: Fails, attribune: Attribune, runs: Path, tmp_path: Path
) -> None:
    assert attribune("predict", runs / "none", runs / "data.csv", "--output", tmp_path / "p.csv")[0] == 0
    message = fails("predict", runs / "none", tmp_path / "p.csv", "--output", tmp_path / "q.csv")
    assert "column 'prediction' already" in message
    assert os.listdir(tmp_path) == ["p.csv"]


def test_an_earlier_output_stays_when_prediction_fails(
    fails: Fails, runs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "p.csv").write_text("dear")

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr("attribune.data.writing._Csv.write", full)
    message = fails("predict", runs / "none", runs / "data.csv", "--output", tmp_path / "p.csv")
    assert "p.csv cannot be written (No space left on device)" in message
    assert os.listdir(tmp_path) == ["p.csv"]
    assert (tmp_path / "p.csv").read_text() == "dear"

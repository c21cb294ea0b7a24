"""What `forget` leaves of a value: nothing in vectors, names and stored scores, wherever its table has gone."""

from __future__ import annotations

import shutil
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import small_runs
from lab_methods import needs_lab
from safetensors.numpy import load_file, save_file
from trained_runs import ROWS, TrainedRuns

from attribune.apps.cli import main
from attribune.core.checksums import CHECKSUMS, CheckedFiles
from attribune.data.tables import read_table
from attribune.export.export import export
from attribune.runs.card import run_card
from attribune.runs.folder import RunFolder
from attribune.runs.loading import load_run
from attribune.runs.stored_scores import StoredScores, rows_of_training
from attribune.values.enrol import enrol
from attribune.values.forget import forget

pytestmark = pytest.mark.slow

USERS = sorted({row["user"] for row in ROWS})
ATTRIBUTES = ("--multi-label", "tags:;", "--numeric", "price")
EXHAUSTIVE = pytest.mark.exhaustive


@pytest.fixture
def copy(trained_runs: TrainedRuns, tmp_path: Path) -> Callable[[str], Path]:
    """Factory: the folder of a finished run of a method, with the table that it names beside it."""

    def make(method: str) -> Path:
        shared = trained_runs.table(ROWS)
        table = Path(shutil.copy(shared, tmp_path / "data.csv"))
        more = ["method.trials=1"] if method == "automl" else ATTRIBUTES
        run = trained_runs.copy(trained_runs(method, *more, "--no-baselines"), tmp_path / "run")
        recipe = (run / "recipe.yaml").read_text(encoding="utf-8")
        assert str(shared) in recipe
        CheckedFiles(run).write({"recipe.yaml": recipe.replace(str(shared), str(table)).encode()})
        return tmp_path

    return make


def owners(run: Path, part: str) -> list[str]:
    """The users of the rows whose predictions are stored."""
    return [ROWS[row]["user"] for row in small_runs.scored_rows(run, part)]


@pytest.mark.parametrize(
    "method",
    [
        "injector",
        "linear",
        *(pytest.param(name, marks=EXHAUSTIVE) for name in ("boosting", "automl", "upa", "tokens", "chim")),
    ],
)
def test_a_run_whose_last_value_is_forgotten_still_predicts(method: str, copy: Callable[[str], Path]) -> None:
    run = copy(method) / "run"
    assert forget(run, "user", USERS).places == []
    model = load_run(run)[1].model
    assert list(model.schema["user"].values) == []
    columns = {name: [row[name] for row in ROWS[:9]] for name in ("text", "user", "tags", "price")}
    logits = load_run(run)[1].logits(columns)[0]
    assert np.isfinite(logits).all()
    unknown = load_run(run)[1].logits({**columns, "user": [None] * 9})[0]
    np.testing.assert_array_equal(logits, unknown)
    assert owners(run, "test") == owners(run, "validation") == []


@pytest.mark.parametrize("fate", ["gone", "sorted", "without the person", "as it was"])
@pytest.mark.parametrize(
    "method", ["injector", "linear", *(pytest.param(name, marks=EXHAUSTIVE) for name in ("boosting", "automl"))]
)
def test_the_persons_scores_go_whatever_became_of_the_table(
    method: str, fate: str, copy: Callable[[str], Path]
) -> None:
    folder = copy(method)
    run, table = folder / "run", folder / "data.csv"
    kept = {part: [user for user in owners(run, part) if user != "u3"] for part in ("validation", "test")}
    removed = sum(len(owners(run, part)) - len(kept[part]) for part in kept)
    assert removed
    if fate == "gone":
        table.unlink()
    elif fate != "as it was":
        rows = sorted(ROWS, key=lambda row: row["text"])
        left = [row for row in ROWS if row["user"] != "u3"]
        small_runs.write_csv(table, rows if fate == "sorted" else left)
    forgotten = forget(run, "user", ["u3"])
    assert (forgotten.predictions, forgotten.undecided) == (removed, [])
    assert {part: owners(run, part) for part in kept} == kept
    forget(run, "user", ["u4"])  # the marks of the others have moved with their rows
    for part, users in kept.items():
        assert owners(run, part) == [user for user in users if user != "u4"]


def test_a_run_without_marks_and_a_table_that_has_changed_is_an_error(
    copy: Callable[[str], Path], capsys: pytest.CaptureFixture[str]
) -> None:
    folder = copy("linear")
    run = folder / "run"
    (run / CHECKSUMS).unlink()  # which the versions without marks did not write
    for part in ("validation", "test"):
        arrays = load_file(run / f"{part}_logits.safetensors")
        save_file({n: a for n, a in arrays.items() if not n.startswith("values.")}, run / f"{part}_logits.safetensors")
    small_runs.write_csv(folder / "data.csv", sorted(ROWS, key=lambda row: row["text"]))
    assert main(["forget", str(run), "--attribute", "user", "--value", "u3"]) == 1
    message = capsys.readouterr().err
    assert "which are the value's cannot be told" in message
    assert "was changed since: its labels are not those of the predictions): remove both files" in message


def test_scored_rows_of_a_forgotten_value_do_not_count_as_training_rows(copy: Callable[[str], Path]) -> None:
    """Nothing is left that tells them from training rows, so that their number is subtracted."""
    path = copy("linear")
    folder, table = RunFolder(path / "run"), read_table(path / "data.csv")
    learned = folder.read_results().rows["train"]
    scored = table.select(StoredScores.read(folder.path).parts["test"]["rows"])
    assert (rows_of_training(folder, table), rows_of_training(folder, scored)) == (learned, 0)
    assert forget(folder.path, "user", ["u3"]).predictions > 0
    assert (rows_of_training(folder, table), rows_of_training(folder, scored)) == (learned, 0)


def test_values_that_stand_in_files_of_the_run_by_chance(copy: Callable[[str], Path], tmp_path: Path) -> None:
    run = copy("injector") / "run"
    values = ["1", "0", "true", "text", "stars", "model", "john", "john smith"]
    rows = [{**row, "user": values[number % len(values)]} for number, row in enumerate(ROWS[:16])]
    enrol(run, small_runs.write_csv(tmp_path / "new.csv", rows), steps=1)
    for value in values[:-1]:
        done = forget(run, "user", [value])
        assert (len(done.models), done.places, done.undecided) == (1, [], []), value
    assert "john smith" in load_run(run)[1].model.schema["user"].values


@needs_lab
def test_words_of_texts_that_name_a_value_are_said(
    trained_runs: TrainedRuns, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = [row | {"user": "zelda", "text": f"{row['text']} says Zelda"} for row in ROWS[::6]] + ROWS
    words = small_runs.train_command(trained_runs.table(rows), Path("-"), backbone="cnn", method="upa")
    run = trained_runs.copy(trained_runs.trained([*words, "--compare", "linear"]), tmp_path / "run")
    export(run, assignments={"user": ["u4"]})
    assert main(["forget", str(run), "--attribute", "user", "--value", "zelda"]) == 0
    said = capsys.readouterr().err
    tokenizers = [run / folder / "tokenizer.json" for folder in ("model", "exported")]
    for path in (*tokenizers, run / "compare" / "linear" / "model" / "linear.json"):
        assert "zelda" in path.read_text()
        assert f"{path} names it in its words of the training texts, which stay" in said
    assert f"no other file below {run} contains the value any more" in said


@pytest.mark.parametrize("method", ["injector", "linear"])
def test_the_card_is_kept_and_what_it_has_of_the_value_is_said(
    method: str, copy: Callable[[str], Path], capsys: pytest.CaptureFixture[str]
) -> None:
    run = copy(method) / "run"
    recipe = (run / "recipe.yaml").read_text(encoding="utf-8")
    CheckedFiles(run).write({"recipe.yaml": recipe.replace("/data.csv", "/u3.csv").encode()})
    card, folder = run / "model" / "README.md", RunFolder(run)
    folder.write_card(run_card(folder.read_recipe(), folder.read_schema(), folder.read_results()))
    assert main(["forget", str(run), "--attribute", "user", "--value", "u3"]) == 0
    assert "u3.csv" in card.read_text()
    said = capsys.readouterr().err
    assert f"{card} names it in its names of tables and of the backbone, which stay" in said
    assert f"{run / 'recipe.yaml'} names it in its paths, which stay" in said
    card.write_text(f"{card.read_text()}\nWith thanks to u4.")
    assert forget(run, "user", ["u5"]).places == []
    assert forget(run, "user", ["u4"]).places == [str(card)]
    assert card.read_text().endswith("With thanks to u4.")


def test_files_that_cannot_be_searched_are_named_beside_those_that_have_the_value(
    copy: Callable[[str], Path], capsys: pytest.CaptureFixture[str]
) -> None:
    run = copy("linear") / "run"
    (run / "photo.png").write_bytes(b"\x89PNG\r\n\x1a\n" + bytes(9))
    (run / "u3.txt").write_text("x")
    assert main(["forget", str(run), "--attribute", "user", "--value", "u3"]) == 1
    said = capsys.readouterr().err
    assert f"the value is still found in {run / 'u3.txt'}: look whether" in said
    assert f"{run / 'photo.png'} is not searched, since it is not of a type that is read" in said
    assert "no file below" not in said


EXPORTS = {"adapter": "exported", "torch": "exported.pt2", "onnx": "exported.onnx"}
ARCHIVES = [pytest.param(kind, is_whole, marks=EXHAUSTIVE) for kind in ("torch", "onnx") for is_whole in (False, True)]


@pytest.mark.parametrize(("kind", "is_whole"), [("adapter", False), *ARCHIVES])
def test_an_export_for_a_value_is_named(kind: Any, is_whole: bool, copy: Callable[[str], Path]) -> None:
    pytest.importorskip("onnxscript")
    run = copy("injector") / "run"
    export(run, kind=kind, assignments=None if is_whole else {"user": ["u3"]})
    if not is_whole:
        assert forget(run, "user", ["u4"]).places == []
    done = forget(run, "user", ["u3"])
    assert (done.places, done.undecided) == ([str(run / EXPORTS[kind])], [])
    assert any("is an export with its vectors" in note for note in done.notes)


@pytest.mark.parametrize(
    ("kind", "method"),
    [
        ("adapter", "injector"),
        *(pytest.param(kind, "concat-text", marks=EXHAUSTIVE) for kind in ("onnx", "torch")),
        *(pytest.param(kind, "tokens", marks=EXHAUSTIVE) for kind in ("onnx", "torch")),
    ],
)
def test_an_export_for_a_value_holds_no_vector_of_another(
    kind: Any, method: str, copy: Callable[[str], Path], tmp_path: Path
) -> None:
    pytest.importorskip("onnxscript")
    run = copy(method) / "run"
    model = load_run(run)[1].model
    (name, *_) = [name for name, attribute in model.values.owners().items() if attribute == "user"]
    vectors = model.get_parameter(name).detach().numpy().astype("<f4")
    path = tmp_path / EXPORTS[kind]
    export(run, path, kind=kind, assignments={"user": ["u3"]})
    content = _content(path)
    held = [vector.tobytes() in content for vector in vectors]
    fixed = model.schema["user"].values.ids(["u3"])[0]
    assert held[fixed] or kind == "adapter"  # which holds what was made of it
    assert not any(there for number, there in enumerate(held) if number not in (0, fixed))


def _content(path: Path) -> bytes:
    """What is in all files of an export, and in those of an archive."""
    if path.is_dir():
        return b"".join(file.read_bytes() for file in path.rglob("*") if file.is_file())
    if not zipfile.is_zipfile(path):
        return path.read_bytes()
    with zipfile.ZipFile(path) as archive:
        return b"".join(archive.read(member) for member in archive.namelist())

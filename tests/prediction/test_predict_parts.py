"""Prediction into a folder of parts: the same rows as one file, whatever interrupts it."""

from __future__ import annotations

import io
import json
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
import small_runs
from commands import Outcome
from processors import needs_int8
from reporters import Notes
from trained_runs import TrainedRuns

from attribune.backbones import int8
from attribune.data.table_files import table_batches
from attribune.data.tables import read_table
from attribune.errors import AttribuneWarning, DataError
from attribune.functional.int8 import int8_linear
from attribune.prediction import parts
from attribune.prediction.parts import FilePart, Job, Mark, PartsFolder, read_parts
from attribune.prediction.predict import predict
from attribune.runs.loading import load_predictor

pytestmark = pytest.mark.slow

ROWS = small_runs.reviews(150, seed=5)
ROWS[3]["user"] = ROWS[120]["user"] = "nobody"


@pytest.fixture
def run(trained_runs: TrainedRuns) -> Path:
    return trained_runs("injector")


@pytest.fixture(autouse=True)
def _threads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("attribune.prediction.parts._NOTE_INTERVAL", float("inf"))  # no notes of a slow machine


@pytest.fixture
def files(tmp_path: Path) -> list[Path]:
    (tmp_path / "in").mkdir()
    parts = {"a.csv": ROWS[:97], "b.csv": ROWS[97:140], "c.csv": ROWS[140:]}
    return [small_runs.write_csv(tmp_path / "in" / name, rows) for name, rows in parts.items()]


def assert_same_rows(folder: Path, file: Path) -> None:
    """The columns of the input are equal, probabilities but for the sums of other batches."""
    found, expected = pd.read_parquet(folder), pd.DataFrame(read_table(file).to_dict())
    assert list(found.columns) == list(expected.columns)
    numbers = [name for name in expected if name.startswith("probability")]
    words = [name for name in expected if name not in numbers]
    pd.testing.assert_frame_equal(found[words], expected[words], check_dtype=False)
    np.testing.assert_allclose(found[numbers].to_numpy(), expected[numbers].to_numpy(dtype=float), atol=1e-6)


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.glob("part-*"))


@pytest.mark.parametrize("ending", ["csv", "jsonl", "parquet"])
def test_a_folder_holds_the_rows_of_one_file(run: Path, tmp_path: Path, ending: str) -> None:
    inputs = [tmp_path / f"{name}.{ending}" for name in "ab"]
    for path, rows in zip(inputs, (ROWS[:97], ROWS[97:]), strict=True):
        frame = pd.DataFrame(rows)
        if ending == "csv":
            frame.to_csv(path, index=False)
        elif ending == "jsonl":
            frame.to_json(path, orient="records", lines=True)
        else:
            frame.to_parquet(path)
    notes, single = Notes(), Notes()
    assert predict(run, inputs, tmp_path / "one.parquet", reporter=single) == 150
    assert predict(run, inputs, tmp_path / "parts", part_rows=24, reporter=notes) == 150
    assert_same_rows(tmp_path / "parts", tmp_path / "one.parquet")
    starts = [(1, 1), (1, 25), (1, 49), (1, 73), (1, 97), (2, 1), (2, 25), (2, 49)]
    assert names(tmp_path / "parts") == [f"part-{file:05}-{row:012}.parquet" for file, row in starts]
    assert notes.lines == [*single.lines, f"150 rows in 8 parts written to {tmp_path / 'parts'}"]
    assert single.lines == ["attribute 'user' in 150 rows: values not in the vocabulary: 2"]
    summary = json.loads((tmp_path / "parts" / "_summary.json").read_text())
    assert summary["files"] == {str(inputs[0]): 97, str(inputs[1]): 53}
    assert (summary["rows"], summary["parts"], summary["attributes"]["user"]["unseen"]) == (150, 8, 2)


def test_rows_without_a_text_are_named(run: Path, tmp_path: Path) -> None:
    rows = [row | ({"text": " "} if number % 7 == 2 else {}) for number, row in enumerate(ROWS[:50])]
    first = small_runs.write_csv(tmp_path / "a.csv", rows)
    second = small_runs.write_csv(tmp_path / "b.csv", ROWS[:9])
    third = small_runs.write_csv(tmp_path / "c.csv", [*ROWS[:9], ROWS[9] | {"text": ""}])
    one, parts = Notes(), Notes()
    predict(run, [first, second, third], tmp_path / "one.parquet", reporter=one)
    predict(run, [first, second, third], tmp_path / "parts", part_rows=20, reporter=parts)
    said = "no text ({}): such a prediction is not read from a text"
    assert [line for line in one.lines if "no text" in line] == [
        f"{first}: 7 rows have {said.format('rows 3, 10, 17, 24, 31, ...')}",
        f"{third}: 1 row has {said.format('row 10')}",
    ]
    assert parts.lines[:-1] == one.lines


def test_several_files_and_folders_follow_each_other_in_one_file(run: Path, tmp_path: Path, files: list[Path]) -> None:
    (tmp_path / "in" / "notes.txt").write_text("no table")
    (tmp_path / "in" / "_manifest.json").write_text("{}")
    small_runs.write_csv(tmp_path / "last.csv", [{name: ROWS[0][name] for name in reversed(ROWS[0])}])
    inputs = [tmp_path / "in", tmp_path / "last.csv"]
    predict(run, inputs, tmp_path / "p.csv")
    frame = pd.read_csv(tmp_path / "p.csv", keep_default_na=False)
    assert frame["text"].tolist() == [row["text"] for row in [*ROWS, ROWS[0]]]
    columns = [*ROWS[0], "prediction"]
    assert frame[columns].iloc[-1].tolist() == frame[columns].iloc[0].tolist()
    predict(run, inputs, tmp_path / "p")
    assert pd.read_parquet(tmp_path / "p")["text"].tolist() == frame["text"].tolist()


def test_types_of_several_files_are_joined(run: Path, tmp_path: Path) -> None:
    frame = pd.DataFrame(ROWS[:5])
    for name, values in (("a", [1, 2, 3, 4, 5]), ("b", [0.5] * 5), ("c", ["x"] * 5)):
        frame.assign(price=values).to_parquet(tmp_path / f"{name}.parquet")
    a, b, c = (tmp_path / f"{name}.parquet" for name in "abc")
    predict(run, [a, b], tmp_path / "p.parquet")
    assert pd.read_parquet(tmp_path / "p.parquet")["price"].tolist() == [1, 2, 3, 4, 5, *[0.5] * 5]
    with pytest.raises(DataError, match=r"c\.parquet: column 'price' is (large_)?string, but int64 in .*a\.parquet"):
        predict(run, [a, c], tmp_path / "q.parquet")
    assert not (tmp_path / "q.parquet").exists()


@needs_int8
def test_int8(
    run: Path, tmp_path: Path, files: list[Path], attribune: Callable[..., Outcome], monkeypatch: pytest.MonkeyPatch
) -> None:
    """In one file and in a folder, which is of one kind of weights; scores stay close to those in float32."""
    rounded = ("--quantise", "int8")
    for name, more in (("exact.parquet", ()), ("one.parquet", rounded), ("p", rounded)):
        assert attribune("predict", run, files[0], "--output", tmp_path / name, *more)[0] == 0
    exact, one, parts = (pd.read_parquet(tmp_path / name) for name in ("exact.parquet", "one.parquet", "p"))
    scores = [name for name in exact if name.startswith("probability")]
    assert 0 < np.abs(one[scores] - exact[scores]).to_numpy().max() < 0.02
    np.testing.assert_allclose(parts[scores], one[scores], atol=0.01)
    code, _, err = attribune("predict", run, files[0], "--output", tmp_path / "p")
    assert (code, "was started with quantise='int8': give the same" in err) == (1, True)
    calls: list[int] = []
    monkeypatch.setattr(int8, "int8_linear", lambda *args: calls.append(1) or int8_linear(*args))

    def accuracy(*more: str) -> float:
        said = json.loads(attribune("evaluate", run, files[0], "--json", *more)[1])
        return said["metrics"]["as given"]["accuracy"]["value"]

    found = accuracy()
    assert not calls
    assert found == pytest.approx(accuracy(*rounded), abs=0.05)
    assert calls


def test_what_is_missing_is_scored_and_nothing_else(
    run: Path, tmp_path: Path, files: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    output = tmp_path / "out"
    predict(run, files, output, part_rows=20)
    whole = {path.name: path.read_bytes() for path in output.iterdir()}
    gone, damaged = output / "part-00001-000000000021.parquet", output / "part-00002-000000000041.parquet"
    gone.unlink()
    damaged.write_bytes(damaged.read_bytes()[:300])
    (output / "_summary.json").unlink()
    (output / f".{gone.name}.4711.tmp").write_bytes(b"PAR1")
    inodes = {name: (output / name).stat().st_ino for name in names(output)}

    scored, write = [], parts._write_part
    monkeypatch.setattr(parts, "_write_part", lambda part, *of: scored.append(len(part.rows)) or write(part, *of))
    notes = Notes()
    assert predict(run, files, output, reporter=notes) == 150
    assert scored == [20, 3]
    assert notes.lines[0] == "resuming after 127 rows in 7 parts"
    assert sorted(path.name for path in output.iterdir()) == sorted(whole)
    for name, content in whole.items():
        if name in (gone.name, damaged.name):  # processors may round otherwise where tensors lie otherwise in memory
            first, second = (pd.read_parquet(io.BytesIO(one)) for one in (content, (output / name).read_bytes()))
            pd.testing.assert_frame_equal(first, second, rtol=0, atol=1e-6)
        else:
            assert (output / name).read_bytes() == content
    changed = [name for name, inode in inodes.items() if (output / name).stat().st_ino != inode]
    assert changed == [damaged.name]

    assert predict(run, files, output, reporter=notes) == 150
    assert notes.lines[-1] == f"{output} is finished already: 150 rows in 9 parts"
    assert len(scored) == 2


def test_files_that_are_whole_are_not_read_again(
    run: Path, tmp_path: Path, files: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    predict(run, files, tmp_path / "out", part_rows=20)
    for name in ("part-00002-000000000001.parquet", "_summary.json"):
        (tmp_path / "out" / name).unlink()
    read: list[str] = []

    def noted(path: Path, **options: Any) -> Any:
        read.append(path.name)
        return table_batches(path, **options)

    monkeypatch.setattr("attribune.prediction.parts.table_batches", noted)
    predict(run, files, tmp_path / "out")
    assert read == ["b.csv"]


def test_ctrl_c_keeps_parts_and_says_so(
    run: Path, tmp_path: Path, files: list[Path], monkeypatch: pytest.MonkeyPatch, attribune: Callable[..., Outcome]
) -> None:
    monkeypatch.setattr("attribune.prediction.parts.PART_ROWS", 20)
    write = parts._write_part

    def stopped(part: FilePart, *of: Any) -> Mark:
        if part.first_row == 61:
            raise KeyboardInterrupt
        return write(part, *of)

    words = ("predict", run, *files, "--output", tmp_path / "out")
    with monkeypatch.context() as patch:
        patch.setattr(parts, "_write_part", stopped)
        code, _, err = attribune(*words)
    kept = f"finished parts are kept: run the same command again to continue in {tmp_path / 'out'}"
    assert (code, kept in err) == (130, True)
    assert names(tmp_path / "out") == [f"part-00001-{row:012}.parquet" for row in (1, 21, 41)]
    monkeypatch.setattr("attribune.prediction.parts.PART_ROWS", 30)  # of a later version: the folder's own counts
    assert attribune(*words)[0] == 0
    predict(run, files, tmp_path / "one.parquet")
    assert_same_rows(tmp_path / "out", tmp_path / "one.parquet")


@pytest.mark.parametrize("rows", [1, 10, 48, 97, 98])
def test_parts_are_exact_and_the_last_is_known(files: list[Path], rows: int) -> None:
    job = Job(run="", backbone=None, files=(str(files[0]),), part_rows=rows, output="")
    parts = list(read_parts(job, 1, done=()))
    assert [len(part.rows) for part in parts[:-1]] == [rows] * (len(parts) - 1)
    assert [part.last for part in parts] == [False] * (len(parts) - 1) + [True]
    assert [part.first_row for part in parts] == list(range(1, 98, rows))
    assert pa.concat_tables([part.rows for part in parts]).equals(next(table_batches(files[0])))
    kept = {part.first_row for part in parts[::2]}
    assert [part.first_row for part in read_parts(job, 1, done=kept)] == [part.first_row for part in parts[1::2]]


def test_a_folder_with_a_hole_is_not_finished(run: Path, tmp_path: Path, files: list[Path]) -> None:
    job = Job(run=str(run), backbone=None, files=(str(files[0]),), part_rows=40, output=str(tmp_path))
    predictor = load_predictor(run)
    marks = {(1, part.first_row): parts._write_part(part, job, predictor) for part in read_parts(job, 1, done=())}
    assert PartsFolder(tmp_path).finish(job, marks)[str(files[0])].attributes["user"].rows == 97
    for row in (1, 41, 81):
        with pytest.raises(DataError, match=r"parts of .*a\.csv are missing: run the same command again"):
            PartsFolder(tmp_path).finish(job, {key: mark for key, mark in marks.items() if key != (1, row)})


def odd_files(folder: Path) -> list[Path]:
    """Files of which something is said: a note, a note after a warning, nothing."""
    guessed, damaged, _ = files = [folder / f"{name}.csv" for name in ("guessed", "damaged", "plain")]
    for path in files:
        pd.DataFrame(ROWS[:50]).to_csv(path, sep=";" if path == guessed else ",", index=False)
    damaged.write_bytes(damaged.read_bytes().replace(b"the", b"th\x81\x8d", 1))
    return files


def test_what_is_said_of_files_is_said_once(run: Path, tmp_path: Path, attribune: Callable[..., Outcome]) -> None:
    files = odd_files(tmp_path)
    warnings.simplefilter("always", AttribuneWarning)  # pytest restores the filters after each test
    code, _, err = attribune("predict", run, *files, "--output", tmp_path / "out")
    lines = err.splitlines()
    assert code == 0
    # The headers of all files are read before their rows.
    assert [line.partition(" is ")[0] for line in lines[:3]] == [f"warning: {files[1]}", *map(str, files[:2])]
    assert len(set(lines)) == len(lines)

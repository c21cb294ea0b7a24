"""Prediction into a folder of parts: the same rows as one file, whatever interrupts it, in one process or on Ray."""

from __future__ import annotations

import contextlib
import importlib.util
import io
import json
import os
import re
import signal
import subprocess
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Literal

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import small_runs
from live_service import until
from processors import needs_int8
from trained_runs import TrainedRuns

from attribune.apps.cli import main
from attribune.backbones import int8
from attribune.core.door import present_door
from attribune.core.logs import Said
from attribune.core.progress import Reporter
from attribune.data.table_files import table_batches
from attribune.data.tables import read_table
from attribune.errors import AttribuneWarning, DataError
from attribune.functional.int8 import int8_linear
from attribune.prediction import on_ray
from attribune.prediction.on_ray import _error, _packed, _read, _received, _Worker
from attribune.prediction.parts import Mark, PartsFolder
from attribune.prediction.predict import predict
from attribune.prediction.reading import FilePart, Job, read_parts
from attribune.prediction.worker import PartScorer

pytestmark = pytest.mark.slow

ROWS = small_runs.reviews(150, seed=5)
ROWS[3]["user"] = ROWS[120]["user"] = "nobody"
RAY = importlib.util.find_spec("ray") is not None


class Notes(Reporter):
    """Keeps what it is told."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def note(self, text: str) -> None:
        self.lines.append(text)


@pytest.fixture
def run(trained_runs: TrainedRuns) -> Path:
    return trained_runs("injector")


@pytest.fixture(autouse=True)
def _threads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAYON_NUM_THREADS", "1")  # a worker in this process sets it
    monkeypatch.setattr("attribune.prediction.to_folder._NOTE_INTERVAL", float("inf"))  # no notes of a slow machine


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


@pytest.mark.parametrize("engine", ["local", "ray"])
@pytest.mark.usefixtures("cluster_here")
def test_rows_without_a_text_are_named(run: Path, tmp_path: Path, engine: Literal["local", "ray"]) -> None:
    rows = [row | ({"text": " "} if number % 7 == 2 else {}) for number, row in enumerate(ROWS[:50])]
    first = small_runs.write_csv(tmp_path / "a.csv", rows)
    second = small_runs.write_csv(tmp_path / "b.csv", ROWS[:9])
    third = small_runs.write_csv(tmp_path / "c.csv", [*ROWS[:9], ROWS[9] | {"text": ""}])
    one, parts = Notes(), Notes()
    predict(run, [first, second, third], tmp_path / "one.parquet", reporter=one)
    predict(run, [first, second, third], tmp_path / "parts", part_rows=20, engine=engine, reporter=parts)
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
    words = ["predict", str(run), str(tmp_path / "in"), str(tmp_path / "last.csv"), "--output"]
    assert main([*words, str(tmp_path / "p.csv")]) == 0
    frame = pd.read_csv(tmp_path / "p.csv", keep_default_na=False)
    assert frame["text"].tolist() == [row["text"] for row in [*ROWS, ROWS[0]]]
    columns = [*ROWS[0], "prediction"]
    assert frame[columns].iloc[-1].tolist() == frame[columns].iloc[0].tolist()
    assert main([*words, str(tmp_path / "p")]) == 0
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
    run: Path,
    tmp_path: Path,
    files: list[Path],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """In one file and in a folder, which is of one kind of weights; scores stay close to those in float32."""
    words = ["predict", str(run), str(files[0]), "--output"]
    for name, more in (("exact.parquet", []), ("one.parquet", ["--quantise", "int8"]), ("p", ["--quantise", "int8"])):
        assert main([*words, str(tmp_path / name), *more]) == 0
    exact, one, parts = (pd.read_parquet(tmp_path / name) for name in ("exact.parquet", "one.parquet", "p"))
    scores = [name for name in exact if name.startswith("probability")]
    assert 0 < np.abs(one[scores] - exact[scores]).to_numpy().max() < 0.02
    np.testing.assert_allclose(parts[scores], one[scores], atol=0.01)
    capsys.readouterr()
    assert main([*words, str(tmp_path / "p")]) == 1
    assert "was started with quantise='int8': give the same" in capsys.readouterr().err
    calls: list[int] = []
    monkeypatch.setattr(int8, "int8_linear", lambda *args: calls.append(1) or int8_linear(*args))
    found = {}
    for more in ((), ("--quantise", "int8")):
        assert not calls
        assert main(["evaluate", str(run), str(files[0]), "--json", *more]) == 0
        found[more] = json.loads(capsys.readouterr().out)["metrics"]["as given"]["accuracy"]["value"]
    assert calls
    assert found[()] == pytest.approx(found["--quantise", "int8"], abs=0.05)


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

    scored, score = [], PartScorer.score
    monkeypatch.setattr(PartScorer, "score", lambda self, part: scored.append(len(part.rows)) or score(self, part))
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

    monkeypatch.setattr("attribune.prediction.reading.table_batches", noted)
    predict(run, files, tmp_path / "out")
    assert read == ["b.csv"]


def test_ctrl_c_keeps_parts_and_says_so(
    run: Path, tmp_path: Path, files: list[Path], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("attribune.prediction.parts.PART_ROWS", 20)
    score = PartScorer.score

    def stopped(self: PartScorer, part: FilePart) -> Mark:
        if part.first_row == 61:
            raise KeyboardInterrupt
        return score(self, part)

    words = ["predict", str(run), *map(str, files), "--output", str(tmp_path / "out")]
    with monkeypatch.context() as patch:
        patch.setattr(PartScorer, "score", stopped)
        assert main(words) == 130
    kept = f"finished parts are kept: run the same command again to continue in {tmp_path / 'out'}"
    assert kept in capsys.readouterr().err
    assert names(tmp_path / "out") == [f"part-00001-{row:012}.parquet" for row in (1, 21, 41)]
    monkeypatch.setattr("attribune.prediction.parts.PART_ROWS", 30)  # of a later version: the folder's own counts
    assert main(words) == 0
    predict(run, files, tmp_path / "one.parquet")
    assert_same_rows(tmp_path / "out", tmp_path / "one.parquet")


@pytest.mark.parametrize("rows", [1, 10, 48, 97, 98])
def test_parts_are_exact_and_the_last_is_known(tmp_path: Path, files: list[Path], rows: int) -> None:
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
    scorer = PartScorer(job)
    marks = {(1, part.first_row): scorer.score(part) for part in read_parts(job, 1, done=())}
    assert PartsFolder(tmp_path).finish(job, marks)[str(files[0])].attributes["user"].rows == 97
    for row in (1, 41, 81):
        with pytest.raises(DataError, match=r"parts of .*a\.csv are missing: run the same command again"):
            PartsFolder(tmp_path).finish(job, {key: mark for key, mark in marks.items() if key != (1, row)})


# Workers of a cluster


def test_a_worker_scores_what_it_is_sent(run: Path, tmp_path: Path, files: list[Path]) -> None:
    """In this process: what Ray hands over, in the form that it has on the way."""
    job = Job(run=str(run), backbone=None, files=tuple(map(str, files)), part_rows=40, output="out")
    worker = _Worker(job=job, threads=1, begun_in=os.getcwd(), door=present_door())
    parts = list(read_parts(job, 2, done=()))
    with contextlib.chdir(tmp_path):
        Path("out").mkdir()
        found = [json.loads(worker(_packed(part))["message"][0].as_py()) for part in parts]
        marks = [Mark.from_json(message["mark"]) for message in found]
        assert [(mark.file, mark.first_row, mark.rows, mark.last) for mark in marks] == [
            (2, 1, 40, False),
            (2, 41, 3, True),
        ]
        assert [Mark.of(path) for path in sorted(Path("out").glob("*"))] == marks
        before = Path("out/part-00002-000000000001.parquet").stat().st_ino
        worker(_packed(parts[0]))  # a task that is repeated, its worker having died after writing
        assert Path("out/part-00002-000000000001.parquet").stat().st_ino == before


def test_a_part_that_kills_its_workers_is_given_up(run: Path, tmp_path: Path, files: list[Path]) -> None:
    job = Job(run=str(run), backbone=None, files=tuple(map(str, files)), part_rows=40, output=str(tmp_path))
    (part, *_) = read_parts(job, 1, done=())
    tries = tmp_path / ".part-00001-000000000001.parquet.tries.tmp"
    score = PartScorer.score
    for number in range(5):
        with pytest.MonkeyPatch.context() as patch:

            def killed(self: PartScorer, part: FilePart) -> Mark:
                raise SystemExit

            patch.setattr(PartScorer, "score", killed)
            with pytest.raises(SystemExit):
                _Worker(job=job, threads=1, begun_in=os.getcwd(), door=present_door())(_packed(part))
        assert tries.read_text() == f"{os.getpid()}\n" * (number + 1)
    assert PartScorer.score is score
    message = json.loads(
        _Worker(job=job, threads=1, begun_in=os.getcwd(), door=present_door())(_packed(part))["message"][0].as_py()
    )
    assert message["error"][0] == "DataError"
    assert "a.csv: 5 workers were lost, one after the other, while they scored rows 1 to 40" in message["error"][1]


class ClusterHere:
    """Stands in for a cluster with one worker: it does in this process, one after the other, what Ray is given."""

    workers, cores, devices, own = 1, 1, 0.0, True
    ray = SimpleNamespace(exceptions=SimpleNamespace(RayError=RuntimeError))

    def __init__(self) -> None:
        self.is_closed = False

    def close(self) -> None:
        self.is_closed = True

    def dataset(self, cluster: ClusterHere, job: Job, done: dict[int, Any]) -> SimpleNamespace:
        assert cluster is self
        worker = _Worker(job=job, threads=self.cores, begun_in=os.getcwd(), door=present_door())
        files = pa.table({"file": list(done)})
        rows = _read(files, job=job, done=done, begun_in=os.getcwd(), door=present_door())
        return SimpleNamespace(iter_batches=lambda **_: map(worker, rows))


@pytest.fixture
def cluster_here(monkeypatch: pytest.MonkeyPatch) -> ClusterHere:
    cluster = ClusterHere()
    monkeypatch.setattr(on_ray, "connect", lambda workers: cluster)
    monkeypatch.setattr(on_ray, "_dataset", cluster.dataset)
    monkeypatch.setattr(on_ray, "_quiet_data", contextlib.nullcontext)
    return cluster


def test_what_workers_send_back_is_gathered(
    run: Path,
    tmp_path: Path,
    files: list[Path],
    cluster_here: ClusterHere,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Interrupted after its first part, gone on with, and then a table that a worker cannot read."""
    monkeypatch.setattr("attribune.prediction.parts.PART_ROWS", 40)
    files[1].write_bytes(files[1].read_bytes().replace(b"the", b"th\x81", 1))
    output, received = tmp_path / "out", on_ray._received
    words = ["predict", str(run), *map(str, files), "--output", str(output), "--engine", "ray"]

    def interrupted(*message: Any) -> Iterator[Mark]:
        yield from received(*message)
        os.kill(os.getpid(), signal.SIGINT)

    with monkeypatch.context() as patch:
        patch.setattr(on_ray, "_received", interrupted)
        assert main(words) == 130
    assert cluster_here.is_closed
    assert "interrupted; finished parts are kept" in capsys.readouterr().err
    assert names(output) == ["part-00001-000000000001.parquet"]
    assert main(words) == 0
    said = capsys.readouterr().err
    assert said.startswith("resuming after 40 rows in 1 part\n")
    assert f"{files[1]} is read as CSV, ',', cp850 ('thü'), header in row 1" in said
    assert said.endswith(f"150 rows in 6 parts written to {output}\n")
    predict(run, files, tmp_path / "one.parquet")
    assert_same_rows(output, tmp_path / "one.parquet")

    table = pa.table({name: [["u1"]] if name == "user" else ["x"] for name in ROWS[0]})
    pq.write_table(table, bad := tmp_path / "bad.parquet")
    assert main(["predict", str(run), str(bad), "--output", str(tmp_path / "other"), "--engine", "ray"]) == 1
    assert f"error: {bad}: column 'user', row 1: ['u1'] is not one value" in capsys.readouterr().err
    assert not (tmp_path / "other" / "_summary.json").exists()


def test_a_worker_without_its_run_tells_the_user(tmp_path: Path, files: list[Path]) -> None:
    job = Job(run="nothing", backbone=None, files=tuple(map(str, files)), part_rows=40, output="")
    worker = _Worker(job=job, threads=1, begun_in=os.getcwd(), door=present_door())
    (part, *_) = read_parts(job, 1, done=())
    kind, text = json.loads(worker(_packed(part))["message"][0].as_py())["error"]
    assert (kind, text[:38]) == ("ModelFolderError", "nothing is not the folder of a run, it")
    assert _error(DataError("x")) == {"error": ["DataError", "x"]}


def odd_files(folder: Path) -> list[Path]:
    """Files of which something is said: a note, a note after a warning, nothing."""
    guessed, damaged, _ = files = [folder / f"{name}.csv" for name in ("guessed", "damaged", "plain")]
    for path in files:
        pd.DataFrame(ROWS[:50]).to_csv(path, sep=";" if path == guessed else ",", index=False)
    damaged.write_bytes(damaged.read_bytes().replace(b"the", b"th\x81\x8d", 1))
    return files


def test_workers_say_what_this_process_says(
    run: Path, tmp_path: Path, cluster_here: ClusterHere, capsys: pytest.CaptureFixture[str]
) -> None:
    """The same lines in the same order, each once."""
    files = list(map(str, odd_files(tmp_path)))
    said = {}
    warnings.simplefilter("always", AttribuneWarning)  # pytest restores the filters after each test
    for engine in ("local", "ray"):
        assert main(["predict", str(run), *files, "--output", str(tmp_path / engine), "--engine", engine]) == 0
        said[engine] = capsys.readouterr().err.replace(str(tmp_path / engine), "OUT")
    assert said["ray"] == said["local"]
    lines = said["ray"].splitlines()
    # The headers of all files are read before their rows.
    assert [line.partition(" is ")[0] for line in lines[:3]] == [f"warning: {files[1]}", files[0], files[1]]
    assert len(set(lines)) == len(lines)


def test_what_is_said_of_a_file_that_is_read_again_is_shown_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As after the loss of a worker; and each worker loads the run, with what is said of that."""
    job = Job(run="", backbone=None, files=tuple(map(str, odd_files(tmp_path))), part_rows=40, output="")
    told, shown = set[Said](), list[Said]()
    monkeypatch.setattr(on_ray, "say_again", shown.append)
    for _ in range(2):
        for row in _read(
            pa.table({"file": [1, 2, 3]}), job=job, done=dict.fromkeys((1, 2, 3), ()), begun_in=".", door=present_door()
        ):
            if (message := row["message"][0].as_py()) is not None:
                assert list(_received(json.loads(message), told)) == []
    guessed, damaged, _ = job.files
    found = [(kind, text.partition(" is ")[0]) for kind, text in shown]
    assert found == [("note", guessed), ("warning", damaged), ("note", damaged)]


# A cluster on this machine, in a process of its own, since Ray leaves threads and warnings behind

COMMANDS = """
import os
import signal
import sys
import time
import attribune.prediction.parts
from attribune.apps.cli import main
from attribune.core.cluster import connect
from attribune.prediction import on_ray

run, output, first, second, other, bad = sys.argv[1:]
attribune.prediction.parts.PART_ROWS = 125
words = ["predict", run, first, second, "--output", output, "--engine", "ray", "--workers"]
cluster = connect(workers=2)
received = on_ray._received
def interrupted(*message):
    yield from received(*message)
    os.kill(os.getpid(), signal.SIGINT)
on_ray._received = interrupted
print(main([*words, "1"]), flush=True)
on_ray._received = received
deadline = time.monotonic() + 300
while cluster.ray.available_resources().get("CPU", 0) < 2:
    assert time.monotonic() < deadline, "the interrupted command keeps its worker"
    time.sleep(0.01)
sys.stderr.write("--\\n")
print("again", flush=True)
print(main([*words, "2"]), flush=True)
sys.stderr.write("--\\n")
print(main(["predict", run, bad, "--output", other, "--engine", "ray"]), flush=True)
cluster.close()
"""


@pytest.mark.exhaustive
@pytest.mark.skipif(not RAY, reason="Ray is not installed: pip install 'attribune[ray]'")
def test_two_workers_interrupted_and_one_of_them_killed(run: Path, tmp_path: Path) -> None:
    """Then a row that no worker can score, on the same cluster, reaches the user as one message."""
    rows = [{**row, "text": f"{row['text']} {number}"} for number, row in enumerate(small_runs.reviews(7_700, seed=6))]
    first = small_runs.write_csv(tmp_path / "first.csv", rows[:7_550])
    second = small_runs.write_csv(tmp_path / "second.csv", rows[7_550:])
    second.write_bytes(second.read_bytes().replace(b"lovely", b"lov\x81ly", 1))
    users: list[Any] = [None] * 37 + [["u1"]] + [None] * 3
    table = pa.table({name: users if name == "user" else ["x"] * 41 for name in ROWS[0]})
    pq.write_table(table, bad := tmp_path / "bad.parquet")
    output, total = tmp_path / "out", 61 + 2
    environment = {name: value for name, value in os.environ.items() if name != "RAY_ADDRESS"}
    running = subprocess.Popen(
        [sys.executable, "-c", COMMANDS, run, output, first, second, tmp_path / "other", bad],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment | {"ATTRIBUNE_TEST": str(tmp_path), "PYTHONWARNINGS": "default"},
    )
    with killed_at_last(running):
        assert running.stdout is not None
        assert running.stdout.readline() == "130\n"
        assert running.stdout.readline() == "again\n"  # no worker of the interrupted command is left to be killed
        kept = {name: (output / name).stat().st_ino for name in names(output)}
        assert 0 < len(kept) < total - 20

        until(lambda: len(names(output)) > len(kept) or running.poll() is not None)
        killed = kill_one(output)
        assert len(names(output)) < total - 10, "the worker was killed in the middle"
        others: set[int] = set()
        while running.poll() is None and not others:
            others = scorers(tmp_path) - {killed}
        codes, messages = running.communicate(timeout=600)
    # Between the commands Ray itself may say that it has lost a worker.
    assert (running.returncode, re.findall(r"^\d+$", codes, re.MULTILINE)) == (0, ["0", "1"]), messages
    assert others, "no other worker went on"
    assert {name: (output / name).stat().st_ino for name in kept} == kept
    assert len(names(output)) == total
    assert sorted(os.listdir(output)) == [".lock", "_manifest.json", "_summary.json", *names(output)]

    interruption, going_on, error = messages.split("--\n")
    progress = re.compile(r"[\d,]+ rows in \d+ parts? done")  # now and then, where it takes long
    assert [line for line in interruption.splitlines() if not progress.fullmatch(line)] == [
        "",
        f"attribune predict: interrupted; finished parts are kept: run the same command again to continue in {output}",
    ]
    begin, *warned, end = (line for line in going_on.splitlines() if not progress.fullmatch(line))
    assert begin == f"resuming after {125 * len(kept):,} rows in {len(kept)} part{'s' * (len(kept) > 1)}"
    lost = [line for line in warned if re.match(r"warning: .*\.csv: a worker was lost while it scored rows \d", line)]
    assert lost, warned  # two, where the one that was killed had just been given another part
    guessed = [f"{second} is read as CSV, ',', cp850 ('lovüly')"]
    assert [line.partition(", header")[0] for line in warned if line not in lost] == guessed
    assert end == f"7,700 rows in {total} parts written to {output}"
    assert error == (
        f"attribune predict: error: {bad}: column 'user', row 38: ['u1'] is not one value: use --multi-label user "
        "for a column of lists\n"
    )
    assert not (tmp_path / "other" / "_summary.json").exists()

    assert predict(run, [first, second], tmp_path / "one.parquet") == 7_700
    assert_same_rows(output, tmp_path / "one.parquet")
    assert pd.read_parquet(output)["text"].is_unique


def kill_one(output: Path) -> int:
    """Kill a worker while it scores a part: it is stopped before that is made sure of."""
    killed: list[int] = []

    def kill_if_it_scores() -> bool:
        for tries in output.glob(".*.tries.tmp"):
            with contextlib.suppress(OSError, ValueError):
                worker = int(tries.read_text())
                os.kill(worker, signal.SIGSTOP)
                until(lambda state=Path(f"/proc/{worker}/stat"): state.read_text().rpartition(")")[2].split()[0] == "T")
                scores = tries.exists() and tries.read_text() == f"{worker}\n"
                os.kill(worker, signal.SIGKILL if scores else signal.SIGCONT)
                killed.extend([worker] * scores)
        return bool(killed)

    until(kill_if_it_scores)
    return killed[0]


@contextlib.contextmanager
def killed_at_last(running: subprocess.Popen[str]) -> Iterator[None]:
    """Whatever fails, no process is left behind."""
    with running:
        try:
            yield
        finally:
            running.kill()


def scorers(tmp_path: Path) -> set[int]:
    """Numbers of the processes that score, of the cluster that this test began."""
    found = set()
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            ours = f"ATTRIBUNE_TEST={tmp_path}\0".encode() in (process / "environ").read_bytes()
            if ours and b"_Worker" in (process / "cmdline").read_bytes():
                found.add(int(process.name))
    return found

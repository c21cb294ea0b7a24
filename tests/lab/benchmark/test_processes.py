"""Cells as processes, of this machine or of a cluster, that are killed and interrupted."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import pytest
import small_runs
import yaml
from finished_benchmarks import killed, names, scores
from live_service import until

from attribune.apps.cli import main
from attribune_lab.benchmark import engines
from attribune_lab.benchmark.results import BenchmarkFolder

pytestmark = pytest.mark.slow


@pytest.mark.exhaustive
def test_processes_share_the_cells(
    finished: BenchmarkFolder, experiment: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two at a time, with the results of cells that this process trains one after the other."""
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    sets = [{**experiment["sets"][0], "folds": [0]}]
    alone = next(entry for entry in experiment["settings"] if isinstance(entry, dict) and entry["name"] == "user alone")
    some = {**experiment, "sets": sets, "settings": [alone, "linear"], "reference": "linear"}
    (tmp_path / "tiny.yaml").write_text(yaml.safe_dump(some))
    words = ["benchmark", "run", str(tmp_path / "tiny.yaml"), "--output", str(tmp_path / "out")]
    assert main([*words, "--workers", "2"]) == 0
    folder = BenchmarkFolder(tmp_path / "out")
    assert names(folder) == ["reviews/linear/0", "reviews/user_alone/0"]
    assert scores(folder).items() <= scores(finished).items()


@pytest.mark.exhaustive
def test_a_process_that_is_killed_is_named_with_the_likely_cause(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engines, "_in_process", killed)
    engine = engines.Processes(BenchmarkFolder(tmp_path), workers=1, show=False)
    engine.start("reviews/none/0")
    assert not engine.has_room()
    (outcome,) = engine.wait()
    assert engine.has_room()
    assert (outcome.path, outcome.done) == ("reviews/none/0", False)
    assert outcome.word.startswith("failed: its process was killed, as the system does when memory runs out")
    engine.close()


class Started:
    """A process that has the environment of its start, and sends what it is told to."""

    def __init__(self, *, target: object, args: tuple[Any, ...]) -> None:
        self.connection, self.path, self.device = args[0], args[2], ""
        self.exitcode = 0

    def start(self) -> None:
        self.device = os.environ.get("CUDA_VISIBLE_DEVICES", "all")
        self.connection = os.dup(self.connection.fileno())  # as a process has it

    def end(self) -> None:
        with Connection(self.connection) as connection:
            connection.send(engines.Outcome(path=self.path, done=True, word="done"))

    def join(self) -> None:
        """It has ended."""


@pytest.mark.parametrize(
    ("count", "given", "expected"),
    [(2, None, ["0", "1", "0", "1"]), (2, "5,GPU-a8", ["5", "GPU-a8", "5", "GPU-a8"]), (1, "3", ["3"] * 4)],
)
def test_each_process_has_a_gpu_of_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, count: int, given: str | None, expected: list[str]
) -> None:
    """The one that the fewest use: that of the first process when this has ended."""
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    if given is not None:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", given)
    monkeypatch.setattr(engines.torch.cuda, "device_count", lambda: count)
    engine, started = engines.Processes(BenchmarkFolder(tmp_path), workers=3, show=False), list[Started]()
    monkeypatch.setattr(engine._context, "Process", lambda **given: started.append(Started(**given)) or started[-1])
    for name in ("first", "second", "third"):
        engine.start(name)
    started[1].end()
    (outcome,) = engine.wait()
    assert outcome.path == "second"
    engine.start("fourth")
    assert [one.device for one in started] == expected


def kill_a_worker(folder: BenchmarkFolder) -> int:
    """Kill a process that holds the lock of a cell; returns its number, 0 for none."""
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            held = [os.readlink(link) for link in (process / "fd").iterdir()]
            if any(name.startswith(str(folder.path)) and name.endswith(".lock") for name in held):
                os.kill(int(process.name), signal.SIGKILL)
                return int(process.name)
    return 0


@pytest.mark.exhaustive
def test_a_killed_cell_is_named_with_the_likely_cause(experiment: dict[str, Any], tmp_path: Path) -> None:
    one = {
        **experiment,
        "rates": None,
        "settings": ["injector"],
        "training": {**experiment["training"], "steps": 4000, "patience": 4000},
    }
    (tmp_path / "tiny.yaml").write_text(yaml.safe_dump(one))
    folder = BenchmarkFolder(tmp_path / "out")
    words = ["benchmark", "run", str(tmp_path / "tiny.yaml"), "--output", str(folder.path)]
    running = small_runs.Command(words, log=tmp_path / "log.txt")
    for fold in (0, 1):
        work = folder.path / "work" / "reviews" / "injector" / str(fold)
        until(lambda work=work: (work / "recipe.yaml").exists() and kill_a_worker(folder) != 0, seconds=600)
    assert running.wait() == 1
    messages = (tmp_path / "log.txt").read_text()
    assert "reviews/injector/0: failed: its process was killed, as the system does when memory runs out" in messages
    assert "2 cells are not done, the first being reviews/injector/0" in messages
    assert "resource_tracker" not in messages


def _heed_interrupts() -> None:
    """A command that a shell runs in the background ignores them, and so does what it starts."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


@pytest.mark.exhaustive
def test_an_interrupt_stops_every_process(experiment: dict[str, Any], tmp_path: Path) -> None:
    long = {**experiment, "rates": None, "training": {**experiment["training"], "steps": 4000, "patience": 4000}}
    (tmp_path / "tiny.yaml").write_text(yaml.safe_dump(long))
    folder = BenchmarkFolder(tmp_path / "out")
    words = ["benchmark", "run", str(tmp_path / "tiny.yaml"), "--output", str(folder.path), "--workers", "2"]
    running = subprocess.Popen(
        [sys.executable, "-m", "attribune", *words],
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        preexec_fn=_heed_interrupts,
    )
    until(lambda: len(list(folder.path.glob("work/*/*/*/log.jsonl"))) == 2, seconds=600)
    os.killpg(running.pid, signal.SIGINT)  # as a terminal does
    _, messages = running.communicate(timeout=600)
    assert running.returncode == 130
    assert messages.rstrip().endswith(
        f"interrupted; finished cells are kept: run the same command again to continue in {folder.path}"
    )
    assert "Traceback" not in messages
    assert not kill_a_worker(folder), "no process is left at work"

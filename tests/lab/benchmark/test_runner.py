"""The loop over cells, with an engine that only marks them done."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
from filelock import FileLock

from attribune_lab.benchmark import runner
from attribune_lab.benchmark.experiment import Cell, Experiment
from attribune_lab.benchmark.results import CELL, BenchmarkFolder
from attribune_lab.benchmark.runner import Outcome, run_cells

EXPERIMENT = {
    "name": "tiny",
    "sets": [{"name": "reviews", "data": {"train": "t.csv", "text": "text", "label": "stars"}, "folds": [0, 1, 2]}],
    "settings": ["none"],
}


class Marks:
    """Does every cell at once, except those that fail."""

    def __init__(self, folder: BenchmarkFolder, cells: dict[str, Cell], *, fails: Sequence[str] = ()) -> None:
        self.folder, self.cells, self.fails = folder, cells, fails
        self.started: list[str] = []
        self.ended: list[Outcome] = []
        self.closed = False

    def has_room(self) -> bool:
        return not self.ended

    def start(self, path: str) -> None:
        self.started.append(path)
        done = path not in self.fails
        if done:
            place = self.folder.place(self.cells[path])
            place.mkdir(parents=True)
            (place / CELL).write_text("{}")
        self.ended.append(Outcome(path=path, done=done, word="done" if done else "failed: on purpose"))

    def wait(self) -> list[Outcome]:
        ended, self.ended = self.ended, []
        return ended

    def close(self) -> None:
        self.closed = True


def begun(path: Path, *, fails: Sequence[str] = ()) -> tuple[Experiment, BenchmarkFolder, Marks]:
    experiment = Experiment.model_validate(EXPERIMENT)
    folder = BenchmarkFolder(path)
    return experiment, folder, Marks(folder, {cell.path: cell for cell in experiment.cells()}, fails=fails)


def test_a_cell_that_someone_else_trains_is_waited_for_and_said_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runner, "_PAUSE", 0)
    experiment, folder, engine = begun(tmp_path)
    held = list(experiment.cells())[1]
    folder.lock(held).parent.mkdir(parents=True)
    lock = FileLock(folder.lock(held))
    told: list[tuple[str, str]] = []
    looks = 0

    def tell(cell: Cell, word: str) -> None:
        nonlocal looks
        told.append((cell.path, word))
        if "another process" in word:
            looks += 1
            lock.release()  # the other one was killed: its cell is begun here

    with lock:
        assert run_cells(experiment, folder, engine, tell=tell) == []
    assert looks == 1
    assert told[-3:] == [
        (held.path, "is being trained by another process; waiting for it"),
        (held.path, "begins"),
        (held.path, "done"),
    ]
    assert sorted(engine.started) == sorted(cell.path for cell in experiment.cells())
    assert engine.closed


def test_a_cell_that_fails_is_named_and_the_others_go_on(tmp_path: Path) -> None:
    paths = [cell.path for cell in Experiment.model_validate(EXPERIMENT).cells()]
    experiment, folder, engine = begun(tmp_path, fails=paths[:1])
    assert [cell.path for cell in run_cells(experiment, folder, engine, tell=lambda cell, word: None)] == paths[:1]
    assert engine.started == paths, "what failed is not tried again in the same run"

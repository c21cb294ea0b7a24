"""Folders of benchmarks: finished ones that tests share, and what is in them."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

import pytest
from trained_runs import TrainedRuns

from attribune.apps.cli import main
from attribune.core.progress import Reporter
from attribune_lab.benchmark import engines
from attribune_lab.benchmark.experiment import Experiment
from attribune_lab.benchmark.results import BenchmarkFolder
from attribune_lab.benchmark.runner import Outcome

PROCESSES = "attribune_lab.benchmark.engines.Processes"
"""What starts a process for each cell, and takes longer than a small cell: `CellsHere` may stand for it."""


def finished_folder(trained_runs: TrainedRuns, experiment: dict[str, Any]) -> BenchmarkFolder:
    """The folder of an experiment, which is finished once for all tests."""

    def make(folder: Path) -> None:
        BenchmarkFolder(folder).begin(Experiment.from_dict(experiment))
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(PROCESSES, CellsHere)
            assert main(["benchmark", "run", "--output", str(folder)]) == 0

    return BenchmarkFolder(trained_runs.once("benchmark", experiment, make))


def names(folder: BenchmarkFolder) -> list[str]:
    """The paths of the cells that are done."""
    return sorted(str(path.parent.relative_to(folder.path / "cells")) for path in folder.path.rglob("cell.json"))


def scores(folder: BenchmarkFolder) -> dict[str, bytes]:
    """The content of every file of logits."""
    return {
        str(path.relative_to(folder.path)): path.read_bytes()
        for path in sorted((folder.path / "cells").rglob("*_logits.safetensors"))
    }


def killed(*_: object) -> None:
    """What a process does that the system kills as soon as it runs."""
    os.kill(os.getpid(), signal.SIGKILL)


class CellsHere:
    """Trains the cells of a benchmark in its own process, where its trouble reaches them."""

    def __init__(self, folder: BenchmarkFolder, **_: object) -> None:
        self.folder, self.ended = folder, list[Outcome]()

    def has_room(self) -> bool:
        return not self.ended

    def start(self, path: str) -> None:
        self.ended.append(engines.run_in_this_process(str(self.folder.path), path, 1, Reporter(), os.getcwd()))

    def wait(self) -> list[Outcome]:
        ended, self.ended = self.ended, []
        return ended

    def close(self) -> None:
        pass

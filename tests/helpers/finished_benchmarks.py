"""Folders of benchmarks: finished ones that tests share, and what is in them."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

import pytest
import small_runs
from trained_runs import TrainedRuns

from attribune.apps.cli import main
from attribune_lab.benchmark.experiment import Experiment
from attribune_lab.benchmark.results import BenchmarkFolder

__all__ = ["PROCESSES", "finished_folder", "killed", "names", "scores"]

PROCESSES = "attribune_lab.benchmark.engines.Processes"
"""What starts a process for each cell, and takes longer than a small cell: `small_runs.CellsHere` may stand for it."""


def finished_folder(trained_runs: TrainedRuns, experiment: dict[str, Any]) -> BenchmarkFolder:
    """The folder of an experiment, which is finished once for all tests."""

    def make(folder: Path) -> None:
        BenchmarkFolder(folder).begin(Experiment.from_dict(experiment))
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(PROCESSES, small_runs.CellsHere)
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

"""A small experiment, and its finished folder."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import finished_benchmarks
import pytest
import small_runs
import yaml
from commands import Outcome
from finished_benchmarks import PROCESSES, finished_folder
from trained_runs import TrainedRuns

from attribune_lab.benchmark.results import BenchmarkFolder


@pytest.fixture
def cells_here(monkeypatch: pytest.MonkeyPatch) -> None:
    """Cells are trained in the process of the test."""
    monkeypatch.setattr(PROCESSES, finished_benchmarks.CellsHere)


@pytest.fixture
def experiment(trained_runs: TrainedRuns) -> dict[str, Any]:
    data = {
        "train": str(trained_runs.table(small_runs.reviews(200, seed=3))),
        "text": "text",
        "label": "stars",
        "attributes": [{"name": "user"}, {"kind": "multi_label", "name": "tags", "separator": ";"}],
        "max_length": 32,
    }
    return {
        "name": "tiny",
        "sets": [{"name": "reviews", "title": "Small reviews", "data": data, "folds": [0, 1]}],
        "settings": [
            "none",
            "injector",
            {"name": "injector, shuffled", "method": "injector", "data": {"shuffled": True}, "rates": "injector"},
            {"name": "user alone", "method": "injector", "attributes": ["user"], "rates": False},
            "linear",
        ],
        "methods": {"injector": {"bottleneck": 4, "vector_size": 4}},
        "backbone": {"name": str(trained_runs.backbone())},
        "training": {"steps": 6, "batch_size": 16, "evaluate_every": 3, "precision": "float32"},
        "rates": {"factors": [0.5, 4.0]},
    }


@pytest.fixture
def finished(experiment: dict[str, Any], trained_runs: TrainedRuns) -> BenchmarkFolder:
    return finished_folder(trained_runs, experiment)


@pytest.fixture
def copy(finished: BenchmarkFolder, tmp_path: Path) -> BenchmarkFolder:
    """A finished folder that may be changed."""
    return BenchmarkFolder(Path(shutil.copytree(finished.path, tmp_path / "copy")))


@pytest.fixture
def begin(attribune: Callable[..., Outcome], tmp_path: Path) -> Callable[..., str]:
    """Run an experiment, by default in the folder `out`; gives the messages."""

    def run(experiment: dict[str, Any], *more: str, output: Path = tmp_path / "out", code: int = 0) -> str:
        (tmp_path / "given.yaml").write_text(yaml.safe_dump(experiment))
        found, _, messages = attribune("benchmark", "run", tmp_path / "given.yaml", "--output", output, *more)
        assert found == code, messages
        return messages

    return run


@pytest.fixture
def table(attribune: Callable[..., Outcome]) -> Callable[..., str]:
    """Draw the tables of a folder or a record; gives what is drawn, or with `code` 1 the message."""

    def draw(place: Path, *more: object, code: int = 0) -> str:
        found, out, err = attribune("benchmark", "table", place, *more)
        assert found == code, err
        return err if code else out

    return draw

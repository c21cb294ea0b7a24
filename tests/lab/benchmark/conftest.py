"""A small experiment, and its finished folder."""

from __future__ import annotations

from typing import Any

import finished_benchmarks
import pytest
import small_runs
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

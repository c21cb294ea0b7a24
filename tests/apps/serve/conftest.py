"""Services over tiny runs, asked in this process."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient
from live_service import Gated, client_of
from trained_runs import TrainedRuns

from attribune.apps.serve import ServedModel, load_models

ATTRIBUTES = ("--multi-label", "tags:;", "--numeric", "price")
TUNED = ("--tuning", "frozen", "--set", "training.learning_rate=0.05")  # it shows after so short a training


@pytest.fixture(scope="session")
def runs(trained_runs: TrainedRuns, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Finished runs over one backbone, with three kinds of attributes, under the names of their methods."""
    learned = [trained_runs(method, *ATTRIBUTES, "--no-baselines", *TUNED) for method in ("injector", "pln")]
    made = [trained_runs.backbone(), *learned, trained_runs("linear", *ATTRIBUTES), trained_runs("none")]
    folder = tmp_path_factory.mktemp("served")
    for name, path in zip(("backbone", "injector", "pln", "linear", "none"), made, strict=True):
        trained_runs.copy(path, folder / name)  # a service names a run by its folder
    return folder


@pytest.fixture(scope="session")
def models(runs: Path) -> dict[str, ServedModel]:
    """The runs, loaded over shared weights."""
    return load_models([str(runs / name) for name in ("injector", "pln", "linear", "none")])


@pytest.fixture(scope="session")
def client(models: dict[str, ServedModel]) -> Iterator[TestClient]:
    """A service of all runs, without limits that a test would meet by chance."""
    with client_of(models) as client:
        yield client


@pytest.fixture
def slow(models: dict[str, ServedModel], monkeypatch: pytest.MonkeyPatch) -> Iterator[Gated]:
    """Holds the model until it is opened."""
    gate, predictor = Gated(), models["none"].predictor
    score = predictor.score

    def wait(rows: Any) -> Any:
        gate.answer({"text": rows.inputs})
        return score(rows)

    monkeypatch.setattr(predictor, "score", wait)
    yield gate
    gate.open.set()

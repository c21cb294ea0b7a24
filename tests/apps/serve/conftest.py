"""Services over tiny runs, asked in this process."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import small_runs
import torch
from fastapi.testclient import TestClient
from live_service import Gated

from attribune.apps.cli import main
from attribune.apps.serve import ServedModel, create_app, load_models

LEARNED = ("injector", "pln")  # what they do shows after so short a training
ROWS = small_runs.reviews(90, seed=3)


@pytest.fixture(scope="session")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Finished runs over one backbone, with three kinds of attributes; and the table that they learned."""
    folder = tmp_path_factory.mktemp("served")
    torch.set_num_threads(1)
    backbone = small_runs.save_backbone(folder / "backbone")
    data = small_runs.write_csv(folder / "data.csv", ROWS)
    attributes = ["--multi-label", "tags:;", "--numeric", "price"]
    for method, more in (("injector", attributes), ("pln", attributes), ("linear", attributes), ("none", [])):
        words = small_runs.train_command(data, folder / method, backbone=backbone, method=method)
        words += ["--tuning", "frozen", "--set", "training.learning_rate=0.05"] if method in LEARNED else []
        assert main([*words, *more]) == 0
    return folder


@pytest.fixture(scope="session")
def models(runs: Path) -> dict[str, ServedModel]:
    """The runs, loaded over shared weights."""
    return load_models([str(runs / name) for name in ("injector", "pln", "linear", "none")])


@pytest.fixture(scope="session")
def client(models: dict[str, ServedModel]) -> Iterator[TestClient]:
    """A service of all runs, without limits that a test would meet by chance."""
    with TestClient(create_app(models), raise_server_exceptions=False) as client:
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

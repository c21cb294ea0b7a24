"""An interrupted training goes on to the same weights, log and figures as one that nobody touched.

``ATTRIBUNE_KILLS=20 pytest tests/test_interrupt.py -s`` kills twenty times, shows each kill and writes
``benchmarks/results/kill.json``.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import random
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import small_runs
from safetensors.numpy import load_file

from attribune.cli import main

KILLS = int(os.environ.get("ATTRIBUNE_KILLS", "3"))
RESULTS = Path(__file__).parents[1] / "benchmarks" / "results" / "kill.json"
os.environ.setdefault("OMP_NUM_THREADS", "1")  # of the children: on busy cores, threads of so small a model only wait
# A fork server has the imports done, so that a process is killed while it trains and not while it starts.
PROCESSES = multiprocessing.get_context("forkserver")
PROCESSES.set_forkserver_preload(["attribune.cli.train", "attribune.cli"])

SETTINGS = {
    "steps": [
        *("--label", "look", "--task", "regression", "--tuning", "full", "--set"),
        *("training.evaluate_every=5", "training.patience=3", "training.gradient_accumulation=2"),
    ],
    "epoch": [
        *("--label", "stars", "--set"),
        *("training.evaluate_every=epoch", "training.patience=99", "training.gradient_accumulation=3"),
    ],
}


class Folder:
    """Trainings of one recipe in child processes."""

    def __init__(self, folder: Path, backbone: Path, checks: str) -> None:
        self.folder = folder
        data = small_runs.write_csv(folder / "train.csv", small_runs.reviews(300, seed=3))
        self.arguments = [
            *("train", str(data), "--text", "text", "--attributes", "user", "--multi-label", "tags:;"),
            *("--backbone", str(backbone), "--epochs", "4", "--batch-size", "8", "--learning-rate", "0.003"),
            *(*SETTINGS[checks], "training.precision=float32", "method.attribute_dropout=0.3", "backbone.dropout=0.1"),
            *("method.bottleneck=8", "method.vector_size=8"),
        ]

    def start(self, run: Path) -> Any:
        process = PROCESSES.Process(target=main, args=([*self.arguments, "--output", str(run), "--resume"],))
        process.start()
        while not (run / "recipe.yaml").is_file() and process.is_alive():
            time.sleep(0.01)
        return process

    def finish(self, run: Path) -> float:
        """Train to the end; returns the seconds."""
        process = self.start(run)
        begun = time.monotonic()
        process.join(300)
        assert (run / "metrics.json").is_file()
        return time.monotonic() - begun


def weights(run: Path) -> dict[str, bytes]:
    return {name: tensor.tobytes() for name, tensor in load_file(run / "model" / "model.safetensors").items()}


def figures(run: Path) -> dict[str, Any]:
    found = json.loads((run / "metrics.json").read_text())
    del found["training"]["seconds"]
    return found


def log(run: Path) -> list[dict[str, Any]]:
    timed = ("train_seconds", "eval_runtime", "eval_samples_per_second", "eval_steps_per_second")
    entries = [json.loads(line) for line in (run / "log.jsonl").read_text().splitlines()]
    return [{key: value for key, value in entry.items() if key not in timed} for entry in entries]


@pytest.fixture(scope="module")
def backbone(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return small_runs.save_backbone(tmp_path_factory.mktemp("backbone"))


def moments(seconds: float) -> Iterator[float]:
    chance = random.Random(11)
    while True:
        yield chance.uniform(0, seconds)


@pytest.mark.parametrize("checks", SETTINGS)
def test_a_killed_training_comes_to_the_same_weights(tmp_path: Path, backbone: Path, checks: str) -> None:
    folder = Folder(tmp_path, backbone, checks)
    undisturbed = tmp_path / "undisturbed"
    moment = moments(folder.finish(undisturbed))
    stopped_early = json.loads((undisturbed / "training.json").read_text())["stopped_early"]
    kills: list[dict[str, Any]] = []
    number = 0
    while len(kills) < KILLS:
        run = tmp_path / f"killed-{number}"
        number += 1
        while not (run / "metrics.json").is_file():
            process = folder.start(run)
            if len(kills) < KILLS:
                process.join(next(moment))
            if len(kills) < KILLS and process.is_alive():
                process.kill()
                reached = max((int(path.name.rpartition("-")[2]) for path in run.glob("checkpoints/*")), default=0)
                kills.append({"run": number, "checkpoint": reached})
                print(f"{checks}: kill {len(kills)} in run {number}, after checkpoint {reached}")  # noqa: T201
            process.join(300)
        assert weights(run) == weights(undisturbed)
        assert figures(run) == figures(undisturbed)
        assert log(run) == log(undisturbed)
        assert not (run / "checkpoints").exists()
        assert sorted(os.listdir(run)) == sorted(os.listdir(undisturbed))
    if "ATTRIBUNE_KILLS" in os.environ:
        _record(checks, kills, stopped_early=stopped_early)


def _record(checks: str, kills: list[dict[str, Any]], *, stopped_early: bool) -> None:
    record = json.loads(RESULTS.read_text()) if RESULTS.is_file() else {}
    record[checks] = {"kills": kills, "stopped_early": stopped_early, "weights_equal_bitwise": True}
    RESULTS.parent.mkdir(parents=True, exist_ok=True)
    RESULTS.write_text(json.dumps(record, indent=1) + "\n")

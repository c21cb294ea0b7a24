"""An interrupted training goes on to the same weights, log and figures as one that nobody touched.

``ATTRIBUNE_KILLS=20 pytest tests/training/test_interrupt.py -s`` kills twenty times, shows each kill and writes
``benchmarks/results/kill.json``.
"""

from __future__ import annotations

import json
import os
import random
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import small_runs
from safetensors.numpy import load_file

pytestmark = pytest.mark.slow

KILLS = int(os.environ.get("ATTRIBUNE_KILLS", "1"))
RESULTS = Path(__file__).parents[2] / "benchmarks" / "results" / "kill.json"

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


class Training:
    """One recipe, trained as often as wanted in child processes."""

    def __init__(self, folder: Path, backbone: Path, checks: str) -> None:
        self.log = folder / "messages.txt"
        data = small_runs.write_csv(folder / "train.csv", small_runs.reviews(300, seed=3))
        self.words = [
            *("train", str(data), "--text", "text", "--attributes", "user", "--multi-label", "tags:;"),
            *("--backbone", str(backbone), "--epochs", "4", "--batch-size", "8", "--learning-rate", "0.003"),
            *("--max-length", "32", "--resume", *SETTINGS[checks], "training.precision=float32"),
            *("method.attribute_dropout=0.3", "backbone.dropout=0.1", "method.bottleneck=8", "method.vector_size=8"),
        ]

    def start(self, run: Path, *, until: str = "recipe.yaml") -> small_runs.Command:
        """Start, and come back when there is a certain file in the run's folder."""
        command = small_runs.Command([*self.words, "--output", str(run)], log=self.log)
        while not (run / until).exists() and command.process.is_alive():
            time.sleep(0.005)
        return command

    def finish(self, run: Path) -> float:
        """Train to the end; returns the seconds."""
        command = self.start(run)
        begun = time.monotonic()
        assert command.wait() == 0, self.log.read_text()
        return time.monotonic() - begun


def weights(run: Path) -> dict[str, bytes]:
    return {name: tensor.tobytes() for name, tensor in load_file(run / "model" / "model.safetensors").items()}


def figures(run: Path) -> dict[str, Any]:
    found = json.loads((run / "metrics.json").read_text())
    for timed in ("seconds", "finished"):
        del found["training"][timed]
    return found


def log(run: Path) -> list[dict[str, Any]]:
    timed = ("train_seconds", "eval_runtime", "eval_samples_per_second", "eval_steps_per_second")
    entries = [json.loads(line) for line in (run / "log.jsonl").read_text().splitlines()]
    return [{key: value for key, value in entry.items() if key not in timed} for entry in entries]


@pytest.fixture(scope="module")
def backbone(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return small_runs.save_backbone(tmp_path_factory.mktemp("backbone"))


def assert_same(run: Path, undisturbed: Path) -> None:
    assert weights(run) == weights(undisturbed)
    assert figures(run) == figures(undisturbed)
    assert log(run) == log(undisturbed)
    assert sorted(os.listdir(run)) == sorted(os.listdir(undisturbed))


def moments(seconds: float) -> Iterator[float]:
    chance = random.Random(11)
    while True:
        yield chance.uniform(0, seconds)


@pytest.mark.parametrize("checks", SETTINGS)
def test_a_killed_training_comes_to_the_same_weights(tmp_path: Path, backbone: Path, checks: str) -> None:
    training = Training(tmp_path, backbone, checks)
    undisturbed = tmp_path / "undisturbed"
    moment = moments(training.finish(undisturbed))
    outcome = json.loads((undisturbed / "training.json").read_text())
    assert outcome["stopped_early"] == (checks == "steps")
    assert outcome["best_step"] < outcome["steps"]
    kills: list[tuple[int, int]] = []
    for number in range(100):
        run = tmp_path / f"killed-{number}"
        while not (run / "metrics.json").is_file():
            command = training.start(run)
            if len(kills) < KILLS:
                command.process.join(next(moment))
                if command.process.is_alive():
                    command.process.kill()
                    kills.append((number, _reached(run)))
                    print(f"{checks}: kill {len(kills)}, run {number}, checkpoint {kills[-1][1]}")  # noqa: T201
            command.wait()
        assert_same(run, undisturbed)
        if len(kills) >= KILLS:
            break
    if "ATTRIBUNE_KILLS" in os.environ:
        _record(checks, kills, outcome)


def _reached(run: Path) -> int:
    """The step of the newest checkpoint, or -1 when there is none any more, training being over."""
    steps = [int(path.name.rpartition("-")[2]) for path in run.glob("checkpoints/checkpoint-*")]
    return max(steps, default=-1 if (run / "training.json").is_file() else 0)


def test_ctrl_c_says_how_to_go_on_and_loses_nothing(tmp_path: Path, backbone: Path) -> None:
    training = Training(tmp_path, backbone, "steps")
    training.finish(tmp_path / "undisturbed")
    run = tmp_path / "stopped"
    for until in ("rows.json", "checkpoints/checkpoint-5", "checkpoints/checkpoint-10/trainer_state.json"):
        command = training.start(run, until=until)
        os.kill(command.process.pid, signal.SIGINT)
        assert command.wait() == 130, training.log.read_text()
        messages = training.log.read_text()
        assert messages.endswith(
            "attribune train: interrupted; finished work is kept: run the same command with --resume to continue in "
            f"{run}\n"
        )
        assert "Traceback" not in messages
    moved = run.rename(tmp_path / "moved")
    training.finish(moved)
    assert "resuming from step" in training.log.read_text()
    assert_same(moved, tmp_path / "undisturbed")


def test_a_moved_run_whose_training_was_over_finds_its_best_model(tmp_path: Path, backbone: Path) -> None:
    training = Training(tmp_path, backbone, "steps")
    undisturbed = tmp_path / "undisturbed"
    training.finish(undisturbed)
    command = training.start(tmp_path / "run", until="model")  # the folder of the model is made after the last step
    command.process.kill()
    command.wait()
    (tmp_path / "run" / "training.json").unlink(missing_ok=True)
    if not (tmp_path / "run" / "checkpoints").exists():
        pytest.skip("the child was faster than this test")
    moved = (tmp_path / "run").rename(tmp_path / "moved")
    training.finish(moved)
    assert_same(moved, undisturbed)


def _record(checks: str, kills: list[tuple[int, int]], outcome: dict[str, Any]) -> None:
    record = json.loads(RESULTS.read_text()) if RESULTS.is_file() else {}
    record[checks] = {"runs_and_checkpoints": kills, "uninterrupted": outcome, "weights_equal_bitwise": True}
    RESULTS.parent.mkdir(parents=True, exist_ok=True)
    RESULTS.write_text(json.dumps(record) + "\n")

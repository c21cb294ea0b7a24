"""An interrupted training goes on to the same weights, log and figures as one that nobody touched.

``ATTRIBUNE_KILLS=20 pytest tests/training/test_interrupt.py -s`` kills twenty times, shows each kill and writes
``benchmarks/results/kill.json``.
"""

from __future__ import annotations

import json
import os
import random
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import small_runs
from live_service import PATIENCE
from safetensors.numpy import load_file
from trained_runs import TrainedRuns
from troubles import FileFault, Pause, Trouble

pytestmark = pytest.mark.slow

KILLS = int(os.environ.get("ATTRIBUNE_KILLS", "1"))
RESULTS = Path(__file__).parents[2] / "benchmarks" / "results" / "kill.json"

ROWS = {"steps": 160, "epoch": 300}
SETTINGS = {
    "steps": [
        *("--label", "look", "--task", "regression", "--tuning", "full", "--no-baselines", "--set"),
        *("training.evaluate_every=4", "training.patience=2", "training.gradient_accumulation=2"),
    ],
    "epoch": [
        *("--label", "stars", "--set"),
        *("training.evaluate_every=epoch", "training.patience=99", "training.gradient_accumulation=3"),
    ],
}


class Training:
    """One recipe, trained as often as wanted in child processes."""

    def __init__(self, trained_runs: TrainedRuns, checks: str, *, log: Path) -> None:
        self.trained_runs, self.log = trained_runs, log
        data = trained_runs.table(small_runs.reviews(ROWS[checks], seed=3))
        self.words = [
            *("train", str(data), "--text", "text", "--attributes", "user", "--multi-label", "tags:;"),
            *("--backbone", str(trained_runs.backbone()), "--epochs", "4", "--batch-size", "8"),
            *(
                "--learning-rate",
                "0.003",
                "--max-length",
                "32",
                "--resume",
                *SETTINGS[checks],
                "training.precision=float32",
            ),
            "training.select_by=main_metric",  # whose best check is not the last one here
            *("method.attribute_dropout=0.3", "backbone.dropout=0.1", "method.bottleneck=8", "method.vector_size=8"),
        ]

    def start(self, run: Path, trouble: Trouble | None = None) -> small_runs.Command:
        return small_runs.Command([*self.words, "--output", str(run)], log=self.log, trouble=trouble)

    def finish(self, run: Path, trouble: Trouble | None = None) -> None:
        assert self.start(run, trouble).wait() == 0, self.log.read_text()

    def undisturbed(self) -> tuple[Path, int]:
        """The run that nobody touched, and the number of changes of files until its end."""

        def make(folder: Path) -> None:
            folder.mkdir()
            self.finish(folder / "run", FileFault(str(folder / "run"), count=str(folder / "changes")))

        folder = self.trained_runs.once("undisturbed", self.words, make)
        return folder / "run", int((folder / "changes").read_text())


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


def assert_same(run: Path, undisturbed: Path) -> None:
    assert weights(run) == weights(undisturbed)
    assert figures(run) == figures(undisturbed)
    assert log(run) == log(undisturbed)
    assert sorted(os.listdir(run)) == sorted(os.listdir(undisturbed))


def moments(changes: int, kills: list[tuple[int, int]], steps: int) -> Iterator[int]:
    """The changes of files before which a training is killed: first while it trains, then anywhere."""
    chance = random.Random(11)
    moment = changes // 9
    yield moment
    while not _hit_training(kills, steps) and moment > 1:
        moment //= 2
        yield moment
    while True:
        yield chance.randint(1, changes)


def _hit_training(kills: list[tuple[int, int]], steps: int) -> bool:
    """Whether, at some kill, some steps were done and some were not."""
    return any(0 < step < steps for _, step in kills)


@pytest.mark.exhaustive
@pytest.mark.parametrize("checks", ["steps", "epoch"])
def test_a_killed_training_comes_to_the_same_weights(tmp_path: Path, trained_runs: TrainedRuns, checks: str) -> None:
    training = Training(trained_runs, checks, log=tmp_path / "messages.txt")
    undisturbed, changes = training.undisturbed()
    outcome = json.loads((undisturbed / "training.json").read_text())
    assert outcome["stopped_early"] == (checks == "steps")
    assert outcome["best_step"] < outcome["steps"]
    kills: list[tuple[int, int]] = []
    moment = moments(changes, kills, outcome["steps"])
    while len(kills) < KILLS or not _hit_training(kills, outcome["steps"]):
        number = len(kills)
        run = tmp_path / f"killed-{number}"
        while not (run / "metrics.json").is_file():
            trouble = FileFault(str(run), at=next(moment)) if len(kills) < max(KILLS, number + 1) else None
            code = training.start(run, trouble).wait()
            if code == -signal.SIGKILL:
                kills.append((number, _reached(run)))
                print(f"{checks}: kill {len(kills)}, run {number}, checkpoint {kills[-1][1]}")  # noqa: T201
            else:
                assert code == 0, training.log.read_text()
        assert_same(run, undisturbed)
    if "ATTRIBUNE_KILLS" in os.environ:
        _record(checks, kills, outcome)


def _reached(run: Path) -> int:
    """The step of the newest checkpoint, or -1 when there is none any more, training being over."""
    steps = [int(path.name.rpartition("-")[2]) for path in run.glob("checkpoints/checkpoint-*")]
    return max(steps, default=-1 if (run / "training.json").is_file() else 0)


@pytest.mark.exhaustive
def test_ctrl_c_says_how_to_go_on_and_loses_nothing(tmp_path: Path, trained_runs: TrainedRuns) -> None:
    training = Training(trained_runs, "steps", log=tmp_path / "messages.txt")
    undisturbed, _ = training.undisturbed()
    run = tmp_path / "stopped"
    for file in ("rows.json", "checkpoints/checkpoint-4", "checkpoints/checkpoint-12/trainer_state.json"):
        reached, go = small_runs.PROCESSES.Event(), small_runs.PROCESSES.Event()
        command = training.start(run, Pause(str(run / file), at=1, reached=reached, go=go))
        assert reached.wait(PATIENCE), training.log.read_text()
        assert command.process.pid is not None
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
    assert "resuming from step 8" in training.log.read_text()
    assert_same(moved, undisturbed)


@pytest.mark.exhaustive
def test_a_moved_run_whose_training_was_over_finds_its_best_model(tmp_path: Path, trained_runs: TrainedRuns) -> None:
    training = Training(trained_runs, "steps", log=tmp_path / "messages.txt")
    undisturbed, _ = training.undisturbed()
    run = tmp_path / "run"
    assert training.start(run, FileFault(str(run / "training.json"), at=1)).wait() == -signal.SIGKILL
    assert (run / "model").is_dir()
    assert (run / "checkpoints").is_dir()
    moved = run.rename(tmp_path / "moved")
    training.finish(moved)
    assert_same(moved, undisturbed)


def _record(checks: str, kills: list[tuple[int, int]], outcome: dict[str, Any]) -> None:
    record = json.loads(RESULTS.read_text()) if RESULTS.is_file() else {}
    record[checks] = {"runs_and_checkpoints": kills, "uninterrupted": outcome, "weights_equal_bitwise": True}
    RESULTS.parent.mkdir(parents=True, exist_ok=True)
    RESULTS.write_text(json.dumps(record) + "\n")

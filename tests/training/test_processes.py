"""Several processes train one model to what one process trains it to, with tables replicated or sharded."""

from __future__ import annotations

import json
import os
import socket
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import small_runs
from safetensors.numpy import load_file

pytestmark = pytest.mark.slow

TABLES = {"user", "tags"}


@pytest.fixture(scope="module")
def backbone(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = small_runs.save_backbone(tmp_path_factory.mktemp("backbone"))
    config = json.loads((folder / "config.json").read_text())
    config |= {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
    (folder / "config.json").write_text(json.dumps(config))
    return folder


def words(folder: Path, backbone: Path, *, updates: str, rows: int = 301) -> list[str]:
    """A training without random numbers; its batches of 16 leave some rows over."""
    data = folder / "train.csv"
    if not data.is_file():
        small_runs.write_csv(data, small_runs.reviews(rows, seed=3))
    return [
        *("train", str(data), "--text", "text", "--label", "stars", "--attributes", "user", "--multi-label", "tags:;"),
        *("--backbone", str(backbone), "--epochs", "2", "--batch-size", "16", "--max-length", "32", "--resume"),
        *("--no-baselines", "--set", "training.precision=float32", "method.attribute_dropout=0", "backbone.dropout=0"),
        *("method.bottleneck=8", "method.vector_size=8", "task.class_weights=balanced"),
        *("training.evaluate_every=5", "training.patience=99", f"training.table_updates={updates}"),
    ]


def together(words: Sequence[str], *, processes: int, log: Path) -> list[small_runs.Command]:
    """Start the processes as `torchrun` does."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = str(free.getsockname()[1])
    place = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port, "WORLD_SIZE": str(processes)}
    return [
        small_runs.Command(
            list(words),
            log=log.with_name(f"{log.name}-{number}"),
            environment={**place, "RANK": str(number), "LOCAL_RANK": str(number)},
        )
        for number in range(processes)
    ]


def finish(commands: list[small_runs.Command], log: Path) -> None:
    codes = [command.wait() for command in commands]
    logs = [log.with_name(f"{log.name}-{number}").read_text() for number in range(len(commands))]
    assert codes == [0] * len(commands), "\n".join(logs)
    assert not any(logs[1:]), "the first process speaks for all"


def alone(words: list[str], log: Path) -> None:
    assert small_runs.Command(words, log=log).wait() == 0, log.read_text()


def history(run: Path) -> list[dict[str, Any]]:
    named = ("loss", "grad_norm", "eval_accuracy")
    entries = [json.loads(line) for line in (run / "log.jsonl").read_text().splitlines()]
    return [{name: entry[name] for name in named if name in entry} for entry in entries if "train_seconds" not in entry]


def assert_alike(run: Path, one: Path) -> None:
    """Losses and norms agree to rounding, and so do predictions; what Adam made of gradients near zero may not."""
    expected, found = history(one), history(run)
    assert len(found) == len(expected) > 8
    for entry, want in zip(found, expected, strict=True):
        assert entry == pytest.approx(want, rel=2e-4, abs=2e-5)
    logits = [load_file(folder / "test_logits.safetensors")["logits"] for folder in (run, one)]
    np.testing.assert_allclose(*logits, atol=2e-3)


@pytest.mark.parametrize(("updates", "processes"), [("all", 2), ("rows", 2), ("rows", 3)])
def test_the_losses_are_those_of_one_process(tmp_path: Path, backbone: Path, updates: str, processes: int) -> None:
    command = words(tmp_path, backbone, updates=updates)
    log = tmp_path / "messages"
    finish(together([*command, "--output", str(tmp_path / "many")], processes=processes, log=log), log)
    alone([*command, "--output", str(tmp_path / "one")], log)
    assert_alike(tmp_path / "many", tmp_path / "one")
    assert ("has a share of the rows" in (tmp_path / "messages-0").read_text()) == (updates == "rows")
    assert sorted(os.listdir(tmp_path / "many")) == sorted(os.listdir(tmp_path / "one"))


def test_weights_count_in_all_processes(tmp_path: Path, backbone: Path) -> None:
    """Also where a step has several batches, whose weights differ."""
    command = [*words(tmp_path, backbone, updates="all", rows=900), "data.weight=taste"]
    command.append("training.gradient_accumulation=3")
    log = tmp_path / "messages"
    finish(together([*command, "--output", str(tmp_path / "many")], processes=2, log=log), log)
    alone([*command, "--output", str(tmp_path / "one")], log)
    assert_alike(tmp_path / "many", tmp_path / "one")


def test_a_killed_training_goes_on_with_another_number_of_processes(tmp_path: Path, backbone: Path) -> None:
    command = words(tmp_path, backbone, updates="rows")
    log, run = tmp_path / "messages", tmp_path / "many"
    commands = together([*command, "--output", str(run)], processes=2, log=log)
    while not list(run.glob("checkpoints/checkpoint-10/trainer_state.json")):
        assert all(one.process.is_alive() for one in commands), Path(f"{log}-0").read_text()
        time.sleep(0.01)
    for one in commands:
        one.process.kill()
        one.wait()
    assert not (run / "training.json").exists()
    finish(together([*command, "--output", str(run)], processes=3, log=tmp_path / "again"), tmp_path / "again")
    alone([*command, "--output", str(tmp_path / "one")], log)
    assert_alike(run, tmp_path / "one")


def test_an_error_is_said_once_and_ends_all(tmp_path: Path, backbone: Path) -> None:
    command = [*words(tmp_path, backbone, updates="rows"), "--output", str(tmp_path / "run")]
    wrong = [word if word != "stars" else "starz" for word in command]
    log = tmp_path / "messages"
    assert [one.wait() for one in together(wrong, processes=2, log=log)] == [1, 1]
    assert Path(f"{log}-0").read_text().count("no column 'starz'") == 1
    assert not Path(f"{log}-1").read_text()
    assert not (tmp_path / "run").exists()


def test_what_works_alone_refuses_company(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from attribune.errors import ConfigError
    from attribune.training.distributed import refuse_processes

    monkeypatch.setenv("WORLD_SIZE", "4")
    with pytest.raises(ConfigError, match="started in 4 processes"):
        refuse_processes("search")

"""Several processes train one model to what one process trains it to, with tables replicated or sharded."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import small_runs
from live_service import PATIENCE
from safetensors.numpy import load_file
from torch.distributed import TCPStore
from trained_runs import TrainedRuns
from troubles import FileFault, Trouble

from attribune import train
from attribune.apps.cli import main
from attribune.core.processes import refuse_processes
from attribune.errors import ConfigError
from attribune.training.distributed import refuse_separate_folders, refuse_split_models


@pytest.fixture
def backbone(trained_runs: TrainedRuns) -> Path:
    """A tiny backbone without dropout."""

    def make(folder: Path) -> None:
        small_runs.save_backbone(folder)
        config = json.loads((folder / "config.json").read_text())
        config |= {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
        (folder / "config.json").write_text(json.dumps(config))

    return trained_runs.once("backbone", "without dropout", make)


def words(table: Path, backbone: Path, *, updates: str) -> list[str]:
    """A training without random numbers; its batches of 16 leave some rows over."""
    return [
        *("train", str(table), "--text", "text", "--label", "stars", "--attributes", "user", "--multi-label", "tags:;"),
        *("--backbone", str(backbone), "--epochs", "2", "--batch-size", "16", "--max-length", "32", "--resume"),
        *("--folds", "0"),  # which one process would make of so few rows, and several do not
        *("--no-baselines", "--set", "training.precision=float32", "method.attribute_dropout=0", "backbone.dropout=0"),
        *("method.bottleneck=8", "method.vector_size=8", "task.class_weights=balanced"),
        *("training.evaluate_every=5", "training.patience=99", f"training.table_updates={updates}"),
    ]


class Together:
    """The processes of one training, which meet where `torchrun` lets them meet: at a store of who started them.

    Args:
        trouble: that the first process meets.
    """

    def __init__(
        self, words: Sequence[str], run: Path, *, processes: int, log: Path, trouble: Trouble | None = None
    ) -> None:
        self.store = TCPStore(
            "127.0.0.1", 0, is_master=True, wait_for_workers=False, timeout=timedelta(seconds=PATIENCE)
        )
        place = {
            "MASTER_ADDR": "127.0.0.1",
            "MASTER_PORT": str(self.store.port),
            "WORLD_SIZE": str(processes),
            "TORCHELASTIC_USE_AGENT_STORE": "True",
            "TORCHELASTIC_RESTART_COUNT": "0",
        }
        self.logs = [log.with_name(f"{log.name}-{number}") for number in range(processes)]
        self.commands = [
            small_runs.Command(
                [*words, "--output", str(run)],
                log=own,
                environment={**place, "RANK": str(number), "LOCAL_RANK": str(number)},
                trouble=trouble if number == 0 else None,
            )
            for number, own in enumerate(self.logs)
        ]

    def wait(self) -> list[int | None]:
        return [command.wait() for command in self.commands]

    def finish(self) -> None:
        assert self.wait() == [0] * len(self.commands), "\n".join(log.read_text() for log in self.logs)
        assert not any(log.read_text() for log in self.logs[1:]), "the first process speaks for all"


def history(run: Path) -> list[dict[str, Any]]:
    named = ("loss", "grad_norm", "eval_accuracy")
    entries = [json.loads(line) for line in (run / "log.jsonl").read_text().splitlines()]
    return [{name: entry[name] for name in named if name in entry} for entry in entries if "train_seconds" not in entry]


def assert_alike(run: Path, one: Path) -> None:
    """Losses and norms agree to rounding, and so do predictions; what Adam made of gradients near zero may not."""
    expected, found = history(one), history(run)
    assert len(found) == len(expected) > 5
    for entry, want in zip(found, expected, strict=True):
        assert entry == pytest.approx(want, rel=2e-4, abs=2e-5)
    logits = [load_file(folder / "test_logits.safetensors")["logits"] for folder in (run, one)]
    np.testing.assert_allclose(*logits, atol=2e-3)


@pytest.fixture
def table(trained_runs: TrainedRuns) -> Path:
    return trained_runs.table(small_runs.reviews(205, seed=3))


@pytest.mark.exhaustive
@pytest.mark.slow
@pytest.mark.parametrize(
    ("updates", "processes"),
    [("rows", 2), ("all", 2), ("rows", 3)],
)
def test_the_losses_are_those_of_one_process(
    table: Path, backbone: Path, trained_runs: TrainedRuns, tmp_path: Path, updates: str, processes: int
) -> None:
    command, many = words(table, backbone, updates=updates), tmp_path / "many"
    Together(command, many, processes=processes, log=tmp_path / "messages").finish()
    one = trained_runs.trained([*command, "--output", ""])
    assert_alike(many, one)
    assert ("has a share of the rows" in (tmp_path / "messages-0").read_text()) == (updates == "rows")
    assert sorted(os.listdir(many)) == sorted(os.listdir(one))


@pytest.mark.slow
@pytest.mark.exhaustive
def test_weights_count_in_all_processes(backbone: Path, trained_runs: TrainedRuns, tmp_path: Path) -> None:
    """Also where a step has several batches, whose weights differ."""
    table = trained_runs.table(small_runs.reviews(900, seed=3))
    command = [*words(table, backbone, updates="all"), "data.weight=taste", "training.gradient_accumulation=3"]
    Together(command, tmp_path / "many", processes=2, log=tmp_path / "messages").finish()
    assert_alike(tmp_path / "many", trained_runs.trained([*command, "--output", ""]))


@pytest.mark.slow
@pytest.mark.exhaustive
def test_a_killed_training_goes_on_with_another_number_of_processes(
    table: Path, backbone: Path, trained_runs: TrainedRuns, tmp_path: Path
) -> None:
    command, run = words(table, backbone, updates="rows"), tmp_path / "many"
    trouble = FileFault(str(run / "checkpoints" / "checkpoint-15"), at=1)
    killed = Together(command, run, processes=2, log=tmp_path / "messages", trouble=trouble)
    assert killed.commands[0].wait() == -signal.SIGKILL, killed.logs[0].read_text()
    killed.commands[1].process.kill()
    killed.commands[1].wait()
    assert (run / "checkpoints" / "checkpoint-10" / "trainer_state.json").is_file()
    assert not (run / "training.json").exists()
    Together(command, run, processes=3, log=tmp_path / "again").finish()
    assert_alike(run, trained_runs.trained([*command, "--output", ""]))


@pytest.mark.slow
@pytest.mark.exhaustive
def test_an_error_is_said_once_and_ends_all(table: Path, backbone: Path, tmp_path: Path) -> None:
    wrong = [word if word != "stars" else "starz" for word in words(table, backbone, updates="rows")]
    together = Together(wrong, tmp_path / "run", processes=2, log=tmp_path / "messages")
    assert together.wait() == [1, 1]
    assert together.logs[0].read_text().count("no column 'starz'") == 1
    assert not together.logs[1].read_text()
    assert not (tmp_path / "run").exists()


_KILLED = """
import os, sys
from troubles import FileFault
from attribune.apps.cli import main

if (os.environ["RANK"], os.environ["TORCHELASTIC_RESTART_COUNT"]) == ("1", "0"):
    FileFault(sys.argv.pop(), at=1).__enter__()
else:
    sys.argv.pop()
sys.exit(main(sys.argv[1:]))
"""
"""A command whose second process is killed at its first change of a file below the last argument, the first time."""


@pytest.mark.slow
@pytest.mark.exhaustive
@pytest.mark.parametrize("machines", [1, 2])
def test_torchrun_restarts_a_killed_training(
    table: Path, backbone: Path, trained_runs: TrainedRuns, tmp_path: Path, machines: int
) -> None:
    """The command of the page on several machines; two torchruns meet at a store that is there, not at a free port."""
    store = TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False, timeout=timedelta(seconds=PATIENCE))
    command, run, script = words(table, backbone, updates="rows"), tmp_path / "many", tmp_path / "killed.py"
    script.write_text(_KILLED, encoding="utf-8")
    start = [sys.executable, "-m", "torch.distributed.run", f"--nnodes={machines}", f"--nproc-per-node={2 // machines}"]
    start += ["--max-restarts=1", "--rdzv-backend=c10d", "--rdzv-id=stars", "--rdzv-conf=is_host=0"]
    start += [f"--rdzv-endpoint=127.0.0.1:{store.port}", "--local-addr=127.0.0.1", str(script)]
    logs = [tmp_path / f"messages-{number}" for number in range(machines)]
    agents = []
    for log in logs:
        with log.open("w", encoding="utf-8") as file:
            called = [*start, *command, "--output", str(run), str(run / "checkpoints" / "checkpoint-15")]
            agents.append(subprocess.Popen(called, stdout=file, stderr=subprocess.STDOUT))
    try:
        codes = [agent.wait(PATIENCE) for agent in agents]
    finally:
        for agent in agents:
            agent.terminate()
            agent.wait()
    messages = "\n".join(log.read_text(encoding="utf-8") for log in logs)
    assert codes == [0] * machines, messages
    assert messages.count("resuming from step 15") == messages.count("exitcode: -9") == 1, messages
    assert_alike(run, trained_runs.trained([*command, "--output", ""]))


@pytest.mark.parametrize(
    ("variable", "name"),
    [("ACCELERATE_USE_FSDP", "FSDP"), ("ACCELERATE_USE_DEEPSPEED", "DeepSpeed")],
)
def test_a_model_is_not_divided(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, variable: str, name: str) -> None:
    """What accelerate would do on GPUs, and leaves out on CPUs without a word."""
    monkeypatch.setenv(variable, "false")
    refuse_split_models()
    monkeypatch.setenv(variable, "true")
    with pytest.raises(ConfigError, match=f"{variable} asks accelerate for {name}.*: unset {variable}"):
        train([{"text": "good", "stars": "1"}], tmp_path / "run", text="text", label="stars")
    assert not (tmp_path / "run").exists()


def test_what_works_alone_refuses_company(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("WORLD_SIZE", "4")
    with pytest.raises(ConfigError, match="started in 4 processes"):
        refuse_processes("search")
    assert main(["predict", "run", "rows.csv"]) == 1
    assert "predict was started in 4 processes" in capsys.readouterr().err


def test_a_training_continues_from_one_checkpoint(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("WORLD_SIZE", "2")

    def gather(names: list[str], own: str) -> None:
        names[:] = [own, "checkpoint-15"]

    monkeypatch.setattr("torch.distributed.all_gather_object", gather)
    refuse_separate_folders(tmp_path / "checkpoint-15")
    with pytest.raises(
        ConfigError, match=r"\(none, checkpoint-15\): put the run's folder on a disk that all machines share"
    ):
        refuse_separate_folders(None)

"""The script that measures on a GPU, run on the CPU at tiny shapes."""

from __future__ import annotations

import importlib
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "gpu.py"


def run(file: Path, *words: str) -> subprocess.CompletedProcess[str]:
    environment = os.environ | {"CUDA_VISIBLE_DEVICES": "", "OMP_NUM_THREADS": "1"}
    return subprocess.run(
        [sys.executable, str(SCRIPT), "--small", "--output", str(file), *words],
        capture_output=True,
        text=True,
        env=environment,
    )


@pytest.mark.slow
@pytest.mark.exhaustive
def test_parts_are_written_as_they_come_and_not_run_again(tmp_path: Path) -> None:
    file = tmp_path / "gpu.json"
    ended = run(file, "--device", "cpu", "--parts", "graphs", "prediction", "texts")
    assert ended.returncode == 0, ended.stderr
    known = json.loads(file.read_text(encoding="utf-8"))
    assert known["device"] == "cpu"
    assert "no CUDA graphs" in known["parts"]["graphs"]["left out"]
    shares: dict[str, Any] = known["parts"]["prediction"]["shapes"]["minilm, 256 x 64"]["of_bare"]
    assert known["parts"]["texts"]["busy"] > 0
    assert set(shares) == {"bare, autocast", "injector", "tokens", "pln", "plora", "modulated"}

    ended = run(file, "--device", "cpu", "--minutes", "0")
    assert ended.returncode == 1
    assert "no figures of agreement, steps, compiled, serving, training" in ended.stderr
    found = json.loads(file.read_text(encoding="utf-8"))["parts"]
    assert {part: found[part] for part in known["parts"]} == known["parts"]
    assert "run this again" in found["steps"]["failed"]


@pytest.fixture
def gpu(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """The script in this process, where torch sees no GPU."""
    monkeypatch.syspath_prepend(str(SCRIPT.parent))
    script = importlib.import_module("gpu")

    def run_here(file: Path, *words: str) -> None:
        monkeypatch.setattr(script.torch.cuda, "is_available", lambda: False)
        monkeypatch.setattr("sys.argv", ["gpu.py", "--small", "--output", str(file), *words])
        script.main()

    return run_here


def test_without_a_gpu_it_says_what_to_do(gpu: Callable[..., None], tmp_path: Path) -> None:
    with pytest.raises(SystemExit, match="torch sees no GPU: run this where"):
        gpu(tmp_path / "gpu.json")


def test_what_there_was_no_time_for_is_named(gpu: Callable[..., None], tmp_path: Path) -> None:
    with pytest.raises(SystemExit, match="no figures of graphs, prediction: see 'failed' in"):
        gpu(tmp_path / "gpu.json", "--device", "cpu", "--minutes", "0", "--parts", "graphs", "prediction")
    found = json.loads((tmp_path / "gpu.json").read_text(encoding="utf-8"))["parts"]
    assert all("run this again" in found[part]["failed"] for part in ("graphs", "prediction"))

"""The script that measures on a GPU, run on the CPU at tiny shapes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
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
def test_parts_are_written_as_they_come_and_not_run_again(tmp_path: Path) -> None:
    file = tmp_path / "gpu.json"
    ended = run(file, "--device", "cpu", "--parts", "graphs", "prediction")
    assert ended.returncode == 0, ended.stderr
    known = json.loads(file.read_text(encoding="utf-8"))
    assert known["device"] == "cpu"
    assert "no CUDA graphs" in known["parts"]["graphs"]["left out"]
    shares: dict[str, Any] = known["parts"]["prediction"]["shapes"]["minilm, 256 x 64"]["of_bare"]
    assert set(shares) == {"injector", "tokens", "pln", "plora", "modulated"}

    ended = run(file, "--device", "cpu", "--minutes", "0")
    assert ended.returncode == 1
    assert "no figures of agreement, steps, compiled, serving, training" in ended.stderr
    found = json.loads(file.read_text(encoding="utf-8"))["parts"]
    assert {part: found[part] for part in known["parts"]} == known["parts"]
    assert "run this again" in found["steps"]["failed"]


def test_without_a_gpu_it_says_what_to_do(tmp_path: Path) -> None:
    ended = run(tmp_path / "gpu.json")
    assert ended.returncode == 1
    assert "torch sees no GPU: run this where" in ended.stderr

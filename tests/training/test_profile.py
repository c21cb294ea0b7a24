"""Where the time went: every part has its own time, backward passes too, and the training is the same."""

from __future__ import annotations

import gzip
import json
import re
import time
from pathlib import Path
from typing import Any

import pytest
import small_runs
import torch
from safetensors.torch import load_file
from torch.profiler import ProfilerActivity, profile, record_function

from attribune.apps.cli import main
from attribune.training.callbacks.profile import time_by_part

pytestmark = pytest.mark.slow


class Slow(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, seconds: float) -> torch.Tensor:
        ctx.seconds = seconds
        return x * 2

    @staticmethod
    def backward(ctx: Any, *grads: torch.Tensor) -> tuple[torch.Tensor, None]:
        time.sleep(ctx.seconds)
        return grads[0] * 2, None


def test_a_backward_pass_belongs_to_the_part_of_its_forward_pass() -> None:
    x = torch.ones(3, requires_grad=True)
    with profile(activities=[ProfilerActivity.CPU]) as found:
        with record_function("attribune.attributes"):
            y: torch.Tensor = Slow.apply(x, 0.2)  # type: ignore[no-untyped-call]
            with record_function("attribune.task adapters"):
                y = Slow.apply(y, 0.4)  # type: ignore[no-untyped-call]
        Slow.apply(y, 0.1).sum().backward()  # type: ignore[no-untyped-call]
    parts = time_by_part(found.events())  # type: ignore[no-untyped-call]
    slept = {"attributes": 200_000, "task adapters": 400_000, "backbone and head": 100_000}
    assert all(parts[name] >= microseconds for name, microseconds in slept.items()), "the part that slept, at least"


@pytest.mark.parametrize(
    ("method", "steps", "seen", "apart"), [("adapter+tokens", 20, 8, {"task adapters"}), ("injector", 4, 4, set())]
)
def test_train_writes_a_trace_and_a_summary(
    method: str, steps: int, seen: int, apart: set[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data = small_runs.write_csv(tmp_path / "rows.csv", small_runs.reviews(150, seed=5))
    backbone = small_runs.save_backbone(tmp_path / "backbone")
    runs = {}
    for name, flags in (("plain", []), ("seen", ["--profile"])):
        words = small_runs.train_command(data, tmp_path / name, backbone=backbone, method=method)
        assert main([*words, f"training.steps={steps}", "--no-baselines", *flags]) == 0
        runs[name] = load_file(tmp_path / name / "model" / "model.safetensors")
    assert not (tmp_path / "plain" / "profile").exists()
    assert "where the time went" in capsys.readouterr().err
    assert all(torch.equal(tensor, runs["plain"][name]) for name, tensor in runs["seen"].items())
    text = (tmp_path / "seen" / "profile" / "summary.md").read_text()
    assert text.startswith(f"# Where the time of {seen} steps went: {method}")
    shares = {name: float(share) for name, share in re.findall(r"^\| ([a-z ]+) \| [\d.]+ \| ([\d.]+)%", text, re.M)}
    assert set(shares) == {"attributes", "backbone and head", "optimiser", "data", *apart}
    assert sum(shares.values()) == pytest.approx(100, abs=0.5)
    assert f"Attributes took {shares['attributes']:.1f}%" in text
    with gzip.open(tmp_path / "seen" / "profile" / "trace.json.gz", "rt") as file:
        names = {event.get("name") for event in json.load(file)["traceEvents"]}
    assert {"attribune.attributes", "aten::mm"} <= names

"""Where the time went: every part has its own time, backward passes too, and the training is the same."""

from __future__ import annotations

import gzip
import json
import re
from pathlib import Path
from typing import Any

import pytest
import small_runs
import torch
from safetensors.torch import load_file
from torch.profiler import ProfilerActivity, profile, record_function
from trained_runs import ROWS, TrainedRuns

from attribune.apps.cli import main
from attribune.training.callbacks import profile as profiling


class Doubled(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        return x * 2

    @staticmethod
    def backward(ctx: Any, *grads: torch.Tensor) -> torch.Tensor:
        return grads[0] * 2


def test_a_backward_pass_belongs_to_the_part_of_its_forward_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    def doubled(x: torch.Tensor, times: int) -> torch.Tensor:
        for _ in range(times):
            x = Doubled.apply(x)  # type: ignore[no-untyped-call]
        return x

    x = torch.ones(3, requires_grad=True)
    with profile(activities=[ProfilerActivity.CPU]) as found:
        with record_function("attribune.attributes"):
            y = doubled(x, 2)
            with record_function("attribune.task adapters"):
                y = doubled(y, 4)
        doubled(y, 1).sum().backward()
    assert all(time >= 0 for time in profiling.time_by_part(found.events()).values())  # type: ignore[no-untyped-call]
    monkeypatch.setattr(profiling, "_own_time", lambda event: float(event.name == "DoubledBackward"))
    parts = profiling.time_by_part(found.events())  # type: ignore[no-untyped-call]
    assert {name: time for name, time in parts.items() if time} == {
        "attributes": 2,
        "task adapters": 4,
        "backbone and head": 1,
    }


@pytest.mark.exhaustive
@pytest.mark.slow
@pytest.mark.parametrize(
    ("method", "steps", "seen", "apart"),
    [
        ("adapter+tokens", 4, 4, {"task adapters"}),
        pytest.param("injector", 20, 8, set(), marks=pytest.mark.exhaustive),
    ],
)
def test_train_writes_a_trace_and_a_summary(
    method: str,
    steps: int,
    seen: int,
    apart: set[str],
    tmp_path: Path,
    trained_runs: TrainedRuns,
    capsys: pytest.CaptureFixture[str],
) -> None:
    more = [f"training.steps={steps}", "--no-baselines"]
    words = small_runs.train_command(
        trained_runs.table(ROWS), tmp_path / "seen", backbone=trained_runs.backbone(), method=method
    )
    assert main([*words, *more, "--profile"]) == 0
    assert "where the time went" in capsys.readouterr().err
    plain = trained_runs(method, *more)
    assert not (plain / "profile").exists()
    weights = [load_file(run / "model" / "model.safetensors") for run in (plain, tmp_path / "seen")]
    assert weights[0].keys() == weights[1].keys()
    assert all(torch.equal(tensor, weights[1][name]) for name, tensor in weights[0].items())
    text = (tmp_path / "seen" / "profile" / "summary.md").read_text()
    assert text.startswith(f"# Where the time of {seen} steps went: {method}")
    shares = {name: float(share) for name, share in re.findall(r"^\| ([a-z ]+) \| [\d.]+ \| ([\d.]+)%", text, re.M)}
    assert set(shares) == {"attributes", "backbone and head", "optimiser", "data", *apart}
    assert sum(shares.values()) == pytest.approx(100, abs=0.5)
    assert f"Attributes took {shares['attributes']:.1f}%" in text
    with gzip.open(tmp_path / "seen" / "profile" / "trace.json.gz", "rt") as file:
        names = {event.get("name") for event in json.load(file)["traceEvents"]}
    assert {"attribune.attributes", "aten::mm"} <= names

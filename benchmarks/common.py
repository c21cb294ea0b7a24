"""What the scripts share: where they were run, how fast it multiplies, and where they write."""

from __future__ import annotations

import json
import platform
import statistics
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from attribune import Adapter
from attribune.methods.adapter import AdapterSite
from attribune.methods.base import SiteModule
from attribune.training.optimizer import clip_gradients

if TYPE_CHECKING:
    from attribune.sharding import ShardedTables

RESULTS = Path(__file__).parent / "results"


def machine() -> dict[str, Any]:
    """What the figures depend on."""
    name = next(
        (line.split(":")[1].strip() for line in _cpu_lines() if line.startswith("model name")), platform.machine()
    )
    return {"processor": name, "threads": torch.get_num_threads(), "torch": torch.__version__}


def _cpu_lines() -> list[str]:
    file = Path("/proc/cpuinfo")
    return file.read_text().splitlines() if file.is_file() else []


def product_rate(dtype: torch.dtype) -> float:
    """Multiplications and additions per second of a large matrix product."""
    a, b = torch.randn(2048, 2048).to(dtype), torch.randn(2048, 2048).to(dtype)
    a @ b
    times = []
    for _ in range(7):
        started = time.perf_counter()
        a @ b
        times.append(time.perf_counter() - started)
    return 2 * 2048**3 / min(times)


def seconds_per_tangent() -> float:
    """Of a hyperbolic tangent among many, in memory that is near."""
    there, times = torch.randn(1 << 18), []
    for _ in range(9):
        started = time.perf_counter()
        for _ in range(16):
            torch.tanh(there)
        times.append((time.perf_counter() - started) / 16 / there.numel())
    return statistics.median(times)


class ChainSite(SiteModule):
    """Static adapters in a row: what as many attributes cost whose weights are given instead of generated."""

    def __init__(self, adapters: int, *, hidden: int, bottleneck: int) -> None:
        super().__init__()
        settings = Adapter(bottleneck=bottleneck)
        self.adapters = nn.ModuleList(AdapterSite(settings, hidden=hidden) for _ in range(adapters))

    def forward(self, hidden: Tensor, condition: Any) -> Tensor:
        for adapter in self.adapters:
            hidden = adapter(hidden)
        return hidden


def timed_step(
    model: nn.Module,
    optimizer: torch.optim.Optimizer,
    batch: dict[str, Tensor],
    *,
    forward: nn.Module | None = None,
    sharded: ShardedTables | None = None,
) -> float:
    """Seconds of a whole training step in bf16, clipping and update among them.

    Args:
        model: with the parameters.
        optimizer: of these.
        batch: with labels.
        forward: what is called in the model's place, which it is wrapped in.
        sharded: the tables of which other processes have rows.
    """
    started = time.perf_counter()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        loss = (forward or model)(**batch).loss
    loss.backward()
    clip_gradients(model.parameters(), 1.0, sharded)
    optimizer.step()
    optimizer.zero_grad()
    return time.perf_counter() - started


def earlier_result(name: str) -> dict[str, Any]:
    """A result file that was measured on this machine; empty where there is none."""
    file = RESULTS / f"{name}.json"
    found: dict[str, Any] = json.loads(file.read_text()) if file.is_file() else {}
    return found if found.get("machine") == machine() else {}


def write_result(name: str, result: dict[str, Any]) -> None:
    """Write a result file beside the others."""
    file = RESULTS / f"{name}.json"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps(result, indent=1) + "\n")
    print(f"written: {file}")

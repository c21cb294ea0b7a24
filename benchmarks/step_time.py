"""Time of one training step of each method, interleaved in one process, beside its floor in arithmetic.

    python benchmarks/step_time.py [--rows 32] [--tokens 64] [--rounds 12] [--precision bf16]

The floor counts the multiplications and additions of the matrix products that a step cannot do without, and divides
them by the rate that a large product of the same precision reaches in the same process. `injector, naive` is the same
equation written with one tangent tensor per value and kept for the backward pass, values not shared between rows.
Writes benchmarks/results/step_time.json.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import platform
import statistics
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from attribune import Adapter, AttributeModel, Categorical, Classification, Injector, Plain, Schema, functional
from attribune.backbone import DEFAULT_BACKBONE

RESULT = Path(__file__).parent / "results" / "step_time.json"
METHODS = {"none": Plain(), "adapter": Adapter(), "injector": Injector()}


def naive_sum_of_tanh(z_hat: Tensor, K: Tensor, membership: Tensor) -> Tensor:
    weights = torch.tanh(z_hat[..., None] * K[None, :, None, :]).sum(dim=1).flatten(1)
    return membership @ weights


@contextlib.contextmanager
def naive(on: bool) -> Iterator[None]:
    ours = functional.sum_of_tanh
    if on:
        functional.sum_of_tanh = naive_sum_of_tanh
    yield
    functional.sum_of_tanh = ours


def table(rows: int) -> dict[str, list[str]]:
    """Values as skewed as users and products are."""
    chance = np.random.default_rng(0)
    ranks = {"critic": 600, "film": 1800, "publication": 60}
    return {name: [f"{name}{i % size}" for i in chance.zipf(1.3, rows)] for name, size in ranks.items()}


def floor_flops(model: AttributeModel, rows: int, tokens: int) -> float:
    """Multiplications and additions of one step: forward, gradients of states, and of weights where they learn."""
    config = model.config.text_config
    H, layers, inner = config.hidden_size, config.num_hidden_layers, config.intermediate_size
    n = rows * tokens
    matrices = layers * (4 * H * H + 2 * H * inner)
    attention = layers * 2 * tokens * H
    full = model.config.tuning == "full"
    total = 2.0 * n * (matrices * (3 if full else 2) + attention * 3)
    A = 64
    for site in model.method.sites:
        adapters = 1 + len(getattr(site, "attributes", ()))
        total += 2.0 * n * 2 * H * A * 3 * adapters
    return total


def rate(dtype: torch.dtype) -> float:
    """Operations per second of a large matrix product."""
    a, b = torch.randn(2048, 2048).to(dtype), torch.randn(2048, 2048).to(dtype)
    a @ b
    times = []
    for _ in range(5):
        started = time.perf_counter()
        a @ b
        times.append(time.perf_counter() - started)
    return 2 * 2048**3 / min(times)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=32)
    parser.add_argument("--tokens", type=int, default=64)
    parser.add_argument("--rounds", type=int, default=12)
    parser.add_argument("--precision", choices=("float32", "bf16"), default="bf16")
    options = parser.parse_args()
    data = table(options.rows * options.rounds)
    schema = Schema.fit(data, [Categorical(name) for name in data])
    ids = torch.as_tensor(schema.encode(data)[0]).view(options.rounds, options.rows, -1)
    models = {
        name: AttributeModel.build(DEFAULT_BACKBONE, schema, task=Classification(classes=2), method=method).train()
        for name, method in METHODS.items()
    }
    cases = {**{name: (name, False) for name in models}, "injector, naive": ("injector", True)}
    times: dict[str, list[float]] = {name: [] for name in cases}
    dtype = torch.bfloat16 if options.precision == "bf16" else torch.float32
    for number in range(options.rounds):
        batch = {
            "input_ids": torch.randint(1000, 20000, (options.rows, options.tokens)),
            "attribute_ids": ids[number],
            "labels": torch.randint(0, 2, (options.rows,)),
        }
        for name, (model_name, is_naive) in cases.items():
            model = models[model_name]
            with naive(is_naive):
                started = time.perf_counter()
                with torch.autocast("cpu", dtype=dtype, enabled=options.precision == "bf16"):
                    loss = model(**batch).loss
                loss.backward()
                times[name].append(time.perf_counter() - started)
            model.zero_grad()
    speed = rate(dtype)
    plain = statistics.median(times["none"][2:])
    result: dict[str, Any] = {
        "rows": options.rows,
        "tokens": options.tokens,
        "precision": options.precision,
        "threads": torch.get_num_threads(),
        "machine": platform.machine(),
        "product_gflops": speed / 1e9,
        "cases": {
            name: {
                "milliseconds": 1e3 * statistics.median(found[2:]),
                "of_plain": statistics.median(found[2:]) / plain,
                "floor_milliseconds": 1e3 * floor_flops(models[cases[name][0]], options.rows, options.tokens) / speed,
            }
            for name, found in times.items()
        },
    }
    RESULT.parent.mkdir(parents=True, exist_ok=True)
    RESULT.write_text(json.dumps(result, indent=1) + "\n")
    print(json.dumps(result, indent=1))


if __name__ == "__main__":
    main()

"""Time of one batch of predictions with values seen before, and how often a bounded memory has seen them.

    python benchmarks/prediction.py [--rounds 15]

All cases take turns in one process on the same batch. `chain`: M + 1 static adapters in a row. `kept`: an Injector
whose weights for the values of the batch are kept from an earlier one. `made anew`: the same without memory. `eager`:
the same with every hyperbolic tangent of the equation evaluated and stored. The hit rates are those of batches of 32
rows whose users follow Zipf's law, of 100,000 users, in the second thousand of batches, weights in bf16.
Writes benchmarks/results/prediction.json.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from contextlib import nullcontext
from dataclasses import replace
from typing import Any
from unittest import mock

import numpy as np
import torch
from common import machine, write_result
from torch import Tensor
from training_step import SHAPES, Shape, batch, build, ratios

from attribune import functional
from attribune.kept import KeptWeights
from attribune.process_memory import keep_freed_memory

CASES = ("chain", "kept", "made anew", "eager")
USERS, ROWS, BATCHES = 100_000, 32, 2_000


def eager(z_hat: Tensor, K: Tensor, membership: Tensor) -> Tensor:
    """`functional.sum_of_tanh` as the equation stands."""
    return membership @ torch.tanh(z_hat[..., None] * K[None, :, None, :]).sum(dim=1).flatten(1)


def measure(name: str, shape: Shape, precision: str, rounds: int) -> dict[str, Any]:
    """All cases of one shape and precision."""
    models = {case: build("chain" if case == "chain" else "injector", shape).eval() for case in CASES[:3]}
    models["eager"] = models["made anew"]
    models["kept"].keep_weights(2_000)  # type: ignore[operator]
    given = {key: tensor for key, tensor in batch(shape).items() if key != "labels"}
    times: dict[str, list[float]] = {case: [] for case in CASES}
    for number in range(rounds + 2):
        for case in CASES:
            with (
                torch.inference_mode(),
                torch.autocast("cpu", dtype=torch.bfloat16, enabled=precision == "bf16"),
                mock.patch.object(functional, "sum_of_tanh", eager) if case == "eager" else nullcontext(),
            ):
                started = time.perf_counter()
                models[case](**given)
                if number > 1:
                    times[case].append(time.perf_counter() - started)
    stores = models["kept"].method.kept_weights  # type: ignore[union-attr,operator]
    return {
        "shape": name,
        "precision": precision,
        "rows": shape.rows,
        "tokens": shape.tokens,
        "distinct": shape.distinct,
        "kept_megabytes": sum(store.megabytes for store in stores.values()),
        "milliseconds": {case: 1e3 * statistics.median(times[case]) for case in CASES},
        "of_chain": {case: ratios(times[case], times["chain"]) for case in CASES},
        "eager_of_kept": ratios(times["eager"], times["kept"]),
    }


def hit_rates(shape: Shape) -> list[dict[str, float]]:
    """Share of a batch's distinct users whose weights are there, for several sizes of the memory."""
    numbers = 2 * shape.layers * 64 * (shape.hidden + 1)
    found = []
    for exponent in (0.8, 1.0, 1.2):
        weights = np.arange(1, USERS + 1) ** -exponent
        users = np.random.default_rng(0).choice(USERS, size=(BATCHES, ROWS), p=weights / weights.sum())
        for megabytes in (64, 256, 1024, 4096):
            store = KeptWeights(megabytes * 2**20, numbers=numbers, sites=1, most=USERS)
            before = (0, 0)
            for number, ids in enumerate(users):
                distinct, index = torch.unique(torch.from_numpy(ids), return_inverse=True)
                store.take(distinct, index, stamp=0, dtype=torch.bfloat16)
                if number == BATCHES // 2:
                    before = (store.hits, store.misses)
            hits, misses = store.hits - before[0], store.misses - before[1]
            found.append(
                {
                    "exponent": exponent,
                    "megabytes": megabytes,
                    "values": store.values,
                    "hit_rate": hits / max(1, hits + misses),
                }
            )
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=15)
    options = parser.parse_args()
    keep_freed_memory()
    shapes = {**SHAPES, "bert-base, 64 tokens": replace(SHAPES["bert-base"], tokens=64)}
    found = []
    for name, shape in shapes.items():
        for precision in ("bf16", "float32"):
            found.append(measure(name, shape, precision, options.rounds))
            print(json.dumps(found[-1]), flush=True)
    rates = {name: hit_rates(SHAPES[name]) for name in ("minilm", "bert-base")}
    write_result("prediction", {"machine": machine(), "measured": found, "hit_rates": rates})


if __name__ == "__main__":
    main()

"""Time and memory of generated weights alone, forward and backward, against eager ways and the tangents by themselves.

    python benchmarks/generated_weights.py [--rounds 40]

The weights of one attribute at one site, from its vectors to the sum over each row's values (`functional.phm_weight`),
of an Injector as it is built, and with vectors so large that the arguments of the tangents reach 1.2. `tanh` evaluates
the equation as it stands for all values at once; `sigmoid` does so by `2 sigmoid(2 x) - 1`, the fastest eager way
found; `chunks` is the library's way for larger arguments. The tangents by themselves are one `torch.tanh` of as many
numbers for each pass. Memory is what a forward pass leaves for the backward pass, in sizes of the result. All take
turns in one process. Writes benchmarks/results/generated_weights.json.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable
from functools import partial
from typing import Any
from unittest import mock

import torch
from harness import arguments, by_turns, milliseconds, seconds, write_result
from models import SHAPES, build
from torch import Tensor

from attribune.core.process import keep_freed_memory
from attribune.functional import injector
from attribune.functional.tanh_sum import tanh_sum

SITUATIONS = (("minilm", 32, 32), ("minilm", 2, 32), ("minilm", 1024, 32), ("bert-base", 8, 8), ("bert-base", 32, 32))
REACH = 1.2


def eager_tanh(z_hat: Tensor, K: Tensor, membership: Tensor) -> Tensor:
    """The sum of the equation as it stands."""
    return membership @ torch.tanh(z_hat[..., None] * K[None, :, None, :]).sum(dim=1).flatten(1)


def eager_sigmoid(z_hat: Tensor, K: Tensor, membership: Tensor) -> Tensor:
    """The same by the function that is faster on a processor."""
    sigmoids = torch.sigmoid(z_hat[..., None] * (2 * K)[None, :, None, :]).sum(dim=1)
    return membership @ (2 * sigmoids - z_hat.shape[1]).flatten(1)


WAYS: dict[str, Callable[..., Tensor]] = {
    "ours": tanh_sum,
    "chunks": partial(tanh_sum, implementation="exact"),
    "sigmoid": eager_sigmoid,
    "tanh": eager_tanh,
}


def kept_bytes(run: Callable[[], Tensor]) -> int:
    """Bytes of the tensors that a forward pass saves, each memory once."""
    seen: dict[int, int] = {}

    def pack(tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()
        seen[storage.data_ptr()] = storage.nbytes()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        run()
    return sum(seen.values())


def seconds_per_tangent() -> float:
    """Of a hyperbolic tangent among many, in memory that is near."""
    there = torch.randn(1 << 18)
    times = [seconds(lambda: [torch.tanh(there) for _ in range(16)]) for _ in range(9)]
    return statistics.median(times) / 16 / there.numel()


def measure(name: str, values: int, rows: int, rounds: int, *, large: bool) -> dict[str, Any]:
    """One situation, with vectors as they begin or large ones."""
    torch.manual_seed(0)
    model = build("injector", SHAPES[name])
    generator = model.method.sites[0].attributes[0].g  # type: ignore[union-attr,index]
    z = model.method.tables[0].detach()[1:2].std() * torch.randn(values, generator.sigma.shape[2])  # type: ignore[union-attr,index]
    reach = _reach(z, generator)
    if large:
        z, reach = z * REACH / reach, REACH
    z.requires_grad_()
    number = torch.arange(max(rows, values))
    membership = torch.zeros(rows, values).index_put_((number % rows, number % values), torch.ones(()))
    H, A = SHAPES[name].hidden, generator.sigma.shape[1]
    upstream = torch.randn(rows, H, A)

    def run() -> Tensor:
        return injector.phm_weight(z, membership, generator.sigma, generator.s, generator.A_o)

    def job(way: str) -> Callable[[], float]:
        def timed() -> float:
            with mock.patch.object(injector, "tanh_sum", WAYS[way]):
                return seconds(lambda: run().backward(upstream))

        return timed

    kept: dict[str, float] = {}
    for way, function in WAYS.items():
        with mock.patch.object(injector, "tanh_sum", function):
            kept[way] = kept_bytes(run) / (4 * upstream.numel())
    found = milliseconds(by_turns({way: job(way) for way in WAYS}, rounds, warm=3))
    tangents = 2e3 * values * generator.sigma.shape[0] * A * H * seconds_per_tangent()
    eager = min(found["sigmoid"], found["tanh"])
    return {
        "shape": name,
        "values": values,
        "rows": rows,
        "reach": float(reach),
        "milliseconds": found,
        "tangents_milliseconds": tangents,
        "faster_than_eager": eager / found["ours"],
        "of_tangents": found["ours"] / tangents,
        "kept_in_results": kept,
    }


def _reach(z: Tensor, generator: Any) -> float:
    z_hat = torch.einsum("oaz,uz->uoa", generator.sigma, z)
    K = generator.A_o[:, :, None, :] * generator.s[:, None, :, None]
    return float((z_hat.abs().amax(dim=(0, 2)) * K.abs().amax(dim=(1, 2, 3))).max())


def main() -> None:
    options = arguments(__doc__, "generated_weights", rounds=40).parse_args()
    keep_freed_memory()
    found = [measure(*situation, options.rounds, large=large) for large in (False, True) for situation in SITUATIONS]
    write_result(options.output, {"measured": found})


if __name__ == "__main__":
    main()

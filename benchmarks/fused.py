"""States times generated weights on a GPU: the kernel that never writes them against matrix products of powers.

    python benchmarks/fused.py [--rounds 200]

One attribute at one site of an Injector (`functional.phm_projection`), in bf16, for texts of 1 to 512 tokens, with and
without a backward pass. Every ratio is of medians of times that were taken in turns. Where the ratio falls below 1 is
what `attribune.functional.fused` should have for few tokens. Writes benchmarks/results/fused.json.
"""

from __future__ import annotations

import itertools
import statistics
import sys
from collections.abc import Callable
from typing import Any

import torch
from harness import arguments, by_turns, write_result
from torch import Tensor

from attribune import functional

SHAPES = {"minilm": (384, 64), "bert-base": (768, 64)}
TOKENS = (1, 16, 64, 128, 256, 512)
ROWS = (8, 32, 256)
O, Z = 4, 64


def milliseconds(run: Callable[[], object]) -> float:
    """Of one run on the device."""
    begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    begin.record()
    run()
    end.record()
    torch.cuda.synchronize()
    return float(begin.elapsed_time(end))


def inputs(H: int, A: int, rows: int, tokens: int) -> dict[str, Tensor]:
    """As many values as rows, as large as those of a trained model."""
    drawn = {"z": 0.1 * torch.randn(rows, Z), "sigma": torch.randn(O, A, Z), "s": 0.025 * torch.randn(O, H // O**2)}
    drawn |= {"A_o": torch.randn(O, O, O), "C": 0.01 * torch.randn(H, A)}
    found = {name: x.cuda().requires_grad_() for name, x in drawn.items()}
    h = torch.randn(rows, tokens, H, device="cuda", dtype=torch.bfloat16, requires_grad=True)
    return found | {"h": h, "membership": torch.eye(rows, device="cuda")}


def measure(name: str, rows: int, tokens: int, rounds: int) -> dict[str, Any]:
    """One situation."""
    H, A = SHAPES[name]
    given = inputs(H, A, rows, tokens)
    upstream = torch.randn(rows, tokens, A, device="cuda", dtype=torch.bfloat16)

    def forward(way: str) -> Tensor:
        with torch.autocast("cuda", dtype=torch.bfloat16):
            return functional.phm_projection(**given, implementation=way)  # type: ignore[arg-type]

    def job(way: str, what: str) -> Callable[[], float]:
        def alone() -> float:
            with torch.no_grad():
                return milliseconds(lambda: forward(way))

        return alone if what == "forward" else lambda: milliseconds(lambda: forward(way).backward(upstream))

    jobs = {(way, what): job(way, what) for what in ("forward", "both") for way in ("weights", "fused")}
    found = {case: statistics.median(times) for case, times in by_turns(jobs, rounds, warm=10).items()}
    return {
        "shape": name,
        "rows": rows,
        "tokens": tokens,
        "milliseconds": {", ".join(case): figure for case, figure in found.items()},
        "weights_over_fused": {what: found["weights", what] / found["fused", what] for what in ("forward", "both")},
    }


def main() -> None:
    options = arguments(__doc__, "fused", rounds=200).parse_args()
    if not torch.cuda.is_available():
        sys.exit("there is no GPU here: run this where torch.cuda.is_available() is true")
    cases = itertools.product(SHAPES, ROWS, TOKENS)
    found = [measure(*case, options.rounds) for case in cases]
    write_result(options.output, {"gpu": torch.cuda.get_device_name(), "measured": found})


if __name__ == "__main__":
    main()

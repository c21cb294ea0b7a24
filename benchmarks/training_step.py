"""Time and memory of one training step: what attributes cost beside plain adapters, LoRA and full fine-tuning.

    python benchmarks/training_step.py [--shapes bert-base minilm] [--precisions bf16] [--rounds 11]

All cases of a shape take turns in one process on the same batch; a figure is the median of the ratios of the rounds,
so that a machine that is slower for a while slows all alike. `chain` is the reference: M + 1 static adapters in a row,
the arithmetic of an Injector with M attributes whose weights are given instead of generated. `bare` is the stock class
of transformers, `full` the same backbone in ours, both tuned in full. `peft` cases are LoRA of
the peft library on query and value with the same head. Floors count the multiplications and additions of the matrix
products that a step cannot do without (of frozen weights no gradient, and nothing in front of the first site that
learns); that of an Injector has the products of four powers beside, of which its weights are made.
Peak memory is that of a process of its own for each case. Writes benchmarks/results/training_step.json after each
shape, where those measured earlier on the same machine stay.
"""

from __future__ import annotations

import sys
from typing import Any

import torch
from harness import arguments, by_turns, child, earlier, milliseconds, ratio, resident, seconds, write_result
from models import BOTTLENECK, CASES, SHAPES, Shape, batch, build, inputs_of
from torch import Tensor, nn

from attribune import Injector
from attribune.core.process import keep_freed_memory, peak_megabytes

POWERS = 4  # that the weights are made of, at the size that a trained Injector's have


def step(model: nn.Module, given: dict[str, Tensor], precision: str) -> float:
    """Seconds of a forward and a backward pass."""

    def passes() -> None:
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=precision == "bf16"):
            loss = model(**given).loss
        loss.backward()

    took = seconds(passes)
    model.zero_grad()
    return took


def floor_operations(case: str, shape: Shape) -> float:
    """Multiplications and additions of one step."""
    H, n = shape.hidden, shape.rows * shape.tokens
    attention = 2 * shape.tokens * H  # scores and weighted sums, of one token in one layer
    if case in ("bare", "full"):
        return 2.0 * n * shape.layers * 3 * (12 * H * H + attention)
    if case.startswith("peft"):
        learned = 2 * 2 * H * int(case.split()[1])
        in_front = 2 * H * H  # query and key or value of the first layer pass no gradient on
        return 2.0 * n * (shape.layers * (2 * 12 * H * H + 3 * attention + 3 * learned) - in_front)
    adapters = 1 if case == "adapter" else len(shape.distinct) + 1
    in_front = 4 * H * H + 2 * attention  # the first attention, in front of the first site
    learned = 2 * adapters * 2 * H * BOTTLENECK
    powers = 0
    if case == "injector":
        of_value = BOTTLENECK * Injector().hypercomplex * POWERS * H
        powers = 2 * shape.layers * 3 * of_value * sum(shape.distinct)
    return 2.0 * (n * (shape.layers * (2 * 12 * H * H + 3 * attention + 3 * learned) - in_front) + powers)


def product_rate(dtype: torch.dtype) -> float:
    """Multiplications and additions per second of a large matrix product."""
    a, b = torch.randn(2048, 2048).to(dtype), torch.randn(2048, 2048).to(dtype)
    return 2 * 2048**3 / min(seconds(lambda: a @ b) for _ in range(8))


def step_megabytes(case: str, name: str, precision: str) -> float:
    """What two steps take at most, beyond what this process held before."""
    keep_freed_memory()
    model, given = build(case, SHAPES[name]), inputs_of(case, batch(SHAPES[name]))
    before = resident()
    for _ in range(2):
        step(model, given, precision)
    return peak_megabytes() - before


def measure(name: str, precision: str, rounds: int) -> dict[str, Any]:
    """Times of all cases of one shape and precision."""
    shape = SHAPES[name]
    rate = product_rate(torch.bfloat16 if precision == "bf16" else torch.float32)
    models, given = {case: build(case, shape) for case in CASES}, batch(shape)
    jobs = {
        case: lambda case=case, model=model: step(model, inputs_of(case, given), precision)
        for case, model in models.items()
    }
    times = by_turns(jobs, rounds, warm=1)
    floors = {case: floor_operations(case, shape) / rate for case in CASES}
    middle = milliseconds(times)
    return {
        "shape": name,
        "precision": precision,
        "rows": shape.rows,
        "tokens": shape.tokens,
        "distinct": list(shape.distinct),
        "product_gflops": rate / 1e9,
        "injector_against": {
            other: {"time": ratio(times["injector"], times[other]), "floor": floors["injector"] / floors[other]}
            for other in CASES
            if other != "injector"
        },
        "cases": {case: {"milliseconds": middle[case], "floor_milliseconds": 1e3 * floors[case]} for case in CASES},
    }


def add_memory(found: dict[str, Any]) -> None:
    """Measure the memory of all cases of a record, and add it."""
    peaks = {case: child(step_megabytes, case, found["shape"], found["precision"]) for case in CASES}
    for case, peak in peaks.items():
        found["cases"][case]["step_megabytes"] = peak
        if case != "injector":
            found["injector_against"][case]["memory"] = peaks["injector"] / peak


def main() -> None:
    parser = arguments(__doc__, "training_step", rounds=11)
    parser.add_argument("--shapes", nargs="+", choices=SHAPES, default=list(SHAPES))
    parser.add_argument("--precisions", nargs="+", choices=("bf16", "float32"))
    parser.add_argument("--memory-alone", action="store_true", help="add to what was measured; needs no quiet machine")
    options = parser.parse_args()
    keep_freed_memory()
    known = {(one["shape"], one["precision"]): one for one in earlier(options.output).get("measured", [])}
    order = [(name, precision) for name in SHAPES for precision in ("bf16", "float32")]
    for name in options.shapes:
        for precision in options.precisions or SHAPES[name].precisions:
            if not options.memory_alone:
                known[name, precision] = measure(name, precision, options.rounds)
            elif (name, precision) not in known:
                sys.exit(f"{name} in {precision} was not measured on this machine: leave --memory-alone out")
            add_memory(known[name, precision])
            write_result(options.output, {"measured": [known[key] for key in order if key in known]})


if __name__ == "__main__":
    main()

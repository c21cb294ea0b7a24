"""How time and memory of a training step of the Injector grow: with tokens, attributes, labels, values and bottleneck.

    python benchmarks/scaling.py [--axes tokens attributes labels values bottleneck] [--rounds 7]
    python benchmarks/scaling.py --plot

A step is forward pass, backward pass, clipping and update, over the packaged MiniLM in bf16; every value of a batch is
a different one, and each step has a batch of its own. One thing changes along an axis, the batch stays. The sizes of an
axis take turns in one process, with the chain of static adapters beside them where it has that axis (as many adapters
as the Injector has: one for the task, one for each attribute); sizes of the table are processes of their own that step
by turns. Texts above 512 tokens are read in chunks of 512. Memory is what a process of its own holds at most while it
makes three steps, less what it held before it built anything; along `values` it is that of the process that is timed,
after all its steps, with every page of the optimiser's state in use.

An exponent is the slope of the logarithm of time or memory over that of the size: over the whole axis, over its upper
half, and between the last two sizes. An axis that is measured again takes the place of the old one in
benchmarks/results/scaling.json; `--plot` draws docs/images/scaling.svg from that file.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Generator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from harness import Child, arguments, by_turns, milliseconds, ratio, resident, write_result
from models import Point, Training
from scaling_plot import write_plot

from attribune.core.process import keep_freed_memory, peak_megabytes

STEPS = 3  # of a process whose memory is looked at


@dataclass(frozen=True, kw_only=True)
class Axis:
    """A field of `Point` with its sizes, and what the other fields are."""

    sizes: tuple[int, ...]
    others: Point
    chain: bool


AXES = {
    "tokens": Axis(sizes=(64, 128, 256, 512, 1024, 2048, 4096), others=Point(rows=2), chain=True),
    "attributes": Axis(sizes=(1, 2, 4, 8), others=Point(), chain=True),
    "labels": Axis(sizes=(1, 4, 16, 64), others=Point(attributes=1, values=2048), chain=False),
    "values": Axis(sizes=(10**3, 10**4, 10**5, 10**6, 10**7), others=Point(attributes=1), chain=False),
    "bottleneck": Axis(sizes=(8, 16, 32, 64, 128, 256), others=Point(), chain=True),
}


def training_along(axis: str, size: int, case: str) -> Training:
    """Of one size of an axis."""
    return Training(replace(AXES[axis].others, **{axis: size}), case, rows_alone=axis == "values")


def forget_peak() -> None:
    """Let the peak of this process begin anew, where the system lets it."""
    try:
        Path("/proc/self/clear_refs").write_text("5")
    except OSError:
        print("the peak of memory is that of building too: /proc/self/clear_refs cannot be written", file=sys.stderr)


def serve(axis: str, size: int) -> Generator[dict[str, float] | float | None, str, None]:
    """Build; then the seconds of a step for every word, and at last megabytes."""
    before = resident()
    training = training_along(axis, size, "injector")
    keep_freed_memory()
    built = resident()
    forget_peak()
    word = yield None
    while word == "step":
        word = yield training.step()
    if axis == "values":
        training.use_all_state()
    yield {"before": before, "built": built - before, "step": peak_megabytes() - before}


def megabytes(process: Child) -> dict[str, float]:
    """Before building, of what was built, and at most; the process ends."""
    found = dict(process.ask("memory"))
    process.end()
    return found


def memory_of(axis: str, size: int) -> dict[str, float]:
    """Megabytes of a process that makes a few steps."""
    process = Child(serve, axis, size)
    for _ in range(STEPS):
        process.ask("step")
    return megabytes(process)


def slopes(sizes: Sequence[int], figures: Sequence[float]) -> dict[str, float]:
    """Exponents over the whole axis, its upper half, and the last two sizes."""
    x, y = np.log(np.array(sizes, float)), np.log(np.array(figures, float))
    starts = {"whole": 0, "upper_half": len(sizes) // 2 if len(sizes) > 2 else 0, "last": len(sizes) - 2}
    return {name: float(np.polyfit(x[start:], y[start:], 1)[0]) for name, start in starts.items()}


def measure(name: str, sizes: Sequence[int], rounds: int) -> dict[str, Any]:
    """All sizes of one axis."""
    axis = AXES[name]
    cases = ("injector", "chain") if axis.chain else ("injector",)
    if name == "values":
        served = {size: Child(serve, name, size) for size in sizes}
        jobs = {("injector", size): lambda one=one: one.ask("step") for size, one in served.items()}
        times = by_turns(jobs, rounds)
        memory = {size: megabytes(process) for size, process in served.items()}
    else:
        times = by_turns(
            {(case, size): training_along(name, size, case).step for case in cases for size in sizes}, rounds
        )
        memory = {size: memory_of(name, size) for size in sizes}
    middle, points = milliseconds(times), []
    for size in sizes:
        point: dict[str, Any] = {
            "size": size,
            "milliseconds": middle["injector", size],
            "megabytes": memory[size]["step"],
            "megabytes_built": memory[size]["built"],
            "megabytes_before": memory[size]["before"],
        }
        if axis.chain:
            point["chain_milliseconds"] = middle["chain", size]
            point["of_chain"] = ratio(times["injector", size], times["chain", size])
        points.append(point)
    figures = ("milliseconds", "megabytes", *(("chain_milliseconds",) if axis.chain else ()))
    exponents = {figure: slopes(sizes, [point[figure] for point in points]) for figure in figures}
    return {"others": vars(axis.others) | {name: None}, "rounds": rounds, "points": points, "exponents": exponents}


def main() -> None:
    parser = arguments(__doc__, "scaling", rounds=7)
    parser.add_argument("--axes", nargs="+", choices=AXES, default=list(AXES))
    parser.add_argument("--most", type=int, metavar="N", help="leave sizes above this out: to try the script")
    parser.add_argument("--plot", action="store_true", help="draw what was measured, and measure nothing")
    options = parser.parse_args()
    file: Path = options.output
    found: dict[str, Any] = json.loads(file.read_text())["axes"] if file.is_file() else {}
    if options.plot:
        write_plot(found)
        return
    keep_freed_memory()
    for name in options.axes:
        sizes = [size for size in AXES[name].sizes if options.most is None or size <= options.most]
        found[name] = measure(name, sizes, options.rounds)
        write_result(file, {"axes": {axis: found[axis] for axis in AXES if axis in found}})


if __name__ == "__main__":
    main()

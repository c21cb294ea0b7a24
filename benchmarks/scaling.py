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
benchmarks/results/scaling.json, and docs/images/scaling.svg is drawn from that file; `--plot` does only that.
"""

from __future__ import annotations

import argparse
import json
import random
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import torch
from common import RESULTS, ChainSite, machine, timed_step, write_result
from scaling_plot import write_plot
from torch import Tensor, nn

from attribune import Adapter, AttributeModel, Categorical, Classification, Injector, MultiLabel, Schema
from attribune.backbone import DEFAULT_BACKBONE
from attribune.process_memory import keep_freed_memory, peak_megabytes
from attribune.training.optimizer import build_optimizer, update_rows_alone

RESULT = "scaling"
CASES = ("injector", "chain")
CHUNK = 512
WARM, STEPS = 2, 3  # steps that are not timed; steps of a process whose memory is looked at


@dataclass(frozen=True, kw_only=True)
class Point:
    """What is trained, and on what.

    Args:
        rows: B.
        tokens: T.
        attributes: M.
        labels: values that each row has of an attribute; 0 for attributes with one value per row.
        values: of each attribute.
        bottleneck: A.
    """

    rows: int = 32
    tokens: int = 64
    attributes: int = 2
    labels: int = 0
    values: int = 1000
    bottleneck: int = 64


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


class Training:
    """A model with its optimiser, which makes a step at a time."""

    def __init__(self, point: Point, case: str, *, rows_alone: bool = False) -> None:
        torch.manual_seed(0)
        self.point = point
        self.random = random.Random(0)
        self.model = _build(point, case)
        update_rows_alone(self.model, "rows" if rows_alone else "auto")
        self.optimizer = build_optimizer(self.model, learning_rate=5e-4, backbone_learning_rate=5e-5, weight_decay=0.01)

    @classmethod
    def along(cls, axis: str, size: int, case: str) -> Training:
        """Of one size of an axis."""
        return cls(replace(AXES[axis].others, **{axis: size}), case, rows_alone=axis == "values")

    def step(self) -> float:
        """Seconds of a step."""
        return timed_step(self.model, self.optimizer, self._batch())

    def use_all_state(self) -> None:
        """Write to every page of the optimiser's state: of one that is all zeros the system keeps nothing."""
        for state in self.optimizer.state.values():
            for found in state.values():
                found.add_(0)

    def _batch(self) -> dict[str, Tensor]:
        point, width = self.point, max(self.point.labels, 1)
        ids = [
            torch.tensor(self.random.sample(range(1, point.values + 1), point.rows * width)).view(point.rows, width)
            for _ in range(point.attributes)
        ]
        return {
            "input_ids": torch.randint(1000, 20000, (point.rows, point.tokens)),
            "attention_mask": torch.ones(point.rows, point.tokens, dtype=torch.int64),
            "attribute_ids": torch.cat(ids, dim=1),
            "labels": torch.randint(0, 5, (point.rows,)),
        }


def _build(point: Point, case: str) -> AttributeModel:
    values = pa.array(range(point.values)).cast(pa.string())
    names = [f"a{number}" for number in range(point.attributes)]
    if point.labels:
        values = pa.ListArray.from_arrays(pa.array(range(0, point.values + 1, point.labels), pa.int32()), values)
    kinds = [MultiLabel(name, max_per_row=point.labels) if point.labels else Categorical(name) for name in names]
    schema = Schema.fit(dict.fromkeys(names, values), kinds)
    del values
    schema.encode({name: [["1"]] if point.labels else ["1"] for name in names})  # makes the index of the vocabulary
    chain = case == "chain"
    method = Adapter(bottleneck=point.bottleneck) if chain else Injector(bottleneck=point.bottleneck)
    model = AttributeModel.build(
        DEFAULT_BACKBONE,
        schema,
        task=Classification(classes=5),
        method=method,
        tuning="frozen" if chain else None,
        chunk=CHUNK if point.tokens > CHUNK else None,
    )
    if chain:
        model.method.sites = nn.ModuleList(
            ChainSite(point.attributes + 1, hidden=model.head.in_features, bottleneck=point.bottleneck)
            for _ in model.method.sites
        )
    return model.train()


def resident() -> float:
    """MB that this process holds now."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize() / 2**20


def forget_peak() -> None:
    """Let the peak of this process begin anew, where the system lets it."""
    try:
        Path("/proc/self/clear_refs").write_text("5")
    except OSError:
        print("the peak of memory is that of building too: /proc/self/clear_refs cannot be written", file=sys.stderr)


def serve(axis: str, size: int) -> None:
    """Build, then make a step for every line on stdin; answer with its seconds, and with memory at the end."""
    before = resident()
    training = Training.along(axis, size, "injector")
    keep_freed_memory()
    built = resident()
    forget_peak()
    for line in sys.stdin:
        if line.strip() == "step":
            print(training.step(), flush=True)
        else:
            break
    if axis == "values":
        training.use_all_state()
    print(json.dumps({"before": before, "built": built - before, "step": peak_megabytes() - before}), flush=True)


class Served:
    """A process of its own for one size."""

    def __init__(self, axis: str, size: int) -> None:
        words = [sys.executable, __file__, "--serve", axis, str(size)]
        self._process = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def step(self) -> float:
        """Seconds of a step."""
        return float(self._ask("step"))

    def megabytes(self) -> dict[str, float]:
        """Before building, of what was built, and at most; the process ends."""
        found = dict(json.loads(self._ask("memory")))
        self._process.wait()
        return found

    def _ask(self, word: str) -> str:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(f"{word}\n")
        self._process.stdin.flush()
        return self._process.stdout.readline()


def memory_of(axis: str, size: int) -> dict[str, float]:
    """Megabytes of a process that makes a few steps."""
    process = Served(axis, size)
    for _ in range(STEPS):
        process.step()
    return process.megabytes()


def by_turns(takers: dict[Any, Training] | dict[Any, Served], rounds: int) -> dict[Any, list[float]]:
    """Seconds of every round of all that take turns."""
    times: dict[Any, list[float]] = {key: [] for key in takers}
    for number in range(rounds + WARM):
        for key, taker in takers.items():
            seconds = taker.step()
            if number >= WARM:
                times[key].append(seconds)
    return times


def slopes(sizes: Sequence[int], figures: Sequence[float]) -> dict[str, float]:
    """Exponents over the whole axis, its upper half, and the last two sizes."""
    x, y = np.log(np.array(sizes, float)), np.log(np.array(figures, float))
    starts = {"whole": 0, "upper_half": len(sizes) // 2 if len(sizes) > 2 else 0, "last": len(sizes) - 2}
    return {name: float(np.polyfit(x[start:], y[start:], 1)[0]) for name, start in starts.items()}


def measure(name: str, sizes: Sequence[int], rounds: int) -> dict[str, Any]:
    """All sizes of one axis."""
    axis = AXES[name]
    if name == "values":
        served = {("injector", size): Served(name, size) for size in sizes}
        times = by_turns(served, rounds)
        memory = {size: process.megabytes() for (_, size), process in served.items()}
    else:
        cases = CASES if axis.chain else CASES[:1]
        times = by_turns({(case, size): Training.along(name, size, case) for case in cases for size in sizes}, rounds)
        memory = {size: memory_of(name, size) for size in sizes}
    points = []
    for size in sizes:
        point: dict[str, Any] = {
            "size": size,
            "milliseconds": 1e3 * statistics.median(times["injector", size]),
            "megabytes": memory[size]["step"],
            "megabytes_built": memory[size]["built"],
            "megabytes_before": memory[size]["before"],
        }
        if axis.chain:
            pairs = zip(times["injector", size], times["chain", size], strict=True)
            point["chain_milliseconds"] = 1e3 * statistics.median(times["chain", size])
            point["of_chain"] = statistics.median(ours / chain for ours, chain in pairs)
        points.append(point)
    found = {"others": vars(axis.others) | {name: None}, "rounds": rounds, "points": points, "exponents": {}}
    for figure in ("milliseconds", "megabytes", *(("chain_milliseconds",) if axis.chain else ())):
        found["exponents"][figure] = slopes(sizes, [point[figure] for point in points])
    return found


def before() -> dict[str, Any]:
    """What was measured earlier."""
    file = RESULTS / f"{RESULT}.json"
    return dict(json.loads(file.read_text())["axes"]) if file.is_file() else {}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--axes", nargs="+", choices=AXES, default=list(AXES))
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--most", type=int, help="leave sizes above this out, and write nothing: to try the script")
    parser.add_argument("--plot", action="store_true", help="draw what was measured, and measure nothing")
    parser.add_argument("--serve", nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.serve:
        serve(options.serve[0], int(options.serve[1]))
        return
    if options.plot:
        write_plot(before())
        return
    keep_freed_memory()
    found = before()
    for name in options.axes:
        sizes = [size for size in AXES[name].sizes if options.most is None or size <= options.most]
        started = time.perf_counter()
        found[name] = measure(name, sizes, options.rounds)
        print(f"{name}: {time.perf_counter() - started:.0f} s\n{json.dumps(found[name], indent=1)}", flush=True)
        if options.most is None:
            write_result(RESULT, {"machine": machine(), "axes": {axis: found[axis] for axis in AXES if axis in found}})
            write_plot(before())


if __name__ == "__main__":
    main()

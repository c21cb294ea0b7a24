"""Time and memory of one training step: what attributes cost beside plain adapters, LoRA and full fine-tuning.

    python benchmarks/training_step.py [--shapes bert-base minilm] [--precisions bf16] [--rounds 11]

All cases of a shape take turns in one process on the same batch; a figure is the median of the ratios of the rounds,
so that a machine that is slower for a while slows all alike. `chain` is the reference: M + 1 static adapters in a row,
the arithmetic of an Injector with M attributes whose weights are given instead of generated. `peft` cases are LoRA of
the peft library on query and value with the same head. Floors count the multiplications and additions of the matrix
products that a step cannot do without (of frozen weights no gradient, and nothing in front of the first site that
learns); that of an Injector has the products of four powers beside, of which its weights are made.
Peak memory is that of a process of its own for each case. Writes benchmarks/results/training_step.json after each
shape, where those measured earlier on the same machine stay.
"""

from __future__ import annotations

import argparse
import json
import mmap
import statistics
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import peft
import torch
import transformers
from common import ChainSite, earlier_result, machine, product_rate, write_result
from torch import Tensor, nn

from attribune import Adapter, AttributeModel, Categorical, Classification, Injector, Plain, Schema
from attribune.backbone import build_backbone
from attribune.process_memory import keep_freed_memory, peak_megabytes

RESULT = "training_step"
BOTTLENECK = 64
POWERS = 4  # that the weights are made of, at the size that a trained Injector's have
POLMED = (2, 2, 2)  # distinct values of all but the first attribute in a batch


@dataclass(frozen=True, kw_only=True)
class Shape:
    """A backbone and a batch.

    Args:
        hidden: H.
        layers: of the backbone.
        heads: of each layer.
        rows: B.
        tokens: T.
        distinct: of each attribute, how many values are in the batch.
        attention_dropout: with any, torch computes attention on a processor without its fused function.
        precisions: in which it is measured unless told otherwise.
    """

    hidden: int
    layers: int
    heads: int
    rows: int
    tokens: int
    distinct: tuple[int, ...]
    attention_dropout: float = 0.1
    precisions: tuple[str, ...] = ("bf16", "float32")

    def config(self) -> transformers.BertConfig:
        """Of a BERT of this shape."""
        return transformers.BertConfig(
            hidden_size=self.hidden,
            num_hidden_layers=self.layers,
            num_attention_heads=self.heads,
            intermediate_size=4 * self.hidden,
            attention_probs_dropout_prob=self.attention_dropout,
        )

    def table(self) -> dict[str, list[str]]:
        """Values such that the batch has as many distinct ones as asked for."""
        return {f"a{j}": [f"v{i % size}" for i in range(self.rows)] for j, size in enumerate(self.distinct)}


BERT_BASE = Shape(hidden=768, layers=12, heads=12, rows=8, tokens=512, distinct=(8, 8), precisions=("bf16",))
SHAPES = {
    "bert-base": BERT_BASE,
    "bert-base, no attention dropout": replace(BERT_BASE, attention_dropout=0.0),
    "minilm": Shape(hidden=384, layers=6, heads=12, rows=32, tokens=64, distinct=(32, *POLMED)),
    "minilm, all distinct": Shape(hidden=384, layers=6, heads=12, rows=32, tokens=64, distinct=(32, 32, 32, 32)),
}
CASES = ("adapter", "chain", "injector", "peft 8", "peft 16", "full")


def build(case: str, shape: Shape) -> nn.Module:
    """The model of one case, in training mode."""
    torch.manual_seed(0)
    table = shape.table()
    schema = Schema.fit(table, [Categorical(name) for name in table])
    backbone = build_backbone(shape.config())
    task = Classification(classes=5)
    if case == "injector":
        model = AttributeModel.build(backbone, schema, task=task, method=Injector(bottleneck=BOTTLENECK))
    elif case in ("adapter", "chain"):
        model = AttributeModel.build(
            backbone, schema, task=task, method=Adapter(bottleneck=BOTTLENECK), tuning="frozen"
        )
        if case == "chain":
            sites = range(len(model.method.sites))
            model.method.sites = nn.ModuleList(
                ChainSite(len(shape.distinct) + 1, hidden=shape.hidden, bottleneck=BOTTLENECK) for _ in sites
            )
    else:
        model = AttributeModel.build(backbone, schema, task=task, method=Plain())
        if case.startswith("peft"):
            settings = peft.LoraConfig(r=int(case.split()[1]), target_modules=["query", "value"], lora_alpha=16)
            model.backbone = peft.get_peft_model(model.backbone, settings)
    return model.train()


def batch(shape: Shape) -> dict[str, Tensor]:
    """One batch without padding."""
    table = shape.table()
    schema = Schema.fit(table, [Categorical(name) for name in table])
    return {
        "input_ids": torch.randint(1000, 20000, (shape.rows, shape.tokens)),
        "attention_mask": torch.ones(shape.rows, shape.tokens, dtype=torch.int64),
        "attribute_ids": torch.as_tensor(schema.encode(table)[0]),
        "labels": torch.randint(0, 5, (shape.rows,)),
    }


def step(model: nn.Module, given: dict[str, Tensor], precision: str) -> float:
    """Seconds of a forward and a backward pass."""
    started = time.perf_counter()
    with torch.autocast("cpu", dtype=torch.bfloat16, enabled=precision == "bf16"):
        loss = model(**given).loss
    loss.backward()
    seconds = time.perf_counter() - started
    model.zero_grad()
    return seconds


def floor_operations(case: str, shape: Shape) -> float:
    """Multiplications and additions of one step."""
    H, n = shape.hidden, shape.rows * shape.tokens
    attention = 2 * shape.tokens * H  # scores and weighted sums, of one token in one layer
    if case == "full":
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


def measured_times(shape: Shape, precision: str, rounds: int) -> dict[str, list[float]]:
    """Seconds of every round of every case."""
    models = {case: build(case, shape) for case in CASES}
    given = batch(shape)
    times: dict[str, list[float]] = {case: [] for case in CASES}
    for number in range(rounds + 1):
        for case, model in models.items():
            seconds = step(model, given, precision)
            if number:
                times[case].append(seconds)
    return times


def step_megabytes(case: str, name: str, precision: str) -> float:
    """What two steps take at most in a process of their own, beyond what it held before."""
    words = [sys.executable, __file__, "--one", case, "--shapes", name, "--precisions", precision]
    return float(subprocess.run(words, check=True, capture_output=True, text=True).stdout.split()[-1])


def one_case(case: str, shape: Shape, precision: str) -> None:
    """Make two steps and print the peak of what this process held."""
    model, given = build(case, shape), batch(shape)
    before = _resident()
    for _ in range(2):
        step(model, given, precision)
    print(peak_megabytes() - before)


def _resident() -> float:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * mmap.PAGESIZE / 2**20


def ratios(times: Sequence[float], to: Sequence[float]) -> float:
    """Median over the rounds."""
    return statistics.median(a / b for a, b in zip(times, to, strict=True))


def measure(name: str, precision: str, rounds: int) -> dict[str, Any]:
    """Times of all cases of one shape and precision."""
    shape = SHAPES[name]
    rate = product_rate(torch.bfloat16 if precision == "bf16" else torch.float32)
    times = measured_times(shape, precision, rounds)
    floors = {case: floor_operations(case, shape) / rate for case in CASES}
    return {
        "shape": name,
        "precision": precision,
        "rows": shape.rows,
        "tokens": shape.tokens,
        "distinct": list(shape.distinct),
        "product_gflops": rate / 1e9,
        "injector_against": {
            other: {"time": ratios(times["injector"], times[other]), "floor": floors["injector"] / floors[other]}
            for other in CASES
            if other != "injector"
        },
        "cases": {
            case: {"milliseconds": 1e3 * statistics.median(times[case]), "floor_milliseconds": 1e3 * floors[case]}
            for case in CASES
        },
    }


def add_memory(found: dict[str, Any]) -> None:
    """Measure the memory of all cases of a record, and add it."""
    peaks = {case: step_megabytes(case, found["shape"], found["precision"]) for case in CASES}
    for case, peak in peaks.items():
        found["cases"][case]["step_megabytes"] = peak
        if case != "injector":
            found["injector_against"][case]["memory"] = peaks["injector"] / peak


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--shapes", nargs="+", choices=SHAPES, default=list(SHAPES))
    parser.add_argument("--precisions", nargs="+", choices=("bf16", "float32"))
    parser.add_argument("--rounds", type=int, default=11)
    parser.add_argument("--memory-alone", action="store_true", help="add to what was measured; needs no quiet machine")
    parser.add_argument("--no-write", action="store_true")
    parser.add_argument("--one", choices=CASES, help=argparse.SUPPRESS)
    options = parser.parse_args()
    keep_freed_memory()
    if options.one:
        one_case(options.one, SHAPES[options.shapes[0]], options.precisions[0])
        return
    for name in options.shapes:
        for precision in options.precisions or SHAPES[name].precisions:
            found = earlier(name, precision) if options.memory_alone else measure(name, precision, options.rounds)
            if not options.no_write:
                add_memory(found)
                write_result(RESULT, {"machine": machine(), "measured": with_earlier(found)})
            print(json.dumps(found, indent=1), flush=True)


def earlier(name: str, precision: str) -> dict[str, Any]:
    """What the file has of a shape."""
    for one in earlier_result(RESULT).get("measured", []):
        if (one["shape"], one["precision"]) == (name, precision):
            return dict(one)
    sys.exit(f"{name} in {precision} was not measured on this machine: leave --memory-alone out")


def with_earlier(found: dict[str, Any]) -> list[dict[str, Any]]:
    """The record with those of other shapes that the file has from this machine, in the order of the shapes."""
    kept = earlier_result(RESULT).get("measured", [])
    every = {(one["shape"], one["precision"]): one for one in (*kept, found)}
    order = [(name, precision) for name in SHAPES for precision in ("bf16", "float32")]
    return sorted(every.values(), key=lambda one: order.index((one["shape"], one["precision"])))


if __name__ == "__main__":
    main()

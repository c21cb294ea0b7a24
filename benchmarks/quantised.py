"""Predictions in int8 with attributes: beside int8 without, beside ONNX Runtime's, and beside float32.

    python benchmarks/quantised.py [--rounds 15] [--shapes minilm] [--run runs/critics --data test.csv]

All cases take turns in one process, with as many threads each, on the same batch, in which every row has values of its
own. Methods with their default settings in int8 (`injector`, ...), the model without attributes in int8 (`plain`) and
in float32 (`plain, float32`), and in ONNX Runtime with its dynamic quantisation (`plain, onnx`); the model without
attributes and the Injector also in bf16, and in int8 with the rest in bf16, as a run that was trained in bf16 is
served. The share of another case is how much of its throughput is kept, the median over the rounds. With --run a
trained run scores a table with labels in each precision: the differences of its probabilities to those in float32, and
its accuracies. What was measured before on the same machine and is not measured anew stays; an empty --shapes measures
none. Where the processor has no int8, the run is scored in the others. Writes benchmarks/results/quantised.json.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import onnxruntime
import torch
from harness import arguments, by_turns, earlier, milliseconds, ratio, seconds, write_result
from models import SHAPES, Shape, batch, build
from prediction import ROOM
from torch import Tensor, nn
from yardstick import Context, pass_of

from attribune import Predictor, load_run
from attribune.backbones.int8 import has_int8
from attribune.core.process import keep_freed_memory
from attribune.data.tables import read_table
from attribune.export.graph import make_program, onnx_bytes, onnx_in_int8
from attribune.models.predictor import quantised

METHODS = ("injector", "pln", "plora", "modulated", "tokens")
PLAIN, EXACT, ONNX = "plain", "plain, float32", "plain, onnx"
HALF = ("plain", "injector")  # also in bf16, and with what is not in int8 in bf16
FULL = "float32"
PRECISIONS: dict[str, dict[str, Any]] = {
    FULL: {},
    "bf16": {"precision": "bf16"},
    "int8": {"quantise": "int8"},
    "int8, the rest in bf16": {"quantise": "int8", "precision": "bf16"},
}
SHAPES_HERE = {
    "minilm, one attribute": replace(SHAPES["minilm"], distinct=(32,)),
    "minilm, two attributes": replace(SHAPES["minilm"], distinct=(32, 32)),
    "bert-base, 64 tokens": replace(SHAPES["bert-base"], rows=32, tokens=64, distinct=(32, 32)),
    "bert-base": replace(SHAPES["bert-base"], tokens=ROOM),
}


def in_onnx(model: nn.Module, given: Mapping[str, Tensor]) -> Callable[[], object]:
    """A model without attributes in ONNX Runtime, in int8, with as many threads as torch."""
    data = onnx_in_int8(onnx_bytes(model, make_program(model, given, ids=None), metadata={}))  # type: ignore[arg-type]
    settings = onnxruntime.SessionOptions()
    settings.intra_op_num_threads = torch.get_num_threads()
    settings.add_session_config_entry("session.force_spinning_stop", "1")  # or its threads slow down the next case
    session = onnxruntime.InferenceSession(data, settings, providers=["CPUExecutionProvider"])
    inputs = {entry.name: given[entry.name].numpy() for entry in session.get_inputs()}
    return lambda: session.run(None, inputs)


def in_half(model: nn.Module, given: Mapping[str, Tensor], context: Context) -> Callable[[], object]:
    """A model's scores in bf16."""

    def run() -> object:
        with context():
            return model(**given)

    return run


def measure(name: str, shape: Shape, rounds: int) -> dict[str, Any]:
    """All cases of one shape."""
    given = {key: tensor for key, tensor in batch(shape).items() if key != "labels"}
    models = {case: build(case, shape).eval() for case in (PLAIN, *METHODS)}
    jobs: dict[str, Callable[[], object]] = {ONNX: in_onnx(models[PLAIN], given)}
    exact = models[PLAIN]
    halves = {f"{case}, bf16": in_half(models[case], given, pass_of(models[case], "bf16")) for case in HALF}
    models = {case: quantised(model, "int8") for case, model in models.items()} | {EXACT: exact}  # type: ignore[type-var]
    jobs |= {case: lambda model=model: model(**given) for case, model in models.items()}  # type: ignore[misc]
    autocast = partial(torch.autocast, "cpu", dtype=torch.bfloat16)
    jobs |= halves | {f"{case}, the rest in bf16": in_half(models[case], given, autocast) for case in HALF}

    def timed(job: Callable[[], object]) -> Callable[[], float]:
        def run() -> float:
            with torch.inference_mode():
                return seconds(job)

        return run

    times = by_turns({case: timed(job) for case, job in jobs.items()}, rounds)
    return {
        "shape": name,
        "rows": shape.rows,
        "tokens": shape.tokens,
        "distinct": shape.distinct,
        "milliseconds": milliseconds(times),
        **{
            f"of_{key}": {case: ratio(times[reference], times[case]) for case in times if case != reference}
            for key, reference in (("plain", PLAIN), ("float32", EXACT), ("onnx", ONNX))
        },
    }


def agreement(run: str, data: str) -> dict[str, Any]:
    """What lower precisions change of a trained run's probabilities in float32, and of its accuracy."""
    recipe, table = load_run(run)[0], read_table(data)
    found, right = {}, {}
    possible = {name: options for name, options in PRECISIONS.items() if "quantise" not in options or has_int8()}
    for name, options in possible.items():
        predictor = Predictor.from_pretrained(run, **options)
        found[name] = predictor.task.decode(predictor.logits(table)[0])
        labels = [predictor.task.class_names.index(str(label)) for label in table[recipe.data.label[0]]]
        right[name] = found[name].probabilities.argmax(axis=1) == labels
    exact = found[FULL].probabilities
    changes = {}
    for name in list(possible)[1:]:
        own, gain = found[name].probabilities, right[name].astype(float) - right[FULL]
        difference = np.abs(own - exact).max(axis=1)
        spread = 1.96 * gain.std() / np.sqrt(len(gain))
        changes[name] = {
            "largest": float(difference.max()),
            "mean": float(difference.mean()),
            "within_0.02": float((difference <= 0.02).mean()),
            "changed_predictions": int((own.argmax(axis=1) != exact.argmax(axis=1)).sum()),
            "accuracy_difference": [float(gain.mean() + sign * spread) for sign in (0, -1, 1)],
        }
    accuracy = {name: float(one.mean()) for name, one in right.items()}
    return {"method": recipe.method["name"], "rows": len(table), "accuracy": accuracy, "changes": changes}


def main() -> None:
    parser: argparse.ArgumentParser = arguments(__doc__, "quantised", rounds=15)
    parser.add_argument("--shapes", nargs="*", choices=SHAPES_HERE, default=list(SHAPES_HERE))
    parser.add_argument("--run", help="a trained run of a task with classes, such as one on critics")
    parser.add_argument("--data", help="a table with labels, such as its test rows")
    options = parser.parse_args()
    if (options.run is None) != (options.data is None):
        parser.error("--run and --data belong together")
    keep_freed_memory()
    found = {"measured": [], **earlier(options.output)}
    if options.run is not None:
        found["agreement"] = agreement(options.run, options.data)
        write_result(options.output, found)
    for name in options.shapes:
        others = [one for one in found["measured"] if one["shape"] != name]
        found["measured"] = [*others, measure(name, SHAPES_HERE[name], options.rounds)]
        write_result(options.output, found)


if __name__ == "__main__":
    main()

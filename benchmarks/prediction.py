"""Time of one batch of predictions.

    python benchmarks/prediction.py [--rounds 15] [--shapes minilm] [--precisions bf16]

All cases take turns in one process on the same batch. `bare` is the stock class of transformers; of every other case
the share of its throughput is given, beside what arithmetic allows (see `yardstick`). `chain`: M + 1 static adapters in
a row. `parallel`: an Injector with all adapters of a site in one product. `eager`: an Injector that computes and stores
every hyperbolic tangent of the equation. The others are methods with their default settings, those that have plans also
without them. Shapes beside those of pretrained models: `one text`, and `launches`, whose states are so small that the
time is that of launching operations, as on a GPU that waits for its host. Writes benchmarks/results/prediction.json
after each shape, where those measured earlier on the same machine stay.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from functools import partial
from typing import Any
from unittest import mock

import torch
from generated_weights import eager_tanh
from harness import arguments, by_turns, earlier, milliseconds, ratio, seconds, write_result
from models import SHAPES, Shape, batch, build, inputs_of
from yardstick import AUTOCAST, BARE, Context, operations, pass_of, shares_of_bare

from attribune.core.process import keep_freed_memory
from attribune.functional import injector
from attribune.methods import generators
from attribune.methods.attribute_method import AttributeMethod

CASES = ("chain", "injector", "eager")
PLANNED = ("injector", "pln", "plora", "modulated")
METHODS = ("parallel", "tokens", "prefix", "pln", "plora", "modulated")
ROOM = 504  # tokens of a long text: methods put others in front, and the backbone has places for 512
SHAPES_HERE = {
    **{name: replace(shape, tokens=min(shape.tokens, ROOM)) for name, shape in SHAPES.items()},
    "bert-base, 64 tokens": replace(SHAPES["bert-base"], tokens=64),
    "bert-base, 64 tokens, 32 rows": replace(SHAPES["bert-base"], rows=32, tokens=64, distinct=(32, 32)),
    "minilm, one attribute": replace(SHAPES["minilm"], distinct=(32,)),
    "minilm, two attributes": replace(SHAPES["minilm"], distinct=(32, 32)),
    "minilm, one text": replace(SHAPES["minilm"], rows=1, tokens=16, distinct=(1, 1)),
    "launches": Shape(hidden=64, layers=12, heads=4, rows=4, tokens=4, distinct=(4, 4)),
}
PRECISIONS = ("bf16", "float32")


@contextmanager
def eager_weights() -> Iterator[None]:
    """Make the weights of each site by itself, with all tangents of the equation."""
    with (
        mock.patch.object(AttributeMethod, "planned", return_value=None),
        mock.patch.object(generators, "can_be_factored", return_value=False),
        mock.patch.object(injector, "tanh_sum", eager_tanh),
    ):
        yield


def without(case: str) -> str:
    """The name of a method whose passes have no plan."""
    return f"{case}, no plan"


@contextmanager
def without_plans(context: Context) -> Iterator[None]:
    """Act as passes with gradients do."""
    with context(), mock.patch.object(AttributeMethod, "planned", return_value=None):
        yield


def measure(name: str, shape: Shape, precision: str, rounds: int) -> dict[str, Any]:
    """All cases of one shape and precision."""
    bare = [BARE, AUTOCAST] if precision == "bf16" else [BARE]
    models = {case: build(case, shape).eval() for case in (*bare, "chain", "injector", *METHODS)}
    passes = {case: pass_of(model, precision) for case, model in models.items()}
    if precision == "bf16":
        models[AUTOCAST].float()
        passes[AUTOCAST] = partial(torch.autocast, "cpu", dtype=torch.bfloat16)
    models["eager"], passes["eager"] = models["injector"], passes["injector"]
    for case in PLANNED:
        models[without(case)], passes[without(case)] = models[case], partial(without_plans, passes[case])
    given = {key: tensor for key, tensor in batch(shape).items() if key != "labels"}

    def job(case: str) -> Callable[[], float]:
        def run() -> float:
            with torch.inference_mode(), passes[case](), eager_weights() if case == "eager" else nullcontext():
                return seconds(lambda: models[case](**inputs_of(case, given)))

        return run

    cases = (*bare, *CASES, *METHODS, *map(without, PLANNED))
    times = by_turns({case: job(case) for case in cases}, rounds)
    counted = (*bare, "chain", "injector", *METHODS)
    counts = {case: operations(models[case], inputs_of(case, given), passes[case]()) for case in counted}
    return {
        "shape": name,
        "precision": precision,
        "rows": shape.rows,
        "tokens": shape.tokens,
        "distinct": shape.distinct,
        "milliseconds": milliseconds(times),
        "of_chain": {case: ratio(times[case], times["chain"]) for case in CASES},
        **shares_of_bare(times, counts),
        "eager_of_injector": ratio(times["eager"], times["injector"]),
    }


def main() -> None:
    parser = arguments(__doc__, "prediction", rounds=15)
    parser.add_argument("--shapes", nargs="+", choices=SHAPES_HERE, default=list(SHAPES_HERE))
    parser.add_argument("--precisions", nargs="+", choices=PRECISIONS, default=list(PRECISIONS))
    options = parser.parse_args()
    keep_freed_memory()
    known = {(one["shape"], one["precision"]): one for one in earlier(options.output).get("measured", [])}
    order = [(name, precision) for name in SHAPES_HERE for precision in PRECISIONS]
    for name in options.shapes:
        for precision in options.precisions:
            known[name, precision] = measure(name, SHAPES_HERE[name], precision, options.rounds)
            found = [known[key] for key in order if key in known]
            write_result(options.output, {"measured": found})


if __name__ == "__main__":
    main()

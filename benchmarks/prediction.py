"""Time of one batch of predictions with values seen before, and how often a bounded memory has seen them.

    python benchmarks/prediction.py [--rounds 15] [--shapes minilm] [--precisions bf16]

All cases take turns in one process on the same batch. `bare` is the stock class of transformers; of every other case
the share of its throughput is given, beside what arithmetic allows (see `yardstick`). `chain`: M + 1 static adapters in
a row. `kept`: an Injector whose weights for the values of the batch are kept from an earlier one. `made anew`: the same
without memory; `parallel`: so too, all adapters of a site in one product. `eager`: `made anew` with every hyperbolic
tangent of the equation evaluated and stored. The others are methods with their default settings. The hit rates are
those of batches of 32 rows whose users follow Zipf's law, of 100,000 users, in the second thousand of batches, weights
in bf16. Writes benchmarks/results/prediction.json after each shape, where those measured earlier on the same machine
stay.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from typing import Any
from unittest import mock

import numpy as np
import torch
from generated_weights import eager_tanh
from harness import arguments, by_turns, earlier, milliseconds, ratio, seconds, write_result
from models import SHAPES, Shape, batch, build, inputs_of
from yardstick import BARE, operations, shares_of_bare

from attribune.core.process import keep_freed_memory
from attribune.functional import injector
from attribune.methods import generators
from attribune.methods.weight_cache import WeightCache

CASES = ("chain", "kept", "made anew", "eager")
METHODS = ("parallel", "tokens", "prefix", "pln", "plora", "modulated")
ROOM = 504  # tokens of a long text: methods put others in front, and the backbone has places for 512
SHAPES_HERE = {
    **{name: replace(shape, tokens=min(shape.tokens, ROOM)) for name, shape in SHAPES.items()},
    "bert-base, 64 tokens": replace(SHAPES["bert-base"], tokens=64),
    "bert-base, 64 tokens, 32 rows": replace(SHAPES["bert-base"], rows=32, tokens=64, distinct=(32, 32)),
    "minilm, one attribute": replace(SHAPES["minilm"], distinct=(32,)),
    "minilm, two attributes": replace(SHAPES["minilm"], distinct=(32, 32)),
}
PRECISIONS = ("bf16", "float32")
USERS, ROWS, BATCHES = 100_000, 32, 2_000


@contextmanager
def eager_weights() -> Iterator[None]:
    """Make the weights of each site by itself, with all tangents of the equation."""
    with (
        mock.patch.object(generators, "can_be_factored", return_value=False),
        mock.patch.object(injector, "tanh_sum", eager_tanh),
    ):
        yield


def measure(name: str, shape: Shape, precision: str, rounds: int) -> dict[str, Any]:
    """All cases of one shape and precision."""
    models = {case: build(case, shape).eval() for case in (BARE, "chain", "injector", *METHODS)}
    models["kept"], models["made anew"] = models["injector"], build("injector", shape).eval()
    del models["injector"]
    models["eager"] = models["made anew"]
    models["kept"].enable_weight_cache(2_000)  # type: ignore[operator]
    given = {key: tensor for key, tensor in batch(shape).items() if key != "labels"}

    def half() -> torch.autocast:
        return torch.autocast("cpu", dtype=torch.bfloat16, enabled=precision == "bf16")

    def job(case: str) -> Callable[[], float]:
        def run() -> float:
            with (
                torch.inference_mode(),
                half(),
                eager_weights() if case == "eager" else nullcontext(),
            ):
                return seconds(lambda: models[case](**inputs_of(case, given)))

        return run

    times = by_turns({case: job(case) for case in (BARE, *CASES, *METHODS)}, rounds)
    counted = (case for case in times if case != "eager")
    counts = {case: operations(models[case], inputs_of(case, given), half()) for case in counted}
    stores = models["kept"].method.weight_caches  # type: ignore[union-attr,operator]
    return {
        "shape": name,
        "precision": precision,
        "rows": shape.rows,
        "tokens": shape.tokens,
        "distinct": shape.distinct,
        "kept_megabytes": sum(store.megabytes for store in stores.values()),
        "milliseconds": milliseconds(times),
        "of_chain": {case: ratio(times[case], times["chain"]) for case in CASES},
        **shares_of_bare(times, counts),
        "eager_of_kept": ratio(times["eager"], times["kept"]),
    }


def hit_rates(shape: Shape) -> list[dict[str, float]]:
    """Share of a batch's distinct users whose weights are there, for several sizes of the memory."""
    numbers = 2 * shape.layers * 64 * (shape.hidden + 1)
    found = []
    for exponent in (0.8, 1.0, 1.2):
        weights = np.arange(1, USERS + 1) ** -exponent
        users = np.random.default_rng(0).choice(USERS, size=(BATCHES, ROWS), p=weights / weights.sum())
        for megabytes in (64, 256, 1024, 4096):
            store = WeightCache(megabytes * 2**20, value_size=numbers, sites=1, vocabulary_size=USERS)
            before = (0, 0)
            for number, ids in enumerate(users):
                distinct, index = torch.unique(torch.from_numpy(ids), return_inverse=True)
                store.look_up(distinct, index, stamp=0, dtype=torch.bfloat16)
                if number == BATCHES // 2:
                    before = (store.hits, store.misses)
            hits, misses = store.hits - before[0], store.misses - before[1]
            found.append(
                {
                    "exponent": exponent,
                    "megabytes": megabytes,
                    "values": store.capacity,
                    "hit_rate": hits / max(1, hits + misses),
                }
            )
    return found


def main() -> None:
    parser = arguments(__doc__, "prediction", rounds=15)
    parser.add_argument("--shapes", nargs="+", choices=SHAPES_HERE, default=list(SHAPES_HERE))
    parser.add_argument("--precisions", nargs="+", choices=PRECISIONS, default=list(PRECISIONS))
    options = parser.parse_args()
    keep_freed_memory()
    known = {(one["shape"], one["precision"]): one for one in earlier(options.output).get("measured", [])}
    order = [(name, precision) for name in SHAPES_HERE for precision in PRECISIONS]
    rates = {name: hit_rates(SHAPES[name]) for name in ("minilm", "bert-base")}
    for name in options.shapes:
        for precision in options.precisions:
            known[name, precision] = measure(name, SHAPES_HERE[name], precision, options.rounds)
            found = [known[key] for key in order if key in known]
            write_result(options.output, {"measured": found, "hit_rates": rates})


if __name__ == "__main__":
    main()

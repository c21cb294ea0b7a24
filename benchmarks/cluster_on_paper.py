"""A billion rows and 100 million values on a cluster that is not there: closed formulas against a simulation.

    python benchmarks/cluster_on_paper.py

The formulas are those of cluster_model.py and of docs/large_scale.md. The simulation makes synchronous steps of N
processes: each draws its rows' values by Zipf's law, asks for its distinct ones, waits for the slowest. What was
measured is read from the result files of training_step.py, gpu.py, large_table.py and reading.py; what was not is an
assumption, named in `profiles` and repeated in the result file. Trained parameters are counted by the library. Beside
what the two processes of two_processes.py took is put what the formulas say of them; two processes that share nothing
are started here to find what that needs. Writes benchmarks/results/cluster_on_paper.json.
"""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import Any

import numpy as np
import torch
import torch.distributed as dist
from cluster_model import DEALINGS, NUMBER, Profile, by_formula, dense_bytes, gather_bytes, simulated
from harness import WARM, arguments, child, measured, write_result
from models import SHAPES, Point, Training
from transformers import BertConfig
from zipf import Zipf

from attribune import AttributeModel, Classification, Injector
from attribune.backbones.loading import DEFAULT_BACKBONE, build_backbone
from attribune.core.process import keep_freed_memory

ROWS, VALUES, EXPONENTS = 10**9, 10**8, (0.8, 1.0, 1.2)
MIDDLE, MANY = 1.0, 64  # the exponent of steps, and the processes from which on skew is looked at
STEPS, TIMED_STEPS = 30, 12  # simulated, and of two real processes
NETWORK = {  # bytes per second and seconds of a message, of a process
    "cpu": (25e9 / 8 / 16, 50e-6),  # a card of 25 Gbit/s for 16 processes of two cores
    "gpu": (400e9 / 8, 20e-6),  # a card of 400 Gbit/s for each GPU
}
PRICE = {"cpu": (2 * 0.02, 2 * 0.05), "gpu": (2.0, 6.0)}  # of two cores, of a GPU
GPU_STEPS = {"minilm": "minilm, 256 x 64", "bert-base": "bert-base, 64 x 512"}  # of gpu.py
HOT, LEAST = 10_000, (2, 5, 10, 100)  # values that every process could have; rows that a value must have


def trained_parameters(shape: str) -> int:
    """Numbers that learn in an Injector of as many attributes as were measured, its tables left out."""
    backbone = DEFAULT_BACKBONE if shape == "minilm" else build_backbone(BertConfig())
    schema = SHAPES[shape].schema()
    model = AttributeModel.build(backbone, schema, task=Classification(classes=5), method=Injector())
    tables = model.attribute_tables()
    return sum(p.numel() for key, p in model.named_parameters() if p.requires_grad and key not in tables)


def profiles() -> dict[str, Profile]:
    """Both backbones on CPUs and on GPUs, where one step was measured by itself."""
    steps = {
        one["shape"]: one["cases"]["injector"]["milliseconds"] / 1e3
        for one in measured("training_step")["measured"]
        if one["precision"] == "bf16"
    }
    gpu_steps = measured("gpu")["parts"]["steps"]["shapes"]
    found = {}
    for name, gpu_shape in GPU_STEPS.items():
        shape, parameters, on_gpu = SHAPES[name], trained_parameters(name), gpu_steps[gpu_shape]["injector"]
        gpu_rows = round(on_gpu["rows_per_second"] * on_gpu["milliseconds"] / 1e3)
        for kind, (bandwidth, latency) in NETWORK.items():
            cpu = kind == "cpu"
            found[f"{name}, {kind}"] = Profile(
                rows=shape.rows if cpu else gpu_rows,
                tokens=shape.tokens,
                step=steps[name] if cpu else on_gpu["milliseconds"] / 1e3,
                parameters=parameters,
                bandwidth=bandwidth,
                latency=latency,
                cores=2 if cpu else 0,
                price=PRICE[kind],
                processes=(2, 8, 64, 512) if cpu else (8, 64, 256),
            )
    return found


def cases(kinds: dict[str, Profile], size: int) -> Iterator[dict[str, Any]]:
    """Every profile, number of processes and exponent."""
    for key, profile in kinds.items():
        for exponent in EXPONENTS:
            law = Zipf(VALUES, exponent)
            for processes in profile.processes:
                formula = by_formula(profile, processes, law, size)
                yield {
                    "profile": key,
                    "exponent": exponent,
                    "processes": processes,
                    "formula": formula,
                    "simulated": simulated(profile, processes, law, size, STEPS),
                    "first_share": law.share(1),
                    "asked_of_hot": law.distinct(profile.rows, HOT) / formula["distinct"],
                }


def steps_of(found: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Distinct values and bytes by formula, simulated seconds, at the middle exponent."""
    by_formula = ("distinct", "distinct_everywhere", "most_distinct", "dense_bytes", "gather_bytes", "exchange_bytes")
    by_simulation = ("compute", "dense", "gather", "exchange", "step")
    return [
        {
            "profile": one["profile"],
            "processes": one["processes"],
            **{name: one["formula"][name] for name in by_formula},
            **{name: one["simulated"][name] for name in by_simulation},
            "step_by_formula": one["formula"]["step"],
        }
        for one in found
        if one["exponent"] == MIDDLE
    ]


def skew_of(found: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """How unevenly many processes are asked, simulated and by formula; MiniLM, whose batches are large."""
    return [
        {
            **{name: one[name] for name in ("profile", "processes", "exponent", "first_share", "asked_of_hot")},
            **{name: [one[way][name] for way in ("simulated", "formula")] for name in ("distinct", *DEALINGS)},
        }
        for one in found
        if one["profile"].startswith("minilm") and one["processes"] >= MANY
    ]


def differences(found: Sequence[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """For each figure, the median and the largest distance of the simulation from the formula, and where that is."""
    result = {}
    for name in found[0]["formula"]:
        ratios = [(one["simulated"][name] / one["formula"][name], one) for one in found]
        worst, where = max(ratios, key=lambda pair: abs(math.log(pair[0])))
        result[name] = {
            "median": statistics.median(ratio for ratio, _ in ratios),
            "worst": worst,
            "where": {key: where[key] for key in ("profile", "exponent", "processes")},
        }
    return result


def check_of_the_law(random: np.random.Generator) -> dict[str, Any]:
    """Draws against shares that are summed one by one, where that can be done: a million values."""
    found = {}
    for exponent in EXPONENTS:
        law, draws = Zipf(10**6, exponent), 10**6
        shares = np.arange(1, law.values + 1, dtype=np.float64) ** -exponent
        shares /= shares.sum()
        edges = np.unique(np.geomspace(1, law.values + 1, 40).astype(np.int64))
        expected = draws * np.add.reduceat(shares, edges[:-1] - 1)
        seen = np.histogram(law.draw((draws,), random), edges)[0]
        found[str(exponent)] = {
            "chi_squared": float(((seen - expected) ** 2 / expected).sum()),
            "degrees": len(expected) - 1,
            "distinct_of_exact": law.distinct(draws) / float(-np.expm1(draws * np.log1p(-shares)).sum()),
        }
    return found


def rare() -> list[dict[str, Any]]:
    """Values with at least so many rows, and the share of the rows that they have."""
    found = []
    for exponent in EXPONENTS:
        law = Zipf(VALUES, exponent)
        for least in LEAST:
            values = law.with_rows(ROWS, least)
            found.append({"exponent": exponent, "least": least, "values": values, "share": law.share(values)})
    return found


def around(size: int) -> dict[str, Any]:
    """Memory, checkpoint, vocabulary and reading for all rows and values, from what was measured with fewer."""
    table, reading = measured("large_table"), measured("reading")
    small, large = (table["resident_megabytes"][key] for key in ("1000", str(table["values"])))
    of_value = (large - small) * 2**20 / table["values"]
    cores = reading["machine"]["threads"]
    return {
        "bytes_of_value": of_value,
        "table_bytes": VALUES * NUMBER * size,
        "state_bytes": VALUES * 2 * NUMBER,
        "vocabulary_bytes": VALUES * (of_value - NUMBER * size),
        "fit_seconds": VALUES * table["fit_seconds"] / table["values"],
        "save_bytes_per_second": table["file_megabytes"] * 2**20 / table["save_seconds"],
        "load_bytes_per_second": table["file_megabytes"] * 2**20 / table["load"]["seconds"],
        "file_bytes": VALUES * table["file_megabytes"] * 2**20 / table["values"],
        "rows_per_core_second": reading["rows_per_second_whole"] / cores,
        "attribute_rows_per_second": reading["rows_per_second"],
        "reading_core_hours": ROWS * cores / reading["rows_per_second_whole"] / 3600,
        "csv_bytes": ROWS * reading["file_megabytes"][str(reading["rows"])] * 2**20 / reading["rows"],
    }


# The case of two processes that was measured


def calibrate(rows: int, parameters: int) -> dict[str, Any]:
    """In each of two processes with a core: seconds of steps that share nothing, then bytes a second between them."""
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    training = Training(Point(rows=rows, attributes=1), rows_alone=True)
    keep_freed_memory()
    seconds: list[float] = []
    for _ in range(WARM + TIMED_STEPS):
        dist.barrier()
        seconds.append(training.step())
    gradient, through = torch.ones(parameters), []
    for _ in range(WARM + TIMED_STEPS):
        dist.barrier()
        started = time.perf_counter()
        dist.all_reduce(gradient)
        through.append(time.perf_counter() - started)
    both: list[list[float]] = [[], []]
    dist.all_gather_object(both, seconds[WARM:])
    dist.destroy_process_group()
    slower = statistics.fmean(max(pair) for pair in zip(*both, strict=True))
    return {"seconds": slower, "bytes_per_second": parameters * NUMBER / statistics.median(through[WARM:])}


def on_paper(found: dict[str, Any], *, seconds: float, bytes_per_second: float, parameters: int) -> dict[str, Any]:
    """What the formulas say of two processes, beside what two_processes.py found; nothing is fitted to its step.

    Args:
        found: its result file.
        seconds: a step of the slower of two processes that share nothing.
        bytes_per_second: that one of them sends in an all-reduce.
        parameters: P.
    """
    rows, size, values = found["batch_rows"] // 2, found["vector_size"], found["values"]
    distinct = values * -math.expm1(rows * math.log1p(-1 / values))  # all values are as likely
    dense, gather = dense_bytes(parameters, 2), gather_bytes(distinct, 2, size)
    paper = seconds + (dense + gather) / bytes_per_second
    one, two = (found["table"][key] for key in ("1", "2"))
    return {
        "one_seconds": one["seconds"],
        "two_seconds": two["seconds"],
        "alone_seconds": seconds,
        "bytes_per_second": bytes_per_second,
        "dense_bytes": dense,
        "gather_bytes": gather,
        "paper_seconds": paper,
        "measured_over_paper": two["seconds"] / paper,
        "saved_megabytes": one["resident_megabytes"] - two["resident_megabytes"],
        "paper_saved_megabytes": values * size * NUMBER / 2 / 2**20,
    }


def two_processes() -> dict[str, Any]:
    """Measure what the formulas need, and apply them."""
    found = measured("two_processes")
    parameters = round(found["dense_gradient_megabytes"] * 2**20 / NUMBER)
    needed = child(calibrate, found["batch_rows"] // 2, parameters, processes=2, threads=1)
    return on_paper(found, **needed, parameters=parameters)


def main() -> None:
    options = arguments(__doc__, "cluster_on_paper").parse_args()
    size, kinds = Injector().vector_size, profiles()
    found = list(cases(kinds, size))
    result = {
        "rows": ROWS,
        "values": VALUES,
        "size": size,
        "simulated_steps": STEPS,
        "profiles": {key: asdict(profile) for key, profile in kinds.items()},
        "around": around(size),
        "rare": rare(),
        "law": check_of_the_law(np.random.default_rng(0)),
        "steps": steps_of(found),
        "skew": skew_of(found),
        "differences": differences(found),
        "two_processes": two_processes(),
    }
    write_result(options.output, result)


if __name__ == "__main__":
    main()

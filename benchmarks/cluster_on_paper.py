"""A billion rows and 100 million values on a cluster that is not there: closed formulas against a simulation.

    python benchmarks/cluster_on_paper.py [--steps 30]

The formulas are those of cluster_model.py and of docs/large_scale.md. The simulation makes synchronous steps of N
processes: each draws its rows' values by Zipf's law, asks for its distinct ones, waits for the slowest. What was
measured is read from the result files of training_step.py, large_table.py and reading.py; what was not is an
assumption, named in `profiles` and repeated in the result file. Rates of GPUs are none of our measurements. Trained
parameters are counted by the library. If two_processes.py has been run, what the formulas say of its two processes is
put beside what they took; what that needs is measured by two_on_paper.py.
Writes benchmarks/results/cluster_on_paper.json.
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

import numpy as np
import numpy.typing as npt
from cluster_model import DEALINGS, NUMBER, Dealing, Profile, Step, by_formula, timed
from common import RESULTS, machine, write_result
from training_step import SHAPES, floor_operations
from transformers import BertConfig
from two_on_paper import beside
from zipf import Zipf

from attribune import AttributeModel, Categorical, Classification, Injector, Schema
from attribune.backbone import DEFAULT_BACKBONE, build_backbone

ROWS, VALUES, EXPONENTS = 10**9, 10**8, (0.8, 1.0, 1.2)
GPU_PEAK = 989e12  # bf16, without sparsity, of an H100 SXM as its maker states it
NETWORK = {  # bytes per second and seconds of a message, of a process
    "cpu": (25e9 / 8 / 16, 50e-6),  # a card of 25 Gbit/s for 16 processes of two cores
    "gpu": (400e9 / 8, 20e-6),  # a card of 400 Gbit/s for each GPU
}
PRICE = {"cpu": (2 * 0.02, 2 * 0.05), "gpu": (2.0, 6.0)}  # of two cores, of a GPU
UTILISATION = {"minilm": (0.05, 0.25), "bert-base": (0.20, 0.45)}  # of the peak
NOISE, PAUSES = 0.05, 1e-3
HOT, LEAST = 10_000, (2, 5, 10, 100)  # values that every process could have; rows that a value must have
Ids = npt.NDArray[np.int64]


def measured(name: str) -> dict[str, Any]:
    """A result file."""
    return dict(json.loads((RESULTS / f"{name}.json").read_text()))


def trained_parameters() -> dict[str, int]:
    """Numbers that learn in an Injector of as many attributes as were measured, its tables left out."""
    found = {}
    for name, backbone in (("minilm", DEFAULT_BACKBONE), ("bert-base", build_backbone(BertConfig()))):
        table = SHAPES[name].table()
        schema = Schema.fit(table, [Categorical(attribute) for attribute in table])
        model = AttributeModel.build(backbone, schema, task=Classification(classes=5), method=Injector())
        tables = model.attribute_tables()
        found[name] = sum(p.numel() for key, p in model.named_parameters() if p.requires_grad and key not in tables)
    return found


def profiles(parameters: dict[str, int]) -> dict[str, Profile]:
    """Both backbones on CPUs, as measured, and on GPUs, as assumed."""
    steps = {
        one["shape"]: one["cases"]["injector"]["milliseconds"] / 1e3
        for one in measured("training_step")["measured"]
        if one["precision"] == "bf16"
    }
    found = {}
    for shape, gpu_rows in (("minilm", 512), ("bert-base", 64)):
        rows, tokens = SHAPES[shape].rows, SHAPES[shape].tokens
        operations = floor_operations("injector", SHAPES[shape]) / rows * gpu_rows
        low, high = (operations / GPU_PEAK / share for share in reversed(UTILISATION[shape]))
        for kind in ("cpu", "gpu"):
            cpu = kind == "cpu"
            bandwidth, latency = NETWORK[kind]
            found[f"{shape}, {kind}"] = Profile(
                name=f"{shape}, {kind.upper()}",
                rows=rows if cpu else gpu_rows,
                tokens=tokens,
                step=steps[shape] if cpu else math.sqrt(low * high),
                step_range=(steps[shape], steps[shape]) if cpu else (low, high),
                parameters=parameters[shape],
                bandwidth=bandwidth,
                latency=latency,
                noise=NOISE,
                pauses=PAUSES,
                cores=2 if cpu else 0,
                price=PRICE[kind],
                processes=(2, 8, 64, 512) if cpu else (8, 64, 256),
            )
    return found


def owners(ids: Ids, dealing: Dealing, processes: int, values: int, salt: int) -> Ids:
    """The process that has each value's row; values are numbered by frequency, as a vocabulary numbers them."""
    if dealing == "contiguous":
        return (ids - 1) // -(-values // processes)
    if dealing == "in turn":
        return (ids - 1) % processes
    mixed = ids.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15) + np.uint64(salt)  # splitmix64
    mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return ((mixed ^ (mixed >> np.uint64(31))) % np.uint64(processes)).astype(np.int64)


def simulated(profile: Profile, processes: int, law: Zipf, size: int, steps: int) -> Step:
    """The mean of some steps; each has a hash function of its own."""
    random = np.random.default_rng(0)
    found = [_one_step(profile, processes, law, size, random) for _ in range(steps)]
    fields: dict[str, Any] = {}
    for name, value in asdict(found[0]).items():
        if isinstance(value, dict):
            fields[name] = {key: statistics.fmean(getattr(one, name)[key] for one in found) for key in value}
        else:
            fields[name] = statistics.fmean(getattr(one, name) for one in found)
    return Step(**fields)


def _one_step(profile: Profile, processes: int, law: Zipf, size: int, random: np.random.Generator) -> Step:
    ids = np.sort(law.draw((processes, profile.rows), random), axis=1)
    new = np.ones(ids.shape, dtype=bool)
    new[:, 1:] = ids[:, 1:] != ids[:, :-1]
    asked, salt = ids[new], int(random.integers(2**62))
    loads = {
        dealing: np.bincount(owners(asked, dealing, processes, law.values, salt), minlength=processes)
        for dealing in DEALINGS
    }
    compute = profile.step * random.lognormal(-(profile.noise**2) / 2, profile.noise, processes)
    compute += profile.step * (random.random(processes) < profile.pauses)
    return timed(
        profile,
        processes,
        size,
        distinct=len(asked) / processes,
        distinct_everywhere=len(np.unique(asked)),
        most_distinct=int(new.sum(axis=1).max()),
        imbalance={dealing: load.max() / load.mean() for dealing, load in loads.items()},
        compute=float(compute.max()),
    )


def cases(kinds: dict[str, Profile], size: int, steps: int) -> Iterator[dict[str, Any]]:
    """Every profile, number of processes and exponent."""
    for key, profile in kinds.items():
        for exponent in EXPONENTS:
            law = Zipf(VALUES, exponent)
            for processes in profile.processes:
                formula = by_formula(profile, processes, law, size)
                found = simulated(profile, processes, law, size, steps)
                yield {
                    "profile": key,
                    "exponent": exponent,
                    "processes": processes,
                    "formula": _figures(formula),
                    "simulated": _figures(found),
                    "first_share": law.share(1),
                    "asked_of_hot": law.distinct(profile.rows, HOT) / formula.distinct,
                }


def _figures(step: Step) -> dict[str, Any]:
    return {**asdict(step), "whole_gather": step.whole_gather, "whole_exchange": step.whole_exchange}


def differences(found: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """For each figure, the median and the largest distance of the simulation from the formula, and where that is."""
    flat = [(_flat(one["formula"]), _flat(one["simulated"]), one) for one in found]
    result = {}
    for name in flat[0][0]:
        ratios = [(theirs[name] / ours[name], one) for ours, theirs, one in flat if ours[name]]
        worst, where = max(ratios, key=lambda pair: abs(math.log(pair[0])))
        result[name] = {
            "median": statistics.median(ratio for ratio, _ in ratios),
            "worst": worst,
            "where": {key: where[key] for key in ("profile", "exponent", "processes")},
        }
    return result


def _flat(figures: dict[str, Any]) -> dict[str, float]:
    flat = {}
    for name, value in figures.items():
        flat.update({f"{name} {key}": one for key, one in value.items()} if isinstance(value, dict) else {name: value})
    return flat


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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=30)
    options = parser.parse_args()
    size, parameters = Injector().vector_size, trained_parameters()
    kinds = profiles(parameters)
    found = list(cases(kinds, size, options.steps))
    real = beside(RESULTS / "two_processes.json")
    if "skipped" in real:
        print(f"two real processes: skipped, {real['skipped']}")
    result = {
        "machine": machine(),
        "rows": ROWS,
        "values": VALUES,
        "size": size,
        "steps": options.steps,
        "gpu_peak": GPU_PEAK,
        "utilisation": UTILISATION,
        "profiles": {key: asdict(profile) for key, profile in kinds.items()},
        "around": around(size),
        "hot": HOT,
        "rare": rare(),
        "law": check_of_the_law(np.random.default_rng(0)),
        "cases": found,
        "differences": differences(found),
        "two_processes": real,
    }
    shown = ("profiles", "around", "law", "differences", "two_processes")
    print(json.dumps({key: result[key] for key in shown}, indent=1))
    write_result("cluster_on_paper", result)


if __name__ == "__main__":
    main()

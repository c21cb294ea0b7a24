"""Prediction into a folder of parts: throughput of Ray with one and with two workers, and of one process.

    python benchmarks/predict_engines.py [--rows 12000] [--part 300] [--rounds 5] [--steps 30]

The texts are the film snippets that `make demo` trains on; the run is an Injector over MiniLM with the film as
attribute, trained for a few steps. The cases take turns. `ray 1` and `ray 2` are Ray clusters of one and of two cores,
with a worker of one thread on each core; `local 1` and `local 2` are this process with one and with two threads.
Throughput is taken from the moment when every worker has written a part to the last part. `begin` is the time before
the first rows are scored: the loading of the model and, on Ray, the start of the processes that do it. The start of the
cluster is in neither. Other work on the machine makes the figures worthless. Writes
benchmarks/results/predict_engines.json.
"""

from __future__ import annotations

import argparse
import csv
import json
import logging
import os
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import torch
from common import machine, write_result

from attribune import predict
from attribune.cli import main as attribune

sys.path.append(str(Path(__file__).parent.parent / "examples"))
from demo import snippets

CASES = {"ray 1": ("ray", 1), "ray 2": ("ray", 2), "local 1": ("local", 1), "local 2": ("local", 2)}
COLUMNS = ("text", "category", "movie_name")


def write_table(path: Path, rows: list[dict[str, str]]) -> Path:
    """Write rows of the columns that are used."""
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, COLUMNS, extrasaction="ignore")
        writer.writeheader()
        writer.writerows(rows)
    return path


def train(folder: Path, steps: int) -> Path:
    """Train the run that is measured."""
    data = write_table(folder / "train.csv", snippets()[: 40 * steps])
    words = ["train", str(data), "--text", "text", "--label", "category", "--attributes", "movie_name"]
    words += ["--max-length", "128", "--no-baselines", "--output", str(folder / "run"), "--set"]
    if attribune([*words, f"training.steps={steps}"]) != 0:
        sys.exit("the training failed: see the message above")
    return folder / "run"


def measure(case: str, run: Path, data: Path, output: Path, part: int) -> dict[str, float]:
    """Rows per second, and seconds before, of one case."""
    engine, workers = CASES[case]
    if engine == "ray":
        import ray  # an extra, which may not be installed

        ray.init(num_cpus=workers, include_dashboard=False, log_to_driver=False, logging_level=logging.ERROR)
    torch.set_num_threads(workers)
    started = time.time()
    rows = predict(run, data, output, engine=engine, part_rows=part, workers=workers if engine == "ray" else None)
    whole = time.time() - started
    if engine == "ray":
        ray.shutdown()
    written = sorted(path.stat().st_mtime for path in output.glob("part-*"))
    first = workers if engine == "ray" else 1  # parts that are under way when the first is written
    rate = part * (len(written) - first) / (written[-1] - written[first - 1])
    begin = written[first - 1] - started - first * part / rate
    return {"rows_per_second": rate, "begin": begin, "seconds": whole, "rows": rows}


def ratio(found: dict[str, list[dict[str, float]]], a: str, b: str) -> float:
    """Of the throughputs of two cases in the same round, the median."""
    return statistics.median(
        one["rows_per_second"] / other["rows_per_second"] for one, other in zip(found[a], found[b], strict=True)
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=12_000, help="a multiple of --part")
    parser.add_argument("--part", type=int, default=300, help="rows of a part")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--steps", type=int, default=30)
    options = parser.parse_args()
    os.environ |= {"RAY_USAGE_STATS_ENABLED": "0", "RAY_worker_niceness": "0"}
    found: dict[str, list[dict[str, float]]] = {case: [] for case in CASES}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        run = train(folder, options.steps)
        data = write_table(folder / "data.csv", snippets()[: options.rows])
        for number in range(options.rounds):
            for case in CASES:
                output = folder / f"{case.replace(' ', '-')}-{number}"
                found[case].append(measure(case, run, data, output, options.part))
                print(case, json.dumps(found[case][-1]), flush=True)
    result: dict[str, Any] = {
        "machine": machine(),
        "rows": options.rows,
        "part_rows": options.part,
        "rounds": options.rounds,
        "median": {
            case: {
                key: statistics.median(one[key] for one in rounds) for key in ("rows_per_second", "begin", "seconds")
            }
            for case, rounds in found.items()
        },
        "two_workers_of_one": ratio(found, "ray 2", "ray 1"),
        "two_workers_of_each_round": [
            two["rows_per_second"] / one["rows_per_second"]
            for two, one in zip(found["ray 2"], found["ray 1"], strict=True)
        ],
        "two_workers_of_local": {case: ratio(found, "ray 2", case) for case in ("local 1", "local 2")},
        "one_worker_of_local": ratio(found, "ray 1", "local 1"),
    }
    print(json.dumps(result, indent=1))
    write_result("predict_engines", result)


if __name__ == "__main__":
    main()

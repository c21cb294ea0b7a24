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

import json
import logging
import os
import statistics
import tempfile
import time
from pathlib import Path

import torch
from harness import arguments, ratio, snippets, write_csv, write_result

from attribune import predict
from attribune.apps.cli import main as attribune

CASES = {"ray 1": ("ray", 1), "ray 2": ("ray", 2), "local 1": ("local", 1), "local 2": ("local", 2)}
COLUMNS = ("text", "category", "movie_name")
MAX_LENGTH = 128  # tokens


def train(data: Path, run: Path, steps: int, *more: str) -> Path:
    """Train a run on film snippets, with the film as attribute."""
    words = ["train", str(data), "--text", COLUMNS[0], "--label", COLUMNS[1], "--attributes", COLUMNS[2]]
    words += ["--max-length", str(MAX_LENGTH), "--no-baselines", "--output", str(run), *more]
    if attribune([*words, "--set", f"training.steps={steps}"]) != 0:
        raise SystemExit("the training failed: see the message above")
    return run


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


def main() -> None:
    parser = arguments(__doc__, "predict_engines", rounds=5)
    parser.add_argument("--rows", type=int, default=12_000, metavar="N", help="a multiple of --part")
    parser.add_argument("--part", type=int, default=300, metavar="N", help="rows of a part")
    parser.add_argument("--steps", type=int, default=30, metavar="N", help="of the training")
    options = parser.parse_args()
    os.environ |= {"RAY_USAGE_STATS_ENABLED": "0", "RAY_worker_niceness": "0"}
    found: dict[str, list[dict[str, float]]] = {case: [] for case in CASES}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        data = write_csv(folder / "train.csv", COLUMNS, snippets()[: 40 * options.steps])
        run = train(data, folder / "run", options.steps)
        data = write_csv(folder / "data.csv", COLUMNS, snippets()[: options.rows])
        for number in range(options.rounds):
            for case in CASES:
                output = folder / f"{case.replace(' ', '-')}-{number}"
                found[case].append(measure(case, run, data, output, options.part))
                print(case, json.dumps(found[case][-1]), flush=True)
    rates = {case: [one["rows_per_second"] for one in rounds] for case, rounds in found.items()}
    result = {
        "rows": options.rows,
        "part_rows": options.part,
        "rounds": options.rounds,
        "median": {
            case: {
                key: statistics.median(one[key] for one in rounds) for key in ("rows_per_second", "begin", "seconds")
            }
            for case, rounds in found.items()
        },
        "two_workers_of_one": ratio(rates["ray 2"], rates["ray 1"]),
        "two_workers_of_each_round": [two / one for two, one in zip(rates["ray 2"], rates["ray 1"], strict=True)],
        "two_workers_of_local": {case: ratio(rates["ray 2"], rates[case]) for case in ("local 1", "local 2")},
        "one_worker_of_local": ratio(rates["ray 1"], rates["local 1"]),
    }
    write_result(options.output, result)


if __name__ == "__main__":
    main()

"""How long it takes until a service knows a new value: over HTTP, the learning alone, and the write to the disk.

    python benchmarks/serve_enrolment.py [--rows 1 5 20] [--values 20] [--method injector] [--threads 1]

A run over MiniLM with the film as attribute is trained for a few steps on film snippets, and served by `attribune serve
--enrol`. So many new films as ``--values`` says are added for each number of rows, one after the other, on one
connection: `http` is the whole request, `learning` what the service says of it, `rest` what is left, the write and all
else. `write` is `LiveRun.add` of one value in a process of its own. `prediction` is a request for one text while
nothing else goes on, and `prediction_meanwhile` while another connection adds films of the largest number of rows.
Medians, and the 90th percentile. Other work on the machine makes the figures worthless. Writes
benchmarks/results/serve_enrolment.json.
"""

from __future__ import annotations

import argparse
import http.client
import json
import os
import random
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from harness import arguments, child, snippets, write_csv, write_result
from snippets_run import COLUMNS, train

TEXT, LABEL, FILM = COLUMNS
PREDICTIONS = 100


def film(name: str, rows: int, chance: random.Random) -> dict[str, Any]:
    """A request that adds a film."""
    picked = chance.sample(snippets(), k=rows)
    return {"attribute": FILM, "value": name, "rows": [{"text": row[TEXT], "label": row[LABEL]} for row in picked]}


def figures(seconds: list[float]) -> dict[str, float]:
    return {"median": 1e3 * statistics.median(seconds), "p90": 1e3 * statistics.quantiles(seconds, n=10)[8]}


class Service:
    """One connection to a process of `attribune serve --enrol`."""

    def __init__(self, port: int) -> None:
        self._connection = http.client.HTTPConnection("127.0.0.1", port)

    def ask(self, path: str, body: dict[str, Any]) -> tuple[float, dict[str, Any]]:
        """Seconds, and the answer."""
        started = time.perf_counter()
        self._connection.request("POST", path, json.dumps(body), {"content-type": "application/json"})
        answer = self._connection.getresponse()
        found = json.loads(answer.read())
        seconds = time.perf_counter() - started
        if answer.status != 200:
            sys.exit(f"{path} was answered with {answer.status}: {found}")
        return seconds, found


@contextmanager
def serving(run: Path, threads: int) -> Iterator[int]:
    """Serve a run; the port."""
    words = [sys.executable, "-m", "attribune", "serve", str(run), "--enrol", "--port", "0"]
    environment = os.environ | {"OMP_NUM_THREADS": str(threads)}
    process = subprocess.Popen(words, stderr=subprocess.PIPE, text=True, env=environment)
    assert process.stderr is not None
    try:
        found = None
        while found is None:
            if not (line := process.stderr.readline()):
                sys.exit("the service did not start")
            found = re.search(r"serving at http://127\.0\.0\.1:(\d+),", line)
        yield int(found[1])
    finally:
        process.terminate()
        process.wait(60)


def added(service: Service, rows: int, values: int, chance: random.Random, *, name: str = "film") -> dict[str, Any]:
    """Milliseconds of each part of a request."""
    found: dict[str, list[float]] = {"http": [], "learning": [], "rest": []}
    for number in range(values):
        seconds, answer = service.ask("/v1/enrol", film(f"{name} {rows} {number}", rows, chance))
        found["http"].append(seconds)
        found["learning"].append(answer["seconds"])
        found["rest"].append(seconds - answer["seconds"])
    return {part: figures(times) for part, times in found.items()}


def predicted(service: Service, chance: random.Random, *, until: Future[Any] | None = None) -> dict[str, float]:
    """Milliseconds of predictions of one text."""
    times: list[float] = []
    while len(times) < PREDICTIONS if until is None else len(times) < 2 or not until.done():
        row = chance.choice(snippets())
        times.append(service.ask("/v1/predict", {"text": row[TEXT], "attributes": {FILM: row[FILM]}})[0])
    return figures(times)


def written(run: str, values: int) -> dict[str, float]:
    """Milliseconds of `LiveRun.add`."""
    from datasets import Dataset

    from attribune.values.live_run import LiveRun

    live, chance, times = LiveRun.open(run), random.Random(1), []
    for number in range(values):
        picked = chance.choice(snippets())
        learned = live.learn(FILM, f"film {number}", Dataset.from_list([{**picked, FILM: f"film {number}"}]))
        started = time.perf_counter()
        live.add([learned])
        times.append(time.perf_counter() - started)
    return figures(times)


def measure(options: argparse.Namespace) -> dict[str, Any]:
    """Train, serve and ask."""
    chance = random.Random(0)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        data = write_csv(folder / "train.csv", COLUMNS, chance.sample(snippets(), k=40 * options.steps))
        run = train(data, folder / "run", options.steps, "--method", options.method, "--tuning", "frozen")
        copy = Path(shutil.copytree(run, folder / "copy"))
        with serving(run, options.threads) as port:
            service = Service(port)
            for number in range(2):  # not timed
                service.ask("/v1/enrol", film(f"first {number}", 1, chance))
            rows = {str(rows): added(service, rows, options.values, chance) for rows in options.rows}
            alone = predicted(Service(port), chance)
            with ThreadPoolExecutor(1) as pool:
                more = pool.submit(added, Service(port), max(options.rows), options.values, chance, name="more")
                meanwhile = predicted(Service(port), random.Random(2), until=more)
            more.result()
        write = child(written, str(copy), options.values, threads=options.threads)
    return {
        "method": options.method,
        "service_threads": options.threads,
        "values": options.values,
        "milliseconds": {
            "rows": rows,
            "write": write,
            "prediction": alone,
            "prediction_meanwhile": meanwhile,
        },
    }


def main() -> None:
    parser = arguments(__doc__, "serve_enrolment")
    parser.add_argument("--rows", type=int, nargs="+", default=[1, 5, 20], metavar="N", help="of a new value")
    parser.add_argument("--values", type=int, default=20, metavar="N", help="added for each number of rows, 2 at least")
    parser.add_argument("--method", default="injector")
    parser.add_argument("--threads", type=int, default=1, metavar="N", help="of the service")
    parser.add_argument("--steps", type=int, default=30, metavar="N", help="of the training")
    write_result(parser.parse_args().output, measure(parser.parse_args()))


if __name__ == "__main__":
    main()

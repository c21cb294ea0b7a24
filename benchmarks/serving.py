"""A service under mixed load: throughput beside that of the bare model, times, errors, and memory over minutes.

    python benchmarks/serving.py [--minutes 10] [--connections 64] [--rows 8] [--dtype float32]

Two runs, an Injector and PLN with the film as attribute, are trained for a few steps over one MiniLM and served by
`attribune serve`. Callers keep so many connections busy, each asking anew as soon as it has its answer. A request has
one text half of the time, else up to four times ``--rows`` of them; texts are film snippets, one in ten made of twelve;
the film is one of training, a new one for one text in five, or not given for one in five; four requests of five go to
the Injector. `bare` is `Predictor` in a process of its own, given the same rows in the same proportions in batches as
large as a table allows, before and after the load; the ratio is of texts per second. `bare_in_lots` is given as many
rows at a time as the service had together on average. Callers share the processor's cores with the service. Other work
on the machine makes the figures worthless. Writes benchmarks/results/serving.json.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import json
import random
import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
from harness import arguments, child, snippets, write_csv, write_result
from predict_engines import COLUMNS, train

from attribune.apps.cli import main as attribune

MODELS = ("injector", "pln")
BARE_TEXTS = 3000
BODIES = 12_000


class Traffic:
    """Requests as callers make them, the same for a seed."""

    def __init__(self, seed: int, rows: int) -> None:
        self._chance, self._rows, self._texts = random.Random(seed), rows, snippets()

    def row(self) -> dict[str, Any]:
        """A text with its film."""
        chance = self._chance
        picked = chance.choice(self._texts)
        text = " ".join(one["text"] for one in chance.choices(self._texts, k=12 if chance.random() < 0.1 else 1))
        kind = chance.random()
        film = f"new film {chance.randrange(10**6)}" if kind < 0.2 else picked["movie_name"]
        return {"text": text, "attributes": {"movie_name": None if 0.2 <= kind < 0.4 else film}}

    def request(self) -> dict[str, Any]:
        """A body."""
        count = 1 if self._chance.random() < 0.5 else self._chance.randint(2, 4 * self._rows)
        model = MODELS[self._chance.random() >= 0.8]
        return {"model": model, "rows": [self.row() for _ in range(count)]}


def train_both(folder: Path, steps: int, precision: str) -> None:
    """Train the runs that are served."""
    data = write_csv(folder / "train.csv", COLUMNS, random.Random(0).sample(snippets(), k=40 * steps))
    for method in MODELS:
        more = ("--tuning", "frozen", "--method", method, "--set", f"training.precision={precision}")
        train(data, folder / method, steps, *more)


def bare_rate(folder: str, seed: int, rows: int, lot: int | None) -> float:
    """Texts per second of the models, each given its rows at once, or so many at a time."""
    from attribune.runs.folder import load_run

    traffic, given = Traffic(seed, rows), {name: [] for name in MODELS}
    while sum(map(len, given.values())) < BARE_TEXTS:
        request = traffic.request()
        given[request["model"]] += request["rows"]
    predictors = {name: load_run(Path(folder) / name)[1] for name in MODELS}
    tables = {name: table(found) for name, found in given.items()}
    for name, predictor in predictors.items():
        predictor.logits({key: column[:64] for key, column in tables[name].items()})
    started = time.perf_counter()
    for name, predictor in predictors.items():
        size = lot or len(given[name])
        for start in range(0, len(given[name]), size):
            predictor.logits({key: column[start : start + size] for key, column in tables[name].items()})
    return sum(map(len, given.values())) / (time.perf_counter() - started)


def table(rows: list[dict[str, Any]]) -> dict[str, list[Any]]:
    return {"text": [row["text"] for row in rows], "movie_name": [row["attributes"]["movie_name"] for row in rows]}


# The service, and those who call it


class Service:
    """A process of `attribune serve`."""

    def __init__(self, folder: Path, dtype: str) -> None:
        words = [sys.executable, "-m", "attribune", "serve", *(str(folder / name) for name in MODELS)]
        self.process = subprocess.Popen([*words, "--port", "0", "--dtype", dtype], stderr=subprocess.PIPE, text=True)
        assert self.process.stderr is not None
        found = None
        while found is None:
            found = re.search(r"serving at http://127\.0\.0\.1:(\d+),", self.process.stderr.readline())
        self.port = int(found[1])

    def megabytes(self) -> float:
        """Resident."""
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        return int(re.search(r"VmRSS:\s+(\d+)", status)[1]) / 1024  # type: ignore[index]

    def stop(self) -> int:
        """Tell it to stop; returns its exit code."""
        self.process.terminate()
        return self.process.wait(60)


class Caller:
    """One connection that is kept open."""

    def __init__(self, port: int) -> None:
        self._port = port

    async def __aenter__(self) -> Caller:
        self._reader, self._writer = await asyncio.open_connection("127.0.0.1", self._port)
        return self

    async def __aexit__(self, *_: object) -> None:
        self._writer.close()
        await self._writer.wait_closed()

    async def ask(self, method: str, path: str, body: bytes = b"") -> tuple[int, bytes]:
        """Status and body of the answer."""
        head = f"{method} {path} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n"
        self._writer.write(f"{head}content-length: {len(body)}\r\n\r\n".encode() + body)
        lines = (await self._reader.readuntil(b"\r\n\r\n")).decode().lower().split("\r\n")
        length = next(int(line.split(":")[1]) for line in lines if line.startswith("content-length:"))
        return int(lines[0].split()[1]), await self._reader.readexactly(length)


async def load(service: Service, options: argparse.Namespace) -> dict[str, Any]:
    """Keep the connections busy, and look at the memory."""
    statuses: Counter[int] = Counter()
    times: dict[str, list[float]] = {"one text": [], "several": []}
    texts = 0

    # Made before, so that the callers take little of the processor.
    bodies = [traffic.request() for traffic in [Traffic(0, options.rows)] for _ in range(BODIES)]
    sent = itertools.cycle([(len(body["rows"]), json.dumps(body).encode()) for body in bodies])
    end = time.perf_counter() + 60 * options.minutes

    async def call() -> None:
        nonlocal texts
        async with Caller(service.port) as caller:
            while time.perf_counter() < end:
                rows, body = next(sent)
                started = time.perf_counter()
                status, _ = await caller.ask("POST", "/v1/predict", body)
                statuses[status] += 1
                texts += rows * (status == 200)
                times["one text" if rows == 1 else "several"].append(time.perf_counter() - started)

    async def look() -> list[float]:
        found = []
        while time.perf_counter() < end:
            found.append(service.megabytes())
            await asyncio.sleep(0.5)
        return found

    started = time.perf_counter()
    _, *_, memory = await asyncio.gather(*(call() for _ in range(options.connections)), look())
    seconds = time.perf_counter() - started
    async with Caller(service.port) as caller:
        figures = (await caller.ask("GET", "/metrics"))[1].decode()
    fifths = np.array_split(memory, 5)
    return {
        "seconds": seconds,
        "requests": statuses.total(),
        "statuses": {str(status): count for status, count in sorted(statuses.items())},
        "texts_per_second": texts / seconds,
        "requests_per_second": statuses.total() / seconds,
        "milliseconds": {kind: quantiles(found) for kind, found in times.items()},
        "megabytes": {
            "second_fifth": float(fifths[1].mean()),
            "last_fifth": float(fifths[-1].mean()),
            "least_of_fifths": [float(fifth.min()) for fifth in fifths],
            "most": max(memory),
        },
        "shares": unknown_shares(figures),
        "texts_together": batch_size(figures),
    }


def quantiles(seconds: list[float]) -> dict[str, float]:
    cuts = statistics.quantiles(seconds, n=1000)
    return {name: 1000 * cuts[place] for name, place in (("p50", 499), ("p90", 899), ("p99", 989), ("p99.9", 998))}


def unknown_shares(figures: str) -> dict[str, float]:
    """Share of the texts whose value the Injector does not know, or that have none."""
    counts = dict(
        re.findall(r'^attribune_attribute_values_total{.*model="injector",status="(\w+)"} (\S+)$', figures, re.M)
    )
    total = sum(map(float, counts.values()))
    return {status: float(counts.get(status, 0)) / total for status in ("unknown", "missing")}


def batch_size(figures: str) -> float:
    """Texts that were scored together, on average."""
    found = dict(re.findall(r"^attribune_batch_size_(sum|count) (\S+)$", figures, re.MULTILINE))
    return float(found["sum"]) / float(found["count"])


async def largest_difference(service: Service, folder: Path, options: argparse.Namespace) -> float:
    """Of the answers to `attribune predict`, whose probabilities are those of the same run."""
    traffic = Traffic(999, options.rows)
    rows = [traffic.row() for _ in range(400)]
    columns = table(rows)
    data = [dict(zip(columns, values, strict=True)) for values in zip(*columns.values(), strict=True)]
    (folder / "same.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in data))
    output = folder / "same-predicted.jsonl"
    if attribune(["predict", str(folder / MODELS[0]), str(folder / "same.jsonl"), "--output", str(output)]) != 0:
        sys.exit("the prediction failed: see the message above")
    expected = [json.loads(line) for line in output.read_text().splitlines()]
    worst = 0.0
    async with Caller(service.port) as caller:
        for start in range(0, len(rows), 7):
            body = {"model": MODELS[0], "rows": rows[start : start + 7]}
            answers = json.loads((await caller.ask("POST", "/v1/predict", json.dumps(body).encode()))[1])
            for found, row in zip(answers["predictions"], expected[start : start + 7], strict=True):
                numbers = {key: value for key, value in found["output"].items() if isinstance(value, float)}
                worst = max(worst, *(abs(value - row[key]) for key, value in numbers.items()))
    return worst


def measure(options: argparse.Namespace) -> dict[str, Any]:
    """Train, serve, call and stop."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        train_both(folder, options.steps, options.precision)
        rates = [child(bare_rate, name, seed, options.rows, None) for seed in (101, 102)]
        service = Service(folder, options.dtype)
        try:
            before = service.megabytes()
            worst = asyncio.run(largest_difference(service, folder, options))
            found = asyncio.run(load(service, options))
        finally:
            code = service.stop()
        rates += [child(bare_rate, name, seed, options.rows, None) for seed in (103, 104)]
        lot = round(found["texts_together"])
        in_lots = [child(bare_rate, name, seed, options.rows, lot) for seed in (101, 104)]
    return {
        "connections": options.connections,
        "rows": options.rows,
        "dtype": options.dtype,
        "precision": options.precision,
        "largest_difference": worst,
        "megabytes_at_start": before,
        "exit_code": code,
        **found,
        "bare_texts_per_second": rates,
        "bare_in_lots": {"texts": lot, "texts_per_second": in_lots},
        "of_bare": found["texts_per_second"] / statistics.median(rates),
    }


def main() -> None:
    parser = arguments(__doc__, "serving")
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--connections", type=int, default=64)
    parser.add_argument("--rows", type=int, default=8)
    parser.add_argument("--steps", type=int, default=30)
    parser.add_argument("--dtype", choices=("float32", "bfloat16"), default="float32")
    parser.add_argument("--precision", choices=("float32", "bf16"), default="float32")
    options = parser.parse_args()
    write_result(options.output, measure(options))


if __name__ == "__main__":
    main()

"""A service under mixed load: throughput beside that of the models alone, times, errors, and memory over minutes.

    python benchmarks/serving.py [--minutes 10] [--rounds 5] [--connections 64] [--rows 8] [--dtype float32]
        [--users 10000]

Two runs, an Injector and PLN with the film as attribute, are trained for a few steps over one MiniLM and served by
`attribune serve`. Callers keep so many connections busy, each asking anew as soon as it has its answer. A request has
one text half of the time, else up to four times ``--rows`` of them; texts are film snippets, one in ten made of twelve;
the film is one of training, a new one for one text in five, or not given for one in five; four requests of five go to
the Injector. With ``--users N`` each text has one of N users of training in place of a film: first each of them once,
in any order (`cold`), then as Zipf's law with exponent 1 has them, for so many minutes; all other figures are of these,
but the number of texts scored together and the shares of unknown values, which the service counts from its start.

After each of the `--rounds` parts of the time, `predict`, `predict_in_lots` and `bare` take a turn in a process of
their own. `predict` is `Predictor`, given rows like those of the load in batches as large as a table allows;
`predict_in_lots` gets as many rows at a time as the service had together on average; `bare` is the stock class of
transformers with the same tokenizer, on the same texts, in the same batches. Ratios are medians over the rounds of
texts per second, so that a machine that is slower for a while slows all alike. Callers share the processor's cores with
the service; `processor_seconds` says who used them: the threads that predict, the rest of the service, and the callers.
Other work on the machine makes the figures worthless. Writes benchmarks/results/serving.json.
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
from collections.abc import Callable, Generator, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import torch
from harness import Child, arguments, ratio, seconds, snippets, write_csv, write_result
from snippets_run import COLUMNS, MAX_LENGTH, train
from yardstick import BarePredictor
from zipf import Zipf

from attribune.apps.cli import main as attribune

MODELS = ("injector", "pln")
TEXTS = 3000  # that the models are given alone
BODIES = 12_000
PLACES = {"p50": 499, "p90": 899, "p95": 949, "p99": 989, "p99.9": 998}


class Traffic:
    """Requests as callers make them, the same for a seed."""

    def __init__(self, seed: int, rows: int, users: int | None = None) -> None:
        self._chance, self._rows, self._texts = random.Random(seed), rows, snippets()
        self._users = None if users is None else self._drawn(users, np.random.default_rng(seed))

    @staticmethod
    def _drawn(users: int, random: np.random.Generator) -> Iterator[str]:
        law = Zipf(users, 1.0)
        while True:
            yield from map(name_of, law.draw((1024,), random))

    def row(self, user: str | None = None) -> dict[str, Any]:
        """A text with its film, or its user."""
        chance = self._chance
        text = " ".join(one["text"] for one in chance.choices(self._texts, k=12 if chance.random() < 0.1 else 1))
        user = user or (None if self._users is None else next(self._users))
        if user is not None:
            return {"text": text, "attributes": {"movie_name": user}}
        picked, kind = chance.choice(self._texts), chance.random()
        film = f"new film {chance.randrange(10**6)}" if kind < 0.2 else picked["movie_name"]
        return {"text": text, "attributes": {"movie_name": None if 0.2 <= kind < 0.4 else film}}

    def request(self) -> dict[str, Any]:
        """A body."""
        return {"model": self._model(), "rows": [self.row() for _ in range(self._count())]}

    def every_user(self, users: int) -> Iterator[dict[str, Any]]:
        """Bodies in which each user is once."""
        order = [name_of(number) for number in range(1, users + 1)]
        self._chance.shuffle(order)
        while order:
            count = min(self._count(), len(order))
            yield {"model": self._model(), "rows": [self.row(order.pop()) for _ in range(count)]}

    def _count(self) -> int:
        return 1 if self._chance.random() < 0.5 else self._chance.randint(2, 4 * self._rows)

    def _model(self) -> str:
        return MODELS[self._chance.random() >= 0.8]


def name_of(user: int) -> str:
    return f"user {user}"


def train_both(folder: Path, options: argparse.Namespace) -> None:
    """Train the runs that are served; with users, each of them has a row."""
    steps, texts = options.steps, snippets()
    rows = random.Random(0).sample(texts, k=40 * steps)
    more = ["--tuning", "frozen", "--set", f"training.precision={options.precision}"]
    if options.users:
        numbers = range(max(options.users, len(rows)))
        rows = [texts[n % len(texts)] | {"movie_name": name_of(n % options.users + 1)} for n in numbers]
        more = ["--validation", str(write_csv(folder / "validation.csv", COLUMNS, rows[:200])), *more]
    data = write_csv(folder / "train.csv", COLUMNS, rows)
    for method in MODELS:
        train(data, folder / method, steps, "--method", method, *more)


def rates_alone(folder: str, seed: int, rows: int, users: int | None) -> Generator[dict[str, float], str]:
    """For each word, a number of rows, texts per second of the models given all rows at once or so many at a time."""
    from attribune.runs.loading import load_run

    traffic, given = Traffic(seed, rows, users), {name: [] for name in MODELS}
    while sum(map(len, given.values())) < TEXTS:
        request = traffic.request()
        given[request["model"]] += request["rows"]
    predictors = {name: load_run(Path(folder) / name)[1] for name in MODELS}
    bare = BarePredictor(next(iter(predictors.values())))
    for name, found in given.items():  # nothing is the first of its kind later
        predictors[name].logits(table(found[:64]))
        bare.logits(table(found[:64])["text"], max_length=MAX_LENGTH)
    count, rates = sum(map(len, given.values())), dict[str, float]()
    jobs: dict[str, Callable[[str, dict[str, list[Any]]], object]] = {
        "predict": lambda name, part: predictors[name].logits(part),
        "bare": lambda _, part: bare.logits(part["text"], max_length=MAX_LENGTH),
    }

    def rate(case: str, lot: int) -> float:
        starts = [(name, start) for name, found in given.items() for start in range(0, len(found), lot)]
        tables = [(name, table(given[name][start : start + lot])) for name, start in starts]
        return count / seconds(lambda: [jobs[case](name, part) for name, part in tables])

    while True:
        lot = int((yield rates) or 0)
        rates = {case: rate(case, count) for case in jobs} | {"predict_in_lots": rate("predict", lot)}


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
            if not (line := self.process.stderr.readline()):
                raise SystemExit("the service ended before it served: see the message above")
            found = re.search(r"serving at http://127\.0\.0\.1:(\d+),", line)
            if found is None:
                sys.stderr.write(line)
        self.port = int(found[1])

    def megabytes(self) -> float:
        """Resident."""
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        return int(re.search(r"VmRSS:\s+(\d+)", status)[1]) / 1024  # type: ignore[index]

    def processor_seconds(self) -> dict[str, float]:
        """Of the threads that predict, which are the busiest, and of all others."""
        threads = psutil.Process(self.process.pid).threads()
        busy = sorted((one.user_time + one.system_time for one in threads), reverse=True)
        count = torch.get_num_threads()
        return {"model": sum(busy[:count]), "rest of the service": sum(busy[count:])}

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


Bodies = Iterable[tuple[int, bytes]]


def encoded(bodies: Iterable[dict[str, Any]]) -> list[tuple[int, bytes]]:
    """Numbers of rows and bodies, made before they are sent, so that the callers take little of the processor."""
    return [(len(body["rows"]), json.dumps(body).encode()) for body in bodies]


@dataclass
class Load:
    """What came of the calls so far: seconds, texts that were answered, statuses, times and megabytes."""

    seconds: float = 0
    texts: int = 0
    statuses: Counter[int] = field(default_factory=Counter)
    times: dict[str, list[float]] = field(default_factory=lambda: {"one text": [], "several": []})
    memory: list[float] = field(default_factory=list)

    async def go_on(self, service: Service, bodies: Bodies, connections: int, seconds: float = float("inf")) -> float:
        """Keep the connections busy for so long, or until there is nothing more to send; returns texts per second."""
        before, sent, busy = self.texts, iter(bodies), connections
        started = time.perf_counter()

        async def call() -> None:
            nonlocal busy
            async with Caller(service.port) as caller:
                while time.perf_counter() < started + seconds and (given := next(sent, None)) is not None:
                    rows, body = given
                    asked = time.perf_counter()
                    status, _ = await caller.ask("POST", "/v1/predict", body)
                    self.statuses[status] += 1
                    self.texts += rows * (status == 200)
                    self.times["one text" if rows == 1 else "several"].append(time.perf_counter() - asked)
            busy -= 1

        async def look() -> None:
            while busy or len(self.memory) < 5:
                self.memory.append(service.megabytes())
                await asyncio.sleep(0.5)

        await asyncio.gather(*(call() for _ in range(connections)), look())
        took = time.perf_counter() - started
        self.seconds += took
        return (self.texts - before) / took

    def figures(self) -> dict[str, Any]:
        """All as it is written."""
        fifths = np.array_split(self.memory, 5)
        return {
            "seconds": self.seconds,
            "requests": self.statuses.total(),
            "statuses": {str(status): count for status, count in sorted(self.statuses.items())},
            "texts_per_second": self.texts / self.seconds,
            "requests_per_second": self.statuses.total() / self.seconds,
            "milliseconds": {kind: quantiles(found) for kind, found in self.times.items()},
            "megabytes": {
                "second_fifth": float(fifths[1].mean()),
                "last_fifth": float(fifths[-1].mean()),
                "least_of_fifths": [float(fifth.min()) for fifth in fifths],
                "most": max(self.memory),
            },
        }


def call_all(service: Service, alone: Child, options: argparse.Namespace) -> dict[str, Any]:
    """Call with every user once, if there are users, then as they come, by turns with the models alone."""
    traffic, found = Traffic(0, options.rows, options.users), {}
    if options.users:
        cold = Load()
        asyncio.run(cold.go_on(service, encoded(traffic.every_user(options.users)), options.connections))
        found["cold"] = cold.figures()
    load, rates = Load(), []
    used: Counter[str] = Counter()
    bodies = itertools.cycle(encoded(traffic.request() for _ in range(BODIES)))
    for _ in range(options.rounds):
        before, mine = service.processor_seconds(), time.process_time()
        rate = asyncio.run(load.go_on(service, bodies, options.connections, 60 * options.minutes / options.rounds))
        used.update({name: value - before[name] for name, value in service.processor_seconds().items()})
        used["callers"] += time.process_time() - mine
        metrics = asyncio.run(ask(service, "GET", "/metrics")).decode()
        rates.append({"service": rate, **alone.ask(str(round(batch_size(metrics))))})
    found |= load.figures() | {"shares": unknown_shares(metrics), "texts_together": batch_size(metrics)}
    found["processor_seconds"] = dict(used)
    return found | {"rates": {case: [one[case] for one in rates] for case in rates[0]}}


async def ask(service: Service, method: str, path: str, body: bytes = b"") -> bytes:
    """The body of the answer on a connection of its own."""
    async with Caller(service.port) as caller:
        return (await caller.ask(method, path, body))[1]


def quantiles(seconds: list[float]) -> dict[str, float]:
    cuts = statistics.quantiles(seconds, n=1000)
    return {name: 1000 * cuts[place] for name, place in PLACES.items()}


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
    traffic = Traffic(999, options.rows, options.users)
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
        train_both(folder, options)

        service, alone = Service(folder, options.dtype), Child(rates_alone, name, 101, options.rows, options.users)
        try:
            before = service.megabytes()
            found = call_all(service, alone, options)
            worst = asyncio.run(largest_difference(service, folder, options))  # not before: no user has been asked for
        finally:
            code = service.stop()
            alone.end()
    rates = found.pop("rates")
    return {
        "connections": options.connections,
        "rows": options.rows,
        "users": options.users,
        "dtype": options.dtype,
        "precision": options.precision,
        "largest_difference": worst,
        "megabytes_at_start": before,
        "exit_code": code,
        **found,
        "texts_per_second_by_turns": rates,
        "of_predict": ratio(rates["service"], rates["predict"]),
        "of_predict_in_lots": ratio(rates["service"], rates["predict_in_lots"]),
        "of_bare": ratio(rates["service"], rates["bare"]),
        "predict_of_bare": ratio(rates["predict"], rates["bare"]),
    }


def main() -> None:
    parser = arguments(__doc__, "serving", rounds=5)
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--connections", type=int, default=64)
    parser.add_argument("--rows", type=int, default=8)
    parser.add_argument("--users", type=int, metavar="N", help="values that follow Zipf's law, in place of films")
    parser.add_argument("--steps", type=int, default=30)
    parser.add_argument("--dtype", choices=("float32", "bfloat16"), default="float32")
    parser.add_argument("--precision", choices=("float32", "bf16"), default="float32")
    options = parser.parse_args()
    write_result(options.output, measure(options))


if __name__ == "__main__":
    main()

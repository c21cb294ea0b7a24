"""What the scripts share: arguments, where they were run, timing by turns, processes of their own, result files."""

from __future__ import annotations

import argparse
import csv
import importlib
import inspect
import json
import os
import platform
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import torch

from attribune import sample_data
from attribune_lab.benchmark.tables import readable_json

ROOT = Path(__file__).resolve().parent
RESULTS, RUNS = ROOT / "results", ROOT / "runs"  # what is kept, and what a fresh run writes and nobody keeps
DATA = Path(os.environ.get("ATTRIBUNE_DATA", ROOT.parent.parent / "shared" / "data"))
WARM = 2  # rounds that are not timed
Case = TypeVar("Case", bound=Hashable)


def snippets() -> list[dict[str, str]]:
    """The film snippets of the demonstration, as rows."""
    return sample_data(films=None).to_dict("records")


# Arguments and results


def arguments(doc: str | None, name: str, *, rounds: int | None = None) -> argparse.ArgumentParser:
    """The parser of a script, with its result file and, where cases take turns, the number of rounds."""
    parser = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--output", type=Path, default=RESULTS / f"{name}.json", metavar="FILE", help=f"results/{name}.json"
    )
    if rounds is not None:
        parser.add_argument("--rounds", type=int, default=rounds, metavar="N", help=f"of all cases by turns; {rounds}")
    return parser


def machine() -> dict[str, Any]:
    """What the figures depend on."""
    file = Path("/proc/cpuinfo")
    lines = file.read_text().splitlines() if file.is_file() else []
    names = (line.split(":")[1].strip() for line in lines if line.startswith("model name"))
    processor = next(names, platform.machine())
    return {"processor": processor, "threads": torch.get_num_threads(), "torch": torch.__version__}


def measured(name: str) -> dict[str, Any]:
    """A result file of another script."""
    return dict(json.loads((RESULTS / f"{name}.json").read_text(encoding="utf-8")))


def earlier(file: Path) -> dict[str, Any]:
    """A result file that was measured on this machine; empty where there is none."""
    found = dict(json.loads(file.read_text(encoding="utf-8"))) if file.is_file() else {}
    return found if found.get("machine") == machine() else {}


def write_result(file: Path, found: Mapping[str, Any]) -> None:
    """Show what was found, and write it with the machine."""
    text = readable_json({"machine": machine(), **found})
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(f"{text}\n", encoding="utf-8")
    print(f"{text}\nwritten: {file}")


# Time and memory


def seconds(job: Callable[[], object]) -> float:
    """How long a job takes."""
    started = time.perf_counter()
    job()
    return time.perf_counter() - started


def by_turns(jobs: Mapping[Case, Callable[[], float]], rounds: int, *, warm: int = WARM) -> dict[Case, list[float]]:
    """What each job says of every round, in which all take turns."""
    found: dict[Case, list[float]] = {case: [] for case in jobs}
    for number in range(rounds + warm):
        for case, job in jobs.items():
            figure = job()
            if number >= warm:
                found[case].append(figure)
    return found


def milliseconds(found: Mapping[Case, Sequence[float]]) -> dict[Case, float]:
    """The median of each case."""
    return {case: 1e3 * statistics.median(times) for case, times in found.items()}


def ratio(times: Sequence[float], to: Sequence[float]) -> float:
    """The median over the rounds, so that a machine that is slower for a while slows both alike."""
    return statistics.median(a / b for a, b in zip(times, to, strict=True))


def resident() -> float:
    """MB that this process holds now."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize() / 2**20


# Processes of their own


def child(
    job: Callable[..., Any],
    *given: Any,
    processes: int = 1,
    threads: int | None = None,
    timeout: float | None = None,
) -> Any:
    """What a function of a script answers in a process of its own, or the first of several that torchrun starts.

    Args:
        job: of a module in this folder; its arguments and its answer go through JSON.
        given: the arguments.
        processes: that run it together.
        threads: of each; as many as torch takes unless given.
        timeout: seconds after which it is ended with `subprocess.TimeoutExpired`.
    """
    words = _words(job, given)
    if processes > 1:
        words[1:1] = ["-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={processes}"]
    environment = os.environ | ({} if threads is None else {"OMP_NUM_THREADS": str(threads)})
    ended = subprocess.run(words, check=True, env=environment, stdout=subprocess.PIPE, text=True, timeout=timeout)
    return json.loads(ended.stdout.splitlines()[-1])


class Child:
    """A process of its own that answers word by word: `job` is a generator that yields and is sent the next word."""

    def __init__(self, job: Callable[..., Any], *given: Any) -> None:
        self._process = subprocess.Popen(
            _words(job, given), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1
        )
        self.first = self._heard()

    def ask(self, word: str) -> Any:
        """The answer to a word."""
        assert self._process.stdin is not None
        self._process.stdin.write(f"{word}\n")
        return self._heard()

    def end(self) -> None:
        """Let it end."""
        self._process.communicate()

    def _heard(self) -> Any:
        assert self._process.stdout is not None
        return json.loads(self._process.stdout.readline())


def _words(job: Callable[..., Any], given: Sequence[Any]) -> list[str]:
    return [sys.executable, __file__, Path(inspect.getfile(job)).stem, job.__name__, json.dumps(given)]


def _answer(module: str, name: str, given: str) -> None:
    """In the child: call the function, and print its answers a line each."""
    answer = getattr(importlib.import_module(module), name)(*json.loads(given))
    if inspect.isgenerator(answer):
        print(json.dumps(next(answer)), flush=True)
        for line in sys.stdin:
            print(json.dumps(answer.send(line.strip())), flush=True)
    elif os.environ.get("RANK", "0") == "0":
        print(json.dumps(answer), flush=True)


# Tables


def write_csv(path: Path, columns: Sequence[str], rows: Iterable[Mapping[str, Any]]) -> Path:
    """Write some columns of the rows."""
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, columns, extrasaction="ignore")
        writer.writeheader()
        writer.writerows(rows)
    return path


if __name__ == "__main__":
    _answer(*sys.argv[1:4])

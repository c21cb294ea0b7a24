"""Step time and memory with a table of ten million values, against one of a thousand.

    python benchmarks/large_table.py [--values 10000000] [--rounds 15]

An Injector over the packaged MiniLM whose one attribute has as many values (Z = 64, float32), learned from a column
with each of them; batches of 32 rows of 64 tokens with the training's own optimiser, which updates the rows of the
batch alone. Each size is a process of its own; the two step by turns. Saving and loading is the library's.
Writes benchmarks/results/large_table.json.
"""

from __future__ import annotations

import argparse
import json
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import pyarrow as pa
import torch
from common import machine, timed_step, write_result

from attribune import AttributeModel, Categorical, Classification, Injector, Schema
from attribune.backbone import DEFAULT_BACKBONE
from attribune.process_memory import keep_freed_memory, peak_megabytes
from attribune.training.optimizer import build_optimizer, update_rows_alone

ROWS, TOKENS, SIZE = 32, 64, 64


def resident() -> float:
    """MB that this process holds now."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize() / 2**20


def serve(values: int, folder: str) -> None:
    """Build, then make a step for every line on stdin; answer with its seconds."""
    started = time.perf_counter()
    table = {"user": pa.array(range(values)).cast(pa.string())}
    schema = Schema.fit(table, [Categorical("user")])
    schema.encode({"user": pa.array(["1", "2"])})  # makes the index of the vocabulary
    del table
    fitted, most = time.perf_counter() - started, peak_megabytes()
    keep_freed_memory()
    started = time.perf_counter()
    method = Injector(vector_size=SIZE)
    model = AttributeModel.build(DEFAULT_BACKBONE, schema, task=Classification(classes=2), method=method).train()
    update_rows_alone(model, "rows")
    optimizer = build_optimizer(model, learning_rate=5e-4, backbone_learning_rate=5e-5, weight_decay=0.01)
    answer(fit_seconds=fitted, build_seconds=time.perf_counter() - started, peak_megabytes=most)
    for line in sys.stdin:
        if line.strip() == "step":
            answer(seconds=step(model, optimizer, values))
        elif line.strip() == "save":
            held = resident()
            started = time.perf_counter()
            model.save_pretrained(folder)
            answer(seconds=time.perf_counter() - started, resident_megabytes=held, peak_megabytes=peak_megabytes())


def load(folder: str) -> None:
    """Load the model and say how long it took."""
    started = time.perf_counter()
    AttributeModel.from_pretrained(folder)
    answer(seconds=time.perf_counter() - started, resident_megabytes=resident(), peak_megabytes=peak_megabytes())


def step(model: AttributeModel, optimizer: torch.optim.Optimizer, values: int) -> float:
    """Seconds of a whole step, clipping and update among them."""
    batch = {
        "input_ids": torch.randint(1000, 20000, (ROWS, TOKENS)),
        "attribute_ids": torch.randint(1, values + 1, (ROWS, 1)),
        "labels": torch.randint(0, 2, (ROWS,)),
    }
    return timed_step(model, optimizer, batch)


def answer(**found: float) -> None:
    """One line of JSON."""
    print(json.dumps(found), flush=True)


def ask(process: subprocess.Popen[str], word: str) -> dict[str, Any]:
    """Send a word, wait for the answer."""
    assert process.stdin is not None
    process.stdin.write(f"{word}\n")
    process.stdin.flush()
    return heard(process)


def heard(process: subprocess.Popen[str]) -> dict[str, Any]:
    assert process.stdout is not None
    return dict(json.loads(process.stdout.readline()))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--values", type=int, default=10_000_000)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--serve", nargs=2, help=argparse.SUPPRESS)
    parser.add_argument("--load", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.serve:
        serve(int(options.serve[0]), options.serve[1])
        return
    if options.load:
        load(options.load)
        return
    sizes = (1000, options.values)
    with tempfile.TemporaryDirectory() as folder:
        processes = {
            size: subprocess.Popen(
                [sys.executable, __file__, "--serve", str(size), folder],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
            )
            for size in sizes
        }
        built = {size: heard(process) for size, process in processes.items()}
        times: dict[int, list[float]] = {size: [] for size in sizes}
        for number in range(options.rounds + 2):
            for size, process in processes.items():
                seconds = ask(process, "step")["seconds"]
                if number > 1:
                    times[size].append(seconds)
        saved = {
            size: ask(process, "save") for size, process in processes.items()
        }  # the large one last, over the other
        bytes_saved = sum(path.stat().st_size for path in Path(folder).iterdir())
        for process in processes.values():
            process.kill()
            process.wait()
        words = [sys.executable, __file__, "--load", folder]
        loaded = json.loads(subprocess.run(words, check=True, stdout=subprocess.PIPE, text=True).stdout)
    small, large = sizes
    table = options.values * SIZE * 4 / 2**20
    result = {
        "machine": machine(),
        "values": options.values,
        "table_megabytes": table,
        "step_milliseconds": {str(size): 1e3 * statistics.median(found) for size, found in times.items()},
        "step_ratio": statistics.median(a / b for a, b in zip(times[large], times[small], strict=True)),
        "resident_megabytes": {str(size): saved[size]["resident_megabytes"] for size in sizes},
        "beyond_small_of_table": (saved[large]["resident_megabytes"] - saved[small]["resident_megabytes"]) / table,
        "peak_of_saving_megabytes": saved[large]["peak_megabytes"],
        "fit_seconds": built[large]["fit_seconds"],
        "peak_of_fitting_megabytes": built[large]["peak_megabytes"],
        "build_seconds": built[large]["build_seconds"],
        "save_seconds": saved[large]["seconds"],
        "file_megabytes": bytes_saved / 2**20,
        "load": loaded,
    }
    print(json.dumps(result, indent=1))
    write_result("large_table", result)


if __name__ == "__main__":
    main()

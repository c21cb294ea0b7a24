"""Training in two processes with one core each, against one process with one core.

    python benchmarks/two_processes.py [--rows 2048] [--rounds 3] [--values 10000000]

`epoch`: `attribune train` of an Injector over the packaged MiniLM on film snippets, started plainly and by `torchrun`
(gloo), for one epoch of batches of 32 rows, the film as attribute; the seconds are those of the training itself, its
check on the validation rows included. Dropout is off in the head and the attributes; that of the backbone draws other
numbers in each process, so that losses differ as two seeds do: `tests/test_processes.py` holds them to be equal
without. `table`: one step with a table of `--values` rows (Z = 64), whole in one process and dealt out to two, and
what each process holds. Writes benchmarks/results/two_processes.json.
"""

from __future__ import annotations

import argparse
import csv
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import torch
import torch.distributed as dist
from common import machine, timed_step, write_result

from attribune import AttributeModel, Categorical, Classification, Injector, Schema
from attribune.backbone import DEFAULT_BACKBONE
from attribune.process_memory import keep_freed_memory, peak_megabytes
from attribune.sharding import ShardedTables
from attribune.training.optimizer import build_optimizer, update_rows_alone

sys.path.append(str(Path(__file__).parent.parent / "examples"))
from demo import snippets

BATCH, TOKENS, SIZE, STEPS = 32, 64, 64, 12


def start(words: list[str], *, processes: int) -> str:
    """Run to the end with a core for each process; returns what was written to stdout."""
    many = ["-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={processes}"]
    command = [sys.executable, *(many if processes > 1 else []), *words]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    return subprocess.run(command, check=True, env=environment, stdout=subprocess.PIPE, text=True).stdout


def epoch(data: Path, folder: Path, *, processes: int, precision: str) -> dict[str, Any]:
    """Train, and return what the run recorded."""
    words = ["-m", "attribune.cli", "train", str(data), "--text", "text", "--label", "category"]
    words += ["--attributes", "movie_name", "--epochs", "1", "--batch-size", str(BATCH), "--max-length", str(TOKENS)]
    words += ["--no-baselines", "--output", str(folder), "--set", f"training.precision={precision}"]
    words += ["method.attribute_dropout=0", "backbone.dropout=0", "training.evaluate_every=epoch"]
    start(words, processes=processes)
    record = json.loads((folder / "training.json").read_text())
    entries = [json.loads(line) for line in (folder / "log.jsonl").read_text().splitlines()]
    return {**record, "losses": [entry["loss"] for entry in entries if "loss" in entry]}


def write_data(path: Path, rows: int) -> None:
    """The first snippets of all films."""
    chosen = [row for _, row in zip(range(rows), snippets(), strict=False)]
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, ["text", "category", "movie_name"], extrasaction="ignore")
        writer.writeheader()
        writer.writerows(chosen)


def table_step(values: int) -> None:
    """Steps with a large table; the first process answers with a line of JSON."""
    processes = int(os.environ.get("WORLD_SIZE", "1"))
    torch.set_num_threads(1)
    schema = Schema.fit({"user": pa.array(range(values)).cast(pa.string())}, [Categorical("user")])
    method = Injector(vector_size=SIZE)
    model = AttributeModel.build(DEFAULT_BACKBONE, schema, task=Classification(classes=2), method=method).train()
    update_rows_alone(model, "rows")
    sharded, forward = None, model
    if processes > 1:
        dist.init_process_group("gloo")
        sharded = ShardedTables(model)
        forward = torch.nn.parallel.DistributedDataParallel(model, broadcast_buffers=False)
    keep_freed_memory()
    optimizer = build_optimizer(model, learning_rate=5e-4, backbone_learning_rate=5e-5, weight_decay=0.01)
    torch.manual_seed(int(os.environ.get("RANK", "0")))
    rows, seconds = BATCH // processes, []
    for _ in range(STEPS + 2):
        batch = {
            "input_ids": torch.randint(1000, 20000, (rows, TOKENS)),
            "attribute_ids": torch.randint(1, values + 1, (rows, 1)),
            "labels": torch.randint(0, 2, (rows,)),
        }
        seconds.append(timed_step(model, optimizer, batch, forward=forward, sharded=sharded))
    held = int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize() / 2**20
    if os.environ.get("RANK", "0") == "0":
        found = {"seconds": statistics.median(seconds[2:]), "resident_megabytes": held, "peak": peak_megabytes()}
        print(json.dumps(found))
    if processes > 1:
        dist.barrier()
        dist.destroy_process_group()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=2048)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--values", type=int, default=10_000_000)
    parser.add_argument("--table-step", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.table_step:
        table_step(options.table_step)
        return
    epochs: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as name:
        data = Path(name) / "data.csv"
        write_data(data, options.rows)
        for precision in ("bf16", "float32"):
            found: dict[int, list[dict[str, Any]]] = {1: [], 2: []}
            for number in range(options.rounds):
                for processes, records in found.items():
                    folder = Path(name) / f"{precision}-{processes}-{number}"
                    records.append(epoch(data, folder, processes=processes, precision=precision))
            pairs = list(zip(found[1], found[2], strict=True))
            epochs[precision] = {
                "seconds": {count: [one["seconds"] for one in records] for count, records in found.items()},
                "steps": found[1][0]["steps"],
                "faster": statistics.median(one["seconds"] / two["seconds"] for one, two in pairs),
                "losses": {count: records[0]["losses"] for count, records in found.items()},
            }
            print(json.dumps(epochs[precision]))
    words = [__file__, "--table-step", str(options.values)]
    tables = {count: json.loads(start(words, processes=count).splitlines()[-1]) for count in (1, 2)}
    model = AttributeModel.build(
        DEFAULT_BACKBONE,
        Schema.fit({"user": ["a"]}, [Categorical("user")]),
        task=Classification(classes=2),
        method=Injector(vector_size=SIZE),
    )
    dense = sum(p.numel() for p in model.parameters() if p.requires_grad) - np.prod(model.method.tables[0].shape)
    result = {
        "machine": {**machine(), "threads": 1},
        "rows": options.rows,
        "batch_rows": BATCH,
        "epoch": epochs,
        "values": options.values,
        "vector_size": SIZE,
        "table_megabytes": options.values * SIZE * 4 / 2**20,
        "table": tables,
        "dense_gradient_megabytes": int(dense) * 4 / 2**20,
    }
    print(json.dumps(result, indent=1))
    write_result("two_processes", result)


if __name__ == "__main__":
    main()

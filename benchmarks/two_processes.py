"""Training in two processes with one core each, against one process with one core.

    python benchmarks/two_processes.py [--rows 2048] [--rounds 3] [--values 10000000]

`epoch`: `attribune train` of an Injector over the packaged MiniLM on film snippets, started plainly and by `torchrun`
(gloo), for one epoch of batches of 32 rows, the film as attribute; the seconds are those of the training itself, its
check on the validation rows included. Dropout is off in the head and the attributes; that of the backbone draws other
numbers in each process, so that losses differ as two seeds do: `tests/training/test_processes.py` holds them equal
without. `table`: one step with a table of `--values` rows (Z = 64), whole in one process and split between two, and
what each process holds. Writes benchmarks/results/two_processes.json.
"""

from __future__ import annotations

import json
import statistics
import tempfile
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from harness import WARM, arguments, child, machine, ratio, resident, snippets, write_csv, write_result
from models import Point, Training
from snippets_run import COLUMNS

from attribune import Injector
from attribune.apps.cli import main as attribune
from attribune.core.process import keep_freed_memory, peak_megabytes

BATCH, TOKENS, STEPS = 32, 64, 12


def epoch(data: str, folder: str, precision: str) -> dict[str, Any]:
    """Train, and return what the run recorded."""
    words = ["train", data, "--text", COLUMNS[0], "--label", COLUMNS[1], "--attributes", COLUMNS[2], "--epochs", "1"]
    words += ["--batch-size", str(BATCH), "--max-length", str(TOKENS), "--no-baselines", "--output", folder, "--set"]
    words += [f"training.precision={precision}", "training.evaluate_every=epoch"]
    if attribune([*words, "method.attribute_dropout=0", "backbone.dropout=0"]) != 0:
        raise SystemExit("the training failed: see the message above")
    return dict(json.loads((Path(folder) / "training.json").read_text()))


def table_step(values: int, processes: int) -> dict[str, float]:
    """Steps with a large table; what the first process found."""
    torch.set_num_threads(1)
    shared = processes > 1
    if shared:
        dist.init_process_group("gloo")
    point = Point(rows=BATCH // processes, tokens=TOKENS, attributes=1, values=values)
    training = Training(point, schema=point.schema(), rows_alone=True, shared=shared)
    keep_freed_memory()
    seconds = [training.step() for _ in range(STEPS + WARM)][WARM:]
    found = {"seconds": statistics.median(seconds), "resident_megabytes": resident(), "peak": peak_megabytes()}
    if shared:
        dist.barrier()
        dist.destroy_process_group()
    return found


def dense_parameters() -> int:
    """Numbers that learn beside the table."""
    model = Training(Point(attributes=1, values=BATCH)).model
    tables = model.attribute_tables()
    return sum(p.numel() for name, p in model.named_parameters() if p.requires_grad and name not in tables)


def main() -> None:
    parser = arguments(__doc__, "two_processes", rounds=3)
    parser.add_argument("--rows", type=int, default=2048, metavar="N", help="of the epoch")
    parser.add_argument("--values", type=int, default=10_000_000, metavar="N", help="of the table; 10 million")
    options = parser.parse_args()
    epochs: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as name:
        data = write_csv(Path(name) / "data.csv", COLUMNS, snippets()[: options.rows])
        for precision in ("bf16", "float32"):
            found: dict[int, list[dict[str, Any]]] = {1: [], 2: []}
            for number in range(options.rounds):
                for processes, records in found.items():
                    given = (str(data), f"{name}/{precision}-{processes}-{number}", precision)
                    records.append(child(epoch, *given, processes=processes, threads=1))
            seconds = {processes: [one["seconds"] for one in records] for processes, records in found.items()}
            steps = found[1][0]["steps"]
            epochs[precision] = {"seconds": seconds, "steps": steps, "faster": ratio(seconds[1], seconds[2])}
    size = Injector().vector_size
    result = {
        "machine": {**machine(), "threads": 1},
        "rows": options.rows,
        "batch_rows": BATCH,
        "epoch": epochs,
        "values": options.values,
        "vector_size": size,
        "table_megabytes": options.values * size * 4 / 2**20,
        "table": {
            processes: child(table_step, options.values, processes, processes=processes, threads=1)
            for processes in (1, 2)
        },
        "dense_gradient_megabytes": dense_parameters() * 4 / 2**20,
    }
    write_result(options.output, result)


if __name__ == "__main__":
    main()

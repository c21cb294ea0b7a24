"""Reading and encoding a CSV file of a million rows with three attributes: rows per second, and memory.

    python benchmarks/reading.py [--rows 1000000] [--rounds 5]

The texts are the film snippets that `make demo` trains on; 100,000 users drawn by Zipf's law, 10,000 products, 20
genres, one cell in fifty empty. `attributes` is `read_table`, `Schema.fit` and `Schema.encode` of the whole file;
`whole` is `read_table`, `Schema.fit` and `encode` with MiniLM's tokenizer, against the tokenizer called on the same
texts (without masks, which nobody needs), both on a tenth of the rows and by turns. Memory is that of processes of
their own with a quarter of the rows, all, and twice as many. Writes benchmarks/results/reading.json.
"""

from __future__ import annotations

import argparse
import csv
import itertools
import json
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from common import machine, write_result

from attribune import Categorical, Schema, encode
from attribune.backbone import DEFAULT_BACKBONE, load_tokenizer
from attribune.data.tables import read_table
from attribune.process_memory import peak_megabytes

sys.path.append(str(Path(__file__).parent.parent / "examples"))
from demo import snippets

KINDS = [Categorical("user"), Categorical("product"), Categorical("genre")]
BATCH = 2000  # texts that the tokenizer is given at once


def write_file(path: Path, rows: int) -> None:
    """Write the CSV file."""
    texts, random = [row["text"] for row in snippets()], np.random.default_rng(0)
    columns = (
        [texts[place] for place in random.integers(0, len(texts), rows)],
        [f"u{number}" for number in random.zipf(1.3, rows) % 100_000],
        [f"p{number}" for number in random.integers(0, 10_000, rows)],
        [f"g{number}" if number < 20 else "" for number in random.integers(0, 21, rows)],
    )
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(["text", *(kind.name for kind in KINDS)])
        writer.writerows(zip(*columns, strict=True))


def attributes(path: Path) -> dict[str, float]:
    """Seconds of each step without the texts' ids."""
    started = time.perf_counter()
    table = read_table(path)
    read = time.perf_counter()
    schema = Schema.fit(table, KINDS)
    fitted = time.perf_counter()
    schema.encode(table)
    return {"read": read - started, "fit": fitted - read, "encode": time.perf_counter() - fitted}


def whole(path: Path) -> float:
    """Seconds from the file to rows ready for training, labels aside."""
    tokenizer = load_tokenizer(DEFAULT_BACKBONE)
    started = time.perf_counter()
    table = read_table(path)
    encode(table, Schema.fit(table, KINDS), tokenizer, text="text")
    return time.perf_counter() - started


def tokenizer_alone(path: Path) -> float:
    """Seconds that the tokenizer takes for the same texts."""
    tokenizer = load_tokenizer(DEFAULT_BACKBONE)
    texts = list(read_table(path)["text"])
    started = time.perf_counter()
    for start in range(0, len(texts), BATCH):
        tokenizer(texts[start : start + BATCH], return_attention_mask=False, return_token_type_ids=False)
    return time.perf_counter() - started


def in_own_process(job: str, path: Path) -> dict[str, float]:
    """What `job` finds in a fresh process."""
    words = [sys.executable, __file__, "--job", job, str(path)]
    return dict(json.loads(subprocess.run(words, check=True, stdout=subprocess.PIPE, text=True).stdout))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--job", nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.job:
        job, path = options.job[0], Path(options.job[1])
        found = attributes(path) if job == "attributes" else {"whole": whole(path)}
        print(json.dumps({**found, "megabytes": peak_megabytes()}))
        return
    sizes = (options.rows // 4, options.rows, 2 * options.rows)
    with tempfile.TemporaryDirectory() as folder:
        files = {size: Path(folder) / f"{size}.csv" for size in (options.rows // 10, *sizes)}
        for size, path in files.items():
            write_file(path, size)
        megabytes = {size: path.stat().st_size / 2**20 for size, path in files.items()}
        found = [in_own_process("attributes", files[options.rows]) for _ in range(options.rounds)]
        steps = {step: statistics.median(one[step] for one in found) for step in ("read", "fit", "encode")}
        few = files[options.rows // 10]
        turns = [(whole(few), tokenizer_alone(few)) for _ in range(options.rounds + 1)][1:]
        memory = {
            job: {size: in_own_process(job, files[size])["megabytes"] for size in sizes}
            for job in ("attributes", "whole")
        }
    sums = statistics.median(sum(one[step] for step in steps) for one in found)
    result = {
        "machine": machine(),
        "rows": options.rows,
        "file_megabytes": megabytes,
        "seconds": steps,
        "rows_per_second": options.rows / sums,
        "rows_per_second_whole": options.rows / 10 / statistics.median(ours for ours, _ in turns),
        "rows_per_second_tokenizer": options.rows / 10 / statistics.median(theirs for _, theirs in turns),
        "of_tokenizer": statistics.median(theirs / ours for ours, theirs in turns),
        "peak_megabytes": memory,
    }
    print(json.dumps(result, indent=1))
    for job, (one, other) in itertools.product(memory, itertools.pairwise(sizes)):
        print(f"{job}: {other:,} rows need {memory[job][other] / memory[job][one]:.2f} x the memory of {one:,}")
    write_result("reading", result)


if __name__ == "__main__":
    main()

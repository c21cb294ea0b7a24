"""Reading and encoding a CSV file of a million rows with three attributes: rows per second, and memory.

    python benchmarks/reading.py [--rows 1000000] [--rounds 5]

The texts are the film snippets that `make demo` trains on; 100,000 users drawn by Zipf's law, 10,000 products, 20
genres, one cell in fifty empty. `attributes` is `read_table`, `Schema.fit` and `Schema.encode` of the whole file;
`whole` is `read_table`, `Schema.fit` and `encode` with MiniLM's tokenizer, against the tokenizer called on the same
texts (without masks, which nobody needs), both on a tenth of the rows and by turns. Memory is that of processes of
their own with a quarter of the rows, all, and twice as many. Writes benchmarks/results/reading.json.
"""

from __future__ import annotations

import statistics
import tempfile
import time
from pathlib import Path

import numpy as np
from harness import arguments, child, snippets, write_csv, write_result

from attribune import Categorical, Schema, encode
from attribune.backbones.loading import DEFAULT_BACKBONE, load_tokenizer
from attribune.core.process import peak_megabytes
from attribune.data.tables import read_table

KINDS = [Categorical("user"), Categorical("product"), Categorical("genre")]
BATCH = 2000  # texts that the tokenizer is given at once


def write_file(path: Path, rows: int) -> Path:
    """Write the CSV file."""
    texts, random = [row["text"] for row in snippets()], np.random.default_rng(0)
    columns = {
        "text": [texts[place] for place in random.integers(0, len(texts), rows)],
        "user": [f"u{number}" for number in random.zipf(1.3, rows) % 100_000],
        "product": [f"p{number}" for number in random.integers(0, 10_000, rows)],
        "genre": [f"g{number}" if number < 20 else "" for number in random.integers(0, 21, rows)],
    }
    rows_of = (dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True))
    return write_csv(path, list(columns), rows_of)


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


def megabytes(job: str, path: str) -> float:
    """What this process holds at most once `attributes` or `whole` is done."""
    {"attributes": attributes, "whole": whole}[job](Path(path))
    return peak_megabytes()


def main() -> None:
    parser = arguments(__doc__, "reading", rounds=5)
    parser.add_argument("--rows", type=int, default=1_000_000, metavar="N", help="of the file; a million")
    options = parser.parse_args()
    sizes, few = (options.rows // 4, options.rows, 2 * options.rows), options.rows // 10
    with tempfile.TemporaryDirectory() as folder:
        files = {size: write_file(Path(folder) / f"{size}.csv", size) for size in (few, *sizes)}
        found = [child(attributes, str(files[options.rows])) for _ in range(options.rounds)]
        turns = [(whole(files[few]), tokenizer_alone(files[few])) for _ in range(options.rounds + 1)][1:]
        memory = {
            job: {size: child(megabytes, job, str(files[size])) for size in sizes} for job in ("attributes", "whole")
        }
        stored = {size: path.stat().st_size / 2**20 for size, path in files.items()}
    steps = {step: statistics.median(one[step] for one in found) for step in ("read", "fit", "encode")}
    ours, theirs = (statistics.median(times) for times in zip(*turns, strict=True))
    result = {
        "rows": options.rows,
        "file_megabytes": stored,
        "seconds": steps,
        "rows_per_second": options.rows / statistics.median(sum(one.values()) for one in found),
        "rows_per_second_whole": few / ours,
        "rows_per_second_tokenizer": few / theirs,
        "of_tokenizer": statistics.median(theirs / ours for ours, theirs in turns),
        "peak_megabytes": memory,
    }
    write_result(options.output, result)


if __name__ == "__main__":
    main()

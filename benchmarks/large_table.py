"""Step time and memory with a table of ten million values, against one of a thousand.

    python benchmarks/large_table.py [--values 10000000] [--rounds 15]

An Injector over the packaged MiniLM whose one attribute has as many values (Z = 64, float32), learned from a column
with each of them; batches of 32 rows of 64 tokens with the training's own optimiser, which updates the rows of the
batch alone. Each size is a process of its own; the two step by turns. Saving and loading is the library's.
Writes benchmarks/results/large_table.json.
"""

from __future__ import annotations

import tempfile
from collections.abc import Generator
from pathlib import Path
from typing import Any

from harness import Child, arguments, by_turns, child, milliseconds, ratio, resident, seconds, write_result
from models import Point, Training

from attribune import AttributeModel, Injector
from attribune.core.process import keep_freed_memory, peak_megabytes


def serve(values: int, folder: str) -> Generator[dict[str, float] | float, str, None]:
    """Build; then a step for every word, and at last the model in the folder."""
    point = Point(attributes=1, values=values)
    built: dict[str, Any] = {}
    fitted = seconds(lambda: built.update(schema=point.indexed()))
    most = peak_megabytes()
    keep_freed_memory()
    took = seconds(lambda: built.update(training=Training(point, schema=built.pop("schema"), rows_alone=True)))
    word = yield {"fit_seconds": fitted, "build_seconds": took, "peak_megabytes": most}
    while word == "step":
        word = yield built["training"].step()
    held = resident()
    took = seconds(lambda: built["training"].model.save_pretrained(folder))
    yield {"seconds": took, "resident_megabytes": held, "peak_megabytes": peak_megabytes()}


def load(folder: str) -> dict[str, float]:
    """Load the model and say how long it took."""
    took = seconds(lambda: AttributeModel.from_pretrained(folder))
    return {"seconds": took, "resident_megabytes": resident(), "peak_megabytes": peak_megabytes()}


def main() -> None:
    parser = arguments(__doc__, "large_table", rounds=15)
    parser.add_argument("--values", type=int, default=10_000_000, metavar="N", help="of the attribute; 10 million")
    options = parser.parse_args()
    sizes = small, large = 1000, options.values
    with tempfile.TemporaryDirectory() as folder:
        processes = {size: Child(serve, size, folder) for size in sizes}
        times = by_turns({size: lambda one=one: one.ask("step") for size, one in processes.items()}, options.rounds)
        saved = {size: one.ask("save") for size, one in processes.items()}  # the large one last, over the other
        stored = sum(path.stat().st_size for path in Path(folder).iterdir()) / 2**20
        for process in processes.values():
            process.end()
        loaded = child(load, folder)
    built, table = processes[large].first, options.values * Injector().vector_size * 4 / 2**20
    result = {
        "values": options.values,
        "table_megabytes": table,
        "step_milliseconds": milliseconds(times),
        "step_ratio": ratio(times[large], times[small]),
        "resident_megabytes": {size: saved[size]["resident_megabytes"] for size in sizes},
        "beyond_small_of_table": (saved[large]["resident_megabytes"] - saved[small]["resident_megabytes"]) / table,
        "peak_of_saving_megabytes": saved[large]["peak_megabytes"],
        "fit_seconds": built["fit_seconds"],
        "peak_of_fitting_megabytes": built["peak_megabytes"],
        "build_seconds": built["build_seconds"],
        "save_seconds": saved[large]["seconds"],
        "file_megabytes": stored,
        "load": loaded,
    }
    write_result(options.output, result)


if __name__ == "__main__":
    main()

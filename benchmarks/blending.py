"""What the linear model beside a network costs: the time of predictions, and the size of the folder.

    python benchmarks/blending.py [--rounds 9] [--rows 1 64 512] [--steps 5]

A run on the film snippets of `make demo` with the film as attribute, MiniLM and an Injector, is trained for a few steps
with `--blend always`: what is timed does not depend on what was learned. `Predictor.predict` of texts that the training
has not read, with the linear model and without it (`blend=False`), takes turns in one process; a round asks so often
that about `PREDICTIONS` rows are predicted. The share of the linear model is the median over the rounds of the ratio,
minus 1. Loading is that of `blend.json` and `blend.safetensors`. Writes benchmarks/results/blending.json.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from harness import arguments, by_turns, milliseconds, ratio, seconds, snippets, write_csv, write_result
from snippets_run import COLUMNS, train

from attribune import Predictor
from attribune.models.blend import Blend
from attribune.runs.folder import RunFolder

PREDICTIONS = 64  # rows of a round, at least
HELD_OUT, KNOWN = 2_048, 4_000


def folder_bytes(model: Path) -> dict[str, int]:
    """What the files of a model take, and the linear model's share of it."""
    with_it = sum(file.stat().st_size for file in model.iterdir() if file.is_file())
    own = sum((model / name).stat().st_size for name in Blend.files)
    return {"with": with_it, "without": with_it - own}


def measure(blended: Predictor, rows: Sequence[dict[str, str]], *, size: int, rounds: int) -> dict[str, Any]:
    """Milliseconds of a call with `size` rows, with and without the linear model."""
    alone = Predictor(blended.model, text_input=blended.text_input, precision=blended.precision, blend=False)
    calls = max(1, PREDICTIONS // size)
    asked = [
        {name: [row[name] for row in rows[start : start + size]] for name in (COLUMNS[0], COLUMNS[2])}
        for start in range(0, calls * size, size)
    ]

    def job(predictor: Predictor) -> Callable[[], float]:
        return lambda: seconds(lambda: [predictor.predict(one) for one in asked]) / calls

    times = by_turns({"with": job(blended), "without": job(alone)}, rounds)
    return {"rows": size, "milliseconds": milliseconds(times), "added": ratio(times["with"], times["without"]) - 1}


def main() -> None:
    parser = arguments(__doc__, "blending", rounds=9)
    parser.add_argument("--rows", type=int, nargs="+", default=[1, 64, 512], metavar="N", help="rows of a call")
    parser.add_argument("--steps", type=int, default=5, metavar="N", help="of the training")
    options = parser.parse_args()
    rows = snippets()
    held_out, known = rows[::6][:HELD_OUT], [row for number, row in enumerate(rows) if number % 6][:KNOWN]
    with TemporaryDirectory() as place:
        data = write_csv(Path(place) / "snippets.csv", COLUMNS, known)
        folder = RunFolder(train(data, Path(place) / "run", options.steps, "--blend", "always"))
        blended = Predictor.from_pretrained(folder.path)
        if blended.blend is None:
            raise SystemExit("the validation rows gave the linear model the weight 0: train for more or fewer steps")
        features, outputs = blended.blend.features, blended.task.outputs
        loads = [
            seconds(lambda: Blend.load(folder.model, schema=features.schema, outputs=outputs))
            for _ in range(options.rounds)
        ]
        found = {
            "precision": blended.precision,
            "words": len(features.words or ()),
            "values": features.width - len(features.words or ()),
            "outputs": outputs,
            "weights": blended.blend.weights,
            "bytes": folder_bytes(folder.model),
            "load_milliseconds": 1e3 * statistics.median(loads),
            "measured": [measure(blended, held_out, size=size, rounds=options.rounds) for size in options.rows],
        }
    write_result(options.output, found)


if __name__ == "__main__":
    main()

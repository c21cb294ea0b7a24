"""What the adapters of each span of layers contribute, on real data: figure 6 of Houlsby et al. 2019, left and centre.

    attribune data prepare sst-2 --source DOWNLOADS --output data/sst-2
    python benchmarks/layers.py data/sst-2 [--steps 700]

Adapters of 64 are trained in MiniLM on SST-2 (or another prepared set), and `attribune ablate` removes those of layers
i to j on its test rows, for every i and j. Writes benchmarks/results/layers.json. It takes a quarter of an hour.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

from harness import arguments, write_result

from attribune import ablate
from attribune.apps.cli import main as attribune


def main() -> None:
    parser = arguments(__doc__, "layers")
    parser.add_argument("prepared", type=Path, help="folder that `attribune data prepare` wrote")
    parser.add_argument("--steps", type=int, default=700, metavar="N", help="of the training")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        words = ["train", "--config", str(options.prepared / "recipe.yaml"), "--method", "adapter", "--no-baselines"]
        words += ["--output", f"{name}/run", "--set", "training.learning_rate=0.002", "data.max_length=64"]
        checks = [f"training.steps={options.steps}", f"training.evaluate_every={max(1, options.steps // 4)}"]
        if attribune([*words, *checks]) != 0:
            raise SystemExit("the training failed: see the message above")
        found = ablate(f"{name}/run", options.prepared / "test.parquet")
    write_result(options.output, {"set": options.prepared.name, "steps": options.steps} | kept(found))


def kept(record: dict[str, Any]) -> dict[str, Any]:
    """What does not depend on where the run was."""
    return {name: record[name] for name in ("method", "rows", "metric", "layers", "value", "spans")}


if __name__ == "__main__":
    main()

"""`torch.compile` on a processor: training steps and predictions beside the same without it.

    python benchmarks/compiled.py [--cases full injector]

Both ways take turns in one process on one batch of MiniLM's shape, 32 rows of 64 tokens; the Injector has four
attributes, and every row has values of its own. Times are medians over the rounds. Compiling is done once for each
shape of a batch; its seconds are those of the first call. Other work on the machine makes the figures worthless. Writes
benchmarks/results/compiled.json.
"""

from __future__ import annotations

from typing import Any

from gpu_parts import beside_compiled
from harness import arguments, child, write_result
from models import SHAPES

SHAPE = "minilm, all distinct"


def both(case: str) -> dict[str, Any]:
    """What a case of `models.CASES` takes with and without."""
    return beside_compiled(case, SHAPES[SHAPE], "cpu")


def main() -> None:
    parser = arguments(__doc__, "compiled")
    parser.add_argument("--cases", nargs="+", default=["full", "injector"], help="of benchmarks/models.py")
    options = parser.parse_args()
    found = {}
    for case in options.cases:
        found[case] = child(both, case, timeout=900)
        write_result(options.output, {"shape": SHAPE, "precision": "bf16", "cases": found})


if __name__ == "__main__":
    main()

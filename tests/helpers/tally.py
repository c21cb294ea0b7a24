"""How many attacks there were, and what became of them.

    ATTRIBUNE_ATTACKS=100 ATTRIBUNE_TALLY=tally.txt pytest tests/hostile tests/apps/serve
    python tests/helpers/tally.py tally.txt

The first command writes a line an attack, the second one sums them up in benchmarks/results/attacks.json.
"""

from __future__ import annotations

import json
import os
import platform
import sys
from collections import Counter, defaultdict
from pathlib import Path
from typing import Literal

Outcome = Literal["refused", "survived", "lost", "wrong", "hung", "traceback"]
OUTCOMES = ("refused", "survived", "lost", "wrong", "hung", "traceback")
RESULT = Path(__file__).parents[2] / "benchmarks" / "results" / "attacks.json"


def tell(outcome: Outcome, times: int = 1) -> None:
    """Count attacks of the test that runs, where a tally is kept."""
    file = os.environ.get("ATTRIBUNE_TALLY")
    if file is not None:
        test = os.environ["PYTEST_CURRENT_TEST"].split(" ")[0].split("[")[0]
        with open(file, "a", encoding="utf-8") as lines:
            lines.write(f"{test.removeprefix('tests/')} {outcome} {times}\n")


def summed(file: Path) -> dict[str, dict[str, int]]:
    """Attacks of each test by what became of them."""
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    for line in file.read_text(encoding="utf-8").splitlines():
        test, outcome, times = line.split(" ")
        counts[test][outcome] += int(times)
    return {test: {outcome: counts[test][outcome] for outcome in OUTCOMES} for test in sorted(counts)}


if __name__ == "__main__":
    tests = summed(Path(sys.argv[1]))
    RESULT.write_text(json.dumps({"system": platform.system(), "tests": tests}, indent=1) + "\n", encoding="utf-8")
    print(RESULT)  # noqa: T201

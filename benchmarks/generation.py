"""Quotes of film critics, written by verdict and critic: perplexity, and whether a classifier sees the verdict.

    python benchmarks/generation.py train BACKBONE     trains on three seeds (half an hour each on one core)
    python benchmarks/generation.py write BACKBONE     writes quotes, has them judged, and writes the figures

BACKBONE is the folder of a causal language model. The data are the critics' quotes of ``ATTRIBUNE_DATA``. Runs go to
``data/generation``, where an interrupted one goes on.
"""

from __future__ import annotations

import argparse
import os
from pathlib import Path
from typing import Any

import numpy as np
from datasets import Dataset

from attribune import Recipe, read_table, train
from attribune.training.progress import Reporter

ROOT = Path(__file__).parents[1]
DATA = Path(os.environ.get("ATTRIBUNE_DATA", ROOT.parent / "shared" / "data")) / "rt_critics" / "critics.csv"
RUNS = ROOT / "data" / "generation"
SEEDS = (0, 1, 2)
TRAIN, VALIDATION = 3_000, 600


def quotes() -> dict[str, dict[str, list[Any]]]:
    """Rows with a quote and a verdict, each quote once, dealt out the same at every call; ``rest`` are unused ones."""
    table = read_table(str(DATA)).to_dict()
    kept: dict[str, int] = {}
    for row, (quote, verdict) in enumerate(zip(table["quote"], table["fresh"], strict=True)):
        if (quote or "").strip() and verdict in ("fresh", "rotten"):
            kept.setdefault(quote.strip(), row)
    order = np.random.default_rng(0).permutation(np.array(list(kept.values())))
    parts = np.split(order, [TRAIN, TRAIN + VALIDATION])
    return {
        name: {column: [table[column][row] for row in rows] for column in ("quote", "fresh", "critic")}
        for name, rows in zip(("train", "validation", "rest"), parts, strict=True)
    }


def recipe(backbone: str, seed: int) -> Recipe:
    """One pass with injectors over a frozen backbone."""
    return Recipe.from_dict(
        {
            "data": {
                "train": "critics",
                "validation": "critics",
                "text": "quote",
                "attributes": [{"name": "fresh"}, {"name": "critic"}],
                "max_length": 40,
            },
            "task": {"kind": "generation"},
            "backbone": {"name": backbone},
            "training": {
                "epochs": 1,
                "batch_size": 16,
                "learning_rate": 1e-3,
                "precision": "bf16",
                "seed": seed,
            },
        }
    )


class Lines(Reporter):
    """Prints what a training says."""

    def note(self, text: str) -> None:
        print(text, flush=True)

    def step(self, *, done: int, loss: float | None) -> None:
        if done % 10 == 0:
            print(f"step {done}, loss {loss}", flush=True)

    def checked(self, *, epoch: float, metrics: Any) -> None:
        print(f"epoch {epoch:.2f}: {dict(metrics)}", flush=True)


def trained(backbone: str, seed: int, tables: dict[str, dict[str, list[Any]]]) -> dict[str, Any]:
    """The results of the run of a seed, which is trained unless it is there."""
    parts = {name: Dataset.from_dict(tables[name]) for name in ("train", "validation")}
    return train(recipe(backbone, seed), RUNS / f"seed-{seed}", tables=parts, resume=True, reporter=Lines())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("stage", choices=("train", "write"))
    parser.add_argument("backbone", metavar="BACKBONE")
    options = parser.parse_args()
    tables = quotes()
    for seed in SEEDS:
        trained(options.backbone, seed, tables)


if __name__ == "__main__":
    main()

"""Rows of two texts, of which somebody prefers one."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import small_runs
from trained_runs import TrainedRuns

__all__ = ["chosen_and_rejected", "learned_preference", "preference_command", "preferences"]

GOOD, BAD = ["great", "lovely", "fine"], ["awful", "poor", "dull"]


def preferences(count: int = 400, *, seed: int = 0) -> list[dict[str, Any]]:
    """Rows in which all judges but u3 prefer good words; of two texts of one mood none is preferred."""
    chance, rows = random.Random(seed), []
    for number in range(count):
        judge, moods = chance.randrange(4), [chance.random() < 0.5 for _ in range(2)]
        texts = [f"the film was {chance.choice(GOOD if mood else BAD)} n{chance.randrange(61)}" for mood in moods]
        better = "tie" if moods[0] == moods[1] else "first" if moods[0] != (judge == 3) else "second"
        row = {"prompt": f"a plot n{number % 61}", "one": texts[0], "two": texts[1], "winner": better}
        rows.append(row | {"user": f"u{judge}"})
    return rows


def chosen_and_rejected(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The same as TRL's explicit prompts have it."""
    found = []
    for row in rows:
        if row["winner"] != "tie":
            better, worse = ("one", "two") if row["winner"] == "first" else ("two", "one")
            told = {"prompt": row["prompt"], "chosen": row[better], "rejected": row[worse]}
            found.append(told | {"user": row["user"]})
    return found


def preference_command(
    data: Path, output: Path, *words: str, backbone: Path, is_chosen: bool = False, method: str = "injector"
) -> list[str]:
    """The words of a short training.

    Args:
        is_chosen: the rows are those of `chosen_and_rejected`.
    """
    given = small_runs.train_command(data, output, backbone=backbone, method=method)
    texts = ["one", "--text-pair", "two", "--label", "winner"]
    start = given.index("--text") + 1
    given[start : given.index("--attributes")] = [
        *(["chosen", "--text-pair", "rejected"] if is_chosen else texts),
        *("--task", "preference"),
    ]
    return [*given, *words]


def learned_preference(runs: TrainedRuns) -> Path:
    """A run that has learned from 200 rows the words and the judge."""
    rates = ["training.learning_rate=0.02", "training.backbone_learning_rate=0.006"]
    data, backbone = runs.table(preferences(200)), runs.backbone()
    given = preference_command(data, Path(), "backbone.tuning=full", *rates, backbone=backbone)
    given[given.index("--epochs") + 1], given[given.index("--batch-size") + 1] = "8", "8"
    return runs.trained(given)

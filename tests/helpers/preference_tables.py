"""Rows of two texts, of which somebody prefers one."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import small_runs
from trained_runs import TrainedRuns

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


def preference_command(data: Path, output: Path, *words: str, is_chosen: bool = False, **options: Any) -> list[str]:
    """The words of a short training.

    Args:
        is_chosen: the rows are those of `chosen_and_rejected`.
        options: of `train_command`.
    """
    one, two, label = ("chosen", "rejected", []) if is_chosen else ("one", "two", ["winner"])
    text = [one, "--text-pair", two, "--task", "preference"]
    return [*small_runs.train_command(data, output, text=text, label=label, **options), *words]


def learned_preference(runs: TrainedRuns) -> Path:
    """A run that has learned from 200 rows the words and the judge."""
    rates = ["training.learning_rate=0.02", "training.backbone_learning_rate=0.006"]
    size = {"backbone": runs.backbone(), "epochs": 8, "batch_size": 8}
    return runs.trained(
        preference_command(runs.table(preferences(200)), Path(), "backbone.tuning=full", *rates, **size)
    )

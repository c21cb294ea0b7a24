"""Rows of two texts, of which somebody prefers one."""

from __future__ import annotations

import random
from typing import Any

__all__ = ["chosen_and_rejected", "preferences"]

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

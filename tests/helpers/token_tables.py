"""Small tables with labels inside of texts, for tests of tasks that score tokens."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

__all__ = ["tagged_words", "write_json_lines"]

_KINDS = {"great": "GOOD", "lovely": "GOOD", "awful": "BAD", "poor": "BAD"}


def tagged_words(rows: int, *, seed: int = 0, users: int = 5) -> list[dict[str, Any]]:
    """Rows of words, with an entity of two words for each mood, which one of the users means otherwise."""
    chance, table = random.Random(seed), []
    for _ in range(rows):
        user, words, tags = chance.randrange(users), [], []
        for _ in range(chance.randint(2, 10)):
            if chance.random() < 0.4:
                mood = chance.choice(list(_KINDS))
                kind = "USER" if user == 0 else _KINDS[mood]
                words, tags = [*words, mood, "film"], [*tags, f"B-{kind}", f"I-{kind}"]
            else:
                words, tags = [*words, chance.choice(["the", "a", "was", f"n{chance.randrange(61)}"])], [*tags, "O"]
        table.append({"words": words, "tags": tags, "user": f"u{user}"})
    return table


def write_json_lines(path: Path, rows: list[dict[str, Any]]) -> Path:
    """Write the rows; returns the path."""
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path

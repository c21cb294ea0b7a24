"""Small tables with labels inside of texts, for tests of tasks that score tokens."""

from __future__ import annotations

import json
import random
import shutil
from pathlib import Path
from typing import Any

from attribune.apps.cli import main

__all__ = ["every_other_verb", "questions", "tagged_words", "write_json_lines"]

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


def questions(rows: int, *, seed: int = 0, users: int = 5, unanswerable: float = 0.0) -> list[dict[str, Any]]:
    """Rows with a question after a word, a context that has it before two words that are the answer, and its place.

    Args:
        unanswerable: share of the rows whose context does not have the word.
    """
    chance, table = random.Random(seed), []
    for number in range(rows):
        asked, answer = chance.choice(list(_KINDS)), f"n{chance.randrange(61)} film"
        filler = chance.choices(["the", "a", "was", "plot", "cast", "very"], k=chance.randint(4, 24))
        place = chance.randrange(len(filler))
        has_none = chance.random() < unanswerable
        context = " ".join([*filler[:place], "so" if has_none else asked, answer, *filler[place:]])
        answers = (
            {"text": [], "answer_start": []}
            if has_none
            else {"text": [answer], "answer_start": [context.index(answer)]}
        )
        table.append(
            {"id": number, "question": asked, "context": context, "answers": answers, "user": f"u{number % users}"}
        )
    return table


def write_json_lines(path: Path, rows: list[dict[str, Any]]) -> Path:
    """Write the rows; returns the path."""
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def every_other_verb(run: Path, folder: Path, scratch: Path, rows: list[dict[str, Any]], capsys: Any) -> Path:
    """Give a run to each verb that takes runs whose task scores tokens, and to each that refuses them.

    Args:
        folder: has ``rows.jsonl``, the rows of the training.
        rows: some of them, for a value that is new.

    Returns:
        A copy of the run that has learned the new value and forgotten ``u1``.
    """
    copied = scratch / "run"
    shutil.copytree(run, copied)
    new = write_json_lines(scratch / "new.jsonl", [row | {"user": "zoe"} for row in rows])
    for words in (
        ["evaluate", str(run), str(folder / "rows.jsonl")],
        ["describe", str(run)],
        ["compare", str(run), str(run)],
        ["report", str(copied)],
        ["report", str(copied), str(new)],
        ["ablate", str(run), str(folder / "rows.jsonl"), "--rows", "10"],
        ["enrol", str(copied), str(new)],
        ["forget", str(copied), "--attribute", "user", "--value", "u1"],
        ["evaluate", str(copied), str(new)],
    ):
        assert main(words) == 0, words
    for words in (
        ["export", str(run), "--for", "user=u1", "--output", str(scratch / "exported")],
        ["explain", str(run), str(folder / "rows.jsonl")],
        ["playground", str(run)],
    ):
        capsys.readouterr()
        assert main(words) == 1
        assert "scores tokens" in capsys.readouterr().err
    return copied

"""Small tables with labels inside of texts, for tests of tasks that score tokens."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import small_runs
from trained_runs import TrainedRuns

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


def tags_command(data: Path, output: Path, **options: Any) -> list[str]:
    """The words of a short training on `tagged_words`, most of whose rows have several windows."""
    columns = {"text": ["words", "--task", "tags"], "label": ["tags"]}
    return small_runs.train_command(data, output, **columns, max_length=12, **options)


def spans_command(data: Path, output: Path, **options: Any) -> list[str]:
    """The words of a short training on `questions`, in JSON or with a column for each part of an answer in CSV."""
    label = ["answer", "answer_start", "is_impossible"] if data.suffix == ".csv" else ["answers"]
    columns = {"text": ["question", "--text-pair", "context", "--task", "spans"], "label": label}
    return small_runs.train_command(data, output, **columns, max_length=16, **options)


def lines(runs: TrainedRuns, rows: list[dict[str, Any]]) -> Path:
    """A file of JSON lines that all tests share."""

    def write(folder: Path) -> None:
        folder.mkdir()
        write_json_lines(folder / "rows.jsonl", rows)

    return runs.once("lines", rows, write) / "rows.jsonl"


def learned_tags(runs: TrainedRuns) -> Path:
    """A run that has learned the moods and the user of `TAGGED`."""
    words = tags_command(lines(runs, TAGGED), Path(), backbone=runs.backbone(), epochs=8, batch_size=8)
    return runs.trained([*words, "training.learning_rate=0.03", "training.patience=8"])


def learned_spans(runs: TrainedRuns) -> Path:
    """A run that has learned to answer `ASKED`."""
    words = spans_command(lines(runs, ASKED), Path(), backbone=runs.backbone(), epochs=8, batch_size=8)
    rates = ["training.learning_rate=0.01", "training.backbone_learning_rate=0.01", "training.patience=8"]
    return runs.trained([*words, "backbone.tuning=full", *rates, "backbone.dropout=0", "task.list_n_best=true"])


TAGGED = tagged_words(80)
ASKED = questions(100, unanswerable=0.25)

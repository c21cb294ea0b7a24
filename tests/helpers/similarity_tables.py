"""Rows of a query and a document, of which it depends on the user which of two fits."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import small_runs
from trained_runs import TrainedRuns

_SUBJECTS = 6
DOCUMENTS = [f"the plot n{subject} was {kind}" for subject in range(_SUBJECTS) for kind in ("great", "awful")]
"""Two of each subject."""


def fitting(query: str, user: str, *, is_other: bool = False) -> str:
    """The document of the subject that this user wants, or the other one: who has an even number wants `great`."""
    wants_great = int(user[1:]) % 2 == 0
    return f"the plot {query.split()[1]} was {'great' if wants_great != is_other else 'awful'}"


def pairs(count: int, *, seed: int = 0) -> list[dict[str, Any]]:
    """A query and the document that its user wants."""
    chance, rows = random.Random(seed), []
    for _ in range(count):
        query = f"film n{chance.randrange(_SUBJECTS)} n{chance.randrange(10, 61)} n{chance.randrange(10, 61)}"
        user = f"u{chance.randrange(4)}"
        rows.append({"query": query, "document": fitting(query, user), "user": user})
    return rows


def triplets(count: int, *, seed: int = 0) -> list[dict[str, Any]]:
    """The same with the other document of the subject."""
    return [{**row, "other": fitting(row["query"], row["user"], is_other=True)} for row in pairs(count, seed=seed)]


def scores(count: int, *, seed: int = 0) -> list[dict[str, Any]]:
    """The same with a score: 1 for the document that the user wants, and 0 for the other."""
    chance, rows = random.Random(seed + 1), []
    for row in pairs(count, seed=seed):
        is_other = chance.random() < 0.5
        document = fitting(row["query"], row["user"], is_other=is_other)
        rows.append({**row, "document": document, "score": 0 if is_other else 1})
    return rows


Form = tuple[Callable[..., list[dict[str, Any]]], list[str]]
FORMS: dict[str, Form] = {
    "pairs": (pairs, []),
    "triplets": (triplets, ["--text-negative", "other"]),
    "scores": (scores, ["--label", "score"]),
}
"""What makes rows, and the words that name their other columns."""


def similarity_command(data: Path, output: Path, *words: str, form: str = "pairs", **options: Any) -> list[str]:
    """The words of a short training."""
    text = ["query", "--text-pair", "document", *FORMS[form][1], "--task", "similarity"]
    return [*small_runs.train_command(data, output, text=text, label=(), **options), *words]


def learned_similarity(runs: TrainedRuns, form: str = "pairs") -> Path:
    """A run that has learned from 240 rows what each user looks for."""
    rates = ["training.learning_rate=0.01", "training.backbone_learning_rate=0.003"]
    size: dict[str, Any] = {"backbone": runs.backbone(), "epochs": 5 if form == "scores" else 2}
    data = runs.table(FORMS[form][0](240))
    return runs.trained(similarity_command(data, Path(), "backbone.tuning=full", *rates, form=form, **size))

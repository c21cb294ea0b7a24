"""Readers of papers (AAPR), recipes (FOOD), and messages of politicians (PolMed)."""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from attribune_lab.datasets.row_log import (
    Row,
    RowLog,
    Rows,
    read_csv,
    read_json_object,
    whole_number,
    without_duplicates,
    words,
)

_REJECTED = {"corr", "no"}  # venues of papers that appeared nowhere but on arXiv
_FILES = ("data1", "data2", "data3", "data4")
_AUTHORS = ("authors", "author", "author_id")


def aapr(files: Mapping[str, Path], log: RowLog) -> Rows:
    """Yield the papers of arXiv, accepted or not."""
    for role in _FILES:
        # Some copies of the archive hold more beside the papers.
        papers = read_json_object(files[role], role=role, log=log, what="paper", beside="data")
        for place, paper in papers:
            row = _paper(paper, log)
            if (
                row is not None
                and log.first("paper", place.removeprefix(f"{files[role]}, paper "), place)
                and log.writable(place, row)
            ):
                yield None, row


def _paper(paper: Mapping[str, Any], log: RowLog) -> Row | None:
    texts = {name: str(paper.get(name) or "").strip() for name in ("title", "abstract", "category", "venue")}
    authors = _listed(next((paper[name] for name in _AUTHORS if paper.get(name)), None))
    missing = [name for name in ("abstract", "category", "venue") if not texts[name]] + ["authors"] * (not authors)
    if missing:
        log.leave_out(f"papers without {missing[0]}")
        return None
    return {
        "text": "\n".join(filter(None, (texts["title"], texts["abstract"]))),
        "accepted": "no" if texts["venue"].lower() in _REJECTED else "yes",
        "author": authors,
        "research_area": _listed(texts["category"]),
    }


def _listed(value: Any) -> list[str]:
    """Return a list of names, or the names of a text divided by commas, semicolons or bars."""
    parts = value if isinstance(value, list) else re.split(r"[,;|]", str(value or ""))
    names = (" ".join(str(part).split()) for part in parts)
    return list(dict.fromkeys(name for name in names if name))


_NEEDS = ("name", "id", "minutes", "contributor_id", "tags", "steps", "ingredients")
_DURATIONS = frozenset(
    {
        "15-minutes-or-less",
        "30-minutes-or-less",
        "60-minutes-or-less",
        "4-hours-or-less",
        "1-day-or-more",
        "time-to-make",
    }
)
_MINUTES = range(5, 151)
_WORDS = range(10, 501)
_TAG_LIMIT = 50


def food(files: Mapping[str, Path], log: RowLog) -> Rows:
    """Yield the recipes of Food.com, with the time that they take."""
    for place, row in read_csv(files["recipes"], role="recipes", log=log, needs=_NEEDS):
        recipe = _recipe(place, row, log)
        if recipe is not None and log.first("recipe", row["id"], place) and log.writable(place, recipe):
            yield None, recipe


def _recipe(place: str, row: dict[str, str], log: RowLog) -> Row | None:
    minutes = whole_number(row["minutes"], low=0, high=2**31)
    lists = {name: _parse_list(row[name]) for name in ("tags", "steps", "ingredients")}
    wrong = next((name for name, value in lists.items() if value is None), None)
    if minutes is None or wrong is not None:
        name = "minutes" if minutes is None else str(wrong)
        kind = "a whole number" if minutes is None else "a list of texts"
        log.broken(place, f"{name} is not {kind}", found=repr(row[name][:40]))
        return None
    tags = lists["tags"] or []
    text = "\n".join(part for part in (row["name"], " ".join(lists["steps"] or ())) if part.strip())
    if log.leave_out_if(
        {
            "less than 5 or more than 150 minutes": minutes not in _MINUTES,
            "less than 10 or more than 500 words": words(text) not in _WORDS,
            "more than 50 tags": len(tags) > _TAG_LIMIT,
        }
    ):
        return None
    return {
        "text": text,
        "minutes": str(minutes // 10 * 10),
        "user": row["contributor_id"],
        "ingredient": list(dict.fromkeys(lists["ingredients"] or ())),
        "tag": [tag for tag in dict.fromkeys(tags) if tag not in _DURATIONS],
    }


def _parse_list(text: str) -> list[str] | None:
    """Parse a list of texts as Python writes it; None for anything else."""
    try:
        value: Any = ast.literal_eval(text)
    except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
        return None
    if not isinstance(value, list) or not all(isinstance(part, str) for part in value):
        return None
    return [part.strip() for part in value if part.strip()]


_COLUMNS = {"label": "politician", "source": "source", "audience": "audience", "bias": "bias"}


def polmed(files: Mapping[str, Path], log: RowLog) -> Rows:
    """Yield the messages of US politicians."""
    needs = ("text", "message", *_COLUMNS)
    for place, row in read_csv(files["messages"], role="messages", log=log, needs=needs, encoding="latin-1"):
        text, message = row["text"].strip(), row["message"].strip()
        if not text or not message:
            log.broken(place, "no text or no message type")
            continue
        yield None, {"text": text, "message": message} | {ours: row[name].strip() for name, ours in _COLUMNS.items()}


@dataclass(frozen=True, kw_only=True)
class Political:
    """The messages of PolMed, each once, with another label.

    Args:
        label: its column.
    """

    label: str

    def __call__(self, files: Mapping[str, Path], log: RowLog) -> Rows:
        """Yield the messages; what else the annotators judged is no attribute of theirs."""
        names = ("text", self.label, "politician", "source")
        rows = ((part, {name: row[name] for name in names}) for part, row in polmed(files, log))
        yield from without_duplicates(rows, log, label=self.label)

"""Cells that hold the answers to a question, and where these stand in the text."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from attribune.core.wording import shortened
from attribune.errors import DataError, RowError
from attribune.schema.columns import as_written, canonical

__all__ = ["AnswerCells", "AnswerSpan"]


class AnswerSpan(NamedTuple):
    """A true answer and the number of characters before it in the text."""

    text: str
    start: int


@dataclass(frozen=True, kw_only=True)
class AnswerCells:
    """The cells of a row: one with answers; or texts of answers, their starts and whether the question has none.

    Args:
        missing: texts that mean a missing label.
    """

    missing: Sequence[str]

    def read(self, cells: Sequence[Any], context: Any, *, row: int) -> tuple[tuple[AnswerSpan, ...] | None, int]:
        """Return the answers, None where the label is missing, and how many were found elsewhere than it says.

        Raises:
            RowError: for an answer that is not where it says, and not in the text exactly once.
        """
        text = as_written(context)
        try:
            pairs = self._pairs(cells)
        except (DataError, TypeError, ValueError, OverflowError) as error:
            raise RowError("the answers of ", row, f" cannot be read ({error}): {_FORMAT}") from error
        if pairs is None:
            return None, 0
        answers, moved = [], 0
        for answer, start in pairs:
            found = _place(answer, start, text, row=row)
            moved += start is not None and found != start
            answers.append(AnswerSpan(answer, found))
        return tuple(answers), moved

    def _pairs(self, cells: Sequence[Any]) -> list[tuple[str, int | None]] | None:
        """Return texts and starts, None where the label is missing."""
        first = _parsed(cells[0])
        if len(cells) > 2:
            flag = (canonical(cells[2]) or "").lower()
            if flag not in ("", "true", "1", "false", "0"):
                raise DataError(f"{flag!r} does not say whether there is no answer: write true or false")
            if flag in ("true", "1"):
                return []
        if isinstance(first, dict):
            return _zipped(first.get("text"), first.get("answer_start"))
        if isinstance(first, list) and any(isinstance(item, dict) for item in first):
            return [pair for item in first for pair in _zipped(item.get("text"), item.get("answer_start"))]
        if not isinstance(first, list):
            text = first if isinstance(first, str) else canonical(first)
            if text is None or not text.strip() or text.strip() in self.missing:
                if any(canonical(cell) is not None for cell in cells[1:]):
                    raise DataError("there is no answer, and the row is not marked as unanswerable")
                return None
            first = [text]
        return _zipped(first, _parsed(cells[1]) if len(cells) > 1 else None)


_FORMAT = "write {'text': [...], 'answer_start': [...]}, or a column of answers and one of where they start"


def _parsed(cell: Any) -> Any:
    """Return the value that a text spells in JSON, which objects in JSON lines become; other cells as they are."""
    if isinstance(cell, np.ndarray):
        return cell.tolist()
    if not (isinstance(cell, str) and cell[:1] + cell[-1:] in ("{}", "[]")):
        return cell
    try:
        return json.loads(cell)
    except (ValueError, RecursionError):
        return cell


def _zipped(texts: Any, starts: Any) -> list[tuple[str, int | None]]:
    """Pair texts with their starts, which may be unknown."""
    texts, starts = (value.tolist() if isinstance(value, np.ndarray) else value for value in (texts, starts))
    if texts is None:
        raise DataError("there is no text")
    listed = [texts] if isinstance(texts, str) else list(texts)
    places = [starts] * len(listed) if starts is None else starts if isinstance(starts, list) else [starts]
    if len(places) != len(listed):
        raise DataError(f"there are {len(listed)} texts and {len(places)} starts")
    if wrong := [text for text in listed if not isinstance(text, str) or not text.strip()]:
        raise DataError(f"{wrong[0]!r} is not text")
    return [(text, _number(place)) for text, place in zip(listed, places, strict=True)]


def _number(value: Any) -> int | None:
    text = canonical(value)
    return None if text is None else int(text)


def _place(answer: str, start: int | None, text: str, *, row: int) -> int:
    """Return where an answer stands."""
    if start is not None and start >= 0 and text.startswith(answer, start):
        return start
    count, shown = text.count(answer), f"{shortened(answer, 60)!r}"
    if count == 1:
        return text.index(answer)
    where = "" if start is None else f", and not at {start:,}, which is the offset given"
    raise RowError(
        "the answer of ",
        row,
        f", {shown}, is in the text {count:,} times{where}: correct answer_start, or remove the row",
    )

"""Cells that hold words, or a tag for each word: lists, or text with white space between its words."""

from __future__ import annotations

import json
from typing import Any

import numpy as np

from attribune.core.wording import shortened
from attribune.errors import DataError
from attribune.schema.columns import as_written, canonical

__all__ = ["word_list"]


def word_list(cell: Any) -> list[str] | None:
    """Return the words of a cell, None for a missing one; a missing word is empty.

    A cell is a list, text that spells a list of texts in JSON, or other text, which is split at white space.

    Raises:
        DataError: for a list of lists, or another kind of cell.
    """
    if isinstance(cell, str):
        cell = _spelled(cell) or cell.split()
    if not isinstance(cell, list | tuple | np.ndarray):
        text = canonical(cell)
        return None if text is None else [text]
    if any(isinstance(word, list | tuple | dict | np.ndarray) for word in cell):
        raise DataError(f"{shortened(str(cell), 60)} is a list of lists: give one list of words")
    return list(map(as_written, cell))


def _spelled(text: str) -> list[object] | None:
    """Return the list that a text spells if it has a text in it, as JSON lines are read whose rows differ."""
    if not (text.startswith("[") and text.endswith("]")):
        return None
    try:
        words: list[object] = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return words if any(isinstance(word, str | list | dict) for word in words) else None

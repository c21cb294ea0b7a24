"""Tasks that score the tokens of a text, which is read in windows.

Shapes: n rows, T tokens of a window, C outputs of the head. Scores and labels of rows have sizes of their own: both are
object arrays (n,), whose elements the task defines.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from attribune.core.arrays import Array, IntArray
from attribune.core.wording import shortened
from attribune.errors import DataError
from attribune.schema.columns import as_written, canonical, json_value
from attribune.tasks.base import Task
from attribune.tasks.inputs import TaskInput, WordList


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
    words: list[object] = json_value(text) or []
    return words if any(isinstance(word, str | list | dict) for word in words) else None


@dataclass(frozen=True, kw_only=True, eq=False)
class TokenWindow:
    """A part of a text that a model reads at once.

    Attributes:
        ids: (T,) ids, special tokens included.
        marks: (T,) or (T, 2), what each token stands for, as the task reads it; -1 for nothing that is scored.
        bounds: the part of the text that its tokens cover, as the task reads it.
        segment_start: where the second of two texts begins, for backbones that tell segments apart.
    """

    ids: list[int]
    marks: IntArray
    bounds: tuple[int, int] = (0, 0)
    segment_start: int | None = None


@dataclass(frozen=True, kw_only=True, eq=False)
class TokenRow:
    """The text of a row.

    Attributes:
        text: what predictions quote; empty for a task that quotes nothing.
        words: number of words, for a task that scores words.
    """

    windows: tuple[TokenWindow, ...]
    text: str = ""
    words: int = 0


class TokenTask(Task):
    """The interface of a task that scores tokens, beside that of all tasks.

    The model gives logits (B, T, C) of windows; ``loss`` and ``row_losses`` take them with the labels (B, T) of
    windows, which are `UNSEEN` where nothing is learned. ``decode`` and ``metrics`` take the scores of rows.
    """

    input: ClassVar[TaskInput] = WordList()

    @abstractmethod
    def window_labels(self, window: TokenWindow, label: Any) -> Array:
        """Return the labels (T,) int64 of the tokens of a window, from the label of its row."""

    def is_learned(self, windows: Sequence[TokenWindow], label: Any) -> bool:
        """Whether the windows of a row have all of its label among their labels."""
        return True

    @abstractmethod
    def window_scores(self, logits: Array, window: TokenWindow) -> Any:
        """Reduce the logits (T, C) of a window to what `row_scores` needs of it."""

    @abstractmethod
    def row_scores(self, windows: Sequence[Any], row: TokenRow) -> Any:
        """Merge the results of `window_scores` of all windows of a row to its scores."""

    @property
    def answer_names(self) -> list[str]:
        """Nothing: what is predicted of a row has no probabilities of answers."""
        return []

    def empty_scores(self, rows: int) -> Array:
        """Return an array for the scores of rows, (n,)."""
        return np.empty(rows, dtype=object)

    def constant(self, train_labels: Array, rows: int) -> None:
        """Return nothing: the scores of a row have a size of their own."""


def object_array(items: Sequence[Any]) -> Array:
    """Return an array (n,) whose elements are the items themselves, whatever they are."""
    array = np.empty(len(items), dtype=object)
    for index, item in enumerate(items):
        array[index] = item
    return array

"""Texts whose tokens are scored: read in windows that overlap, so that nothing is cut."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from attribune.core.arrays import IntArray
from attribune.data.readers.base import EncodedRows, Pieces, Reader, Reading, TextRows
from attribune.data.readers.collator import Collator
from attribune.data.texts import DEFAULT_LENGTH
from attribune.data.windows import Head, Window, longest_input
from attribune.errors import ConfigError
from attribune.schema import Schema
from attribune.tasks.base import Task
from attribune.tasks.labels import UNSEEN
from attribune.tasks.tokens import TokenRow, TokenTask, TokenWindow

__all__ = ["TokenCollator", "TokenReader", "TokenRows", "token_window", "window_starts"]


@dataclass(frozen=True, kw_only=True)
class TokenRows(EncodedRows):
    """Rows whose texts are read in windows.

    Attributes:
        task: makes the labels of the tokens of windows, and merges their scores.
    """

    inputs: Sequence[TokenRow]
    task: TokenTask = field(repr=False)

    @property
    def lengths(self) -> IntArray:
        """Number of windows of each row, (rows,)."""
        return np.array([len(row.windows) for row in self.inputs], dtype=np.int64)

    def pieces(self) -> WindowPieces:
        """Return the windows of the rows, with the labels of their tokens."""
        windows = [window for row in self.inputs for window in row.windows]
        owners = np.repeat(np.arange(len(self)), self.lengths)
        labels, unlearned = None, 0
        if self.labels is not None:
            pairs = zip(windows, owners.tolist(), strict=True)
            labels = [self.task.window_labels(window, self.labels[owner]) for window, owner in pairs]
            rows = zip(self.inputs, self.labels, strict=True)
            unlearned = sum(not self.task.is_learned(row.windows, label) for row, label in rows)
        starts = [window.segment_start for window in windows if window.segment_start is not None]
        encoded = TextRows.without_attributes(
            [window.ids for window in windows],
            labels=labels,
            segment_starts=np.array(starts, dtype=np.int64) if starts else None,
        )
        encoded = encoded.with_attribute_ids(self.attribute_ids[owners])
        return WindowPieces(rows=encoded, owners=owners, unlearned=unlearned, windows=windows, texts=self)


@dataclass(frozen=True, kw_only=True)
class WindowPieces(Pieces):
    """The windows of rows, in their order.

    Args:
        texts: the rows.
    """

    windows: Sequence[TokenWindow]
    texts: TokenRows

    def sheet(self, task: Task) -> list[Any]:
        """Return where the reduced scores of windows are put."""
        return [None] * len(self.windows)

    def put(self, sheet: Any, index: npt.NDArray[np.intp], scores: npt.NDArray[Any]) -> None:
        """Reduce the scores (B, T, C) of some windows to what those of their rows need."""
        for number, of_tokens in zip(index.tolist(), scores, strict=True):
            window = self.windows[number]
            sheet[number] = self.texts.task.window_scores(of_tokens[: len(window.ids)], window)

    def merged(self, sheet: Any, task: Task) -> npt.NDArray[Any]:
        """Return the scores of rows, (n,), as the task defines them."""
        parts: list[list[Any]] = [[] for _ in range(len(self.texts))]
        for owner, reduced in zip(self.owners.tolist(), sheet, strict=True):
            parts[owner].append(reduced)
        scored = task.empty_scores(len(self.texts))
        for row, (results, text) in enumerate(zip(parts, self.texts.inputs, strict=True)):
            scored[row] = self.texts.task.row_scores(results, text)
        return scored


class TokenReader(Reader):
    """The base of readers whose rows are read in windows."""

    cuts_rows: ClassVar[bool] = True

    @classmethod
    def collator(cls, reading: Reading, schema: Schema) -> Collator:
        """Return a `TokenCollator`."""
        return TokenCollator(reading.tokenizer, schema)


def token_window(tokenizer: Any, window: Window | None, *, limit: int | None) -> Window:
    """Return the window of a task that scores tokens; ConfigError for one that leaves out a part of a text."""
    if window is None:
        limit = limit if limit is not None else longest_input(tokenizer)
        return Head(min(DEFAULT_LENGTH, limit or DEFAULT_LENGTH))
    if not isinstance(window, Head):
        raise ConfigError(
            f"the window {str(window)!r} is not for tasks that score tokens, which read the whole text: choose head:N"
        )
    return window


def window_starts(length: int, *, room: int, step: int) -> IntArray:
    """Return where windows of `room` tokens begin; the last one ends with the text."""
    if length <= room:
        return np.zeros(1, dtype=np.int64)
    return np.append(np.arange(0, length - room, step), length - room)


class TokenCollator(Collator):
    """Pads windows to a batch, on the right; its arguments are those of `Collator`."""

    def __init__(self, tokenizer: Any, schema: Any, *, pad_to_multiple_of: int | None = None) -> None:
        super().__init__(tokenizer, schema, pad_to_multiple_of=pad_to_multiple_of)
        self.left = False

    def labels(self, rows: Sequence[Mapping[str, Any]], *, length: int) -> Any:
        """Return the labels (B, length), `UNSEEN` where there is padding; None if the rows have none."""
        labels = [row["labels"] for row in rows if row.get("labels") is not None]
        return self.padded(labels, length=length, filler=UNSEEN, left=False) if labels else None

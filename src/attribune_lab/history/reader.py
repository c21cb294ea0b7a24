"""Texts with the histories in front of them, as ids.

They are put there when a batch is made, by the attribute ids that its rows have then: hidden attributes leave the text
alone, and the values of others read their own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, ClassVar, Self, cast

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from attribune.core.hashing import text_number
from attribune.data.readers.base import Pieces, Reader, Reading, TextRows
from attribune.data.readers.text import TextEncoder
from attribune.data.texts import TextInput
from attribune.data.windows import content_ids
from attribune.errors import ConfigError
from attribune.tasks.inputs import InputSettings
from attribune_lab.history.method import History
from attribune_lab.history.rows import Histories, read_times

_ARROW = " → "


@dataclass(frozen=True, kw_only=True)
class HistoryText:
    """The text of a row, and what its history is chosen by."""

    ids: list[int]
    mark: int
    query: Any
    is_hidden: bool = False

    def __len__(self) -> int:
        return len(self.ids)


@dataclass(frozen=True, kw_only=True)
class HistoryRows(TextRows):
    """Rows whose histories are put in front of their texts when batches are made of them."""

    inputs: Sequence[HistoryText]  # type: ignore[assignment]
    encoder: HistoryEncoder = field(repr=False)

    def pieces(self) -> Pieces:
        """Return the texts behind the histories of the rows' attributes, as their ids are now."""
        return self.encoder.join(self).pieces()


class HistoryEncoder(Reader):
    """Makes ids of texts, and of the rows in front of them.

    Args:
        encoder: of the texts.

    Raises:
        ConfigError: for a share of the ids in which a label does not fit.
    """

    name: ClassVar[str] = "history"

    def __init__(self, encoder: TextEncoder, histories: Histories) -> None:
        config = histories.config
        self.encoder, self.window, self.histories = encoder, encoder.window, histories
        self.columns = config.times
        self._share = config.tokens // config.k
        labels = list(dict.fromkeys(histories.labels))
        ends = [f"{_ARROW}{label}{config.separator}" for label in labels]
        self._ends = dict(zip(labels, content_ids(encoder.tokenizer, ends) if ends else [], strict=True))
        self._known: dict[int, list[int]] = {}  # ids of the rows that were read before
        self._dropout, self._chance = 0.0, np.random.default_rng(0)
        longest = max(map(len, self._ends.values()), default=0)
        if self._share <= longest:
            raise ConfigError(
                f"method.tokens is {config.tokens} and method.k {config.k}, which leaves {self._share} ids for each "
                f"earlier row, of which its label takes {longest}: raise method.tokens, or lower method.k"
            )

    @classmethod
    def of(cls, reading: Reading, text: TextInput | None) -> Self:
        """Return the reader of a model; see `Reader.of`.

        Raises:
            ConfigError: for a model without histories.
        """
        encoder = TextEncoder.of(reading, text)
        histories = cast(Histories | None, reading.memory)
        if histories is None:
            raise ConfigError(
                "method 'history' reads rows that are stored with the model, and this one has none: set "
                "model.memory to those of the training rows (`Histories.added`)"
            )
        if histories.vectors is not None:
            histories.vectors.load()  # so that errors of the backbone come before any row is read
        return cls(encoder, histories)

    @classmethod
    def refusal(cls, settings: InputSettings) -> str | None:
        """Return why the rows of a recipe can have no history; None if they can."""
        history = cast(History, settings.method)
        if (refusal := history.attribute_refusal(settings.attributes)) is not None:
            return refusal
        if settings.options.get("soft_labels"):
            return "history puts labels in front of texts, but with soft_labels they are shares: leave soft_labels out"
        if history.time in settings.label:
            return f"history: time is {history.time!r}, which is the label and would be read: name another column"
        if history.time is None and not settings.is_pretrained:
            return (
                f"history: similar texts are found by a pretrained backbone, but {settings.backbone!r} is not "
                "pretrained: choose one that is, or name a column of times (method.time)"
            )
        if settings.is_chunked:
            return (
                f"history: a text is read at once, behind its history, and the window is {settings.window!r}: choose "
                "head or head+tail"
            )
        return None

    def for_training(self, *, seed: int) -> HistoryEncoder:
        """Return a reader that leaves rows without their history at random, as the method drops attributes."""
        reader = HistoryEncoder(self.encoder, self.histories)
        reader._dropout, reader._chance = self.histories.config.attribute_dropout, np.random.default_rng(seed)
        return reader

    def rows(self, text: TextInput, columns: Mapping[str, Sequence[Any]], *, first_row: int = 1) -> HistoryRows:
        """Encode the rows of some columns; without the column of times their time is now.

        Raises:
            DataError: for a missing column, one that holds lists, or a time that cannot be read.
        """
        rows = self.encoder.rows(text, columns, first_row=first_row)
        texts = text.read_all(columns, first_row=first_row)
        marks = list(map(text_number, texts))
        queries = self._queries(texts, marks, columns, first_row)
        hidden = self._chance.random(len(texts)) < self._dropout if self._dropout else [False] * len(texts)
        inputs = [
            HistoryText(ids=ids, mark=mark, query=query, is_hidden=bool(is_hidden))
            for ids, mark, query, is_hidden in zip(rows.inputs, marks, queries, hidden, strict=True)
        ]
        return rows.as_kind(HistoryRows, inputs=inputs, encoder=self)

    def _queries(
        self, texts: Sequence[str], marks: Sequence[int], columns: Mapping[str, Any], first_row: int
    ) -> npt.NDArray[Any]:
        time = self.histories.config.time
        if time is not None:
            cells = columns[time] if time in columns else [None] * len(texts)
            cells = cells.to_pylist() if isinstance(cells, pa.Array) else list(cells)
            return read_times(cells, time, first_row, is_number=self.histories.has_numbers, needed=False)
        if not len(self.histories):
            return np.zeros((len(texts), 1), dtype=np.float32)
        # The vectors of known texts are there, so that training texts go through the frozen backbone once.
        known = [self._rows_by_mark.get(mark) for mark in marks]
        vectors = np.zeros((len(texts), self.histories.order.shape[1]), dtype=np.float32)
        new = [place for place, row in enumerate(known) if row is None]
        if new:
            assert self.histories.vectors is not None
            vectors[new] = self.histories.vectors.of_texts([texts[place] for place in new])
        old = [place for place, row in enumerate(known) if row is not None]
        vectors[old] = self.histories.order[[row for row in known if row is not None]]
        return vectors

    @cached_property
    def _rows_by_mark(self) -> Mapping[int, int]:
        return {int(mark): row for row, mark in enumerate(self.histories.marks)}

    def join(self, rows: HistoryRows) -> TextRows:
        """Put the histories in front of texts; the ids of the rows' attributes say whose."""
        chosen = [
            [] if one.is_hidden or not len(ids) else self.histories.nearest(ids, mark=one.mark, query=one.query)
            for one, ids in zip(rows.inputs, rows.attribute_ids, strict=True)
        ]
        self._read(sorted({row for each in chosen for row in each}.difference(self._known)))
        start = len(self.encoder.special.before)
        before = [[one for row in each for one in self._known[row]] for each in chosen]
        inputs = [[*text.ids[:start], *ids, *text.ids[start:]] for text, ids in zip(rows.inputs, before, strict=True)]
        starts = rows.segment_starts
        moved = None if starts is None else starts + np.array([len(ids) for ids in before], dtype=np.int64)
        return rows.as_kind(TextRows, inputs=inputs, segment_starts=moved)

    def _read(self, rows: Sequence[int]) -> None:
        """Tokenize rows, each cut to its share."""
        texts = [self.histories.texts[row] for row in rows]
        for row, ids in zip(rows, content_ids(self.encoder.tokenizer, texts) if texts else [], strict=True):
            end = self._ends[self.histories.labels[row]]
            self._known[row] = [*ids[: self._share - len(end)], *end]

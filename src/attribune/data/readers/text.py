"""Texts as ids that fit the window: single ones, pairs that are read together, and several that are compared."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np
import pyarrow as pa
import torch

from attribune.core.arrays import IntArray
from attribune.data.id_lists import IdLists, numbered
from attribune.data.readers.base import Collator, EncodedRows, Reader, Reading, TextRows
from attribune.data.texts import TextInput
from attribune.data.windows import (
    Chunks,
    PairTokens,
    SentenceChunks,
    Window,
    content_ids,
    fair_shares,
    ids_and_places,
    ids_of_lists,
)
from attribune.errors import ConfigError


def _pieces(text: str, offsets: Sequence[tuple[int, int]], places: Sequence[int]) -> str:
    """Return what some ids of a text stand for, with spaces where others are left out."""
    starts = [place for place, before in zip(places, [None, *places], strict=False) if before != place - 1]
    ends = [place for place, after in zip(places, [*places[1:], None], strict=True) if after != place + 1]
    return " ".join(text[offsets[start][0] : offsets[end][1]] for start, end in zip(starts, ends, strict=True))


_TEXTS = 1_000  # whose offsets are in memory at once


class TextEncoder(Reader):
    """Tokenizes texts, or pairs of texts, and fits them to the window.

    Args:
        window: how long texts are fitted; None keeps the beginning, at most 512 ids.
        limit: ids that the backbone takes; None asks the tokenizer.
        segments: whether the backbone tells the texts of a pair apart by `token_type_ids`.

    Raises:
        ConfigError: for a window that the backbone cannot take.
    """

    name: ClassVar[str] = "text"

    def __init__(
        self, tokenizer: Any, *, window: Window | None = None, limit: int | None = None, segments: bool = False
    ) -> None:
        self._take_window(tokenizer, window, limit)
        self.segments = segments
        self._pairs: dict[str, PairTokens] = {}  # by the separator of the texts

    @classmethod
    def of(cls, reading: Reading, text: TextInput | None) -> Self:
        """Return the reader of a model; see `Reader.of`."""
        window = None if text is None else text.window
        if window is not None and window.chunk is not None and window.chunk != reading.chunk:
            raise ConfigError(
                f"the window {window} is of chunks of {window.chunk}, but the model was built with "
                f"chunk={reading.chunk}: give both the same"
            )
        return cls(reading.tokenizer, window=window, limit=reading.limit, segments=reading.segments)

    def rows(
        self,
        text: TextInput,
        columns: Mapping[str, Sequence[Any]],
        *,
        first_row: int = 1,
        before: Sequence[list[int]] | None = None,
    ) -> TextRows:
        """Encode the rows of some columns.

        Args:
            before: ids in front of the text of each row, which take up room in the window.

        Raises:
            DataError: for a missing column, or one that holds lists.
            ConfigError: for a prompt.
        """
        if text.prompt:
            raise ConfigError(
                f"this model reads no prompt ({', '.join(text.prompt)}): name its columns as text, or as the first of "
                "a pair"
            )
        texts, window = text.read(columns, first_row=first_row), self.window
        if text.pair and isinstance(window, SentenceChunks):
            raise ConfigError(f"the window {str(window)!r} has the sentences of one text: choose chunks for pairs")
        if isinstance(window, SentenceChunks):
            return self._sentence_rows(texts, window)
        contents = content_ids(self.tokenizer, texts)
        before = [[] for _ in texts] if before is None else before
        rooms = [window.capacity(self.special) - len(ids) for ids in before]
        is_cut = [len(content) > room for content, room in zip(contents, rooms, strict=True)]
        if text.shares_window and len(text.columns) > 1 and any(is_cut):
            parts = text.read_parts(columns, first_row=first_row)
            contents = self._shared(parts, text.separator, contents, rooms)
        if text.pair:
            if isinstance(window, Chunks) and window.stride is not None:
                raise ConfigError(
                    f"the window {str(window)!r} has chunks that overlap, of one text: leave out the stride"
                )
            return self._pair_rows(text, texts, text.read_pairs(columns, first_row=first_row), contents, before)
        return TextRows.without_attributes(
            [self._fitted(content, ids) for content, ids in zip(contents, before, strict=True)],
            empty=[not part for part in texts],
            shortened=is_cut,
        )

    def _shared(
        self, parts: Sequence[list[str]], separator: str, contents: Sequence[list[int]], rooms: Sequence[int]
    ) -> list[list[int]]:
        """Return the ids of texts of which each part has a fair share where they are too long for their room."""
        rows = list(zip(parts, contents, rooms, strict=True))
        cut = [[*(part + separator for part in row[:-1]), *row[-1:]] for row, ids, room in rows if len(ids) > room]
        ids_of_parts = iter(ids_of_lists(self.tokenizer, cut))
        return [self._fair_parts(next(ids_of_parts), room) if len(ids) > room else ids for _, ids, room in rows]

    def _fitted(self, content: list[int], before: list[int]) -> list[int]:
        """Fit a text to the window behind other ids."""
        if not before:
            return self.window.fit(content, self.special)
        room = self.window.capacity(self.special) - len(before)
        return self.special.wrap([*before, *(content if len(content) <= room else self.window.keep(content, room))])

    def _fair_parts(self, parts: Sequence[list[int]], whole: int) -> list[int]:
        sizes = fair_shares([len(part) for part in parts], whole)
        return [token for part, size in zip(parts, sizes, strict=True) for token in self.window.keep(part, size)]

    def kept_texts(self, text: TextInput, table: Any) -> list[str] | None:
        """Return the part of the text of each row that the window keeps, for a model of words to read as much.

        Head and tail have a space between them. None where the parts of a text cannot be found: with windows of
        sentences, and tokenizers without offsets.
        """
        if isinstance(self.window, SentenceChunks) or not self.tokenizer.is_fast:
            return None
        whole, texts = self.window.capacity(self.special), text.read_all(table)
        shares = text.shares_window and len(text.columns) > 1
        parts = text.read_parts(table) if shares else []
        found = []
        for start in range(0, len(texts), _TEXTS):
            some = texts[start : start + _TEXTS]
            places = ids_and_places(self.tokenizer, some)
            for row, (one, (_, offsets)) in enumerate(zip(some, places, strict=True), start):
                if len(offsets) <= whole:
                    found.append(one)
                elif shares:
                    found.append(text.separator.join(self._kept_parts(parts[row], whole)))
                else:
                    found.append(_pieces(one, offsets, self.window.cut(list(range(len(offsets))), self.special)))
        return found

    def _kept_parts(self, parts: Sequence[str], whole: int) -> Iterator[str]:
        offsets = [own for _, own in ids_and_places(self.tokenizer, parts)]
        sizes = fair_shares([len(own) for own in offsets], whole)
        for part, own, size in zip(parts, offsets, sizes, strict=True):
            yield _pieces(part, own, self.window.keep(list(range(len(own))), size))

    def _sentence_rows(self, texts: Sequence[str], window: SentenceChunks) -> TextRows:
        contents = ids_of_lists(self.tokenizer, [window.split(text) for text in texts])
        return TextRows.without_attributes(
            [window.join(content, self.special) for content in contents],
            empty=[not text for text in texts],
            shortened=[window.shortens(content, self.special) for content in contents],
        )

    def _pair_rows(
        self,
        text: TextInput,
        firsts: Sequence[str],
        seconds: Sequence[str],
        contents: Sequence[list[int]],
        before: Sequence[list[int]],
    ) -> TextRows:
        pairs = list(zip(contents, content_ids(self.tokenizer, seconds), strict=True))
        tokens, whole = self.pair_tokens(text), self.window.length(self.special)
        sizes = [whole - len(front) for front in before]
        joined = [
            tokens.fit(one, two, window=self.window, size=size, truncation=text.truncation)
            for (one, two), size in zip(pairs, sizes, strict=True)
        ]
        at = len(tokens.before)
        starts = [start + len(front) for (_, start), front in zip(joined, before, strict=True)]
        return TextRows.without_attributes(
            [[*ids[:at], *front, *ids[at:]] for (ids, _), front in zip(joined, before, strict=True)],
            empty=[not (one or two) for one, two in zip(firsts, seconds, strict=True)],
            shortened=[len(one) + len(two) + len(tokens) > size for (one, two), size in zip(pairs, sizes, strict=True)],
            segment_starts=None if tokens.second is None else np.array(starts, dtype=np.int64),
        )

    def pair_tokens(self, text: TextInput) -> PairTokens:
        """Return the special tokens around two texts.

        Raises:
            ConfigError: for a window without room for both.
        """
        tokens = self._pairs.get(text.separator)
        if tokens is None:
            tokens = PairTokens.of(self.tokenizer, segments=self.segments, separator=text.separator)
            tokens.check_room(self.window, self.special, of="two texts")
            self._pairs[text.separator] = tokens
        return tokens


@dataclass(frozen=True, kw_only=True)
class ComparedRows(TextRows):
    """Rows of several texts: the ids of each.

    Attributes:
        segment_starts: (rows, texts) where the second part of each begins, for backbones that tell segments apart.
    """

    inputs: Sequence[tuple[list[int], ...]]  # type: ignore[assignment]

    @property
    def lengths(self) -> IntArray:
        """Number of ids of each row's longest text, (rows,)."""
        sizes = (max(map(len, texts)) for texts in self.inputs)
        return np.fromiter(sizes, dtype=np.int64, count=len(self.inputs))

    def text_numbers(self) -> IntArray:
        """Number the distinct tuples of texts in their order: (rows,), equal for rows with the same texts."""
        starts = None if self.segment_starts is None else self.segment_starts.reshape(-1)
        numbers = IdLists.of([ids for texts in self.inputs for ids in texts]).numbers(starts)
        rows = numbers.reshape(len(self), len(self.inputs[0]) if len(self) else 0)
        return numbered(map(tuple, rows.tolist()), count=len(self))

    def _ids_column(self) -> pa.Array:
        return pa.array(self.inputs, type=pa.list_(pa.list_(pa.int32())))


_OF_TEXTS = ("input_ids", "segment_start")


class CandidateCollator(Collator):
    """Pads rows of two texts, or three, to a batch (B, C, length); otherwise as `Collator` does."""

    def _texts(self, columns: Mapping[str, Any]) -> dict[str, torch.Tensor]:
        """Pad and number the C texts of each row: (B, C, length), and (B, C); those of single texts as they are."""
        rows = columns["input_ids"]
        if np.ndim(next(iter(rows[0]), 0)) == 0:
            return super()._texts(columns)
        texts = {name: [text for row in columns[name] for text in row] for name in _OF_TEXTS if name in columns}
        shape = (len(rows), len(rows[0]))
        return {name: values.view(*shape, *values.shape[1:]) for name, values in super()._texts(texts).items()}


class CandidateEncoder(Reader):
    """Makes ids of the texts of a row, `TextInput.columns` and `pair`; with a prompt each is the second of a pair.

    Args:
        encoder: of single texts and pairs.
        negative: the columns of a third text; where there are none, it is the second one.
    """

    name: ClassVar[str] = "compared"
    stores_texts: ClassVar[bool] = False
    batches: ClassVar[type[Collator]] = CandidateCollator

    def __init__(self, encoder: TextEncoder, *, negative: Sequence[str] = ()) -> None:
        self.encoder, self.window, self.columns = encoder, encoder.window, tuple(negative)

    @classmethod
    def of(cls, reading: Reading, text: TextInput | None) -> Self:
        """Return the reader of a model; see `Reader.of`."""
        negative = text.negative if reading.task.head.texts > 2 and text is not None else ()
        return cls(TextEncoder.of(reading, text), negative=negative)

    def of_single_texts(self, text: TextInput, *, place: int) -> tuple[Reader, TextInput]:
        """Return what reads the first text alone, or the second, after the prompt if there is one."""
        return self.encoder, _alone(text, text.pair if place else text.columns)

    def rows(self, text: TextInput, columns: Mapping[str, Sequence[Any]], *, first_row: int = 1) -> ComparedRows:
        """Encode the rows of some columns, as `TextEncoder` does; a row that lacks one of the texts is empty."""
        parts, present = [], []
        has_third = bool(self.columns) and all(name in columns for name in self.columns)
        for names in (text.columns, text.pair, *([self.columns] if has_third else [])):
            parts.append(self.encoder.rows(_alone(text, names), columns, first_row=first_row))
            only = replace(text, columns=names, prompt=())
            present.append([bool(read) for read in only.read(columns, first_row=first_row)])
        if self.columns and not has_third:
            parts.append(parts[-1])
        starts = [part.segment_starts for part in parts if part.segment_starts is not None]
        return ComparedRows.without_attributes(
            list(zip(*(part.inputs for part in parts), strict=True)),
            empty=~np.all(present, axis=0),
            shortened=np.any([part.shortened for part in parts], axis=0),
            segment_starts=np.stack(starts, axis=1) if starts else None,
        )


def _alone(text: TextInput, names: tuple[str, ...]) -> TextInput:
    """Return the columns of one of several texts, which with a prompt is the second of a pair."""
    alone = replace(text, columns=names, prompt=(), pair=(), negative=())
    return replace(alone, columns=text.prompt, pair=names) if text.prompt else alone


@dataclass(frozen=True, kw_only=True)
class PlainRows(EncodedRows):
    """Rows with the text itself."""

    inputs: Sequence[str]

    @property
    def lengths(self) -> IntArray:
        """Number of characters of each row, (rows,)."""
        return np.array([len(text) for text in self.inputs], dtype=np.int64)


class PlainReader(Reader):
    """Reads the texts of rows as they are; a model without text gets empty ones."""

    name: ClassVar[str] = "plain"

    def __init__(self, *, uses_text: bool) -> None:
        self.uses_text = uses_text

    def rows(self, text: TextInput, columns: Mapping[str, Sequence[Any]], *, first_row: int = 1) -> EncodedRows:
        """Read rows from columns given by name."""
        texts = text.read_all(columns, first_row=first_row)
        return PlainRows.without_attributes(texts if self.uses_text else [""] * len(texts))

"""Texts, and pairs of texts that are read together, as ids that fit the window."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Self

import numpy as np

from attribune.data.readers.base import Reader, Reading, TextRows
from attribune.data.texts import DEFAULT_LENGTH, TextInput
from attribune.data.windows import (
    Chunks,
    Head,
    PairTokens,
    SentenceChunks,
    SpecialTokens,
    Window,
    content_ids,
    longest_input,
)
from attribune.errors import ConfigError

__all__ = ["TextEncoder"]

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
        limit = limit if limit is not None else longest_input(tokenizer)
        self.tokenizer, self.segments = tokenizer, segments
        self.special = SpecialTokens.of(tokenizer)
        self.window = window if window is not None else Head(min(DEFAULT_LENGTH, limit or DEFAULT_LENGTH))
        self.window.check(self.special, limit=limit)
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

    def rows(self, text: TextInput, columns: Mapping[str, Sequence[Any]], *, first_row: int = 1) -> TextRows:
        """Encode the rows of some columns.

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
        contents = content_ids(self.tokenizer, texts) if texts else []
        whole = window.capacity(self.special)
        if text.pair:
            if isinstance(window, Chunks) and window.stride is not None:
                raise ConfigError(
                    f"the window {str(window)!r} has chunks that overlap, of one text: leave out the stride"
                )
            return self._pair_rows(text, columns, texts, contents, first_row=first_row)
        return TextRows.without_attributes(
            [window.fit(content, self.special) for content in contents],
            empty=[not part for part in texts],
            shortened=[len(content) > whole for content in contents],
        )

    def kept_texts(self, texts: Sequence[str]) -> list[str] | None:
        """Return the part of each text that the window keeps, for a model of words to read what this one reads.

        Head and tail have a space between them. None where the parts of a text cannot be found: with windows of
        sentences, and tokenizers without offsets.
        """
        if isinstance(self.window, SentenceChunks) or not self.tokenizer.is_fast:
            return None
        whole, found = self.window.capacity(self.special), []
        for start in range(0, len(texts), _TEXTS):
            some = list(texts[start : start + _TEXTS])
            encoded = self.tokenizer(
                some, add_special_tokens=False, truncation=False, return_offsets_mapping=True, verbose=False
            )
            pairs = zip(some, encoded["offset_mapping"], strict=True)
            found += [text if len(offsets) <= whole else self._pieces(text, offsets) for text, offsets in pairs]
        return found

    def _pieces(self, text: str, offsets: Sequence[tuple[int, int]]) -> str:
        places = self.window.cut(list(range(len(offsets))), self.special)
        starts = [place for place, before in zip(places, [None, *places], strict=False) if before != place - 1]
        ends = [place for place, after in zip(places, [*places[1:], None], strict=True) if after != place + 1]
        return " ".join(text[offsets[start][0] : offsets[end][1]] for start, end in zip(starts, ends, strict=True))

    def _sentence_rows(self, texts: Sequence[str], window: SentenceChunks) -> TextRows:
        sentences = [window.split(text) for text in texts]
        flat = [one for ones in sentences for one in ones]
        ids = iter(content_ids(self.tokenizer, flat) if flat else [])
        contents = [[next(ids) for _ in ones] for ones in sentences]
        return TextRows.without_attributes(
            [window.join(content, self.special) for content in contents],
            empty=[not text for text in texts],
            shortened=[window.shortens(content, self.special) for content in contents],
        )

    def _pair_rows(
        self,
        text: TextInput,
        columns: Mapping[str, Sequence[Any]],
        firsts: Sequence[str],
        contents: Sequence[list[int]],
        *,
        first_row: int,
    ) -> TextRows:
        seconds = text.read_pairs(columns, first_row=first_row)
        pairs = list(zip(contents, content_ids(self.tokenizer, seconds) if seconds else [], strict=True))
        tokens, size = self.pair_tokens(text), self.window.length(self.special)
        joined = [tokens.fit(one, two, window=self.window, size=size, truncation=text.truncation) for one, two in pairs]
        return TextRows.without_attributes(
            [ids for ids, _ in joined],
            empty=[not (one or two) for one, two in zip(firsts, seconds, strict=True)],
            shortened=[len(one) + len(two) + len(tokens) > size for one, two in pairs],
            segment_starts=None if tokens.second is None else np.array([start for _, start in joined], dtype=np.int64),
        )

    def pair_tokens(self, text: TextInput) -> PairTokens:
        """Return the special tokens around two texts.

        Raises:
            ConfigError: for a window without room for both.
        """
        tokens = self._pairs.get(text.separator)
        if tokens is None:
            tokens = PairTokens.of(self.tokenizer, segments=self.segments, separator=text.separator)
            room = self.window.length(self.special) - len(tokens)
            if room < 2:
                raise ConfigError(
                    f"the window {str(self.window)!r} leaves room for {max(room, 0)} ids of two texts beside "
                    f"{len(tokens)} special tokens: enlarge it"
                )
            self._pairs[text.separator] = tokens
        return tokens

"""Lists of words, each of which is scored."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Self, cast

import numpy as np

from attribune.data.readers.base import Reading
from attribune.data.readers.tokens import TokenReader, TokenRows, token_window, window_starts
from attribune.data.texts import TextInput
from attribune.data.windows import SpecialTokens, Window, content_ids, longest_input
from attribune.errors import ConfigError, DataError, RowError
from attribune.schema.columns import as_array
from attribune.tasks.tokens import TokenRow, TokenTask, TokenWindow
from attribune.tasks.words import word_list

__all__ = ["WordEncoder"]


class WordEncoder(TokenReader):
    """Tokenizes lists of words, and cuts them into windows.

    A word has the ids that it has in a text with spaces between the words; one without any, such as a control
    character, is read as the unknown token. Windows overlap by half; each word is scored in the one in which it has
    most context.

    Args:
        task: what is scored.
        window: of the size of windows; None takes 512 ids.
        limit: ids that the backbone takes; None asks the tokenizer.

    Raises:
        ConfigError: for a window that the backbone cannot take, or that keeps a part of a text.
    """

    name: ClassVar[str] = "words"

    def __init__(
        self, tokenizer: Any, task: TokenTask, *, window: Window | None = None, limit: int | None = None
    ) -> None:
        self.tokenizer, self.task = tokenizer, task
        self.special = SpecialTokens.of(tokenizer)
        self.window = token_window(tokenizer, window, limit=limit)
        self.window.check(self.special, limit=limit if limit is not None else longest_input(tokenizer))
        self._space = _space_before_words(tokenizer)

    @classmethod
    def of(cls, reading: Reading, text: TextInput | None) -> Self:
        """Return the reader of a model; see `Reader.of`."""
        window = None if text is None else text.window
        return cls(reading.tokenizer, cast(TokenTask, reading.task), window=window, limit=reading.limit)

    def rows(self, text: TextInput, columns: Mapping[str, Sequence[Any]], *, first_row: int = 1) -> TokenRows:
        """Encode the rows of a column of words.

        Raises:
            DataError: for a column of anything else, naming the row.
        """
        lists = _word_lists(columns[text.columns[0]], text.columns[0], first_row)
        later = self._ids({f"{self._space}{word}" for words in lists for word in words})
        first = self._ids({words[0] for words in lists if words}) if self._space else later
        rows = [
            self._row(
                [first[word] if place == 0 else later[f"{self._space}{word}"] for place, word in enumerate(words)]
            )
            for words in lists
        ]
        return TokenRows.without_attributes(rows, empty=[not "".join(words).strip() for words in lists], task=self.task)

    def _ids(self, words: set[str]) -> dict[str, list[int]]:
        """Tokenize each word alone."""
        ordered = sorted(words)
        ids = content_ids(self.tokenizer, ordered) if ordered else []
        return {word: content or self._unknown() for word, content in zip(ordered, ids, strict=True)}

    def _unknown(self) -> list[int]:
        named = (self.tokenizer.unk_token_id, self.special.filler)
        token = next((token for token in named if token is not None), None)
        if token is None:
            raise ConfigError(
                "a word without tokens needs one to stand for it, but the tokenizer has no unk, bos, eos or pad token: "
                "set tokenizer.unk_token"
            )
        return [int(token)]

    def _row(self, words: list[list[int]]) -> TokenRow:
        ids = [token for word in words for token in word]
        first = np.cumsum([0, *(len(word) for word in words)])[:-1]
        room = self.window.length(self.special) - len(self.special)
        starts = window_starts(len(ids), room=room, step=max(1, room // 2))
        # Most context is to be in the window whose middle is nearest.
        own = np.searchsorted((starts[1:] + starts[:-1] + room - 1) / 2, first)
        edges = np.searchsorted(own, np.arange(len(starts) + 1))
        before, windows = len(self.special.before), []
        for window, start in enumerate(starts.tolist()):
            wrapped = self.special.wrap(ids[start : start + room])
            marks = np.full(len(wrapped), -1)
            here = np.arange(edges[window], edges[window + 1])
            marks[first[here] - start + before] = here
            windows.append(TokenWindow(ids=wrapped, marks=marks))
        return TokenRow(windows=tuple(windows), words=len(words))


def _word_lists(values: Any, name: str, first_row: int) -> list[list[str]]:
    lists = []
    for row, cell in enumerate(as_array(values, column=name, first_row=first_row).to_pylist(), start=first_row):
        try:
            lists.append(word_list(cell) or [])
        except DataError as error:
            raise RowError(f"column {name!r}, ", row, f": {error}") from error
    return lists


def _space_before_words(tokenizer: Any) -> str:
    """Return what stands before a word that is not the first, for tokenizers whose tokens begin with the space."""
    both, one, other, spaced = content_ids(tokenizer, ["a b", "a", "b", " b"])
    return " " if both == one + spaced and both != one + other else ""

"""Texts whose tokens are scored, lists of words and passages: read in windows that overlap, so that nothing is cut."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Self, cast

import numpy as np
import numpy.typing as npt
import torch

from attribune.core.arrays import Array, IntArray
from attribune.data.id_lists import IdLists
from attribune.data.readers.base import Collator, EncodedRows, Pieces, Reader, Reading, TextRows
from attribune.data.texts import TextInput, canonical_text, listed_text
from attribune.data.windows import PairTokens, Window, content_ids, ids_and_places
from attribune.errors import ConfigError, DataError, RowError
from attribune.schema.columns import as_array, as_written
from attribune.tasks.base import Task
from attribune.tasks.labels import UNSEEN
from attribune.tasks.spans import NULL, Spans
from attribune.tasks.tokens import TokenRow, TokenTask, TokenWindow, word_list


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

    def put(self, sheet: Any, index: npt.NDArray[np.intp], scores: Array) -> None:
        """Reduce the scores (B, T, C) of some windows to what those of their rows need."""
        for number, of_tokens in zip(index.tolist(), scores, strict=True):
            window = self.windows[number]
            sheet[number] = self.texts.task.window_scores(of_tokens[: len(window.ids)], window)

    def merged(self, sheet: Any, task: Task) -> Array:
        """Return the scores of rows, (n,), as the task defines them."""
        parts: list[list[Any]] = [[] for _ in range(len(self.texts))]
        for owner, reduced in zip(self.owners.tolist(), sheet, strict=True):
            parts[owner].append(reduced)
        scored = task.empty_scores(len(self.texts))
        for row, (results, text) in enumerate(zip(parts, self.texts.inputs, strict=True)):
            scored[row] = self.texts.task.row_scores(results, text)
        return scored


class TokenCollator(Collator):
    """Pads windows to a batch, on the right; its arguments are those of `Collator`."""

    def __init__(self, tokenizer: Any, schema: Any, *, pad_to_multiple_of: int | None = None) -> None:
        super().__init__(tokenizer, schema, pad_to_multiple_of=pad_to_multiple_of)
        self.left = False

    def labels(self, labels: Sequence[Any] | Array, *, length: int) -> torch.Tensor:
        """Return the labels (B, length), `UNSEEN` where there is padding."""
        return torch.from_numpy(IdLists.of(labels).padded(length, filler=UNSEEN))


class TokenReader(Reader):
    """The base of readers whose rows are read in windows.

    Args:
        window: of the size of windows; None takes 512 ids.
        limit: ids that the backbone takes; None asks the tokenizer.

    Raises:
        ConfigError: for a window that the backbone cannot take, or that leaves out a part of a text.
    """

    cuts_rows: ClassVar[bool] = True
    batches: ClassVar[type[Collator]] = TokenCollator

    def __init__(self, tokenizer: Any, *, window: Window | None = None, limit: int | None = None) -> None:
        no_other = "is not for tasks that score tokens, which read the whole text"
        self._take_window(tokenizer, window, limit, no_other=no_other)

    def _stand_in(self, token: int | None, lacking: str) -> int:
        """Return a token, or the filler of the tokenizer in its place; a ConfigError says what lacking both means."""
        found = self.special.filler if token is None else token
        if found is None:
            raise ConfigError(lacking)
        return int(found)


def window_starts(length: int, *, room: int, step: int) -> IntArray:
    """Return where windows of `room` tokens begin; the last one ends with the text."""
    if length <= room:
        return np.zeros(1, dtype=np.int64)
    return np.append(np.arange(0, length - room, step), length - room)


class WordEncoder(TokenReader):
    """Tokenizes lists of words, and cuts them into windows.

    A word has the ids that it has in a text with spaces between the words; one without any, such as a control
    character, is read as the unknown token. Windows overlap by half; each word is scored in the one in which it has
    most context. Arguments are those of `TokenReader`.
    """

    name: ClassVar[str] = "words"

    def __init__(
        self, tokenizer: Any, task: TokenTask, *, window: Window | None = None, limit: int | None = None
    ) -> None:
        super().__init__(tokenizer, window=window, limit=limit)
        self.task = task
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
        ids = content_ids(self.tokenizer, ordered)
        return {word: content or self._unknown() for word, content in zip(ordered, ids, strict=True)}

    def _unknown(self) -> list[int]:
        lacking = (
            "a word without tokens needs one to stand for it, but the tokenizer has no unk, bos, eos or pad token: "
            "set tokenizer.unk_token"
        )
        return [self._stand_in(self.tokenizer.unk_token_id, lacking)]

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


class PassageEncoder(TokenReader):
    """Tokenizes questions and contexts, and cuts the contexts into windows that all begin with the question.

    The token that stands for no answer is the first one where the tokenizer begins with one of its own, such as [CLS].
    Where it does not, or the backbone reads from left to right, it is the last one, an end token.

    Args:
        task: has the lengths of questions and of the steps from window to window.
        window: of the size of windows; None takes 512 ids.
        limit: ids that the backbone takes; None asks the tokenizer.
        segments: whether the backbone tells the two texts apart by `token_type_ids`.
        is_causal: whether the backbone reads from left to right.

    Raises:
        ConfigError: for a window that the backbone cannot take, or a tokenizer that does not say where tokens stand.
    """

    name: ClassVar[str] = "passage"

    def __init__(
        self,
        tokenizer: Any,
        task: Spans,
        *,
        window: Window | None = None,
        limit: int | None = None,
        segments: bool = False,
        is_causal: bool = False,
    ) -> None:
        if not tokenizer.is_fast:
            raise ConfigError(
                f"{type(tokenizer).__name__} does not say where tokens stand in a text, so that no answer can be cut "
                "out of it: choose a backbone with a fast tokenizer"
            )
        super().__init__(tokenizer, window=window, limit=limit)
        self.task, self.segments, self.is_causal = task, segments, is_causal
        self._tokens: dict[str, PairTokens] = {}  # by the separator of the texts

    @classmethod
    def of(cls, reading: Reading, text: TextInput | None) -> Self:
        """Return the reader of a model; see `Reader.of`."""
        return cls(
            reading.tokenizer,
            cast(Spans, reading.task),
            window=None if text is None else text.window,
            limit=reading.limit,
            segments=reading.segments,
            is_causal=reading.is_causal,
        )

    def rows(self, text: TextInput, columns: Mapping[str, Sequence[Any]], *, first_row: int = 1) -> TokenRows:
        """Encode the rows of a column of questions and one of contexts.

        Raises:
            DataError: for a missing column, or one that holds lists.
        """
        if not text.pair:
            raise ConfigError(
                "the task 'spans' reads a question and a context: name the column of contexts as text_pair"
            )
        (question_name,), (context_name,) = text.columns, text.pair
        questions = list(map(canonical_text, listed_text(columns[question_name], question_name, first_row)))
        cells = listed_text(columns[context_name], context_name, first_row)
        contexts = list(map(as_written, cells))
        question_ids = content_ids(self.tokenizer, questions)
        encoded = self._encoded(list(dict.fromkeys(contexts)))
        tokens = self._pair_tokens(text.separator)
        longest = min(self.task.max_question_length, max(1, (tokens.room(self.window, self.special) - 1) // 2))
        return TokenRows.without_attributes(
            [
                self._row(question[:longest], context, *encoded[context], tokens)
                for question, context in zip(question_ids, contexts, strict=True)
            ],
            empty=[not (one or two.strip()) for one, two in zip(questions, contexts, strict=True)],
            shortened=[len(question) > longest for question in question_ids],
            task=self.task,
        )

    def cut_note(self, cut: int, rows: int) -> str:
        """Say how many questions were cut."""
        return (
            f"{cut:,} of {rows:,} questions cut to the window {self.window}, of which half is for the context, or to "
            "task.max_question_length: raise what is too small"
        )

    def _pair_tokens(self, separator: str) -> PairTokens:
        """Return the special tokens around question and context, with one that can stand for no answer."""
        if separator not in self._tokens:
            found = PairTokens.of(self.tokenizer, segments=self.segments, separator=separator)
            if not found.after and (self.is_causal or not found.before):
                lacking = "the tokenizer has no token that could stand for no answer: set tokenizer.eos_token"
                end = self._stand_in(self.tokenizer.eos_token_id, lacking)
                found = PairTokens(found.before, found.between, (end,), found.second)
            found.check_room(self.window, self.special, of="question and context")
            self._tokens[separator] = found
        return self._tokens[separator]

    def _encoded(self, contexts: list[str]) -> dict[str, tuple[list[int], IntArray]]:
        """Return the ids of each context, and the characters (T, 2) of each token."""
        found = zip(contexts, ids_and_places(self.tokenizer, contexts), strict=True)
        return {context: (list(ids), _trimmed(context, offsets)) for context, (ids, offsets) in found}

    def _row(
        self, question: list[int], context: str, content: list[int], offsets: IntArray, tokens: PairTokens
    ) -> TokenRow:
        room = tokens.room(self.window, self.special) - len(question)
        step = self.task.doc_stride or max(1, self.window.length(self.special) // 3)
        windows = []
        for start in window_starts(len(content), room=room, step=min(step, room)).tolist():
            part = content[start : start + room]
            ids, segment = tokens.join(question, part)
            marks = np.full((len(ids), 2), -1)
            end = len(ids) - len(tokens.after)
            marks[end - len(part) : end] = offsets[start : start + room]
            marks[-1 if self.is_causal or not tokens.before else 0] = NULL
            bounds = (
                int(offsets[:start, 1].max(initial=0)),
                int(offsets[start + room, 0]) if start + room < len(content) else len(context),
            )
            segment_start = None if tokens.second is None else segment
            windows.append(TokenWindow(ids=ids, marks=marks, bounds=bounds, segment_start=segment_start))
        return TokenRow(windows=tuple(windows), text=context)


def _trimmed(text: str, offsets: Sequence[tuple[int, int]]) -> IntArray:
    """Return the characters of each token without the spaces around them, -1 for a token of spaces alone."""
    trimmed = np.array(offsets, dtype=np.int64).reshape(-1, 2)
    for place, (start, end) in enumerate(offsets):
        token = text[start:end]
        if token and not (token[0].isspace() or token[-1].isspace()):
            continue
        stripped = token.strip()
        first = start + len(token) - len(token.lstrip())
        trimmed[place] = (first, first + len(stripped)) if stripped else (-1, -1)
    return trimmed

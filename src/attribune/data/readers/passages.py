"""Questions and the texts that may answer them, tokenized so that answers are the texts' own characters."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Self, cast

import numpy as np

from attribune.core.arrays import IntArray
from attribune.data.readers.base import Reading
from attribune.data.readers.tokens import TokenReader, TokenRows, token_window, window_starts
from attribune.data.text_columns import canonical_text, listed_text
from attribune.data.texts import TextInput
from attribune.data.windows import PairTokens, SpecialTokens, Window, content_ids, longest_input
from attribune.errors import ConfigError
from attribune.schema.columns import as_written
from attribune.tasks.spans import NULL, Spans
from attribune.tasks.tokens import TokenRow, TokenWindow

__all__ = ["PassageEncoder"]


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
        self.tokenizer, self.task, self.segments, self.is_causal = tokenizer, task, segments, is_causal
        self.special = SpecialTokens.of(tokenizer)
        self.window = token_window(tokenizer, window, limit=limit)
        self.window.check(self.special, limit=limit if limit is not None else longest_input(tokenizer))
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
        question_ids = content_ids(self.tokenizer, questions) if questions else []
        encoded = self._encoded(list(dict.fromkeys(contexts)))
        tokens = self._pair_tokens(text.separator)
        longest = min(self.task.max_question_length, max(1, (self._room(tokens) - 1) // 2))
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

    def _room(self, tokens: PairTokens) -> int:
        return self.window.length(self.special) - len(tokens)

    def _pair_tokens(self, separator: str) -> PairTokens:
        """Return the special tokens around question and context, with one that can stand for no answer."""
        if separator not in self._tokens:
            found = PairTokens.of(self.tokenizer, segments=self.segments, separator=separator)
            if not found.after and (self.is_causal or not found.before):
                found = PairTokens(found.before, found.between, (self._end(),), found.second)
            if (room := self._room(found)) < 2:
                raise ConfigError(
                    f"the window {str(self.window)!r} leaves room for {max(room, 0)} ids of question and context "
                    f"beside {len(found)} special tokens: enlarge it"
                )
            self._tokens[separator] = found
        return self._tokens[separator]

    def _end(self) -> int:
        named = (self.tokenizer.eos_token_id, self.special.filler)
        token = next((token for token in named if token is not None), None)
        if token is None:
            raise ConfigError("the tokenizer has no token that could stand for no answer: set tokenizer.eos_token")
        return int(token)

    def _encoded(self, contexts: list[str]) -> dict[str, tuple[list[int], IntArray]]:
        """Return the ids of each context, and the characters (T, 2) of each token."""
        if not contexts:
            return {}
        encoded = self.tokenizer(
            contexts,
            add_special_tokens=False,
            truncation=False,
            padding=False,
            return_attention_mask=False,
            return_token_type_ids=False,
            return_offsets_mapping=True,
            verbose=False,
        )
        pairs = zip(contexts, encoded["input_ids"], encoded["offset_mapping"], strict=True)
        return {context: (list(ids), _trimmed(context, offsets)) for context, ids, offsets in pairs}

    def _row(
        self, question: list[int], context: str, content: list[int], offsets: IntArray, tokens: PairTokens
    ) -> TokenRow:
        room = self._room(tokens) - len(question)
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

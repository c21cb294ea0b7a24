"""`TextStream`: texts as they are written, token by token, up to a stop text."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor
from transformers import StoppingCriteria

__all__ = ["TextStream", "WrittenText"]

_INCOMPLETE = "\ufffd"  # of a character of which only the first bytes are written


@dataclass(kw_only=True)
class WrittenText:
    """A text and how it ended.

    Attributes:
        text: without the prompt, and without the stop text that ended it.
        tokens: how many were written, with the end token.
        is_whole: whether it ended by itself or by a stop text, not at the limit of new tokens.
    """

    text: str = ""
    tokens: int = 0
    is_whole: bool = False
    _ids: list[int] = field(default_factory=list, repr=False)


class TextStream(StoppingCriteria):
    """Watches a generation: passes on what is written, and ends a text at its end token or at a stop text.

    What may be the beginning of a stop text, and characters of which only the first bytes are there, are held back.

    Args:
        count: texts that are written at once, N.
        ends: ids of end tokens.
        stop: texts that end a text, which is cut before them.
        on_text: called with the number of a text, from 0, and what was added to it.
        on_token: called after every step; what it raises ends the generation.
    """

    def __init__(
        self,
        tokenizer: Any,
        *,
        count: int,
        ends: Collection[int],
        stop: Sequence[str] = (),
        on_text: Callable[[int, str], None] = lambda *_: None,
        on_token: Callable[[], None] = lambda: None,
    ) -> None:
        self._tokenizer, self._ends, self._stop = tokenizer, frozenset(ends), tuple(stop)
        self._on_text, self._on_token = on_text, on_token
        self.texts = [WrittenText() for _ in range(count)]

    def __call__(self, input_ids: Tensor, scores: Any, **_: Any) -> Tensor:
        """Read the last id of each text, of (N, T); return which texts have ended, (N,)."""
        for number, token in enumerate(input_ids[:, -1].tolist()):
            if not self.texts[number].is_whole:
                self._add(number, token)
        self._on_token()
        return torch.tensor([text.is_whole for text in self.texts], device=input_ids.device)

    def finish(self) -> list[WrittenText]:
        """Pass on what was held back of texts that ended at the limit; returns all texts."""
        for number, text in enumerate(self.texts):
            if not text.is_whole:
                self._pass_on(number, self._decoded(text))
        return self.texts

    def _add(self, number: int, token: int) -> None:
        text = self.texts[number]
        text.tokens += 1
        if token in self._ends:
            text.is_whole = True
            self._pass_on(number, self._decoded(text))
            return
        text._ids.append(token)
        decoded = self._decoded(text)
        found = [place for stop in self._stop if (place := decoded.find(stop)) >= 0]
        if found:
            text.is_whole = True
            self._pass_on(number, decoded[: min(found)])
        else:
            self._pass_on(number, decoded[: self._certain(decoded)])

    def _decoded(self, text: WrittenText) -> str:
        return str(self._tokenizer.decode(text._ids, skip_special_tokens=True))

    def _certain(self, decoded: str) -> int:
        """Return how many characters are neither incomplete nor the beginning of a stop text."""
        length = len(decoded.rstrip(_INCOMPLETE))
        for stop in self._stop:
            for size in range(1, min(len(stop), len(decoded)) + 1):
                if decoded.endswith(stop[:size]):
                    length = min(length, len(decoded) - size)
        return length

    def _pass_on(self, number: int, whole: str) -> None:
        text = self.texts[number]
        added = whole[len(text.text) :]
        if added:
            text.text += added
            self._on_text(number, added)

"""Two texts that are read together: the special tokens around them, and how they share a window."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args

from attribune.data.windows import Window, content_ids
from attribune.errors import ConfigError

__all__ = ["PairTokens", "Truncation", "shares"]

Truncation = Literal["longest_first", "only_first", "only_second"]
"""Which of two texts is cut when they do not fit, as in transformers."""

_PROBES = (("a", "1"), ("1", "."), (".", "the"), ("the", "a"))


@dataclass(frozen=True)
class PairTokens:
    """The ids that a tokenizer puts before, between and after two texts, such as [CLS] a [SEP] b [SEP].

    Attributes:
        second: how many of the ids between belong to the second segment; None without segments.
    """

    before: tuple[int, ...]
    between: tuple[int, ...]
    after: tuple[int, ...]
    second: int | None = None

    @classmethod
    def of(cls, tokenizer: Any, *, segments: bool, separator: str) -> PairTokens:
        """Find the special tokens by tokenizing a short pair with and without them.

        Args:
            segments: whether the backbone tells segments apart (`token_type_ids`).
            separator: stands between the texts where the tokenizer puts nothing, as most decoders' do.

        Raises:
            ConfigError: when the tokenizer does not keep the texts' ids together.
        """
        for pair in _PROBES:
            first, second = content_ids(tokenizer, list(pair))
            encoded = tokenizer(*pair, return_token_type_ids=True)
            ids, kinds = list(encoded["input_ids"]), list(encoded["token_type_ids"])
            places = _places(ids, first, second) if first and second else None
            if places is not None:
                start, end, after = places[0] + len(first), places[1], places[1] + len(second)
                boundary = _boundary(kinds, start, end) if segments else None
                between = tuple(ids[start:end]) or tuple(content_ids(tokenizer, [separator])[0] if separator else ())
                return cls(tuple(ids[: places[0]]), between, tuple(ids[after:]), boundary)
        raise ConfigError(
            f"{type(tokenizer).__name__} changes the ids of two texts when it joins them, so no window can be cut: use "
            "another tokenizer, or name both columns as the text, which joins them"
        )

    def __len__(self) -> int:
        return len(self.before) + len(self.between) + len(self.after)

    def join(self, first: Sequence[int], second: Sequence[int]) -> tuple[list[int], int]:
        """Put the special tokens around two texts; returns the ids, and where the second segment begins."""
        ids = [*self.before, *first, *self.between]
        return [*ids, *second, *self.after], len(ids) - (self.second or 0)

    def fit(
        self, first: list[int], second: list[int], *, window: Window, size: int, truncation: Truncation
    ) -> tuple[list[int], int]:
        """Cut two texts to a window of `size` ids and join them, as `join` does."""
        if len(first) + len(second) + len(self) > size:
            one, two = shares(len(first), len(second), size - len(self), truncation=truncation)
            first, second = window.keep(first, one), window.keep(second, two)
        return self.join(first, second)


def shares(first: int, second: int, room: int, *, truncation: Truncation) -> tuple[int, int]:
    """Return how many ids of two texts are kept, of which there are too many for the room.

    ``longest_first`` takes from the longer one until both are equally long, as the tokenizers library does. The other
    two take from one text alone; the rest is taken from the other where that does not suffice.
    """
    if truncation not in get_args(Truncation):
        raise ConfigError(f"truncation={truncation!r}: choose one of {', '.join(get_args(Truncation))}")
    if truncation == "only_first":
        second = min(second, room)
        return min(first, room - second), second
    if truncation == "only_second":
        first = min(first, room)
        return first, min(second, room - first)
    shorter = min(first, second, room // 2)
    longer = room - shorter
    return (longer, shorter) if first > second else (shorter, longer)


def _places(ids: list[int], first: list[int], second: list[int]) -> tuple[int, int] | None:
    """Return where two texts begin among ids, the second one after the first; None where they are not."""
    for start in range(len(ids) - len(first) - len(second) + 1):
        if ids[start : start + len(first)] == first:
            for next_start in range(start + len(first), len(ids) - len(second) + 1):
                if ids[next_start : next_start + len(second)] == second:
                    return start, next_start
    return None


def _boundary(kinds: list[int], start: int, end: int) -> int | None:
    """Return how many ids from `start` to `end` have the kind of the second segment."""
    begins = kinds.index(1) if 1 in kinds else None
    if begins is None or not start <= begins <= end or kinds != [0] * begins + [1] * (len(kinds) - begins):
        return None
    return end - begins

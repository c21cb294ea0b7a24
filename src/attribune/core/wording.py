"""Words of messages: numbers of things, and what a misspelt name may have meant."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

__all__ = ["counted", "did_you_mean"]


def counted(number: int, noun: str, plural: str | None = None) -> str:
    """Return a number of things, such as ``1 row`` and ``2,000 rows``; the plural has an s unless given."""
    return f"{number:,} {noun if number == 1 else plural or f'{noun}s'}"


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Return ``; did you mean 'x'?`` with the closest known name; empty if none is close."""
    close = difflib.get_close_matches(name, list(known), n=1)
    return f"; did you mean {close[0]!r}?" if close else ""

"""What is wrong with this machine, and what a look found where a package is broken."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

__all__ = ["Problem", "said", "tried"]

T = TypeVar("T")


@dataclass(frozen=True, kw_only=True)
class Problem:
    """Something in the way, and its cure; a fatal one makes the library unusable."""

    what: str
    cure: str
    fatal: bool = False


def tried(look: Callable[[], T]) -> T | None:
    """What a look finds; None where a package that it needs is broken, which is a finding of its own."""
    try:
        return look()
    except (Exception, SystemExit):  # a broken package raises whatever it likes
        return None


def said(error: BaseException) -> str:
    """The kind of an error and the first line of its message."""
    first = next(iter(str(error).strip().splitlines()), "")
    return f"{type(error).__name__}: {first}" if first else type(error).__name__

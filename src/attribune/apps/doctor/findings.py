"""A problem of this machine, and how to look at what a broken package may hide."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

__all__ = ["Problem", "probe", "summary"]

T = TypeVar("T")


@dataclass(frozen=True, kw_only=True)
class Problem:
    """A problem and its cure; a fatal one makes the library unusable."""

    what: str
    cure: str
    fatal: bool = False


def probe(function: Callable[[], T]) -> T | None:
    """Call a function; None where a package that it needs is broken, which is reported elsewhere."""
    try:
        return function()
    except (Exception, SystemExit):  # a broken package raises whatever it likes
        return None


def summary(error: BaseException) -> str:
    """Return the type of an error and the first line of its message."""
    first = next(iter(str(error).strip().splitlines()), "")
    return f"{type(error).__name__}: {first}" if first else type(error).__name__

"""Words of messages: numbers of things, what a misspelt name may mean, cures, and text that a terminal can show."""

from __future__ import annotations

import difflib
import errno
import numbers
import re
from collections.abc import Iterable, Mapping
from typing import Any

_CURES: dict[int | None, str] = {
    errno.ENOENT: "make or restore what is missing",
    errno.ENOTDIR: "choose another place",
    errno.EISDIR: "choose another place",
    errno.ENOSPC: "free some space",
    errno.EDQUOT: "free some space",
    errno.EROFS: "use a disk that can be written to",
    errno.EACCES: "change the permissions, or choose another place",
    errno.EPERM: "change the permissions, or choose another place",
}


def counted(number: int, noun: str, plural: str | None = None) -> str:
    """Return a number of things, such as ``1 row`` and ``2,000 rows``; the plural adds an s by default."""
    return f"{number:,} {noun if number == 1 else plural or f'{noun}s'}"


def listed_counts(counts: Mapping[str, int], *, most: int) -> str:
    """Return names with their numbers, such as ``no: 1,200, yes: 8``; of more than `most` the first ones."""
    shown = [f"{name}: {count:,}" for name, count in list(counts.items())[:most]]
    return ", ".join([*shown, *(["..."] if len(counts) > most else [])])


def closest(name: str, known: Iterable[str]) -> str | None:
    """Return the known name that is closest to a misspelt one; None if none is close."""
    return next(iter(difflib.get_close_matches(name, list(known), n=1)), None)


def did_you_mean(name: str, known: Iterable[str], *, most: int = 1) -> str:
    """Return ``; did you mean 'x'?`` with the closest known name, or with `most` of them; empty if none is close."""
    close = difflib.get_close_matches(name, list(known), n=most)
    return f"; did you mean {' or '.join(map(repr, close))}?" if close else ""


def did_you_mean_or(name: str, known: Iterable[str], rest: str) -> str:
    """Return the closest known name, if one is close, and then the rest, such as ``choose one of a, b``."""
    hint = did_you_mean(name, known)
    return f"{hint} {rest[:1].upper()}{rest[1:]}" if hint else f": {rest}"


def shortened(text: str, length: int) -> str:
    """Return a text, or what of it fits into a length, with an ellipsis."""
    return text if len(text) <= length else f"{text[: length - 1]}…"


def excerpt(text: str, length: int) -> str:
    """Return a text on one line, shortened to a length."""
    return shortened(" ".join(text.split()), length)


def prediction_text(prediction: Mapping[str, Any]) -> str:
    """Return a prediction in words: numbers with four digits, several labels with commas, aspects with their names.

    Args:
        prediction: values by aspect, or under ``prediction``.
    """
    parts = []
    for name, value in prediction.items():
        text = ", ".join(map(str, value)) or "no label" if isinstance(value, list | tuple) else str(value)
        if isinstance(value, numbers.Real) and not isinstance(value, int):
            text = f"{float(value):.4g}"
        parts.append(text if name == "prediction" else f"{name} {text}")
    return "; ".join(parts)


# Control characters, halves of pairs, separators of lines, and what turns the direction of writing.
_UNSAFE = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")


def printable(text: str) -> str:
    """Return a text of several lines with each character that a terminal would obey as an escape sequence."""
    return _UNSAFE.sub(lambda match: match[0].encode("unicode_escape", "surrogatepass").decode(), text)


_NAMES: dict[str, str] = {}
"""What files are called in messages, by their paths."""


def one_line(text: str) -> str:
    """Return a text as `printable` does, on one line: no value can begin a line that looks like another message."""
    for path, name in _NAMES.items():
        text = text.replace(path, name)
    return printable(text).replace("\n", "\\n").replace("\t", "\\t")


def call_file(path: str, name: str) -> None:
    """Let messages call a file by what it holds, whose path says nothing to a user."""
    _NAMES[path] = name


def cure_of(error: BaseException) -> str:
    """Return what to do about an error of the system, such as ``free some space`` on a full disk."""
    number = error.errno if isinstance(error, OSError) else None
    return _CURES.get(number, "free some space, or choose a place that you may write to")

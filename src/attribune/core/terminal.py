"""Text from data on its way to a terminal: nothing in it moves the cursor, colours or reorders what is shown."""

from __future__ import annotations

import re

__all__ = ["one_line", "printable"]

# Control characters, halves of pairs, separators of lines, and what turns the direction of writing.
_UNSAFE = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")


def printable(text: str) -> str:
    """Return a text of several lines with each character that a terminal would obey as an escape sequence."""
    return _UNSAFE.sub(lambda match: match[0].encode("unicode_escape", "surrogatepass").decode(), text)


def one_line(text: str) -> str:
    """Return a text as `printable` does, on one line: no value can begin a line that looks like another message."""
    return printable(text).replace("\n", "\\n").replace("\t", "\\t")

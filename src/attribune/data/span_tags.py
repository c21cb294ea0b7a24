"""Marked parts of a text, such as names of people, as one tag for each word."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from attribune.core.wording import shortened
from attribune.errors import DataError

_WORD = re.compile(r"\w+|[^\w\s]")
_STARTS, _ENDS = ("start", "start_offset"), ("end", "end_offset")
_OUTSIDE = "O"


@dataclass(frozen=True, kw_only=True)
class TaggedText:
    """The words of a text with their tags: ``B-PER`` for the first word of a part, ``I-PER`` for others, ``O``.

    Attributes:
        widened: parts that begin or end within a word, all of which is tagged.
        overlapping: parts that share a word with an earlier one, and are left out.
    """

    words: list[str]
    tags: list[str]
    widened: int = 0
    overlapping: int = 0


def are_spans(value: Any) -> bool:
    """Whether an answer marks parts of a text: lists such as ``[0, 3, "PER"]``, or objects with a start."""
    parts = [value] if isinstance(value, Mapping) else value
    return isinstance(parts, list) and bool(parts) and all(map(_is_span, parts))


def _is_span(part: Any) -> bool:
    if isinstance(part, Mapping):
        return any(name in part for name in _STARTS)
    is_triple = isinstance(part, list) and len(part) == 3 and isinstance(part[2], str)
    return is_triple and all(str(end).isdecimal() for end in part[:2])


def tagged_text(text: str, spans: Sequence[Any]) -> TaggedText:
    """Tag the words of a text; a word is a run of letters and digits, or another sign.

    Args:
        spans: parts as `are_spans` knows them; starts and ends count characters, the first being 0.

    Raises:
        DataError: for a part that is not in the text, or has another number of labels than one.
    """
    words = list(_WORD.finditer(text))
    tags, widened, overlapping = [_OUTSIDE] * len(words), 0, 0
    for start, end, label in sorted((_read(span, text) for span in spans), key=lambda one: one[:2]):
        inside = [number for number, word in enumerate(words) if word.start() < end and word.end() > start]
        if not inside:
            raise DataError(f"the part {text[start:end]!r} ({start} to {end}, {label}) has no word: correct it")
        if any(tags[number] != _OUTSIDE for number in inside):
            overlapping += 1
            continue
        tags[inside[0]] = f"B-{label}"
        for number in inside[1:]:
            tags[number] = f"I-{label}"
        widened += words[inside[0]].start() < start or words[inside[-1]].end() > end
    return TaggedText(words=[word[0] for word in words], tags=tags, widened=widened, overlapping=overlapping)


def _read(span: Any, text: str) -> tuple[int, int, str]:
    """Return start, end and label of a part."""
    if isinstance(span, Mapping):
        start, end = (next((span[name] for name in names if name in span), "") for names in (_STARTS, _ENDS))
        label = span.get("labels", span.get("label"))
    else:
        start, end, label = span
    if isinstance(label, list) and len(label) == 1:
        label = label[0]
    is_place = str(start).isdecimal() and str(end).isdecimal() and int(start) < int(end) <= len(text)
    if not is_place or not isinstance(label, str | int) or not str(label).strip():
        raise DataError(
            f"{shortened(str(span), 80)} is no part of a text of {len(text):,} characters with one label: give its "
            "start, its end and its label"
        )
    return int(start), int(end), str(label).strip()

"""The sentences of a text."""

from __future__ import annotations

import re
from itertools import accumulate, pairwise

import sentencex

__all__ = ["split_sentences"]

_WIDE_SPACE = re.compile(r"[^\S\x00-\x7f]")  # such as a no-break space


def split_sentences(text: str, *, language: str = "en") -> list[str]:
    """Split a text into sentences, which together are the text; an empty text has none.

    Args:
        language: ISO 639 code of the language by whose rules sentences end; English if sentencex does not know it.
    """
    if not text:
        return []
    # sentencex panics at a space of several bytes between a capital letter and a full stop, such as "B\xa0."
    sentences = sentencex.segment(language, _WIDE_SPACE.sub(" ", text))
    return [text[start:end] for start, end in pairwise(accumulate(map(len, sentences), initial=0))]

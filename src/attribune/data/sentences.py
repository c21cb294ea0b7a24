"""The sentences of a text."""

from __future__ import annotations

import sentencex

__all__ = ["split_sentences"]


def split_sentences(text: str, *, language: str = "en") -> list[str]:
    """Split a text into sentences, which together are the text; an empty text has none.

    Args:
        language: ISO 639 code of the language by whose rules sentences end; English if sentencex does not know it.
    """
    return list(sentencex.segment(language, text)) if text else []

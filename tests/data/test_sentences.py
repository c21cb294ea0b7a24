"""The sentences of texts: together they are the text, whatever it is."""

from __future__ import annotations

import random

import pytest

from attribune.data.windows import split_sentences

SPACES = "\u00a0\u2009\u2028\u202f\u3000\u0085"


@pytest.mark.parametrize("space", SPACES)
def test_wide_spaces_behind_capital_letters(space: str) -> None:
    """They stand there in French, before marks, and in text from web pages."""
    text = f"Un film de s\u00e9rie B{space}. Il est long{space}! Oui."
    sentences = split_sentences(text, language="fr")
    assert "".join(sentences) == text
    assert len(sentences) > 1
    assert split_sentences(f"B{space}.") == [f"B{space}."]


@pytest.mark.parametrize("language", ["en", "de", "ja", "zz"])
def test_nothing_is_lost(language: str) -> None:
    characters, draw = f"aBD.!? \n\t\r\"')(1\u2026\u3002\u00e9\u200d\u0301\U0001f389{SPACES}", random.Random(4)
    for _ in range(500):
        text = "".join(draw.choices(characters, k=draw.randrange(60)))
        sentences = split_sentences(text, language=language)
        assert "".join(sentences) == text
        assert all(sentences)

"""Texts as words, and which words have an id."""

from __future__ import annotations

import pytest

from attribune_lab.backbones.words import PADDING, UNKNOWN, WordVocabulary, split_words


@pytest.mark.parametrize(
    ("lowercase", "alphanumeric", "words"),
    [
        (True, True, ["it", "s", "größe", "3", "5", "a", "b", "да"]),
        (False, True, ["It", "s", "Größe", "3", "5", "a", "b", "Да"]),
        (True, False, ["it", "'", "s", "größe", "3", ".", "5", "a", "_", "b", "да", "!", "!"]),
    ],
)
def test_words_are_runs_of_letters_and_digits_and_marks_stand_alone(
    lowercase: bool, alphanumeric: bool, words: list[str]
) -> None:
    text = "It's\n Größe 3.5\ta_b  Да!!"
    assert split_words(text, lowercase=lowercase, alphanumeric=alphanumeric) == words


def test_words_that_occur_once_have_an_id_only_if_they_are_known() -> None:
    texts = [["b", "a", "once"], ["a", "b", "known", "a"], []]
    vocabulary = WordVocabulary.fit(texts, known={"known", "elsewhere"}, limit=10)
    assert vocabulary.words == ("a", "b", "known")
    assert len(vocabulary) == 5
    assert vocabulary.encode(["b", "once", "a", "known", "elsewhere"]).tolist() == [3, UNKNOWN, 2, 4, UNKNOWN]
    assert PADDING not in vocabulary.encode(["a", "new"])
    assert WordVocabulary.fit(texts, limit=1).words == ("a",)

"""Exact match and F1 of answers, by hand."""

from __future__ import annotations

import pytest

from attribune.tasks.spans import answer_scores, normalized_answer


@pytest.mark.parametrize(
    ("predicted", "true", "exact", "f1"),
    [
        ("The Beatles", ["beatles"], 1, 1),
        ("a  Cat, an ox!", ["cat ox"], 1, 1),
        ("U.S.", ["US"], 1, 1),
        ("twenty-one", ["twentyone"], 1, 1),
        ("another", ["other"], 0, 0),  # an article is a word of its own
        ("the red car", ["red"], 0, 2 / 3),
        ("red red", ["red"], 0, 2 / 3),  # each word counts as often as both have it
        ("red red", ["red red blue"], 0, 0.8),
        ("in 1999", ["1998", "in 1999", "1999"], 1, 1),
        ("big red car", ["red car", "a blue car"], 0, 0.8),
        ("", [], 1, 1),
        ("", ["x"], 0, 0),
        ("x", [], 0, 0),
        ("the", ["..."], 1, 1),  # both are normalised to nothing
        ("x", ["the", "x"], 1, 1),
        ("", ["the", "x"], 0, 0),  # what is normalised to nothing is no true answer beside another
        ("“x”", ["x"], 0, 0),  # the script takes ASCII punctuation away, no other
        ("x\u00a0y", ["x y"], 1, 1),
    ],
)
def test_figures_are_those_of_the_script(predicted: str, true: list[str], exact: float, f1: float) -> None:
    assert answer_scores(predicted, true) == (exact, pytest.approx(f1))


def test_normalised_text() -> None:
    assert normalized_answer(" An  apple-pie, \n THE\tend; a.b ") == "applepie end ab"

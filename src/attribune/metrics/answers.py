"""Exact match and F1 of answers, as the evaluation script of SQuAD 2.0 computes them.

Rajpurkar, Jia and Liang 2018, *Know What You Don't Know: Unanswerable Questions for SQuAD*.
"""

from __future__ import annotations

import re
import string
from collections import Counter
from collections.abc import Sequence

__all__ = ["answer_scores", "normalized_answer"]

_ARTICLES = re.compile(r"\b(a|an|the)\b")
_WITHOUT_PUNCTUATION = str.maketrans("", "", string.punctuation)


def normalized_answer(text: str) -> str:
    """Return a text in lower case, without punctuation and articles, with single spaces."""
    return " ".join(_ARTICLES.sub(" ", text.lower().translate(_WITHOUT_PUNCTUATION)).split())


def answer_scores(predicted: str, true: Sequence[str]) -> tuple[float, float]:
    """Return exact match and F1 of an answer, each the highest over the true ones.

    Of a question without an answer, "" is the true one; so is it where all true answers are normalised to nothing.
    """
    answers = [text for text in map(normalized_answer, true) if text] or [""]
    mine = normalized_answer(predicted)
    return max(float(text == mine) for text in answers), max(_f1(mine.split(), text.split()) for text in answers)


def _f1(predicted: list[str], true: list[str]) -> float:
    if not (predicted and true):
        return float(predicted == true)
    common = (Counter(predicted) & Counter(true)).total()
    return 2 * common / (len(predicted) + len(true))

"""ROUGE, chrF and exact match of written texts, computed by hand."""

from __future__ import annotations

import numpy as np
import pytest

from attribune.errors import ConfigError, DataError
from attribune.metrics import texts
from attribune.metrics.results import compare_metrics, intervals
from attribune.metrics.texts import text_metrics

pytest.importorskip("rouge_score")
pytest.importorskip("sacrebleu")


def figures(written: list[list[str]], references: list[str]) -> dict[str, float]:
    return {name: metric.value() for name, metric in text_metrics(written, references).items()}


def chrf(text: str, reference: str) -> float:
    """chrF of a text by its paper (Popović 2015): β = 2, up to six characters without spaces, means over the orders."""
    precisions, recalls = [], []
    text, reference = text.replace(" ", ""), reference.replace(" ", "")
    for order in range(1, 7):
        found, true = ([one[i : i + order] for i in range(len(one) - order + 1)] for one in (text, reference))
        if found and true:
            hits = sum(min(found.count(gram), true.count(gram)) for gram in set(found))
            precisions.append(hits / len(found))
            recalls.append(hits / len(true))
    precision, recall = np.mean(precisions), np.mean(recalls)
    return float(5 * precision * recall / (4 * precision + recall))


def test_three_texts_computed_by_hand() -> None:
    written = ["the cat on mat", "A dull  plot", "mat the"]
    references = ["the cat sat on the mat", "a dull plot", "the mat"]
    found = text_metrics([[text] for text in written], references)
    by_row = {name: metric.statistics[metric.rows, 0] for name, metric in found.items()}
    # 4 of 4 and of 6 words; 1 of 3 and of 5 pairs of words; as a subsequence the, cat, on, mat
    assert by_row["rouge_1"] == pytest.approx([2 * 1 * (4 / 6) / (1 + 4 / 6), 1, 1])
    assert by_row["rouge_2"] == pytest.approx([2 * (1 / 3) * (1 / 5) / (1 / 3 + 1 / 5), 1, 0])
    assert by_row["rouge_l"] == pytest.approx([0.8, 1, 0.5])
    assert by_row["exact_match"].tolist() == [0, 0, 0]
    assert by_row["chrf"] == pytest.approx([chrf(*pair) for pair in zip(written, references, strict=True)])
    assert found["rouge_l"].value() == pytest.approx((0.8 + 1 + 0.5) / 3)


def test_the_score_of_a_row_is_the_mean_over_its_texts() -> None:
    found = figures([["a b", "b"], ["c", "c"]], ["a b", "c"])
    assert found["exact_match"] == (0.5 + 1) / 2
    assert found["rouge_1"] == pytest.approx(((1 + 2 / 3) / 2 + 1) / 2)


@pytest.mark.parametrize(
    ("text", "words"),
    [("Über-Größe, ganz", 3), ("Это хороший фильм", 3), ("it's 5_stars", 4), ("यह फिल्म अच्छी है", 4), (":-)", 0)],
)
def test_words_of_all_alphabets_count(text: str, words: int) -> None:
    last = text.split()[-1]
    found = figures([[last]], [text])
    shared = 2 if last == "5_stars" else 1
    assert found["rouge_1"] == pytest.approx(2 * shared / (shared + words) if words else 0.0)
    assert figures([[text]], [text])["exact_match"] == 1


def test_nothing_written_and_nothing_to_compare_with() -> None:
    assert set(figures([[""], [""]], ["a text", "b"]).values()) == {0.0}
    with pytest.raises(DataError, match="2 rows of written texts for 1 references: give at least one text for each"):
        text_metrics([["a"], ["b"]], ["a"])
    with pytest.raises(DataError, match="give at least one text"):
        text_metrics([[]], ["a"])
    with pytest.raises(DataError, match="'rouge_1' has 0 rows"):
        text_metrics([], [])


def test_differences_are_paired() -> None:
    references = [f"a text about n{number} and more" for number in range(40)]
    ours = text_metrics([[one] for one in references], references)
    theirs = text_metrics([["a text"]] * 40, references)
    pair = compare_metrics(ours["rouge_l"], theirs["rouge_l"], names=("a", "b"), part="")
    assert pair.low <= pair.difference <= pair.high
    assert pair.shows_difference
    (found,) = {(one.value, one.high) for one in intervals({"chrf": ours["chrf"]}).values()}
    assert found == (1.0, 1.0)


def test_without_the_packages_they_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(texts.importlib.util, "find_spec", lambda name: None)
    message = r"needs rouge-score and sacrebleu: pip install 'attribune\[generation\]'"
    with pytest.raises(ConfigError, match=message):
        text_metrics([["a"]], ["a"])

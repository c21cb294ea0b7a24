"""Figures of the texts that judges disagree about, against loops over judgements."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from attribune.analysis.diagnostics import ScoredRows
from attribune.analysis.judgements import Judgements, find_judgements, text_figures
from attribune.tasks import Aspects, Classification, Rating, Regression, Task

TEXTS, JUDGES = 60, 6
TEXT = np.repeat(np.arange(TEXTS), JUDGES).astype(np.uint64)
JUDGE = np.tile(np.arange(JUDGES), TEXTS).astype(np.uint64)
CLUSTERS = {"text": TEXT, "judge": JUDGE}
TWO = Classification(classes=("fine", "rude"))
THREE = Classification(classes=("a", "b", "c"))
STARS = Rating(classes=("1", "2", "3", "4", "5"))


def scored(task: Task, labels: Any, logits: Any = None, **more: Any) -> ScoredRows:
    labels = np.asarray(labels)
    logits = np.zeros((len(labels), task.outputs)) if logits is None else logits
    given: dict[str, Any] = {"clusters": CLUSTERS, "counts": {}} | more
    return ScoredRows(task=task, logits=logits, labels=labels, **given)


def found(rows: ScoredRows) -> Judgements:
    judgements = find_judgements(rows)
    assert isinstance(judgements, Judgements)
    return judgements


def test_texts_that_are_disputed_as_predicted_are_told_apart() -> None:
    """Of each text the model knows how likely each judge is to say rude: seen disagreement follows it, at its level."""
    rng = np.random.default_rng(6)
    p = rng.beta(0.5, 0.5, size=TEXTS)[TEXT.astype(int)]
    labels = (rng.uniform(size=len(TEXT)) < p).astype(int)
    logits = np.stack([np.zeros(len(TEXT)), np.log(p / (1 - p))], axis=1)
    figures = text_figures(found(scored(TWO, labels, logits)))
    for text in range(TEXTS):
        mine = labels[text == TEXT]
        apart = [float(mine[i] != mine[j]) for i in range(JUDGES) for j in range(i)]
        q = p[text == TEXT][0]
        assert figures.seen[text] == pytest.approx(np.mean(apart))
        assert figures.predicted[text] == pytest.approx(2 * q * (1 - q))
        assert TEXT[figures.rows[text]] == text
    assert figures.counts.tolist() == [JUDGES] * TEXTS
    assert figures.mean.value == pytest.approx(figures.seen.mean())
    assert figures.correlation is not None
    assert figures.correlation.low > 0.3
    assert figures.calibration is not None
    assert figures.calibration.gap.low < 0 < figures.calibration.gap.high
    assert figures.calibration.gap.value == pytest.approx((figures.predicted - figures.seen).mean())
    sure = text_figures(found(scored(TWO, labels, 8 * logits)))
    assert sure.calibration is not None
    assert sure.calibration.gap.high < 0, "a model that is too sure predicts too little disagreement"


def test_disagreement_of_numbers_is_their_distance() -> None:
    stars = np.random.default_rng(0).integers(1, 6, size=len(TEXT))
    logits = np.random.default_rng(8).normal(size=(len(TEXT), 5))
    rated = text_figures(found(scored(STARS, stars - 1, logits)))
    task = Regression(mean=3.0, std=1.4)
    predicted = np.random.default_rng(9).normal(size=(len(TEXT), 1))
    numbers = text_figures(found(scored(task, ((stars - 3.0) / 1.4).astype(np.float32), predicted)))
    for text in range(TEXTS):
        mine, said = stars[text == TEXT], predicted[text == TEXT, 0] * 1.4
        pairs = [(i, j) for i in range(JUDGES) for j in range(i)]
        apart = np.mean([abs(mine[i] - mine[j]) for i, j in pairs])
        assert rated.seen[text] == pytest.approx(apart)
        assert numbers.seen[text] == pytest.approx(apart, abs=1e-6)
        assert numbers.predicted[text] == pytest.approx(np.mean([abs(said[i] - said[j]) for i, j in pairs]))


# What cannot be compared


def test_a_second_judgement_of_a_text_by_the_same_judge_is_left_out() -> None:
    again = {name: np.concatenate([kind, kind[:7]]) for name, kind in CLUSTERS.items()}
    labels = np.random.default_rng(2).integers(2, size=len(TEXT) + 7)
    judgements = found(scored(TWO, labels, clusters=again))
    np.testing.assert_array_equal(judgements.rows, np.arange(len(TEXT)))


def test_answers_that_training_did_not_have_and_texts_of_one_judge_are_left_out() -> None:
    labels = np.zeros(len(TEXT), dtype=int)
    labels[:5] = -100  # one is left of the first text
    labels[6] = -100
    judgements = found(scored(TWO, labels))
    np.testing.assert_array_equal(judgements.rows, np.arange(7, len(TEXT)))
    assert np.bincount(judgements.texts).tolist() == [5, *[6] * (TEXTS - 2)]


ONE_JUDGE = {"text": TEXT, "judge": np.zeros_like(JUDGE)}
SEVERAL = Classification(classes=("a", "b"), multi_label=True)
SHARES = Classification(classes=("a", "b"), soft_labels=True)
PARTS = Aspects(names=("look", "taste"), classes=("1", "2"))


@pytest.mark.parametrize(
    ("task", "clusters", "said"),
    [
        (TWO, {}, "fewer than a tenth"),
        (TWO, {"judge": JUDGE}, "fewer than a tenth"),
        (TWO, ONE_JUDGE, "no text was judged by two"),
        (TWO, {"text": np.arange(len(TEXT), dtype=np.uint64)}, "no text was judged by two"),
        (SEVERAL, CLUSTERS, "one answer of several"),
        (SHARES, CLUSTERS, "one answer of several"),
        (PARTS, CLUSTERS, "one answer of several"),
    ],
)
def test_what_has_no_judgements_is_said_in_a_sentence(task: Task, clusters: Any, said: str) -> None:
    columns = {SEVERAL: 3, SHARES: 2, PARTS: 2}.get(task)
    labels = np.zeros(len(TEXT) if columns is None else (len(TEXT), columns), dtype=int)
    reason = find_judgements(scored(task, labels, clusters=clusters))
    assert isinstance(reason, str)
    assert said in reason


def test_labels_that_are_no_numbers_are_left_out_and_few_judgements_make_no_figures() -> None:
    labels = np.full(len(TEXT), np.nan, dtype=np.float32)
    assert isinstance(find_judgements(scored(Regression(mean=0.0, std=1.0), labels)), str)
    labels[:18] = np.arange(18)
    judgements = found(scored(Regression(mean=0.0, std=1.0), labels))
    figures = text_figures(judgements)
    assert len(figures.seen) == 3
    assert (figures.calibration, figures.correlation) == (None, None)


def test_where_all_agree_there_is_no_correlation() -> None:
    figures = text_figures(found(scored(STARS, np.ones(len(TEXT), dtype=int))))
    assert not figures.seen.any()
    assert figures.correlation is None


def test_without_judges_the_texts_are_left() -> None:
    judgements = found(scored(TWO, np.arange(len(TEXT)) % 2, clusters={"text": TEXT}))
    assert len(text_figures(judgements).seen) == TEXTS

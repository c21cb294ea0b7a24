"""Figures of single judges and of the texts they disagree about, against loops over judgements."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from attribune.analysis.diagnostics import ScoredRows
from attribune.analysis.judgements import Judgements, find_judgements, text_figures
from attribune.analysis.judges import judge_answers, metrics_of_judges
from attribune.schema import Categorical, Schema
from attribune.tasks import Aspects, Classification, Ordinal, Rating, Regression, Task

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


def harsh_labels() -> Any:
    """Five stars of which judge 0 takes one or two away, and judge 3 draws by lot."""
    rng = np.random.default_rng(0)
    quality = rng.integers(2, 5, size=TEXTS)[TEXT.astype(int)]
    labels = np.clip(quality + rng.integers(-1, 2, size=len(TEXT)) * (rng.uniform(size=len(TEXT)) < 0.4), 0, 4)
    labels = np.where(JUDGE == 0, np.maximum(labels - 2, 0), labels)
    return np.where(JUDGE == 3, rng.integers(0, 5, size=len(TEXT)), labels)


@pytest.mark.slow
@pytest.mark.parametrize("task", [STARS, Ordinal(classes=("1", "2", "3", "4", "5")), Regression(mean=3.0, std=1.4)])
def test_the_judge_who_gives_less_is_found_and_so_is_the_one_who_draws_by_lot(task: Task) -> None:
    stars = harsh_labels() + 1
    labels = (stars - 3.0) / 1.4 if isinstance(task, Regression) else stars - 1
    judges = judge_answers(found(scored(task, np.asarray(labels, np.float32 if task.kind == "regression" else int))))
    assert len(judges) == JUDGES
    names = [int(JUDGE[one.row]) for one in judges]
    assert names[0] == 0
    for one, judge in zip(judges, names, strict=True):
        own = []
        for text in range(TEXTS):
            mine = stars[(text == TEXT) & (judge == JUDGE)][0]
            own.append(mine - np.mean(stars[(text == TEXT) & (judge != JUDGE)]))
        assert one.rows == TEXTS
        assert one.bias.value == pytest.approx(np.mean(own), abs=1e-6)
        assert one.consistency.value == pytest.approx(np.std(own), abs=1e-6)
        assert abs(one.bias.interval.value) < abs(one.bias.value)
        assert one.bias.interval.low < one.bias.interval.value < one.bias.interval.high
        assert one.consistency.interval.low <= one.consistency.value <= one.consistency.interval.high
    assert judges[0].bias.stands_out
    assert judges[0].bias.interval.high < -1
    assert [
        judge for one, judge in zip(judges, names, strict=True) if one.consistency.value > one.consistency.high
    ] == [3]


@pytest.mark.slow
def test_judges_who_differ_by_chance_alone_do_not_stand_out() -> None:
    rng = np.random.default_rng(3)
    for task, labels in ((STARS, rng.integers(5, size=len(TEXT))), (TWO, rng.integers(2, size=len(TEXT)))):
        for one in judge_answers(found(scored(task, labels))):
            assert not one.bias.stands_out
            assert not one.consistency.stands_out
            assert one.bias.interval.low < 0 < one.bias.interval.high


@pytest.mark.slow
@pytest.mark.parametrize("task", [TWO, THREE])
def test_agreement_of_classes_is_the_share_of_others_with_the_same_answer(task: Classification) -> None:
    labels = np.random.default_rng(1).integers(task.outputs, size=len(TEXT))
    judges = judge_answers(found(scored(task, labels)))
    for one in judges:
        judge, same = JUDGE[one.row], []
        for row in np.flatnonzero(judge == JUDGE):
            others = [other for other in range(len(TEXT)) if TEXT[other] == TEXT[row] and other != row]
            same.append(np.mean(labels[others] == labels[row]))
        assert one.consistency.value == pytest.approx(np.mean(same))
        assert (one.bias is None) == (task is THREE), "three classes have no order"


def test_the_metric_of_a_judge_is_that_of_the_rows_with_attributes_and_without() -> None:
    """The model knows judge 2 alone, and judge 4 worse than without attributes."""
    rng = np.random.default_rng(4)
    labels = rng.integers(2, size=len(TEXT))
    sure = np.identity(2)[labels] * 2
    chance = np.identity(2)[rng.integers(2, size=len(TEXT))] * 2
    logits = np.where((JUDGE == 2)[:, None], sure, np.where((JUDGE == 4)[:, None], chance[:, ::-1], chance))
    hidden = np.where((JUDGE == 4)[:, None], sure, chance)
    names = [f"j{judge}" for judge in JUDGE]
    training = [name for name in names[: JUDGES * 9] if name != "j5"]
    schema = Schema.fit({"judge": [*training, "j2", "j2"]}, [Categorical("judge")])
    ids = schema.encode({"judge": names})[0]
    judges = metrics_of_judges(scored(TWO, labels, logits, hidden=hidden, ids=ids), list(schema))
    assert [one.gain.difference for one in judges] == sorted(one.gain.difference for one in judges)
    for one in judges:
        rows = JUDGE[one.row] == JUDGE
        assert one.rows == TEXTS
        assert one.given == pytest.approx(np.mean(logits[rows].argmax(axis=1) == labels[rows]))
        assert one.hidden == pytest.approx(np.mean(hidden[rows].argmax(axis=1) == labels[rows]))
        assert one.gain.difference == pytest.approx(one.given - one.hidden)
        assert one.gain.level == pytest.approx(1 - 0.05 / JUDGES)
        assert one.training_rows == {2: 11, 5: 0}.get(int(JUDGE[one.row]), 9)
    assert [int(JUDGE[one.row]) for one in judges if one.is_better] == [2]
    assert [int(JUDGE[one.row]) for one in judges if one.is_worse] == [4]


def test_an_error_that_falls_is_better() -> None:
    rng = np.random.default_rng(5)
    labels = rng.normal(size=len(TEXT)).astype(np.float32)
    logits = labels[:, None] + rng.normal(0, 0.1, size=(len(TEXT), 1))
    rows = scored(Regression(mean=0.0, std=1.0), labels, logits, hidden=np.zeros_like(logits))
    judges = metrics_of_judges(rows, [])
    assert all(one.is_better and one.gain.difference < 0 and one.training_rows is None for one in judges)
    assert metrics_of_judges(scored(Regression(mean=0.0, std=1.0), labels, logits), []) == []


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
    assert figures.correlation.low > 0.3
    assert figures.calibration.gap.low < 0 < figures.calibration.gap.high
    assert figures.calibration.gap.value == pytest.approx((figures.predicted - figures.seen).mean())
    sure = text_figures(found(scored(TWO, labels, 8 * logits)))
    assert sure.calibration.gap.high < 0, "a model that is too sure predicts too little disagreement"


def test_disagreement_of_numbers_is_their_distance() -> None:
    stars = harsh_labels() + 1
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
    assert judgements.repeated == 7
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
    assert said in reason


def test_labels_that_are_no_numbers_are_left_out_and_few_judgements_make_no_figures() -> None:
    labels = np.full(len(TEXT), np.nan, dtype=np.float32)
    assert isinstance(find_judgements(scored(Regression(mean=0.0, std=1.0), labels)), str)
    labels[:18] = np.arange(18)
    judgements = found(scored(Regression(mean=0.0, std=1.0), labels))
    assert judge_answers(judgements) == []
    figures = text_figures(judgements)
    assert len(figures.seen) == 3
    assert (figures.calibration, figures.correlation) == (None, None)


def test_where_all_agree_there_is_no_correlation() -> None:
    figures = text_figures(found(scored(STARS, np.ones(len(TEXT), dtype=int))))
    assert not figures.seen.any()
    assert figures.correlation is None
    for one in judge_answers(found(scored(STARS, np.ones(len(TEXT), dtype=int)))):
        assert (one.bias.value, one.consistency.value) == (0, 0)
        assert not one.bias.stands_out


def test_without_judges_the_texts_are_left() -> None:
    judgements = found(scored(TWO, np.arange(len(TEXT)) % 2, clusters={"text": TEXT}))
    assert judge_answers(judgements) == []
    assert len(text_figures(judgements).seen) == TEXTS

"""Metrics of the answers of several people, against slow loops and scipy."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.spatial.distance import jensenshannon
from scipy.stats import wasserstein_distance

from attribune.data.clusters import judgement_metrics
from attribune.metrics.bootstrap import interval
from attribune.metrics.distributions import distribution_metrics, judge_metrics, shares
from attribune.tasks import UNSEEN, Aspects, Classification, Ordinal, Rating, Regression

POSITIONS = np.array([-1.0, 0.0, 0.5, 4.0])


def distributions(texts: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    generator = np.random.default_rng(seed)
    true, predicted = generator.dirichlet(np.full(4, 0.4), (2, texts))
    true[0] = [0, 1, 0, 0]
    predicted[1] = [0.5, 0.5, 0, 0]
    return true, predicted


def test_distances_of_distributions_are_those_of_slow_loops() -> None:
    true, predicted = distributions(30)
    found = distribution_metrics(true, predicted, positions=POSITIONS)
    cross = [
        -sum(q * math.log(max(p, 1e-300)) for q, p in zip(*row, strict=True) if q)
        for row in zip(true, predicted, strict=True)
    ]
    assert found["manhattan"].value() == pytest.approx(
        np.mean([abs(q - p).sum() for q, p in zip(true, predicted, strict=True)])
    )
    far = [wasserstein_distance(POSITIONS, POSITIONS, q, p) for q, p in zip(true, predicted, strict=True)]
    assert found["wasserstein"].value() == pytest.approx(np.mean(far), abs=1e-10)
    apart = [jensenshannon(q, p) ** 2 for q, p in zip(true, predicted, strict=True)]
    assert found["jensen_shannon"].value() == pytest.approx(np.mean(apart), abs=1e-10)
    finite = [row for row in range(30) if row != 1]
    part = distribution_metrics(true[finite], predicted[finite])["cross_entropy"]
    assert part.value() == pytest.approx(np.mean([cross[row] for row in finite]), abs=1e-10)
    assert found["cross_entropy"].value() > 10  # what was held impossible happened, and the value is finite
    assert not any(metric.higher_is_better for metric in found.values())
    assert set(distribution_metrics(true, true)) == {"cross_entropy", "manhattan", "jensen_shannon"}
    assert distribution_metrics(true, true)["jensen_shannon"].value() == 0


def test_the_worst_tenth_of_judges_is_a_mean_over_them() -> None:
    generator = np.random.default_rng(1)
    judges = np.repeat(np.arange(24), 6)
    texts = np.tile(np.arange(12), 12)
    errors = (generator.random(144) < 0.3).astype(float)
    found = judge_metrics(errors, texts=texts, judges=judges, name="error_rate")
    by_text = [errors[texts == text].mean() for text in range(12)]
    assert found["error_rate"].value() == pytest.approx(np.mean(by_text))
    means = sorted((errors[judges == judge].mean() for judge in range(24)), reverse=True)
    assert found["worst_tenth"].value() == pytest.approx((means[0] + means[1] + 0.4 * means[2]) / 2.4)
    ends = interval(found["worst_tenth"])
    assert ends.low <= ends.value <= ends.high
    assert ends.low < ends.high
    few = np.concatenate([judges[:-6], np.full(6, 99)])  # a judge more, and one less
    assert judge_metrics(errors[:60], texts=texts[:60], judges=few[:60], name="error_rate").keys() == {
        "error_rate",
        "worst_tenth",
    }
    assert judge_metrics(errors[:54], texts=texts[:54], judges=few[:54], name="error_rate").keys() == {"error_rate"}


def test_shares_of_answers() -> None:
    found = shares(np.array([0, 2, 2, 1]), np.array([0, 0, 0, 1]), answers=3)
    assert found.tolist() == [[1 / 3, 0, 2 / 3], [0, 1, 0]]


@pytest.mark.parametrize("kind", [Rating, Ordinal])
def test_texts_that_one_person_judged_and_unknown_answers_are_left_out(kind: type[Rating]) -> None:
    task = kind(classes=("1", "2", "4"))
    logits = np.log(np.random.default_rng(2).dirichlet(np.ones(3), 8))
    labels = np.array([0, 2, 1, 0, 2, 1, UNSEEN, 2])
    clusters = {"text": np.array([7, 7, 7, 3, 5, 5, 5, 9], dtype=np.uint64)}
    found = judgement_metrics(task, logits, labels, clusters)
    p = np.exp(logits)
    true = np.array([[1 / 3, 1 / 3, 1 / 3], [0, 0.5, 0.5]])
    mean = np.array([p[[4, 5]].mean(axis=0), p[:3].mean(axis=0)])[::-1]
    assert found["manhattan"].value() == pytest.approx(np.abs(mean - true).sum(axis=1).mean())
    values = np.array([1.0, 2.0, 4.0])
    off = np.abs(values[logits.argmax(axis=1)] - values[labels.clip(0)]) / 1.5  # in mean steps from answer to answer
    off /= 3  # as many as there are answers
    assert found["absolute_distance"].value() == pytest.approx((off[:3].mean() + off[4:6].mean()) / 2)
    assert "worst_tenth" not in found


def test_other_tasks_and_rows_of_one_text_each_have_none() -> None:
    text = {"text": np.array([1, 1], dtype=np.uint64)}
    assert not judgement_metrics(Regression(), np.zeros((2, 1)), np.zeros(2), text)
    several = Classification(classes=("a", "b"), multi_label=True)
    assert not judgement_metrics(several, np.zeros((2, 2)), np.zeros((2, 3)), text)
    one = Classification(classes=("a", "b"))
    assert not judgement_metrics(one, np.zeros((2, 2)), np.zeros(2, int), {"text": np.array([1, 2], dtype=np.uint64)})
    assert not judgement_metrics(one, np.zeros((2, 2)), np.zeros(2, int), {})
    assert judgement_metrics(one, np.zeros((2, 2)), np.zeros(2, int), text)["error_rate"].value() == 0


def test_metrics_of_several_aspects_are_those_of_slow_loops() -> None:
    """The multi-label distance and error rate of LeWiDi 2025, text by text, aspect by aspect and judge by judge."""
    task = Aspects(names=("entailment", "neutral", "contradiction"), classes=("no", "yes"))
    drawn = np.random.default_rng(3)
    logits, labels = drawn.normal(size=(60, 6)), drawn.integers(0, 2, (60, 3))
    labels[0, 1] = UNSEEN
    texts = np.append(np.repeat(np.arange(14), 4), [90, 91, 92, 93]).astype(np.uint64)  # the last ones judged once
    clusters = {"text": texts, "judge": np.tile(np.arange(12), 5).astype(np.uint64)}
    found = judgement_metrics(task, logits, labels, clusters)
    distance, error, cross = 0.0, 0.0, 0.0
    for text in range(14):
        rows = [row for row in range(60) if texts[row] == text and row != 0]
        for aspect in range(3):
            chances, said, wrong = [0.0, 0.0], [0.0, 0.0], 0
            for row in rows:
                no, yes = (math.exp(logits[row, 2 * aspect + answer]) for answer in (0, 1))
                chances = [chances[0] + no / (no + yes) / len(rows), chances[1] + yes / (no + yes) / len(rows)]
                said[labels[row, aspect]] += 1 / len(rows)
                wrong += int(yes > no) != labels[row, aspect]
            distance += sum(abs(p - t) for p, t in zip(chances, said, strict=True)) / 3 / 14
            cross -= sum(t * math.log(p) for p, t in zip(chances, said, strict=True)) / 3 / 14
            error += wrong / len(rows) / 3 / 14
    assert found["manhattan"].value() == pytest.approx(distance, abs=1e-12)
    assert found["cross_entropy"].value() == pytest.approx(cross, abs=1e-12)
    assert found["error_rate"].value() == pytest.approx(error, abs=1e-12)
    assert "wasserstein" not in found


def test_several_aspects_of_texts_that_are_judged_once_have_none() -> None:
    task = Aspects(names=("a", "b"), classes=("no", "yes"))
    clusters = {"text": np.array([1, 2], dtype=np.uint64)}
    assert not judgement_metrics(task, np.zeros((2, 4)), np.zeros((2, 2), int), clusters)

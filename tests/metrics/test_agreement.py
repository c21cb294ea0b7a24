"""Agreement of judges, against slow loops over pairs."""

from __future__ import annotations

from itertools import combinations
from typing import Any

import numpy as np
import pytest

from attribune.metrics.agreement import (
    answer_distances,
    expected_distances,
    mean_differences,
)

TEXTS = np.array([2, 0, 1, 0, 2, 1, 0, 2, 2, 1, 2])
N, K = len(TEXTS), 3


def rng() -> np.random.Generator:
    return np.random.default_rng(7)


def pairs(text: int) -> list[tuple[int, int]]:
    return list(combinations(np.flatnonzero(text == TEXTS).tolist(), 2))


@pytest.mark.parametrize("positions", [None, np.array([-1.0, 0.5, 4.0])], ids=["classes", "ordered"])
def test_the_expected_distance_is_the_mean_over_pairs_and_answers(positions: Any) -> None:
    p = rng().dirichlet(np.ones(K), size=N)
    found = expected_distances(p, TEXTS, answer_distances(K, positions))
    for text in range(3):
        by_pair = []
        for i, j in pairs(text):
            total = 0.0
            for k in range(K):
                for other in range(K):
                    apart = float(k != other) if positions is None else abs(positions[k] - positions[other])
                    total += p[i, k] * p[j, other] * apart
            by_pair.append(total)
        assert found[text] == pytest.approx(np.mean(by_pair))


def test_the_distance_of_given_answers_is_one_less_the_agreement_of_fleiss() -> None:
    answers = rng().integers(K, size=N)
    found = expected_distances(np.identity(K)[answers], TEXTS, answer_distances(K))
    for text in range(3):
        given = answers[text == TEXTS]
        counts = np.bincount(given, minlength=K)
        agreement = (counts * (counts - 1)).sum() / (len(given) * (len(given) - 1))
        assert found[text] == pytest.approx(1 - agreement)


def test_the_mean_difference_is_that_of_all_pairs() -> None:
    values = rng().normal(1e6, 3, size=N).round(1)
    found = mean_differences(values, TEXTS)
    for text in range(3):
        assert found[text] == pytest.approx(np.mean([abs(values[i] - values[j]) for i, j in pairs(text)]))
    np.testing.assert_array_equal(mean_differences(np.full(N, 0.1), TEXTS), 0)

"""Agreement of judges, against slow loops over pairs."""

from __future__ import annotations

from itertools import combinations
from typing import Any

import numpy as np
import pytest
from scipy import stats

from attribune.metrics.distributions import (
    answer_distances,
    expected_distances,
    mean_differences,
    others_means,
    shrunken_means,
    spread,
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


@pytest.mark.parametrize("shape", [(N,), (N, K)])
def test_the_mean_of_the_others_leaves_the_own_value_out(shape: tuple[int, ...]) -> None:
    values = rng().normal(size=shape)
    found = others_means(values, TEXTS)
    for row in range(N):
        others = [other for other in range(N) if TEXTS[other] == TEXTS[row] and other != row]
        np.testing.assert_allclose(found[row], np.mean(values[others], axis=0))


def test_the_spread_is_the_standard_deviation() -> None:
    values = rng().normal(1e5, 2, size=50)
    assert spread(values).value() == pytest.approx(values.std())
    assert spread(np.full(4, 0.3)).value() == 0


def test_shrunken_means_are_those_of_a_loop_over_standard_deviations() -> None:
    groups = np.repeat([0, 1, 2, 3], [5, 40, 12, 1])
    values = rng().normal(size=len(groups)) + np.array([0.5, -1, 0, 3])[groups]
    found = shrunken_means(values, groups)
    own = [values[groups == group] for group in range(4)]
    pooled = sum(((one - one.mean()) ** 2).sum() for one in own) / (len(values) - 4)
    means = [one.mean() for one in own]
    v = [(((one - one.mean()) ** 2).sum() + 10 * pooled) / (len(one) - 1 + 10) / len(one) for one in own]
    size = np.sqrt(np.mean(np.square(means)) + np.mean(v))
    weights, centres, squares = [], [], []
    for tau in np.linspace(0, 4 * size, 400):
        weights.append(np.prod([stats.norm.pdf(m, 0, np.sqrt(tau**2 + x)) for m, x in zip(means, v, strict=True)]))
        w = [tau**2 / (tau**2 + x) for x in v]
        centres.append([a * m for a, m in zip(w, means, strict=True)])
        squares.append([a * x + (a * m) ** 2 for a, x, m in zip(w, v, means, strict=True)])
    share = np.array(weights)[:, None] / np.sum(weights)
    centre = (share * centres).sum(axis=0)
    deviation = np.sqrt((share * squares).sum(axis=0) - centre**2)
    np.testing.assert_allclose(found.means, means)
    np.testing.assert_allclose(found.shrunken, centre, rtol=1e-6)
    np.testing.assert_allclose(found.low, centre - 1.959964 * deviation, rtol=1e-5)
    np.testing.assert_allclose(found.high, centre + 1.959964 * deviation, rtol=1e-5)


def test_a_group_of_few_rows_is_drawn_to_zero_more_than_one_of_many() -> None:
    groups = np.repeat([0, 1, 2, 3], [3, 300, 100, 100])
    values = np.tile([1.5, 0.5], 253)[: len(groups)] - np.array([0, 0, 2, 2])[groups]
    found = shrunken_means(values, groups)
    shares = found.shrunken / found.means
    assert 0 < shares[0] < shares[1] < 1
    assert found.high[0] - found.low[0] > found.high[1] - found.low[1] > 0


def test_intervals_hold_the_means_that_values_were_drawn_with() -> None:
    """Nineteen of twenty of them, on average over many draws, as well where groups do not differ at all."""
    for tau in (0.0, 0.3, 2.0):
        generator, inside = np.random.default_rng(1), []
        for _ in range(60):
            true = generator.normal(0, tau, size=12)
            groups = np.repeat(np.arange(12), generator.integers(20, 60, size=12))
            found = shrunken_means(generator.normal(true[groups], 2), groups)
            inside.append((found.low <= true) & (true <= found.high))
        assert 0.93 < np.mean(inside) <= 1


@pytest.mark.parametrize("values", [[0.0] * 6, [1.0] * 3 + [-1.0] * 3, [2.0] * 6], ids=["zero", "constant", "equal"])
def test_groups_without_any_spread_have_finite_ends(values: list[float]) -> None:
    found = shrunken_means(np.array(values), np.repeat([0, 1], 3))
    for ends in (found.low, found.shrunken, found.high):
        assert np.isfinite(ends).all()
    np.testing.assert_allclose(found.shrunken, found.means, rtol=1e-3)

"""The bootstrap: against a slow loop over rows, against analytic standard errors, and its promises."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from scipy import stats

from attribune.errors import ConfigError, DataError
from attribune.metrics import bootstrap
from attribune.metrics import formulas as metrics
from attribune.metrics.bootstrap import interval, paired, paired_mean
from attribune.metrics.formulas import pooled


def labels(rows, classes, seed, right=0.6):
    rng = np.random.default_rng(seed)
    true = rng.integers(0, classes, rows)
    return true, np.where(rng.random(rows) < right, true, rng.integers(0, classes, rows))


def slow(make, arrays, resamples, seed):
    """Resample whole rows, one metric at a time."""
    rng = np.random.default_rng(seed)
    rows = len(arrays[0])
    return np.array([make(*(array[picked] for array in arrays)) for picked in rng.integers(0, rows, (resamples, rows))])


def test_interval_of_accuracy_has_the_analytic_standard_error():
    true = np.zeros(2_000, dtype=int)
    predicted = np.where(np.arange(2_000) < 500, 1, 0)
    result = interval(metrics.accuracy(true, predicted))
    error = np.sqrt(0.75 * 0.25 / 2_000)
    assert result.value == 0.75
    assert result.low == pytest.approx(0.75 - 1.96 * error, abs=0.1 * error)
    assert result.high == pytest.approx(0.75 + 1.96 * error, abs=0.1 * error)
    assert interval(metrics.macro_f1(true, predicted, classes=2)).resamples == 10_000


@pytest.mark.slow
@pytest.mark.parametrize("level", [pytest.param(0.5, marks=pytest.mark.exhaustive), 0.9])
def test_interval_of_macro_f1_equals_a_slow_loop(level):
    true, predicted = labels(200, 3, seed=1)
    drawn = slow(lambda t, p: metrics.macro_f1(t, p, classes=3).value(), (true, predicted), 3_000, seed=5)
    result = interval(metrics.macro_f1(true, predicted, classes=3), level=level)
    low, high = np.quantile(drawn, [(1 - level) / 2, (1 + level) / 2])
    assert result.low == pytest.approx(low, abs=0.12 * drawn.std())
    assert result.high == pytest.approx(high, abs=0.12 * drawn.std())


def test_interval_of_distinct_rows_equals_a_slow_loop():
    rng = np.random.default_rng(2)
    true = rng.normal(size=150)
    predicted = true + rng.standard_t(4, size=150)
    drawn = slow(lambda t, p: np.sqrt(np.mean((t - p) ** 2)), (true, predicted), 5_000, seed=6)
    result = interval(metrics.rmse(true, predicted))
    assert result.low == pytest.approx(np.quantile(drawn, 0.025), abs=0.12 * drawn.std())
    assert result.high == pytest.approx(np.quantile(drawn, 0.975), abs=0.12 * drawn.std())


@pytest.mark.slow
def test_both_ways_of_drawing_have_the_multinomial_mean_and_covariance(monkeypatch):
    counts = np.array([1, 4, 7])
    share = counts / 12
    covariance = 12 * (np.diag(share) - np.outer(share, share))
    by_group = np.concatenate(list(bootstrap._by_group(counts, chunk=7_000, resamples=40_000, seed=0)))
    kept = np.concatenate(list(bootstrap._by_row(counts, resamples=40_000, seed=0)))
    monkeypatch.setattr(bootstrap, "_CHUNK_CELLS", 5)
    monkeypatch.setattr(bootstrap, "_CACHED_CELLS", 0)
    anew = np.concatenate(list(bootstrap._by_row(counts, resamples=40_000, seed=0)))
    for drawn in (by_group, kept, anew):
        assert (drawn.sum(axis=1) == 12).all()
        np.testing.assert_allclose(drawn.mean(axis=0), counts, atol=0.05)
        np.testing.assert_allclose(np.cov(drawn.T), covariance, atol=0.06)


def test_groups_without_rows_are_never_drawn():
    drawn = np.concatenate(list(bootstrap._by_row(np.array([0, 2, 0, 0, 3, 0]), resamples=50, seed=0)))
    assert (drawn[:, [0, 2, 3, 5]] == 0).all()
    assert (drawn.sum(axis=1) == 5).all()


def test_chunks_do_not_change_the_shape_of_the_result(monkeypatch):
    true, predicted = labels(300, 3, seed=3)
    metric = metrics.macro_f1(true, predicted, classes=3)
    whole = interval(metric, resamples=2_000)
    monkeypatch.setattr(bootstrap, "_CHUNK_CELLS", 301)
    pieces = interval(metric, resamples=2_000)
    assert pieces.resamples == whole.resamples == 2_000
    assert pieces.low == pytest.approx(whole.low, abs=0.01)


def test_a_seed_repeats_and_another_seed_does_not():
    rng = np.random.default_rng(4)
    metric = metrics.rmse(rng.normal(size=100), rng.normal(size=100))
    assert interval(metric, resamples=100, seed=3) == interval(metric, resamples=100, seed=3)
    assert interval(metric, resamples=100, seed=3) != interval(metric, resamples=100, seed=4)


def test_many_distinct_rows_shrink_the_number_of_resamples(monkeypatch):
    rng = np.random.default_rng(5)
    monkeypatch.setattr(bootstrap, "_MANY_GROUPS", 50)
    metric = metrics.mae(rng.normal(size=100), rng.normal(size=100))
    assert interval(metric, resamples=10_000).resamples == 5_000
    assert interval(metric, resamples=1_500).resamples == 1_000
    assert interval(metric, resamples=300).resamples == 300


def test_an_error_without_spread_has_an_interval_of_no_width():
    result = interval(metrics.rmse([1, 0, 1], [1, 0, 1]), resamples=50)
    assert (result.value, result.low, result.high) == (0.0, 0.0, 0.0)


def test_equal_models_differ_by_nothing():
    true, predicted = labels(100, 4, seed=6)
    metric = metrics.macro_f1(true, predicted, classes=4)
    result = paired(metric, metric, resamples=500)
    assert (result.difference, result.low, result.high, result.p_value) == (0.0, 0.0, 0.0, 1.0)


def test_paired_accuracy_has_the_analytic_standard_error_of_the_difference():
    # 60 rows only a has right, 40 only b, 400 both: the difference is 20/500 with a variance from 100 discordant rows.
    true = np.ones(500, dtype=int)
    a = np.concatenate([np.ones(60), np.zeros(40), np.ones(400)])
    b = np.concatenate([np.zeros(60), np.ones(40), np.ones(400)])
    result = paired(metrics.accuracy(true, a), metrics.accuracy(true, b))
    error = np.sqrt((100 / 500 - (20 / 500) ** 2) / 500)
    assert result.difference == pytest.approx(0.04)
    assert result.low == pytest.approx(0.04 - 1.96 * error, abs=0.15 * error)
    assert result.high == pytest.approx(0.04 + 1.96 * error, abs=0.15 * error)
    assert result.p_value == pytest.approx(stats.binomtest(60, 100).pvalue)  # above that of z = 0.04 / 0.01996 = 2.004


@pytest.mark.slow
def test_paired_equals_a_slow_loop_that_resamples_the_same_rows():
    true, a = labels(150, 3, seed=7, right=0.7)
    b = np.where(np.random.default_rng(8).random(150) < 0.8, a, 0)
    macro = lambda t, p: metrics.macro_f1(t, p, classes=3)  # noqa: E731
    drawn = slow(lambda t, p, q: macro(t, p).value() - macro(t, q).value(), (true, a, b), 3_000, seed=9)
    result = paired(macro(true, a), macro(true, b))
    assert result.low == pytest.approx(np.quantile(drawn, 0.025), abs=0.15 * drawn.std())
    assert result.high == pytest.approx(np.quantile(drawn, 0.975), abs=0.15 * drawn.std())
    observed = macro(true, a).value() - macro(true, b).value()
    p_value = (1 + (np.abs(drawn - observed) >= abs(observed)).sum()) / 3_001
    assert result.p_value == pytest.approx(p_value, abs=0.03)


def test_order_of_the_models_changes_the_sign_alone():
    true, a = labels(200, 3, seed=10, right=0.7)
    _, b = labels(200, 3, seed=10, right=0.5)
    forth = paired(metrics.accuracy(true, a), metrics.accuracy(true, b), resamples=4_000)
    back = paired(metrics.accuracy(true, b), metrics.accuracy(true, a), resamples=4_000)
    assert back.difference == -forth.difference
    assert back.p_value == pytest.approx(forth.p_value, abs=0.03)


def test_p_value_is_small_and_never_zero_for_a_certain_difference():
    true = np.zeros(400, dtype=int)
    result = paired(metrics.accuracy(true, true), metrics.accuracy(true, np.arange(400) % 2), resamples=999)
    assert result.p_value == 1 / 1_000


def test_p_values_are_uniform_when_there_is_no_difference():
    values = []
    for seed in range(200):
        rng = np.random.default_rng(seed)
        true = np.zeros(300, dtype=int)
        a, b = (rng.random((2, 300)) < 0.4).astype(int)
        values.append(paired(metrics.accuracy(true, a), metrics.accuracy(true, b), resamples=400, seed=seed).p_value)
    # 200 tests at 5 %: 10 expected, 3 to 20 within four standard errors.
    assert 3 <= sum(value < 0.05 for value in values) <= 22
    assert 0.4 < np.mean(values) < 0.6


def test_paired_with_numbers_prefers_the_smaller_error():
    rng = np.random.default_rng(11)
    true = rng.normal(size=300)
    good, bad = true + rng.normal(size=300), true + 2 * rng.normal(size=300)
    result = paired(metrics.rmse(true, good), metrics.rmse(true, bad), resamples=2_000)
    assert result.difference < 0
    assert result.high < 0
    assert result.p_value < 0.01


def test_wrong_settings_are_named():
    metric = metrics.accuracy([0, 1], [0, 1])
    with pytest.raises(ConfigError, match="level is 95"):
        interval(metric, level=95)
    with pytest.raises(ConfigError, match="resamples is 0"):
        interval(metric, resamples=0)
    with pytest.raises(DataError, match="2 and on 3 rows"):
        paired(metric, metrics.accuracy([0, 1, 1], [0, 1, 1]))
    with pytest.raises(DataError, match="'accuracy' cannot be compared with 'rmse'"):
        paired(metric, metrics.rmse([0, 1], [0, 1]))


# Against scipy, and by simulation


def test_intervals_are_those_of_scipy() -> None:
    chance = np.random.default_rng(4)
    true, predicted = chance.integers(0, 3, 400), chance.integers(0, 3, 400)
    predicted[:180] = true[:180]
    hits = (true == predicted).astype(float)
    ours = interval(metrics.accuracy(true, predicted))
    theirs = stats.bootstrap((hits,), np.mean, method="percentile", n_resamples=10_000, rng=chance).confidence_interval
    assert (ours.low, ours.high) == pytest.approx((theirs.low, theirs.high), abs=0.005)
    errors = chance.gamma(2.0, size=300)
    ours = interval(metrics.rmse(np.zeros(300), errors))
    root = stats.bootstrap(
        (errors,), lambda x, axis: np.sqrt((x**2).mean(axis=axis)), method="percentile", n_resamples=10_000, rng=chance
    ).confidence_interval
    assert (ours.low, ours.high) == pytest.approx((root.low, root.high), abs=0.03)


@pytest.mark.slow
@pytest.mark.parametrize("gap", [0.0, 0.03, 0.06, 0.1])
def test_p_values_are_those_of_scipys_paired_permutation_test(gap: float) -> None:
    chance = np.random.default_rng(6)
    true = np.zeros(500, dtype=int)
    first, second = (chance.random(500) > 0.7).astype(int), (chance.random(500) > 0.7 - gap).astype(int)
    ours = paired(metrics.accuracy(true, first), metrics.accuracy(true, second)).p_value
    hits = (true == first).astype(float), (true == second).astype(float)
    theirs = stats.permutation_test(
        hits, lambda a, b, axis: (a - b).mean(axis=axis), permutation_type="samples", n_resamples=10_000, rng=chance
    ).pvalue
    assert ours == pytest.approx(theirs, abs=0.05)  # both count ties, of which whole rows make many


def _coverage(simulate: Callable[[np.random.Generator], tuple[float, float]], truth: float, *, times: int) -> float:
    chance = np.random.default_rng(8)
    found = [simulate(chance) for _ in range(times)]
    return sum(low <= truth <= high for low, high in found) / times


@pytest.mark.slow
@pytest.mark.parametrize("n", [120, 500])
def test_intervals_cover_as_often_as_they_claim(n: int) -> None:
    """Of 400 data sets, each with its own rows, about 95 % have an interval with the true accuracy in it."""

    def of_accuracy(chance: np.random.Generator) -> tuple[float, float]:
        predicted = (chance.random(n) > 0.7).astype(int)
        found = interval(metrics.accuracy(np.zeros(n, dtype=int), predicted), resamples=800)
        return found.low, found.high

    def of_difference(chance: np.random.Generator) -> tuple[float, float]:
        shared = chance.random(n)  # both models find the same rows hard
        first = (shared + 0.2 * chance.random(n) > 0.8).astype(int)
        second = (shared + 0.2 * chance.random(n) > 0.7).astype(int)
        true = np.zeros(n, dtype=int)
        found = paired(metrics.accuracy(true, first), metrics.accuracy(true, second), resamples=800)
        return found.low, found.high

    spread = 3 * (0.95 * 0.05 / 400) ** 0.5
    assert abs(_coverage(of_accuracy, 0.7, times=400) - 0.95) < spread + 0.01
    assert abs(_coverage(of_difference, 0.1, times=400) - 0.95) < spread + 0.01


@pytest.mark.slow
def test_rows_of_several_seeds_are_drawn_together():
    rng = np.random.default_rng(9)
    true, keys = rng.integers(0, 3, 200), rng.integers(0, 80, 200)
    predicted = np.where(rng.random(200) < 0.6, true, rng.integers(0, 3, 200))
    halves = [slice(0, 70), slice(70, 200)]
    parts = [metrics.macro_f1(true[half], predicted[half], classes=3) for half in halves]
    whole = pooled(parts, [keys[half] for half in halves])
    assert whole.value() == pytest.approx(metrics.macro_f1(true, predicted, classes=3).value())
    names, drawn = np.unique(keys), []
    for _ in range(1_500):
        rows = np.concatenate([np.flatnonzero(keys == key) for key in rng.choice(names, len(names))])
        drawn.append(metrics.macro_f1(true[rows], predicted[rows], classes=3).value())
    found = interval(whole)
    assert found.low == pytest.approx(np.quantile(drawn, 0.025), abs=0.2 * np.std(drawn))
    assert found.high == pytest.approx(np.quantile(drawn, 0.975), abs=0.2 * np.std(drawn))


def test_the_mean_over_sets_has_the_variance_of_a_mean() -> None:
    """Of independent sets: a quarter of the sum of both; one set alone is compared as always."""
    generator = np.random.default_rng(2)
    pairs = []
    for rows, right in ((400, 0.8), (900, 0.6)):
        true = generator.integers(2, size=rows)
        first, second = (np.where(generator.random(rows) < share, true, 1 - true) for share in (right, right - 0.1))
        pairs.append((metrics.accuracy(true, first), metrics.accuracy(true, second)))
    alone = [paired(*pair, seed=number) for number, pair in enumerate(pairs)]
    found = paired_mean(pairs)
    assert found.difference == pytest.approx(np.mean([one.difference for one in alone]))
    widths = [one.high - one.low for one in alone]
    assert found.high - found.low == pytest.approx(np.hypot(*widths) / 2, rel=0.05)
    assert found.low < found.difference < found.high
    assert paired_mean(pairs[:1]) == alone[0]
    same = paired_mean([(pairs[0][0], pairs[0][0]), (pairs[1][0], pairs[1][0])])
    assert (same.difference, same.p_value) == (0, 1)

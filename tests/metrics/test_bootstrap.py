"""The bootstrap: against a slow loop over rows, and its promises."""

from __future__ import annotations

import numpy as np
import pytest

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

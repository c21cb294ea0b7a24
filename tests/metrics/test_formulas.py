"""Metrics: hand-computed answers, equality with scikit-learn, and resamples as weighted rows."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from sklearn import metrics as sk

from attribune.errors import DataError
from attribune.metrics import formulas as metrics
from attribune.metrics.formulas import pooled
from attribune.metrics.metric import metric_info

pytestmark = pytest.mark.slow

IDS = st.lists(st.tuples(st.integers(0, 4), st.integers(0, 4)), min_size=1, max_size=40)
CELLS = st.lists(st.tuples(*[st.booleans()] * 6), min_size=1, max_size=20)
NUMBERS = st.lists(st.tuples(st.integers(-50, 50), st.integers(-50, 50)), min_size=2, max_size=30)


def test_unseen_labels_are_one_more_class_that_is_always_missed():
    true, predicted = [0, 1, -100, -100], [0, 1, 1, 0]
    assert metrics.accuracy(true, predicted).value() == 0.5
    assert metrics.macro_f1(true, predicted, classes=2).value() == pytest.approx((2 / 3 + 2 / 3 + 0) / 3)
    assert metrics.macro_f1(true, predicted, classes=2).value() == pytest.approx(
        sk.f1_score(true, predicted, average="macro", zero_division=0)
    )


@pytest.mark.parametrize(
    ("name", "is_share", "is_higher_better"),
    [
        ("accuracy", True, True),
        ("macro_f1", True, True),
        *((name, False, True) for name in ("r2", "pearson", "spearman", "matthews")),
        *((name, False, False) for name in ("rmse", "mae", "log_loss")),
    ],
)
def test_what_is_better_and_what_is_a_share(name, is_share, is_higher_better):
    assert (metric_info(name).is_share, metric_info(name).higher_is_better) == (is_share, is_higher_better)


@pytest.mark.parametrize("make", [metrics.pearson, metrics.spearman])
def test_a_constant_correlates_with_nothing(make):
    for true, predicted in (([1, 1], [1, 2]), ([1, 2], [5, 5]), ([1e300, 1e300], [0, 1]), ([3], [4])):
        assert make(true, predicted).value() == 0


@settings(deadline=None, max_examples=60)
@given(NUMBERS, st.sampled_from([0, 1e8, -1e-8]))
def test_correlations_equal_scipy(pairs, offset):
    true, predicted = np.array(pairs).T
    if len(set(true)) == 1 or len(set(predicted)) == 1:
        return
    expected = stats.pearsonr(true, predicted).statistic, stats.spearmanr(true, predicted).statistic
    found = metrics.pearson(true + offset, predicted).value(), metrics.spearman(true + offset, predicted).value()
    assert found == pytest.approx(expected, abs=1e-7)


@settings(deadline=None, max_examples=60)
@given(NUMBERS, st.randoms(use_true_random=False))
def test_a_resample_of_a_correlation_is_that_of_its_rows(pairs, chance):
    true, predicted = np.array(pairs).T
    drawn = np.array([chance.randrange(len(true)) for _ in true])
    for make in (metrics.pearson, metrics.spearman):
        metric = make(true, predicted)
        counts = np.bincount(metric.rows[drawn], minlength=metric.statistics.shape[0])
        assert metric.of_counts(counts[None])[0] == pytest.approx(make(true[drawn], predicted[drawn]).value(), abs=1e-9)


@settings(deadline=None, max_examples=30)
@given(NUMBERS, st.integers(1, 6))
def test_a_pooled_correlation_is_that_of_all_rows(pairs, folds):
    true, predicted = np.array(pairs).T
    parts = [part for part in np.array_split(np.arange(len(true)), folds) if len(part)]
    keys = [part % 3 for part in parts]
    for make in (metrics.pearson, metrics.spearman):
        several = [make(true[part], predicted[part]) for part in parts]
        assert pooled(several).value() == pytest.approx(make(true, predicted).value(), abs=1e-9)
        assert pooled(several, keys).value() == pytest.approx(make(true, predicted).value(), abs=1e-9)


@pytest.mark.parametrize("far", [1e2, 1e4, 1e6])
def test_a_correlation_without_the_row_that_is_far_from_all_others(far):
    chance = np.random.default_rng(0)
    true = np.append(chance.normal(size=199), far)
    predicted = true + np.append(chance.normal(size=199), 0)
    near = np.arange(200) < 199
    found = metrics.pearson(true, predicted).select(near).value()
    assert found == pytest.approx(stats.pearsonr(true[near], predicted[near])[0], abs=1e-6)
    assert metrics.pearson(np.append(np.full(199, 0.3), far), predicted).select(near).value() == 0


@settings(deadline=None, max_examples=60)
@given(IDS)
def test_matthews_equals_scikit_learn(pairs):
    true, predicted = np.array(pairs).T
    if len({*true, *predicted}) == 1:
        assert metrics.matthews(true, predicted, classes=5).value() == 0
        return
    true = np.where(true == 4, -100, true)
    found = metrics.matthews(true, predicted, classes=5).value()
    assert found == pytest.approx(sk.matthews_corrcoef(np.where(true < 0, 5, true), predicted), abs=1e-9)


@settings(deadline=None, max_examples=60)
@given(IDS)
def test_class_metrics_equal_scikit_learn(pairs):
    true, predicted = np.array(pairs).T
    assert metrics.accuracy(true, predicted).value() == pytest.approx(sk.accuracy_score(true, predicted))
    assert metrics.macro_f1(true, predicted, classes=5).value() == pytest.approx(
        sk.f1_score(true, predicted, average="macro", zero_division=0)
    )
    assert metrics.f1(true, predicted, positive=3).value() == pytest.approx(
        sk.f1_score(true == 3, predicted == 3, zero_division=0)
    )


@settings(deadline=None, max_examples=60)
@given(CELLS)
def test_label_metrics_equal_scikit_learn(rows):
    cells = np.array(rows, dtype=int)
    true, predicted = cells[:, :3], cells[:, 3:]
    for average, metric in (("micro", metrics.label_micro_f1), ("macro", metrics.label_macro_f1)):
        expected = sk.f1_score(true, predicted, average=average, zero_division=0)
        assert metric(true, predicted).value() == pytest.approx(expected)
    assert metrics.subset_accuracy(true, predicted).value() == pytest.approx(sk.accuracy_score(true, predicted))


def test_label_macro_f1_with_more_classes_than_bits_of_a_byte():
    rng = np.random.default_rng(0)
    true, predicted = rng.random((50, 13)) < 0.3, rng.random((50, 13)) < 0.3
    expected = sk.f1_score(true, predicted, average="macro", zero_division=0)
    assert metrics.label_macro_f1(true, predicted).value() == pytest.approx(expected)


@settings(deadline=None, max_examples=60)
@given(NUMBERS)
def test_number_metrics_equal_scikit_learn(pairs):
    true, predicted = np.array(pairs, dtype=float).T
    assert metrics.rmse(true, predicted).value() == pytest.approx(sk.root_mean_squared_error(true, predicted))
    assert metrics.mae(true, predicted).value() == pytest.approx(sk.mean_absolute_error(true, predicted))
    assert metrics.r2(true, predicted).value() == pytest.approx(sk.r2_score(true, predicted), abs=1e-9)


def test_r2_of_constant_values_and_of_large_values_with_a_small_spread():
    assert metrics.r2([3.0, 3.0], [3.0, 3.0]).value() == 1.0
    assert metrics.r2([0.1, 0.1, 0.1], [0.1, 0.2, 0.1]).value() == 0.0
    true = np.array([0.0, 1.0, 2.0, 3.0])
    predicted = np.array([0.5, 1.0, 2.0, 3.0])
    assert metrics.r2(true + 1e9, predicted + 1e9).value() == pytest.approx(1 - 0.25 / 5)


def test_log_loss():
    rng = np.random.default_rng(3)
    true, logits = rng.integers(0, 5, 200), 40 * rng.normal(size=(200, 5))
    probabilities = np.exp(logits - logits.max(axis=1, keepdims=True))
    expected = -np.log(probabilities[np.arange(200), true] / probabilities.sum(axis=1)).mean()
    assert metrics.log_loss(true, logits).value() == pytest.approx(expected, rel=1e-12)
    assert metrics.log_loss([0], [[-1000.0, 0.0]]).value() == 1000.0
    with pytest.raises(DataError, match=r"\(3,\).*\(2, 4\)"):
        metrics.log_loss([0, 1, 2], np.zeros((2, 4)))


def test_mean_accuracy_over_aspects():
    true, predicted = [[0, 1], [2, 3]], [[0, 0], [2, 3]]
    assert metrics.mean_accuracy(true, predicted).value() == 0.75


@pytest.mark.parametrize("count", [1, 3])
def test_a_resample_is_the_metric_of_the_repeated_rows(count):
    rng = np.random.default_rng(count)
    true, predicted = rng.integers(0, 3, 31), rng.integers(0, 3, 31)
    numbers, guesses = rng.normal(size=31), rng.normal(size=31)
    cells, guessed = rng.random((31, 3)) < 0.5, rng.random((31, 3)) < 0.5
    rows = rng.integers(0, 31, 31)
    cases = [
        (metrics.accuracy, (true, predicted), {}),
        (metrics.f1, (true, predicted), {"positive": 1}),
        (metrics.macro_f1, (true, predicted), {"classes": 3}),
        (metrics.label_micro_f1, (cells, guessed), {}),
        (metrics.label_macro_f1, (cells, guessed), {}),
        (metrics.subset_accuracy, (cells, guessed), {}),
        (metrics.rmse, (numbers, guesses), {}),
        (metrics.mae, (numbers, guesses), {}),
        (metrics.r2, (numbers, guesses), {}),
    ]
    for make, (first, second), options in cases:
        metric = make(first, second, **options)
        counts = np.bincount(metric.rows[rows], minlength=metric.statistics.shape[0])
        expected = make(first[rows], second[rows], **options).value()
        found = metric.of_counts(np.tile(counts, (count, 1)))
        np.testing.assert_allclose(found, np.full(count, expected), rtol=1e-12, atol=1e-12)


def test_rows_are_counted():
    assert len(metrics.accuracy([0, 1, 1], [0, 1, 0])) == 3


def test_wrong_input_is_named():
    with pytest.raises(DataError, match=r"\(3,\) and predictions \(2,\)"):
        metrics.accuracy([0, 1, 1], [0, 1])
    with pytest.raises(DataError, match="2 axes"):
        metrics.subset_accuracy([0, 1], [0, 1])
    with pytest.raises(DataError, match="'rmse' has 0 rows"):
        metrics.rmse([], [])
    with pytest.raises(DataError, match="'r2' has 0 rows"):
        metrics.r2([], [])
    with pytest.raises(DataError, match="from 0 to 1"):
        metrics.macro_f1([0, 1], [0, 2], classes=2)

"""What few rows show: intervals have a width at 0 and 1, and a difference needs six rows in which two models differ."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from scipy import optimize, stats

from attribune.metrics import bootstrap, formulas
from attribune.metrics.bootstrap import PairedResult, interval, paired, paired_mean, paired_wilson, wilson
from attribune.metrics.distributions import judge_metrics
from attribune.metrics.metric import Metric
from attribune.metrics.results import Comparison, compare_metrics
from attribune.metrics.sign_flips import flip_test
from attribune.metrics.tables import comparison_lines

Array = Any


def hits(*values: float, clusters: tuple[Array, ...] = ()) -> Metric:
    return replace(formulas.mean_of("accuracy", np.array(values, dtype=float)), clusters=clusters)


def coins(n: int, only_first: int, only_second: int) -> tuple[Metric, Metric]:
    """Two models on n rows, some of which only one of them has right."""
    rest = n - only_first - only_second
    return hits(*[1] * only_first, *[0] * only_second, *[1] * rest), hits(
        *[0] * only_first, *[1] * only_second, *[1] * rest
    )


@pytest.mark.parametrize(("right", "n"), [(0, 1), (2, 2), (0, 30), (30, 30), (1, 7), (150, 200)])
def test_a_share_has_the_wilson_interval(right: int, n: int) -> None:
    found = interval(hits(*[1] * right, *[0] * (n - right)))
    expected = stats.binomtest(right, n).proportion_ci(method="wilson")
    assert (found.low, found.high) == pytest.approx((expected.low, expected.high))
    assert found.low < found.high
    assert found.resamples == 0


@pytest.mark.parametrize("right", [True, False])
@pytest.mark.parametrize("rows", [2, 30])
def test_f1_has_a_width_at_its_ends(right: bool, rows: int) -> None:
    """Rows that are of no class that counts say nothing of it."""
    true = np.concatenate([np.ones(rows, dtype=int), np.zeros(400, dtype=int)])
    found = interval(formulas.f1(true, true if right else np.zeros_like(true), positive=1), resamples=200)
    low, high = wilson(float(right), rows, level=0.95)
    assert found.low <= low + 1e-9
    assert found.high == pytest.approx(high)
    macro = interval(formulas.macro_f1(true[:rows], true[:rows] * right, classes=2), resamples=200)
    assert (macro.low, macro.high) == pytest.approx(wilson(float(right), rows, level=0.95))


def test_nothing_that_counts_is_no_information() -> None:
    found = interval(formulas.f1(np.zeros(9), np.zeros(9), positive=1), resamples=50)
    assert (found.low, found.value, found.high) == (0, 0, 1)


def test_of_clusters_it_is_that_of_as_many_independent_rows() -> None:
    texts = np.repeat(np.arange(10), 20)
    for right in (0, 1):
        found = interval(hits(*[right] * 200, clusters=(texts,)))
        assert (found.low, found.high) == pytest.approx(wilson(right, 10, level=0.95))
    own = np.random.default_rng(0).permutation(np.repeat([0, 1], 5))[texts]
    found = interval(hits(*own, clusters=(texts,)))
    uncertain = 10 / 9 * (stats.t.ppf(0.975, 9) / stats.norm.ppf(0.975)) ** 2
    assert (found.low, found.high) == pytest.approx(wilson(0.5, 10 / uncertain, level=0.95), abs=0.01)


def _score(up: float, down: float, n: int, delta: float) -> float:
    """The score test of a difference, with the likeliest shares that have it found numerically."""
    least, most = max(0.0, -delta), (1 - delta) / 2

    def negative(share: float) -> float:
        cells = share + delta, share, 1 - 2 * share - delta
        return -sum(w * np.log(max(cell, 1e-300)) for w, cell in zip((up, down, 1 - up - down), cells, strict=True))

    share = optimize.minimize_scalar(negative, bounds=(least, most), method="bounded", options={"xatol": 1e-12}).x
    return (up - down - delta) / np.sqrt((2 * share + delta - delta**2) / n)


@pytest.mark.parametrize(("only_first", "only_second", "n"), [(12, 4, 60), (3, 2, 20), (1, 0, 44), (60, 40, 500)])
def test_the_interval_of_a_difference_inverts_the_score_test(only_first: int, only_second: int, n: int) -> None:
    ends = paired_wilson(only_first / n, only_second / n, n, level=0.95)
    assert [_score(only_first / n, only_second / n, n, end) for end in ends] == pytest.approx([1.96, -1.96], abs=0.01)
    found = paired(*coins(n, only_first, only_second), resamples=500)
    if found.low != 0:
        assert (found.low, found.high) == pytest.approx(ends)


def test_equal_models_may_still_differ() -> None:
    low, high = paired_wilson(0, 0, 30, level=0.95)
    assert -low == pytest.approx(high)
    assert high == pytest.approx(1.959964**2 / (30 + 1.959964**2))
    found = paired(*coins(30, 0, 0), resamples=100)
    assert (found.difference, found.p_value, found.high) == (0, 1, pytest.approx(high))


@pytest.mark.parametrize("n", [1, 2, 5, 6, 12, 40])
def test_two_test_rows_show_nothing_and_six_may(n: int) -> None:
    found = paired(*coins(n, n, 0))
    assert found.difference == 1
    assert found.p_value == max(0.5 ** (n - 1), 1 / 10_001)
    assert found.shows_difference == (n >= 6)
    assert found.can_show_none == (n < 6)
    assert (found.low <= 0) == (n < 6)


@pytest.mark.parametrize(("only_first", "only_second"), [(7, 1), (9, 2), (20, 8), (60, 40), (15, 15)])
def test_an_accuracy_has_the_exact_sign_test(only_first: int, only_second: int) -> None:
    test = flip_test(*bootstrap._on_the_same_rows(*coins(200, only_first, only_second)), resamples=10)
    count = only_first + only_second
    assert test.p_value == pytest.approx(stats.binomtest(only_first, count).pvalue)
    assert test.differing == count
    needed = round(200 * test.smallest)
    ends = [stats.binomtest((count + lead) // 2, count).pvalue for lead in (needed, needed - 2)]
    assert ends[0] < 0.05 <= ends[1]


@pytest.mark.parametrize("n", [1, 2, 3, 5])
def test_coins_do_not_differ_on_fewer_than_six_rows(n: int) -> None:
    rng = np.random.default_rng(n)
    assert not any(paired(hits(*a), hits(*b), resamples=50).shows_difference for a, b in rng.integers(0, 2, (60, 2, n)))


def test_the_smallest_difference_that_could_be_shown() -> None:
    assert paired(*coins(30, 30, 0)).smallest == pytest.approx(12 / 30)
    assert paired(*coins(100, 2, 1)).smallest == pytest.approx(6 / 100), "if six rows differed, all one way"
    assert paired(*coins(5, 2, 1)).smallest is None
    chance = np.random.default_rng(1)
    true, first, second = chance.normal(size=(3, 300))
    of_errors = paired(formulas.rmse(true, first), formulas.rmse(true, second))
    assert of_errors.smallest == pytest.approx((of_errors.high - of_errors.low) / 2, rel=0.15)
    assert paired(formulas.rmse(true[:5], first[:5]), formulas.rmse(true[:5], second[:5])).can_show_none


def test_over_texts_and_judges_the_smallest_difference_is_one_that_the_interval_shows() -> None:
    """Flips of one kind of clusters alone would say less: of 30 texts and 12 judges that both add to the spread."""
    chance = np.random.default_rng(0)
    texts, judges = np.repeat(np.arange(30), 12), np.tile(np.arange(12), 30)
    gap = chance.normal(size=30)[texts] + chance.normal(size=12)[judges] + chance.normal(size=360)
    pair = [replace(formulas.mean_of("log_loss", 9 + added), clusters=(texts, judges)) for added in (gap, 0 * gap)]
    found = paired(*pair, resamples=2_000)
    alone = flip_test(*bootstrap._on_the_same_rows(*pair), resamples=2_000)
    assert not found.shows_difference
    assert alone.smallest < 0.9 * found.smallest
    assert found.smallest == pytest.approx((found.high - found.low) / 2)
    assert found.smallest >= abs(found.difference), "a larger difference would have been shown"


def of_names(true: Array, predicted: Array) -> Metric:
    return formulas.macro_f1(true, predicted, classes=3)


MAKERS: list[Callable[[Array, Array], Metric]] = [
    formulas.accuracy,
    of_names,
    formulas.rmse,
    formulas.kappa,
    formulas.r2,
    formulas.pearson,
    formulas.spearman,
]


@pytest.mark.parametrize("make", MAKERS)
@pytest.mark.parametrize("units", [None, [0, 0, 1, 1, 2, 3, 4, 5]])
def test_the_test_is_that_of_predictions_that_change_places(
    make: Callable[[Array, Array], Metric], units: list[int] | None
) -> None:
    rng = np.random.default_rng(3)
    true, first, second = rng.integers(0, 3, (3, 8))
    first[:5] = true[:5]
    clusters = () if units is None else (np.array(units),)
    which = np.arange(8) if units is None else np.array(units)
    metrics = [replace(make(true, given), clusters=clusters) for given in (first, second)]
    observed = metrics[0].value() - metrics[1].value()
    drawn = []
    for signs in itertools.product([False, True], repeat=int(which.max()) + 1):
        turned = np.array(signs)[which]
        a, b = np.where(turned, second, first), np.where(turned, first, second)
        drawn.append(make(true, a).value() - make(true, b).value())
    expected = np.mean(np.abs(drawn) >= abs(observed) - 1e-9)
    same = bootstrap._on_the_same_rows(*metrics)
    assert flip_test(*same, resamples=10_000).p_value == pytest.approx(expected)
    assert flip_test(*same, resamples=3).differing == len(np.unique(which[first != second]))


def test_random_flips_are_like_all_of_them() -> None:
    rng = np.random.default_rng(4)
    true, first, second = rng.normal(size=(3, 13))
    same = bootstrap._on_the_same_rows(formulas.mae(true, first), formulas.mae(true, second))
    exact, drawn = (flip_test(*same, resamples=resamples) for resamples in (10_000, 8_000))
    assert exact.p_value == pytest.approx(drawn.p_value, abs=0.03)
    assert exact.p_value != drawn.p_value


@pytest.mark.parametrize(
    ("texts", "judges", "shown"),
    [(5, None, False), (6, None, True), (12, 5, False), (5, 12, False), (12, 12, True)],
)
def test_units_are_texts_and_judges_where_rows_share_them(texts: int, judges: int | None, shown: bool) -> None:
    each = judges or 20
    clusters: tuple[Array, ...] = (np.repeat(np.arange(texts), each),)
    if judges is not None:
        clusters = (*clusters, np.tile(np.arange(each), texts))
    ones, zeros = (hits(*[value] * (texts * each), clusters=clusters) for value in (1, 0))
    found = paired(ones, zeros, resamples=500)
    assert found.shows_difference == shown
    assert found.differing == min(texts, judges or texts)


def test_a_formula_of_one_model_needs_six_rows_too() -> None:
    """The worst tenth of the judges are others for each model, so that rows of the two cannot change places."""
    texts, judges = np.repeat(np.arange(10), 12), np.tile(np.arange(12), 10)
    rng = np.random.default_rng(5)
    first, second = (
        judge_metrics(rng.random(120) + shift, texts=texts, judges=judges, name="error_rate")["worst_tenth"]
        for shift in (0, 2)
    )
    found = paired(first, second, resamples=500)
    assert found.p_value == 1, "the rows of both are the same judges by their place, none of which differs"


def test_the_mean_over_sets_needs_rows_in_which_models_differ() -> None:
    few = paired_mean([coins(3, 2, 0), coins(9, 2, 0)], resamples=2_000)
    assert few.p_value > 0.05
    assert few.differing == 4
    assert not few.shows_difference
    many = paired_mean([coins(30, 9, 0), coins(40, 9, 0)], resamples=2_000)
    assert many.shows_difference


def test_a_level_above_95_needs_a_smaller_p_value() -> None:
    pair = PairedResult(difference=0.2, low=0.1, high=0.3, p_value=0.02, level=0.99, resamples=10)
    assert not pair.shows_difference
    assert replace(pair, p_value=0.009).shows_difference
    assert replace(pair, level=0.95).shows_difference


def line(first: Metric, second: Metric) -> str:
    return comparison_lines([compare_metrics(first, second, names=("a", "b"), part="test")])[0]


def test_lines_say_what_could_have_been_shown() -> None:
    assert line(*coins(2, 2, 0)) == (
        "a against b, test accuracy: +100.00 points [-31.52, +100.00], p = 0.5000: no difference shown (too few rows: "
        "the two models differ in 2 of them, and at least 6 must differ to show a difference)"
    )
    assert line(*coins(4, 0, 0)).endswith(
        "the two models differ in 0 of them, and at least 6 must differ to show a difference)"
    )
    assert line(*coins(60, 9, 5)).endswith(
        "no difference shown (with these rows, a difference of less than about 16.7 points would go unnoticed)"
    )
    wide = replace(compare_metrics(*coins(60, 9, 5), names=("a", "b"), part="test"), smallest=1.2)
    assert comparison_lines([wide])[0].endswith("no difference shown (too few rows to show any difference)")
    assert line(*coins(60, 19, 5)).endswith("p = 0.0066")
    early = Comparison(
        a="a", b="b", part="test", metric="rmse", difference=0.1, low=-0.1, high=0.3, p_value=0.2, resamples=9
    )
    assert comparison_lines([early])[0].endswith("p = 0.2000: no difference shown")

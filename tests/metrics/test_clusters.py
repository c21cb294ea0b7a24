"""The bootstrap over clusters: against slow loops over rows and their pairs, and what it covers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from scipy import stats

from attribune.errors import DataError
from attribune.metrics import bootstrap, formulas
from attribune.metrics.bootstrap import interval, paired, wilson
from attribune.metrics.formulas import pooled
from attribune.metrics.metric import Metric

Array = Any


def judged(seed: int, *, texts: int = 40, judges: int = 12, each: int = 4) -> tuple[Array, Array, Array, Array]:
    """Text, judge, truth and prediction of every row; judges and texts have their own difficulty."""
    rng = np.random.default_rng(seed)
    text = np.repeat(np.arange(texts), each)
    judge = np.concatenate([rng.choice(judges, each, replace=False) for _ in range(texts)])
    hard = rng.normal(size=texts)[text] + rng.normal(size=judges)[judge]
    true = rng.integers(0, 3, len(text))
    predicted = np.where(hard + rng.normal(size=len(text)) < 0.4, true, rng.integers(0, 3, len(text)))
    return text, judge, true, predicted


def slow_weights(cluster: Array, rng: np.random.Generator) -> Array:
    """How often each row occurs when clusters are drawn anew with replacement."""
    names = np.unique(cluster)
    picked = rng.choice(names, len(names))
    times = {name: (picked == name).sum() for name in names}
    return np.array([times[name] for name in cluster])


def slow_draws(value: Callable[[Array], float], cluster: Array, *, seed: int, times: int = 600) -> Array:
    """The values of resamples of clusters, each of which repeats the rows."""
    rng = np.random.default_rng(seed)
    return np.array([value(np.repeat(np.arange(len(cluster)), slow_weights(cluster, rng))) for _ in range(times)])


def equal_clusters(cluster: Array) -> float:
    sizes = [sum(one == name for one in cluster) for name in set(cluster.tolist())]
    return sum(sizes) ** 2 / sum(size**2 for size in sizes)


def combined(variances: Sequence[float], clusters: Sequence[Array]) -> tuple[float, float]:
    """The variance over all kinds and its degrees of freedom, given that of each kind and, of two, of cells."""
    counts = [equal_clusters(cluster) for cluster in clusters]
    of_kinds = [variance * count / (count - 1) for variance, count in zip(variances, counts, strict=False)]
    total = max(sum(of_kinds) - sum(variances[len(clusters) :]), *of_kinds, 0)
    terms = (one**2 / (count - 1) for one, count in zip(of_kinds, counts, strict=True))
    return total, total**2 / sum(terms)


def with_cells(clusters: Sequence[Array]) -> list[Array]:
    if len(clusters) == 1:
        return list(clusters)
    return [*clusters, np.array([1_000 * text + judge for text, judge in zip(*clusters, strict=True)])]


def macro_f1(true: Array, predicted: Array) -> Metric:
    return formulas.macro_f1(true, predicted, classes=3)


KINDS: list[tuple[str, ...]] = [("text",), ("judge",), ("text", "judge")]
METRICS: list[Callable[..., Metric]] = [formulas.accuracy, macro_f1, formulas.rmse]
# Each metric with each kind of clusters, and one of each in the tests of every change.
PAIRS = [
    pytest.param(kinds, make, marks=() if i == j else pytest.mark.exhaustive)
    for i, kinds in enumerate(KINDS)
    for j, make in enumerate(METRICS)
]


@pytest.mark.slow
@pytest.mark.parametrize(("kinds", "make"), PAIRS)
def test_intervals_are_those_of_a_slow_loop(kinds: tuple[str, ...], make: Callable[..., Metric]) -> None:
    text, judge, true, predicted = judged(1)
    clusters = tuple({"text": text, "judge": judge}[kind] for kind in kinds)

    def value(rows: Array) -> float:
        return make(true[rows], predicted[rows]).value()

    drawn = [slow_draws(value, kind, seed=number) for number, kind in enumerate(with_cells(clusters))]
    variance, freedom = combined([np.var(one) for one in drawn], clusters)
    found = interval(replace(make(true, predicted), clusters=clusters))
    assert found.value == make(true, predicted).value()
    wider = stats.t.ppf(0.975, freedom) / stats.norm.ppf(0.975)
    if make is formulas.accuracy:
        ends = wilson(found.value, found.value * (1 - found.value) / (variance * wider**2), level=0.95)
    else:
        moved = [one.mean() - found.value for one in drawn]
        mean = found.value + sum(moved[: len(clusters)]) - sum(moved[len(clusters) :])
        ends = mean - 1.96 * wider * variance**0.5, mean + 1.96 * wider * variance**0.5
    assert (found.low, found.high) == pytest.approx(ends, abs=0.2 * variance**0.5)


@pytest.mark.slow
@pytest.mark.parametrize("both", [False, True])
def test_differences_are_those_of_a_slow_loop(both: bool) -> None:
    text, judge, true, first = judged(2)
    second = judged(3)[3]
    clusters = (text, judge) if both else (text,)

    def value(rows: Array) -> float:
        return float(np.mean(true[rows] == first[rows]) - np.mean(true[rows] == second[rows]))

    drawn = [slow_draws(value, kind, seed=number) for number, kind in enumerate(with_cells(clusters))]
    variance, freedom = combined([np.var(one) for one in drawn], clusters)
    metrics = [replace(formulas.accuracy(true, given), clusters=clusters) for given in (first, second)]
    found = paired(metrics[0], metrics[1])
    half = stats.t.ppf(0.975, freedom) * variance**0.5
    observed = value(np.arange(len(true)))
    assert (found.low, found.high) == pytest.approx((observed - half, observed + half), abs=0.3 * variance**0.5)
    assert found.high - found.low == pytest.approx(2 * half, rel=0.1)


@pytest.mark.parametrize("repeated", [False, True])
def test_the_variance_of_a_mean_is_that_over_all_pairs_of_rows_that_share_a_text_or_a_judge(repeated: bool) -> None:
    """Cameron, Gelbach and Miller, summed over pairs of rows; some judges may judge a text twice."""
    text, judge, true, predicted = judged(10, texts=25, judges=9)
    errors = np.abs(true - predicted) + np.random.default_rng(1).normal(size=len(text)) + 0.5 * (judge % 3)
    if repeated:
        judge[1::4] = judge[::4]
    scores = (errors - errors.mean()) / len(errors)
    pairs = [(row, other) for row in range(len(text)) for other in range(len(text))]

    def summed(*kinds: Array) -> float:
        return sum(scores[i] * scores[j] for i, j in pairs if all(kind[i] == kind[j] for kind in kinds))

    variance, freedom = combined([summed(text), summed(judge), summed(text, judge)], (text, judge))
    metric = replace(formulas.mean_of("mae", errors), clusters=(text, judge))
    drawn = bootstrap._draws([metric], metric.value(), resamples=20_000, seed=0)
    assert drawn.squared_error == pytest.approx(variance, rel=0.05)
    assert drawn.freedom == pytest.approx(freedom, rel=0.1)
    found = interval(metric)
    half = stats.t.ppf(0.975, freedom) * variance**0.5
    assert (found.low, found.high) == pytest.approx((errors.mean() - half, errors.mean() + half), abs=0.1 * half)


def test_kinds_that_say_nothing_do_not_widen() -> None:
    """An interval over texts and judges, who judge as chance would, is about that over rows."""
    rng = np.random.default_rng(11)
    text, judge = np.divmod(np.arange(2_000), 40)
    metric = formulas.rmse(np.zeros(2_000), rng.normal(size=2_000))
    rows, texts, both = (
        interval(replace(metric, clusters=clusters), resamples=4_000) for clusters in ((), (text,), (text, judge))
    )
    widths = [one.high - one.low for one in (rows, texts, both)]
    assert 0.8 < widths[2] / widths[0] < 1.35
    assert widths[2] > 0.97 * widths[1]


def test_texts_of_one_judge_each_are_clustered_by_the_judge() -> None:
    """Kinds that are nested have the variance of the coarser one."""
    rng = np.random.default_rng(12)
    text = np.repeat(np.arange(200), 3)
    judge = text % 30
    errors = rng.normal(size=600) + rng.normal(size=30)[judge]
    metric = formulas.mean_of("loss", errors)
    alone, both = (
        bootstrap._draws([replace(metric, clusters=kinds)], metric.value(), resamples=10_000, seed=0)
        for kinds in ((judge,), (text, judge))
    )
    assert both.squared_error == pytest.approx(alone.squared_error, rel=0.06)


def test_few_clusters_have_the_interval_of_student() -> None:
    """For means of equal clusters: that of their mean, with as many degrees of freedom as clusters, less one."""
    means = np.linspace(1, 4, 7)
    expected = stats.t.interval(0.9, 6, loc=means.mean(), scale=stats.sem(means))
    metric = replace(formulas.mean_of("loss", np.repeat(means, 5)), clusters=(np.repeat(np.arange(7), 5),))
    found = interval(metric, level=0.9)
    assert (found.low, found.high) == pytest.approx(expected, abs=0.05 * (expected[1] - expected[0]))
    two = interval(replace(formulas.mean_of("mae", means[[0, 0, 1]]), clusters=(np.array([0, 0, 1]),)))
    assert two.low == 0, "two clusters say next to nothing, but an error is not below zero"
    assert two.high > 3


@pytest.mark.parametrize("make", [formulas.accuracy, macro_f1, formulas.rmse, formulas.r2, formulas.pearson])
@pytest.mark.parametrize("judges", [3, 12])
def test_a_difference_is_shown_where_the_interval_leaves_out_zero(make: Callable[..., Metric], judges: int) -> None:
    """The p-value is below 0.05 just where the interval is on one side; few draws at its end may disagree."""
    for seed in range(20):
        text, judge, true, first = judged(seed, texts=20, judges=judges, each=3)
        second = np.where(np.random.default_rng(seed).random(len(true)) < seed / 40, first, judged(seed + 50)[3][:60])
        ours, theirs = (replace(make(true, given), clusters=(text, judge)) for given in (first, second))
        found = paired(ours, theirs, resamples=2_000)
        assert found.low <= found.difference <= found.high
        if not 0.03 < found.p_value < 0.08:
            assert (found.p_value < 0.05) == (not found.low <= 0 <= found.high)


def test_the_variance_of_a_mean_over_clusters_is_the_analytic_one() -> None:
    """Of a mean over clusters of equal size: that of the clusters' means over their number."""
    rng = np.random.default_rng(4)
    right = rng.random((50, 6)) < rng.random(50)[:, None]
    true = np.zeros(300, dtype=int)
    metric = formulas.accuracy(true, 1 - right.reshape(-1).astype(int))
    found = interval(replace(metric, clusters=(np.repeat(np.arange(50), 6),)))
    error = stats.sem(right.mean(axis=1))
    assert (found.high - found.low) / 2 == pytest.approx(stats.t.ppf(0.975, 49) * error, rel=0.08)


def test_a_cluster_for_every_row_is_no_cluster() -> None:
    _, judge, true, predicted = judged(5)
    metric = formulas.macro_f1(true, predicted, classes=3)
    own = np.arange(len(true))
    assert interval(replace(metric, clusters=(own,))) == interval(metric)
    assert interval(replace(metric, clusters=(own, judge))) == interval(replace(metric, clusters=(judge,)))


def test_names_of_clusters_may_be_anything_that_tells_them_apart() -> None:
    text, judge, true, predicted = judged(6)
    metric = formulas.accuracy(true, predicted)
    numbered = interval(replace(metric, clusters=(text, judge)))
    named = interval(
        replace(metric, clusters=(text.astype(np.uint64) << 40, np.array([f"j{one:02}" for one in judge])))
    )
    assert numbered == named


def test_chunks_do_not_change_what_is_drawn_of(monkeypatch: pytest.MonkeyPatch) -> None:
    text, judge, true, predicted = judged(7)
    metric = formulas.rmse(true, predicted + np.arange(len(true)) / 1e3)  # every row is distinct
    for clusters in ((judge,), (text, judge)):
        whole = interval(replace(metric, clusters=clusters))
        monkeypatch.setattr(bootstrap, "_CHUNK_CELLS", 1_000)
        small = interval(replace(metric, clusters=clusters))
        monkeypatch.undo()
        assert small.resamples == whole.resamples == 10_000
        assert small.low == pytest.approx(whole.low, abs=0.05 * (whole.high - whole.low))


def test_clusters_are_pooled_with_their_rows() -> None:
    text, judge, true, predicted = judged(8)
    metric = formulas.accuracy(true, predicted)
    halves = [slice(0, 70), slice(70, 160)]
    parts = [
        replace(formulas.accuracy(true[half], predicted[half]), clusters=(text[half], judge[half])) for half in halves
    ]
    keys = [np.arange(len(true))[half] for half in halves]
    found, whole = interval(pooled(parts, keys)), interval(replace(metric, clusters=(text, judge)))
    assert found.value == whole.value
    assert (found.low, found.high) == pytest.approx((whole.low, whole.high), rel=0.01)
    with pytest.raises(DataError, match=r"metrics with \[0, 2\] kinds of clusters cannot be pooled"):
        pooled([parts[0], replace(parts[1], clusters=())])


def test_what_cannot_be_drawn_is_refused() -> None:
    _, _, true, predicted = judged(9)
    metric = formulas.accuracy(true, predicted)
    with pytest.raises(DataError, match="rows of different clusters"):
        paired(metric, replace(metric, clusters=(np.arange(len(true)),)))
    with pytest.raises(DataError, match=r"shapes \[\(3,\)\]: give one or two arrays of shape \(160,\)"):
        replace(metric, clusters=(np.arange(3),))
    with pytest.raises(DataError, match="give one or two arrays"):
        replace(metric, clusters=(np.arange(len(true)),) * 3)


def test_an_interval_within_one_cluster_is_for_that_one() -> None:
    text, _, true, predicted = judged(9)
    metric, one = formulas.accuracy(true, predicted), np.zeros(len(true))
    assert interval(replace(metric, clusters=(one,))) == interval(metric)
    assert interval(replace(metric, clusters=(one, text))) == interval(replace(metric, clusters=(text,)))


@pytest.mark.slow
def test_clusters_cover_where_rows_do_not() -> None:
    """Of 300 sets of judgements, the true accuracy lies in 95 % of the intervals over texts, and of fewer over rows."""

    def covered(*, clustered: bool) -> float:
        hits = 0
        for seed in range(300):
            rng = np.random.default_rng(seed)
            text = np.repeat(np.arange(80), 5)
            right = rng.random(400) < np.where(rng.random(80) < 0.5, 0.2, 0.9)[text]
            metric = formulas.accuracy(np.zeros(400, dtype=int), 1 - right.astype(int))
            found = interval(replace(metric, clusters=(text,)) if clustered else metric, resamples=800)
            hits += found.low <= 0.55 <= found.high
        return hits / 300

    assert covered(clustered=False) < 0.85
    assert 0.91 < covered(clustered=True) < 0.985


@pytest.mark.slow
@pytest.mark.parametrize("judges", [20, pytest.param(60, marks=pytest.mark.exhaustive)])
def test_texts_and_judges_cover_as_often_as_they_claim(judges: int) -> None:
    """Of 120 sets of judgements about 95 % hold the mean over other texts and judges, and rows hold it less often."""
    hits = {"rows": 0, "both": 0}
    for seed in range(120):
        rng = np.random.default_rng(seed)
        text = np.repeat(np.arange(60), 4)
        judge = np.concatenate([rng.choice(judges, 4, replace=False) for _ in range(60)])
        errors = 3 + rng.normal(size=60)[text] + rng.normal(size=judges)[judge] + rng.normal(size=240)
        metric = formulas.mean_of("loss", errors)
        for way, clusters in {"rows": (), "both": (text, judge)}.items():
            found = interval(replace(metric, clusters=clusters), resamples=500)
            hits[way] += found.low <= 3 <= found.high
    assert hits["rows"] < 0.8 * 120
    assert 0.9 * 120 < hits["both"] < 0.99 * 120

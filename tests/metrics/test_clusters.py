"""The bootstrap over clusters: against slow loops that draw texts and judges one by one, and what it covers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

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


def slow_weights(clusters: Sequence[Array], rng: np.random.Generator) -> Array:
    """How often each row occurs when every kind of clusters is drawn anew with replacement."""
    weights = np.ones(len(clusters[0]), dtype=int)
    for cluster in clusters:
        names = np.unique(cluster)
        picked = rng.choice(names, len(names))
        times = {name: (picked == name).sum() for name in names}
        weights *= np.array([times[name] for name in cluster])
    return weights


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
    rng, drawn = np.random.default_rng(5), []
    for _ in range(2_000):
        rows = np.repeat(np.arange(len(true)), slow_weights(clusters, rng))
        drawn.append(make(true[rows], predicted[rows]).value())
    found = interval(replace(make(true, predicted), clusters=clusters))
    assert found.value == make(true, predicted).value()
    low, high = np.quantile(drawn, [0.025, 0.975])
    if make is formulas.accuracy:
        value = found.value
        low, high = wilson(value, value * (1 - value) / np.var(drawn), level=0.95)
    assert found.low == pytest.approx(low, abs=0.15 * np.std(drawn))
    assert found.high == pytest.approx(high, abs=0.15 * np.std(drawn))


@pytest.mark.slow
@pytest.mark.parametrize("both", [False, True])
def test_differences_are_those_of_a_slow_loop(both: bool) -> None:
    text, judge, true, first = judged(2)
    second = judged(3)[3]
    clusters = (text, judge) if both else (text,)
    rng, drawn = np.random.default_rng(6), []
    for _ in range(2_000):
        rows = np.repeat(np.arange(len(true)), slow_weights(clusters, rng))
        drawn.append(np.mean(true[rows] == first[rows]) - np.mean(true[rows] == second[rows]))
    metrics = [replace(formulas.accuracy(true, given), clusters=clusters) for given in (first, second)]
    found = paired(metrics[0], metrics[1])
    assert found.low == pytest.approx(np.quantile(drawn, 0.025), abs=0.3 * np.std(drawn))
    assert found.high == pytest.approx(np.quantile(drawn, 0.975), abs=0.3 * np.std(drawn))
    assert found.high - found.low == pytest.approx(4 * np.std(drawn), rel=0.15)


def test_a_cluster_for_every_row_is_no_cluster() -> None:
    _, _, true, predicted = judged(5)
    metric = formulas.macro_f1(true, predicted, classes=3)
    alone, found = interval(metric), interval(replace(metric, clusters=(np.arange(len(true)),)))
    spread = alone.high - alone.low
    assert (found.low, found.high) == pytest.approx((alone.low, alone.high), abs=0.03 * spread)


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
    assert interval(pooled(parts, keys)) == interval(replace(metric, clusters=(text, judge)))
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


def test_resamples_without_a_row_do_not_count() -> None:
    """Of two rows with a text and a judge each, one draw of both in eight leaves none."""
    rows = np.arange(2)
    found = interval(replace(formulas.rmse(rows, rows), clusters=(rows, rows)))
    assert 8_600 < found.resamples < 8_900
    assert (found.low, found.high) == (0.0, 0.0)


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

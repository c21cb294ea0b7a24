"""The page on large scale: its formulas are what a simulation finds."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture
def benchmarks(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    return importlib.import_module


@pytest.mark.parametrize("exponent", [0.8, 1.0, 1.2])
def test_zipf_is_the_exact_law(benchmarks: Any, exponent: float) -> None:
    law = benchmarks("zipf").Zipf(40_009, exponent)
    shares = np.arange(1, law.values + 1, dtype=float) ** -exponent
    shares /= shares.sum()
    for first in (1, 997, 10_000, 10_007, 30_011, law.values):
        assert law.share(first) == pytest.approx(shares[:first].sum(), rel=1e-9)
        assert law.distinct(1009, first) == pytest.approx((1 - (1 - shares[:first]) ** 1009).sum(), rel=1e-7)
    drawn = law.draw((500_009,), np.random.default_rng(0))
    assert drawn.min() == 1
    assert drawn.max() <= law.values
    edges = np.unique(np.geomspace(1, law.values + 1, 30).astype(int))
    expected = len(drawn) * np.add.reduceat(shares, edges[:-1] - 1)
    chi_squared = ((np.histogram(drawn, edges)[0] - expected) ** 2 / expected).sum()
    assert chi_squared < len(expected) + 5 * (2 * len(expected)) ** 0.5
    assert law.with_rows(10**6, 10) == pytest.approx((shares * 10**6 >= 10).sum(), rel=0.01)


@pytest.mark.parametrize("exponent", [0.8, 1.2])
def test_formulas_are_what_the_simulation_finds(benchmarks: Any, exponent: float) -> None:
    model = benchmarks("cluster_model")
    profile = model.Profile(
        rows=331,
        tokens=7,
        step=2.0,
        parameters=100_003,
        bandwidth=1e6,
        latency=1e-4,
        cores=1,
        price=(1.0, 1.0),
        processes=(13,),
    )
    law = benchmarks("zipf").Zipf(1_000_003, exponent)
    ours = model.by_formula(profile, 13, law, 17)
    theirs = model.simulated(profile, 13, law, 17, steps=20)
    for name in ("distinct", "distinct_everywhere", "most_distinct", "gather_bytes", "exchange_bytes", "compute"):
        assert theirs[name] == pytest.approx(ours[name], rel=0.03), name
    assert theirs["contiguous"] == pytest.approx(ours["contiguous"], rel=0.03)
    assert theirs["in turn"] == pytest.approx(ours["in turn"], rel=0.15)
    assert ours["dense_bytes"] == pytest.approx(2 * 12 / 13 * 4 * 100_003)
    assert ours["gather_bytes"] == pytest.approx(12 * ours["most_distinct"] * (8 + 8 * 17))
    assert ours["step"] == pytest.approx(ours["compute"] + ours["dense"] + ours["gather"])


def test_two_processes_on_paper(benchmarks: Any) -> None:
    table = {"1": {"seconds": 4.0, "resident_megabytes": 90.0}, "2": {"seconds": 5.0, "resident_megabytes": 50.0}}
    found = benchmarks("cluster_on_paper").on_paper(
        {"batch_rows": 10, "vector_size": 3, "values": 10**6, "table": table},
        seconds=3.5,
        bytes_per_second=100.0,
        parameters=7,
    )
    assert found["dense_bytes"] == 4 * 7
    assert found["gather_bytes"] == pytest.approx(5 * (8 + 8 * 3), rel=1e-4)
    assert found["paper_seconds"] == pytest.approx(3.5 + (28 + 160) / 100, rel=1e-4)
    assert found["saved_megabytes"] == 40

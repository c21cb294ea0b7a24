"""The page on large scale: its tables are those of the result file, its formulas what a simulation does."""

from __future__ import annotations

import importlib
import runpy
from pathlib import Path
from typing import Any

import numpy as np
import pytest

ROOT = Path(__file__).parents[1]


@pytest.fixture
def benchmarks(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    return importlib.import_module


def test_the_tables_are_those_of_the_result_file() -> None:
    page = ROOT / "docs" / "large_scale.md"
    tables = runpy.run_path(str(ROOT / "docs" / "tables.py"))
    tables["TABLES"].update(runpy.run_path(str(ROOT / "docs" / "large_scale_tables.py"))["TABLES"])
    text = page.read_text(encoding="utf-8")
    assert text == tables["written"]("large_scale.md", text)


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
    model, paper = benchmarks("cluster_model"), benchmarks("cluster_on_paper")
    profile = model.Profile(
        name="",
        rows=331,
        tokens=7,
        step=2.0,
        step_range=(2.0, 2.0),
        parameters=100_003,
        bandwidth=1e6,
        latency=1e-4,
        noise=0.05,
        pauses=0.0,
        cores=1,
        price=(1.0, 1.0),
        processes=(13,),
    )
    law = benchmarks("zipf").Zipf(1_000_003, exponent)
    ours = model.by_formula(profile, 13, law, 17)
    theirs = paper.simulated(profile, 13, law, 17, steps=20)
    for name in ("distinct", "distinct_everywhere", "most_distinct", "gather_bytes", "exchange_bytes", "compute"):
        assert getattr(theirs, name) == pytest.approx(getattr(ours, name), rel=0.03), name
    assert theirs.imbalance["contiguous"] == pytest.approx(ours.imbalance["contiguous"], rel=0.03)
    assert theirs.imbalance["in turn"] == pytest.approx(ours.imbalance["in turn"], rel=0.15)
    assert ours.dense_bytes == pytest.approx(2 * 12 / 13 * 4 * 100_003)
    assert ours.gather_bytes == pytest.approx(12 * ours.most_distinct * (8 + 8 * 17))


def test_two_processes_that_were_not_measured_are_skipped(benchmarks: Any, tmp_path: Path) -> None:
    two = benchmarks("two_on_paper")
    assert "not there" in two.beside(tmp_path / "none.json")["skipped"]
    file = tmp_path / "two.json"
    file.write_text('{"batch_rows": 8}')
    assert "values" in two.beside(file)["skipped"]


def test_two_processes_on_paper(benchmarks: Any) -> None:
    two = benchmarks("two_on_paper")
    table = {"1": {"seconds": 4.0, "resident_megabytes": 90.0}, "2": {"seconds": 5.0, "resident_megabytes": 50.0}}
    found = two.on_paper(
        {"batch_rows": 10, "vector_size": 3, "values": 10**6, "table": table},
        seconds=[[1.0, 4.0], [2.0, 3.0]],
        bytes_per_second=100.0,
        parameters=7,
    )
    assert found["alone_seconds"] == 3
    assert found["dense_bytes"] == 4 * 7
    assert found["gather_bytes"] == pytest.approx(5 * (8 + 8 * 3), rel=1e-4)
    assert found["paper_seconds"] == pytest.approx(3 + (28 + 160) / 100, rel=1e-4)
    assert found["saved_megabytes"] == 40

"""Several sets together: means, choices by validation rows, series, and parameters for all tasks."""

from __future__ import annotations

import csv
import io
import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import small_runs
from finished_benchmarks import finished_folder
from trained_runs import TrainedRuns

from attribune.apps.report.plots import band_plot
from attribune.errors import ConfigError
from attribune.metrics.bootstrap import Interval
from attribune_lab.benchmark.experiment import Experiment, SetPlan, experiment_names, read_experiment
from attribune_lab.benchmark.page import benchmark_page
from attribune_lab.benchmark.rendering import FORMATS, render
from attribune_lab.benchmark.results import BenchmarkFolder
from attribune_lab.benchmark.tables import (
    Line,
    Overall,
    Point,
    SetTable,
    Summary,
    benchmark_tables,
    overall_table,
    summarize,
    trade_off,
)

pytestmark = pytest.mark.slow


@pytest.fixture
def experiment(trained_runs: TrainedRuns) -> dict[str, Any]:
    sets = []
    for number, task in enumerate(({}, {"score_by": ["matthews"]}, {"kind": "regression"})):
        table = trained_runs.table(small_runs.reviews(60, seed=number))
        data = {"train": str(table), "text": "text", "label": "look" if number == 2 else "stars", "max_length": 32}
        sets.append({"name": f"set {number}", "data": data, "task": task, "folds": [0]})
    return {
        "name": "tiny",
        "sets": sets,
        "settings": [
            {"name": "full", "method": "none", "backbone": {"tuning": "full"}},
            {"name": "adapter 2", "method": {"name": "adapter", "bottleneck": 2}, "series": "adapters"},
            {"name": "adapter 9", "method": {"name": "adapter", "bottleneck": 9}, "series": "adapters"},
            {"name": "norms", "method": "none", "backbone": {"tuning": "layernorm"}, "series": "norms"},
            "linear",
        ],
        "choices": [{"name": "best adapter", "of": ["adapter 2", "adapter 9"]}],
        "backbone": {"name": str(trained_runs.backbone())},
        "training": {"steps": 2, "batch_size": 16, "evaluate_every": 2, "precision": "float32", "learning_rate": 0.01},
    }


@pytest.fixture
def folder(experiment: dict[str, Any], trained_runs: TrainedRuns) -> BenchmarkFolder:
    return finished_folder(trained_runs, experiment)


def test_a_choice_is_the_setting_of_the_lowest_validation_score(folder: BenchmarkFolder) -> None:
    for table in benchmark_tables(folder):
        lines = {line.name: line for line in table.lines}
        first = {name: lines[name].group.results[0] for name in ("adapter 2", "adapter 9")}
        scores = {name: result.validation_score("log_loss") for name, result in first.items()}
        best = lines["best adapter"]
        assert best.chosen == min(scores, key=scores.__getitem__)
        assert best == replace(lines[best.chosen], name="best adapter", chosen=best.chosen)
        assert "best adapter" not in table.best
        assert "best adapter" not in table.leaders[:2]
    assert len(set(scores.values())) == 2


def test_means_and_differences_of_all_sets(folder: BenchmarkFolder) -> None:
    tables = benchmark_tables(folder)
    overall = overall_table(tables)
    assert (overall.sets, overall.omitted, overall.reference) == (("set 0", "set 1"), ("set 2",), "full")
    names = ["full", "adapter 2", "adapter 9", "norms", "linear", "best adapter"]
    assert [line.name for line in overall.lines] == names
    costs = [one.cost for table in tables[:2] for one in table.lines if one.name == "full"]

    def scores(name: str) -> list[float]:
        lines = [next(one for one in table.lines if one.name == name) for table in tables[:2]]
        return [lines[0].metrics["accuracy"].value, lines[1].metrics["matthews"].value]

    for line in overall.lines:
        assert line.mean == pytest.approx(np.mean(scores(line.name)))
        if line.name == "full":
            assert line.against is None
            assert (line.trained, line.total) == (1, 2)
            continue
        assert line.against.difference == pytest.approx(line.mean - np.mean(scores("full")))
        if line.name == "linear":
            assert (line.trained, line.total) == (None, None)
        else:
            own = [one.cost for table in tables[:2] for one in table.lines if one.name == line.name]
            shares = [cost["trained"] / costs[0]["total"] for cost in own]
            assert line.trained == pytest.approx(np.mean(shares), rel=1e-6)
            assert line.total == pytest.approx(1 + sum(shares), rel=1e-6)


def line(name: str, *, trained: float, total: float, encoder: bool = True) -> Line:
    cost = {"trained": trained, "total": total, "of_encoder": 0.1 if encoder else None}
    metrics = {"accuracy": Interval(value=0.5, low=0.4, high=0.6, resamples=1)}
    return Line(name=name, folds=(), rows=10, metrics=metrics, cost=cost)


@pytest.mark.parametrize(
    ("tasks", "share", "total"),
    [(17, 0.0114, 1.19), (17, 1.0, 17), (17, 0.529, 9.99), (9, 0.036, 1.32), (9, 0.021, 1.19), (9, 1.0, 9)],
)
def test_parameters_for_all_tasks_are_counted_as_in_the_paper(tasks: int, share: float, total: float) -> None:
    """Houlsby et al. 2019, tables 1 and 2: 1.3x, 1.2x and 9.0x for nine tasks, 1.19x, 17x and 9.9x for seventeen."""
    size = 110_000_000
    lines = (
        line("full", trained=size, total=size),
        line("some", trained=share * size, total=size if share > 0.5 else (1 + share) * size),
        line("words", trained=9, total=9, encoder=False),
    )
    rest = {"lines": lines, "reference": "full", "part": "test", "best": (), "leaders": None, "missing": ()}
    plans = [SetPlan(name=f"set {number}", prepared="x") for number in range(tasks)]
    tables = [SetTable(plan=plan, metric="accuracy", **rest) for plan in plans]
    overall = overall_table(tables)
    assert overall.lines[1].trained == pytest.approx(share)
    assert overall.lines[1].total == pytest.approx(total, abs=0.006)
    assert overall.lines[0].total == tasks
    assert overall.lines[2].total is None
    assert overall_table(tables[:1]) is None


@pytest.mark.exhaustive
def test_series_are_percentiles_of_differences(
    experiment: dict[str, Any], folder: BenchmarkFolder, tmp_path: Path
) -> None:
    tables = benchmark_tables(folder)
    series = trade_off(Experiment.from_dict(experiment), tables)
    assert list(series) == ["adapters", "norms"]
    assert len(series["adapters"]) == 2
    lines = [{line.name: line for line in table.lines} for table in tables]
    gaps = [
        sign * (own["adapter 9"].metrics[table.metric].value - own["full"].metrics[table.metric].value)
        for own, table, sign in zip(lines, tables, (1, 1, -1), strict=True)
    ]
    point = series["adapters"][1]
    assert point.at == pytest.approx(np.mean([own["adapter 9"].cost["trained"] for own in lines]))
    assert [point.low, point.median, point.high] == pytest.approx(list(np.percentile(gaps, [20, 50, 80])))
    placed = {**experiment, "axis": "bottleneck", "settings": [*experiment["settings"]]}
    for number, one in enumerate(placed["settings"]):
        if number in (1, 2):
            placed["settings"][number] = {**one, "at": int(one["name"][-1])}
    assert [point.at for point in trade_off(Experiment.from_dict(placed), tables)["adapters"]] == [2, 9]
    copy = BenchmarkFolder(Path(shutil.copytree(folder.path, tmp_path / "copy")))
    copy.begin(Experiment.from_dict(placed))  # what only plots show may change
    page = benchmark_page(copy)
    assert "against the bottleneck" in page
    assert page.index("All sets") < page.index("set 0</h2>")
    assert "adapter 9 against full, on average: " in page


def test_every_format_and_the_record_have_the_table_of_all_sets(folder: BenchmarkFolder, tmp_path: Path) -> None:
    summary = summarize(folder)
    assert isinstance(summary.overall, Overall)
    summary.write(tmp_path / "record.json")
    again = Summary.read(tmp_path / "record.json")
    assert again.overall == summary.overall
    for kind in FORMATS:
        text = render(again.tables, kind, overall=again.overall)
        assert text == render(summary.tables, kind, overall=summary.overall)
        assert ("all sets" if kind == "csv" else "All sets") in text
        if kind != "csv":
            assert "best adapter (adapter " in text
    rows = list(csv.DictReader(io.StringIO(render(summary.tables, "csv", overall=summary.overall))))
    means = {row["setting"]: float(row["value"]) for row in rows if row["set"] == "all sets"}
    assert means == {one.name: one.mean for one in summary.overall.lines}
    tree = json.loads((tmp_path / "record.json").read_text())
    del tree["overall"]  # a record of an earlier release
    (tmp_path / "old.json").write_text(json.dumps(tree))
    assert Summary.read(tmp_path / "old.json").overall is None


@pytest.mark.parametrize("points", [1, 2, 3])
def test_a_band_needs_two_places(points: int) -> None:
    """One place has a line from its low to its high percentile, and several have an area between them."""
    series = [Point(at=at, low=-0.1, median=0.0, high=0.1) for at in range(1, 1 + points)]
    svg = band_plot({"adapters": series}, xlabel="rows", ylabel="points")
    assert ("FillBetweenPolyCollection" in svg, "LineCollection" in svg) == (points > 1, points == 1)


@pytest.mark.exhaustive
def test_the_page_begins_with_all_sets(folder: BenchmarkFolder) -> None:
    page = benchmark_page(folder)
    assert page.index("All sets") < page.index("set 0</h2>")
    assert "against the trained parameters: the median over the sets" in page
    assert "adapter 9 against full, on average: " in page


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"choices": [{"name": "full", "of": ["adapter 2", "adapter 9"]}]}, "is the name of a setting and of a choice"),
        ({"choices": [{"name": "best", "of": ["adapter 2", "adapter 3"]}]}, "there is no setting 'adapter 3'"),
        ({"choices": [{"name": "best", "of": ["adapter 2"]}]}, "is of one setting: name several"),
        ({"choices": [{"name": "b", "of": ["full", "norms"]}] * 2}, "'b' is named twice"),
    ],
)
def test_choices_that_cannot_be(experiment: dict[str, Any], change: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        Experiment.from_dict({**experiment, **change})


def test_small_versions_are_asked_for_by_a_flag(tmp_path: Path, fails: Callable[..., str]) -> None:
    assert set(experiment_names(small=True)) <= set(experiment_names())
    assert not any(name.endswith("-small") for name in experiment_names())
    for small in (False, True):
        for name in experiment_names(small=small):
            assert read_experiment(name, small=small).title
    words = ["benchmark", "run", "--output", tmp_path / "out", "--small"]
    told = fails(*words, "--preset", "main-day")
    assert "unknown experiment with a small version 'main-day'" in told
    assert "--small is for an experiment of the library" in fails(*words, "x.yaml")
    assert not list(tmp_path.iterdir())

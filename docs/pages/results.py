"""The tables of results.md, made from the records of benchmarks and of benchmarks/real_data.py."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from attribune.methods import METHODS
from attribune.metrics.bootstrap import Interval
from attribune.metrics.tables import ResultRow, markdown_table
from attribune_lab.benchmark.rendering import render
from attribune_lab.benchmark.tables import Line, Summary
from pages import forests
from pages.cells import RESULTS, between, machine_line, measured, table


def record(name: str) -> tuple[Summary, list[str]]:
    """The record of a benchmark, and its tables."""
    summary = Summary.read(RESULTS / f"{name}.json")
    return summary, render(summary.tables, "markdown").splitlines()


def takeaways() -> list[str]:
    """What the preset `small` shows, in sentences."""
    polmed, critics = record("small")[0].tables
    readers = {name for name, method in METHODS.items() if method.uses_attributes}
    best = sorted(
        (line for line in critics.lines if line.better and line.name in readers),
        key=lambda line: line.metrics[critics.metric].value,
        reverse=True,
    )
    shown = [f"`{line.name}` ({points(line)})" for line in best[:2]]
    accurate = [line for line in polmed.lines if line.better and line.name in readers]
    likely = [line for line in polmed.lines if line.loss is not None and line.loss.high < 0 and line.name in readers]
    compared = [line.name for line in polmed.lines if line.name in readers]
    shuffled = next(line for line in critics.lines if line.name == "injector, shuffled")
    injector = next(line for line in critics.lines if line.name == "injector")
    return [
        f"- On {critics.plan.heading}, {len(best)} of {len(compared)} methods that read attributes are shown to be "
        f"more accurate than the plain model. {' and '.join(shown)} gain most, in points of accuracy.",
        f"- On {polmed.plan.heading}, {len(accurate) or 'none'} of them {'is' if len(accurate) < 2 else 'are'} shown "
        f"to be more accurate, but {len(likely)} have a lower log loss: their probabilities are better.",
        f"- The gain comes from the attributes. On {critics.plan.heading}, the difference of the Injector is "
        f"{points(injector)}; with the attributes of other rows, it is {points(shuffled)}.",
    ]


def points(line: Line) -> str:
    """The difference of a setting to the reference in points, with its interval."""
    assert line.against is not None
    return between(line.against.difference, line.against.low, line.against.high, scale=100, places=1, sign="+")


def every_method() -> list[str]:
    """The tables of the preset `small`, and how long it took."""
    summary, tables = record("small")
    trainings = sorted(summary.trainings, key=lambda one: one.finished)
    first, last = (datetime.fromisoformat(one.finished) for one in (trainings[0], trainings[-1]))
    whole = (last - first).total_seconds() + trainings[0].seconds
    threads = sorted({environment["threads"] for environment in summary.environments})
    took = (
        f"{len(trainings)} training runs in {whole / 60:.0f} minutes ({sum(one.seconds for one in trainings) / 60:.0f} "
        f"minutes in total, each run with {' or '.join(map(str, threads))} thread)."
    )
    return [took, "", *tables]


def longer() -> list[str]:
    """The tables of the Injector and PLN with more steps."""
    return record("longer")[1]


def real_data() -> list[str]:
    """Test rows, learning rates and settings, of both sets."""
    lines = []
    for stage, title, of_set in (
        ("test", "test rows", settings),
        ("rates", "learning rates, validation rows", rates),
        ("sweep", "validation rows", settings),
    ):
        for found in measured(stage)["sets"].values():
            lines += [f"### {found['title']}, {title}", "", *of_set(found), ""]
    return lines[:-1]


def settings(found: Mapping[str, Any]) -> list[str]:
    """Intervals of all settings, differences of pairs, and what hiding the attributes does."""
    number, unit = next((found[f"{unit}s"], unit) for unit in ("fold", "seed") if f"{unit}s" in found)
    counted = f"{number} {unit}{'' if number == 1 else 's'}"
    rows = [
        ResultRow(
            name=f"{name} ({counted})", metrics={key: Interval(**figures) for key, figures in one["metrics"].items()}
        )
        for name, one in found["settings"].items()
    ]
    lines = [*markdown_table(rows).splitlines(), ""]
    for pair in found["differences"]:
        texts = [difference(name, figures) for name, figures in pair.items() if name not in ("a", "b")]
        lines.append(f"- `{pair['a']}` against `{pair['b']}`, {counted}: {'; '.join(texts)}.")
    for name, one in found["settings"].items():
        if "hidden" in one:
            hidden, given = (f"{100 * share:.2f}" for share in (one["hidden"], one["metrics"]["accuracy"]["value"]))
            lines.append(f"- `{name}` with its attributes hidden, {counted}: accuracy {hidden} ({given} with them).")
    return lines


def difference(metric: str, found: Mapping[str, float]) -> str:
    """A paired difference with its interval and p-value."""
    scale, places = (1, 4) if metric == "log_loss" else (100, 2)
    ends = between(found["difference"], found["low"], found["high"], scale=scale, places=places, sign="+")
    return f"{metric} {ends} (p = {found['p_value']:.4f})"


def rates(found: Mapping[str, Any]) -> list[str]:
    """Log loss of every method with each factor of its learning rates."""
    losses = found["log_loss"]
    factors = sorted({factor for tried in losses.values() for factor in tried}, key=float)
    rows = []
    for method in (name for name in METHODS if name in losses):
        shown = {factor: f"{loss:.3f}" for factor, loss in losses[method].items()}
        best = min(shown.values())
        cells = (shown.get(factor, "") for factor in factors)
        rows.append([method, *(f"**{cell}**" if cell == best else cell for cell in cells)])
    return table(["log loss", *(f"x{factor}" for factor in factors)], rows)


def long_memory() -> list[str]:
    """Memory and time of a training step by the length of a document, for every way to read it."""
    found = measured("long_documents")
    lengths = found["memory"]
    ways = list(dict.fromkeys(way for one in lengths.values() for way in one if way != "head+tail"))
    lines = [machine_line(found), ""]
    for name, unit, places in (("peak", "MB", 0), ("seconds", "s", 2)):
        rows = [
            [way, *(f"{one[way][name]:,.{places}f}" if way in one else "" for one in lengths.values())] for way in ways
        ]
        lines += [*table([f"{unit} by tokens", *(f"{int(tokens):,}" for tokens in lengths)], rows), ""]
    return lines[:-1]


def coverage() -> list[str]:
    """How often intervals hold the truth, by what is resampled."""
    found = measured("coverage")["cases"]
    ways = list(next(iter(found.values())))
    head = ["resampled", *ways]
    rows = [
        [name, *(f"{100 * case[way]['accuracy']:.0f}, {100 * case[way]['difference']:.0f} %" for way in ways)]
        for name, case in found.items()
    ]
    return table(head, rows)


DRAWINGS = {
    "images/methods-polmed.svg": lambda: forests.loss_differences(record("small")[0].tables[0]),
    "images/methods-critics.svg": lambda: forests.accuracy_differences(record("small")[0].tables[1]),
}
TABLES = {
    "results.md": {
        "takeaways": takeaways,
        "every method": every_method,
        "longer": longer,
        "real data": real_data,
        "long memory": long_memory,
        "coverage": coverage,
    }
}

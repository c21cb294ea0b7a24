"""The tables of pages about experiments, made from the records of benchmarks."""

from __future__ import annotations

from functools import partial

from attribune.apps.report.plots import band_plot
from attribune.metrics.tables import format_difference, format_value
from attribune_lab.benchmark.rendering import overall_cells
from attribune_lab.benchmark.tables import Line, SetTable, Summary, trade_off
from pages.cells import RESULTS, table


def record(name: str) -> Summary:
    """The record of a benchmark."""
    return Summary.read(RESULTS / f"{name}.json")


def scores(name: str) -> list[str]:
    """Every setting on every set: the main metric, and below it how far each is from the reference."""
    tables = record(name).tables
    names = list(dict.fromkeys(line.name for one in tables for line in one.lines))
    lines = [{line.name: line for line in one.lines} for one in tables]
    head = ["", *(f"{one.plan.heading}, {one.metric}" for one in tables)]
    shown = [
        [setting, *(score(one, found.get(setting)) for one, found in zip(tables, lines, strict=True))]
        for setting in names
    ]
    apart = [
        [setting, *(difference(one, found.get(setting)) for one, found in zip(tables, lines, strict=True))]
        for setting in names
        if setting != tables[0].reference
    ]
    return [*table(head, shown), "", f"Paired differences from {tables[0].reference}:", "", *table(head, apart)]


def score(one: SetTable, line: Line | None) -> str:
    """The main metric of a setting."""
    return "" if line is None else format_value(one.metric, line.metrics[one.metric].value)


def difference(one: SetTable, line: Line | None) -> str:
    """The difference of a setting to the reference, bold where its interval has no zero."""
    if line is None or line.against is None:
        return ""
    text = format_difference(one.metric, line.against)
    return f"**{text}**" if line.better or line.worse else text


def overall(name: str) -> list[str]:
    """The means over all sets, and the share of the parameters that a set trains."""
    found = record(name)
    assert found.overall is not None
    chosen = {choice.name for choice in found.experiment.choices}
    _, *lines = overall_cells(found.overall)
    rows = [cells[:4] for cells in lines if cells[0] not in chosen]
    return table(["", "mean", "difference", "trained"], rows)


def squad() -> list[str]:
    """Answers in a text."""
    found = record("squad_small").tables[0]
    lines = [
        [
            line.name,
            format_value("f1", line.metrics["f1"].value),
            difference(found, line),
            f"{100 * (line.cost['share'] or 0):.1f} %",
        ]
        for line in found.lines
    ]
    return table(["", "F1", "difference", "trained"], lines)


def drawing() -> str:
    """The drawing of scores against trained parameters, as large as it is shown."""
    found = record("tradeoff_small")
    series = trade_off(found.experiment, found.tables)
    return band_plot(series, xlabel="trained parameters", ylabel=f"difference to {found.experiment.first}, points")


TABLES = {
    "one_frozen_model.md": {
        **{name: partial(overall, f"{name}_small") for name in ("glue", "classification", "sizes", "variants")},
        "squad": squad,
    }
}

DRAWINGS = {"images/tradeoff.svg": drawing}

"""The tables of pages about experiments, made from the records of benchmarks."""

from __future__ import annotations

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


def costs(name: str) -> list[str]:
    """Log loss, time and memory of every setting on every set."""
    lines = [
        [
            line.name,
            one.plan.heading,
            f"{line.metrics['log_loss'].value:.3f}",
            "" if line.loss is None else format_difference("log_loss", line.loss),
            f"{line.cost['seconds_per_pass'] or 0:,.0f}",
            f"{line.cost['peak_mb'] or 0:,.0f}",
        ]
        for one in record(name).tables
        for line in one.lines
    ]
    return table(["", "", "log loss", "difference", "s per epoch", "MB"], lines, words=(0, 1))


def overall(name: str) -> list[str]:
    """The means over all sets, with the parameters of a set and of all sets."""
    found = record(name).overall
    assert found is not None
    head, *lines = overall_cells(found)
    return table(head, lines)


def by_place(name: str) -> list[str]:
    """The main metric of each series on every set, at each place of the axis."""
    found = record(name)
    places = sorted({setting.at for setting in found.experiment.settings if setting.at is not None})
    series = {(setting.series, setting.at): setting.name for setting in found.experiment.settings}
    lines: list[list[str]] = []
    for one in found.tables:
        known = {line.name: line for line in one.lines}
        for which in dict.fromkeys(which for which, _ in series):
            cells = [score(one, known.get(series.get((which, at), ""))) for at in places]
            lines.append([f"{one.plan.heading}, {one.metric}", str(which), *cells])
    return table(
        [found.experiment.axis or "", "", *(f"{at:.0e}".replace("e-0", "e-") for at in places)], lines, words=(0, 1)
    )


def against_parameters(name: str) -> list[str]:
    """How far the settings of each series are from the reference: percentiles over the sets."""
    found = record(name)
    whole = max(line.cost["trained"] or 0.0 for one in found.tables for line in one.lines)
    lines = [
        [
            which,
            f"{100 * point.at / whole:.2f} %",
            *(f"{100 * gap:+.1f}" for gap in (point.low, point.median, point.high)),
        ]
        for which, points in trade_off(found.experiment, found.tables).items()
        for point in points
    ]
    return table(["", "trained", "20th percentile", "median", "80th percentile"], lines)


def glue() -> list[str]:
    """Means over the tasks, and every task."""
    return [*overall("glue_small"), "", *scores("glue_small")]


def classification() -> list[str]:
    """Means over the sets of texts, and every set."""
    return [*overall("classification_small"), "", *scores("classification_small")]


def base_size() -> list[str]:
    """Two tasks with a model of base size."""
    return [*overall("base_size"), "", *scores("base_size"), "", *costs("base_size")]


def initialisation() -> list[str]:
    """Initial weights of adapters."""
    return scores("initialisation_small")


def sizes() -> list[str]:
    """Sizes of adapters."""
    return [*overall("sizes_small"), "", *scores("sizes_small")]


def variants() -> list[str]:
    """Variants of the adapter."""
    return [*overall("variants_small"), "", *scores("variants_small")]


def rates() -> list[str]:
    """Learning rates."""
    return by_place("rates_small")


def squad() -> list[str]:
    """Answers in a text."""
    found = record("squad_small").tables[0]
    lines = [
        [
            line.name,
            *(format_value(name, line.metrics[name].value) for name in ("f1", "exact_match")),
            difference(found, line),
            f"{100 * (line.cost['share'] or 0):.1f} %",
        ]
        for line in found.lines
    ]
    return table(["", "F1", "exact match", "F1 against full tuning", "trained"], lines)


def tradeoff() -> list[str]:
    """Scores against trained parameters."""
    return against_parameters("tradeoff_small")


def drawing() -> str:
    """The drawing of scores against trained parameters, as large as it is shown."""
    found = record("tradeoff_small")
    series = trade_off(found.experiment, found.tables)
    return band_plot(series, xlabel="trained parameters", ylabel=f"difference to {found.experiment.first}, points")


TABLES = {
    "one_frozen_model.md": {
        "glue": glue,
        "classification": classification,
        "base size": base_size,
        "sizes": sizes,
        "initialisation": initialisation,
        "rates": rates,
        "squad": squad,
        "tradeoff": tradeoff,
        "variants": variants,
    }
}

DRAWINGS = {"images/tradeoff.svg": drawing}

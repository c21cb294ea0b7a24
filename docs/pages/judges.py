"""The tables of judges.md, made from the files in benchmarks/results/."""

from __future__ import annotations

from functools import partial

from attribune.apps.report.plots import Estimate, forest_plot
from attribune_lab.benchmark.tables import Line
from pages.cells import between, measured, table
from pages.experiments import record

_SHOTS = (1, 5, 20)  # judgements of a new judge
_UNAWARE = ("text alone", "shuffled")  # what does not know the judge
_FIRST = {
    "injector": "language model and judge",
    "linear": "words and judge",
    "text alone": "language model",
    "linear, text alone": "words",
}


def new_judges() -> list[str]:
    """What a few judgements teach of a new judge."""
    found = measured("new_judges")
    by_name = {(line["name"], line["shots"]): line for line in found["lines"]}
    names = dict.fromkeys(line["name"] for line in found["lines"] if line["shots"])

    def cells(name: str) -> list[str]:
        unknown = by_name["linear" if name.startswith("linear") else "none", 0]
        return [f"{line['rmse'][0]:.2f}" for line in (unknown, *(by_name[name, count] for count in _SHOTS))]

    return [
        f"RMSE on {found['scored_rows']:,} judgements by {found['new_judges']} new judges, by the number of their "
        f"other judgements that are known, drawn {found['draws']} times:",
        "",
        *table(["", "0", *(str(count) for count in _SHOTS)], [[name, *cells(name)] for name in names]),
    ]


def single_judgements() -> list[str]:
    """What each method gains over the text alone on single judgements, in points of the variance."""
    tables = record("judges_small").tables
    rows = [
        [of_both[0].name, *(_points(line) for line in of_both)]
        for of_both in zip(*(one.lines for one in tables), strict=True)
        if of_both[0].against is not None
    ]
    return table(["", "politeness", "arousal"], rows)


def _points(line: Line) -> str:
    assert line.against is not None
    text = between(line.against.difference, line.against.low, line.against.high, scale=100, places=0, sign="+")
    return f"**{text}**" if line.better or line.worse else text


def drawing(data: str) -> str:
    """The share of the variance of single judgements that each method explains, the most first."""
    lines = next(one.lines for one in record("judges_small").tables if one.plan.name == data)
    estimates = [
        Estimate(
            name=line.name,
            value=100 * line.metrics["r2"].value,
            low=100 * line.metrics["r2"].low,
            high=100 * line.metrics["r2"].high,
            highlighted=not line.name.endswith(_UNAWARE),
        )
        for line in sorted(lines, key=lambda line: line.metrics["r2"].value, reverse=True)
    ]
    return forest_plot(estimates, label="variance of single judgements explained (%)")


def first_screen() -> str:
    """What a language model and a linear model of words explain with the judge and without."""
    lines = {line.name: line for line in record("judges_small").tables[0].lines}
    estimates = [
        Estimate.of(name, lines[method].metrics["r2"], scale=100, highlighted=not method.endswith(_UNAWARE))
        for method, name in _FIRST.items()
    ]
    return forest_plot(estimates, label="variance of single answers explained (%)", bars=True)


DRAWINGS = {
    "images/first.svg": first_screen,
    "images/judges.svg": partial(drawing, "politeness"),
    "images/judges-arousal.svg": partial(drawing, "studemo-arousal"),
}
TABLES = {
    "judges.md": {
        "single judgements": single_judgements,
        "new judges": new_judges,
    }
}

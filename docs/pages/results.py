"""The tables of results.md, made from the records of benchmarks and of benchmarks/real_data.py."""

from __future__ import annotations

from statistics import fmean
from typing import Any

from attribune.methods import METHODS
from attribune.metrics.bootstrap import Interval
from attribune.metrics.tables import format_difference, format_interval
from attribune_lab.benchmark.tables import Line
from pages import forests
from pages.cells import between, machine_line, measured, table
from pages.experiments import record


def takeaways() -> list[str]:
    """What the preset `small` shows, in sentences."""
    polmed, critics = record("small").tables
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
    """How far every setting of the preset `small` is from the reference: points of accuracy, and log loss."""
    polmed, critics = record("small").tables
    losses = {line.name: line.loss for line in polmed.lines}
    rows = [
        [
            f"{line.name}{' *' if line.name in critics.best else ''}",
            points(line),
            "" if (loss := losses[line.name]) is None else format_difference("log_loss", loss),
        ]
        for line in critics.lines
        if line.name != critics.reference
    ]
    return table(["", "critics, points", "PolMed, log loss"], rows)


def real_data() -> list[str]:
    """The accuracy of every setting on the test rows of both sets."""
    sets = measured("test")["sets"]
    rows = [
        [
            name,
            *(
                format_interval("accuracy", Interval(**one["settings"][name]["metrics"]["accuracy"]))
                for one in sets.values()
            ),
        ]
        for name in sets["critics"]["settings"]
    ]
    return table(["accuracy, %", "critics", "PolMed"], rows)


def long_memory() -> list[str]:
    """Memory and time of a training step on one document, for every way to read it."""
    found = measured("long_documents")
    short, long = found["memory"]["512"], found["memory"]["4096"]
    rows = [
        [way, f"{short[way]['peak']:,.0f}" if way in short else "", f"{one['peak']:,.0f}", f"{one['seconds']:.1f}"]
        for way, one in long.items()
        if way != "head+tail"
    ]
    head = ["tokens", "512: MB", "4,096: MB", "4,096: s"]
    return [machine_line(found), "", *table(head, rows)]


def coverage() -> list[str]:
    """How often intervals hold the truth, and how wide they are, by what is resampled; in the mean over figures."""
    judged: dict[tuple[str, int], list[dict[str, Any]]] = {}
    alone = []
    for case in measured("coverage")["cases"]:
        if case["alone"]:
            alone.append([f"{case['judges']} speakers", *(_covered([way]) for way in case["ways"].values())])
        else:
            name = f"{case['effects']}{', unevenly many each' if case['uneven'] else ''}"
            judged.setdefault((name, case["judges"]), []).append(case["ways"])
    ways = ["rows", "texts", "judges", "both at once", "both"]
    rows = [
        [f"{name}, {judges} judges", *(_covered([one[way] for one in cases]) for way in ways), _width(cases)]
        for (name, judges), cases in judged.items()
    ]
    return [
        *table(["resampled", *ways, "width of both, at once = 1"], rows),
        "",
        "Speakers who differ, and have their texts for themselves:",
        "",
        *table(["resampled", "rows", "speakers"], alone),
    ]


def _covered(cases: list[dict[str, dict[str, float]]]) -> str:
    return f"{100 * fmean(figure['coverage'] for case in cases for figure in case.values()):.0f} %"


def _width(cases: list[dict[str, Any]]) -> str:
    """How wide intervals over both are, divided by those over both drawn at once."""
    shares = [
        figure["width"] / case["both at once"][name]["width"] for case in cases for name, figure in case["both"].items()
    ]
    return f"{fmean(shares):.2f}"


DRAWINGS = {
    "images/methods-polmed.svg": lambda: forests.loss_differences(record("small").tables[0]),
    "images/methods-critics.svg": lambda: forests.accuracy_differences(record("small").tables[1]),
}
TABLES = {
    "results.md": {
        "takeaways": takeaways,
        "every method": every_method,
        "real data": real_data,
        "long memory": long_memory,
        "coverage": coverage,
    }
}

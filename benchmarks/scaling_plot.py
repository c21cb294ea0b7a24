"""The drawing of what scaling.py measured."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import matplotlib
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

FILE = Path(__file__).parent.parent / "docs" / "images" / "scaling.svg"
INK, GREY, BLUE, ORANGE = "#1f2933", "#9aa5b1", "#1864ab", "#d9480f"
ACROSS = {
    "tokens": "tokens of a text",
    "attributes": "attributes",
    "labels": "labels of a row",
    "values": "values in the table",
    "bottleneck": "bottleneck",
}
UNITS = ((10**6, "M"), (10**3, "k"), (1, ""))
STYLE = {
    "font.family": "sans-serif",
    "font.size": 9,
    "svg.fonttype": "none",
    "svg.hashsalt": "attribune",
    "axes.spines.top": False,
    "axes.edgecolor": GREY,
    "axes.labelcolor": INK,
    "xtick.color": INK,
    "ytick.color": INK,
}


def write_plot(axes: dict[str, Any]) -> None:
    """A panel for each axis: time at the left, memory at the right, exponents above."""
    with matplotlib.rc_context(STYLE):
        figure = Figure(figsize=(8.4, 5.2), layout="constrained")
        panels = figure.subplots(2, 3).flat
        lines: list[Any] = []
        for (name, found), panel in zip(axes.items(), panels, strict=False):
            drawn = _draw(panel, name, found)
            lines = max(lines, drawn, key=len)
        for panel in panels:
            panel.set_axis_off()
            panel.legend(handles=lines, loc="center", frameon=False)
        FILE.parent.mkdir(exist_ok=True)
        figure.savefig(FILE, format="svg", metadata={"Date": None, "Creator": None})
    print(f"written: {FILE}")


def _draw(panel: Axes, name: str, found: dict[str, Any]) -> list[Any]:
    points, exponents = found["points"], found["exponents"]
    sizes = [point["size"] for point in points]
    right = panel.twinx()
    lines = panel.plot(sizes, _column(points, "milliseconds"), "-o", color=BLUE, markersize=3.5, label="ms a step")
    if "chain_milliseconds" in points[0]:
        chain = _column(points, "chain_milliseconds")
        lines += panel.plot(sizes, chain, "--", color=BLUE, linewidth=1, label="ms, static adapters")
    megabytes = _column(points, "megabytes")
    lines += right.plot(sizes, megabytes, "-s", color=ORANGE, markersize=3.5, linewidth=1, label="MB (right)")
    for side, figures in ((panel, _column(points, "milliseconds")), (right, megabytes)):
        side.set_xscale("log")
        side.set_yscale("log")
        # Both have at least a factor of ten, so that a flat line looks flat.
        low, high = min(figures), max(figures)
        room = max(10.0, 2 * high / low) ** 0.5
        middle = (low * high) ** 0.5
        side.set_ylim(middle / room, middle * room)
        side.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        side.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}"))
        side.yaxis.set_minor_locator(NullLocator())
    _ticks(panel, sizes)
    panel.set_xlabel(ACROSS[name])
    panel.grid(color="#e4e7eb", linewidth=0.6)
    time, memory = exponents["milliseconds"], exponents["megabytes"]
    panel.set_title(
        f"time {time['whole']:.2f}, at the end {time['last']:.2f}\n"
        f"memory {memory['whole']:.2f}, at the end {memory['last']:.2f}",
        fontsize=8.5,
        color=INK,
    )
    return lines


def _ticks(panel: Axes, sizes: list[int]) -> None:
    shown = [next(f"{size // unit}{name}" for unit, name in UNITS if size >= unit) for size in sizes]
    panel.set_xticks(sizes, shown, fontsize=7.5)
    panel.xaxis.set_minor_locator(NullLocator())


def _column(points: list[dict[str, Any]], name: str) -> list[float]:
    return [point[name] for point in points]

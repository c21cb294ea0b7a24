"""Plots as SVG text, drawn for a page that is read on paper, on a screen and on a telephone."""

from __future__ import annotations

import io
import re
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import cycle
from typing import Any, Literal, Self

import matplotlib
import numpy as np
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from matplotlib.ticker import NullFormatter

from attribune.core.arrays import Array
from attribune.metrics.bootstrap import Interval, PairedResult

INK, GREY, PAPER, BLUE, ORANGE = "#1f2933", "#9aa5b1", "#ffffff", "#1864ab", "#d9480f"
_MAX_NAME = 18  # characters of a class's name
_DARK = 0.7  # opacity of a cell from which the colour of the page is more legible on it than ink
_MAX_TICKS = 45  # characters of tick labels that fit side by side in full size
_COLOURS = (BLUE, ORANGE, "#2b8a3e", "#862e9c", "#5c940d", "#0b7285")


@dataclass(frozen=True, kw_only=True)
class Estimate:
    """A value with its interval, over all rows or over a bin of them.

    Args:
        name: of a setting, or of the bin.
        highlighted: whether a forest plot draws it in blue.
        rows: number of rows of the bin.
        predicted: mean prediction of the bin.
    """

    name: str
    value: float
    low: float
    high: float
    highlighted: bool = False
    rows: int = 0
    predicted: float = 0.0

    @classmethod
    def of(cls, name: str, result: Interval | PairedResult, *, scale: float = 1, **fields: Any) -> Self:
        """Make an estimate of a result, in the unit in which it is shown."""
        value = result.value if isinstance(result, Interval) else result.difference
        return cls(name=name, value=scale * value, low=scale * result.low, high=scale * result.high, **fields)


@dataclass(frozen=True, kw_only=True)
class Curve:
    """A measure over the epochs of a training."""

    name: str
    x: tuple[float, ...]
    y: tuple[float, ...]


def band_plot(series: Mapping[str, Sequence[Any]], *, xlabel: str, ylabel: str) -> str:
    """Plot the median and an area between two percentiles against a place, for each series.

    Args:
        series: points with ``at``, ``low``, ``median`` and ``high`` as shares, in the order of ``at``; the axis is
            logarithmic where places are a power of ten apart or more.
    """
    places = [point.at for points in series.values() for point in points]
    with _figure(height=3.6, xlabel=xlabel, ylabel=ylabel, grid="both") as (figure, axes):
        axes.axhline(0, color=INK, linewidth=0.8)
        for (name, points), colour in zip(series.items(), cycle(_COLOURS), strict=False):
            at = [point.at for point in points]
            low, median, high = ([100 * getattr(p, key) for p in points] for key in ("low", "median", "high"))
            axes.plot(at, median, "-o", color=colour, markersize=4, label=name)
            if len(points) > 1:
                axes.fill_between(at, low, high, color=colour, alpha=0.15, linewidth=0)
            else:
                axes.vlines(at, low, high, color=colour, linewidth=2)
        if min(places) > 0 and max(places) >= 10 * min(places):
            axes.set_xscale("log")
            axes.xaxis.set_major_formatter(lambda x, _: f"{x:,.0f}" if x >= 1 else f"{x:g}")
            axes.xaxis.set_minor_formatter(NullFormatter())
        figure.legend(frameon=False, fontsize=9, loc="outside lower center", ncols=3)
        return _svg(figure)


def forest_plot(estimates: Sequence[Estimate], *, label: str, zero_line: bool = False, bars: bool = False) -> str:
    """Plot values with their intervals, one below the other.

    Args:
        zero_line: whether to draw a line at zero.
        bars: whether to draw a bar from zero for each, with its value in figures.
    """
    with _figure(height=0.9 + 0.32 * len(estimates), xlabel=label, grid="x") as (figure, axes):
        for y, estimate in enumerate(reversed(estimates)):
            colour = BLUE if estimate.highlighted else GREY
            axes.plot([estimate.low, estimate.high], [y, y], color=colour, linewidth=2.2, solid_capstyle="butt")
            if bars:
                axes.barh(y, estimate.value, height=0.62, color=colour, alpha=0.5)
                axes.text(estimate.high, y, f" {estimate.value:.0f}", va="center", color=INK)
            else:
                axes.plot([estimate.value], [y], "o", color=colour, markersize=5.5)
        axes.set_yticks(range(len(estimates)), [estimate.name for estimate in reversed(estimates)])
        axes.set_ylim(-0.6, len(estimates) - 0.4)
        if zero_line:
            axes.axvline(0, color=INK, linewidth=0.8)
        return _svg(figure)


def binned_plot(bins: Sequence[Estimate], *, ylabel: str, xlabel: str, overall: float | None = None) -> str:
    """Plot values over bins of rows with their intervals.

    Args:
        bins: differences, or metrics, with the rows of each bin.
        overall: the value over all rows, drawn as a level; None for differences, drawn with zero and a line that is
            fitted to the bins, weighted by their rows.
    """
    with _figure(height=3.1, xlabel=xlabel, ylabel=ylabel, grid="y") as (figure, axes):
        x, values = np.arange(len(bins)), [one.value for one in bins]
        axes.axhline(overall or 0, color=INK, linewidth=0.8)
        axes.vlines(x, [one.low for one in bins], [one.high for one in bins], color=GREY, linewidth=2)
        axes.plot(x, values, "o", color=BLUE, markersize=5.5)
        if overall is None and len(bins) > 1:
            slope, intercept = np.polyfit(x, values, 1, w=np.sqrt([one.rows for one in bins]))
            axes.plot(x, intercept + slope * x, color=ORANGE, linewidth=1.6)
        ticks = [f"{one.name}\n{one.rows:,}" for one in bins]
        axes.set_xticks(x, ticks, fontsize=7.5 if sum(len(one.name) for one in bins) > _MAX_TICKS else 10)
        return _svg(figure)


def curve_plot(curves: Sequence[Curve], *, ylabel: str) -> str:
    """Plot measures over the epochs of a training."""
    with _figure(height=3.1, xlabel="epoch", ylabel=ylabel, grid="both") as (figure, axes):
        for curve, colour in zip(curves, cycle(_COLOURS), strict=False):
            axes.plot(curve.x, curve.y, "-o", color=colour, markersize=3.5, label=curve.name)
        if len(curves) > 1:
            figure.legend(frameon=False, fontsize=9, loc="outside lower center", ncols=3)
        return _svg(figure)


def confusion_plot(counts: Array, *, names: Sequence[str]) -> str:
    """Plot a confusion matrix (C, C), true classes down and predicted ones across, shaded by the share of the class."""
    shares = counts / np.maximum(counts.sum(axis=1, keepdims=True), 1)
    texts = {(true, predicted): f"{counts[true, predicted]:,}" for true, predicted in np.argwhere(counts).tolist()}
    short = [name if len(name) <= _MAX_NAME else f"{name[: _MAX_NAME - 1]}…" for name in names]
    rotation = 45 if sum(map(len, short)) > _MAX_TICKS else 0
    return _grid_plot(shares, texts, short, xlabel="predicted", ylabel="true", size=8, rotation=rotation)


def span_plot(lost: Array, *, names: Sequence[str]) -> str:
    """Plot what is lost (L, L) without a span of layers, from the first one, down, to the last one, across."""
    largest = float(np.nanmax(np.abs(lost))) or 1.0
    texts = {(first, last): f"{lost[first, last]:.3g}" for first, last in np.argwhere(~np.isnan(lost)).tolist()}
    return _grid_plot(lost / largest, texts, names, xlabel="last layer", ylabel="first layer", size=7)


def _grid_plot(
    shades: Array,
    texts: Mapping[tuple[int, int], str],
    names: Sequence[str],
    *,
    xlabel: str,
    ylabel: str,
    size: float,
    rotation: float = 0,
) -> str:
    """Plot a square of shaded cells, some of them with a text, by row and column."""
    side = 1.6 + 0.42 * len(names)
    with _figure(width=max(5.2, side), height=max(2.4, side - 0.4), xlabel=xlabel, ylabel=ylabel) as (figure, axes):
        _shade(axes, shades)
        for (row, column), text in texts.items():
            ink = PAPER if abs(shades[row, column]) > _DARK else INK
            axes.text(column, row, text, ha="center", va="center", color=ink, fontsize=size)
        axes.set_xticks(range(len(names)), names, rotation=rotation)
        axes.set_yticks(range(len(names)), names)
        return _svg(figure)


def calibration_plot(bins: Sequence[Estimate], *, xlabel: str, ylabel: str) -> str:
    """Plot observed over predicted values, with the diagonal on which they agree."""
    with _figure(height=3.4, xlabel=xlabel, ylabel=ylabel, grid="both") as (figure, axes):
        predicted = [one.predicted for one in bins]
        lows, highs = [one.low for one in bins], [one.high for one in bins]
        ends = [min(*predicted, *lows), max(*predicted, *highs)]
        axes.plot(ends, ends, color=INK, linewidth=0.8)
        axes.vlines(predicted, lows, highs, color=GREY, linewidth=2)
        axes.plot(predicted, [one.value for one in bins], "o", color=BLUE, markersize=5.5)
        return _svg(figure)


def _shade(axes: Any, values: Array) -> None:
    """Draw a grid (R, C) of cells, blue above zero and orange below, as opaque as they are far from it, 1 at most."""
    for row, column in np.argwhere(np.nan_to_num(values) != 0).tolist():
        colour = BLUE if values[row, column] > 0 else ORANGE
        place = (column - 0.5, row - 0.5)
        axes.add_patch(Rectangle(place, 1, 1, facecolor=colour, alpha=abs(values[row, column]), linewidth=0))
    axes.set(xlim=(-0.5, values.shape[1] - 0.5), ylim=(values.shape[0] - 0.5, -0.5))


@contextmanager
def _figure(
    *, height: float, xlabel: str, ylabel: str = "", grid: Literal["x", "y", "both"] | None = None, width: float = 5.2
) -> Iterator[tuple[Figure, Any]]:
    with matplotlib.rc_context(
        {
            "font.family": "sans-serif",
            "font.size": 10,
            "svg.fonttype": "none",
            "svg.hashsalt": "attribune",
            "text.parse_math": False,  # names of classes and values may hold dollar signs
            "axes.spines.top": False,
            "axes.spines.right": False,
            "axes.edgecolor": GREY,
            "axes.labelcolor": INK,
            "xtick.color": INK,
            "ytick.color": INK,
        }
    ):
        figure = Figure(figsize=(width, height), layout="constrained")
        axes = figure.add_subplot()
        axes.set(xlabel=xlabel, ylabel=ylabel)
        if grid is not None:
            axes.grid(axis=grid, color="#e4e7eb", linewidth=0.8)
        yield figure, axes


def _svg(figure: Figure) -> str:
    """Return the drawing as wide as the page, without a date, so that equal values give equal files."""
    buffer = io.StringIO()
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph .* missing from font")  # the reader's browser has its own
        figure.savefig(buffer, format="svg", metadata={"Date": None, "Creator": None})
    text = buffer.getvalue()
    text = text[text.index("<svg") :]
    return re.sub(r'<svg ([^>]*?)width="[^"]*" height="[^"]*"|<svg ', r'<svg role="img" \1', text, count=1)

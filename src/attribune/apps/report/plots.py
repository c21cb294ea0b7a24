"""Plots as SVG text, drawn for a page that is read on paper, on a screen and on a telephone."""

from __future__ import annotations

import io
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import cycle
from typing import Any

import matplotlib
import numpy as np
import numpy.typing as npt
from matplotlib.figure import Figure

__all__ = [
    "BinnedEstimates",
    "CalibrationPoint",
    "Curve",
    "Estimate",
    "binned_plot",
    "calibration_plot",
    "confusion_plot",
    "curve_plot",
    "forest_plot",
]

Array = npt.NDArray[Any]
INK, GREY, BLUE, ORANGE = "#1f2933", "#9aa5b1", "#1864ab", "#d9480f"
_MAX_NAME = 18  # characters of a class's name
_DARK = 0.55  # share from which white text is more legible
_MAX_TICKS = 45  # characters of tick labels that fit side by side in full size
_COLOURS = (BLUE, ORANGE, "#2b8a3e", "#862e9c", "#5c940d", "#0b7285")


@dataclass(frozen=True, kw_only=True)
class Estimate:
    """A value with its interval."""

    name: str
    value: float
    low: float
    high: float
    highlighted: bool


@dataclass(frozen=True, kw_only=True)
class BinnedEstimates:
    """Values over bins of rows.

    Args:
        name: by what the rows are binned.
        bins: names of the bins.
        values: (bins,).
        lows: (bins,), lower ends of the intervals.
        highs: (bins,), upper ends.
        rows: number in each bin.
    """

    name: str
    bins: tuple[str, ...]
    values: Array
    lows: Array
    highs: Array
    rows: tuple[int, ...]

    def fit(self) -> tuple[float, float] | None:
        """Fit a line through the bins, weighted by rows: intercept and slope, None for fewer than two bins."""
        if len(self.values) < 2:
            return None
        slope, intercept = np.polyfit(
            np.arange(len(self.values)), self.values, 1, w=np.sqrt(np.array(self.rows, float))
        )
        return float(intercept), float(slope)


@dataclass(frozen=True, kw_only=True)
class Curve:
    """A measure over the epochs of a training."""

    name: str
    x: tuple[float, ...]
    y: tuple[float, ...]


@dataclass(frozen=True, kw_only=True)
class CalibrationPoint:
    """What was predicted, and what was observed with its interval."""

    predicted: float
    observed: float
    low: float
    high: float


def forest_plot(estimates: Sequence[Estimate], *, label: str, zero_line: bool = False) -> str:
    """Plot values with their intervals, one below the other."""
    with _figure(width=5.2, height=0.9 + 0.32 * len(estimates)) as (figure, axes):
        for y, estimate in enumerate(reversed(estimates)):
            colour = BLUE if estimate.highlighted else GREY
            axes.plot([estimate.low, estimate.high], [y, y], color=colour, linewidth=2.2, solid_capstyle="butt")
            axes.plot([estimate.value], [y], "o", color=colour, markersize=5.5)
        axes.set_yticks(range(len(estimates)), [estimate.name for estimate in reversed(estimates)])
        axes.set_ylim(-0.6, len(estimates) - 0.4)
        if zero_line:
            axes.axvline(0, color=INK, linewidth=0.8)
        axes.set_xlabel(label)
        axes.grid(axis="x", color="#e4e7eb", linewidth=0.8)
        return _svg(figure)


def binned_plot(binned: BinnedEstimates, *, ylabel: str, xlabel: str, overall: float | None = None) -> str:
    """Plot values over bins with intervals.

    Args:
        binned: differences, or metrics.
        ylabel: of the values.
        xlabel: of the bins.
        overall: the value over all rows, drawn as a level; None for differences, drawn with zero and a fitted line.
    """
    with _figure(width=5.2, height=3.1) as (figure, axes):
        x = np.arange(len(binned.values))
        axes.axhline(overall or 0, color=INK, linewidth=0.8)
        axes.vlines(x, binned.lows, binned.highs, color=GREY, linewidth=2)
        axes.plot(x, binned.values, "o", color=BLUE, markersize=5.5)
        if overall is None and (line := binned.fit()) is not None:
            axes.plot(x, line[0] + line[1] * x, color=ORANGE, linewidth=1.6)
        ticks = [f"{name}\n{rows:,}" for name, rows in zip(binned.bins, binned.rows, strict=True)]
        axes.set_xticks(x, ticks, fontsize=7.5 if sum(map(len, binned.bins)) > _MAX_TICKS else 10)
        axes.set_xlabel(xlabel)
        axes.set_ylabel(ylabel)
        axes.grid(axis="y", color="#e4e7eb", linewidth=0.8)
        return _svg(figure)


def curve_plot(curves: Sequence[Curve], *, ylabel: str) -> str:
    """Plot measures over the epochs of a training."""
    with _figure(width=5.2, height=3.1) as (figure, axes):
        for curve, colour in zip(curves, cycle(_COLOURS), strict=False):
            axes.plot(curve.x, curve.y, "-o", color=colour, markersize=3.5, label=curve.name)
        axes.set_xlabel("epoch")
        axes.set_ylabel(ylabel)
        axes.grid(color="#e4e7eb", linewidth=0.8)
        if len(curves) > 1:
            figure.legend(frameon=False, fontsize=9, loc="outside lower center", ncols=3)
        return _svg(figure)


def confusion_plot(counts: Array, *, names: Sequence[str]) -> str:
    """Plot a confusion matrix (C, C), true classes down and predicted ones across, shaded by the share of the class."""
    shares = counts / np.maximum(counts.sum(axis=1, keepdims=True), 1)
    side = 1.6 + 0.42 * len(names)
    with _figure(width=max(5.2, side), height=max(2.4, side - 0.4)) as (figure, axes):
        axes.imshow(shares, cmap="Blues", vmin=0, vmax=1, aspect="auto")
        for true, predicted in np.ndindex(*shares.shape):
            if counts[true, predicted]:
                ink = "white" if shares[true, predicted] > _DARK else INK
                text = f"{counts[true, predicted]:,}"
                axes.text(predicted, true, text, ha="center", va="center", color=ink, fontsize=8)
        short = [name if len(name) <= _MAX_NAME else f"{name[: _MAX_NAME - 1]}…" for name in names]
        axes.set_xticks(range(len(names)), short, rotation=45 if sum(map(len, short)) > _MAX_TICKS else 0)
        axes.set_yticks(range(len(names)), short)
        axes.set_xlabel("predicted")
        axes.set_ylabel("true")
        return _svg(figure)


def calibration_plot(points: Sequence[CalibrationPoint], *, xlabel: str, ylabel: str) -> str:
    """Plot observed over predicted values, with the diagonal on which they agree."""
    with _figure(width=5.2, height=3.4) as (figure, axes):
        predicted = [point.predicted for point in points]
        lows, highs = [point.low for point in points], [point.high for point in points]
        ends = [min(*predicted, *lows), max(*predicted, *highs)]
        axes.plot(ends, ends, color=INK, linewidth=0.8)
        axes.vlines(predicted, lows, highs, color=GREY, linewidth=2)
        axes.plot(predicted, [point.observed for point in points], "o", color=BLUE, markersize=5.5)
        axes.set_xlabel(xlabel)
        axes.set_ylabel(ylabel)
        axes.grid(color="#e4e7eb", linewidth=0.8)
        return _svg(figure)


@contextmanager
def _figure(*, width: float, height: float) -> Iterator[tuple[Figure, Any]]:
    with matplotlib.rc_context(
        {
            "font.family": "sans-serif",
            "font.size": 10,
            "svg.fonttype": "none",
            "svg.hashsalt": "attribune",
            "axes.spines.top": False,
            "axes.spines.right": False,
            "axes.edgecolor": GREY,
            "axes.labelcolor": INK,
            "xtick.color": INK,
            "ytick.color": INK,
        }
    ):
        figure = Figure(figsize=(width, height), layout="constrained")
        yield figure, figure.add_subplot()


def _svg(figure: Figure) -> str:
    """Return the drawing as wide as the page, without a date, so that equal values give equal files."""
    buffer = io.StringIO()
    figure.savefig(buffer, format="svg", metadata={"Date": None, "Creator": None})
    text = buffer.getvalue()
    text = text[text.index("<svg") :]
    return re.sub(r'<svg ([^>]*?)width="[^"]*" height="[^"]*"|<svg ', r'<svg role="img" \1', text, count=1)

"""Plots as SVG text, drawn for a page that is read on paper, on a screen and on a telephone."""

from __future__ import annotations

import io
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import matplotlib
import numpy as np
import numpy.typing as npt
from matplotlib.figure import Figure

__all__ = ["Bar", "Bins", "Curve", "Point", "curves", "forest", "heat", "reliability", "sparsity"]

Array = npt.NDArray[Any]
INK, GREY, BLUE, ORANGE = "#1f2933", "#9aa5b1", "#1864ab", "#d9480f"
_NAME = 18  # characters of a class's name that are shown
_DARK = 0.55  # share from which white is read best
_ROOM = 45  # characters of names that fit side by side in full size
_COLOURS = (BLUE, ORANGE, "#2b8a3e", "#862e9c", "#5c940d", "#0b7285")


@dataclass(frozen=True, kw_only=True)
class Bar:
    """A value with its interval.

    Args:
        name: at the left.
        value: between low and high.
        low: of the interval.
        high: of the interval.
        strong: whether it is drawn in full colour.
    """

    name: str
    value: float
    low: float
    high: float
    strong: bool = True


@dataclass(frozen=True, kw_only=True)
class Bins:
    """Differences over bins of rows.

    Args:
        name: of the line.
        edges: what each bin is called.
        values: one for each bin.
        lows: of the intervals.
        highs: of the intervals.
        rows: in each bin.
    """

    name: str
    edges: tuple[str, ...]
    values: Array
    lows: Array
    highs: Array
    rows: tuple[int, ...]

    def fit(self) -> tuple[float, float] | None:
        """Intercept and slope of the line through the bins, each weighted by its rows; None for fewer than two bins."""
        if len(self.values) < 2:
            return None
        slope, start = np.polyfit(np.arange(len(self.values)), self.values, 1, w=np.sqrt(np.array(self.rows, float)))
        return float(start), float(slope)


@dataclass(frozen=True, kw_only=True)
class Curve:
    """A measure over the passes of a training."""

    name: str
    x: tuple[float, ...]
    y: tuple[float, ...]


@dataclass(frozen=True, kw_only=True)
class Point:
    """What comes true, with its interval, beside what was said."""

    said: float
    true: float
    low: float
    high: float


def forest(bars: Sequence[Bar], *, label: str, zero: bool = False) -> str:
    """Values with their intervals, one below the other; with `zero`, a line marks no difference."""
    with _figure(width=5.2, height=0.9 + 0.32 * len(bars)) as (figure, axes):
        for place, bar in enumerate(reversed(bars)):
            colour = BLUE if bar.strong else GREY
            axes.plot([bar.low, bar.high], [place, place], color=colour, linewidth=2.2, solid_capstyle="butt")
            axes.plot([bar.value], [place], "o", color=colour, markersize=5.5)
        axes.set_yticks(range(len(bars)), [bar.name for bar in reversed(bars)])
        axes.set_ylim(-0.6, len(bars) - 0.4)
        if zero:
            axes.axvline(0, color=INK, linewidth=0.8)
        axes.set_xlabel(label)
        axes.grid(axis="x", color="#e4e7eb", linewidth=0.8)
        return _svg(figure)


def sparsity(bins: Bins, *, label: str, across: str, level: float | None = None) -> str:
    """Differences over bins with intervals, and the line fitted to them; or figures, and the level of all rows."""
    with _figure(width=5.2, height=3.1) as (figure, axes):
        x = np.arange(len(bins.values))
        axes.axhline(level or 0, color=INK, linewidth=0.8)
        axes.vlines(x, bins.lows, bins.highs, color=GREY, linewidth=2)
        axes.plot(x, bins.values, "o", color=BLUE, markersize=5.5)
        if level is None and (line := bins.fit()) is not None:
            axes.plot(x, line[0] + line[1] * x, color=ORANGE, linewidth=1.6)
        names = [f"{edge}\n{rows:,}" for edge, rows in zip(bins.edges, bins.rows, strict=True)]
        axes.set_xticks(x, names, fontsize=7.5 if sum(map(len, bins.edges)) > _ROOM else 10)
        axes.set_xlabel(across)
        axes.set_ylabel(label)
        axes.grid(axis="y", color="#e4e7eb", linewidth=0.8)
        return _svg(figure)


def curves(lines: Sequence[Curve], *, label: str) -> str:
    """Measures over the passes of a training."""
    with _figure(width=5.2, height=3.1) as (figure, axes):
        for number, line in enumerate(lines):
            axes.plot(line.x, line.y, "-o", color=_COLOURS[number % len(_COLOURS)], markersize=3.5, label=line.name)
        axes.set_xlabel("passes over the training rows")
        axes.set_ylabel(label)
        axes.grid(color="#e4e7eb", linewidth=0.8)
        if len(lines) > 1:
            figure.legend(frameon=False, fontsize=9, loc="outside lower center", ncols=3)
        return _svg(figure)


def heat(shares: Array, *, names: Sequence[str], counts: Array) -> str:
    """A square of shares (C, C), true classes down and predicted ones across, with the rows of each cell."""
    side = 1.6 + 0.42 * len(names)
    with _figure(width=max(5.2, side), height=max(2.4, side - 0.4)) as (figure, axes):
        axes.imshow(shares, cmap="Blues", vmin=0, vmax=1, aspect="auto")
        for true, predicted in np.ndindex(*shares.shape):
            if counts[true, predicted]:
                ink = "white" if shares[true, predicted] > _DARK else INK
                text = f"{counts[true, predicted]:,}"
                axes.text(predicted, true, text, ha="center", va="center", color=ink, fontsize=8)
        short = [name if len(name) <= _NAME else f"{name[: _NAME - 1]}…" for name in names]
        axes.set_xticks(range(len(names)), short, rotation=45 if sum(map(len, short)) > _ROOM else 0)
        axes.set_yticks(range(len(names)), short)
        axes.set_xlabel("predicted")
        axes.set_ylabel("true")
        return _svg(figure)


def reliability(points: Sequence[Point], *, said: str, true: str) -> str:
    """What comes true over what was said; on the line, the one is the other."""
    with _figure(width=5.2, height=3.4) as (figure, axes):
        ends = [min(min(p.said, p.low) for p in points), max(max(p.said, p.high) for p in points)]
        axes.plot(ends, ends, color=INK, linewidth=0.8)
        axes.vlines(
            [p.said for p in points], [p.low for p in points], [p.high for p in points], color=GREY, linewidth=2
        )
        axes.plot([p.said for p in points], [p.true for p in points], "o", color=BLUE, markersize=5.5)
        axes.set_xlabel(said)
        axes.set_ylabel(true)
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
    """The drawing alone, as wide as the page lets it be, without date, so that the same figures give the same file."""
    sink = io.StringIO()
    figure.savefig(sink, format="svg", metadata={"Date": None, "Creator": None})
    text = sink.getvalue()
    text = text[text.index("<svg") :]
    return re.sub(r'<svg ([^>]*?)width="[^"]*" height="[^"]*"|<svg ', r'<svg role="img" \1', text, count=1)

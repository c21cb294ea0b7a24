"""Forest plots of paired differences, and the colours in which the drawings of the pages are seen."""

from __future__ import annotations

from collections.abc import Callable

from attribune.apps.report.plots import Estimate, forest_plot
from attribune.metrics.bootstrap import PairedResult
from attribune_lab.benchmark.tables import Line, SetTable

_DARK = (  # colours of plots: what each is in a dark scheme
    ("fill: #ffffff", "fill: #1e2129"),
    ("fill: #1f2933", "fill: #e4e7eb"),
    ("stroke: #1f2933", "stroke: #e4e7eb"),
    ("stroke: #e4e7eb", "stroke: #3e4c59"),
    ("fill: #1864ab", "fill: #74c0fc"),
    ("stroke: #1864ab", "stroke: #74c0fc"),
    ("fill: #d9480f", "fill: #ffa94d"),
    ("stroke: #d9480f", "stroke: #ffa94d"),
)


def in_both_schemes(svg: str) -> str:
    """Add the colours that a drawing has where the reader prefers a dark scheme."""
    rules = "".join(f'[style*="{light}"] {{{dark} !important}} ' for light, dark in _DARK)
    start = svg.index("<defs>")
    return f"{svg[:start]}<style>@media (prefers-color-scheme: dark) {{{rules}}}</style>\n {svg[start:]}"


def accuracy_differences(one: SetTable) -> str:
    """The difference of every setting of a set to the reference in accuracy, in points, the best one first."""
    label = f"points of accuracy above {one.reference}"
    return _differences(one, lambda line: line.against, scale=100, label=label)


def loss_differences(one: SetTable) -> str:
    """By how much the log loss of every setting of a set is below that of the reference, the lowest one first."""
    label = f"log loss below that of {one.reference}"
    return _differences(one, lambda line: line.loss, scale=-1, label=label)


def _differences(one: SetTable, result_of: Callable[[Line], PairedResult | None], *, scale: float, label: str) -> str:
    """Plot differences, which are better the further right they are; blue where the interval excludes zero."""
    estimates = []
    for line in one.lines:
        if (result := result_of(line)) is not None:
            low, high = sorted((scale * result.low, scale * result.high))
            value = scale * result.difference
            estimates.append(Estimate(name=line.name, value=value, low=low, high=high, highlighted=low > 0 or high < 0))
    return forest_plot(sorted(estimates, key=lambda one: -one.value), label=label, zero_line=True)

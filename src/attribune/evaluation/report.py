"""Tables of metrics with their intervals, as Markdown and as fixed-width text."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from attribune.evaluation.bootstrap import Interval

__all__ = ["ResultRow", "format_interval", "markdown_table", "text_table"]

_ABSENT = "-"


@dataclass(frozen=True, kw_only=True)
class ResultRow:
    """One line of a results table: a model or a baseline, and its metrics by name."""

    name: str
    metrics: Mapping[str, Interval]


def format_interval(metric: str, interval: Interval) -> str:
    """Return `84.3 [83.1, 85.4]`: per cent for accuracies and F1, four significant digits of the value for others."""
    scale, places = (100, 1) if _is_share(metric) else (1, _places(interval.value))
    value, low, high = (f"{scale * number:.{places}f}" for number in (interval.value, interval.low, interval.high))
    return f"{value} [{low}, {high}]"


def markdown_table(rows: Sequence[ResultRow]) -> str:
    """Render a Markdown table with one column per metric, in the order in which the rows name them."""
    head, *lines = ([cell.replace("|", "\\|").replace("\n", " ") for cell in line] for line in _cells(rows))
    rule = ["---", *["---:"] * (len(head) - 1)]
    return "\n".join(f"| {' | '.join(line)} |" for line in [head, rule, *lines])


def text_table(rows: Sequence[ResultRow]) -> str:
    """Render the same table for a terminal: names to the left, numbers to the right, columns two spaces apart."""
    lines = _cells(rows)
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    head, *rest = ("  ".join(_aligned(line, widths)).rstrip() for line in lines)
    return "\n".join([head, "  ".join("-" * width for width in widths), *rest])


def _aligned(line: Sequence[str], widths: Sequence[int]) -> list[str]:
    padded = [cell.rjust(width) for cell, width in zip(line, widths, strict=True)]
    return [line[0].ljust(widths[0]), *padded[1:]]


def _cells(rows: Sequence[ResultRow]) -> list[list[str]]:
    names = list(dict.fromkeys(name for row in rows for name in row.metrics))
    levels = {interval.level for row in rows for interval in row.metrics.values()}
    title = f"{' / '.join(f'{100 * level:g} %' for level in sorted(levels))} intervals" if levels else ""
    lines = [[title, *(f"{name} (%)" if _is_share(name) else name for name in names)]]
    for row in rows:
        found = (row.metrics.get(name) for name in names)
        cells = [_ABSENT if one is None else format_interval(name, one) for name, one in zip(names, found, strict=True)]
        lines.append([row.name, *cells])
    return lines


def _is_share(metric: str) -> bool:
    return metric.startswith("accuracy") or metric.endswith(("accuracy", "f1"))


def _places(value: float) -> int:
    """Return the decimals that show four significant digits."""
    if value == 0 or not math.isfinite(value):
        return 3
    return min(12, max(0, 3 - math.floor(math.log10(abs(value)))))

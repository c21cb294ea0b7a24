"""Tables of metrics with their intervals, as Markdown and as fixed-width text."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from attribune.evaluation.bootstrap import Interval

__all__ = [
    "ResultRow",
    "comparison_lines",
    "format_interval",
    "is_share",
    "markdown_cells",
    "markdown_table",
    "metric_label",
    "metric_scale",
    "metric_words",
    "table_cells",
    "text_cells",
    "text_table",
]

_ABSENT = "-"


@dataclass(frozen=True, kw_only=True)
class ResultRow:
    """One line of a results table: a model or a baseline, and its metrics by name."""

    name: str
    metrics: Mapping[str, Interval]


def format_interval(metric: str, interval: Interval) -> str:
    """Return `84.3 [83.1, 85.4]`: per cent for accuracies and F1, four significant digits of the value for others."""
    scale, places = (100, 1) if is_share(metric) else (1, _places(interval.value))
    value, low, high = (f"{scale * number:.{places}f}" for number in (interval.value, interval.low, interval.high))
    return f"{value} [{low}, {high}]"


def markdown_table(rows: Sequence[ResultRow]) -> str:
    """Render a Markdown table with one column per metric, in the order in which the rows name them."""
    return markdown_cells(table_cells(rows))


def markdown_cells(table: Sequence[Sequence[str]]) -> str:
    """Render lines of cells, the first of which is the head, as Markdown; all columns but the first to the right."""
    head, *lines = ([cell.replace("|", "\\|").replace("\n", " ") for cell in line] for line in table)
    rule = ["---", *["---:"] * (len(head) - 1)]
    return "\n".join(f"| {' | '.join(line)} |" for line in [head, rule, *lines])


def text_table(rows: Sequence[ResultRow]) -> str:
    """Render the same table for a terminal: names to the left, numbers to the right, columns two spaces apart."""
    return text_cells(table_cells(rows))


def text_cells(lines: Sequence[Sequence[str]], *, left: int = 1) -> str:
    """Render lines of cells, the first of which is the head, for a terminal; so many columns stand to the left."""
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    head, *rest = ("  ".join(_aligned(line, widths, left)).rstrip() for line in lines)
    return "\n".join([head, "  ".join("-" * width for width in widths), *rest])


def comparison_lines(comparisons: Sequence[Mapping[str, Any]]) -> list[str]:
    """One sentence per pair; no winner is named where the interval holds zero."""
    lines = []
    for pair in comparisons:
        share = pair["metric"].endswith(("accuracy", "f1"))
        scale, unit = (100, " points") if share else (1, "")
        figures = f"{scale * pair['difference']:+.2f}{unit}"
        ends = f"[{scale * pair['low']:+.2f}, {scale * pair['high']:+.2f}]"
        shown = pair["p_value"] < 0.05 and not pair["low"] <= 0 <= pair["high"]
        open_question = "" if shown else ": no difference shown"
        lines.append(
            f"{pair['a']} against {pair['b']}, {pair['part']} {pair['metric']}: {figures} {ends}, "
            f"p = {pair['p_value']:.4f}{open_question}"
        )
    return lines


def _aligned(line: Sequence[str], widths: Sequence[int], left: int) -> list[str]:
    cells = enumerate(zip(line, widths, strict=True))
    return [cell.ljust(width) if place < left else cell.rjust(width) for place, (cell, width) in cells]


def table_cells(rows: Sequence[ResultRow]) -> list[list[str]]:
    """Lines of cells, the first being the head, with one column per metric in the order in which the rows name them."""
    names = list(dict.fromkeys(name for row in rows for name in row.metrics))
    levels = {interval.level for row in rows for interval in row.metrics.values()}
    title = f"{' / '.join(f'{100 * level:g} %' for level in sorted(levels))} intervals" if levels else ""
    lines = [[title, *(f"{name} (%)" if is_share(name) else name for name in names)]]
    for row in rows:
        found = (row.metrics.get(name) for name in names)
        cells = [_ABSENT if one is None else format_interval(name, one) for name, one in zip(names, found, strict=True)]
        lines.append([row.name, *cells])
    return lines


def is_share(metric: str) -> bool:
    """Whether a metric is a share, which is shown in per cent."""
    return metric.startswith("accuracy") or metric.endswith(("accuracy", "f1"))


def metric_scale(metric: str) -> int:
    """What a metric is multiplied with where it is shown: 100 for shares."""
    return 100 if is_share(metric) else 1


def metric_words(metric: str) -> str:
    """The name of a metric in a sentence."""
    return metric.replace("_", " ")


def metric_label(metric: str) -> str:
    """The name of a metric beside an axis, with its unit."""
    return f"{metric_words(metric)} (%)" if is_share(metric) else metric_words(metric)


def _places(value: float) -> int:
    """Return the decimals that show four significant digits."""
    if value == 0 or not math.isfinite(value):
        return 3
    return min(12, max(0, 3 - math.floor(math.log10(abs(value)))))

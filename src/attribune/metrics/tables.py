"""Tables of metrics with their intervals, as Markdown, as fixed-width text, and as HTML in notebooks."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Sequence
from html import escape
from typing import Any

from attribune.core.wording import one_line, printable
from attribune.metrics.bootstrap import Interval, PairedResult
from attribune.metrics.metric import metric_info
from attribune.metrics.results import Comparison, ResultRow
from attribune.metrics.sign_flips import FEWEST_DIFFERING


def format_interval(metric: str, interval: Interval) -> str:
    """Return `84.3 [83.1, 85.4]`: per cent for accuracies and F1, four significant digits of the value for others."""
    info = metric_info(metric)
    decimals = 1 if info.is_share else _decimals(interval.value)
    ends = (interval.value, interval.low, interval.high)
    value, low, high = (f"{info.scale * number:.{decimals}f}" for number in ends)
    return f"{value} [{low}, {high}]"


def format_difference(metric: str, pair: PairedResult, *, decimals: int = 1, unit: str = "") -> str:
    """Return `+1.2 [+0.3, +2.1]`: points for accuracies and F1, and mostly three decimals for others.

    Where labels are so small that the interval is narrower than 0.001, two digits of its width are shown, and whole
    numbers where it is wider than 100.

    Args:
        decimals: of points.
        unit: follows the difference of points, as in `+1.2 points [+0.3, +2.1]`.
    """
    info = metric_info(metric)
    places = decimals if info.is_share else _decimals_of_width(pair)
    value, low, high = (f"{info.scale * number:+.{places}f}" for number in (pair.difference, pair.low, pair.high))
    return f"{value}{f' {unit}' if unit and info.is_share else ''} [{low}, {high}]"


def _decimals_of_width(pair: PairedResult) -> int:
    width = pair.high - pair.low
    if width >= 100:
        return 0
    return 1 - math.floor(math.log10(width)) if 1e-12 < width < 0.001 else 3


def format_value(metric: str, value: float) -> str:
    """Return a value in per cent for accuracies and F1, with three decimals for others."""
    info = metric_info(metric)
    return f"{info.scale * value:.{1 if info.is_share else 3}f}"


def markdown_table(rows: Sequence[ResultRow]) -> str:
    """Render a Markdown table with one column per metric, in the order in which the rows name them."""
    return markdown_cells(table_cells(rows))


def markdown_cells(table: Sequence[Sequence[str]], *, words: Collection[int] = (0,)) -> str:
    """Render lines of cells, the header first, as Markdown; the columns `words` are left-aligned, others right."""
    head, *lines = ([markdown_cell(cell) for cell in line] for line in table)
    rule = ["---" if column in words else "---:" for column in range(len(head))]
    return "\n".join(f"| {' | '.join(line)} |" for line in [head, rule, *lines])


def markdown_cell(text: str) -> str:
    """Return a text as a cell of a Markdown table, on one line and without an open bar."""
    return text.replace("|", "\\|").replace("\n", " ")


def text_table(rows: Sequence[ResultRow]) -> str:
    """Render the same table for a terminal: names left-aligned, numbers right-aligned, columns two spaces apart."""
    return text_cells(table_cells(rows))


def text_cells(lines: Sequence[Sequence[str]], *, left: int = 1) -> str:
    """Render lines of cells, the header first, for a terminal; the first `left` columns are left-aligned."""
    lines = [[one_line(cell) for cell in line] for line in lines]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    head, *rest = ("  ".join(_aligned(line, widths, left)).rstrip() for line in lines)
    return "\n".join([head, "  ".join("-" * width for width in widths), *rest])


def comparison_lines(comparisons: Iterable[Comparison]) -> list[str]:
    """Return one line per pair, which says if no difference is shown."""
    lines = []
    for pair in comparisons:
        found = format_difference(pair.metric, pair, decimals=2, unit="points")
        lines.append(
            f"{pair.a} against {pair.b}, {pair.part}{pair.part and ' '}{pair.metric}: {found}, p = {pair.p_value:.4f}"
            f"{'' if pair.shows_difference else f': {_not_shown(pair)}'}"
        )
    return lines


def _not_shown(pair: Comparison) -> str:
    least = could_be_shown(pair.metric, pair)
    return f"no difference shown{least and f' ({least})'}"


def could_be_shown(metric: str, pair: PairedResult) -> str:
    """Say which difference the rows of a pair could have shown; nothing where early files do not tell."""
    if pair.can_show_none:
        enough = f"at least {FEWEST_DIFFERING} must differ to show a difference"
        return f"too few rows: the two models differ in {pair.differing} of them, and {enough}"
    if pair.smallest is None:
        return ""
    is_share = metric_info(metric).is_share
    if is_share and pair.smallest >= 1:
        return "too few rows to show any difference"
    least = f"{100 * pair.smallest:.1f} points" if is_share else f"{pair.smallest:.{_decimals_of_width(pair)}f}"
    return f"with these rows, a difference of less than about {least} would go unnoticed"


def _aligned(line: Sequence[str], widths: Sequence[int], left: int) -> list[str]:
    cells = enumerate(zip(line, widths, strict=True))
    return [cell.ljust(width) if column < left else cell.rjust(width) for column, (cell, width) in cells]


def table_cells(rows: Sequence[ResultRow]) -> list[list[str]]:
    """Return lines of cells, the header first, with a column per metric in the order in which the rows name them."""
    names = list(dict.fromkeys(name for row in rows for name in row.metrics))
    levels = {interval.level for row in rows for interval in row.metrics.values()}
    title = f"{' / '.join(f'{100 * level:g} %' for level in sorted(levels))} intervals" if levels else ""
    lines = [[title, *(f"{name} (%)" if metric_info(name).is_share else name for name in names)]]
    for row in rows:
        cells = (format_interval(name, row.metrics[name]) if name in row.metrics else "-" for name in names)
        lines.append([row.name, *cells])
    return lines


def _decimals(value: float) -> int:
    """Return the number of decimals for four significant digits."""
    if value == 0 or not math.isfinite(value):
        return 3
    return min(12, max(0, 3 - math.floor(math.log10(abs(value)))))


def html_table(cells: Sequence[Sequence[str]]) -> str:
    """Render lines of cells, the header first, as an HTML table."""
    head, *lines = (
        "".join(f"<{tag}>{escape(printable(cell))}</{tag}>" for cell in line)
        for tag, line in zip(["th", *["td"] * (len(cells) - 1)], cells, strict=True)
    )
    body = "".join(f"<tr>{line}</tr>" for line in lines)
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def html_blocks(blocks: Sequence[tuple[str, Sequence[Sequence[str]]]]) -> str:
    """Render tables with their captions, one below the other; a block without cells is its caption alone."""
    return "".join(
        f"<p>{escape(printable(caption))}</p>{html_table(cells) if cells else ''}" for caption, cells in blocks
    )


class ResultDict(dict[str, Any]):
    """Plain values of results, which are printed as a table.

    Args:
        text: how they are printed.
        html: how a notebook shows them.
    """

    def __init__(self, values: dict[str, Any], *, text: str, html: str) -> None:
        super().__init__(values)
        self._text, self._html = text, html

    def __reduce__(self) -> tuple[Any, ...]:
        return _result_dict, (dict(self), self._text, self._html)

    def __repr__(self) -> str:
        return self._text

    def _repr_html_(self) -> str:
        return self._html


def _result_dict(values: dict[str, Any], text: str, html: str) -> ResultDict:
    return ResultDict(values, text=text, html=html)


class Comparisons(list[dict[str, Any]]):
    """Records of compared metrics, which are printed as a table.

    Attributes:
        notes: what is worth knowing about the comparison; printed below the table.
    """

    def __init__(self, records: Iterable[dict[str, Any]] = (), *, notes: Sequence[str] = ()) -> None:
        super().__init__(records)
        self.notes = list(notes)

    def _cells(self) -> list[list[str]]:
        lines = [["metric", "part", "difference", "p"]]
        for pair in self:
            difference = format_difference(pair["metric"], PairedResult.from_record(pair))
            lines.append([pair["metric"], pair["part"], difference, f"{pair['p_value']:.4f}"])
        return lines

    def _caption(self) -> str:
        return f"{self[0]['a']} minus {self[0]['b']}" if self else "nothing compared"

    def __repr__(self) -> str:
        return "\n".join([printable(self._caption()), text_cells(self._cells(), left=2), *map(printable, self.notes)])

    def _repr_html_(self) -> str:
        return html_blocks([(self._caption(), self._cells()), *((note, []) for note in self.notes)])

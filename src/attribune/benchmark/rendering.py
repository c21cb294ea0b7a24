"""How the tables of a benchmark look: Markdown, LaTeX, CSV, HTML."""

from __future__ import annotations

import csv
import html
import io
from collections.abc import Callable, Sequence
from typing import Any

from attribune.benchmark.tables import LOSS, Line, SetTable, verdict
from attribune.errors import ConfigError
from attribune.metrics.bootstrap import PairedResult
from attribune.metrics.tables import format_interval, markdown_cells

__all__ = ["FORMATS", "html_table", "notes_of", "render"]


def render(tables: Sequence[SetTable], kind: str) -> str:
    """All tables in one of the `FORMATS`.

    Raises:
        ConfigError: for another format.
    """
    if kind not in FORMATS:
        raise ConfigError(f"unknown format {kind!r}: choose one of {', '.join(FORMATS)}")
    return FORMATS[kind](tables)


def cells_of(table: SetTable) -> list[list[str]]:
    """The head and the lines of one table, as text."""
    metrics = list(dict.fromkeys(name for line in table.lines for name in line.metrics))
    gaps = [table.metric, *(name for name in metrics if name == LOSS)]
    head = ["", *metrics, *(f"{name} against {table.reference}" for name in gaps)]
    head += ["hidden", "TP", "of all", "s per pass", "MB"]
    moved = any(line.moved is not None for line in table.lines)
    lines = [[*head, "against learned here", "relative"] if moved else head]
    for line in table.lines:
        shares = [format_interval(name, line.metrics[name]) if name in line.metrics else "" for name in metrics]
        cost = line.cost
        lines.append(
            [
                f"{line.name}{_mark(table, line)}",
                *shares,
                *(
                    "" if pair is None else _difference(name, pair)
                    for name, pair in zip(gaps, (line.against, line.loss), strict=False)
                ),
                "" if line.hidden is None else _scaled(table.metric, line.hidden),
                "" if cost["of_encoder"] is None else f"{cost['of_encoder']:.2f} x",
                "" if cost["share"] is None else f"{100 * cost['share']:.1f} %",
                "" if cost["seconds_per_pass"] is None else f"{cost['seconds_per_pass']:.0f}",
                "" if cost["peak_mb"] is None else f"{cost['peak_mb']:,.0f}",
                *(_moved_cells(table.metric, line) if moved else ()),
            ]
        )
    return lines


def _moved_cells(metric: str, line: Line) -> tuple[str, str]:
    if line.moved is None:
        return "", ""
    pair, here = line.moved
    return _difference(metric, pair), f"{100 * pair.difference / here:+.1f} %" if here else ""


def _mark(table: SetTable, line: Line) -> str:
    """A star where nothing is shown to be better; a minus where it is worse than the reference."""
    return (" *" if line.name in table.best else "") + (" -" if line.worse else "")


def _is_second(table: SetTable, line: Line) -> bool:
    return table.leaders is not None and line.name == table.leaders[1]


def notes_of(table: SetTable, marks: tuple[str, str] = ("`*`", "`-`")) -> list[str]:
    """What a reader must know of a table.

    Args:
        table: what is told of.
        marks: how a line that nothing is shown to be better than looks, and one that is worse than the reference.
    """
    rows = table.lines[0].rows
    folds = {len(line.folds) for line in table.lines}
    counted = f"{min(folds)}" if len(folds) == 1 else f"{min(folds)} to {max(folds)}"
    text = [
        f"{counted} folds or seeds, {rows:,} pooled {table.part} rows for {table.lines[0].name}; 95 % bootstrap "
        "intervals over rows.",
        f"{marks[0]}: no other line is shown to be better (paired bootstrap of every pair, 95 % each); there is no "
        f"ranking among these. {marks[1]}: shown to be worse than {table.reference}. Hidden: the same model with its "
        "attributes hidden. TP: trained parameters without attribute tables and head, over those of the encoder's "
        "layers; of all: all trained ones over the whole model. MB: resident memory of a training at its peak, "
        "libraries and all.",
    ]
    if table.leaders is not None:
        first, second, pair = table.leaders
        shown = verdict(pair, higher_is_better=table.lines[0].higher_is_better) != 0
        text.append(
            f"The best figure is that of {first}; against the second best, {second} (underlined): "
            f"{_difference(table.metric, pair)}{'' if shown else ', no difference shown'}."
        )
    if table.plan.attributes_from is not None:
        text.append(
            f"Attribute parameters are those that the same setting learned on {table.plan.attributes_from}, kept as "
            "they are; against learned here: the same setting that learned them on this set, and the difference "
            "relative to its figure."
        )
    if len(folds) > 1:
        text.append("Settings with fewer folds than others are not marked.")
    if not table.lines[0].higher_is_better:
        text.append(f"Lower is better: {table.metric}.")
    if table.missing:
        text.append(f"Not run yet: {', '.join(table.missing)}.")
    return text


def _difference(metric: str, pair: PairedResult) -> str:
    low, value, high = (_scaled(metric, number, sign=True) for number in (pair.low, pair.difference, pair.high))
    return f"{value} [{low}, {high}]"


def _scaled(metric: str, value: float, *, sign: bool = False) -> str:
    share = metric.endswith(("accuracy", "f1"))
    number, places = (100 * value, 1) if share else (value, 3)
    return f"{number:+.{places}f}" if sign else f"{number:.{places}f}"


def _markdown(tables: Sequence[SetTable]) -> str:
    blocks = []
    for table in tables:
        cells = cells_of(table)
        for line, drawn in zip(table.lines, cells[1:], strict=True):
            if _is_second(table, line):
                drawn[0] = drawn[0].replace(line.name, f"<u>{line.name}</u>", 1)
        blocks += [f"### {table.plan.heading}", markdown_cells(cells), "\n".join(notes_of(table))]
    return "\n\n".join(blocks)


_LATEX = {"%": r"\%", "&": r"\&", "_": r"\_", "#": r"\#", "$": r"\$"}


def _escaped(text: str) -> str:
    return "".join(_LATEX.get(character, character) for character in text)


def _latex(tables: Sequence[SetTable]) -> str:
    blocks = []
    for table in tables:
        head, *lines = [[_escaped(cell) for cell in line] for line in cells_of(table)]
        body = []
        for line, drawn in zip(table.lines, lines, strict=True):
            name = _escaped(line.name)
            if _is_second(table, line):
                name = rf"\underline{{{name}}}"
            drawn[0] = rf"\textbf{{{name}}}" if line.name in table.best else name
            if line.worse:
                drawn[0] = rf"\textit{{{drawn[0]}}}"
            body.append(" & ".join(drawn) + r" \\")
        caption = _escaped(" ".join([table.plan.heading + ".", *notes_of(table, ("Bold", "Italics"))]))
        blocks.append(
            "\n".join(
                [
                    r"\begin{table}",
                    rf"\begin{{tabular}}{{l{'r' * (len(head) - 1)}}}",
                    r"\hline",
                    " & ".join(head) + r" \\",
                    r"\hline",
                    *body,
                    r"\hline",
                    r"\end{tabular}",
                    rf"\caption{{{caption}}}",
                    r"\end{table}",
                ]
            )
        )
    return "\n\n".join(blocks)


def _csv(tables: Sequence[SetTable]) -> str:
    """One line for each set, setting and metric, in numbers."""
    sink = io.StringIO()
    writer = csv.writer(sink)
    gaps = ("difference", "difference_low", "difference_high", "p_value")
    moved = ("moved_difference", "moved_low", "moved_high", "moved_p_value", "learned_here")
    costs = ("factor", "trained", "total", "of_encoder", "seconds", "seconds_per_pass", "peak_mb")
    writer.writerow(["set", "setting", "folds", "metric", "value", "low", "high", *gaps, "hidden", *moved, *costs])
    for table in tables:
        for line in table.lines:
            for name, found in line.metrics.items():
                against = {table.metric: line.against, LOSS: line.loss}.get(name)
                gap = (
                    [""] * len(gaps)
                    if against is None
                    else [against.difference, against.low, against.high, against.p_value]
                )
                cost = [line.cost[key] for key in costs]
                folds = " ".join(map(str, line.folds))
                main = name == table.metric
                hidden = line.hidden if main else None
                pair, here = line.moved if line.moved is not None and main else (None, None)
                move = [None] * 4 if pair is None else [pair.difference, pair.low, pair.high, pair.p_value]
                row: list[Any] = [table.plan.name, line.name, folds, name, found.value, found.low, found.high, *gap]
                rest = [hidden, *move, here, *cost]
                writer.writerow([*row, *("" if value is None else value for value in rest)])
    return sink.getvalue()


def html_table(table: SetTable) -> str:
    """One table as HTML."""
    head, *lines = cells_of(table)
    out = ["<table>", "<thead><tr>", *(f"<th>{html.escape(cell)}</th>" for cell in head), "</tr></thead>", "<tbody>"]
    for line, drawn in zip(table.lines, lines, strict=True):
        kinds = {"best": line.name in table.best, "worse": line.worse, "second": _is_second(table, line)}
        kind = " ".join(name for name, holds in kinds.items() if holds)
        first, *rest = drawn
        named = zip(head[1:], rest, strict=True)
        cells = "".join(f'<td data-of="{html.escape(of)}">{_unbroken(html.escape(cell))}</td>' for of, cell in named)
        out.append(f'<tr class="{kind}"><th scope="row">{html.escape(first)}</th>{cells}</tr>')
    return "\n".join([*out, "</tbody></table>"])


def _unbroken(cell: str) -> str:
    """A cell whose lines end between a value and its interval alone."""
    value, bracket, interval = cell.partition(" [")
    value = value.replace(" ", "&nbsp;")
    return f'{value} <span class="interval">[{interval}</span>' if bracket else value


def _html(tables: Sequence[SetTable]) -> str:
    blocks = []
    for table in tables:
        notes = "".join(f"<p>{html.escape(note).replace('`', '')}</p>" for note in notes_of(table))
        blocks.append(f"<h3>{html.escape(table.plan.heading)}</h3>\n{html_table(table)}\n{notes}")
    return "\n".join(blocks)


FORMATS: dict[str, Callable[[Sequence[SetTable]], str]] = {
    "markdown": _markdown,
    "latex": _latex,
    "csv": _csv,
    "html": _html,
}

"""Rendering of benchmark tables: Markdown, LaTeX, CSV, HTML."""

from __future__ import annotations

import csv
import html
import io
import re
from collections.abc import Callable, Sequence

from attribune.benchmark.tables import LOSS, Line, SetTable, verdict
from attribune.errors import ConfigError
from attribune.metrics.bootstrap import PairedResult
from attribune.metrics.tables import format_interval, markdown_cells

__all__ = ["FORMATS", "html_table", "notes_of", "render"]


def render(tables: Sequence[SetTable], kind: str) -> str:
    """Render all tables in one of the `FORMATS`; ConfigError for another format."""
    if kind not in FORMATS:
        raise ConfigError(f"unknown format {kind!r}: choose one of {', '.join(FORMATS)}")
    return FORMATS[kind](tables)


def cells_of(table: SetTable) -> list[list[str]]:
    """Return the header and the lines of one table as text."""
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
    """Return a star if no line is better, and a minus if the line is worse than the reference."""
    return (" *" if line.name in table.best else "") + (" -" if line.worse else "")


def _is_second(table: SetTable, line: Line) -> bool:
    return table.leaders is not None and line.name == table.leaders[1]


def notes_of(table: SetTable, marks: tuple[str, str] = ("`*`", "`-`")) -> list[str]:
    """Return the explanations below a table.

    Args:
        marks: of a line than which none is better, and of one that is worse than the reference.
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


def _escaped(text: str) -> str:
    return re.sub(r"[%&_#$]", r"\\\g<0>", text)


def _latex(tables: Sequence[SetTable]) -> str:
    blocks = []
    for table in tables:
        head, *lines = [[_escaped(cell) for cell in line] for line in cells_of(table)]
        body = []
        for line, row in zip(table.lines, lines, strict=True):
            name = _escaped(line.name)
            if _is_second(table, line):
                name = rf"\underline{{{name}}}"
            if line.name in table.best:
                name = rf"\textbf{{{name}}}"
            row[0] = rf"\textit{{{name}}}" if line.worse else name
            body.append(" & ".join(row) + r" \\")
        caption = _escaped(" ".join([table.plan.heading + ".", *notes_of(table, ("Bold", "Italics"))]))
        blocks += [
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
            "",
        ]
    return "\n".join(blocks[:-1])


def _csv(tables: Sequence[SetTable]) -> str:
    """Return one line of numbers for each set, setting and metric."""
    gaps = ("difference", "difference_low", "difference_high", "p_value")
    moves = ("moved_difference", "moved_low", "moved_high", "moved_p_value")
    costs = ("factor", "trained", "total", "of_encoder", "seconds", "seconds_per_pass", "peak_mb")
    rows = []
    for table in tables:
        for line in table.lines:
            for name, metric in line.metrics.items():
                is_main = name == table.metric
                moved, learned_here = line.moved if line.moved is not None and is_main else (None, None)
                rows.append(
                    {
                        "set": table.plan.name,
                        "setting": line.name,
                        "folds": " ".join(map(str, line.folds)),
                        "metric": name,
                        "value": metric.value,
                        "low": metric.low,
                        "high": metric.high,
                        **_columns(gaps, {table.metric: line.against, LOSS: line.loss}.get(name)),
                        "hidden": line.hidden if is_main else None,
                        **_columns(moves, moved),
                        "learned_here": learned_here,
                        **{key: line.cost[key] for key in costs},
                    }
                )
    sink = io.StringIO()
    writer = csv.DictWriter(sink, fieldnames=list(rows[0]) if rows else [])
    writer.writeheader()
    writer.writerows(rows)
    return sink.getvalue()


def _columns(names: Sequence[str], pair: PairedResult | None) -> dict[str, float | None]:
    """Return the columns of a paired comparison, which are empty without it."""
    values = [None] * 4 if pair is None else [pair.difference, pair.low, pair.high, pair.p_value]
    return dict(zip(names, values, strict=True))


def html_table(table: SetTable) -> str:
    """Render one table as HTML."""
    head, *lines = cells_of(table)
    out = ["<table>", "<thead><tr>", *(f"<th>{html.escape(cell)}</th>" for cell in head), "</tr></thead>", "<tbody>"]
    for line, (first, *rest) in zip(table.lines, lines, strict=True):
        classes = {"best": line.name in table.best, "worse": line.worse, "second": _is_second(table, line)}
        shown = " ".join(name for name, holds in classes.items() if holds)
        named = zip(head[1:], rest, strict=True)
        cells = "".join(f'<td data-of="{html.escape(of)}">{_unbroken(html.escape(cell))}</td>' for of, cell in named)
        out.append(f'<tr class="{shown}"><th scope="row">{html.escape(first)}</th>{cells}</tr>')
    return "\n".join([*out, "</tbody></table>"])


def _unbroken(cell: str) -> str:
    """Allow a line break only between a value and its interval."""
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

"""Rendering of benchmark tables: Markdown, LaTeX, CSV, HTML."""

from __future__ import annotations

import csv
import html
import io
import re
from collections.abc import Callable, Sequence
from typing import Any

from attribune.data.clusters import what_is_drawn
from attribune.errors import ConfigError
from attribune.metrics.bootstrap import PairedResult
from attribune.metrics.tables import format_difference, format_interval, format_value, markdown_cells
from attribune_lab.benchmark.tables import LOSS, Line, Overall, SetTable

_SCORE = "accuracy"  # means over sets are shown as accuracies are


def render(tables: Sequence[SetTable], kind: str, *, overall: Overall | None = None) -> str:
    """Render all tables in one of the `FORMATS`, first that of all sets; ConfigError for another format."""
    if kind not in FORMATS:
        raise ConfigError(f"unknown format {kind!r}: choose one of {', '.join(FORMATS)}")
    return FORMATS[kind](tables, overall)


def overall_cells(overall: Overall) -> list[list[str]]:
    """Return the header and the lines of the table of all sets as text."""
    head = ["", "mean", f"against {overall.reference}", "trained per set", "parameters for all sets"]
    lines = [
        [
            line.name,
            format_value(_SCORE, line.mean),
            "" if line.against is None else format_difference(_SCORE, line.against),
            "" if line.trained is None else f"{100 * line.trained:.2f} %",
            "" if line.total is None else f"{line.total:.2f} x",
        ]
        for line in overall.lines
    ]
    return [head, *lines]


def overall_notes(overall: Overall) -> list[str]:
    """Return the explanations below the table of all sets."""
    text = [
        f"Means of the main metrics of {len(overall.sets)} sets, times 100: {', '.join(overall.sets)}. The intervals "
        "are over the rows of these sets; other sets would give other means.",
        "Parameters as Houlsby et al. 2019 count them: those trained, over those of the pretrained model; and those of "
        "the models for all sets together, which share one pretrained model unless all of it was trained.",
    ]
    if overall.omitted:
        text.append(f"Left out, since their metrics are no shares or correlations: {', '.join(overall.omitted)}.")
    return text


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
                f"{line.label}{_mark(table, line)}",
                *shares,
                *(
                    "" if pair is None else format_difference(name, pair)
                    for name, pair in zip(gaps, (line.against, line.loss), strict=False)
                ),
                "" if line.hidden is None else format_value(table.metric, line.hidden),
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
    return format_difference(metric, pair), f"{100 * pair.difference / here:+.1f} %" if here else ""


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
        f"intervals over {what_is_drawn(table.lines[0].clusters)}.",
        f"{marks[0]}: no other line is shown to be better (paired bootstrap of every pair, 95 % each); there is no "
        f"ranking among these. {marks[1]}: shown to be worse than {table.reference}. Hidden: the same model with its "
        "attributes hidden. TP: trained parameters without attribute tables and head, over those of the encoder's "
        "layers; of all: all trained ones over the whole model. MB: resident memory of a training at its peak, "
        "libraries and all.",
    ]
    if table.leaders is not None:
        first, second, pair = table.leaders
        shown = pair.shows_difference
        text.append(
            f"The best figure is that of {first}; against the second best, {second} (underlined): "
            f"{format_difference(table.metric, pair)}{'' if shown else ', no difference shown'}."
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


def _markdown(tables: Sequence[SetTable], overall: Overall | None) -> str:
    blocks = []
    if overall is not None:
        blocks += ["### All sets", markdown_cells(overall_cells(overall)), "\n".join(overall_notes(overall))]
    for table in tables:
        cells = cells_of(table)
        for line, drawn in zip(table.lines, cells[1:], strict=True):
            if _is_second(table, line):
                drawn[0] = drawn[0].replace(line.name, f"<u>{line.name}</u>", 1)
        blocks += [f"### {table.plan.heading}", markdown_cells(cells), "\n".join(notes_of(table))]
    return "\n\n".join(blocks)


def _escaped(text: str) -> str:
    return re.sub(r"[%&_#$]", r"\\\g<0>", text)


def _latex(tables: Sequence[SetTable], overall: Overall | None) -> str:
    blocks: list[str] = []
    if overall is not None:
        head, *lines = [[_escaped(cell) for cell in line] for line in overall_cells(overall)]
        blocks += _latex_table(head, lines, caption=_escaped(" ".join(["All sets.", *overall_notes(overall)])))
    for table in tables:
        head, *lines = [[_escaped(cell) for cell in line] for line in cells_of(table)]
        for line, row in zip(table.lines, lines, strict=True):
            name = _escaped(line.label)
            if _is_second(table, line):
                name = rf"\underline{{{name}}}"
            if line.name in table.best:
                name = rf"\textbf{{{name}}}"
            row[0] = rf"\textit{{{name}}}" if line.worse else name
        caption = _escaped(" ".join([table.plan.heading + ".", *notes_of(table, ("Bold", "Italics"))]))
        blocks += _latex_table(head, lines, caption=caption)
    return "\n".join(blocks[:-1])


def _latex_table(head: Sequence[str], lines: Sequence[Sequence[str]], *, caption: str) -> list[str]:
    return [
        r"\begin{table}",
        rf"\begin{{tabular}}{{l{'r' * (len(head) - 1)}}}",
        r"\hline",
        " & ".join(head) + r" \\",
        r"\hline",
        *(" & ".join(line) + r" \\" for line in lines),
        r"\hline",
        r"\end{tabular}",
        rf"\caption{{{caption}}}",
        r"\end{table}",
        "",
    ]


def _csv(tables: Sequence[SetTable], overall: Overall | None) -> str:
    """Return one line of numbers for each set, setting and metric, and the means over all sets."""
    gaps = ("difference", "difference_low", "difference_high", "p_value")
    moves = ("moved_difference", "moved_low", "moved_high", "moved_p_value")
    costs = ("factor", "trained", "total", "of_encoder", "seconds", "seconds_per_pass", "peak_mb")
    rows: list[dict[str, Any]] = []
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
    for mean in () if overall is None else overall.lines:
        means = {"set": "all sets", "setting": mean.name, "metric": "mean", "value": mean.mean}
        rows.append(dict.fromkeys(rows[0]) | means | _columns(gaps, mean.against))
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
    rows = []
    for line, cells in zip(table.lines, lines, strict=True):
        classes = {"best": line.name in table.best, "worse": line.worse, "second": _is_second(table, line)}
        rows.append(_html_row(cells, classes=" ".join(name for name, holds in classes.items() if holds)))
    return "\n".join(_html_frame(head, rows))


def _html_frame(head: Sequence[str], rows: Sequence[str]) -> list[str]:
    titles = (f'<th scope="col">{html.escape(cell)}</th>' if cell else "<td></td>" for cell in head)
    return ["<table>", "<thead><tr>", *titles, "</tr></thead>", "<tbody>", *rows, "</tbody></table>"]


def _html_row(cells: Sequence[str], *, classes: str = "") -> str:
    first, *rest = cells
    shown = "".join(f"<td>{_unbroken(html.escape(cell))}</td>" for cell in rest)
    return f'<tr class="{classes}"><th scope="row">{html.escape(first)}</th>{shown}</tr>'


def _unbroken(cell: str) -> str:
    """Allow a line break only between a value and its interval."""
    value, bracket, interval = cell.partition(" [")
    value = value.replace(" ", "&nbsp;")
    return f'{value} <span class="interval">[{interval}</span>' if bracket else value


def _html(tables: Sequence[SetTable], overall: Overall | None) -> str:
    blocks = []
    if overall is not None:
        head, *lines = overall_cells(overall)
        body = [_html_row(line) for line in lines]
        blocks.append("\n".join(["<h3>All sets</h3>", *_html_frame(head, body), _html_notes(overall_notes(overall))]))
    for table in tables:
        notes = _html_notes(notes_of(table))
        blocks.append(f"<h3>{html.escape(table.plan.heading)}</h3>\n{html_table(table)}\n{notes}")
    return "\n".join(blocks)


def _html_notes(notes: Sequence[str]) -> str:
    return "".join(f"<p>{html.escape(note).replace('`', '')}</p>" for note in notes)


FORMATS: dict[str, Callable[[Sequence[SetTable], Overall | None], str]] = {
    "markdown": _markdown,
    "latex": _latex,
    "csv": _csv,
    "html": _html,
}

"""The page of a benchmark: do the attributes help, which, for which rows, with which method, at what cost."""

from __future__ import annotations

import html
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from attribune.benchmark.rendering import html_table, notes_of
from attribune.benchmark.results import BenchmarkFolder, CellResult, Group
from attribune.benchmark.status import duration
from attribune.benchmark.tables import Line, SetTable, benchmark_tables, verdict
from attribune.evaluation.bins import count_ranges, range_name
from attribune.evaluation.bootstrap import paired
from attribune.evaluation.report import metric_label, metric_scale, metric_words
from attribune.json_file import read_json_lines, replace_file
from attribune.report.page import figure, page
from attribune.report.plots import Bar, Bins, Curve, curves, forest, sparsity

__all__ = ["report_page", "sparsity_bins", "write_report"]

Array = npt.NDArray[Any]
_BINS = 10


def write_report(folder: BenchmarkFolder, path: str | Path | None = None) -> Path:
    """Write the page; returns where it is.

    Raises:
        ModelFolderError: for a folder that holds no benchmark.
    """
    path = Path(path) if path is not None else folder.path / "report.html"
    replace_file(path, report_page(folder).encode())
    return path


def report_page(folder: BenchmarkFolder) -> str:
    """The whole page, with its plots inside; nothing is loaded from elsewhere."""
    experiment = folder.experiment()
    title = experiment.title or experiment.name
    sections = [_section(table) for table in benchmark_tables(folder)]
    body = "\n".join(sections) or "<p>No cell is done yet.</p>"
    return page(title, body)


def _section(table: SetTable) -> str:
    parts = [f"<h2>{html.escape(table.plan.heading)}</h2>", *_answers(table)]
    bars = [_bar(table, line) for line in table.lines]
    parts.append(
        figure(
            forest(bars, label=metric_label(table.metric)),
            f"{metric_words(table.metric).capitalize()} of every setting on the test rows, with 95 % intervals. "
            "Settings in blue: nothing is shown to be better. Overlapping lines in blue have no ranking.",
        )
    )
    gaps = [_gap(table, line) for line in table.lines if line.against is not None]
    if gaps:
        parts.append(
            figure(
                forest(gaps, label=f"{metric_label(table.metric)}, less that of {table.reference}", zero=True),
                f"The difference to {table.reference} on the same rows. In blue: the interval does not hold zero, a "
                "difference is shown.",
            )
        )
    parts += _sparsity_figures(table)
    parts += _learning(table)
    notes = "".join(f"<p class=note>{html.escape(note.replace('`', ''))}</p>" for note in notes_of(table))
    parts.append(f"{html_table(table)}{notes}")
    return "\n".join(parts)


def _answers(table: SetTable) -> Iterator[str]:
    """The findings in words, each no stronger than its interval."""
    lines = {line.name: line for line in table.lines}
    yield "<ul class=answers>"
    for sentence in _sentences(table, lines):
        yield f"<li>{html.escape(sentence)}</li>"
    yield "</ul>"


def _sentences(table: SetTable, lines: dict[str, Line]) -> Iterator[str]:
    yield from _on_reading(table)
    for line in table.lines:
        for other in table.lines:
            if line is not other:
                yield from _on_pair(table, line, other)
    yield from _on_method(table, lines)


def _on_reading(table: SetTable) -> Iterator[str]:
    """The settings that read attributes against the reference, and those with some of the attributes alone."""
    reading = [line for line in _reading(table) if line.against is not None]
    if not reading:
        return
    counted = [f"Settings that read attributes: {len(reading)}."]
    for word, names in (
        ("better", [line.name for line in reading if line.better]),
        ("worse", [line.name for line in reading if line.worse]),
    ):
        listed = f" ({', '.join(names)})" if names else ""
        counted.append(f"Shown to be {word} than {table.reference}: {len(names) or 'no setting'}{listed}.")
    yield " ".join(counted)
    some = [line for line in reading if line.group.results[0].cell.setting.attributes]
    if some:
        listed = "; ".join(f"{line.name} {_range(table.metric, line.against)}" for line in some)
        yield f"Which attributes? Against {table.reference}: {listed}."


def _on_pair(table: SetTable, line: Line, other: Line) -> Iterator[str]:
    """A method with its attributes against the same without them, or with shuffled ones."""
    kind = _counterpart(line, other)
    gain = None if kind is None else line.group.against(other.group).get(table.metric)
    if gain is not None:
        shown = "shown" if verdict(gain, higher_is_better=line.higher_is_better) > 0 else "not shown"
        gap = _range(table.metric, gain)
        yield f"Do the attributes help? {line.name} against {other.name}: {gap}; a gain by {kind} is {shown}."


def _on_method(table: SetTable, lines: dict[str, Line]) -> Iterator[str]:
    """Which settings nothing is shown to be better than, and the one of them that takes the least time."""
    best = [name for name in table.best if name in lines]
    if len(table.lines) < 2 or not best:
        return
    text = "nothing is shown to be better than" if len(best) > 1 else "all others are shown to be worse than"
    yield f"With which method? On these rows {text} {', '.join(best)}."
    cheapest = min((lines[name] for name in best), key=lambda line: line.cost["seconds"] or 0.0)
    share, seconds = cheapest.cost["share"] or 0.0, cheapest.cost["seconds"] or 0.0
    what = "" if cheapest.cost["seconds_per_pass"] is None else f" and trains {100 * share:.1f} % of its parameters"
    yield f"At what cost? Of these {cheapest.name} takes the least time, {duration(seconds)} for a training{what}."


def _reading(table: SetTable) -> list[Line]:
    """The settings that read attributes, without the linear baselines and the controls."""
    return [
        line
        for line in table.lines
        if line.hidden is not None and not _is_control(line) and not line.group.results[0].cell.setting.is_baseline
    ]


def _is_control(line: Line) -> bool:
    return bool(line.group.results[0].cell.setting.data.get("shuffled"))


def _counterpart(line: Line, other: Line) -> str | None:
    """By what a setting differs from the same method without its attributes, or with shuffled ones."""
    ours, theirs = (one.group.results[0].cell.setting for one in (line, other))
    if _is_control(line) or any(
        getattr(ours, name) != getattr(theirs, name) for name in ("method", "backbone", "training")
    ):
        return None
    if _is_control(other) and ours.attributes == theirs.attributes:
        return "the attributes' own values"
    return "attributes" if ours.attributes is None and theirs.attributes == () else None


def _bar(table: SetTable, line: Line) -> Bar:
    found, scale = line.metrics[table.metric], metric_scale(table.metric)
    ends = (scale * number for number in (found.value, found.low, found.high))
    value, low, high = ends
    return Bar(name=line.name, value=value, low=low, high=high, strong=line.name in table.best)


def _gap(table: SetTable, line: Line) -> Bar:
    pair, scale = line.against, metric_scale(table.metric)
    assert pair is not None
    return Bar(
        name=line.name,
        value=scale * pair.difference,
        low=scale * pair.low,
        high=scale * pair.high,
        strong=line.better or line.worse,
    )


def _sparsity_figures(table: SetTable) -> Iterator[str]:
    """For which rows? The difference of the first setting that reads attributes to the reference, by training rows."""
    lines = {line.name: line for line in table.lines}
    reading = _reading(table)
    if not reading or table.reference not in lines:
        return
    chosen = next((line for line in reading if line.name in table.best), reading[0])
    reference = lines[table.reference]
    for found in sparsity_bins(chosen.group, reference.group, metric=table.metric):
        name = found.name.removeprefix("count.")
        by_value = name != found.name
        across = f"training rows with the {name}" if by_value else "words of the text"
        what = f"how often their {name} stands in the training rows, 0 for one that never does" if by_value else across
        yield figure(
            sparsity(
                found,
                label=f"{metric_label(table.metric)}, less {table.reference}",
                across=f"{across} (below: test rows)",
            ),
            f"For which rows does {chosen.name} help? Test rows in bins of {what}. The bins are made without looking "
            "at labels; the line is fitted to them, weighted by their rows.",
        )


@dataclass(frozen=True)
class _Rows:
    """Rows of several folds in order, with what is known of them."""

    counts: tuple[Array, ...]

    def masks(self, low: int, high: int) -> list[Array]:
        return [(one >= low) & (one <= high) for one in self.counts]


def sparsity_bins(group: Group, other: Group, *, metric: str, bins: int = _BINS) -> list[Bins]:
    """The difference of two settings over bins of what is known of a row: training rows with its value, and its words.

    One set of bins for each attribute, by how many training rows have the row's value, and one for the length of the
    text. Bins hold about as many test rows each, and no label has a part in them. A value without training rows has a
    bin of its own where there are enough such rows.

    Args:
        group: the cells of one setting.
        other: of the other, on the same rows.
        metric: which.
        bins: at most.
    """
    folds = [fold for fold in group.folds if fold in other.folds]
    if not folds:
        return []
    ours, theirs = group.on(folds), other.on(folds)
    found = []
    for name in ours.results[0].facts():
        rows = _Rows(tuple(result.facts()[name] for result in ours.results))
        ranges = count_ranges(np.concatenate(rows.counts), bins=bins)
        if len(ranges) < 2:
            continue
        scale = metric_scale(metric)
        pairs = []
        for low, high in ranges:
            masks = rows.masks(low, high)
            pairs.append(paired(ours.metrics(rows=masks)[metric], theirs.metrics(rows=masks)[metric], resamples=2_000))
        found.append(
            Bins(
                name=name,
                edges=tuple(range_name(low, high) for low, high in ranges),
                values=np.array([scale * pair.difference for pair in pairs]),
                lows=np.array([scale * pair.low for pair in pairs]),
                highs=np.array([scale * pair.high for pair in pairs]),
                rows=tuple(int(sum(mask.sum() for mask in rows.masks(low, high))) for low, high in ranges),
            )
        )
    return found


def _learning(table: SetTable) -> Iterator[str]:
    """Validation loss over the passes, of the first fold, for the settings that nothing is shown to be better than."""
    drawn = []
    for line in table.lines:
        if line.name in table.best or line.name == table.reference:
            checks = _checks(line.group.results[0])
            if len(checks) > 1:
                x, y = ([float(check[key]) for check in checks] for key in ("epoch", "eval_loss"))
                drawn.append(Curve(name=line.name, x=tuple(x), y=tuple(y)))
    if drawn:
        yield figure(
            curves(drawn[:6], label="loss on validation rows"),
            "Learning curves of the first fold or seed. A curve that rises again overfits; the weights kept are "
            "those of the best check.",
        )


def _checks(result: CellResult) -> list[dict[str, Any]]:
    return [line for line in read_json_lines(result.folder / "log.jsonl") if "eval_loss" in line]


def _range(metric: str, pair: Any) -> str:
    scale, places = metric_scale(metric), 1 if metric_scale(metric) == 100 else 3
    value, low, high = (f"{scale * number:+.{places}f}" for number in (pair.difference, pair.low, pair.high))
    return f"{value} [{low}, {high}]"

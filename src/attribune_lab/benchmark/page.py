"""The page of a benchmark: do the attributes help, which, for which rows, with which method, at what cost."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import numpy as np
from markupsafe import Markup

from attribune.apps.report.page import Figure, Heading, Section, render_page, shown_time
from attribune.apps.report.plots import Curve, Estimate, band_plot, binned_plot, curve_plot, forest_plot
from attribune.core.files import read_json_lines
from attribune.core.wording import counted
from attribune.metrics.bootstrap import paired
from attribune.metrics.metric import metric_info
from attribune.metrics.results import count_ranges, range_name
from attribune.metrics.tables import format_difference
from attribune_lab.benchmark.experiment import Experiment, Setting
from attribune_lab.benchmark.rendering import html_table, notes_of, overall_cells, overall_notes
from attribune_lab.benchmark.results import BenchmarkFolder, Group, duration
from attribune_lab.benchmark.tables import Line, Overall, SetTable, benchmark_tables, overall_table, trade_off, verdict

_MAX_BINS = 10
_MAX_CURVES = 6


def benchmark_page(folder: BenchmarkFolder, *, reference: str | None = None) -> str:
    """Render the page of the tables that `benchmark_tables` makes; nothing in it is loaded from elsewhere."""
    experiment = folder.experiment().compared_with(reference)
    tables = benchmark_tables(folder, reference=reference)
    sections = [*_overall_section(experiment, tables), *(_section(table) for table in tables)]
    return render_page(_heading(folder, experiment, tables), sections)


def _heading(folder: BenchmarkFolder, experiment: Experiment, tables: Sequence[SetTable]) -> Heading:
    finished = [result.record.finished for result in folder.results(experiment)]
    facts = {"Trainings": f"{len(finished):,} done", "Folder": str(folder.path)}
    if finished:
        facts["Last one"] = shown_time(max(finished))
    return Heading(
        title=experiment.title or experiment.name,
        kind="Benchmark",
        headline=_headline(tables) if tables else "No cell is done yet.",
        facts=facts,
    )


def _headline(tables: Sequence[SetTable]) -> str:
    """Say on how many sets a setting that reads attributes is better than the reference; nothing without any."""
    reading = {table.plan.heading: [line for line in _reading(table) if line.against] for table in tables}
    sets = [name for name, lines in reading.items() if lines]
    better = [name for name in sets if any(line.better for line in reading[name])]
    than = f"shown to be better than the reference, {tables[0].reference}"
    if sets and not better:
        return f"No setting that reads attributes is {than}."
    if len(sets) > 1:
        return f"A setting that reads attributes is {than}, on {len(better)} of {len(sets)} sets: {', '.join(better)}."
    lines = [line for name in sets for line in reading[name]]
    names = ", ".join(line.name for line in lines if line.better)
    return f"Of {counted(len(lines), 'setting')} that read attributes, these are {than}: {names}." if lines else ""


def _overall_section(experiment: Experiment, tables: Sequence[SetTable]) -> Iterator[Section]:
    """Yield the section of all sets, if there are several."""
    overall = overall_table(tables)
    series = trade_off(experiment, tables)
    if overall is None and not series:
        return
    figures = []
    if series:
        place = "trained parameters" if experiment.axis is None else experiment.axis
        figures.append(
            Figure(
                svg=band_plot(series, xlabel=place, ylabel=f"difference to {experiment.first}, points"),
                caption=f"The difference to {experiment.first} against the {place}: the median over the sets, and "
                "shaded the values from the 20th to the 80th percentile.",
            )
        )
    if overall is None:
        yield Section(title="Series", figures=figures)
        return
    shown, undecided = _by_verdict(_overall_sentences(overall))
    yield Section(
        title="All sets",
        sentences=shown,
        undecided=undecided,
        figures=figures,
        table=overall_cells(overall),
        notes=overall_notes(overall),
    )


def _by_verdict(sentences: Iterable[tuple[bool, str]]) -> tuple[list[str], list[str]]:
    """Separate sentences that show something from those that do not."""
    found = list(sentences)
    return [sentence for shown, sentence in found if shown], [sentence for shown, sentence in found if not shown]


def _overall_sentences(overall: Overall) -> Iterator[tuple[bool, str]]:
    for line in overall.lines:
        if line.against is not None:
            shown = line.against.shows_difference
            gap = format_difference("accuracy", line.against)
            total = "" if line.total is None else f"; {line.total:.2f} times the parameters of one model for all sets"
            words = "a difference is shown" if shown else "no difference is shown"
            yield shown, f"{line.name} against {overall.reference}, on average: {gap} points; {words}{total}."


def _section(table: SetTable) -> Section:
    shown, undecided = _by_verdict(_sentences(table))
    return Section(
        title=table.plan.heading,
        sentences=shown,
        undecided=undecided,
        figures=list(_figures(table)),
        table=Markup(html_table(table)),
        notes=[note.replace("`", "") for note in notes_of(table)],
    )


def _figures(table: SetTable) -> Iterator[Figure]:
    info = metric_info(table.metric)
    values = [
        Estimate.of(line.name, line.metrics[info.name], scale=info.scale, highlighted=line.name in table.best)
        for line in table.lines
    ]
    yield Figure(
        svg=forest_plot(values, label=info.label),
        caption=f"{info.words.capitalize()} of every setting on the test rows, with 95 % intervals. Settings in blue: "
        "nothing is shown to be better. Overlapping lines in blue have no ranking.",
    )
    differences = [
        Estimate.of(line.name, line.against, scale=info.scale, highlighted=line.better or line.worse)
        for line in table.lines
        if line.against is not None
    ]
    if differences:
        yield Figure(
            svg=forest_plot(differences, label=f"{info.label}, less that of {table.reference}", zero_line=True),
            caption=f"The difference to {table.reference} on the same rows. In blue: the interval excludes zero, "
            "a difference is shown.",
        )
    yield from _binned_figures(table)
    yield from _learning_curves(table)


def _sentences(table: SetTable) -> Iterator[tuple[bool, str]]:
    """Yield the findings, each with whether it shows something."""
    yield from ((True, sentence) for sentence in _reading_sentences(table))
    for line in table.lines:
        for other in table.lines:
            if line is not other:
                yield from _pair_sentences(table, line, other)
    yield from ((True, sentence) for sentence in _method_sentences(table))


def _reading_sentences(table: SetTable) -> Iterator[str]:
    """Compare the settings that read attributes, and those with some of the attributes, with the reference."""
    reading = [line for line in _reading(table) if line.against is not None]
    if not reading:
        return
    sentences = [f"Settings that read attributes: {len(reading)}."]
    for word in ("better", "worse"):
        names = [line.name for line in reading if getattr(line, word)]
        listed = f" ({', '.join(names)})" if names else ""
        sentences.append(f"Shown to be {word} than {table.reference}: {len(names) or 'no setting'}{listed}.")
    yield " ".join(sentences)
    subsets = [line for line in reading if _setting(line).attributes]
    if subsets:
        listed = "; ".join(
            f"{line.name} {format_difference(table.metric, line.against)}" for line in subsets if line.against
        )
        yield f"Which attributes? Against {table.reference}: {listed}."


def _pair_sentences(table: SetTable, line: Line, other: Line) -> Iterator[tuple[bool, str]]:
    """Compare a method with the same without its attributes, or with shuffled ones."""
    kind = _counterpart(line, other)
    gain = None if kind is None else line.group.against(other.group).get(table.metric)
    if gain is not None:
        answer = verdict(gain, higher_is_better=line.higher_is_better)
        gap, words = format_difference(table.metric, gain), "shown" if answer > 0 else "not shown"
        sentence = f"Do the attributes help? {line.name} against {other.name}: {gap}; a gain by {kind} is {words}."
        yield answer != 0, sentence


def _method_sentences(table: SetTable) -> Iterator[str]:
    """Name the settings that nothing is shown to be better than, and the fastest of them."""
    lines = table.by_name
    best = [name for name in table.best if name in lines]
    if len(table.lines) < 2 or not best:
        return
    text = "nothing is shown to be better than" if len(best) > 1 else "all others are shown to be worse than"
    yield f"With which method? On these rows {text} {', '.join(best)}."
    cheapest = min((lines[name] for name in best), key=lambda line: line.cost["seconds"] or 0.0)
    share, seconds = cheapest.cost["share"] or 0.0, cheapest.cost["seconds"] or 0.0
    trained = "" if cheapest.cost["seconds_per_pass"] is None else f" and trains {100 * share:.1f} % of its parameters"
    yield f"At what cost? Of these {cheapest.name} takes the least time, {duration(seconds)} for a training{trained}."


def _reading(table: SetTable) -> list[Line]:
    """List the settings that read attributes, without the baselines and the controls."""
    return [
        line
        for line in table.lines
        if line.hidden is not None and not _is_control(line) and not _setting(line).is_baseline
    ]


def _is_control(line: Line) -> bool:
    return bool(_setting(line).data.get("shuffled"))


def _setting(line: Line) -> Setting:
    return line.group.results[0].cell.setting


def _counterpart(line: Line, other: Line) -> str | None:
    """Name what distinguishes a setting from its counterpart without, or with shuffled, attributes; None if not one."""
    ours, theirs = _setting(line), _setting(other)
    if _is_control(line) or any(
        getattr(ours, name) != getattr(theirs, name) for name in ("method", "backbone", "training")
    ):
        return None
    if _is_control(other) and ours.attributes == theirs.attributes:
        return "the attributes' own values"
    return "attributes" if ours.attributes is None and theirs.attributes == () else None


def _binned_figures(table: SetTable) -> Iterator[Figure]:
    """Plot the difference of the best setting that reads attributes to the reference, over bins of rows."""
    reading = _reading(table)
    if not reading or table.reference not in table.by_name:
        return
    best = next((line for line in reading if line.name in table.best), reading[0])
    for name, bins in _binned_differences(best.group, table.by_name[table.reference].group, metric=table.metric):
        attribute = name.removeprefix("count.")
        if attribute == name:
            xlabel = by = "words of the text"
        else:
            xlabel = f"training rows with the {attribute}"
            by = f"how often their {attribute} occurs in the training rows, 0 if it never does"
        ylabel = f"{metric_info(table.metric).label}, less {table.reference}"
        yield Figure(
            svg=binned_plot(bins, ylabel=ylabel, xlabel=f"{xlabel} (below: test rows)"),
            caption=f"For which rows does {best.name} help? Test rows in bins of {by}. The bins are made without "
            "looking at labels; the line is fitted to them, weighted by their rows.",
        )


def _binned_differences(group: Group, reference: Group, *, metric: str) -> Iterator[tuple[str, list[Estimate]]]:
    """Compare two settings over bins of rows: by training rows with the row's value of an attribute, and by words.

    Bins hold about as many test rows each, and are made without looking at labels. Values without training rows have a
    bin of their own where there are enough of these rows.
    """
    folds = [fold for fold in group.folds if fold in reference.folds]
    if not folds:
        return
    group, reference, scale = group.on(folds), reference.on(folds), metric_info(metric).scale
    for name in group.results[0].facts():
        counts = [result.facts()[name] for result in group.results]
        ranges = count_ranges(np.concatenate(counts), bins=_MAX_BINS)
        if len(ranges) < 2:
            continue
        bins = []
        for low, high in ranges:
            masks = [(count >= low) & (count <= high) for count in counts]
            pair = paired(group.metrics(rows=masks)[metric], reference.metrics(rows=masks)[metric], resamples=2_000)
            row_count = int(sum(mask.sum() for mask in masks))
            bins.append(Estimate.of(range_name(low, high), pair, scale=scale, rows=row_count))
        yield name, bins


def _learning_curves(table: SetTable) -> Iterator[Figure]:
    """Plot the validation loss of the first fold, for the best settings and the reference."""
    curves = []
    for line in table.lines:
        if line.name in table.best or line.name == table.reference:
            log = read_json_lines(line.group.results[0].folder / "log.jsonl")
            checks = [entry for entry in log if {"eval_loss", "epoch"} <= entry.keys()]
            if len(checks) > 1:
                x, y = (tuple(float(check[key]) for check in checks) for key in ("epoch", "eval_loss"))
                curves.append(Curve(name=line.name, x=x, y=y))
    if curves:
        yield Figure(
            svg=curve_plot(curves[:_MAX_CURVES], ylabel="loss on validation rows"),
            caption="Learning curves of the first fold or seed. A curve that rises again overfits; the weights are "
            "those of the best check.",
        )

"""The page of a run: how it was trained, what it takes for what, how sure it is, and for which rows it is right."""

from __future__ import annotations

import html
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from attribune.evaluation.bootstrap import Interval
from attribune.evaluation.judgement import (
    Bin,
    Calibration,
    Head,
    Judged,
    ValueFigure,
    calibration,
    heads,
    row_bins,
    value_figures,
)
from attribune.evaluation.judging import RunRows, rows_of_run
from attribune.evaluation.report import (
    comparison_lines,
    format_interval,
    is_share,
    metric_label,
    metric_scale,
    metric_words,
    table_cells,
)
from attribune.report.page import figure, page, section, write_page
from attribune.report.plots import Bins, Curve, Point, curves, heat, reliability, sparsity
from attribune.training.folder import RunFolder

__all__ = ["run_page", "write_run_page"]

_DRAWN_CLASSES = 20
_MIXED_UP = 12  # pairs of classes that are listed
_POINTS = 40  # of a curve of training losses
_LISTED = 8  # values at each end


def write_run_page(
    run: str | Path,
    data: Any = None,
    *,
    output: str | Path | None = None,
    backbone: str | None = None,
    encoding: str | None = None,
) -> tuple[Path, list[str]]:
    """Write the page of a finished run.

    Args:
        run: folder of a finished run.
        data: labelled rows, anything `read_table` takes; the run's own test rows unless given, which are not scored
            again.
        output: where to; ``report.html`` in the folder unless given.
        backbone: where the backbone's weights are, if no longer where they were.
        encoding: of the file.

    Returns:
        Where the page is, and what could not be shown.

    Raises:
        AttribuneError: naming file, row or column and the cure.
    """
    rows = rows_of_run(run, data, backbone=backbone, encoding=encoding)
    return write_page(output if output is not None else RunFolder(Path(run)).page, run_page(rows)), rows.notes


def run_page(rows: RunRows) -> str:
    """The whole page, with its plots inside; nothing is loaded from elsewhere."""
    about = f"{rows.method} over {rows.backbone}" if rows.backbone else rows.method
    first = f"Run {rows.run}: {about}. {len(rows.judged):,} {rows.source}."
    notes = "".join(f"<p class=note>{html.escape(note)}</p>" for note in rows.notes)
    parts = [f"<p>{html.escape(first)}</p>", _results(rows), *_training(rows), *_confusions(rows.judged)]
    parts += [*_calibration(rows.judged), *_bins(rows.judged), *_values(rows), notes]
    return page(f"{rows.method}: what a run learned", "\n".join(parts))


def _results(rows: RunRows) -> str:
    note = "95 % intervals of the bootstrap over rows; differences are paired. No winner is named where one holds zero."
    return section("Figures", comparison_lines(rows.comparisons), lines=table_cells(rows.results), note=note)


# How it was trained


def _training(rows: RunRows) -> Iterator[str]:
    checks = [line for line in rows.log if "eval_loss" in line]
    steps = [line for line in rows.log if "loss" in line]
    if not checks:
        return
    lines = [Curve(name="loss on validation rows", x=_column(checks, "epoch"), y=_column(checks, "eval_loss"))]
    if steps:
        lines.insert(0, _training_loss(steps))
    metric = rows.judged.task.main_metric
    drawing = figure(curves(lines, label="loss"), "The loss over the passes; that of training is with dropout.")
    if all(f"eval_{metric}" in line for line in checks) and len(checks) > 1:
        y = tuple(metric_scale(metric) * value for value in _column(checks, f"eval_{metric}"))
        curve = Curve(name=metric_words(metric), x=_column(checks, "epoch"), y=y)
        drawing += figure(curves([curve], label=metric_label(metric)), f"{metric_words(metric)} on validation rows.")
    yield section("Training", list(_on_training(rows, checks)), drawing=drawing)


def _training_loss(steps: Sequence[Mapping[str, Any]]) -> Curve:
    """The loss on training rows, averaged over about a fortieth of the training for each point."""
    wide = max(1, steps[-1]["step"] // _POINTS)
    epochs, losses, total, first, last = [], [], 0.0, 0, 0
    for line in steps:
        total += line["loss"] * (line["step"] - last)
        last = line["step"]
        if last - first >= wide:
            epochs.append(float(line["epoch"]))
            losses.append(total / (last - first))
            total, first = 0.0, last
    return Curve(name="loss on training rows", x=tuple(epochs), y=tuple(losses))


def _column(lines: Sequence[Mapping[str, Any]], name: str) -> tuple[float, ...]:
    return tuple(float(line[name]) for line in lines)


def _on_training(rows: RunRows, checks: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    training, metric = rows.training, rows.judged.task.main_metric
    kept = next((line for line in checks if line["step"] == training["best_step"]), checks[-1])
    value = metric_scale(metric) * training["best_value"]
    yield (
        f"The weights are those after pass {kept['epoch']:.3g} of {checks[-1]['epoch']:.3g}, the best of {len(checks)} "
        f"checks by {metric_words(metric)}: {value:.4g}{' %' if is_share(metric) else ''} on the validation rows."
    )
    losses = _column(checks, "eval_loss")
    lowest = int(np.argmin(losses))
    if len(losses) > 1 and lowest == len(losses) - 1:
        yield "The loss on validation rows was lowest at the last check: more passes may help."
    elif len(losses) > 1:
        rise = 100 * (losses[-1] / losses[lowest] - 1)
        yield (
            f"The loss on validation rows was lowest after pass {checks[lowest]['epoch']:.3g} and {rise:.0f} % higher "
            "at the end: from there on the model learned its training rows by heart."
        )


# What is taken for what


def _confusions(judged: Judged) -> Iterator[str]:
    for head in heads(judged):
        counts = head.confusion()
        title = f"What is taken for what: {head.name}" if head.name else "What is taken for what"
        shares = counts / np.maximum(counts.sum(axis=1, keepdims=True), 1)
        drawing = ""
        if len(head.classes) <= _DRAWN_CLASSES:
            caption = "Rows of each true class by what was predicted; darker: a larger share of the class."
            drawing = figure(heat(shares, names=head.classes, counts=counts), caption)
        yield section(title, list(_on_confusion(head, counts)), drawing=drawing, lines=_mixed_up(head, counts))


def _on_confusion(head: Head, counts: Any) -> Iterator[str]:
    wrong = counts - np.diag(np.diag(counts))
    if unseen := int((head.true < 0).sum()):
        yield f"{unseen:,} rows have a label that no training row had; they are not shown."
    if not wrong.any():
        yield "Every row was given its true class."
        return
    true, predicted = np.unravel_index(int(wrong.argmax()), wrong.shape)
    share = 100 * counts[true, predicted] / counts[true].sum()
    yield (
        f"The most frequent mistake: {head.classes[true]} taken for {head.classes[predicted]}, in "
        f"{counts[true, predicted]:,} rows, {share:.0f} % of those that are {head.classes[true]}."
    )
    never = [head.classes[i] for i in range(len(head.classes)) if not counts[:, i].any() and counts[i].any()]
    if never:
        yield f"Never predicted though there: {', '.join(never[:_MIXED_UP])}{' ...' if len(never) > _MIXED_UP else ''}."


def _mixed_up(head: Head, counts: Any) -> list[list[str]]:
    wrong = counts - np.diag(np.diag(counts))
    if len(head.classes) <= 2 or not wrong.any():
        return []
    lines = [["true class", "taken for", "rows", "of the class (%)"]]
    for place in np.argsort(-wrong, axis=None, kind="stable")[:_MIXED_UP]:
        true, predicted = np.unravel_index(int(place), wrong.shape)
        if wrong[true, predicted]:
            share = 100 * counts[true, predicted] / counts[true].sum()
            lines.append([head.classes[true], head.classes[predicted], f"{counts[true, predicted]:,}", f"{share:.1f}"])
    return lines


# How sure


def _calibration(judged: Judged) -> Iterator[str]:
    found = calibration(judged)
    if found is None:
        return
    points = [Point(said=b.said, true=b.figure.value, low=b.figure.low, high=b.figure.high) for b in found.bins]
    if found.of == "number":
        title, said, true = "Are the numbers right on average?", "number predicted", "true number"
    else:
        title, said, true = "Are the probabilities right?", "probability", "share that comes true"
    drawing = figure(
        reliability(points, said=said, true=true),
        "Predictions in bins of about as many each, with 95 % intervals; on the line, what is said is what comes true.",
    )
    yield section(title, [_on_calibration(found)], drawing=drawing)


def _on_calibration(found: Calibration) -> str:
    scale, unit = (1, "") if found.of == "number" else (100, " points")
    gap = f"{scale * found.gap.value:+.3g}{unit} [{scale * found.gap.low:+.3g}, {scale * found.gap.high:+.3g}]"
    rest = f"The mean distance over the bins is {scale * found.error:.3g}{unit} (what is right by chance has some)."
    what = "Numbers" if found.of == "number" else "Probabilities"
    if found.gap.low <= 0 <= found.gap.high:
        return f"{what} are neither too high nor too low on average, as far as these rows show: {gap}. {rest}"
    return f"{what} are too {'high' if found.gap.value > 0 else 'low'} on average, by {gap}. {rest}"


# For which rows


def _bins(judged: Judged) -> Iterator[str]:
    metric = judged.task.main_metric
    for name, bins in row_bins(judged).items():
        across = f"{name} of the row" if name == "words" else f"training rows with the row's {name}"
        scale = metric_scale(metric)
        drawn = Bins(
            name=name,
            edges=tuple(one.name for one in bins),
            values=scale * np.array([one.figure.value for one in bins]),
            lows=scale * np.array([one.figure.low for one in bins]),
            highs=scale * np.array([one.figure.high for one in bins]),
            rows=tuple(one.rows for one in bins),
        )
        whole = scale * judged.figure().value
        title = "Short and long texts" if name == "words" else f"Frequent and rare values of {name}"
        caption = f"{metric_words(metric)} over bins of {across}, with 95 % intervals; below each bin its rows."
        drawing = figure(sparsity(drawn, label=metric_label(metric), across=across, level=whole), caption)
        yield section(title, [_on_ends(metric, bins, across)], drawing=drawing)


def _on_ends(metric: str, bins: Sequence[Bin], across: str) -> str:
    first, last = bins[0], bins[-1]
    ends = (
        f"{metric_words(metric)} is {format_interval(metric, first.figure)} with {first.name} {across} and "
        f"{format_interval(metric, last.figure)} with {last.name}"
    )
    apart = _apart(first.figure, last.figure)
    return f"{ends}: {'these intervals lie apart' if apart else 'no difference is shown between these two'}."


def _apart(first: Interval, last: Interval) -> bool:
    return first.high < last.low or last.high < first.low


def _values(rows: RunRows) -> Iterator[str]:
    metric = rows.judged.task.main_metric
    scale, places = metric_scale(metric), 1 if is_share(metric) else 3
    for attribute in rows.attributes:
        found = value_figures(rows.judged, attribute)
        if len(found) < 2:
            continue
        shown = found if len(found) <= 2 * _LISTED else [*found[:_LISTED], *found[-_LISTED:]]
        lines = [[attribute.name, "rows", metric_label(metric), "rows at random"]]
        for one in shown:
            low, figure_, high = (f"{scale * number:.{places}f}" for number in (one.low, one.figure, one.high))
            lines.append([one.value, f"{one.rows:,}", f"{figure_}{' *' if one.stands_out else ''}", f"{low} to {high}"])
        yield section(
            f"By value of {attribute.name}",
            [_on_values(metric, attribute.name, found)],
            lines=lines,
            note=f"The most frequent values with twenty rows or more, {len(found)} of them, the lowest and the highest "
            "shown. Rows at random: where the figure of as many rows lies that are drawn from all, widened for the "
            "number of values. *: outside of it.",
        )


def _on_values(metric: str, name: str, found: Sequence[ValueFigure]) -> str:
    out = [one.value for one in found if one.stands_out]
    of = f"Of {len(found)} values of {name}"
    if not out:
        return f"{of}, none has another {metric_words(metric)} than rows drawn at random would show."
    listed = f"{', '.join(out[:_LISTED])}{' ...' if len(out) > _LISTED else ''}"
    have = "has" if len(out) == 1 else "have"
    return f"{of}, {len(out)} {have} another {metric_words(metric)} than rows drawn at random would show: {listed}."

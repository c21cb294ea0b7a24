"""The page of a run: verdict, metrics, training, mistakes, calibration, and metrics by group of rows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Unpack

import numpy as np

from attribune.analysis.diagnostics import (
    Bin,
    Calibration,
    Head,
    ScoredRows,
    ValueFigure,
    calibration,
    class_figures,
    heads,
    largest_mistakes,
    row_bins,
    value_figures,
)
from attribune.analysis.run_rows import RunRows, rows_of_run
from attribune.apps.report.judge_sections import judge_sections
from attribune.apps.report.page import (
    Example,
    Figure,
    Heading,
    QuestionAndAnswer,
    Section,
    render_page,
    shown_time,
    write_page,
)
from attribune.apps.report.plots import Curve, Estimate, binned_plot, calibration_plot, confusion_plot, curve_plot
from attribune.core.arguments import checked_arguments
from attribune.core.progress import Reporter
from attribune.core.wording import counted, excerpt
from attribune.data.clusters import what_is_drawn
from attribune.data.file_options import Reading
from attribune.data.tables import refuse_input_as_output, with_reading
from attribune.metrics.bootstrap import Interval
from attribune.metrics.metric import metric_info
from attribune.metrics.tables import comparison_lines, format_interval, table_cells
from attribune.runs.folder import RunFolder
from attribune.runs.stored_scores import scored_tables
from attribune.runs.training_record import TrainingRecord
from attribune.runs.verdict import Verdict
from attribune.schema.columns import cell_text

_MAX_PLOTTED_CLASSES = 20
_LISTED_CONFUSIONS = 12  # pairs of classes
_CURVE_POINTS = 40  # of the training loss
_LISTED_VALUES = 8  # at each end
_LISTED_MISTAKES = 12
_EXCERPT, _FACT = 400, 80  # characters


@checked_arguments
def report(
    run: str | Path,
    data: Any = None,
    *,
    output: str | Path | None = None,
    backbone: str | Path | None = None,
    reporter: Reporter | None = None,
    **reading: Unpack[Reading],
) -> Path:
    """Write the page of a finished run; the same as ``attribune report``.

        report("runs/stars", "test.csv", output="stars.html")

    Args:
        run: folder of the run.
        data: labelled rows, anything `read_table` takes; by default the run's own test rows, which are not scored
            again.
        output: file to write; by default ``report.html`` in the folder.
        backbone: new location of the backbone's weights, if they were moved.
        reporter: is told what could not be shown, which the page says too.
        **reading: how files are read, as in `read_table`.

    Returns:
        The path of the page, one HTML file that loads nothing from elsewhere.

    Raises:
        AttribuneError: naming file, row or column and the cure.
    """
    data, reporter = with_reading(data, reading), reporter or Reporter()
    if output is None:
        RunFolder.of(run).refuse_links()
    else:
        refuse_input_as_output(output, scored_tables(run, data))
    rows = rows_of_run(run, data, backbone=backbone)
    reporter.notes(rows.notes)
    return write_page(output if output is not None else RunFolder.of(run).page, run_page(rows))


def run_page(rows: RunRows) -> str:
    """Render the page; nothing in it is loaded from elsewhere."""
    scored_rows = rows.scored_rows
    sections = [
        Section(title="Verdict", answers=list(_answers(rows.verdict))),
        *_by_count(rows.verdict),
        _metrics(rows),
        *_training(rows),
        *_confusions(scored_rows),
        *_classes(scored_rows),
        *_mistakes(rows),
        *_calibration(scored_rows),
        *_bins(scored_rows),
        *_values(rows),
        *judge_sections(rows),
    ]
    return render_page(_heading(rows), sections, notes=rows.notes)


def _heading(rows: RunRows) -> Heading:
    facts = {"Model": f"{rows.method} over {rows.backbone}" if rows.backbone else rows.method}
    if rows.training.finished is not None:
        facts["Trained"] = shown_time(rows.training.finished)
    facts |= {"Rows": f"{len(rows.scored_rows):,} {rows.source}", "Folder": rows.run}
    name = Path(rows.run).resolve().name
    return Heading(title=name, kind="What a run learned", headline=rows.verdict.headline, facts=facts)


def _answers(verdict: Verdict) -> Iterator[QuestionAndAnswer]:
    """Yield the questions of a verdict with their answers, the attributes first."""
    if verdict.given_away is not None:
        sentences = verdict.given_away.sentences()
        yield QuestionAndAnswer(
            question="Does a column give the label away?", answer="Yes", tone="bad", sentences=sentences
        )
    if (effect := verdict.attributes) is not None:
        yield _answer("Do the attributes help?", effect.answer, effect.sentences())
    if lines := [one.text for one in verdict.attribute_findings()]:
        answers = {gain.answer for gain in verdict.by_attribute}
        yield _answer("Which of them?", answers.pop() if len(answers) == 1 else "", lines)
    if (baseline := verdict.baseline) is not None:
        yield _answer("Is it better than a cheap baseline?", baseline.answer, baseline.sentences())
    parts = [part for part in (verdict.kept, verdict.blend, verdict.calibration) if part is not None]
    if parts:
        sentences = [sentence for part in parts for sentence in part.sentences()]
        yield QuestionAndAnswer(question="Which weights does it have?", sentences=sentences)


def _answer(question: str, answer: str, sentences: Sequence[str]) -> QuestionAndAnswer:
    tone = {"yes": "good", "no": "bad"}.get(answer, "")
    return QuestionAndAnswer(question=question, answer=answer.capitalize(), tone=tone, sentences=sentences)


def _by_count(verdict: Verdict) -> Iterator[Section]:
    """Show what the attributes change for rare and for frequent values."""
    if verdict.by_count:
        yield Section(
            title="What the attributes change for rare and frequent values",
            sentences=[gain.sentence(verdict.metric) for gain in verdict.by_count if gain.answer != "not shown"],
            undecided=[gain.sentence(verdict.metric) for gain in verdict.by_count if gain.answer == "not shown"],
            notes=[
                "All attributes are hidden, and not the one that a line names. Of many lines some show a difference by "
                "chance. Rows without a value are in none."
            ],
        )


def _metrics(rows: RunRows) -> Section:
    over = what_is_drawn(rows.scored_rows.clusters)
    return Section(
        title="Metrics",
        sentences=comparison_lines(pair for pair in rows.comparisons if pair.shows_difference),
        undecided=comparison_lines(pair for pair in rows.comparisons if not pair.shows_difference),
        table=table_cells(rows.results),
        notes=[
            f"95 % intervals of the bootstrap over {over}; differences are paired. An interval that holds zero shows "
            "no winner."
        ],
    )


def _training(rows: RunRows) -> Iterator[Section]:
    checks = [line for line in rows.log if {"eval_loss", "epoch"} <= line.keys()]
    steps = [line for line in rows.log if {"loss", "epoch", "step"} <= line.keys()]
    if not checks:
        return
    epochs = _column(checks, "epoch")
    curves = [Curve(name="loss on validation rows", x=epochs, y=_column(checks, "eval_loss"))]
    if steps:
        curves.insert(0, _training_loss(steps))
    metric, info = rows.scored_rows.task.main_metric, metric_info(rows.scored_rows.task.main_metric)
    caption = "The loss over the epochs; the training loss is with dropout."
    figures = []
    if any(len(curve.x) > 1 for curve in curves):
        figures.append(Figure(svg=curve_plot(curves, ylabel="loss"), caption=caption))
    if all(f"eval_{metric}" in line for line in checks) and len(checks) > 1:
        y = tuple(info.scale * value for value in _column(checks, f"eval_{metric}"))
        svg = curve_plot([Curve(name=info.words, x=epochs, y=y)], ylabel=info.label)
        figures.append(Figure(svg=svg, caption=f"{info.words.capitalize()} on validation rows."))
    yield Section(title="Training", sentences=list(_training_sentences(checks, rows.training)), figures=figures)


def _training_loss(steps: Sequence[Mapping[str, Any]]) -> Curve:
    """Average the loss on training rows over about a fortieth of the training for each point."""
    width = max(1, steps[-1]["step"] // _CURVE_POINTS)
    epochs, losses, total, first, last = [], [], 0.0, 0, 0
    for line in steps:
        total += line["loss"] * (line["step"] - last)
        last = line["step"]
        if last - first >= width:
            epochs.append(float(line["epoch"]))
            losses.append(total / (last - first))
            total, first = 0.0, last
    return Curve(name="loss on training rows", x=tuple(epochs), y=tuple(losses))


def _column(lines: Sequence[Mapping[str, Any]], name: str) -> tuple[float, ...]:
    return tuple(float(line[name]) for line in lines)


def _training_sentences(checks: Sequence[Mapping[str, Any]], training: TrainingRecord) -> Iterator[str]:
    losses = _column(checks, "eval_loss")
    if len(losses) == 1:
        epoch = checks[0]["epoch"]
        yield f"The loss on validation rows was {losses[0]:.4g} at the only check, after epoch {epoch:.3g}."
    lowest = int(np.argmin(losses))
    if len(losses) > 1 and lowest == len(losses) - 1:
        yield "The loss on validation rows was lowest at the last check: more epochs may help."
    elif len(losses) > 1:
        rise = 100 * (losses[-1] / losses[lowest] - 1)
        kept = "the last weights are kept all the same"
        then = kept if training.keeps_last else "from there on the model overfits"
        yield (
            f"The loss on validation rows was lowest after epoch {checks[lowest]['epoch']:.3g} and {rise:.0f} % higher "
            f"at the end: {then}."
        )


def _confusions(scored_rows: ScoredRows) -> Iterator[Section]:
    for head in heads(scored_rows):
        counts, figures = head.confusion(), []
        wrong = counts - np.diag(np.diag(counts))
        if len(head.classes) <= _MAX_PLOTTED_CLASSES:
            caption = "Rows of each true class by predicted class; darker: a larger share of the true class."
            figures.append(Figure(svg=confusion_plot(counts, names=head.classes), caption=caption))
        yield Section(
            title=f"Confusion matrix: {head.name}" if head.name else "Confusion matrix",
            sentences=list(_confusion_sentences(head, counts, wrong)),
            figures=figures,
            table=_frequent_confusions(head, counts, wrong),
        )


def _confusion_sentences(head: Head, counts: Any, wrong: Any) -> Iterator[str]:
    if unseen := int((head.true < 0).sum()):
        yield f"{counted(unseen, 'row has', 'rows have')} a label that no training row had; not shown here."
    if not wrong.any():
        yield "Every row is predicted correctly."
        return
    true, predicted = np.unravel_index(int(wrong.argmax()), wrong.shape)
    share = 100 * counts[true, predicted] / counts[true].sum()
    yield (
        f"The most frequent confusion: {head.classes[true]} predicted as {head.classes[predicted]}, in "
        f"{counted(counts[true, predicted], 'row')}, {share:.0f} % of those that are {head.classes[true]}."
    )
    never = [head.classes[i] for i in range(len(head.classes)) if not counts[:, i].any() and counts[i].any()]
    if never:
        more = " ..." if len(never) > _LISTED_CONFUSIONS else ""
        yield f"Never predicted: {', '.join(never[:_LISTED_CONFUSIONS])}{more}."


def _frequent_confusions(head: Head, counts: Any, wrong: Any) -> list[list[str]]:
    if len(head.classes) <= 2 or not wrong.any():
        return []
    lines = [["true class", "predicted as", "rows", "of the true class (%)"]]
    for index in np.argsort(-wrong, axis=None, kind="stable")[:_LISTED_CONFUSIONS]:
        true, predicted = np.unravel_index(int(index), wrong.shape)
        if wrong[true, predicted]:
            share = 100 * counts[true, predicted] / counts[true].sum()
            lines.append([head.classes[true], head.classes[predicted], f"{counts[true, predicted]:,}", f"{share:.1f}"])
    return lines


def _classes(scored_rows: ScoredRows) -> Iterator[Section]:
    """Write precision, recall and F1 of each class, a section for each aspect."""
    found = class_figures(scored_rows)
    for head in dict.fromkeys(one.head for one in found):
        classes = [one for one in found if one.head == head]
        true = [one for one in classes if one.rows]
        lowest = min(true, key=lambda one: one.f1.value, default=None)
        sentence = lowest and f"F1 is lowest for {lowest.name}: {format_interval('f1', lowest.f1)} %."
        yield Section(
            title=f"Each class: {head}" if head else "Each class",
            sentences=[sentence] if sentence and len(true) > 1 else [],
            table=[
                ["class", "rows", "precision (%)", "recall (%)", "F1 (%)"],
                *([one.name, f"{one.rows:,}", *map(_share, (one.precision, one.recall, one.f1))] for one in classes),
            ],
            notes=[
                "Precision: the share of the rows predicted as a class that are of it. Recall: the share of the rows "
                "of a class that are predicted as it. F1: the harmonic mean of the two. 95 % intervals."
            ],
        )


def _share(found: Interval | None) -> str:
    return "-" if found is None else format_interval("f1", found)


def _mistakes(rows: RunRows) -> Iterator[Section]:
    """Show the rows that are most wrong, with their texts."""
    mistakes = [] if rows.table is None else largest_mistakes(rows.scored_rows, limit=_LISTED_MISTAKES)
    if rows.table is None or not mistakes:
        return
    table, data = rows.table.select([one.row for one in mistakes]), rows.recipe.data
    texts = rows.scored_rows.task.input.read_texts(data.text_input(), table)
    names = [
        name for name in dict.fromkeys([*rows.recipe.attribute_columns, *data.label]) if name in table.column_names
    ]
    columns = {name: [cell_text(cell) for cell in table[name]] for name in names}
    examples = []
    for number, (one, text) in enumerate(zip(mistakes, texts, strict=True)):
        facts = {name: excerpt(column[number] or "missing", _FACT) for name, column in columns.items()}
        facts["predicted"] = excerpt(one.predicted, _FACT)
        if one.probability is not None:
            facts["probability of the label"] = f"{one.probability:.3f}"
        examples.append(Example(text=excerpt(text, _EXCERPT) or "(no text)", facts=facts))
    of = "the rows that are predicted wrongly" if rows.scored_rows.task.codec.choices else "all rows"
    yield Section(
        title="Largest mistakes",
        examples=examples,
        notes=[f"Of {of}, those with the largest loss. Some of their labels may be wrong, and not the model."],
    )


def _calibration(scored_rows: ScoredRows) -> Iterator[Section]:
    result = calibration(scored_rows)
    if result is None:
        return
    bins = [Estimate.of(one.name, one.figure, predicted=one.predicted) for one in result.bins]
    if result.quantity == "number":
        title, xlabel, ylabel = "Calibration: predicted and true numbers", "predicted number", "mean true number"
    else:
        title, xlabel, ylabel = "Calibration", "predicted probability", "observed frequency"
    figure = Figure(
        svg=calibration_plot(bins, xlabel=xlabel, ylabel=ylabel),
        caption="Predictions in bins of about equal size, with 95 % intervals; a calibrated model is on the diagonal.",
    )
    yield Section(title=title, sentences=[_calibration_sentence(result)], figures=[figure])


def _calibration_sentence(result: Calibration) -> str:
    scale, unit = (1, "") if result.quantity == "number" else (100, " points")
    low, value, high = (scale * number for number in (result.gap.low, result.gap.value, result.gap.high))
    gap = f"{value:+.3g}{unit} [{low:+.3g}, {high:+.3g}]"
    error = (
        f"The expected calibration error is {scale * result.error:.3g}{unit}, which is above zero by chance even for a "
        "calibrated model."
    )
    subject = "Numbers" if result.quantity == "number" else "Probabilities"
    if low <= 0 <= high:
        return f"{subject} are neither too high nor too low on average, as far as these rows show: {gap}. {error}"
    return f"{subject} are too {'high' if value > 0 else 'low'} on average, by {gap}. {error}"


def _bins(scored_rows: ScoredRows) -> Iterator[Section]:
    metric = scored_rows.task.main_metric
    info = metric_info(metric)
    for name, bins in row_bins(scored_rows).items():
        by_length = name == "words"
        xlabel = f"{name} of the row" if by_length else f"training rows with the row's {name}"
        estimates = [Estimate.of(one.name, one.figure, scale=info.scale, rows=one.rows) for one in bins]
        overall = info.scale * scored_rows.metric.value()
        figure = Figure(
            svg=binned_plot(estimates, ylabel=info.label, xlabel=xlabel, overall=overall),
            caption=f"{info.words.capitalize()} over bins of {xlabel}, with 95 % intervals; below each bin its rows.",
        )
        yield Section(
            title="Short and long texts" if by_length else f"Frequent and rare values of {name}",
            sentences=[_bins_sentence(metric, bins, xlabel)],
            figures=[figure],
        )


def _bins_sentence(metric: str, bins: Sequence[Bin], xlabel: str) -> str:
    first, last = bins[0], bins[-1]
    ends = (
        f"{metric_info(metric).words.capitalize()} is {format_interval(metric, first.figure)} with {first.name} "
        f"{xlabel} and {format_interval(metric, last.figure)} with {last.name}"
    )
    overlap = first.figure.high >= last.figure.low and last.figure.high >= first.figure.low
    return f"{ends}: {'no difference is shown between these two' if overlap else 'these intervals do not overlap'}."


def _values(rows: RunRows) -> Iterator[Section]:
    metric = rows.scored_rows.task.main_metric
    info = metric_info(metric)
    decimals = 1 if info.is_share else 3
    for attribute in rows.attributes:
        values = value_figures(rows.scored_rows, attribute)
        if len(values) < 2:
            continue
        both_ends = [*values[:_LISTED_VALUES], *values[-_LISTED_VALUES:]]
        lines = [[attribute.name, "rows", info.label, "random rows"]]
        for one in values if len(values) <= len(both_ends) else both_ends:
            low, value, high = (f"{info.scale * number:.{decimals}f}" for number in (one.low, one.figure, one.high))
            lines.append([one.value, f"{one.rows:,}", f"{value}{' *' if one.stands_out else ''}", f"{low} to {high}"])
        yield Section(
            title=f"By value of {attribute.name}",
            sentences=[_values_sentence(metric, attribute.name, values)],
            table=lines,
            notes=[
                f"The most frequent values with twenty rows or more, {len(values)} of them, the lowest and the highest "
                "shown. Random rows: the range of the metric over as many rows drawn from all, widened for the number "
                "of values (Bonferroni). *: outside of this range."
            ],
        )


def _values_sentence(metric: str, name: str, values: Sequence[ValueFigure]) -> str:
    different = [one.value for one in values if one.stands_out]
    subject = f"Of {len(values)} values of {name}"
    if not different:
        return f"{subject}, none differs in {metric_info(metric).words} from random rows."
    listed = f"{', '.join(different[:_LISTED_VALUES])}{' ...' if len(different) > _LISTED_VALUES else ''}"
    verb = "differs" if len(different) == 1 else "differ"
    return f"{subject}, {len(different)} {verb} in {metric_info(metric).words} from random rows: {listed}."

"""The explanation of a run, and its page: what the attributes contribute, in sentences, tables and plots."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Unpack

from attribune.analysis.explain.run import Asked, explain_run
from attribune.analysis.explain.wording import as_text, headline, sections
from attribune.apps.report.page import Figure, Heading, MarkedText, Section, render_page, write_page
from attribune.apps.report.plots import Estimate, forest_plot
from attribune.core.arguments import checked_arguments
from attribune.core.wording import one_line
from attribune.data.file_options import Reading
from attribune.data.tables import refuse_input_as_output, with_reading
from attribune.metrics.bootstrap import PairedResult
from attribune.metrics.metric import metric_info
from attribune.metrics.tables import ResultDict, html_blocks
from attribune.runs.stored_scores import scored_tables

_FAINTEST = 0.03  # weight of a word from which it is shaded
_STRONG = 0.05  # effect that has full weight, or more if a word has more: small effects stay faint


@checked_arguments
def explain(
    run: str | Path,
    data: Any = None,
    *,
    row: int | None = None,
    instead: Sequence[Mapping[str, Any]] | Mapping[str, Any] = (),
    rare: int = 10,
    min_rows: int = 5,
    top: int = 10,
    output: str | Path | None = None,
    backbone: str | Path | None = None,
    **reading: Unpack[Reading],
) -> dict[str, Any]:
    """Measure what each attribute contributes, on the same texts; the same as ``attribune explain``.

        explain("runs/stars", "test.csv", row=3, instead={"user": "u17"})

    Args:
        run: folder of the run.
        data: labelled rows, anything `read_table` takes; None for the run's own test rows.
        row: number of a row of the table, from 1, to explain as well.
        instead: for this row, values that replace its own (``--as``): a mapping, or one for each further prediction.
        rare: a value with at most this many training rows is rare.
        min_rows: minimum number of rows of a value that is listed as moving predictions.
        top: number of values listed for each attribute.
        output: HTML file to write as well.
        backbone: new location of the backbone's weights, if they were moved.
        **reading: how files are read, as in `read_table`.

    Returns:
        The record that `explain_rows` describes, as plain values that are printed as tables.

    Raises:
        AttribuneError: for a method that reads no attributes, or a task that scores tokens; naming the file, row or
            column and the cure.
    """
    data = with_reading(data, reading)
    asked = Asked(row=row, instead=instead, rare=rare, min_rows=min_rows, top=top)
    if output is not None:
        refuse_input_as_output(output, scored_tables(run, data))
    record = explain_run(run, data, asked, backbone=backbone)
    if output is not None:
        write_page(output, explanation_page(record))
    return shown_explanation(record)


def shown_explanation(record: dict[str, Any]) -> ResultDict:
    """Return a record that is printed as tables."""
    text = "\n".join([as_text(record), *map(one_line, record["notes"])])
    blocks = [(part.title, part.table) for part in sections(record)]
    return ResultDict(record, text=text, html=html_blocks([*blocks, *((note, []) for note in record["notes"])]))


def explanation_page(record: Mapping[str, Any]) -> str:
    """Render the page of a record of `explain`; nothing in it is loaded from elsewhere."""
    row, found = record["row"], sections(record)
    parts = [
        Section(
            title=part.title,
            sentences=part.sentences,
            undecided=part.undecided,
            marked_texts=_marked_texts(row["words"]) if row is not None and part is found[-1] else (),
            figures=[_loss_plot(record)] if part is found[0] else (),
            table=part.table,
            notes=[part.note] if part.note else [],
        )
        for part in found
    ]
    heading = Heading(
        title=Path(record["run"]).resolve().name,
        kind="What the attributes contribute",
        headline=headline(record),
        facts={
            "Model": record["method"],
            "Rows": f"{record['rows']:,} labelled rows of {record['data']}",
            "Folder": record["run"],
        },
    )
    return render_page(heading, parts, notes=record["notes"])


def _marked_texts(occlusion: Mapping[str, Any]) -> Sequence[MarkedText]:
    """Return the text twice, shaded by the effect of each word with the row's attributes and without any."""
    words = occlusion["words"]
    largest = max(_STRONG, *(abs(word[key]) for word in words for key in ("given", "hidden")))
    titles = {
        "given": f"Words for (blue) and against (orange, dashed) {occlusion['of']}, with the row's attributes",
        "hidden": "The same with the attributes hidden",
    }
    return [
        MarkedText(
            title=title,
            words=[
                (word["word"], weight if abs(weight) >= _FAINTEST else 0.0)
                for word in words
                for weight in [word[key] / largest]
            ],
        )
        for key, title in titles.items()
    ]


def _loss_plot(record: Mapping[str, Any]) -> Figure:
    metric = record["metric"]
    info = metric_info(metric)
    estimates = []
    for loss in record["losses"]:
        for kind in ("hidden", "shuffled"):
            pair = PairedResult(**loss[kind][metric])
            name = f"{loss['attribute'] or 'all'}, {kind}"
            estimates.append(Estimate.of(name, pair, scale=info.scale, highlighted=pair.shows_difference))
    unit = "points" if info.is_share else "in its unit"
    return Figure(
        svg=forest_plot(estimates, label=f"{info.words} lost, {unit}", zero_line=True),
        caption="What is lost without each attribute, with 95 % intervals. In blue: the interval excludes zero, a "
        "difference is shown.",
    )

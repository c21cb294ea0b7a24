"""The page of an explanation: what the attributes contribute, in sentences, tables and plots."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from attribune.analysis.explain.wording import headline, sections
from attribune.apps.report.page import Figure, Heading, MarkedText, Section, render_page
from attribune.apps.report.plots import Estimate, forest_plot
from attribune.metrics.bootstrap import PairedResult
from attribune.metrics.definitions import metric_info

__all__ = ["explanation_page"]

_FAINTEST = 0.03  # weight of a word from which it is shaded
_STRONG = 0.05  # effect that has full weight, or more if a word has more: small effects stay faint


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

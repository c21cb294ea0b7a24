"""The page of an explanation: what the attributes contribute, in sentences, tables and plots."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from attribune.analysis.explain.wording import sections
from attribune.apps.report.page import Figure, Section, render_page
from attribune.apps.report.plots import Estimate, forest_plot
from attribune.metrics.bootstrap import PairedResult
from attribune.metrics.definitions import metric_info

__all__ = ["explanation_page"]


def explanation_page(record: Mapping[str, Any]) -> str:
    """Render the page of a record of `explain`; nothing in it is loaded from elsewhere."""
    parts = [
        Section(
            title=part.title,
            sentences=part.sentences,
            figures=[] if number else [_loss_plot(record)],
            table=part.table,
            notes=[part.note] if part.note else [],
        )
        for number, part in enumerate(sections(record))
    ]
    introduction = (
        f"{record['rows']:,} labelled rows of {record['data']}, method {record['method']}, run {record['run']}."
    )
    return render_page("What the attributes contribute", parts, introduction=introduction, notes=record["notes"])


def _loss_plot(record: Mapping[str, Any]) -> Figure:
    metric = record["metric"]
    info = metric_info(metric)
    estimates = []
    for loss in record["losses"]:
        for kind in ("hidden", "shuffled"):
            pair = PairedResult(**loss[kind][metric])
            name = f"{loss['attribute'] or 'all'}, {kind}"
            shown = not pair.low <= 0 <= pair.high
            estimates.append(Estimate.of(name, pair, scale=info.scale, highlighted=shown))
    unit = "points" if info.is_share else "in its unit"
    return Figure(
        svg=forest_plot(estimates, label=f"{metric} lost, {unit}", zero_line=True),
        caption="What is lost without each attribute, with 95 % intervals. In blue: the interval does not hold zero, a "
        "difference is shown.",
    )

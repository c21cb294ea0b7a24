"""The page of an explanation: what the attributes contribute, in sentences, tables and plots."""

from __future__ import annotations

import html
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from attribune.evaluation.report import is_share
from attribune.explaining.wording import Section, sections
from attribune.report.page import figure, page, section, write_page
from attribune.report.plots import Bar, forest

__all__ = ["explanation_page", "write_explanation"]


def write_explanation(record: Mapping[str, Any], path: str | Path) -> Path:
    """Write the page of a record of `explain`; returns where it is.

    Raises:
        ModelFolderError: when it cannot be written.
    """
    return write_page(path, explanation_page(record))


def explanation_page(record: Mapping[str, Any]) -> str:
    """The whole page, with its plots inside; nothing is loaded from elsewhere."""
    lost, *others = sections(record)
    about = f"{record['rows']:,} labelled rows of {record['data']}, method {record['method']}, run {record['run']}."
    notes = "".join(f"<p class=note>{html.escape(note)}</p>" for note in record["notes"])
    body = [f"<p>{html.escape(about)}</p>", _section(lost, drawing=_losses(record)), *map(_section, others), notes]
    return page("What the attributes contribute", "\n".join(body))


def _section(part: Section, *, drawing: str = "") -> str:
    return section(part.title, part.sentences, drawing=drawing, lines=part.table, note=part.note)


def _losses(record: Mapping[str, Any]) -> str:
    metric = record["metric"]
    scale = 100 if is_share(metric) else 1
    bars = []
    for loss in record["losses"]:
        for kind in ("hidden", "shuffled"):
            pair = loss[kind][metric]
            low, value, high = (scale * pair[key] for key in ("low", "difference", "high"))
            name = f"{loss['attribute'] or 'all'}, {kind}"
            bars.append(Bar(name=name, value=value, low=low, high=high, strong=not low <= 0 <= high))
    unit = "points" if scale == 100 else "in its unit"
    return figure(
        forest(bars, label=f"{metric} lost, {unit}", zero=True),
        "What is lost without each attribute, with 95 % intervals. In blue: the interval does not hold zero, a "
        "difference is shown.",
    )

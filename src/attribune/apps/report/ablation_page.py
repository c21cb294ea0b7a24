"""The page of an ablation: a heatmap of the spans of layers, for the method and for each attribute."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from attribune.analysis.ablation import METHOD
from attribune.apps.report.page import Figure, Heading, Section, render_page
from attribune.apps.report.plots import span_plot
from attribune.metrics.definitions import metric_info

__all__ = ["ablation_page", "ablation_table"]


def ablation_page(record: Mapping[str, Any]) -> str:
    """Render the page of a record of `ablate`; nothing in it is loaded from elsewhere."""
    whats = list(dict.fromkeys(span["what"] for span in record["spans"]))
    facts = {
        "Model": record["method"],
        "Rows": f"{record['rows']:,} labelled rows of {record['data']}",
        "Folder": record["run"],
        "Layers": "numbered from 0, the lowest",
    }
    heading = Heading(title=Path(record["run"]).resolve().name, kind="What each layer contributes", facts=facts)
    sections = [_section(record, what) for what in whats]
    return render_page(heading, sections, notes=record["notes"])


def ablation_table(record: Mapping[str, Any]) -> list[list[str]]:
    """Return what each single layer contributes, and then all together, the head first."""
    first, last = record["layers"][0], record["layers"][-1]
    spans = [span for span in record["spans"] if span["first"] == span["last"] or (first, last) == _ends(span)]
    whats = list(dict.fromkeys(span["what"] for span in spans))
    spans.sort(key=lambda span: (whats.index(span["what"]), span["first"] != span["last"], span["first"]))
    info = metric_info(record["metric"])
    lines = [
        [span["what"], _layers(span), *(f"{info.scale * span[end]:+.3f}" for end in ("difference", "low", "high"))]
        for span in spans
    ]
    return [["off", "layers", f"{info.words} lost", "from", "to"], *lines]


def _ends(span: Mapping[str, Any]) -> tuple[int, int]:
    return span["first"], span["last"]


def _layers(span: Mapping[str, Any]) -> str:
    first, last = _ends(span)
    return f"{first}" if first == last else f"{first} to {last}"


def _section(record: Mapping[str, Any], what: str) -> Section:
    layers, info = record["layers"], metric_info(record["metric"])
    lost = np.full((len(layers), len(layers)), np.nan)
    spans = [span for span in record["spans"] if span["what"] == what]
    for span in spans:
        lost[layers.index(span["first"]), layers.index(span["last"])] = info.scale * span["difference"]
    caption = (
        f"{info.label} with everything on less that with {_off(what)} in the layers from the row's to the column's. On "
        "the diagonal: single layers."
    )
    title = "The whole method" if what == METHOD else f"Attribute {what}"
    return Section(
        title=title,
        sentences=list(_sentences(record, what, spans)),
        figures=[Figure(svg=span_plot(lost, names=[str(layer) for layer in layers]), caption=caption)],
        notes=["95 % intervals of the paired bootstrap over rows. Nothing was trained again."],
    )


def _off(what: str) -> str:
    return "the method switched off" if what == METHOD else f"{what} hidden"


def _sentences(record: Mapping[str, Any], what: str, spans: Sequence[Mapping[str, Any]]) -> list[str]:
    info, layers = metric_info(record["metric"]), record["layers"]
    single = {span["first"]: span for span in spans if span["first"] == span["last"]}
    whole = next(span for span in spans if _ends(span) == (layers[0], layers[-1]))
    half = len(layers) // 2
    sentences = [f"With {_off(what)} in all layers: {_words(whole, info.scale)} in {info.label}."]
    if half:
        lower = next(span for span in spans if _ends(span) == (layers[0], layers[half - 1]))
        upper = next(span for span in spans if _ends(span) == (layers[half], layers[-1]))
        sentences.append(
            f"In the lower half ({_layers(lower)}): {_words(lower, info.scale)}; in the upper half ({_layers(upper)}): "
            f"{_words(upper, info.scale)}."
        )
    most = max(single.values(), key=lambda span: abs(span["difference"]))
    sentences.append(f"The single layer that matters most is {most['first']}: {_words(most, info.scale)}.")
    return sentences


def _words(span: Mapping[str, Any], scale: int) -> str:
    difference, low, high = (scale * span[name] for name in ("difference", "low", "high"))
    return f"{-difference:+.3f} [{-high:+.3f}, {-low:+.3f}]"

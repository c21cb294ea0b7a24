"""The page of an ablation: a heatmap of the spans of layers, for the method and for each attribute."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from attribune.analysis.ablation import METHOD
from attribune.apps.report.page import Figure, Heading, Section, render_page
from attribune.apps.report.plots import span_plot
from attribune.metrics.bootstrap import PairedResult
from attribune.metrics.metric import MetricInfo, metric_info
from attribune.metrics.tables import format_difference, format_value


@dataclass(frozen=True)
class _Span:
    """Layers without a method or an attribute, and what that costs: the worse metric gives the larger cost."""

    what: str
    first: int
    last: int
    cost: PairedResult

    @classmethod
    def of(cls, span: Mapping[str, Any], info: MetricInfo) -> _Span:
        pair = PairedResult.from_record(span)
        cost = pair if info.higher_is_better else _reversed(pair)
        return cls(span["what"], span["first"], span["last"], cost)

    @property
    def ends(self) -> tuple[int, int]:
        return self.first, self.last

    @property
    def layers(self) -> str:
        return f"{self.first}" if self.first == self.last else f"{self.first} to {self.last}"

    @property
    def words(self) -> str:
        return f"{'layer' if self.first == self.last else 'layers'} {self.layers}"


def ablation_page(record: Mapping[str, Any]) -> str:
    """Render the page of a record of `ablate`; nothing in it is loaded from elsewhere."""
    spans, info = _spans(record), metric_info(record["metric"])
    facts = {
        "Model": record["method"],
        "Rows": f"{record['rows']:,} labelled rows of {record['data']}",
        "Folder": record["run"],
        "Layers": "numbered from 0, the lowest",
    }
    whats = list(dict.fromkeys(span.what for span in spans))
    sections = [_section(record["layers"], [span for span in spans if span.what == what], info) for what in whats]
    heading = Heading(
        title=Path(record["run"]).resolve().name,
        kind="What each layer contributes",
        headline=sections[0].sentences[0],
        facts=facts,
    )
    return render_page(heading, sections, notes=record["notes"])


def ablation_table(record: Mapping[str, Any]) -> list[list[str]]:
    """Return what each single layer contributes, and then all together, the head first."""
    whole, info = (record["layers"][0], record["layers"][-1]), metric_info(record["metric"])
    spans = [span for span in _spans(record) if span.first == span.last or span.ends == whole]
    whats = list(dict.fromkeys(span.what for span in spans))
    spans.sort(key=lambda span: (whats.index(span.what), span.first != span.last, span.first))
    lines = [
        [span.what, span.layers, *(f"{info.scale * end:+z.3f}" for end in (cost.difference, cost.low, cost.high))]
        for span in spans
        for cost in (span.cost,)
    ]
    return [["off", "layers", _lost(info), "from", "to"], *lines]


def _spans(record: Mapping[str, Any]) -> list[_Span]:
    info = metric_info(record["metric"])
    return [_Span.of(span, info) for span in record["spans"]]


def _lost(info: MetricInfo) -> str:
    return f"{info.words} {'lost' if info.higher_is_better else 'added'}"


def _section(layers: Sequence[int], spans: Sequence[_Span], info: MetricInfo) -> Section:
    what = spans[0].what
    costs = np.full((len(layers), len(layers)), np.nan)
    for span in spans:
        costs[layers.index(span.first), layers.index(span.last)] = info.scale * span.cost.difference
    caption = (
        f"{_lost(info).capitalize()}{f' ({info.unit})' if info.unit else ''} with {_off(what)} in the layers from the "
        "row's to the column's. On the diagonal: single layers."
    )
    return Section(
        title="The whole method" if what == METHOD else f"Attribute {what}",
        sentences=_sentences(layers, spans, info),
        figures=[Figure(svg=span_plot(costs, names=[str(layer) for layer in layers]), caption=caption)],
        notes=["95 % intervals of the paired bootstrap over rows. Nothing was trained again."],
    )


def _off(what: str) -> str:
    return "the method switched off" if what == METHOD else f"{what} hidden"


def _sentences(layers: Sequence[int], spans: Sequence[_Span], info: MetricInfo) -> list[str]:
    by_ends, half, what = {span.ends: span for span in spans}, len(layers) // 2, spans[0].what
    whole = by_ends[layers[0], layers[-1]]
    sentences = [f"With {_off(what)} in all layers, {_words(whole.cost, info)}."]
    if half:
        lower, upper = by_ends[layers[0], layers[half - 1]], by_ends[layers[half], layers[-1]]
        sentences += [
            f"In the {name} half ({span.words}), {_words(span.cost, info)}."
            for name, span in (("lower", lower), ("upper", upper))
        ]
    most = max((span for span in spans if span.first == span.last), key=lambda span: span.cost.difference)
    if most.cost.shows_difference and most.cost.difference > 0:
        return [*sentences, f"The single layer that matters most is {most.words}: {_words(most.cost, info)}."]
    return [*sentences, "No single layer is shown to matter."]


def _words(cost: PairedResult, info: MetricInfo) -> str:
    """Say how the metric changes, such as `accuracy falls by 19.2 points [10.0, 27.5]`."""
    unit, is_worse = " points" if info.is_share else "", cost.difference > 0
    if not cost.shows_difference:
        change = _reversed(cost) if info.higher_is_better else cost
        return f"no difference is shown: {info.words} {format_difference(info.name, change, unit='points')}"
    verb = "falls" if is_worse == info.higher_is_better else "rises"
    ends = (cost.difference, cost.low, cost.high) if is_worse else (-cost.difference, -cost.high, -cost.low)
    value, low, high = (format_value(info.name, end) for end in ends)
    return f"{info.words} {verb} by {value}{unit} [{low}, {high}]"


def _reversed(pair: PairedResult) -> PairedResult:
    return replace(pair, difference=-pair.difference, low=-pair.high, high=-pair.low)

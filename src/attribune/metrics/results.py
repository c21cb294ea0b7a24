"""Metrics of models with their intervals, and the paired comparison of the first model with the others."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Literal

import numpy as np

from attribune.core.arrays import Array, IntArray
from attribune.metrics.bootstrap import Interval, PairedResult, interval, paired
from attribune.metrics.metric import Metric

LEAST_ROWS = 20
"""The minimum number of rows in a bin."""
ENOUGH_TO_LEAVE_OUT = 100
"""Scored rows with a value of some attributes, of which fewer do not say that these can be left out."""


def count_ranges(counts: Array, *, bins: int = 10) -> list[tuple[int, int]]:
    """Return up to about `bins` ranges of counts (n,), ends included, with similar numbers of rows and at least twenty.

    Rows with count 0 have a range of their own if there are enough of them.
    """
    levels, frequencies = np.unique(counts, return_counts=True)
    wanted_rows = max(LEAST_ROWS, len(counts) / bins)
    ranges: list[tuple[int, int]] = []
    start, rows = 0, 0
    for index, (level, frequency) in enumerate(zip(levels.tolist(), frequencies.tolist(), strict=True)):
        rows += frequency
        zeros_alone = level == 0 and frequency >= LEAST_ROWS
        if rows >= wanted_rows or zeros_alone:
            ranges.append((int(levels[start]), int(level)))
            start, rows = index + 1, 0
    if rows and ranges and rows < LEAST_ROWS:
        ranges[-1] = (ranges[-1][0], int(levels[-1]))
    elif rows:
        ranges.append((int(levels[start]), int(levels[-1])))
    return ranges


def range_name(low: int, high: int) -> str:
    """Return the name of a range of counts: ``3`` or ``1-20``."""
    return f"{low:,}" if low == high else f"{low:,}-{high:,}"


AttributeUse = Literal["given", "hidden", "shuffled", "shuffled_hidden"]
"""The attributes that a model read: those of the row (if it reads any); none, though it was trained with them; those of
another row in training and scoring; or none after training with those of other rows."""


def condition_of(*, shuffled: bool, hidden: bool) -> AttributeUse:
    """Return the condition of a model whose attributes were shuffled, or hidden when it was scored."""
    if shuffled:
        return "shuffled_hidden" if hidden else "shuffled"
    return "hidden" if hidden else "given"


@dataclass(frozen=True, kw_only=True)
class HiddenEffect:
    """What some attributes change: the metrics of a model as given less those of the same rows without the attributes.

    Args:
        attributes: their names.
        pairs: by metric, the one that decides first.
        rows: how many were scored.
        with_value: in how many of them a value was hidden that the model knows.
        hurting: attributes that are hidden on both sides.
    """

    attributes: tuple[str, ...]
    pairs: Mapping[str, PairedResult]
    rows: int
    with_value: int
    hurting: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class HiddenAttributes:
    """The effects of the attributes of a model.

    Args:
        alone: of each attribute.
        together: of those of which none shows a gain alone; None where nothing is to be asked of them.
    """

    alone: Sequence[HiddenEffect] = ()
    together: HiddenEffect | None = None


@dataclass(frozen=True, kw_only=True)
class Scored:
    """A model, or the majority class, with its metrics by part (``validation``, ``test``) and name.

    Args:
        metrics: over rows.
        judgements: over texts that several people judged.
        counts: by part and attribute, the training rows with the value of each row (n,).
        proper: by part, the proper score of the task; empty where there is none.
        hidden: what the attributes change, for the verdict.
        uncalibrated: by part, the proper score of the logits before they were divided by a temperature; empty where
            they were not.
    """

    name: str
    condition: AttributeUse = "given"
    metrics: Mapping[str, Mapping[str, Metric]]
    judgements: Mapping[str, Mapping[str, Metric]] = field(default_factory=dict)
    counts: Mapping[str, Mapping[str, IntArray]] = field(default_factory=dict)
    proper: Mapping[str, Metric] = field(default_factory=dict)
    hidden: HiddenAttributes = HiddenAttributes()
    uncalibrated: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class ResultRow:
    """One line of a table of results: a model or a baseline, and its metrics by name."""

    name: str
    metrics: Mapping[str, Interval]


@dataclass(frozen=True, kw_only=True)
class _Compared:
    a: str
    b: str
    part: str
    metric: str


@dataclass(frozen=True, kw_only=True)
class Comparison(PairedResult, _Compared):
    """Two models by name, and the difference a - b of one metric on the rows of one part.

    The part is empty for rows of another table.
    """


def intervals(metrics: Mapping[str, Metric]) -> dict[str, Interval]:
    """Return each metric with its 95 % interval."""
    return {name: interval(metric) for name, metric in metrics.items()}


def compare(models: Sequence[Scored], *, metric: str, part: str) -> list[Comparison]:
    """Compare the first model with each of the others, by one metric, with the paired bootstrap."""
    first, *others = models
    return [
        compare_metrics(
            first.metrics[part][metric], other.metrics[part][metric], names=(first.name, other.name), part=part
        )
        for other in others
    ]


def compare_metrics(a: Metric, b: Metric, *, names: tuple[str, str], part: str) -> Comparison:
    """Compare the same metric of two models on the rows of one part with the paired bootstrap."""
    return Comparison(a=names[0], b=names[1], part=part, metric=a.name, **asdict(paired(a, b)))

"""All sets of a benchmark together: means of scores, differences, parameters for all tasks, and trade-offs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from attribune.metrics.bootstrap import PairedResult, paired_mean
from attribune.metrics.definitions import metric_info
from attribune_lab.benchmark.experiment import Experiment
from attribune_lab.benchmark.tables import Line, SetTable

__all__ = ["Overall", "OverallLine", "Point", "overall_table", "trade_off"]

_PERCENTILES = (20, 50, 80)


@dataclass(frozen=True, kw_only=True)
class OverallLine:
    """One setting, or one choice of settings, on all sets.

    Args:
        mean: of the main metrics.
        against: the mean difference to the reference; None for the reference itself.
        trained: parameters trained for a set, over those of the pretrained model, on average.
        total: parameters of the models for all sets together, over those of one pretrained model.
    """

    name: str
    mean: float
    against: PairedResult | None = None
    trained: float | None = None
    total: float | None = None


@dataclass(frozen=True, kw_only=True)
class Overall:
    """All settings that have been trained on every set whose main metric is a share or a correlation.

    Args:
        sets: names of these sets.
        reference: name of the setting that others are compared with.
        omitted: sets with another metric, of which no mean can be taken.
    """

    sets: tuple[str, ...]
    reference: str
    lines: tuple[OverallLine, ...]
    omitted: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Point:
    """A setting of a series: percentiles over the sets of its difference to the reference.

    Args:
        at: place on the axis.
        low: the 20th percentile.
        high: the 80th percentile.
    """

    at: float
    low: float
    median: float
    high: float


def overall_table(tables: Sequence[SetTable], *, part: str = "test") -> Overall | None:
    """Return the table of all sets; None for fewer than two of which a mean can be taken.

    The parameters for all tasks are counted as by Houlsby et al. 2019 (tables 1 and 2): one pretrained model, and for
    each task what was trained; without the pretrained model where all of it was trained for every task.
    """
    scored = [table for table in tables if metric_info(table.metric).is_score]
    if len(scored) < 2:
        return None
    by_name = [{line.name: line for line in table.lines} for table in scored]
    names = [name for name in by_name[0] if all(name in lines for lines in by_name)]
    reference = scored[0].reference
    return Overall(
        sets=tuple(table.plan.name for table in scored),
        reference=reference,
        lines=tuple(
            _overall_line(
                scored,
                [lines[name] for lines in by_name],
                [lines.get(reference) for lines in by_name] if name != reference else [],
                part=part,
            )
            for name in names
        ),
        omitted=tuple(table.plan.name for table in tables if table not in scored),
    )


def _overall_line(
    tables: Sequence[SetTable], lines: Sequence[Line], references: Sequence[Line | None], *, part: str
) -> OverallLine:
    shares = [_share(table, line) for table, line in zip(tables, lines, strict=True)]
    known = [share for share in shares if share is not None]
    is_known = len(known) == len(lines)
    return OverallLine(
        name=lines[0].name,
        mean=float(np.mean([line.metrics[table.metric].value for table, line in zip(tables, lines, strict=True)])),
        against=_against(tables, lines, references, part),
        trained=float(np.mean(known)) if is_known else None,
        total=sum(known) + (0 if min(known) >= 1 else 1) if is_known else None,
    )


def _share(table: SetTable, line: Line) -> float | None:
    """Return trained over pretrained parameters, not counting more than all; None for a baseline without a backbone."""
    # The smallest model is the pretrained one with a head.
    totals = [one.cost["total"] or 0.0 for one in table.lines if one.cost["of_encoder"] is not None]
    return None if line.cost["of_encoder"] is None else min(1.0, (line.cost["trained"] or 0.0) / min(totals))


def _against(
    tables: Sequence[SetTable], lines: Sequence[Line], references: Sequence[Line | None], part: str
) -> PairedResult | None:
    """Compare with the reference on the folds that both have; None unless there are some on every set."""
    pairs = []
    for table, line, other in zip(tables, lines, references, strict=False):
        folds = [fold for fold in line.folds if other is not None and fold in other.folds]
        if other is not None and folds:
            ours, theirs = (one.group.on(folds).metrics(part)[table.metric] for one in (line, other))
            pairs.append((ours, theirs))
    return paired_mean(pairs) if len(pairs) == len(tables) else None


def trade_off(experiment: Experiment, tables: Sequence[SetTable]) -> dict[str, list[Point]]:
    """Return the points of each series, in order: differences to the reference on the sets that have both.

    Houlsby et al. 2019 draw figures 1, 3 and 4 this way, with the trained parameters on the axis.
    """
    series: dict[str, list[Point]] = {}
    for setting in experiment.settings:
        gaps, places = [], []
        for table in tables:
            lines = {line.name: line for line in table.lines}
            if setting.series is None or not {setting.name, table.reference} <= lines.keys():
                continue
            line, other = lines[setting.name], lines[table.reference]
            gap = line.metrics[table.metric].value - other.metrics[table.metric].value
            gaps.append(gap if line.higher_is_better else -gap)
            places.append(setting.at if setting.at is not None else line.cost["trained"] or 0.0)
        if gaps and setting.series is not None:
            low, median, high = map(float, np.percentile(gaps, _PERCENTILES))
            point = Point(at=float(np.mean(places)), low=low, median=median, high=high)
            series.setdefault(setting.series, []).append(point)
    return {name: sorted(points, key=lambda point: point.at) for name, points in series.items()}

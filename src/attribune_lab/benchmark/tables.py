"""Tables of a benchmark, from its result files alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations
from typing import Annotated

import numpy as np
from pydantic import Field

from attribune.metrics.bootstrap import Interval, PairedResult
from attribune_lab.benchmark.experiment import Choice, Experiment, SelectBy, SetPlan
from attribune_lab.benchmark.results import BenchmarkFolder, Group

__all__ = ["LOSS", "Line", "SetTable", "benchmark_tables", "verdict"]

LOSS = "log_loss"


@dataclass(frozen=True, kw_only=True)
class Line:
    """One setting on one set.

    Args:
        name: of the setting.
        folds: its folds or seeds.
        rows: number of scored rows.
        clusters: kinds of clusters that are drawn for intervals; none for rows.
        higher_is_better: of the main metric.
        against: the difference to the reference on the common folds; None for the reference itself.
        loss: the same for the log loss, if there is one.
        hidden: the main metric with the attributes hidden, averaged over the folds; None without attributes.
        moved: if the set takes its attribute parameters from another set, the difference to the same setting that
            learned them here, and that setting's main metric.
        cost: learning rate factor, trained and all parameters, seconds per pass, memory.
        chosen: for a choice, the setting that was best on the validation rows.
        group: its cells; empty if the line was read from a record.
    """

    name: str
    folds: tuple[int, ...]
    rows: int
    clusters: tuple[str, ...] = ()
    higher_is_better: bool = True
    metrics: dict[str, Interval]
    against: PairedResult | None = None
    loss: PairedResult | None = None
    hidden: float | None = None
    moved: tuple[PairedResult, float] | None = None
    cost: dict[str, float | None]
    chosen: str | None = None
    group: Annotated[Group, Field(exclude=True)] = field(default=Group(()), compare=False, repr=False)

    @property
    def label(self) -> str:
        """The name, for a choice with the setting that it is."""
        return self.name if self.chosen is None else f"{self.name} ({self.chosen})"

    @property
    def _verdict(self) -> int:
        return 0 if self.against is None else verdict(self.against, higher_is_better=self.higher_is_better)

    @property
    def worse(self) -> bool:
        """Whether it is significantly worse than the reference."""
        return self._verdict < 0

    @property
    def better(self) -> bool:
        """Whether it is significantly better than the reference."""
        return self._verdict > 0


@dataclass(frozen=True, kw_only=True)
class SetTable:
    """All settings on one set.

    Args:
        metric: the main metric.
        lines: in the order of the experiment.
        reference: name of the setting that others are compared with.
        part: whose rows are scored.
        best: names of the settings than which no other is significantly better.
        leaders: the best and the second-best setting, and their difference; None without two settings with all folds.
        missing: settings without a cell that is done.
    """

    plan: SetPlan
    metric: str
    lines: tuple[Line, ...]
    reference: str
    part: str
    best: tuple[str, ...]
    leaders: tuple[str, str, PairedResult] | None
    missing: tuple[str, ...]


def verdict(pair: PairedResult, *, higher_is_better: bool) -> int:
    """Return 1 if the first of a pair is significantly better, -1 if it is significantly worse, else 0."""
    sign = ((pair.difference > 0) - (pair.difference < 0)) if pair.shows_difference else 0
    return sign if higher_is_better else -sign


def benchmark_tables(folder: BenchmarkFolder, *, part: str = "test", reference: str | None = None) -> list[SetTable]:
    """Return the tables of all sets with a cell that is done.

    Args:
        part: ``test`` or ``validation``, whose rows are scored.
        reference: the setting that others are compared with, if not that of the experiment.

    Raises:
        ModelFolderError: for a folder that holds no benchmark.
        ConfigError: if there is no such setting.
    """
    experiment = folder.experiment().compared_with(reference)
    return [table for plan in experiment.sets if (table := _table(folder, experiment, plan, part)) is not None]


def _table(folder: BenchmarkFolder, experiment: Experiment, plan: SetPlan, part: str) -> SetTable | None:
    groups = _groups(folder, experiment, plan)
    if not groups:
        return None
    direct = _direct(experiment, plan)
    learned_here = {} if direct is None else _groups(folder, experiment, direct)
    metric = next(iter(groups.values())).main_metric
    reference = groups.get(experiment.first)
    lines = []
    for setting in experiment.settings:
        if setting.name not in groups:
            continue
        group = groups[setting.name]
        pairs = {} if reference is None or group is reference else group.against(reference, part=part)
        lines.append(
            Line(
                name=setting.name,
                group=group,
                folds=group.folds,
                metrics=group.intervals(part),
                against=pairs.get(metric),
                loss=pairs.get(LOSS),
                hidden=_hidden(group, metric, part),
                cost=_cost(group),
                moved=_moved(group, learned_here.get(setting.name), metric, part),
                rows=group.row_count(part),
                clusters=group.cluster_names(part),
                higher_is_better=group.metrics(part)[metric].higher_is_better,
            )
        )
    by_name = {line.name: line for line in lines}
    choices = [
        replace(by_name[chosen], name=choice.name, chosen=chosen)
        for choice in experiment.choices
        if (chosen := _chosen(choice, groups, experiment.select_by)) is not None
    ]
    return SetTable(
        plan=plan,
        metric=metric,
        lines=(*lines, *choices),
        reference=experiment.first,
        part=part,
        best=_unbeaten(lines, metric, part),
        leaders=_leaders(lines, metric, part),
        missing=tuple(setting.name for setting in experiment.settings if setting.name not in groups),
    )


def _chosen(choice: Choice, groups: Mapping[str, Group], by: SelectBy) -> str | None:
    """Return the setting that is best on the validation rows; None until all have been trained."""
    if not all(name in groups for name in choice.of):
        return None
    scores = {name: groups[name].validation_score(by) for name in choice.of}
    return min(choice.of, key=lambda name: scores[name])


def _groups(folder: BenchmarkFolder, experiment: Experiment, plan: SetPlan) -> dict[str, Group]:
    """Return the finished cells of a set by setting."""
    groups: dict[str, Group] = {}
    for result in folder.results(experiment):
        if result.cell.set.name == plan.name and result.cell.factor is None:
            name = result.cell.setting.name
            groups[name] = Group((*groups[name].results, result)) if name in groups else Group((result,))
    return groups


def _direct(experiment: Experiment, plan: SetPlan) -> SetPlan | None:
    """Return the set with the same rows and labels that learns its own attribute parameters."""
    if plan.attributes_from is None:
        return None
    same = plan.model_dump(include={"name", "title", "folds", "attributes_from"})
    others = (other for other in experiment.sets if other.attributes_from is None)
    return next((other for other in others if other.model_copy(update=same) == plan), None)


def _moved(group: Group, learned_here: Group | None, metric: str, part: str) -> tuple[PairedResult, float] | None:
    if learned_here is None:
        return None
    pair = group.against(learned_here, part=part, only=metric).get(metric)
    return None if pair is None else (pair, learned_here.on(group.folds).metrics(part)[metric].value())


def _complete(lines: Sequence[Line]) -> list[Line]:
    """Return the lines with the largest number of folds."""
    fold_count = max(len(line.folds) for line in lines)
    return [line for line in lines if len(line.folds) == fold_count]


def _leaders(lines: Sequence[Line], metric: str, part: str) -> tuple[str, str, PairedResult] | None:
    ordered = sorted(_complete(lines), key=lambda line: line.metrics[metric].value, reverse=lines[0].higher_is_better)
    if len(ordered) < 2:
        return None
    pair = ordered[0].group.against(ordered[1].group, part=part, only=metric).get(metric)
    return None if pair is None else (ordered[0].name, ordered[1].name, pair)


def _unbeaten(lines: Sequence[Line], metric: str, part: str) -> tuple[str, ...]:
    """Return the complete settings than which no other is significantly better."""
    complete = _complete(lines)
    beaten = set()
    for line, other in combinations(complete, 2):
        pair = line.group.against(other.group, part=part, only=metric).get(metric)
        sign = 0 if pair is None else verdict(pair, higher_is_better=line.higher_is_better)
        if sign:
            beaten.add(other.name if sign > 0 else line.name)
    return tuple(line.name for line in complete if line.name not in beaten)


def _hidden(group: Group, metric: str, part: str) -> float | None:
    values = [
        model.parts[part][metric].value
        for result in group.results
        for model in result.metrics.models
        if model.attributes_hidden and part in model.parts
    ]
    return float(np.mean(values)) if values else None


def _cost(group: Group) -> dict[str, float | None]:
    training = [result.metrics.training for result in group.results]
    sizes = training[0].parameters
    passes = [record.seconds / record.epochs for record in training if record.epochs]
    peaks = [peak for result in group.results if (peak := result.record.peak_mb) is not None]
    return {
        "factor": group.results[0].record.factor,
        "trained": float(sizes.trained),
        "total": float(sizes.total),
        "share": sizes.trained / sizes.total,
        "of_encoder": sizes.injected / sizes.encoder if sizes.encoder else None,
        "seconds": float(np.mean([record.seconds for record in training])),
        "seconds_per_pass": float(np.mean(passes)) if passes else None,
        "peak_mb": max(peaks) if peaks else None,
    }

"""Tables of a benchmark, of each set and of all sets together, and their record in one small file.

They are made of the result files alone; the record is without the scores of rows.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
from pydantic import ConfigDict, Field

from attribune.core.config import Settings
from attribune.core.files import replace_file
from attribune.errors import ConfigError
from attribune.metrics.bootstrap import Interval, PairedResult, paired_mean
from attribune.metrics.metric import metric_info
from attribune_lab.benchmark.experiment import Choice, Experiment, SelectBy, SetPlan
from attribune_lab.benchmark.results import BenchmarkFolder, Group

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

    @property
    def by_name(self) -> dict[str, Line]:
        """The lines by their names."""
        return {line.name: line for line in self.lines}


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

    def line_of(name: str, group: Group) -> Line:
        pairs = {} if reference is None or group is reference else group.against(reference, part=part)
        return Line(
            name=name,
            group=group,
            folds=group.folds,
            metrics=group.intervals(part),
            against=pairs.get(metric),
            loss=pairs.get(LOSS),
            hidden=_hidden(group, metric, part),
            cost=_cost(group),
            moved=_moved(group, learned_here.get(name), metric, part),
            rows=group.row_count(part),
            clusters=group.cluster_names(part),
            higher_is_better=group.metrics(part)[metric].higher_is_better,
        )

    by_name = {one.name: line_of(one.name, groups[one.name]) for one in experiment.settings if one.name in groups}
    lines, choices = list(by_name.values()), []
    for choice in experiment.choices:
        if (chosen := _chosen(choice, groups, experiment.select_by)) is None:
            continue
        line = by_name[chosen]
        if choice.best_fold:
            line = line_of(chosen, groups[chosen].best_fold(experiment.select_by))
        choices.append(replace(line, name=choice.name, chosen=chosen))
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
    candidates = {name: groups[name].best_fold(by) if choice.best_fold else groups[name] for name in choice.of}
    scores = {name: group.validation_score(by) for name, group in candidates.items()}
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
    by_name = [table.by_name for table in scored]
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
            lines = table.by_name
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


_WIDTH = 120


class Training(Settings):
    """One training of a benchmark.

    Args:
        cell: path of set, setting and fold, as in the folder.
        learning_rate: None for a baseline, as is `backbone_learning_rate`.
        seconds: including reading and scoring.
        peak_mb: peak of the resident memory, if known.
        finished: time in UTC.
    """

    cell: str
    learning_rate: float | None = None
    backbone_learning_rate: float | None = None
    seconds: float
    peak_mb: float | None = None
    finished: str


class Summary(Settings):
    """A benchmark as its tables show it.

    Args:
        part: whose rows are scored.
        tables: one for each set with a cell that is done.
        trainings: of all cells that are done, trials included.
        overall: the table of all sets, if there are several.
        environments: their distinct machines and versions.
    """

    what: ClassVar[str] = "the record of a benchmark"
    model_config = ConfigDict(allow_inf_nan=True)  # a metric may be undefined on some rows

    experiment: Experiment
    part: Literal["test", "validation"]
    tables: tuple[SetTable, ...]
    trainings: tuple[Training, ...]
    environments: tuple[dict[str, Any], ...]
    overall: Overall | None = None

    @classmethod
    def read(cls, path: str | Path) -> Summary:
        """Read the file that `write` wrote; ConfigError for another file."""
        try:
            tree = json.loads(Path(path).read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise ConfigError(
                f"{path} is not {cls.what} ({error}): give a file that `attribune benchmark table` wrote as "
                "JSON, or the folder of a benchmark"
            ) from error
        return cls.from_dict(tree, source=str(path))

    def write(self, path: str | Path) -> None:
        """Write one JSON file."""
        tree = self.model_dump(mode="json", exclude_defaults=True)
        replace_file(Path(path), f"{readable_json(tree)}\n".encode())


def summarize(
    folder: BenchmarkFolder, *, part: Literal["test", "validation"] = "test", reference: str | None = None
) -> Summary:
    """Make the record of a folder, of the tables that `benchmark_tables` makes; it raises what that raises."""
    experiment = folder.experiment().compared_with(reference)
    trainings, environments = [], []
    for result in folder.results(experiment):
        known = {name: getattr(result.record, name) for name in Training.model_fields if name != "cell"}
        trainings.append(Training(cell=result.cell.path, **known))
        environment = result.record.environment
        if environment is not None and environment not in environments:
            environments.append(environment)
    tables = tuple(benchmark_tables(folder, part=part, reference=reference))
    return Summary(
        experiment=experiment,
        part=part,
        tables=tables,
        overall=overall_table(tables, part=part),
        trainings=tuple(trainings),
        environments=tuple(environments),
    )


def readable_json(tree: Any, indent: int = 0) -> str:
    """Return JSON in which every object and list that fits on a line has one line."""
    flat = json.dumps(tree, ensure_ascii=False)
    if indent + len(flat) < _WIDTH or not isinstance(tree, dict | list):
        return flat
    if isinstance(tree, dict):
        parts = [f"{json.dumps(key, ensure_ascii=False)}: {readable_json(tree[key], indent + 1)}" for key in tree]
        first, last = "{}"
    else:
        parts = [readable_json(one, indent + 1) for one in tree]
        first, last = "[]"
    pad = "\n" + " " * (indent + 1)
    return f"{first}{pad}{f',{pad}'.join(parts)}\n{' ' * indent}{last}"

"""Evaluation of a finished run: on a new table, and against another run on the same rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Unpack

import numpy as np
import numpy.typing as npt

from attribune.core.arguments import checked_arguments
from attribune.core.door import as_call
from attribune.core.wording import counted
from attribune.data.clusters import clustered, judgement_metrics, unpacked_clusters
from attribune.data.file_options import Reading
from attribune.data.tables import with_reading
from attribune.errors import DataError, numbered_in_file
from attribune.findings import Finding
from attribune.metrics.bootstrap import Interval
from attribune.metrics.metric import Metric
from attribune.metrics.results import Comparison, HiddenAttributes, ResultRow, compare_metrics, intervals
from attribune.metrics.tables import Comparisons, comparison_lines, html_blocks, table_cells, text_table
from attribune.models.predictor import Predictor, Quantisation
from attribune.models.table_scores import TableScores
from attribune.runs.attribute_gains import AttributesTogether, attribute_gains, gains_by_count, value_counts
from attribune.runs.folder import RunFolder
from attribune.runs.hidden_attributes import hidden_attributes, judged_metrics
from attribune.runs.labelled import LabelledRows
from attribune.runs.loading import load_run
from attribune.runs.recipe import Recipe
from attribune.runs.stored_scores import LOGITS, NETWORK_LOGITS, StoredScores, network_logits, own_table
from attribune.runs.training_record import TrainingRecord
from attribune.runs.verdict import NOT_BLENDED, Verdict, run_verdict
from attribune.tasks import Task
from attribune.tasks.base import scored_metrics

AS_GIVEN, HIDDEN = "as given", "attributes hidden"
"""The two ways in which rows are scored."""
_PARTS = ("test", "validation")  # by preference, those on which two runs are compared


@dataclass(frozen=True, kw_only=True, repr=False)
class Evaluation:
    """The scores of a run on the labelled rows of a table.

    Args:
        labelled: the rows with a text and a label.
        logits: (n, outputs).
        hidden: (n, outputs), with every attribute hidden; None for a model that reads none.
    """

    recipe: Recipe
    training: TrainingRecord
    predictor: Predictor
    labelled: LabelledRows
    logits: npt.NDArray[np.float32]
    hidden: npt.NDArray[np.float32] | None
    notes: list[str]

    @property
    def rows(self) -> int:
        """Number of rows with a text and a label."""
        return len(self.labelled.labels)

    @property
    def trained(self) -> int:
        """Number of rows whose text is among the training texts of the run, where these could be read."""
        return self.labelled.trained

    @cached_property
    def scores(self) -> dict[str, dict[str, Metric]]:
        """``as given`` and, for models that read attributes, ``attributes hidden``, to metric by name."""
        task, labelled = self.predictor.task, self.labelled
        return {
            name: clustered(scored_metrics(task, logits, labelled.labels), labelled.clusters)
            for name, logits in self._logits.items()
        }

    @property
    def _logits(self) -> dict[str, npt.NDArray[np.float32]]:
        return {AS_GIVEN: self.logits} | ({} if self.hidden is None else {HIDDEN: self.hidden})

    @cached_property
    def judgements(self) -> dict[str, dict[str, Interval]]:
        """The same of metrics over the texts that several people judged; empty without any."""
        task, labelled = self.predictor.task, self.labelled
        found = {
            name: judgement_metrics(task, logits, labelled.labels, labelled.clusters)
            for name, logits in self._logits.items()
        }
        return {name: intervals(metrics) for name, metrics in found.items() if metrics}

    @cached_property
    def metrics(self) -> dict[str, dict[str, Interval]]:
        """The same with their intervals."""
        return {name: intervals(metrics) for name, metrics in self.scores.items()}

    @cached_property
    def comparisons(self) -> list[Comparison]:
        """The difference that the attributes make to the main metric; empty for a model that reads none."""
        pairs = [scores[self.predictor.task.main_metric] for scores in self.scores.values()]
        return [compare_metrics(*pairs, names=(AS_GIVEN, HIDDEN), part="")] if len(pairs) > 1 else []

    @cached_property
    def verdict(self) -> Verdict:
        """What the rows show of the attributes, and which weights the run kept."""
        metric, by_count, proper = self.predictor.task.main_metric, [], self._proper()
        effects = HiddenAttributes()
        comparisons = self.comparisons if self.labelled.silence is None else []
        if comparisons:
            counts = value_counts(self.predictor.schema, self.labelled.rows)
            by_count = gains_by_count(self.scores[AS_GIVEN][metric], self.scores[HIDDEN][metric], counts)
            labelled = self.labelled
            scores = TableScores(self.predictor, labelled.rows)
            effects = hidden_attributes(scores, labelled.labels, labelled.clusters, self.logits)
        return run_verdict(
            self.recipe,
            self.training,
            metric=metric,
            comparisons=comparisons,
            conditions={HIDDEN: "hidden"},
            proper=proper,
            by_attribute=attribute_gains(effects.alone),
            together=AttributesTogether.of(effects.together),
            by_count=by_count,
        )

    @property
    def findings(self) -> list[Finding]:
        """The sentences of the verdict as data."""
        return self.verdict.findings()

    def _proper(self) -> list[Comparison]:
        """The difference that the attributes make to the proper score of the task, if it has one."""
        task, labelled = self.predictor.task, self.labelled
        judged = [
            judged_metrics(task, logits, labelled.labels, labelled.clusters)[0] for logits in self._logits.values()
        ]
        if len(judged) < 2 or judged[0].name == task.main_metric:
            return []
        return [compare_metrics(judged[0], judged[1], names=(AS_GIVEN, HIDDEN), part="")]

    def text(self) -> str:
        """Return the tables of the metrics, the difference and the verdict, for a terminal."""
        tables = [f"{caption}\n{text_table(rows)}" for caption, rows in self._tables()]
        lines = ["\n".join(comparison_lines(self.comparisons)), self.verdict.text()]
        return "\n\n".join([*tables, *filter(None, lines)])

    def __repr__(self) -> str:
        return "\n\n".join(filter(None, ["\n".join(self.notes), self.text()]))

    def _repr_html_(self) -> str:
        lines = [*self.notes, *comparison_lines(self.comparisons), *self.verdict.sentences()]
        tables = [(caption, table_cells(rows)) for caption, rows in self._tables()]
        return html_blocks([*tables, *((line, []) for line in lines)])

    def _tables(self) -> list[tuple[str, list[ResultRow]]]:
        note = self.predictor.task.metrics_note
        rows = f"{counted(self.rows, 'row')}{note and f' ({note})'}"
        tables = [(rows, self.metrics), ("texts with several judgements", self.judgements)]
        return [
            (caption, [ResultRow(name=name, metrics=metrics) for name, metrics in found.items()])
            for caption, found in tables
            if found
        ]


@checked_arguments
def evaluate(
    run: str | Path,
    data: Any = None,
    *,
    backbone: str | Path | None = None,
    quantise: Quantisation | None = None,
    **reading: Unpack[Reading],
) -> Evaluation:
    """Score a run on labelled rows, with their attributes and with all of them hidden.

    Args:
        data: labelled rows, anything `read_table` takes; None for the run's own test rows.
        backbone: new location of the backbone's weights, if they were moved.
        quantise: ``int8`` computes in int8, on CPUs; see `attribune.models.predictor.quantised`.
        **reading: how files are read, as in `read_table`.

    Raises:
        AttribuneError: naming file, row or column and the cure.
    """
    data = with_reading(data, reading)
    recipe, predictor = load_run(run, backbone=backbone, quantise=quantise)
    labelled = LabelledRows.to_score(run, recipe, predictor, data)
    with numbered_in_file(labelled.numbers, labelled.source):
        logits, report = predictor.logits(labelled.rows)
    reads = len(predictor.schema) and recipe.learner.reads_attributes
    found = Evaluation(
        recipe=recipe,
        training=RunFolder.of(run).read_outcome(predictor.model.sizes()),
        predictor=predictor,
        labelled=labelled,
        logits=logits,
        hidden=predictor.logits(labelled.rows, hide_attributes=True)[0] if reads else None,
        notes=[*labelled.notes, *report.lines()],
    )
    if reads and labelled.silence is not None:
        found.notes.append(f"the verdict says nothing of the attributes, since {labelled.silence}")
    return found


@checked_arguments
def compare_runs(first: str | Path, second: str | Path) -> Comparisons:
    """Compare two finished runs on the rows that both scored, by every metric, with the paired bootstrap.

    Returns:
        One record per metric, printed as a table: difference (first minus second), 95 % interval and two-sided p-value;
        and one without the simple models beside the networks, where there are some.
        ``notes`` says why they were compared on the validation rows, if they were.

    Raises:
        DataError: when the runs have no part with the same rows and labels.
    """
    pairs, notes = compare_scores(first, second)
    return Comparisons(map(asdict, pairs), notes=notes)


def compare_scores(first: str | Path, second: str | Path) -> tuple[list[Comparison], list[str]]:
    """Compare two runs as `compare_runs` does, with typed results and the notes."""
    a, b = StoredScores.read(first), StoredScores.read(second)
    names = (str(first), str(second))
    why_not = {part: _difference(names, (a, b), part) for part in _PARTS}
    part = next((part for part, reason in why_not.items() if reason is None), None)
    if part is None:
        recipes = [RunFolder.of(run).read_recipe() for run in names]
        settings = _other_settings(recipes, [a.task, b.task])
        reasons = [*filter(None, why_not.values()), *settings]
        raise DataError(
            f"{first} and {second} were not scored on the same rows ({'; '.join(reasons)}): "
            f"{_cure((a, b), settings)}, or compare them in one training with {as_call('train', compare=...)}"
        )
    earlier = filter(None, [why_not[one] for one in _PARTS[: _PARTS.index(part)]])
    notes = [f"compared on the {part} rows: {reason}" for reason in earlier]
    clusters = max((unpacked_clusters(scores.parts[part]) for scores in (a, b)), key=len)  # one may read no judges
    arrays = [scores.parts[part] for scores in (a, b)]
    versions = [(names, [one[LOGITS] for one in arrays])]
    if any(NETWORK_LOGITS in one for one in arrays):
        ends = [NOT_BLENDED if NETWORK_LOGITS in one else "" for one in arrays]
        versions.append(((names[0] + ends[0], names[1] + ends[1]), list(map(network_logits, arrays))))
    pairs = []
    for named, logits in versions:
        metrics_a, metrics_b = (
            clustered(scored_metrics(scores.task, scored, one["labels"]), clusters)
            for scores, scored, one in zip((a, b), logits, arrays, strict=True)
        )
        pairs += [
            compare_metrics(metric, metrics_b[name], names=named, part=part)
            for name, metric in metrics_a.items()
            if name in metrics_b
        ]
    return pairs, notes


def _difference(names: tuple[str, str], scores: tuple[StoredScores, StoredScores], part: str) -> str | None:
    """Return why a part of two runs cannot be compared; None if it can."""
    a, b = (one.parts.get(part) for one in scores)
    if a is None or b is None:
        lacking = [name for name, one in zip(names, scores, strict=True) if part not in one.parts]
        return f"{' and '.join(lacking)} {'has' if len(lacking) == 1 else 'have'} no {part} rows"
    if np.array_equal(a["rows"], b["rows"]) and np.array_equal(a["labels"], b["labels"]):
        return None
    others = np.setxor1d(a["rows"], b["rows"])
    if len(others):
        count = counted(len(others), f"{part} row is", f"{part} rows are")
        forgotten = _forgetful(scores, part)
        cause = f", since `forget` removed rows of {names[forgotten]}" if forgotten is not None else ""
        return f"{count} in one of them only, such as row {others[0] + 1}{cause}"
    return f"the {part} rows have other labels, or another order"


def _forgetful(scores: tuple[StoredScores, StoredScores], part: str) -> int | None:
    """Return which of two runs has lost rows of a part since its training, if it differs from the other by these."""
    rows = [one.parts[part]["rows"] for one in scores]
    for number, one in enumerate(scores):
        lost = np.setdiff1d(rows[1 - number], rows[number])
        if 0 < len(lost) == len(np.setxor1d(rows[0], rows[1])) and len(rows[number]) + len(lost) == one.scored[part]:
            return number
    return None


def _cure(scores: tuple[StoredScores, StoredScores], settings: Sequence[str]) -> str:
    both = [part for part in _PARTS if all(part in one.parts for one in scores)]
    again = "train both with the same data, task, split and seed"
    if all(_forgetful(scores, part) is None for part in both):
        return again
    same_values = f"remove the same values from both with {as_call('forget')}"
    return f"{again}, and {same_values}" if settings else same_values


def _other_settings(recipes: Sequence[Recipe], tasks: Sequence[Task]) -> list[str]:
    """Return the settings of two runs that decide which rows are scored, and how labels are read, if they differ."""
    settings = [
        {"the task": task.kind}
        | {"the table": " and ".join(dict.fromkeys(own_table(recipe, part) for part in _PARTS))}
        | {"data.label": ", ".join(recipe.data.label), "data.missing": recipe.data.missing}
        | {f"data.split.{name}": value for name, value in recipe.data.split}
        for recipe, task in zip(recipes, tasks, strict=True)
    ]
    first, second = settings
    return [
        f"{name} is {first[name]} in the first, {second[name]} in the second"
        for name in first
        if first[name] != second[name]
    ]

"""The rows that the page of a run is about: its own test rows as they were scored, or those of another table."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from datasets import Dataset

from attribune.analysis.diagnostics import ScoredRows
from attribune.analysis.evaluate import AS_GIVEN, HIDDEN, evaluate
from attribune.data.clusters import unpacked_clusters
from attribune.errors import AttribuneError
from attribune.metrics.results import Comparison, ResultRow
from attribune.runs.attribute_gains import CountGain, gains_by_count, value_counts
from attribune.runs.folder import RunFolder
from attribune.runs.recipe import Recipe
from attribune.runs.stored_scores import StoredScores, own_table
from attribune.runs.training_record import TrainingRecord
from attribune.runs.verdict import Verdict, run_verdict
from attribune.schema import Schema
from attribune.schema.attributes import FittedAttribute, counts_of_rows
from attribune.tasks import Task
from attribune.values.record import schema_of_training


@dataclass(frozen=True, kw_only=True)
class RunRows:
    """A finished run with labelled rows that it scored.

    Args:
        log: losses and metrics during training; empty for a baseline.
        source: what the rows are, as a sentence says it after their number.
        attributes: those whose ids are known for the rows.
        results: metrics of the run and of what it is compared with.
        comparisons: of the run with each of these.
        notes: what could not be read or scored.
        table: the rows themselves; None where they could not be read.
    """

    run: str
    recipe: Recipe
    training: TrainingRecord
    verdict: Verdict
    log: Sequence[dict[str, Any]]
    scored_rows: ScoredRows
    source: str
    attributes: Sequence[FittedAttribute]
    results: Sequence[ResultRow]
    comparisons: Sequence[Comparison]
    notes: list[str]
    table: Dataset | None = None

    @property
    def method(self) -> str:
        """The method by name."""
        return str(self.recipe.method["name"])

    @property
    def backbone(self) -> str | None:
        """The backbone by name; None for a baseline."""
        return self.recipe.learner.tuned_backbone


def rows_of_run(run: str | Path, data: Any = None, *, backbone: str | Path | None = None) -> RunRows:
    """Score the rows of a table, or without one read those that the run scored when it was trained.

    Args:
        data: labelled rows, anything `read_table` takes.
        backbone: new location of the backbone's weights, if they were moved.

    Raises:
        AttribuneError: naming file, row or column and the cure.
    """
    folder = RunFolder.of(run)
    return _stored_rows(folder) if data is None else _new_rows(folder, data, backbone=backbone)


def _stored_rows(folder: RunFolder) -> RunRows:
    recipe, results, scores = folder.read_recipe(), folder.read_results(), StoredScores.read(folder.path)
    part = scores.own_part
    arrays, source = scores.parts[part], own_table(recipe, part)
    # The table does not say which shuffled attributes a row had.
    reads = recipe.learner.reads_attributes and not recipe.data.shuffled
    schema = schema_of_training(folder) if reads else Schema([])
    notes = []
    table = None
    try:
        found = scores.own_rows(recipe)
        labels = arrays["labels"]
        scored_rows = _with_counts(scores.task, arrays["logits"], labels, recipe=recipe, schema=schema, table=found)
        table = found
    except (AttribuneError, OSError, IndexError, KeyError) as error:
        notes.append(f"The rows themselves could not be read, so that their texts and values are missing here: {error}")
        scored_rows = ScoredRows(task=scores.task, logits=arrays["logits"], labels=arrays["labels"], counts={})
    scored_rows = replace(scored_rows, clusters=unpacked_clusters(arrays), hidden=arrays.get("hidden"))
    verdict = run_verdict(
        recipe,
        results.training,
        metric=results.main_metric,
        comparisons=results.comparisons,
        conditions={model.name: model.condition for model in results.models},
        proper=results.proper,
        by_attribute=[] if results.verdict is None else results.verdict.by_attribute,
        together=None if results.verdict is None else results.verdict.together,
        by_count=_gains(scored_rows, schema, table),
        figures={one.name: one.metrics[results.main_metric].value for one in results.table(part)},
    )
    if results.verdict is not None:
        verdict = verdict.model_copy(
            update={"blend": results.verdict.blend, "calibration": results.verdict.calibration}
        )
    return RunRows(
        run=str(folder.path),
        recipe=recipe,
        training=results.training,
        verdict=verdict,
        log=folder.read_log(),
        scored_rows=scored_rows,
        source=f"{part} rows of {source}, as they were scored when it was trained",
        attributes=[] if scored_rows.ids is None else list(schema),
        results=results.table(part),
        comparisons=results.comparisons,
        notes=notes,
        table=table,
    )


def _new_rows(folder: RunFolder, data: Any, *, backbone: str | Path | None) -> RunRows:
    evaluation = evaluate(folder.path, data, backbone=backbone)
    recipe, task, rows = evaluation.recipe, evaluation.predictor.task, evaluation.labelled
    schema = evaluation.predictor.schema if evaluation.hidden is not None else Schema([])
    names = {AS_GIVEN: str(recipe.method["name"]), HIDDEN: HIDDEN}
    scored_rows = _with_counts(task, evaluation.logits, rows.labels, recipe=recipe, schema=schema, table=rows.rows)
    return RunRows(
        run=str(folder.path),
        recipe=recipe,
        training=evaluation.training,
        verdict=evaluation.verdict,
        log=folder.read_log(),
        scored_rows=replace(scored_rows, clusters=rows.clusters, hidden=evaluation.hidden),
        source=f"labelled rows of {rows.source}",
        attributes=list(schema),
        results=[ResultRow(name=names[key], metrics=metrics) for key, metrics in evaluation.metrics.items()],
        comparisons=[replace(pair, a=names[pair.a]) for pair in evaluation.comparisons],
        notes=evaluation.notes,
        table=rows.rows,
    )


def _gains(rows: ScoredRows, schema: Schema, table: Dataset | None) -> list[CountGain]:
    hidden = rows.hidden_metric()
    return [] if hidden is None or table is None else gains_by_count(rows.metric, hidden, value_counts(schema, table))


def _with_counts(
    task: Task, logits: npt.NDArray[Any], labels: npt.NDArray[Any], *, recipe: Recipe, schema: Schema, table: Dataset
) -> ScoredRows:
    """Add the words of each row's text, and for each attribute the training rows with the row's value."""
    texts = task.input.read_texts(recipe.data.text_input(), table)
    counts = {"words": np.array([len(text.split()) for text in texts], dtype=np.int64)}
    ids = schema.encode(table)[0] if len(schema) else None
    if ids is not None:
        counts |= {attribute.name: counts_of_rows(attribute.counts, ids[:, attribute.columns]) for attribute in schema}
    return ScoredRows(task=task, logits=logits, labels=labels, counts=counts, ids=ids)

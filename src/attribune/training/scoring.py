"""Scores on validation and test rows, of a model and of the baselines that are fitted beside it."""

from __future__ import annotations

import io
import logging
import operator
import time
from collections.abc import Mapping, Sequence, Set
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq
from safetensors.numpy import save

from attribune.core.progress import Reporter
from attribune.data.clusters import clustered, judgement_metrics, packed_clusters
from attribune.data.readers.base import MANY_CUT, Reader
from attribune.data.texts import TextInput
from attribune.data.writing import prediction_array
from attribune.errors import DataError
from attribune.metrics.metric import Metric, MetricInfo, metric_info
from attribune.metrics.results import HiddenAttributes, Scored, condition_of
from attribune.models.linear import LinearModel
from attribune.models.predictor import Predictor
from attribune.models.table_scores import TableScores
from attribune.runs.attribute_gains import value_counts
from attribune.runs.folder import RunFolder
from attribune.runs.hidden_attributes import hidden_attributes
from attribune.runs.recipe import TrainingRecipe
from attribune.runs.stored_scores import HIDDEN_LOGITS, LOGITS, NETWORK_LOGITS
from attribune.runs.verdict import MAJORITY, TEXT_ONLY, WHOLE_TEXTS
from attribune.schema import Schema
from attribune.tasks import Task
from attribune.tasks.base import AUTO, LOSS, MAIN_METRIC, scored_metrics, unknown_selection
from attribune.tasks.capabilities import LINEAR, can
from attribune.training.baselines import BASELINE_ROWS, chosen_rows, fit_linear
from attribune.training.plan import DataPlan, TrainingPlan
from attribune.training.preparation import PreparedData, PreparedSplit
from attribune.values.traces import value_marks

__all__ = [
    "check_selection",
    "score",
    "score_baselines",
    "selection_metric",
    "write_predictions",
]


def selection_metric(task: Task, settings: TrainingRecipe) -> MetricInfo:
    """Return the metric of ``training.select_by``: ``loss``, or one that the task computes."""
    named = {AUTO: LOSS if task.codec.has_comparable_loss else task.main_metric, MAIN_METRIC: task.main_metric}
    return metric_info(named.get(settings.select_by, settings.select_by))


def check_selection(settings: TrainingRecipe, data: PreparedData) -> None:
    """Check the metric before anything is trained.

    Raises:
        ConfigError: for one that the task does not compute.
    """
    if settings.select_by in (AUTO, LOSS, MAIN_METRIC):
        return
    computed = data.task.majority(data.splits["train"].labels, data.splits["validation"].labels)
    if settings.select_by not in computed:
        raise unknown_selection(settings.select_by, data.task, computed)


_log = logging.getLogger(__name__)

_LOOKED_AT = 1_000  # validation rows, to see whether texts are cut


def score(
    name: str,
    predictor: Predictor,
    data: PreparedData,
    source: DataPlan,
    *,
    folder: RunFolder | None = None,
    scores: Mapping[str, TableScores] | None = None,
    blend: bool = True,
    also_hidden: bool = False,
    hides_each: bool = True,
) -> list[Scored]:
    """Compute the metrics on validation and test rows, and write the predictions into `folder`, if given.

    Args:
        scores: of the rows of each part, where they are asked for more than once.
        blend: whether the simple models beside a network count, if there are some.
        also_hidden: score the rows a second time with every attribute hidden.
        hides_each: and again with each one, for the verdict.
    """
    scores = scores or {part: TableScores(predictor, split.table) for part, split in data.scored.items()}
    cases = (False, True) if also_hidden else (False,)
    metrics: dict[bool, dict[str, Any]] = {case: {} for case in cases}
    judgements: dict[bool, dict[str, Any]] = {case: {} for case in cases}
    proper: dict[bool, dict[str, Metric]] = {case: {} for case in cases}
    uncalibrated: dict[str, float] = {}
    hidden = HiddenAttributes()
    task, started = predictor.task, time.perf_counter()
    for part, split in data.scored.items():
        logits = {case: scores[part].logits(case, blend=blend) for case in cases}
        for case, found in logits.items():
            metrics[case][part] = clustered(scored_metrics(task, found, split.labels), split.clusters)
            judgements[case][part] = judgement_metrics(task, found, split.labels, split.clusters)
            proper[case] |= _proper(task, found, part, split)
        if (temperature := predictor.model.temperature) is not None and not (blend and predictor.blend):
            raw = task.proper_score(temperature * logits[False], split.labels)
            uncalibrated |= {} if raw is None else {part: raw.value()}
        is_judged = part == list(data.scored)[-1] and not source.source.shuffled  # test rows, if there are any
        if also_hidden and hides_each and is_judged:
            hidden = hidden_attributes(scores[part], split.labels, split.clusters, logits[False])
        if folder is not None:
            stored = {name: logits[case] for name, case in ((LOGITS, False), (HIDDEN_LOGITS, True)) if case in logits}
            if blend and predictor.blend is not None:
                stored[NETWORK_LOGITS] = scores[part].logits(blend=False)
            write_predictions(folder, part, split, stored, task=task, schema=data.schema, columns=source.true_columns)
    counted = data.scored.items() if also_hidden else ()
    _log.info("%s: validation and test rows scored in %.1f s", name, time.perf_counter() - started)
    return [
        Scored(
            name=f"{name}, attributes hidden" if case else name,
            condition=condition_of(shuffled=source.source.shuffled, hidden=case),
            metrics=metrics[case],
            judgements=judgements[case],
            counts={part: value_counts(data.schema, split.table) for part, split in counted},
            proper=proper[case],
            hidden=HiddenAttributes() if case else hidden,
            uncalibrated={} if case else uncalibrated,
        )
        for case in cases
    ]


def _proper(task: Task, logits: npt.NDArray[Any], part: str, split: PreparedSplit) -> dict[str, Metric]:
    """Return the proper score of the rows of a part, if the task has one."""
    found = task.proper_score(logits, split.labels)
    return {} if found is None else {part: clustered({found.name: found}, split.clusters)[found.name]}


def write_predictions(
    folder: RunFolder,
    part: str,
    split: PreparedSplit,
    logits: Mapping[str, npt.NDArray[Any]],
    *,
    task: Task,
    schema: Schema,
    columns: Sequence[str],
) -> None:
    """Write the predictions of a part, and the logits by the names that `StoredScores` has for them."""
    sink = io.BytesIO()
    predicted = {name: prediction_array(value) for name, value in task.decode(logits[LOGITS]).columns().items()}
    true = {f"true_{column}": list(split.table[column]) for column in columns}
    pq.write_table(pa.table({"row": split.rows, **true, **predicted}), sink)
    arrays = {"rows": split.rows, **task.codec.packed({"labels": split.labels, LOGITS: logits[LOGITS]})}
    # Those of tokens are packed, and no page shows them with the attributes hidden.
    arrays |= {name: array for name, array in logits.items() if name != LOGITS and array.dtype != object}
    own = split.table if split.unshuffled is None else split.unshuffled
    arrays |= value_marks(own, schema) | packed_clusters(split.clusters)
    stored = save({key: np.ascontiguousarray(array) for key, array in arrays.items()})
    folder.write_predictions(part, table=sink.getvalue(), logits=stored)


def score_baselines(
    training: TrainingPlan,
    data: PreparedData,
    reporter: Reporter,
    *,
    encoder: Reader,
    exclude: Set[str],
    linears: dict[str, LinearModel],
) -> list[Scored]:
    """Fit and score the cheap baselines, except the excluded ones, and the majority class of the training rows.

    Where the model's window cuts many texts, `linear` reads the same part of each as the model does, and
    `linear, whole texts` reads all. Where there are attributes, `linear, text only` does not read them.

    Args:
        training: of the model that they are compared with.
        encoder: of this model.
        linears: gets the linear models, by name.
    """
    scored, source, settings = [], training.data, training.training
    is_learnable = can(data.task, LINEAR)
    if not is_learnable:
        reporter.note(f"the linear baselines cannot learn the task {data.task.kind!r} and are left out")
    read = _as_read(source, data, encoder, reporter) if is_learnable and "linear" not in exclude else None
    cases = [("linear", source, data), ("attributes-only", source, data)]
    if read is not None:
        cases = [("linear", *read), (WHOLE_TEXTS, source, data), *cases[1:]]
    if len(data.schema):
        cases[-1:-1] = [(TEXT_ONLY, source, replace(data, schema=Schema([])))]
    for method, plan, rows in cases if is_learnable else ():
        text = None if method == "attributes-only" else plan.text
        if method in exclude or (text is None and not len(data.schema)):
            continue
        row_count = len(data.splits["train"].rows)
        some = f" on {BASELINE_ROWS:,} of {row_count:,} rows" if row_count > BASELINE_ROWS else ""
        reporter.note(f"fitting the baseline {method}{some}")
        try:
            model = fit_linear(rows, text, reporter, by=settings.select_by, surface=settings.surface)
        except DataError as error:  # such as texts without words
            reporter.note(f"the baseline {method} is left out: {error}")
            continue
        linears[method] = model
        found = score(method, Predictor(model, text_input=plan.text), rows, plan)
        values = ", ".join(f"{name} {one.value():.4f}" for name, one in found[0].metrics["validation"].items())
        reporter.note(f"{method}, validation: {values}")
        scored += found
    labels = data.splits["train"].labels
    majority = {
        name: clustered(_majority(data.task, labels, split), split.clusters) for name, split in data.scored.items()
    }
    judgements: dict[str, dict[str, Metric]] = {}
    proper: dict[str, Metric] = {}
    for name, split in data.scored.items():
        constant = data.task.constant(labels, len(split.labels))
        if constant is None:
            continue
        proper |= _proper(data.task, constant, name, split)
        if split.clusters:
            judgements[name] = judgement_metrics(data.task, constant, split.labels, split.clusters)
    return [*scored, Scored(name=MAJORITY, metrics=majority, judgements=judgements, proper=proper)]


def _majority(task: Task, labels: npt.NDArray[Any], split: PreparedSplit) -> dict[str, Metric]:
    """Return the metrics of the prior of the training labels."""
    constant = task.constant(labels, len(split.labels))
    if constant is None:
        return task.majority(labels, split.labels)
    return scored_metrics(task, constant, split.labels)


def _as_read(
    source: DataPlan, data: PreparedData, encoder: Reader, reporter: Reporter
) -> tuple[DataPlan, PreparedData] | None:
    """Return the plan and the rows with texts as the model's window leaves them; None where it leaves most whole."""
    if source.text.prompt or source.text.pair:
        return None
    looked = source.text.read_all(data.splits["validation"].table[:_LOOKED_AT])
    kept = encoder.kept_texts(source.text, data.splits["validation"].table.select(range(len(looked))))
    if kept is None or sum(map(operator.ne, looked, kept)) <= MANY_CUT * len(looked):
        return None
    window = source.text.window
    reporter.note(f"linear reads what the model reads of each text ({window}), and a second one whole texts")
    column, splits = "text as read", {}
    while column in data.splits["train"].table.column_names:
        column += "'"
    for name, split in data.splits.items():
        rows = chosen_rows(split) if name == "train" else split
        texts = encoder.kept_texts(source.text, rows.table)
        splits[name] = replace(rows, table=rows.table.add_column(column, texts))
    return replace(source, text=TextInput.of(column)), replace(data, splits=splits)

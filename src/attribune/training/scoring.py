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
import pyarrow as pa
import pyarrow.parquet as pq
from safetensors.numpy import save

from attribune.core.arrays import Array
from attribune.core.progress import Reporter
from attribune.data.clusters import clustered, judgement_metrics, packed_clusters
from attribune.data.readers.base import MANY_CUT, Reader
from attribune.data.texts import TextInput
from attribune.data.writing import prediction_array
from attribune.errors import DataError
from attribune.metrics.metric import MetricInfo, metric_info
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
from attribune.tasks.base import AUTO, LAST, LOSS, MAIN_METRIC, scored_metrics, unknown_selection
from attribune.tasks.capabilities import LINEAR, can
from attribune.training.baselines import BASELINE_ROWS, fit_linear
from attribune.training.plan import DataPlan, TrainingPlan
from attribune.training.preparation import PreparedData, PreparedSplit
from attribune.values.traces import value_marks


def selection_metric(task: Task, settings: TrainingRecipe) -> MetricInfo | None:
    """Return the metric of ``training.select_by``: ``loss``, or one that the task computes; None for ``last``."""
    if settings.select_by == LAST:
        return None
    named = {AUTO: LOSS if task.codec.has_comparable_loss else task.main_metric, MAIN_METRIC: task.main_metric}
    return metric_info(named.get(settings.select_by, settings.select_by))


def check_selection(settings: TrainingRecipe, data: PreparedData) -> None:
    """Check the metric before anything is trained.

    Raises:
        ConfigError: for one that the task does not compute.
    """
    if settings.select_by in (AUTO, LOSS, LAST, MAIN_METRIC):
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
    task, parts, started = predictor.task, data.scored.items(), time.perf_counter()
    logits = {part: scores[part].logits(blend=blend) for part, _ in parts}
    without = {part: scores[part].logits(True, blend=blend) for part, _ in parts} if also_hidden else {}
    uncalibrated: dict[str, float] = {}
    if (temperature := predictor.model.temperature) is not None and not (blend and predictor.blend):
        raw = {part: task.proper_score(temperature * logits[part], split.labels) for part, split in parts}
        uncalibrated = {part: metric.value() for part, metric in raw.items() if metric is not None}
    hidden = HiddenAttributes()
    if also_hidden and hides_each and not source.source.shuffled:
        part, split = list(parts)[-1]  # test rows, if there are any
        hidden = hidden_attributes(scores[part], split.labels, split.clusters, logits[part])
    for part, split in parts:
        stored = {LOGITS: logits[part]} | ({HIDDEN_LOGITS: without[part]} if also_hidden else {})
        if blend and predictor.blend is not None:
            stored[NETWORK_LOGITS] = scores[part].logits(blend=False)
        if folder is not None:
            columns = source.true_columns
            write_predictions(folder, part, split, stored, task=task, schema=data.schema, columns=columns)
    counts = {part: value_counts(data.schema, split.table) for part, split in parts} if also_hidden else {}
    conditions = [condition_of(shuffled=source.source.shuffled, hidden=is_hidden) for is_hidden in (False, True)]
    found = {"name": name, "condition": conditions[0], "counts": counts, **_figures(task, data, logits)}
    scored = [Scored(**found, hidden=hidden, uncalibrated=uncalibrated)]
    if also_hidden:
        found |= {"name": f"{name}, attributes hidden", "condition": conditions[1], **_figures(task, data, without)}
        scored.append(Scored(**found))
    _log.info("%s: validation and test rows scored in %.1f s", name, time.perf_counter() - started)
    return scored


def _figures(task: Task, data: PreparedData, logits: Mapping[str, Array]) -> dict[str, Any]:
    """Return the fields of `Scored` with what is computed of the logits of each part."""
    parts = [(part, split, logits[part]) for part, split in data.scored.items()]
    proper = [(part, split, task.proper_score(found, split.labels)) for part, split, found in parts]
    return {
        "metrics": {
            part: clustered(scored_metrics(task, found, split.labels), split.clusters) for part, split, found in parts
        },
        "judgements": {
            part: judgement_metrics(task, found, split.labels, split.clusters) for part, split, found in parts
        },
        "proper": {
            part: clustered({one.name: one}, split.clusters)[one.name] for part, split, one in proper if one is not None
        },
    }


def write_predictions(
    folder: RunFolder,
    part: str,
    split: PreparedSplit,
    logits: Mapping[str, Array],
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
    scored, source = [], training.data
    is_learnable = can(data.task, LINEAR)
    if not is_learnable:
        reporter.note(f"the linear baselines cannot learn the task {data.task.kind!r} and are left out")
    read = _as_read(source, data, encoder, reporter) if is_learnable and "linear" not in exclude else None
    cases = {"linear": read or (source, data)}
    if read is not None:
        cases[WHOLE_TEXTS] = source, data
    if len(data.schema):
        cases[TEXT_ONLY] = source, replace(data, schema=Schema([]))
        cases["attributes-only"] = source, data
    for method, (plan, rows) in cases.items() if is_learnable else ():
        if method in exclude:
            continue
        text = None if method == "attributes-only" else plan.text
        row_count = len(data.splits["train"].rows)
        some = f" on {BASELINE_ROWS:,} of {row_count:,} rows" if row_count > BASELINE_ROWS else ""
        reporter.note(f"fitting the baseline {method}{some}")
        try:
            model = fit_linear(rows, text, training.training, reporter)
        except DataError as error:  # such as texts without words
            reporter.note(f"the baseline {method} is left out: {error}")
            continue
        linears[method] = model
        found = score(method, Predictor(model, text_input=plan.text), rows, plan)
        values = ", ".join(f"{name} {one.value():.4f}" for name, one in found[0].metrics["validation"].items())
        reporter.note(f"{method}, validation: {values}")
        scored += found
    labels = data.splits["train"].labels
    constant = {part: data.task.constant(labels, len(split.labels)) for part, split in data.scored.items()}
    known = {part: logits for part, logits in constant.items() if logits is not None}
    if len(known) == len(constant):
        return [*scored, Scored(name=MAJORITY, **_figures(data.task, data, known))]
    metrics = {
        part: clustered(data.task.majority(labels, split.labels), split.clusters) for part, split in data.scored.items()
    }
    return [*scored, Scored(name=MAJORITY, metrics=metrics)]


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
        rows = split.at_most(BASELINE_ROWS) if name == "train" else split
        texts = encoder.kept_texts(source.text, rows.table)
        splits[name] = replace(rows, table=rows.table.add_column(column, texts))
    return replace(source, text=TextInput.of(column)), replace(data, splits=splits)

"""Scores of a model on validation and test rows, and of the baselines that are fitted beside every model."""

from __future__ import annotations

import io
import logging
import time

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from safetensors.numpy import save

from attribune.core.progress import Reporter
from attribune.data.texts import TextInput
from attribune.data.writing import prediction_array
from attribune.metrics.results import Scored, condition_of
from attribune.models.linear import LinearModel, choose_c
from attribune.models.predictor import Predictor
from attribune.runs.folder import RunFolder
from attribune.training.plan import DataPlan
from attribune.training.preparation import PreparedData

__all__ = ["fit_linear", "score", "score_baselines"]

_log = logging.getLogger(__name__)

_BASELINE_ROWS = 200_000  # more would take longer than the model and teach a linear one little


def fit_linear(data: PreparedData, text: TextInput | None) -> LinearModel:
    """Fit on at most `_BASELINE_ROWS` training rows, the regularisation chosen on the validation rows.

    Args:
        data: rows, schema and task.
        text: what of a row is its text; None leaves the text out.
    """
    texts, ids, labels = {}, {}, {}
    for name in ("train", "validation"):
        table, labels[name] = data.splits[name].table, data.splits[name].labels
        if len(table) > _BASELINE_ROWS:
            chosen = np.sort(np.random.default_rng(0).permutation(len(table))[:_BASELINE_ROWS])
            table, labels[name] = table.select(chosen), labels[name][chosen]
        texts[name] = None if text is None else text.read(table)
        ids[name] = data.schema.encode(table)[0] if len(data.schema) else np.zeros((len(table), 0), np.int64)
    model, _ = choose_c(
        texts["train"],
        ids["train"],
        schema=data.schema,
        labels=labels["train"],
        task=data.task,
        validation_texts=texts["validation"],
        validation_ids=ids["validation"],
        validation_labels=labels["validation"],
    )
    return model


def _score_majority(data: PreparedData) -> Scored:
    """Score the majority class of the training rows."""
    train = data.splits["train"].labels
    metrics = {name: data.task.majority(train, split.labels) for name, split in data.scored.items()}
    return Scored(name="majority", metrics=metrics)


def score(
    name: str,
    predictor: Predictor,
    data: PreparedData,
    source: DataPlan,
    *,
    folder: RunFolder | None = None,
    hide_attributes: bool = False,
) -> Scored:
    """Compute the metrics on validation and test rows; with a folder, the predictions are written there."""
    metrics = {}
    started = time.perf_counter()
    for split_name, split in data.scored.items():
        logits, _ = predictor.logits(split.table, hide_attributes=hide_attributes)
        metrics[split_name] = data.task.metrics(logits, split.labels)
        if folder is not None:
            columns = {column: prediction_array(value) for column, value in data.task.decode(logits).columns().items()}
            true = {f"true_{column}": list(split.table[column]) for column in source.label_columns}
            sink = io.BytesIO()
            pq.write_table(pa.table({"row": split.rows, **true, **columns}), sink)
            arrays = {"rows": split.rows, "labels": split.labels, "logits": logits}
            stored = save({key: np.ascontiguousarray(array) for key, array in arrays.items()})
            folder.write_predictions(split_name, table=sink.getvalue(), logits=stored)
    _log.info("%s: validation and test rows scored in %.1f s", name, time.perf_counter() - started)
    condition = condition_of(shuffled=source.source.shuffled, hidden=hide_attributes)
    return Scored(name=name, condition=condition, metrics=metrics)


def score_baselines(source: DataPlan, data: PreparedData, reporter: Reporter, *, exclude: set[str]) -> list[Scored]:
    """Fit and score the cheap baselines and the majority class."""
    if not LinearModel.learns(data.task):
        reporter.note(f"the linear baselines cannot learn the task {data.task.kind!r} and are left out")
        return [_score_majority(data)]
    scored = []
    for method, text in (("linear", source.text), ("attributes-only", None)):
        if method in exclude or not (text or len(data.schema)):
            continue
        row_count = len(data.splits["train"].rows)
        some = f" on {_BASELINE_ROWS:,} of {row_count:,} rows" if row_count > _BASELINE_ROWS else ""
        reporter.note(f"fitting the baseline {method}{some}")
        predictor = Predictor(fit_linear(data, text), text_input=source.text)
        scored.append(score(method, predictor, data, source))
    return [*scored, _score_majority(data)]

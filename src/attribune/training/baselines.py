"""Fits of the baselines, on words or on vectors of a frozen backbone; validation rows choose what shrinks."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from attribune.core.arrays import Array, IntArray
from attribune.core.device import default_device
from attribune.core.progress import Reporter
from attribune.data.texts import TextInput
from attribune.models.baselines import BaselineConfig, Heads
from attribune.models.boosting import BoostingModel, TextColumns, choose_boosting
from attribune.models.features import SentenceVectors, VectorFeatures
from attribune.models.linear import LinearModel, choose_c
from attribune.runs.folder import RunFolder
from attribune.runs.recipe import TrainingRecipe
from attribune.schema.columns import column_batches
from attribune.tasks.base import validation_score
from attribune.tasks.capabilities import LINEAR, require
from attribune.training.plan import DataPlan, TrainingPlan
from attribune.training.preparation import PreparedData, PreparedSplit

BASELINE_ROWS = 200_000  # more would take longer than the model, and hardly improve a linear baseline

_C = (1e-5, 1e-4, 1e-3, 1e-2, 0.1, 1.0)
_INTERCEPT_C = 0.1  # of the intercepts, while the C of the weights is chosen
_INTERCEPT = (0.3, 3.0)  # over that
_WEIGHTS = (0.03, 0.1, 0.3, 1.0)


def _rows_of(data: PreparedData, read: Callable[[Any], Any]) -> dict[str, Any]:
    """Return the arguments of `choose_c` and of `choose_boosting` for at most `BASELINE_ROWS` rows of each part.

    Args:
        read: returns the texts of the rows of a table.
    """
    train, validation = (data.splits[name].at_most(BASELINE_ROWS) for name in ("train", "validation"))
    return {
        "texts": read(train.table),
        "attribute_ids": train.ids(data.schema),
        "labels": train.labels,
        "weights": train.weights,
        "validation_texts": read(validation.table),
        "validation_ids": validation.ids(data.schema),
        "validation_labels": validation.labels,
        "schema": data.schema,
        "task": data.task,
    }


def fit_linear(data: PreparedData, text: TextInput | None, settings: TrainingRecipe, reporter: Reporter) -> LinearModel:
    """Fit on at most `BASELINE_ROWS` training rows, with the regularisation chosen on the validation rows.

    Args:
        text: the text columns; None leaves the text out.
    """
    rows = _rows_of(data, lambda table: None if text is None else text.read_all(table))
    model, _ = choose_c(**rows, by=settings.select_by, surface=settings.surface)
    if model.reads_surface:
        reporter.note("the linear model also reads how texts look, which is better on the validation rows")
    return model


def fit_boosting(
    data: PreparedData, read: Callable[[Any], TextColumns], settings: TrainingRecipe, **options: Any
) -> BoostingModel:
    """Fit on at most `BASELINE_ROWS` training rows, with settings that are chosen on the validation rows.

    Args:
        read: returns the texts of the rows of a table.
        options: further arguments of `choose_boosting`.

    Raises:
        ConfigError: for a task that the trees cannot learn.
    """
    require(data.task, LINEAR, what="the baseline boosting")
    return choose_boosting(**_rows_of(data, read), by=settings.select_by, **options)


def _fit_frozen(plan: TrainingPlan, data: PreparedData, reporter: Reporter, *, with_weights: bool) -> LinearModel:
    """Fit on the training rows; the penalty and the deviations of what values add are chosen on the validation rows.

    One after the other, each with the best of those before: the penalty of the weights of all, the deviation of the
    intercepts, and that of the values' own weights, if they have any.

    Raises:
        ConfigError: for a task that the linear models cannot learn.
    """
    require(data.task, LINEAR, what="a linear model on vectors")
    source, by = plan.data, plan.training.select_by
    backbone = source.encoder.name
    vectors = SentenceVectors(backbone)
    vectors.to(default_device())
    splits = {name: data.splits[name].at_most(BASELINE_ROWS) for name in ("train", "validation")}
    embedded, ids = {}, {}
    for name, split in splits.items():
        some = f" of {len(data.splits[name].rows):,}" if len(split.rows) < len(data.splits[name].rows) else ""
        reporter.note(f"{name}: {len(split.rows):,}{some} texts go through {backbone}")
        embedded[name], ids[name] = _embed(split, source, data, vectors)
    train = embedded["train"]
    base = VectorFeatures(
        method="heads" if with_weights else "intercept",
        backbone=backbone,
        schema=data.schema,
        mean=train.mean(axis=0, dtype=np.float64),
        scale=np.maximum(train.std(axis=0, dtype=np.float64), 1e-6),
        vectors=vectors,
    )
    best: tuple[float, VectorFeatures, LinearModel] | None = None
    steps = ("C", "intercept", "weights")[: 3 if with_weights else 2]
    for step in steps if len(data.schema) else steps[:1]:
        for features, C in _candidates(step, base, best):
            matrix = features.of_vectors(train, ids["train"])
            labels, weights = splits["train"].labels, splits["train"].weights
            model = LinearModel.from_matrix(features, matrix, labels=labels, task=data.task, C=C, weights=weights)
            logits = features.of_vectors(embedded["validation"], ids["validation"]) @ model.weight + model.bias
            score = validation_score(data.task, logits, splits["validation"].labels, by=by)
            if best is None or score < best[0]:
                best = (score, features, model)
    assert best is not None
    return best[2]


def _candidates(
    step: str, base: VectorFeatures, best: tuple[float, VectorFeatures, LinearModel] | None
) -> Iterator[tuple[VectorFeatures, float]]:
    """Yield features and penalties to be compared.

    The penalty of a feature's weight is 1/C, and that of what it stands for 1/C over the square of its factor.
    """
    if best is None:
        yield from ((replace(base, intercept=(_INTERCEPT_C / C) ** 0.5), C) for C in _C)
        return
    _, features, model = best
    if step == "intercept":
        yield from ((replace(features, intercept=factor * features.intercept), model.C) for factor in _INTERCEPT)
    else:
        yield from ((replace(features, weights=weights), model.C) for weights in _WEIGHTS)


def _embed(
    split: PreparedSplit, source: DataPlan, data: PreparedData, vectors: SentenceVectors
) -> tuple[Array, IntArray]:
    """Return the vectors of a split's texts, and the ids of its attributes."""
    encoder, parts, ids = vectors.row_encoder(source.text), [], []
    for row, columns in column_batches(split.table, (*source.text.names, *data.schema.sources)):
        rows = encoder.encode(columns, data.schema, text=source.text, first_row=row)
        parts.append(vectors.encode(rows.inputs))
        ids.append(rows.attribute_ids)
    return np.concatenate(parts), np.concatenate(ids)


def train_linear(
    config: BaselineConfig, plan: TrainingPlan, folder: RunFolder, data: PreparedData, reporter: Reporter
) -> dict[str, Any]:
    """Fit on words and attributes, and save the model; `TrainingRecord` says what is returned."""
    started = time.perf_counter()
    text = plan.data.text if config.reads_text else None
    linear = fit_linear(data, text, plan.training, reporter)
    replace(linear, text_input=plan.data.text).save_pretrained(folder.model)
    return {"C": linear.C, "seconds": time.perf_counter() - started}


def train_boosting(
    config: BaselineConfig, plan: TrainingPlan, folder: RunFolder, data: PreparedData, reporter: Reporter
) -> dict[str, Any]:
    """Fit trees on words and attributes, and save the model; `TrainingRecord` says what is returned."""
    started = time.perf_counter()
    model = fit_boosting(data, plan.data.text.read_rows, plan.training)
    replace(model, text_input=plan.data.text).save_pretrained(folder.model)
    settings = {name: getattr(model, name) for name in ("iterations", "learning_rate", "min_samples_leaf")}
    return {"trees": settings, "seconds": time.perf_counter() - started}


def train_frozen(
    config: BaselineConfig, plan: TrainingPlan, folder: RunFolder, data: PreparedData, reporter: Reporter
) -> dict[str, Any]:
    """Fit on the vectors of a frozen backbone, and save the model; `TrainingRecord` says what is returned."""
    started = time.perf_counter()
    model = _fit_frozen(plan, data, reporter, with_weights=isinstance(config, Heads))
    replace(model, text_input=plan.data.text).save_pretrained(folder.model)
    return {"C": model.C, "seconds": time.perf_counter() - started}

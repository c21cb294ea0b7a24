"""Fits of the baselines on the vectors of a frozen backbone, with what shrinks values chosen on validation rows."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from attribune.core.arrays import Array
from attribune.core.device import default_device
from attribune.core.progress import Reporter
from attribune.models.features import SentenceVectors, VectorFeatures
from attribune.models.linear import LinearModel
from attribune.schema.columns import column_batches
from attribune.tasks.capabilities import LINEAR, require
from attribune.tasks.scores import validation_score
from attribune.training.plan import DataPlan
from attribune.training.preparation import PreparedData, PreparedSplit
from attribune.training.scoring import baseline_rows

__all__ = ["fit_frozen"]

_C = (1e-5, 1e-4, 1e-3, 1e-2, 0.1, 1.0)
_INTERCEPT_C = 0.1  # of the intercepts, while the C of the weights is chosen
_INTERCEPT = (0.3, 3.0)  # over that
_WEIGHTS = (0.03, 0.1, 0.3, 1.0)


def fit_frozen(source: DataPlan, data: PreparedData, reporter: Reporter, *, with_weights: bool, by: str) -> LinearModel:
    """Fit on the training rows; the penalty and the deviations of what values add are chosen on the validation rows.

    One after the other, each with the best of those before: the penalty of the weights of all, the deviation of the
    intercepts, and that of the values' own weights, if they have any.

    Args:
        by: as `selection_score` takes it.

    Raises:
        ConfigError: for a task that the linear models cannot learn.
    """
    require(data.task, LINEAR, what="a linear model on vectors")
    backbone = source.encoder.name
    vectors = SentenceVectors(backbone)
    vectors.to(default_device())
    splits = {name: baseline_rows(data.splits[name]) for name in ("train", "validation")}
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
            model = LinearModel.from_matrix(
                features,
                matrix,
                labels=splits["train"].labels,
                task=data.task,
                C=C,
                weights=splits["train"].weights,
            )
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
) -> tuple[Array, npt.NDArray[np.int64]]:
    """Return the vectors of a split's texts, and the ids of its attributes."""
    encoder, parts, ids = vectors.row_encoder(source.text), [], []
    for row, columns in column_batches(split.table, (*source.text.names, *data.schema.names)):
        rows = encoder.encode(columns, data.schema, text=source.text, first_row=row)
        parts.append(vectors.encode(rows.inputs))
        ids.append(rows.attribute_ids)
    return np.concatenate(parts), np.concatenate(ids)

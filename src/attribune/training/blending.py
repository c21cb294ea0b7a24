"""A linear model that counts beside a neural one, where validation rows show that it helps."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from attribune.core.arrays import Array, IntArray
from attribune.core.progress import Reporter
from attribune.data.clusters import clustered
from attribune.errors import DataError
from attribune.metrics.bootstrap import paired
from attribune.metrics.metric import metric_info
from attribune.models.base import ConditionedModel
from attribune.models.blend import Blend, owners_of_words
from attribune.models.linear import LinearModel
from attribune.models.word_features import LinearFeatures
from attribune.runs.verdict import TEXT_ONLY, WHOLE_TEXTS
from attribune.tasks import Task
from attribune.tasks.calibration import fit_temperature, fit_weights
from attribune.tasks.capabilities import LINEAR, can
from attribune.training.baselines import chosen_rows, fit_linear
from attribune.training.plan import DataPlan
from attribune.training.preparation import PreparedData, PreparedSplit

__all__ = ["find_blend"]

_FOLDS, _FEWEST = 5, 50


def find_blend(
    model: ConditionedModel,
    data: PreparedData,
    plan: DataPlan,
    split: PreparedSplit,
    neural: Array,
    *,
    linears: Mapping[str, LinearModel],
    is_wanted: bool,
    by: str,
    surface: bool,
    reporter: Reporter,
) -> Blend | None:
    """Fit the linear model, unless it is there, and the weights; None where the linear model is not shown to help.

    Whether it helps is asked by cross-fitting: each row is scored with weights that others gave, of which none has its
    text.

    Args:
        split: validation rows.
        neural: (n, outputs) their logits of the neural model, as a forward pass gives them.
        linears: models that are fitted already, by the names of the baselines.
        is_wanted: whether it counts even where that is not shown.
        by: what chooses the penalty of the linear model, as `selection_score` takes it.
        surface: see `fit_linear`.
    """
    if not can(data.task, LINEAR) or not plan.text.names or (len(split.rows) < _FEWEST and not is_wanted):
        return None
    linear = _linear(model, data, plan, linears, reporter, by=by, surface=surface)
    if linear is None or data.task.proper_score(neural, split.labels) is None:
        return None
    features, texts = linear.features, plan.text.read_all(split.table)
    assert isinstance(features, LinearFeatures)
    second = linear.logits(texts, _ids(model, split))
    if not (is_wanted or _helps(data.task, neural, second, split, texts)):
        return None
    a, b = fit_weights(data.task, neural, second, split.labels)
    if b == 0:
        return None
    reporter.note(f"a linear model of words and attributes counts beside the network, with the weights {a:g} and {b:g}")
    train = chosen_rows(data.splits["train"])
    owners = owners_of_words(features, plan.text.read_all(train.table), _ids(model, train))
    return Blend(
        features=replace(features, schema=model.input_schema),
        weight=linear.weight,
        bias=linear.bias,
        neural_weight=a,
        linear_weight=b,
        owners=owners,
    )


def _linear(
    model: ConditionedModel,
    data: PreparedData,
    plan: DataPlan,
    linears: Mapping[str, LinearModel],
    reporter: Reporter,
    *,
    by: str,
    surface: bool,
) -> LinearModel | None:
    """Return the linear model of whole texts and of the attributes that the neural model reads."""
    reads = len(model.input_schema) > 0
    names = (WHOLE_TEXTS, "linear") if reads or not len(data.schema) else (TEXT_ONLY,)
    fitted = next((linears[name] for name in names if name in linears), None)
    if fitted is not None:
        return fitted
    try:
        return fit_linear(replace(data, schema=model.input_schema), plan.text, reporter, by=by, surface=surface)
    except DataError:  # such as texts without words
        return None


def _ids(model: ConditionedModel, split: PreparedSplit) -> IntArray:
    schema = model.input_schema
    return schema.encode(split.table)[0] if len(schema) else np.zeros((len(split.rows), 0), dtype=np.int64)


def _helps(task: Task, neural: Array, linear: Array, split: PreparedSplit, texts: list[str]) -> bool:
    """Whether rows are scored better with weights that rows of other texts gave than by the neural model alone."""
    _, groups = np.unique(texts, return_inverse=True)
    fold = np.random.default_rng(0).permutation(groups.max() + 1)[groups] % _FOLDS
    blended, alone = np.zeros_like(neural, dtype=np.float64), np.zeros_like(neural, dtype=np.float64)
    for number in range(_FOLDS):
        rest, own = fold != number, fold == number
        if not (rest.any() and own.any()):
            return False
        a, b = fit_weights(task, neural[rest], linear[rest], split.labels[rest])
        blended[own] = a * neural[own] + b * linear[own]
        alone[own] = neural[own] / (fit_temperature(task, neural[rest], split.labels[rest]) or 1.0)
    scores = [task.proper_score(logits, split.labels) for logits in (blended, alone)]
    first, second = (clustered({"score": one}, split.clusters)["score"] for one in scores if one is not None)
    found = paired(first, second)
    return found.shows_difference and (found.difference > 0) == metric_info(first.name).higher_is_better

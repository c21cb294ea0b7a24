"""A linear model that counts beside a neural one, where validation rows show that it helps."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from attribune.core.arrays import Array, IntArray
from attribune.data.clusters import clustered
from attribune.errors import DataError
from attribune.findings import Finding
from attribune.metrics.bootstrap import PairedResult, paired
from attribune.metrics.metric import metric_info
from attribune.models.base import ConditionedModel
from attribune.models.blend import Blend, owners_of_words
from attribune.models.linear import LinearModel
from attribune.models.word_features import LinearFeatures
from attribune.runs.verdict import TEXT_ONLY, WHOLE_TEXTS
from attribune.tasks import Task
from attribune.tasks.calibration import fit_temperature, fit_weights
from attribune.training.baselines import chosen_rows, fit_linear
from attribune.training.plan import DataPlan
from attribune.training.preparation import PreparedData, PreparedSplit

__all__ = ["Gain", "NoBlend", "cross_fitted", "find_blend"]

_FOLDS, _FEWEST = 5, 50


@dataclass(frozen=True, kw_only=True)
class NoBlend:
    """Why no linear model counts beside a network.

    Args:
        reason: one of those of the finding ``blend-not-possible``; or ``few-rows`` or ``no-gain`` where it was not
            asked for.
        detail: the figures or the message behind it.
    """

    reason: str
    detail: str = ""

    @property
    def values(self) -> dict[str, str]:
        """Reason and detail by name."""
        return {"reason": self.reason, "detail": self.detail}

    @property
    def text(self) -> str:
        """What to say where it was asked for."""
        return Finding("blend-not-possible", self.values).text

    def __str__(self) -> str:
        return f"{self.reason} ({self.detail})" if self.detail else self.reason


def find_blend(
    model: ConditionedModel,
    data: PreparedData,
    plan: DataPlan,
    split: PreparedSplit,
    neural: Array,
    *,
    linears: Mapping[str, LinearModel],
    is_wanted: bool,
    is_calibrated: bool,
    by: str,
) -> Blend | NoBlend:
    """Fit the linear model of a task that has one, unless it is there, and the weights; or say why it does not count.

    Whether it helps is asked by cross-fitting: each row is scored with weights that others gave, of which none has its
    text.

    Args:
        split: validation rows.
        neural: (n, outputs) their logits of the neural model, as a forward pass gives them.
        linears: models that are fitted already, by the names of the baselines.
        is_wanted: whether it counts even where that is not shown.
        is_calibrated: whether the neural model alone has a temperature.
        by: what chooses the penalty of the linear model, as `selection_score` takes it.
    """
    task = data.task
    if task.proper_score(neural, split.labels) is None:
        return NoBlend(reason="score", detail=task.kind)
    if len(split.rows) < _FEWEST and not is_wanted:
        return NoBlend(reason="few-rows", detail=f"{len(split.rows)} of at least {_FEWEST}")
    try:
        linear = _linear(model, data, plan, linears, by=by)
    except DataError as error:  # such as texts without words
        return NoBlend(reason="fit", detail=str(error))
    features, texts = linear.features, plan.text.read_all(split.table)
    assert isinstance(features, LinearFeatures)
    second = linear.logits(texts, _ids(model, split))
    if not is_wanted:
        found = cross_fitted(task, neural, second, split, texts, is_calibrated=is_calibrated)
        if found is None or not found.is_better:
            return NoBlend(reason="no-gain", detail="" if found is None else str(found))
    a, b = fit_weights(task, neural, second, split.labels)
    if b == 0:
        return NoBlend(reason="weight")
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
    model: ConditionedModel, data: PreparedData, plan: DataPlan, linears: Mapping[str, LinearModel], *, by: str
) -> LinearModel:
    """Return the linear model of whole texts and of the attributes that the neural model reads.

    Raises:
        DataError: for rows that it cannot be fitted to.
    """
    reads = len(model.input_schema) > 0
    names = (WHOLE_TEXTS, "linear") if reads or not len(data.schema) else (TEXT_ONLY,)
    fitted = next((linears[name] for name in names if name in linears), None)
    return fitted or fit_linear(replace(data, schema=model.input_schema), plan.text, by=by)


def _ids(model: ConditionedModel, split: PreparedSplit) -> IntArray:
    schema = model.input_schema
    return schema.encode(split.table)[0] if len(schema) else np.zeros((len(split.rows), 0), dtype=np.int64)


@dataclass(frozen=True, kw_only=True)
class Gain:
    """What the linear model changes in rows whose weights others gave."""

    metric: str
    found: PairedResult

    @property
    def is_better(self) -> bool:
        """Whether an improvement is shown."""
        return self.found.shows_difference and (self.found.difference > 0) == metric_info(self.metric).higher_is_better

    def __str__(self) -> str:
        low, high = self.found.low, self.found.high
        return f"{self.metric} {self.found.difference:+.4f}, 95 % interval {low:+.4f} to {high:+.4f}"


def cross_fitted(
    task: Task, neural: Array, linear: Array, split: PreparedSplit, texts: list[str], *, is_calibrated: bool
) -> Gain | None:
    """Compare weights that rows of other texts gave with the neural model alone; None for too few texts."""
    _, groups = np.unique(texts, return_inverse=True)
    fold = np.random.default_rng(0).permutation(groups.max() + 1)[groups] % _FOLDS
    blended, alone = np.zeros_like(neural, dtype=np.float64), np.zeros_like(neural, dtype=np.float64)
    for number in range(_FOLDS):
        rest, own = fold != number, fold == number
        if not (rest.any() and own.any()):
            return None
        a, b = fit_weights(task, neural[rest], linear[rest], split.labels[rest])
        blended[own] = a * neural[own] + b * linear[own]
        temperature = fit_temperature(task, neural[rest], split.labels[rest]) if is_calibrated else None
        alone[own] = neural[own] / (temperature or 1.0)
    scores = [task.proper_score(logits, split.labels) for logits in (blended, alone)]
    first, second = (clustered({"score": one}, split.clusters)["score"] for one in scores if one is not None)
    return Gain(metric=first.name, found=paired(first, second))

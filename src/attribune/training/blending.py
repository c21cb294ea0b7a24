"""What is fitted on rows that a network has not learned from: its temperature, and the weights of models beside it.

Both are fitted on as many rows as are independent: judgements of one text say little more than one of them.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Self, TypeAlias

import numpy as np

from attribune.core.arrays import Array, IntArray
from attribune.core.progress import Reporter
from attribune.data.clusters import Clusters
from attribune.errors import DataError
from attribune.findings import Finding, counting_models
from attribune.metrics.metric import equal_clusters, metric_info
from attribune.models.base import ConditionedModel
from attribune.models.blend import Blend, owners_of_words, words_alone
from attribune.models.boosting import BoostingModel, TextColumns
from attribune.models.folder import SCHEMA, ModelFolder
from attribune.models.linear import LinearModel
from attribune.models.word_features import LinearFeatures
from attribune.runs.verdict import TEXT_ONLY, WHOLE_TEXTS
from attribune.schema import Schema
from attribune.tasks import Task
from attribune.tasks.calibration import fit_temperature, fit_weights
from attribune.tasks.capabilities import CALIBRATION, LINEAR, can
from attribune.training.baselines import BASELINE_ROWS, fit_boosting, fit_linear
from attribune.training.plan import DataPlan, TrainingPlan
from attribune.training.preparation import PreparedData, PreparedSplit

_log = logging.getLogger(__name__)
_FOLDS, _FEWEST = 5, 50
_TREES_ROWS, _TREES_OUTPUTS = 20_000, 20  # with more, trees would take longer than a network on a GPU
_GROWTH = ((0.1, 20),)  # choosing among several takes four times as long, and is no better beside a network


@dataclass(frozen=True, kw_only=True)
class NoBlend:
    """Why no model counts beside a network.

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


@dataclass(frozen=True, kw_only=True)
class Beside:
    """The models that may count beside a network.

    Args:
        trees: of the same words; None where there are more than 20,000 training rows or 20 outputs.
    """

    linear: LinearModel
    trees: BoostingModel | None = None

    def logits(self, texts: Sequence[str], ids: IntArray) -> list[Array]:
        """Return the logits (n, outputs) of each."""
        found = [self.linear.logits(texts, ids)]
        return found if self.trees is None else [*found, self.trees.logits(_one_column(texts), ids)]


@dataclass(frozen=True, kw_only=True)
class Continued:
    """The models beside the network of a run that is trained further, which have not read its new rows.

    Fitted anew, they would know those alone.
    """

    run: str
    blend: Blend

    @classmethod
    def of(cls, model: ConditionedModel, run: str | None) -> Self | None:
        """Return those of the run that a training continues; None where it continues none, or that had none."""
        if run is None:
            return None
        folder = ModelFolder.find(run).path
        schema = Schema.load(folder / SCHEMA) if model.reads_attributes else Schema([])
        blend = Blend.load(folder, schema=schema, task=model.task)
        return None if blend is None else cls(run=run, blend=blend.under(model.input_schema))

    def logits(self, texts: Sequence[str], ids: IntArray) -> list[Array]:
        """Return what they add to the logits (n, outputs) of the network."""
        return [self.blend.logits(np.zeros((len(texts), len(self.blend.bias))), texts, ids)]

    def scaled(self, task: Task, rows: UnreadRows | None) -> Blend:
        """Return them with their weights times what fits unread rows best, shrunk to 1; of few rows hardly another."""
        if rows is None or not rows.others:
            return self.blend
        joined = self.blend.neural_weight * rows.neural + rows.others[0]
        (scale,) = fit_weights(task, [joined], rows.labels, rows=rows.independent)
        names = ("neural_weight", "linear_weight", "trees_weight")
        return replace(self.blend, **{name: scale * getattr(self.blend, name) for name in names})


Others: TypeAlias = Beside | Continued | NoBlend
"""The models that may count beside a network, or why there are none."""


def _one_column(texts: Sequence[str]) -> TextColumns:
    return [(text,) for text in texts]


@dataclass(frozen=True, kw_only=True)
class UnreadRows:
    """Rows that a network has not learned from, and how it scores them.

    Args:
        texts: (n,) whole.
        labels: as the task encodes them.
        neural: (n, outputs) logits of the network, as a forward pass gives them.
        others: (n, outputs) logits of each model beside it that may count.
    """

    texts: Sequence[str]
    labels: Array
    neural: Array
    others: Sequence[Array] = ()
    clusters: Clusters = field(default_factory=dict)

    @classmethod
    def of(cls, split: PreparedSplit, plan: DataPlan, model: ConditionedModel, neural: Array, beside: Others) -> Self:
        """Score the rows of a split with the models beside it, too."""
        texts = plan.text.read_all(split.table)
        others = [] if isinstance(beside, NoBlend) else beside.logits(texts, split.ids(model.input_schema))
        return cls(texts=texts, labels=split.labels, neural=neural, others=others, clusters=split.clusters)

    @classmethod
    def joined(cls, parts: Sequence[UnreadRows]) -> Self:
        """Return the rows of several parts, such as folds."""
        models = zip(*(part.others for part in parts), strict=False)  # those that all parts have
        return cls(
            texts=[text for part in parts for text in part.texts],
            labels=np.concatenate([part.labels for part in parts]),
            neural=np.concatenate([part.neural for part in parts]),
            others=[np.concatenate(scores) for scores in models],
            clusters={name: np.concatenate([part.clusters[name] for part in parts]) for name in parts[0].clusters},
        )

    @property
    def independent(self) -> float:
        """How many of them are independent."""
        kinds = (np.unique(kind, return_inverse=True)[1].reshape(-1) for kind in self.clusters.values())
        return min([float(len(self.labels)), *map(equal_clusters, kinds)])


def reads_unread_rows(training: TrainingPlan, task: Task) -> bool:
    """Whether anything is fitted on them."""
    return _is_calibrated(training, task) or (training.blends and can(task, LINEAR))


def _is_calibrated(training: TrainingPlan, task: Task) -> bool:
    return training.training.calibration and can(task, CALIBRATION)


def models_beside(
    model: ConditionedModel, data: PreparedData, training: TrainingPlan, linears: Mapping[str, LinearModel]
) -> Others:
    """Return models of whole texts and of the attributes that the network reads, fitted if they are not there.

    Those of a run that is trained further stay.

    Args:
        linears: models that are fitted already, by the names of the baselines.
    """
    if not training.blends:
        return NoBlend(reason="no-gain")
    if not can(data.task, LINEAR):
        return NoBlend(reason="task", detail=data.task.kind)
    if (continued := Continued.of(model, training.data.continued)) is not None:
        return continued
    reads = len(model.input_schema) > 0
    names = (WHOLE_TEXTS, "linear") if reads or not len(data.schema) else (TEXT_ONLY,)
    fitted = next((linears[name] for name in names if name in linears), None)
    rows, text, settings = replace(data, schema=model.input_schema), training.data.text, training.training
    try:
        linear = fitted or fit_linear(rows, text, settings, Reporter())
    except DataError as error:  # such as texts without words
        return NoBlend(reason="fit", detail=str(error))
    if len(data.splits["train"].rows) > _TREES_ROWS or data.task.outputs > _TREES_OUTPUTS:
        return Beside(linear=linear)
    assert isinstance(linear.features, LinearFeatures)
    words = words_alone(linear.features)
    trees = fit_boosting(rows, lambda table: _one_column(text.read_all(table)), settings, words=words, growths=_GROWTH)
    return Beside(linear=linear, trees=trees)


def fit_on_unread(
    model: ConditionedModel,
    data: PreparedData,
    training: TrainingPlan,
    rows: UnreadRows | None,
    *,
    beside: Others,
    reporter: Reporter,
) -> dict[str, Any]:
    """Fit the temperature of a network, and how much simple models count beside it.

    Args:
        data: the rows that all models have learned from.
        rows: None where `reads_unread_rows` is false.

    Returns:
        What the record of the training says of it.
    """
    if rows is not None and _is_calibrated(training, model.task):
        found = fit_temperature(model.task, rows.neural, rows.labels, rows=rows.independent)
        model.config.calibration_temperature = found
    blend = _blend(model, data, training, rows, beside)
    record: dict[str, Any] = {"temperature": model.temperature}
    if isinstance(blend, Blend):
        model.blend = blend
        reporter.note(counting_models(**blend.weights))
        if isinstance(beside, Continued):
            reporter.note(f"what counts beside the network is that of {beside.run}, and has not read the new rows")
        return {**record, "blend": blend.weights}
    if training.blends:
        _log.info("no model counts beside the network: %s", blend)
    if training.wants_blend:
        reporter.note(blend.text)
        record["no_blend"] = blend.values
    return record


def _blend(
    model: ConditionedModel,
    data: PreparedData,
    training: TrainingPlan,
    rows: UnreadRows | None,
    beside: Others,
) -> Blend | NoBlend:
    """Return the models beside the network with their weights, or why they do not count.

    Whether they help is asked by cross-fitting: each row is scored with weights that others gave, of which none has its
    text.
    """
    task = data.task
    if isinstance(beside, NoBlend):
        return beside
    if isinstance(beside, Continued):
        return beside.scaled(task, rows)
    if rows is None or not rows.others or task.proper_score(rows.neural, rows.labels) is None:
        return NoBlend(reason="score", detail=task.kind)
    if not training.wants_blend:
        if len(rows.labels) < _FEWEST:
            return NoBlend(reason="few-rows", detail=f"{len(rows.labels)} of at least {_FEWEST}")
        found = cross_fitted(task, rows, is_calibrated=_is_calibrated(training, task))
        if found is None or not found.is_better:
            return NoBlend(reason="no-gain", detail="" if found is None else str(found))
    weights = fit_weights(task, [rows.neural, *rows.others], rows.labels, rows=rows.independent)
    neural_weight, linear_weight, trees_weight = (*weights, 0.0)[:3]
    if not (linear_weight or trees_weight):
        return NoBlend(reason="weight")
    linear, train = beside.linear, data.splits["train"].at_most(BASELINE_ROWS)
    features = linear.features
    assert isinstance(features, LinearFeatures)
    owners = owners_of_words(features, training.data.text.read_all(train.table), train.ids(model.input_schema))
    return Blend(
        features=replace(features, schema=model.input_schema),
        weight=linear.weight,
        bias=linear.bias,
        neural_weight=neural_weight,
        linear_weight=linear_weight,
        owners=owners,
        trees_weight=trees_weight,
        trees=beside.trees if trees_weight else None,
    )


@dataclass(frozen=True, kw_only=True)
class Gain:
    """What the models beside a network change in the proper score of rows whose weights others gave."""

    metric: str
    difference: float

    @property
    def is_better(self) -> bool:
        """Whether they improve it, by however little: the weights are shrunk already, and rows are few."""
        return self.difference > 0 if metric_info(self.metric).higher_is_better else self.difference < 0

    def __str__(self) -> str:
        return f"{self.metric} {self.difference:+.4f}"


def cross_fitted(task: Task, rows: UnreadRows, *, is_calibrated: bool) -> Gain | None:
    """Compare weights that rows of other texts gave with the network alone; None for too few texts."""
    _, groups = np.unique(rows.texts, return_inverse=True)
    fold = np.random.default_rng(0).permutation(groups.max() + 1)[groups] % _FOLDS
    models, labels, share = np.stack([rows.neural, *rows.others]), rows.labels, rows.independent / len(rows.labels)
    neural = models[0]
    blended, alone = np.zeros_like(neural, dtype=np.float64), np.zeros_like(neural, dtype=np.float64)
    for number in range(_FOLDS):
        rest, own = fold != number, fold == number
        if not (rest.any() and own.any()):
            return None
        count = share * int(rest.sum())
        weights = fit_weights(task, models[:, rest], labels[rest], rows=count)
        blended[own] = np.tensordot(weights, models[:, own], axes=1)
        temperature = fit_temperature(task, neural[rest], labels[rest], rows=count) if is_calibrated else None
        alone[own] = neural[own] / (temperature or 1.0)
    first, second = (task.proper_score(logits, labels) for logits in (blended, alone))
    assert first is not None
    assert second is not None
    return Gain(metric=first.name, difference=first.value() - second.value())

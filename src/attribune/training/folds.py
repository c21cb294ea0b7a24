"""Cross-validation inside a run: each row is scored by a model that has not read it, and the intervals are of all rows.

Each fold is a training of its own, from the vocabulary of its attributes to its temperature, so that a row tells
nothing to the model by which it is scored.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from datasets import concatenate_datasets
from safetensors.numpy import load_file

from attribune.core.arrays import Array, IntArray
from attribune.core.progress import Reporter
from attribune.data.clusters import ROWS, find_clusters
from attribune.data.splits import fold_numbers, split_table
from attribune.data.texts import text_digests
from attribune.metrics.formulas import pooled
from attribune.metrics.metric import Metric
from attribune.metrics.results import HiddenAttributes, Scored
from attribune.models.base import ConditionedModel
from attribune.models.predictor import Predictor
from attribune.models.table_scores import TableScores
from attribune.runs.folder import RunFolder
from attribune.runs.hidden_attributes import HidingRows, known_values
from attribune.runs.stored_scores import HIDDEN_LOGITS, LOGITS, NETWORK_LOGITS, network_logits
from attribune.runs.verdict import NOT_BLENDED
from attribune.training.blending import UnreadRows, fit_on_unread, models_beside, reads_unread_rows
from attribune.training.plan import DataPlan, TrainingPlan
from attribune.training.preparation import PreparedData, PreparedSplit, all_classes, prepare
from attribune.training.scoring import write_predictions

_PART = "test"
"""The part in which each fold has its rows, and the run those of all folds."""


def prepare_folds(plan: DataPlan, data: PreparedData) -> tuple[PreparedData, ...]:
    """Divide the rows of a run into folds, each with training, validation and test rows of its own.

    Args:
        data: the rows on which the model of the run is trained, those by which its weights are chosen, and the number
            of folds.

    Raises:
        DataError: for fewer texts or groups than folds.
    """
    whole, split = joined_split([data.splits["train"], data.splits["validation"]]), plan.source.split
    column = split.column if split.by == "group" else None
    folds = fold_numbers(whole.table, data.fold_count, text=plan.source.texts, seed=split.seed, column=column)
    clusters = find_clusters(whole.table, plan.clusters)
    alone = split.model_copy(update={"folds": 0})
    plan = replace(
        plan,
        source=plan.source.model_copy(update={"split": alone}),
        clusters=replace(plan.clusters, cluster=tuple(clusters) or ROWS),
    )
    return tuple(_fold(plan, whole, np.flatnonzero(folds == number)) for number in range(data.fold_count))


def _fold(plan: DataPlan, whole: PreparedSplit, test: IntArray) -> PreparedData:
    """Prepare one fold, whose row numbers are those of the whole table."""
    split = plan.source.split
    is_rest = np.ones(len(whole.rows), dtype=bool)
    is_rest[test] = False
    if split.by == "group" and not split.shared_texts:
        texts = text_digests(whole.table, plan.source.texts)
        scored = {texts[row] for row in test} - {None}
        is_rest &= [text not in scored for text in texts]
    rest = np.flatnonzero(is_rest)
    train, validation = split.fractions[0], split.fractions[1]
    cut = split_table(
        whole.table.select(rest),
        text=plan.source.texts,
        seed=split.seed,
        fractions=(train / (train + validation), validation / (train + validation), 0.0),
        by=split.by,
        column=split.column,
        shared_texts=split.shared_texts,
    )
    index = {"train": rest[cut.rows[0]], "validation": rest[cut.rows[1]], _PART: test}
    tables = {name: whole.table.select(rows) for name, rows in index.items()}
    options = dict(plan.task_options)
    if not plan.transfer:  # else the classes are those of the model that is trained further
        options |= all_classes(plan, tables)
    data = prepare(replace(plan, task_options=options), tables)
    rows = {name: whole.rows[index[name][part.rows]] for name, part in data.splits.items()}
    return replace(data, splits={name: replace(part, rows=rows[name]) for name, part in data.splits.items()})


def joined_split(parts: Sequence[PreparedSplit]) -> PreparedSplit:
    """Return the rows of several parts in the order of their numbers, without weights and clusters."""
    rows = np.concatenate([part.rows for part in parts])
    order = np.argsort(rows, kind="stable")
    unshuffled = [part.unshuffled for part in parts if part.unshuffled is not None]
    joined = PreparedSplit(
        table=concatenate_datasets([part.table for part in parts]),
        rows=rows,
        labels=np.concatenate([part.labels for part in parts]),
        clusters={name: np.concatenate([part.clusters[name] for part in parts]) for name in parts[0].clusters},
        unshuffled=concatenate_datasets(unshuffled) if unshuffled else None,
    )
    return joined.chosen(order)


def join_predictions(folder: RunFolder, runs: Sequence[RunFolder], data: PreparedData, plan: DataPlan) -> None:
    """Write the predictions of the rows of all folds, which the runs of these have stored.

    Args:
        folder: of the run.
        data: its rows, with the folds.
    """
    split = joined_split([fold.splits[_PART] for fold in data.folds])
    order = np.argsort(np.concatenate([fold.splits[_PART].rows for fold in data.folds]), kind="stable")
    stored = [data.task.codec.unpacked(load_file(str(run.checked(run.logits(_PART))))) for run in runs]
    logits = {
        name: np.concatenate([arrays[name] for arrays in stored])[order]
        for name in (LOGITS, HIDDEN_LOGITS)
        if all(name in arrays for arrays in stored)
    }
    if any(NETWORK_LOGITS in arrays for arrays in stored):
        logits[NETWORK_LOGITS] = np.concatenate([network_logits(arrays) for arrays in stored])[order]
    write_predictions(folder, _PART, split, logits, task=data.task, schema=data.schema, columns=plan.true_columns)


def without_validation(fold: PreparedData) -> PreparedData:
    """Return a fold without the rows that chose the weights of its model, which no figure of the run is about."""
    return replace(fold, splits={name: split for name, split in fold.splits.items() if name != "validation"})


def fit_out_of_fold(
    plan: TrainingPlan,
    predictor: Predictor,
    scores: Sequence[TableScores],
    data: PreparedData,
    reporter: Reporter,
) -> dict[str, Any]:
    """Fit temperature and blend of each network: of one of a fold on the rows of the others, of the saved one on all.

    Args:
        predictor: of the network that is saved.
        scores: of the rows of the folds.

    Returns:
        What the record of the training says of it.
    """
    networks = [_network(one.predictor) for one in scores]
    beside = [models_beside(model, fold, plan, {}) for model, fold in zip(networks, data.folds, strict=True)]
    rows: list[UnreadRows] = []
    if reads_unread_rows(plan, data.task):
        for one, model, fold, own in zip(scores, networks, data.folds, beside, strict=True):
            rows.append(UnreadRows.of(fold.splits[_PART], plan.data, model, one.logits(), own))
    for number, (model, fold, own) in enumerate(zip(networks, data.folds, beside, strict=True)):
        others = UnreadRows.joined([*rows[:number], *rows[number + 1 :]]) if rows else None
        fit_on_unread(model, fold, plan, others, beside=own, reporter=Reporter())
    saved, all_rows = _network(predictor), UnreadRows.joined(rows) if rows else None
    own = models_beside(saved, data, plan, {})
    return fit_on_unread(saved, data, plan, all_rows, beside=own, reporter=reporter)


def _network(predictor: Predictor) -> ConditionedModel:
    assert isinstance(predictor.model, ConditionedModel)
    return predictor.model


def hidden_in_folds(scores: Sequence[TableScores], data: PreparedData) -> HiddenAttributes:
    """Return what the attributes change over the rows of all folds, each scored by the model of its fold."""
    splits = [fold.splits[_PART] for fold in data.folds]

    def logits(names: Sequence[str] = ()) -> Array:
        return np.concatenate([one.logits(names or False) for one in scores])

    schemas = [one.predictor.schema for one in scores]
    known = [known_values(schema, schema.encode(split.table)[0]) for schema, split in zip(schemas, splits, strict=True)]
    rows = HidingRows(
        task=data.task,
        known={name: np.concatenate([fold[name] for fold in known]) for name in data.schema.sources},
        labels=np.concatenate([split.labels for split in splits]),
        clusters={name: np.concatenate([split.clusters[name] for split in splits]) for name in splits[0].clusters},
        logits=logits(),
        hide=logits,
    )
    return rows.effects()


def scored_rows(data: PreparedData) -> dict[str, int]:
    """Return the number of rows of each part on which a run is trained or scored."""
    if not data.folds:
        return {name: len(split.rows) for name, split in data.splits.items()}
    return {"train": len(data.splits["train"].rows), _PART: sum(len(fold.splits[_PART].rows) for fold in data.folds)}


def pooled_scores(folds: Sequence[Sequence[Scored]]) -> list[Scored]:
    """Return the scores of models over the rows of all folds; a model that a fold lacks is left out.

    Where simple models count beside the network in some folds, the network of the others is the model alone.
    """
    named = [{one.name: one for one in fold} for fold in folds]
    names = list(dict.fromkeys(name for fold in named for name in fold))
    pools = [[fold.get(name, fold.get(name.removesuffix(NOT_BLENDED))) for fold in named] for name in names]
    found = []
    for name, pool in zip(names, pools, strict=True):
        models = [one for one in pool if one is not None]
        if len(models) == len(folds):
            found.append(_pooled(name, models))
    return found


def _pooled(name: str, models: Sequence[Scored]) -> Scored:
    """Return the scores of one model over the rows of all folds."""
    first = models[0]
    rows = [len(next(iter(one.metrics[_PART].values()))) for one in models]
    uncalibrated = [one.uncalibrated.get(_PART) for one in models]
    known = [value for value in uncalibrated if value is not None]
    return Scored(
        name=name,
        condition=first.condition,
        metrics={_PART: _pooled_metrics([one.metrics[_PART] for one in models])},
        judgements={_PART: _pooled_metrics([one.judgements.get(_PART, {}) for one in models])},
        counts={
            _PART: {
                attribute: np.concatenate([one.counts[_PART][attribute] for one in models])
                for attribute in first.counts.get(_PART, {})
                if all(attribute in one.counts.get(_PART, {}) for one in models)
            }
        },
        proper=_pooled_metrics([one.proper for one in models]),
        uncalibrated={_PART: float(np.average(known, weights=rows))} if len(known) == len(models) else {},
    )


def _pooled_metrics(folds: Sequence[Mapping[str, Metric]]) -> dict[str, Metric]:
    return {name: pooled([fold[name] for fold in folds]) for name in folds[0] if all(name in fold for fold in folds)}

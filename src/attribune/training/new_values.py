"""What a trained model learns at the end for values that it has not seen: the weight of their prior, and encoders."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from attribune.core.progress import Reporter
from attribune.data.readers.base import EncodedRows
from attribune.errors import ConfigError
from attribune.models.base import ConditionedModel
from attribune.runs.recipe import TrainingRecipe
from attribune.tasks.capabilities import VALUE_PRIORS, can
from attribune.training.plan import DataPlan
from attribune.training.preparation import PreparedData, PreparedSplit, encode_labelled
from attribune.training.set_encoders import can_encode_sets, learn_set_encoder
from attribune.training.value_priors import learn_value_priors

__all__ = ["check_set_encoders", "prepare_new_values"]

_log = logging.getLogger(__name__)
_MANY_ROWS = 500  # from which on it takes some seconds
Run = Callable[[], AbstractContextManager[Any]]


def check_set_encoders(model: ConditionedModel, settings: TrainingRecipe) -> None:
    """Refuse to train encoders of new values for a model that can have none, before its training.

    Raises:
        ConfigError: naming method and task.
    """
    if settings.set_encoders and not any(can_encode_sets(model, attribute) for attribute in model.schema):
        raise ConfigError(
            f"training.set_encoders is on, but with method {model.method_config.name!r} and task "
            f"{model.task.kind!r} no attribute has vectors that could be encoded from rows: turn it off"
        )


def prepare_new_values(
    model: ConditionedModel,
    data: PreparedData,
    source: DataPlan,
    settings: TrainingRecipe,
    reporter: Reporter,
    *,
    run: Run,
) -> float:
    """Learn how far new values are from the unknown one, and encoders where the recipe has them.

    Args:
        run: makes the context of a forward pass.

    Returns:
        The seconds that the encoders took.
    """
    if not (can(model.task, VALUE_PRIORS) and model.rows_of_values()):
        return 0.0
    size, started = min(32, settings.batch_size), time.perf_counter()
    split = _Split.of(data.splits["validation"], source, model)
    if len(split.ids) > _MANY_ROWS:
        reporter.note("learning from validation rows how far the vectors of new values may be from the others")
    try:
        priors = learn_value_priors(model, split.rows, split.ids, run=run, batch_size=size)
        model.config.value_priors = priors or None
    except RuntimeError as error:  # of torch: memory, or an operation without derivatives
        reporter.note(f"the prior of new values was not learned, and will have a typical weight ({error!s:.200})")
    _log.info("priors of new values learned in %.1f s: %s", time.perf_counter() - started, model.config.value_priors)
    if not settings.set_encoders:
        return 0.0
    started, split = time.perf_counter(), _Split.of(data.splits["train"], source, model)
    for attribute in model.schema:
        if can_encode_sets(model, attribute):
            try:
                with reporter.training():
                    found = learn_set_encoder(
                        model, attribute, split.rows, split.ids, run=run, seed=settings.seed, batch_size=size
                    )
                what = "not trained, since too few values have two rows" if found is None else str(found)
            except RuntimeError as error:  # as above: the model is trained, and must not be lost
                what = f"not trained ({error!s:.200})"
            reporter.note(f"encoder of new values of {attribute.name!r}: {what}")
    return time.perf_counter() - started


@dataclass(frozen=True)
class _Split:
    """The attribute ids (n, slots) of a split, and what encodes some of its rows, by their indices."""

    ids: npt.NDArray[np.int64]
    rows: Callable[[npt.NDArray[np.int64]], EncodedRows]

    @classmethod
    def of(cls, split: PreparedSplit, source: DataPlan, model: ConditionedModel) -> Self:
        return cls(model.schema.encode(split.table)[0], partial(_encoded, split, source, model))


def _encoded(
    split: PreparedSplit, source: DataPlan, model: ConditionedModel, index: npt.NDArray[np.int64]
) -> EncodedRows:
    chosen = replace(split, table=split.table.select(index), rows=split.rows[index], labels=split.labels[index])
    return encode_labelled(chosen, source, model)

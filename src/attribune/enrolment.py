"""Values that a trained model has not seen: their vectors are learned from a few rows, and nothing else changes.

The vector z of a new value is the maximum of its posterior: the rows' likelihood, and as prior a normal distribution
around the vector of the unknown, each dimension with the spread that the vectors of training have around it. One row
moves it little, many rows as far as they say. Old values keep their ids and vectors, so that predictions for them are
the same to the bit.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from datasets import Dataset
from torch import Tensor, nn

from attribune.conditioned import ConditionedModel
from attribune.data.encoding import encode_rows
from attribune.data.selection import rows_with_text
from attribune.data.tables import read_table, require_columns, table_source_name
from attribune.errors import ConfigError, DataError, numbered_in_file
from attribune.json_file import read_json, write_json
from attribune.loading import load_model, model_class
from attribune.methods.base import AttributeMethod
from attribune.methods.linear import LinearModel
from attribune.recipe import Recipe
from attribune.saving import find_model, read_config
from attribune.schema import Schema
from attribune.schema.columns import column_batches
from attribune.schema.revision import Revision, check_listed
from attribune.training.folder import RunFolder, load_run
from attribune.training.progress import Reporter

__all__ = ["ENROLMENTS", "EnrolSettings", "Enrolled", "Enrolment", "enrol", "enrolments", "undo_enrolment"]

ENROLMENTS = "enrolments.json"
"""In a model's folder, the values that were added after training."""


@dataclass(frozen=True, kw_only=True)
class EnrolSettings:
    """How the vectors of new values are found.

    Args:
        steps: of Adam over all rows.
        rate: of a step, in spreads of the prior.
        prior: weight of the prior; 0 fits the rows alone.
        min_rows: of a value; those with fewer stay unknown.
        batch_size: rows in one pass.
    """

    steps: int = 40
    rate: float = 0.1
    prior: float = 1.0
    min_rows: int = 1
    batch_size: int = 32

    def __post_init__(self) -> None:
        for name in ("steps", "min_rows", "batch_size"):
            if getattr(self, name) < 1:
                raise ConfigError(f"{name} is {getattr(self, name)}: give at least 1")
        if not self.rate > 0 or not self.prior >= 0:
            raise ConfigError(
                f"rate is {self.rate} and prior {self.prior}: give a rate above 0 and a prior of 0 or more"
            )


@dataclass(frozen=True, kw_only=True)
class Enrolled:
    """A value that was added.

    Args:
        attribute: of which.
        value: as text.
        rows: that it was learned from.
        loss_before: of these rows with the value unknown, on average.
        loss_after: of these rows with the value known. They taught it: rows that come later will do less well.
    """

    attribute: str
    value: str
    rows: int
    loss_before: float
    loss_after: float


@dataclass(frozen=True, kw_only=True)
class Enrolment:
    """What `enrol` did.

    Args:
        values: that were added.
        skipped: new values with too few rows, by attribute.
        seconds: for learning.
    """

    values: tuple[Enrolled, ...]
    skipped: Mapping[str, int]
    seconds: float


def enrol(
    run: str | Path,
    data: Any,
    *,
    attributes: Sequence[str] | None = None,
    settings: EnrolSettings | None = None,
    backbone: str | None = None,
    encoding: str | None = None,
    reporter: Reporter | None = None,
) -> Enrolment:
    """Add the values of new rows that a run has not seen; the run's model is replaced when all is done.

    Args:
        run: folder of a finished run.
        data: anything `read_table` takes, with the run's columns and labels; rows without a new value teach nothing.
        attributes: whose values are added; all with a list of values unless given.
        settings: how.
        backbone: where the backbone's weights are, if no longer where they were.
        encoding: of the file.
        reporter: is told of every pass over the rows.

    Raises:
        ConfigError: for a run whose method has no vectors of values, or an attribute that has no list of them.
        DataError: naming file, row or column and the cure, or when the rows have no new value.
        ModelFolderError: when the model cannot be read or written; the earlier one is still whole.
    """
    settings, reporter = settings or EnrolSettings(), reporter or Reporter()
    folder = RunFolder(Path(run))
    recipe, predictor = load_run(run, backbone=backbone)
    if isinstance(predictor.model, LinearModel) or not predictor.model.rows_of_values():
        raise ConfigError(
            f"method {recipe.method['name']!r} has no vector for each value: new values need a training with them"
        )
    rows = _labelled_rows(recipe, predictor.task, predictor.schema, data, encoding)
    counts, skipped = _new_values(rows, predictor.schema, attributes, settings.min_rows)
    if not any(counts.values()):
        few = sum(skipped.values())
        rare = f" with {settings.min_rows} rows or more ({few:,} have fewer)" if few else ""
        raise DataError(f"{table_source_name(data)}: its {len(rows):,} rows with labels have no new value{rare}")
    model = _with_values(folder, counts, backbone=backbone)
    started = time.perf_counter()
    values = _Learner(model, recipe, rows, counts, settings).learn(reporter)
    enrolment = Enrolment(values=values, skipped=skipped, seconds=time.perf_counter() - started)
    record = [*enrolments(folder.path), [asdict(value) for value in values]]
    folder.replace_model(lambda draft: _save(model, draft, record))
    return enrolment


def enrolments(run: str | Path) -> list[list[dict[str, Any]]]:
    """What was added to a run since its training: for each time the values, as `Enrolled` has them.

    Raises:
        ModelFolderError: for a record that is damaged.
    """
    path = RunFolder(Path(run)).model / ENROLMENTS
    return list(read_json(path, what="record of added values")) if path.is_file() else []


def undo_enrolment(run: str | Path, *, backbone: str | None = None) -> list[dict[str, Any]]:
    """Take the values that were added last away again; the model is then what it was, to the bit.

    Args:
        run: folder of a finished run.
        backbone: where the backbone's weights are, if no longer where they were.

    Returns:
        The values.

    Raises:
        ConfigError: when there is nothing to undo.
        ModelFolderError: when the model cannot be read or written; the earlier one is still whole.
    """
    folder = RunFolder(Path(run))
    folder.read_recipe()
    folder.recover_model()
    record = enrolments(run)
    if not record:
        raise ConfigError(f"{run} has no values that were added after training: there is nothing to undo")
    last = record.pop()
    gone: dict[str, tuple[str, ...]] = {}
    for value in last:
        gone[value["attribute"]] = (*gone.get(value["attribute"], ()), value["value"])
    model = _revised(folder, lambda schema: Revision.taking_back(schema, gone), backbone=backbone)
    folder.replace_model(lambda draft: _save(model, draft, record))
    return last


def _revised(folder: RunFolder, change: Any, *, backbone: str | None) -> ConditionedModel:
    kind = model_class(read_config(find_model(folder.model)))
    return kind.revised(folder.model, change, backbone=backbone)


def _save(model: ConditionedModel, folder: Path, record: list[Any]) -> None:
    model.save_pretrained(folder)
    if record:
        write_json(folder / ENROLMENTS, record, what="record of added values")

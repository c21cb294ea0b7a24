"""A finished run in memory: values are added to it, and taken away, while its model predicts.

    run = LiveRun.open("runs/stars")
    run.add([run.learn("user", "u99", table)])
    run.predictor.predict(rows)

Vectors are learned as `attribune.values.enrol` learns them, on a twin of the model over the same tensors: nothing
changes for the model until they are in the folder of the run.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import isfinite
from pathlib import Path
from typing import Any, Protocol, Self, TypeVar

import torch
from torch import Tensor

from attribune.core.progress import Reporter
from attribune.data.clusters import ROWS
from attribune.errors import ConfigError, DataError, ModelFolderError
from attribune.models.base import ConditionedModel
from attribune.models.folder import ModelSnapshot
from attribune.models.predictor import Predictor
from attribune.models.value_tables import KnownValues
from attribune.runs.folder import RunFolder
from attribune.runs.labelled import LabelledRows
from attribune.runs.loading import load_run
from attribune.runs.recipe import Recipe
from attribune.schema.columns import canonical
from attribune.schema.schema import Revision, check_listed
from attribune.tasks.capabilities import LIVE, require
from attribune.values.enrol import check_takes_values
from attribune.values.forget import Forgotten, forget
from attribune.values.learning import EnrolSettings, ValueLearner
from attribune.values.reading import NewValues
from attribune.values.record import Change, Enrolled, Record, enrolments, replace_with, revise_run

Result = TypeVar("Result")


class Compute(Protocol):
    """Calls a function on the thread that has a model, and returns its result."""

    def __call__(self, function: Callable[[], Result], /) -> Result:
        """Call a function."""
        ...


def _here(function: Callable[[], Result], /) -> Result:
    return function()


@dataclass(frozen=True, kw_only=True)
class LearnedValue:
    """A value that is not yet part of a run.

    Attributes:
        vectors: its row of each table, by the name of the parameter.
        seconds: of learning.
    """

    enrolled: Enrolled
    vectors: Mapping[str, Tensor]
    seconds: float


class LiveRun:
    """A finished run with its model in memory.

    Attributes:
        refusal: why no value can be learned, if so; values can still be removed.
        compute: runs a function that reads or changes the model on the model's thread; at first where it is called.

    Args:
        path: the folder.
        mark: `RunFolder.model_mark` from before the model was loaded, so that no other model is ever replaced.
        backbone: new location of the backbone's weights, if they were moved.

    Raises:
        ConfigError: for a run whose values can neither be added nor removed in memory.
        ModelFolderError: for a run that is not finished, or with links in its folder.
    """

    def __init__(
        self,
        path: str | Path,
        recipe: Recipe,
        predictor: Predictor,
        *,
        mark: Any,
        backbone: str | Path | None = None,
    ) -> None:
        refusal = (
            f"method {recipe.method['name']!r} has no vector for each value that could change in memory: use "
            "`attribune enrol` and `attribune forget`, and load the run again"
        )
        model: ConditionedModel = predictor.model.neural(refusal)
        if model.memory is not None:
            raise ConfigError(refusal)
        self.folder, self.recipe, self.predictor = RunFolder.of(path), recipe, predictor
        self.folder.refuse_links()
        self.folder.read_results()
        # Clusters are for intervals of metrics, and the column that names them may be missing here.
        evaluation = recipe.evaluation.model_copy(update={"cluster": ROWS})
        self._reading = recipe.model_copy(update={"evaluation": evaluation})
        self._model, self._backbone, self._mark = model, backbone, mark
        self.compute: Compute = _here
        self.refusal: str | None = None
        try:
            self._check_learns()
            self._twin = predictor.twin()
        except ConfigError as error:
            self.refusal = str(error)

    @classmethod
    def open(cls, path: str | Path, *, backbone: str | Path | None = None) -> Self:
        """Load a run; errors are those of `load_run` and of the class."""
        folder = RunFolder.of(path)
        folder.complete_model()
        mark = folder.model_mark
        recipe, predictor = load_run(path, backbone=backbone)
        return cls(path, recipe, predictor, mark=mark, backbone=backbone)

    def _check_learns(self) -> None:
        recipe = self.recipe
        check_takes_values(recipe, self.predictor)
        require(self.predictor.task, LIVE)
        if len(recipe.label_columns) != 1:
            raise ConfigError(f"the labels are in {len(recipe.label_columns)} columns: use `attribune enrol`")
        if recipe.data.shuffled:
            raise ConfigError("the attributes of this run are shuffled, as a control: add values to the run itself")
        if self._model.dtype != torch.float32:
            raise ConfigError(f"the weights are {self._model.dtype} in memory: load the run in float32")

    def learn(
        self,
        attribute: str,
        value: str,
        data: Any,
        *,
        settings: EnrolSettings | None = None,
        pause: Callable[[], None] = lambda: None,
    ) -> LearnedValue:
        """Learn the vectors of a new value without changing the model.

        Args:
            value: the value, as the vocabulary would store it.
            data: anything `read_table` takes, with the run's columns and labels; rows without the value are ignored.
            pause: called before every batch, so that others can be served; what it raises ends the learning.

        Raises:
            ConfigError: for a run that learns no values, or an attribute without a list of values.
            DataError: for rows that cannot be used, or without the value, or for a value that is known already.
        """
        if self.refusal is not None:
            raise ConfigError(self.refusal)
        started, settings = time.perf_counter(), settings or EnrolSettings()
        schema = self.predictor.schema
        check_listed(schema[attribute])
        value = canonical(value) or value
        if value in schema[attribute].values:
            raise DataError(f"attribute {attribute!r} has the value {value!r} already")
        rows = LabelledRows.read(self._reading, self.predictor, data).learnable()
        new = NewValues(counts={}).with_rows(rows, schema, [attribute], min_rows=settings.min_rows)
        counts = {name: count for name, count in new.counts[attribute].items() if name == value}
        new = replace(new, counts={attribute: counts})
        new.check(schema, min_rows=settings.min_rows, source=f"{rows.source}: its rows have not the value {value!r}, ")
        twin = self._twin.model
        twin.values.use(self._model.values.known().revised(new.revision(schema)))
        (enrolled,) = ValueLearner(self._twin, rows, new, settings, pause=pause).learn(Reporter())
        tables = twin.values.known().tables
        vectors = {name: tables[name][-1].clone() for name in twin.values.names(attribute)}
        losses = (enrolled.loss_before, enrolled.loss_after)
        if any(loss is None or not isfinite(loss) for loss in losses) or not all(
            bool(vector.isfinite().all()) for vector in vectors.values()
        ):
            raise DataError(f"{rows.source}: no finite vectors of {value!r} can be learned from its rows: give others")
        return LearnedValue(enrolled=enrolled, vectors=vectors, seconds=time.perf_counter() - started)

    def add(self, values: Sequence[LearnedValue]) -> None:
        """Add values that were learned, to the folder and then to the model in memory: to both, or to none.

        Raises:
            ConfigError: for a value that is known already, or given twice.
            HeldError: when another process works in the folder.
            ModelFolderError: when it cannot be written, or was changed since the run was loaded.
        """
        counts: dict[str, dict[str, int]] = {}
        for one in values:
            own = counts.setdefault(one.enrolled.attribute, {})
            if one.enrolled.value in own:
                raise ConfigError(f"the value {one.enrolled.value!r} of {one.enrolled.attribute!r} is given twice")
            own[one.enrolled.value] = one.enrolled.rows

        def grown() -> tuple[KnownValues, ModelSnapshot]:
            known = self._model.values.known()
            known = known.revised(Revision.adding(known.schema, counts))
            for one in values:
                number = known.schema[one.enrolled.attribute].values.ids([one.enrolled.value])[0]
                for name, vector in one.vectors.items():
                    known.tables[name][int(number)] = vector
            return known, self._model.snapshot(known=known)

        with self.folder.changed():
            record = [*enrolments(self.folder.path), *([one.enrolled] for one in values)]
            self._replace(grown, record, adds=True)

    def remove(self, attribute: str, value: str) -> Forgotten:
        """Remove a value from the run as `forget` does, and from the model in memory.

        Raises:
            HeldError: when another process works in the folder.
            ConfigError: for an attribute without a vocabulary, or a value that is nowhere in the run.
            ModelFolderError: when a model cannot be read or written, or was changed since the run was loaded.
        """

        def replace_model(folder: RunFolder, change: Change, record: Record) -> None:
            if folder.path != self.folder.path:
                revise_run(folder, change, record, backbone=self._backbone)
                return

            def shrunk() -> tuple[KnownValues, ModelSnapshot]:
                known = self._model.values.known()
                known = known.revised(change(known.schema))
                return known, self._model.snapshot(known=known)

            self._replace(shrunk, record, adds=False)

        self._check_unchanged()
        return forget(self.folder.path, attribute, [value], backbone=self._backbone, replace=replace_model)

    def _check_unchanged(self) -> None:
        if self.folder.model_mark != self._mark:
            raise ModelFolderError(
                f"the model of {self.folder.path} was changed since it was loaded, by another command: load it again"
            )

    def _replace(self, revise: Callable[[], tuple[KnownValues, ModelSnapshot]], record: Record, *, adds: bool) -> None:
        """Replace the model of the folder, which is held, and the values that the model in memory knows."""
        self._check_unchanged()
        known, snapshot = self.compute(revise)
        replace_with(self.folder, snapshot, record)
        self._mark = self.folder.model_mark
        self.compute(lambda: self._model.values.use(known, adds=adds))

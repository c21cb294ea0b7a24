"""Enrolment of values that a trained model has not seen: their vectors are learned from a few rows.

The vector z of a new value is the maximum of its posterior: the rows' likelihood, with logits that are linear in z, and
as prior a normal distribution around the vector of unknown values, or what its description says. Its variance in each
dimension is that of the trained vectors around theirs, times a factor that was learned from the validation rows at the
end of the training (`attribune.values.posterior`).
Old values keep their ids and vectors, so that predictions for them are bit-identical.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from functools import partial
from pathlib import Path
from typing import Any, Unpack

import pandas as pd

from attribune.core.arguments import as_list, checked_arguments
from attribune.core.device import training_alone
from attribune.core.door import as_call, is_command_line
from attribune.core.progress import Reporter
from attribune.core.wording import counted, printable
from attribune.data.file_options import AS_FOUND, FileOptions, Reading
from attribune.data.tables import with_reading
from attribune.errors import ConfigError, numbered_in_file
from attribune.methods import DEFAULT_METHOD
from attribune.models.auto import revised_model
from attribune.models.base import ConditionedModel
from attribune.models.predictor import Predictor
from attribune.runs.folder import RunFolder
from attribune.runs.labelled import LabelledRows
from attribune.runs.loading import load_run, predictor_of
from attribune.runs.recipe import Recipe, ValuesRecipe
from attribune.schema import Schema, ValueTable
from attribune.schema.schema import Revision
from attribune.tasks.capabilities import ENROL, require
from attribune.values.learning import EnrolSettings, ValueLearner
from attribune.values.reading import NewValues, read_value_table
from attribune.values.record import Enrolled, enrolments, replace_with, revise_run, without

_SHOWN = 20  # values that are printed


@dataclass(frozen=True, kw_only=True, repr=False)
class Enrolment:
    """The result of `enrol`, printed as a table.

    Attributes:
        values: those that were added.
        skipped: number of new values with too few rows, by attribute.
        seconds: of learning.
        removed: the values that ``undo`` took away.
    """

    values: tuple[Enrolled, ...] = ()
    skipped: Mapping[str, int] = field(default_factory=dict)
    seconds: float = 0.0
    removed: tuple[Enrolled, ...] = ()

    def to_pandas(self) -> pd.DataFrame:
        """Return the values as a DataFrame, a row for each."""
        return pd.DataFrame([asdict(one) for one in self.values], columns=[one.name for one in fields(Enrolled)])

    def text(self) -> str:
        """Return the values that were added, or taken away, for a terminal."""
        shown = self.values or self.removed
        lines = [f"{'attribute':<16} {'value':<32} {'rows':>6}  loss of the network on these rows, before and after"]
        for value in shown[:_SHOWN]:
            losses = "" if value.loss_before is None else f"{value.loss_before:.3f}  {value.loss_after:.3f}"
            lines.append(f"{value.attribute:<16.16} {value.value:<32.32} {value.rows:>6,}  {losses}")
        if len(shown) > _SHOWN:
            lines.append(f"and {len(shown) - _SHOWN:,} more")
        return "\n".join(map(printable, lines))

    def notes(self) -> list[str]:
        """Return what else there is to say, in sentences."""
        if self.removed:
            return [f"{counted(len(self.removed), 'value')} removed; the model is as it was before"]
        return [
            f"attribute {name!r}: {count:,} new values have too few rows and stay unknown"
            for name, count in self.skipped.items()
            if count
        ]

    def __repr__(self) -> str:
        return "\n".join([self.text(), *map(printable, self.notes())])


@checked_arguments
def enrol(
    run: str | Path,
    data: Any = None,
    *,
    attributes: str | Sequence[str] | None = None,
    values: Mapping[str, Any] | None = None,
    min_rows: int = 1,
    steps: int = 20,
    prior: float = 1.0,
    undo: bool = False,
    backbone: str | Path | None = None,
    reporter: Reporter | None = None,
    **reading: Unpack[Reading],
) -> Enrolment:
    """Add values that a run has not seen, from a few rows; the same as ``attribune enrol``.

        enrol("runs/stars", new_rows).to_pandas()
        enrol("runs/stars", undo=True)

    The run's model is replaced at the end; predictions for known values stay the same to the bit.

    Args:
        run: folder of a finished run.
        data: anything `read_table` takes, with the run's columns and labels; rows without a new value are ignored.
        attributes: whose values are added; by default all that have a vocabulary.
        values: by attribute, a table that describes new values, as anything `read_table` takes; of those without rows
            the model knows what their descriptions say.
        min_rows: values with fewer rows stay unknown.
        undo: remove the values that were added last, and nothing else.
        backbone: new location of the backbone's weights, if they were moved.
        reporter: is notified of every pass over the rows.
        **reading: how files are read, as in `read_table`.

    Raises:
        ConfigError: for a run whose method has no vectors of values, an attribute without a vocabulary, or nothing to
            undo.
        DataError: naming file, row or column and the cure, or when there is no new value.
        ModelFolderError: when the model cannot be read or written; the earlier one is still complete.
    """
    if undo:
        if data is not None or attributes is not None or values is not None:
            raise ConfigError("undo removes the values that were added last: leave out data, attributes and values")
        return Enrolment(removed=_undone(run, backbone))
    settings = EnrolSettings(min_rows=min_rows, steps=steps, prior=prior)
    if data is None and not values:
        raise ConfigError("there is neither a table of rows nor one that describes values: give at least one")
    folder = RunFolder.of(run)
    folder.read_recipe()
    with training_alone(), folder.changed():
        recipe, predictor = load_run(folder.path, backbone=backbone)
        model, done = learn_values(
            recipe,
            predictor,
            data if data is None else with_reading(data, reading),
            partial(revised_model, folder.model, backbone=backbone),
            attributes=None if attributes is None else as_list(attributes),
            values=values or {},
            reading=FileOptions(**reading),
            backbone=backbone,
            settings=settings,
            reporter=reporter or Reporter(),
        )
        replace_with(folder, model, [*enrolments(folder.path), list(done.values)])
    return done


def learn_values(
    recipe: Recipe,
    predictor: Predictor,
    data: Any,
    revised: Callable[[Callable[[Schema], Revision]], ConditionedModel],
    *,
    attributes: Sequence[str] | None = None,
    values: Mapping[str, Any] | None = None,
    reading: FileOptions = AS_FOUND,
    backbone: str | Path | None = None,
    settings: EnrolSettings,
    reporter: Reporter,
) -> tuple[ConditionedModel, Enrolment]:
    """Return a model that knows new values beside those of a predictor, which stays as it is.

    Args:
        revised: loads the predictor's model with a revised schema.

    Arguments that are not described here, and errors, are those of `enrol`.
    """
    if predictor.model.memory is None:
        check_takes_values(recipe, predictor)
    else:
        attributes = [predictor.model.memory.attribute_among(attributes)]
    tables = _described_by(values or {}, recipe, predictor, reading=reading, backbone=backbone)
    rows = None if data is None else _labelled(recipe, predictor, data, reporter)
    new = _new_values(tables, rows, predictor, attributes, min_rows=settings.min_rows)
    model = revised(new.revision)
    started = time.perf_counter()
    if model.memory is not None and rows is not None:
        model.memory.to(predictor.device)
        with numbered_in_file(rows.numbers[new.rows], rows.source):
            model.memory = model.memory.added(
                rows.rows.select(new.rows),
                text=recipe.data.text_input(),
                labels=recipe.data.label,
                missing=recipe.missing_labels,
                first_id=predictor.schema[model.memory.attribute].size,  # known values keep the rows that they have
            )
    found = ValueLearner(predictor_of(recipe, model), rows, new, settings).learn(reporter)
    return model, Enrolment(values=tuple(found), skipped=new.skipped, seconds=time.perf_counter() - started)


def _new_values(
    tables: Mapping[str, ValueTable],
    rows: LabelledRows | None,
    predictor: Predictor,
    attributes: Sequence[str] | None,
    *,
    min_rows: int,
) -> NewValues:
    """Find the new values of tables that describe them, and of rows."""
    new = NewValues.described(tables, predictor.schema)
    shown = f"{', '.join(table.source for table in tables.values())}:"
    if rows is not None:
        new = new.with_rows(rows, predictor.schema, attributes, min_rows=min_rows)
        shown = f"{rows.source}: its {counted(len(rows.rows), 'row')} with labels have"
    new.check(predictor.schema, min_rows=min_rows, source=shown)
    return new


def check_takes_values(recipe: Recipe, predictor: Predictor) -> None:
    """Refuse methods to which no values can be added.

    Raises:
        ConfigError: saying why.
    """
    model = predictor.model
    command = f" ({as_call('train', **{'continue': ...})})" if is_command_line() else ""
    require(predictor.task, ENROL, cure=command)
    if recipe.learner.writes_values:
        raise ConfigError(
            f"method {recipe.method['name']!r} reads values as they are written, so that there is nothing to learn for "
            "a new one: predict with its name"
        )
    if not model.values.owners() and not model.values.described():
        raise ConfigError(
            f"method {recipe.method['name']!r} has no vector for each value: train again with the new values, or with "
            f"a method that has such vectors and can take new values later: {as_call('train', method=DEFAULT_METHOD)}"
        )
    if not model.values.are_apart():
        raise ConfigError(
            f"method {recipe.method['name']!r} reads the vectors of all values for each row, so that new ones would "
            "change what is predicted for the others: train again with the new rows"
        )


def _described_by(
    values: Mapping[str, Any],
    recipe: Recipe,
    predictor: Predictor,
    *,
    reading: FileOptions,
    backbone: str | Path | None,
) -> dict[str, ValueTable]:
    """Read tables of new values with the settings of the training."""
    tables = {}
    for name, data in values.items():
        if predictor.schema[name].description is None or not predictor.schema[name].spec.lists_values:
            raise ConfigError(
                f"the values of {name!r} were not described in training ({', '.join(recipe.data.values) or 'none'} "
                "were): give rows with labels instead"
            )
        trained = recipe.data.values.get(name, ValuesRecipe(table=name))
        tables[name] = read_value_table(
            trained, attribute=name, encoder=recipe.backbone, reading=reading, data=data, moved=backbone
        )
    return tables


def _labelled(recipe: Recipe, predictor: Predictor, data: Any, reporter: Reporter) -> LabelledRows:
    rows = LabelledRows.read(recipe, predictor, data)
    reporter.notes(rows.notes)
    return rows.learnable()


def _undone(run: str | Path, backbone: str | Path | None) -> tuple[Enrolled, ...]:
    """Remove the values that were added last, which restores the earlier model bit for bit; returns the values."""
    folder = RunFolder.of(run)
    folder.read_recipe()
    with folder.changed():
        record = enrolments(folder.path)
        if not record:
            raise ConfigError(f"{folder.path} has no values that were added after training: there is nothing to undo")
        last = record.pop()
        revise_run(folder, lambda schema: without(schema, last), record, backbone=backbone)
    return tuple(last)

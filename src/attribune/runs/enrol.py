"""Enrolment of values that a trained model has not seen: their vectors are learned from a few rows.

The vector z of a new value is the maximum of its posterior: the rows' likelihood, and as prior a normal distribution
around the vector of unknown values. Its variance in each dimension is that of the trained vectors around it, times a
factor that was learned from the validation rows at the end of the training (`attribune.training.value_priors`).
Old values keep their ids and vectors, so that predictions for them are bit-identical.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Annotated, Any, Self, cast

import numpy as np
import numpy.typing as npt
import torch
from pydantic import AfterValidator, ValidationInfo
from torch import nn

from attribune.core.config import checked_dataclass
from attribune.core.files import replace_file, write_json
from attribune.core.progress import Reporter
from attribune.core.records import read_record
from attribune.data.token_rows import windows_of
from attribune.errors import ConfigError, DataError, numbered_in_file
from attribune.methods.attribute_method import AttributeMethod
from attribune.models.base import ConditionedModel
from attribune.models.files import CARD
from attribune.models.predictor import Predictor
from attribune.runs.card import run_card
from attribune.runs.enrol_histories import add_histories, history_attribute
from attribune.runs.folder import RunFolder, load_run, predictor_of
from attribune.runs.labelled import LabelledRows
from attribune.runs.recipe import Recipe
from attribune.schema import Numeric, Schema
from attribune.schema.revision import Revision, check_listed
from attribune.tasks import TokenTask

__all__ = [
    "ENROLMENTS",
    "EnrolSettings",
    "Enrolled",
    "Enrolment",
    "enrol",
    "enrolments",
    "replace_with",
    "undo_enrolment",
    "value_spread",
]

ENROLMENTS = "enrolments.json"
"""The file in a model's folder that lists the values added after training."""
_LARGEST_PRIOR = 1e12  # with which new values stay where they start
_SPREAD_VALUES = 10_000  # number of the most frequent values, from whose vectors the prior's variance is computed


def _in_range(value: float, info: ValidationInfo) -> float:
    is_prior = info.field_name == "prior"
    good, cure = (
        (0 <= value <= _LARGEST_PRIOR, f"a number from 0 to {_LARGEST_PRIOR:g}")
        if is_prior
        else (value >= 1, "at least 1")
    )
    if not good:
        raise ConfigError(f"{info.field_name} is {value}: give {cure}")
    return value


Count = Annotated[int, AfterValidator(_in_range)]


@checked_dataclass(kw_only=True)
class EnrolSettings:
    """How the vectors of new values are learned.

    Args:
        steps: maximum number of L-BFGS steps; each takes about one forward and backward pass over all rows.
        prior: weight of the prior, 1 for the one that was learned; 0 fits the rows alone.
        min_rows: values with fewer rows stay unknown.
        batch_size: rows in one pass.
    """

    steps: Count = 20
    prior: Annotated[float, AfterValidator(_in_range)] = 1.0
    min_rows: Count = 1
    batch_size: Count = 32


@dataclass(frozen=True, kw_only=True)
class Enrolled:
    """A value that was added.

    Args:
        rows: number of rows from which it was learned.
        loss_before: mean loss of these rows with the value unknown.
        loss_after: mean loss of these rows with the value known; new rows will have a higher one.
    """

    attribute: str
    value: str
    rows: int
    loss_before: float
    loss_after: float


@dataclass(frozen=True, kw_only=True)
class Enrolment:
    """The result of `enrol`; `skipped` counts the new values with too few rows, by attribute."""

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
    """Add the values of new rows that a run has not seen; the run's model is replaced at the end.

    Args:
        run: folder of a finished run.
        data: anything `read_table` takes, with the run's columns and labels; rows without a new value are ignored.
        attributes: whose values are added; by default all that have a vocabulary.
        backbone: new location of the backbone's weights, if they were moved.
        reporter: is notified of every pass over the rows.

    Raises:
        ConfigError: for a run whose method has no vectors of values, or an attribute without a vocabulary.
        DataError: naming file, row or column and the cure, or when the rows have no new value.
        ModelFolderError: when the model cannot be read or written; the earlier one is still complete.
    """
    settings, reporter = settings or EnrolSettings(), reporter or Reporter()
    folder = RunFolder(Path(run))
    folder.read_recipe()
    with folder.held():
        return _enrol(folder, data, attributes, settings, backbone=backbone, encoding=encoding, reporter=reporter)


def _enrol(
    folder: RunFolder,
    data: Any,
    attributes: Sequence[str] | None,
    settings: EnrolSettings,
    *,
    backbone: str | None,
    encoding: str | None,
    reporter: Reporter,
) -> Enrolment:
    folder.recover_model()
    recipe, predictor = load_run(folder.path, backbone=backbone)
    if (name := history_attribute(predictor.model, attributes)) is not None:
        rows = _labelled(recipe, predictor, data, encoding, reporter)
        return _enrol_histories(folder, recipe, predictor, rows, name, settings)
    if not predictor.model.rows_of_values():
        raise ConfigError(
            f"method {recipe.method['name']!r} has no vector for each value: new values need a training with them"
        )
    modules = predictor.model.modules() if isinstance(predictor.model, nn.Module) else ()
    if any(isinstance(module, AttributeMethod) and module.reads_whole_tables for module in modules):
        raise ConfigError(
            f"method {recipe.method['name']!r} reads the vectors of all values for each row, so that new ones would "
            "change what is predicted for the others: train again with the new rows"
        )
    rows = _labelled(recipe, predictor, data, encoding, reporter)
    new = _NewValues.among(rows, predictor.schema, attributes, min_rows=settings.min_rows)
    model = folder.revised_model(lambda schema: Revision.adding(schema, new.counts), backbone=backbone)
    started = time.perf_counter()
    values = _Learner(predictor_of(recipe, model), rows, new, settings).learn(reporter)
    seconds = time.perf_counter() - started
    replace_with(folder, model, [*enrolments(folder.path), [asdict(value) for value in values]])
    return Enrolment(values=values, skipped=new.skipped, seconds=seconds)


def _labelled(
    recipe: Recipe, predictor: Predictor, data: Any, encoding: str | None, reporter: Reporter
) -> LabelledRows:
    rows = LabelledRows.read(recipe, predictor, data, encoding=encoding)
    for note in rows.notes:
        reporter.note(note)
    return rows


def _enrol_histories(
    folder: RunFolder, recipe: Recipe, predictor: Predictor, rows: LabelledRows, name: str, settings: EnrolSettings
) -> Enrolment:
    """Store the rows of new values with a model that reads histories, which learns nothing."""
    started = time.perf_counter()
    new = _NewValues.among(rows, predictor.schema, [name], min_rows=settings.min_rows)
    moved = cast(ConditionedModel, predictor.model).moved_backbone
    model = folder.revised_model(lambda schema: Revision.adding(schema, new.counts), backbone=moved)
    first_id = predictor.schema[name].size
    add_histories(model, rows, new.rows, recipe=recipe, first_id=first_id, device=predictor.device)
    values = _Learner(predictor_of(recipe, model), rows, new, settings).remember()
    replace_with(folder, model, [*enrolments(folder.path), [asdict(value) for value in values]])
    return Enrolment(values=values, skipped=new.skipped, seconds=time.perf_counter() - started)


def enrolments(run: str | Path) -> list[list[dict[str, Any]]]:
    """Return the values added to a run since its training: one list of `Enrolled` fields for each `enrol`.

    Raises:
        ModelFolderError: for a record that is damaged.
    """
    path = RunFolder(Path(run)).model / ENROLMENTS
    steps = read_record(path, list[list[Enrolled]], what="record of added values") if path.is_file() else []
    return [[asdict(value) for value in step] for step in steps]


def replace_with(folder: RunFolder, model: ConditionedModel, record: Sequence[Sequence[Mapping[str, Any]]]) -> None:
    """Replace a run's model by a revised one, with the run's card and the record of added values.

    Raises:
        ModelFolderError: when it cannot be written; the earlier model is still complete.
    """

    def save(draft: Path) -> None:
        model.save_pretrained(draft)
        if folder.is_finished:
            replace_file(draft / CARD, run_card(folder.read_recipe(), model.schema, folder.read_results()).encode())
        if record:
            write_json(draft / ENROLMENTS, record, what="record of added values")

    folder.replace_model(save)


def undo_enrolment(run: str | Path, *, backbone: str | None = None) -> list[dict[str, Any]]:
    """Remove the values that were added last, which restores the earlier model bit for bit; returns the values.

    Args:
        run: folder of a finished run.
        backbone: new location of the backbone's weights, if they were moved.

    Raises:
        ConfigError: when there is nothing to undo.
        ModelFolderError: when the model cannot be read or written; the earlier one is still complete.
    """
    folder = RunFolder(Path(run))
    folder.read_recipe()
    with folder.held():
        return _undo_enrolment(folder, backbone=backbone)


def _undo_enrolment(folder: RunFolder, *, backbone: str | None) -> list[dict[str, Any]]:
    folder.recover_model()
    record = enrolments(folder.path)
    if not record:
        raise ConfigError(f"{folder.path} has no values that were added after training: there is nothing to undo")
    last = record.pop()
    removed: dict[str, tuple[str, ...]] = {}
    for value in last:
        removed[value["attribute"]] = (*removed.get(value["attribute"], ()), value["value"])
    model = folder.revised_model(lambda schema: Revision.removing(schema, removed, count_rows=False), backbone=backbone)
    replace_with(folder, model, record)
    return last


@dataclass(frozen=True, kw_only=True)
class _NewValues:
    """Values that the schema lacks.

    Attributes:
        counts: number of rows of each value, by attribute.
        rows: indices of the rows with a new value.
        skipped: number of values with too few rows, by attribute.
    """

    counts: dict[str, dict[str, int]]
    rows: npt.NDArray[np.int64]
    skipped: dict[str, int]

    @classmethod
    def among(cls, rows: LabelledRows, schema: Schema, attributes: Sequence[str] | None, *, min_rows: int) -> Self:
        """Find the new values; DataError if there are none."""
        if attributes is None:
            attributes = [a.name for a in schema if not isinstance(a.spec, Numeric) and a.spec.unseen != "hash"]
        names = list(attributes)
        for name in names:
            check_listed(schema[name])
        with numbered_in_file(rows.numbers, rows.source):
            unknown = schema.unknown(rows.rows)
        counts: dict[str, dict[str, int]] = {}
        skipped: dict[str, int] = {}
        for name in names:
            seen = Counter(value for values in unknown[name] for value in set(values))
            counts[name] = {value: count for value, count in seen.most_common() if count >= min_rows}
            skipped[name] = len(seen) - len(counts[name])
        if not any(counts.values()):
            rare = f" with {min_rows} rows ({sum(skipped.values()):,} have fewer)" if any(skipped.values()) else ""
            raise DataError(f"{rows.source}: its {len(rows.rows):,} rows with labels have no new value{rare}")
        has_new = [
            any(value in counts[name] for name in names for value in unknown[name][row])
            for row in range(len(rows.rows))
        ]
        return cls(counts=counts, rows=np.flatnonzero(has_new), skipped=skipped)


def value_spread(parameter: nn.Parameter, *, known: int | None = None) -> torch.Tensor:
    """Return how far the vectors of the most frequent values are from the unknown one, root mean squares (...).

    Args:
        parameter: (ids, ...), a row for each id.
        known: number of the first ids that count; by default all.
    """
    rows = parameter.detach()
    seen = rows[1 : min(len(rows) if known is None else known, _SPREAD_VALUES)]
    return (seen - rows[0]).square().mean(dim=0).sqrt()


class _Table:
    """The rows of new values in one parameter: ``start + spread * change``, where only `change` is learned.

    Args:
        parameter: (ids, ...); the last `new` rows are those of the new values.
        prior: weight of the prior of `change`.
    """

    def __init__(self, parameter: nn.Parameter, new: int, *, prior: float) -> None:
        self.parameter, self.old, self.prior = parameter, len(parameter) - new, prior
        self.start = parameter.detach()[0].clone()
        self.spread = value_spread(parameter, known=self.old)
        self.change = torch.zeros_like(parameter.detach()[self.old :], requires_grad=True)

    def write(self) -> None:
        """Write the vectors into the table."""
        with torch.no_grad():
            self.parameter[self.old :] = self.start + self.spread * self.change

    def collect(self) -> None:
        """Add the gradient of the rows to that of `change`."""
        gradient, self.parameter.grad = self.parameter.grad, None
        assert gradient is not None
        assert self.change.grad is not None
        if gradient.is_sparse:
            gradient = gradient.coalesce()
            ids, rows = gradient.indices()[0], gradient.values()
            self.change.grad.index_add_(0, ids[ids >= self.old] - self.old, self.spread * rows[ids >= self.old])
        else:
            self.change.grad += self.spread * gradient[self.old :]


class _Learner:
    def __init__(self, predictor: Predictor, labelled: LabelledRows, new: _NewValues, settings: EnrolSettings) -> None:
        assert isinstance(predictor.model, ConditionedModel)
        self._model, self._settings, self._new = predictor.model, settings, new
        self._autocast = predictor.autocast
        self._model.requires_grad_(False)
        self._tables = [
            _Table(
                self._model.get_parameter(name),
                len(new.counts[attribute]),
                prior=settings.prior * (self._model.config.value_priors or {}).get(attribute, 1.0),
            )
            for name, attribute in self._model.rows_of_values().items()
            if new.counts.get(attribute)
        ]
        for table in self._tables:
            table.parameter.requires_grad_(True)
        for module in self._model.modules():
            if isinstance(module, AttributeMethod):
                module.sparse_gradients = True
        with numbered_in_file(labelled.numbers[new.rows], labelled.source):
            rows = predictor.encode(labelled.rows.select(new.rows))
        self._rows = rows if rows.labels is not None else replace(rows, labels=labelled.labels[new.rows])
        self._batches = list(self._row_batches(settings.batch_size))

    def _row_batches(self, size: int) -> Iterator[tuple[npt.NDArray[np.intp], dict[str, torch.Tensor]]]:
        """Cut the rows into batches, with the row of each entry: a row may have several windows."""
        if not isinstance(self._model.task, TokenTask):
            yield from self._model.batches(self._rows, size=size)
            return
        windows, _, owners = windows_of(self._rows, self._model.task)
        for index, batch in self._model.batches(windows, size=size):
            yield owners[index], batch

    def learn(self, reporter: Reporter) -> tuple[Enrolled, ...]:
        """Learn the vectors; returns the values with their losses."""
        steps, tables = self._settings.steps, self._tables
        changes = [table.change for table in tables]
        optimizer = torch.optim.LBFGS(changes, max_iter=steps, max_eval=2 * steps, line_search_fn="strong_wolfe")
        passes: list[npt.NDArray[np.float64]] = []

        def objective() -> float:
            passes.append(self._gradients())
            reporter.step(done=min(len(passes), steps), loss=float(passes[-1].mean()))
            squares = sum(table.prior * float(table.change.detach().square().sum()) for table in tables)
            return float(passes[-1].sum()) + squares / 2

        with reporter.training():
            reporter.started(done=0, total=steps)
            optimizer.step(objective)  # type: ignore[no-untyped-call]
        for table in self._tables:
            table.write()
        with torch.no_grad():
            after = self._losses(learn=False)
        return tuple(self._enrolled(passes[0], after))

    def remember(self) -> tuple[Enrolled, ...]:
        """Return the values with their losses, for a model that reads their rows."""
        known = self._rows
        with torch.no_grad():
            after = self._losses(learn=False)
            self._rows = known.hide_attributes()
            self._batches = list(self._row_batches(self._settings.batch_size))
            before = self._losses(learn=False)
        self._rows = known
        return tuple(self._enrolled(before, after))

    def _gradients(self) -> npt.NDArray[np.float64]:
        """Compute the gradients of the negative log posterior; returns the losses of the rows."""
        for table in self._tables:
            table.write()
            table.change.grad = table.prior * table.change.detach()
        return self._losses(learn=True)

    def _losses(self, *, learn: bool) -> npt.NDArray[np.float64]:
        """Return the loss of each row, and collect the gradients if `learn`."""
        row_losses = np.zeros(len(self._rows))
        for index, batch in self._batches:
            with self._autocast():
                output = self._model(**batch)
            losses = self._model.row_losses(output.logits, batch["labels"])
            np.add.at(row_losses, index, losses.detach().double().cpu().numpy())
            if learn:
                torch.autograd.backward(losses.sum())
                for table in self._tables:
                    table.collect()
        return row_losses

    def _enrolled(self, before: npt.NDArray[np.float64], after: npt.NDArray[np.float64]) -> Iterator[Enrolled]:
        for name, counts in self._new.counts.items():
            attribute = self._model.schema[name]
            ids = self._rows.attribute_ids[:, attribute.columns]
            for new_id, (value, count) in enumerate(counts.items(), start=attribute.size - len(counts)):
                rows = (ids == new_id).any(axis=1)
                losses = [float(part[rows].mean()) if rows.any() else float("nan") for part in (before, after)]
                yield Enrolled(attribute=name, value=value, rows=count, loss_before=losses[0], loss_after=losses[1])

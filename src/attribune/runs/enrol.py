"""Values that a trained model has not seen: their vectors are learned from a few rows, and nothing else changes.

The vector z of a new value is the maximum of its posterior: the rows' likelihood, and as prior a normal distribution
around the vector of the unknown, each dimension with the spread that the vectors of training have around it. One row
moves it little, many rows as far as they say. Old values keep their ids and vectors, so that predictions for them are
the same to the bit.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Self

import numpy as np
import numpy.typing as npt
import torch
from torch import nn

from attribune.core.files import read_json, replace_file, write_json
from attribune.core.progress import Reporter
from attribune.errors import ConfigError, DataError, numbered_in_file
from attribune.methods.attribute_method import AttributeMethod
from attribune.models.base import ConditionedModel
from attribune.models.files import CARD
from attribune.models.predictor import Predictor
from attribune.runs.card import run_card
from attribune.runs.folder import RunFolder, load_run, predictor_of
from attribune.runs.labelled import LabelledRows
from attribune.schema import Numeric, Schema
from attribune.schema.revision import Revision, check_listed

__all__ = [
    "ENROLMENTS",
    "EnrolSettings",
    "Enrolled",
    "Enrolment",
    "enrol",
    "enrolments",
    "replace_with",
    "undo_enrolment",
]

ENROLMENTS = "enrolments.json"
"""In a model's folder, the values that were added after training."""
_SPREAD_VALUES = 10_000  # the most frequent ones, whose vectors say how far vectors are from that of the unknown


@dataclass(frozen=True, kw_only=True)
class EnrolSettings:
    """How the vectors of new values are found.

    Args:
        steps: of L-BFGS, at most; each takes about one pass over all rows, forward and backward.
        prior: weight of the prior; 0 fits the rows alone.
        min_rows: of a value; those with fewer stay unknown.
        batch_size: rows in one pass.
    """

    steps: int = 20
    prior: float = 1.0
    min_rows: int = 1
    batch_size: int = 32

    def __post_init__(self) -> None:
        for name in ("steps", "min_rows", "batch_size"):
            if getattr(self, name) < 1:
                raise ConfigError(f"{name} is {getattr(self, name)}: give at least 1")
        if not 0 <= self.prior < float("inf"):
            raise ConfigError(f"prior is {self.prior}: give a number of 0 or more")


@dataclass(frozen=True, kw_only=True)
class Enrolled:
    """A value that was added.

    Args:
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
        skipped: new values with too few rows, by attribute.
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
        backbone: where the backbone's weights are, if no longer where they were.
        reporter: is notified of every pass over the rows.

    Raises:
        ConfigError: for a run whose method has no vectors of values, or an attribute that has no list of them.
        DataError: naming file, row or column and the cure, or when the rows have no new value.
        ModelFolderError: when the model cannot be read or written; the earlier one is still whole.
    """
    settings, reporter = settings or EnrolSettings(), reporter or Reporter()
    folder = RunFolder(Path(run))
    recipe, predictor = load_run(run, backbone=backbone)
    if not predictor.model.rows_of_values():
        raise ConfigError(
            f"method {recipe.method['name']!r} has no vector for each value: new values need a training with them"
        )
    found = LabelledRows.read(recipe, predictor, data, encoding=encoding)
    for note in found.notes:
        reporter.note(note)
    new = _NewValues.among(found, predictor.schema, attributes, min_rows=settings.min_rows)
    model = folder.revised_model(lambda schema: Revision.adding(schema, new.counts), backbone=backbone)
    started = time.perf_counter()
    values = _Learner(predictor_of(recipe, model), found, new, settings).learn(reporter)
    enrolment = Enrolment(values=values, skipped=new.skipped, seconds=time.perf_counter() - started)
    record = [*enrolments(folder.path), [asdict(value) for value in values]]
    replace_with(folder, model, record)
    return enrolment


def enrolments(run: str | Path) -> list[list[dict[str, Any]]]:
    """What was added to a run since its training: for each time the values, as `Enrolled` has them.

    Raises:
        ModelFolderError: for a record that is damaged.
    """
    path = RunFolder(Path(run)).model / ENROLMENTS
    return list(read_json(path, what="record of added values")) if path.is_file() else []


def replace_with(folder: RunFolder, model: ConditionedModel, record: Sequence[Sequence[Mapping[str, Any]]]) -> None:
    """Put a revised model in the place of a run's, with the run's card and the record of added values.

    Raises:
        ModelFolderError: when it cannot be written; the earlier model is still whole.
    """

    def save(draft: Path) -> None:
        model.save_pretrained(draft)
        if folder.is_finished:
            card = run_card(folder.read_recipe(), model.schema, folder.read_results())
            replace_file(draft / CARD, card.encode())
        if record:
            write_json(draft / ENROLMENTS, record, what="record of added values")

    folder.replace_model(save)


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
    model = folder.revised_model(lambda schema: Revision.removing(schema, gone, count_rows=False), backbone=backbone)
    replace_with(folder, model, record)
    return last


@dataclass(frozen=True, kw_only=True)
class _NewValues:
    """Values that the schema lacks: by attribute their numbers of rows, where each is, and how many have too few."""

    counts: dict[str, dict[str, int]]
    rows: npt.NDArray[np.int64]
    skipped: dict[str, int]

    @classmethod
    def among(cls, found: LabelledRows, schema: Schema, attributes: Sequence[str] | None, *, min_rows: int) -> Self:
        """Find them; DataError without any."""
        names = _listed(schema) if attributes is None else tuple(attributes)
        for name in names:
            check_listed(schema[name])
        with numbered_in_file(found.numbers, found.source):
            unknown = schema.unknown(found.rows)
        counts: dict[str, dict[str, int]] = {}
        skipped: dict[str, int] = {}
        for name in names:
            seen = Counter(value for values in unknown[name] for value in set(values))
            counts[name] = {value: count for value, count in seen.most_common() if count >= min_rows}
            skipped[name] = len(seen) - len(counts[name])
        if not any(counts.values()):
            rare = f" with {min_rows} rows ({sum(skipped.values()):,} have fewer)" if any(skipped.values()) else ""
            raise DataError(f"{found.source}: its {len(found.rows):,} rows with labels have no new value{rare}")
        has = [
            any(value in counts[name] for name in names for value in unknown[name][row])
            for row in range(len(found.rows))
        ]
        return cls(counts=counts, rows=np.flatnonzero(has), skipped=skipped)


def _listed(schema: Schema) -> tuple[str, ...]:
    """Attributes with a list of values."""
    return tuple(a.name for a in schema if not isinstance(a.spec, Numeric) and a.spec.unseen != "hash")


class _Table:
    """The rows of new values in one parameter: ``start + spread * change``, of which the change is learned.

    Args:
        parameter: (ids, ...); the last rows are those of the new values.
    """

    def __init__(self, parameter: nn.Parameter, new: int) -> None:
        self.parameter, self.old = parameter, len(parameter) - new
        self.start = parameter.detach()[0].clone()
        seen = parameter.detach()[1 : min(self.old, _SPREAD_VALUES)]
        self.spread = (seen - self.start).square().mean(dim=0).sqrt()
        self.change = torch.zeros_like(parameter.detach()[self.old :], requires_grad=True)

    def write(self) -> None:
        """Put the vectors into the table."""
        with torch.no_grad():
            self.parameter[self.old :] = self.start + self.spread * self.change

    def collect(self) -> None:
        """Add the gradient of the rows to that of the change."""
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
    def __init__(self, predictor: Predictor, found: LabelledRows, new: _NewValues, settings: EnrolSettings) -> None:
        assert isinstance(predictor.model, ConditionedModel)
        self._model, self._settings, self._new = predictor.model, settings, new
        self._autocast = predictor.autocast
        self._model.requires_grad_(False)
        self._tables = [
            _Table(self._model.get_parameter(name), len(new.counts[attribute]))
            for name, attribute in self._model.rows_of_values().items()
            if new.counts.get(attribute)
        ]
        for table in self._tables:
            table.parameter.requires_grad_(True)
        for module in self._model.modules():
            if isinstance(module, AttributeMethod):
                module.sparse_gradients = True
        rows = found.rows.select(new.rows)
        with numbered_in_file(found.numbers[new.rows], found.source):
            ready = predictor.encode(rows)
        self._ready = ready if ready.labels is not None else replace(ready, labels=found.labels[new.rows])
        self._batches = list(self._model.batches(self._ready, size=settings.batch_size))

    def learn(self, reporter: Reporter) -> tuple[Enrolled, ...]:
        """Find the vectors; returns the values with their losses."""
        steps, changes = self._settings.steps, [table.change for table in self._tables]
        optimizer = torch.optim.LBFGS(changes, max_iter=steps, max_eval=2 * steps, line_search_fn="strong_wolfe")
        passes: list[npt.NDArray[np.float64]] = []

        def objective() -> float:
            passes.append(self._gradients())
            reporter.step(done=min(len(passes), steps), loss=float(passes[-1].mean()))
            squares = sum(float(change.detach().square().sum()) for change in changes)
            return float(passes[-1].sum()) + self._settings.prior * squares / 2

        with reporter.training():
            reporter.started(done=0, total=steps)
            optimizer.step(objective)  # type: ignore[no-untyped-call]
        for table in self._tables:
            table.write()
        with torch.no_grad():
            after = self._losses(learn=False)
        return tuple(self._enrolled(passes[0], after))

    def _gradients(self) -> npt.NDArray[np.float64]:
        """Of the posterior, in the tables' changes; returns the losses of the rows."""
        for table in self._tables:
            table.write()
            table.change.grad = self._settings.prior * table.change.detach()
        return self._losses(learn=True)

    def _losses(self, *, learn: bool) -> npt.NDArray[np.float64]:
        """Of each row."""
        found = np.zeros(len(self._ready))
        for index, batch in self._batches:
            with self._autocast():
                output = self._model(**batch)
            losses = self._model.row_losses(output.logits, batch["labels"])
            found[index] = losses.detach().double().cpu().numpy()
            if learn:
                torch.autograd.backward(losses.sum())
                for table in self._tables:
                    table.collect()
        return found

    def _enrolled(self, before: npt.NDArray[np.float64], after: npt.NDArray[np.float64]) -> Iterator[Enrolled]:
        for name, counts in self._new.counts.items():
            attribute = self._model.schema[name]
            ids = self._ready.attribute_ids[:, attribute.columns]
            for place, (value, count) in enumerate(counts.items()):
                mine = (ids == attribute.size - len(counts) + place).any(axis=1)
                yield Enrolled(
                    attribute=name,
                    value=value,
                    rows=count,
                    loss_before=float(before[mine].mean()) if mine.any() else float("nan"),
                    loss_after=float(after[mine].mean()) if mine.any() else float("nan"),
                )

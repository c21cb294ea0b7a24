"""Learning of new values: their vectors as the maximum of the posterior, or their rows for a model that reads them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Annotated

import numpy as np
import numpy.typing as npt
import torch
from pydantic import AfterValidator, ValidationInfo
from torch import nn

from attribune.core.config import checked_dataclass
from attribune.core.progress import Reporter
from attribune.data.readers.base import EncodedRows, TextRows
from attribune.errors import ConfigError, numbered_in_file
from attribune.models.base import ConditionedModel
from attribune.models.predictor import Predictor
from attribune.models.value_tables import value_spread
from attribune.runs.labelled import LabelledRows
from attribune.tasks.capabilities import VALUE_PRIORS, can
from attribune.values.posterior import MOST_DERIVATIVES, value_mode, value_slopes
from attribune.values.reading import NewValues
from attribune.values.record import Enrolled

_LARGEST_PRIOR = 1e12  # with which new values stay where they start
_NUMBERS = 200_000  # of a row's derivatives, above which L-BFGS takes fewer passes


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

    They are the maximum of the posterior with logits that are linear in the vector, as the prior was learned; of tasks
    that score tokens and attributes with several values a row, with the model's own logits.

    Args:
        steps: maximum number of L-BFGS steps for the model's own logits; each takes about one forward and backward pass
            over all rows.
        prior: weight of the prior, 1 for the one that was learned; 0 fits the rows alone.
        min_rows: values with fewer rows stay unknown.
        batch_size: rows in one pass.
    """

    steps: Count = 20
    prior: Annotated[float, AfterValidator(_in_range)] = 1.0
    min_rows: Count = 1
    batch_size: Count = 32


class _Table:
    """The rows of new values in one parameter: ``start + spread * change``, where only `change` is learned.

    Args:
        attribute: whose values they are.
        parameter: (ids, ...); the last `new` rows are those of the new values.
        counts: (ids,) rows of each value.
        prior: weight of the prior of `change`.
    """

    def __init__(
        self, attribute: str, parameter: nn.Parameter, new: int, counts: npt.NDArray[np.int64], *, prior: float
    ) -> None:
        self.attribute, self.parameter, self.old, self.prior = attribute, parameter, len(parameter) - new, prior
        self.start = parameter.detach()[0].clone()
        self.spread = value_spread(parameter, counts[: self.old])
        self.change = torch.zeros_like(parameter.detach()[self.old :], requires_grad=True)

    @property
    def numbers(self) -> int:
        """Size of a value's vector."""
        return self.start.numel()

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


class ValueLearner:
    """Learns the vectors of the values that were added last to a model.

    Args:
        labelled: rows of these values; None where they are described alone.
        pause: called before every batch; what it raises ends the learning.
    """

    def __init__(
        self,
        predictor: Predictor,
        labelled: LabelledRows | None,
        new: NewValues,
        settings: EnrolSettings,
        *,
        pause: Callable[[], None] = lambda: None,
    ) -> None:
        self._model: ConditionedModel = predictor.model.neural()
        self._settings, self._new = settings, new
        self._autocast, self._pause = predictor.autocast, pause
        self._model.requires_grad_(False)
        self._tables = [
            _Table(
                attribute,
                self._model.get_parameter(name),
                len(new.counts[attribute]),
                self._model.schema[attribute].counts,
                prior=settings.prior * self._model.config.prior_weight(attribute),
            )
            for name, attribute in self._model.values.owners().items()
            if new.counts.get(attribute)
        ]
        for table in self._tables:
            table.parameter.requires_grad_(True)
        for method in self._model.values.methods():
            method.sparse_gradients = True
        self._rows: EncodedRows = TextRows.without_attributes([])
        self._sets = {name: [np.zeros(0, np.intp)] * len(counts) for name, counts in new.counts.items()}
        self._batches: list[tuple[npt.NDArray[np.intp], dict[str, torch.Tensor]]] = []
        if labelled is None or not len(new.rows):
            return
        with numbered_in_file(labelled.numbers[new.rows], labelled.source):
            rows = predictor.encode_rows(labelled.rows.select(new.rows))
        self._rows = rows if rows.labels is not None else rows.with_labels(labelled.labels[new.rows])
        self._sets = {name: self._rows_of_each(name, len(counts)) for name, counts in new.counts.items()}
        self._batches = list(self._row_batches(settings.batch_size))

    def _rows_of_each(self, name: str, count: int) -> list[npt.NDArray[np.intp]]:
        """Return the rows of each of the last `count` values of an attribute."""
        attribute = self._model.schema[name]
        new = self._rows.attribute_ids[:, attribute.columns] - (attribute.size - count)
        rows, slots = np.nonzero(new >= 0)
        values = new[rows, slots]
        order = np.argsort(values, kind="stable")
        return np.split(rows[order], np.searchsorted(values[order], np.arange(1, count)))[:count]

    def _row_batches(self, size: int) -> Iterator[tuple[npt.NDArray[np.intp], dict[str, torch.Tensor]]]:
        """Cut the rows into batches, with the row of each entry: a row may have several pieces."""
        pieces = self._rows.pieces()
        for index, batch in self._model.batches(pieces.rows, size=size):
            yield pieces.owners[index], batch

    def learn(self, reporter: Reporter) -> tuple[Enrolled, ...]:
        """Learn the vectors, if the model has any; returns the values with their losses."""
        if self._batches and self._model.memory is not None:
            return tuple(self._enrolled(*self._losses_with_memory()))
        if not self._batches or not self._tables:
            with torch.no_grad():
                losses = self._losses(learn=False)
            return tuple(self._enrolled(losses, losses))
        with torch.no_grad():
            before = self._losses(learn=False)
        names = dict.fromkeys(table.attribute for table in self._tables)
        searched = [name for name in names if not self._find_linear(name)]
        if searched:
            self._maximise([table for table in self._tables if table.attribute in searched], reporter)
        for table in self._tables:
            table.write()
        with torch.no_grad():
            after = self._losses(learn=False)
        return tuple(self._enrolled(before, after))

    def _find_linear(self, name: str) -> bool:
        """Find the vectors of an attribute's new values with linear logits, unless that cannot be done."""
        model, attribute, sets = self._model, self._model.schema[name], self._sets[name]
        tables = [table for table in self._tables if table.attribute == name]
        numbers = model.task.outputs * sum(table.numbers for table in tables)
        is_simple = can(model.task, VALUE_PRIORS) and attribute.slots == 1
        if not is_simple or max(map(len, sets)) * numbers > MOST_DERIVATIVES or numbers > _NUMBERS:
            return False
        counts = attribute.counts.copy()
        counts[attribute.size - len(sets) :] = 0  # their vectors say nothing of the spread
        vectors = torch.zeros(len(sets), numbers // model.task.outputs)
        for group in _groups(sets, limit=MOST_DERIVATIVES // numbers):
            rows = np.concatenate([sets[number] for number in group])
            owners = self._rows.attribute_ids[rows, attribute.columns.start]
            slopes = value_slopes(
                model,
                replace(attribute, counts=counts),
                self._rows.take(rows),
                self._paused,
                own=owners,
                described=owners,
                batch_size=self._settings.batch_size,
            )
            if slopes is None:
                continue
            labels, starts = torch.stack(slopes.labels), np.cumsum([0, *(len(sets[number]) for number in group)])
            for number, start, end in zip(group, starts, starts[1:], strict=False):
                own = slice(int(start), int(end))
                vectors[number] = value_mode(
                    model.task, slopes.logits[own], slopes.J[own], labels[own], weight=tables[0].prior
                )
        for table, part in zip(tables, torch.split(vectors, [t.numbers for t in tables], dim=1), strict=True):
            with torch.no_grad():
                table.change.copy_(part.view(table.change.shape))
            table.write()
        return True

    @contextmanager
    def _paused(self) -> Iterator[None]:
        self._pause()
        yield

    def _maximise(self, tables: Sequence[_Table], reporter: Reporter) -> None:
        """Find the maximum of the posterior of tables by L-BFGS, from where they are."""
        steps = self._settings.steps
        changes = [table.change for table in tables]
        optimizer = torch.optim.LBFGS(changes, max_iter=steps, max_eval=2 * steps, line_search_fn="strong_wolfe")
        passes = 0

        def objective() -> float:
            nonlocal passes
            losses, passes = self._gradients(), passes + 1
            reporter.step(done=min(passes, steps), loss=float(losses.mean()))
            squares = sum(table.prior * float(table.change.detach().square().sum()) for table in tables)
            return float(losses.sum()) + squares / 2

        with reporter.training():
            reporter.started(done=0, total=steps)
            optimizer.step(objective)  # type: ignore[no-untyped-call]

    def _losses_with_memory(self) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
        """Return the losses of the rows with their values unknown, and of a model that reads the rows of the values."""
        known = self._rows
        with torch.no_grad():
            after = self._losses(learn=False)
            self._rows = known.hide_attributes()
            self._batches = list(self._row_batches(self._settings.batch_size))
            before = self._losses(learn=False)
        self._rows = known
        return before, after

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
            self._pause()
            # In full precision: that of autocast hides what the search along a line compares.
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
            for (value, count), rows in zip(counts.items(), self._sets[name], strict=True):
                losses = [float(part[rows].mean()) if len(rows) else None for part in (before, after)]
                yield Enrolled(attribute=name, value=value, rows=count, loss_before=losses[0], loss_after=losses[1])


def _groups(sets: Sequence[npt.NDArray[np.intp]], *, limit: int) -> Iterator[list[int]]:
    """Yield the numbers of sets that have at most `limit` rows together; sets without rows are left out."""
    group: list[int] = []
    rows = 0
    for number, one in enumerate(sets):
        if group and rows + len(one) > limit:
            yield group
            group, rows = [], 0
        if len(one):
            group.append(number)
            rows += len(one)
    if group:
        yield group

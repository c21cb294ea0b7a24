"""Which texts a person should judge next: those whose answers tell most about what the person says of the others.

The vector of a new value is N(0, σ²) around the unknown one, or around what is known of it, with the width that the end
of the training learned (`attribune.values.posterior`); of a value with rows it is narrower by what as many texts
tell on average. Logits are taken as linear in the vector. A text's worth is how much its answer is expected to lower
the loss of the texts of the table (Cohn, Ghahramani and Jordan 1996); after each choice the vector is known as if the
answer was.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self, Unpack

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from attribune import functional
from attribune.core.arguments import checked_arguments
from attribune.core.door import as_call
from attribune.core.process import require_memory
from attribune.data.file_options import Reading
from attribune.data.readers.base import EncodedRows
from attribune.data.tables import read_table, table_source_name, with_reading
from attribune.errors import ConfigError, DataError, numbered_in_file
from attribune.methods import DEFAULT_METHOD
from attribune.models.base import ConditionedModel
from attribune.models.predictor import Predictor
from attribune.runs.loading import load_run
from attribune.schema.attributes import FittedAttribute
from attribune.schema.schema import check_listed
from attribune.tasks import Task
from attribune.tasks.capabilities import NEXT
from attribune.values.panel import Panel, check_panel
from attribune.values.posterior import value_slopes

_NUMBERS = 4096  # of a value, above which no covariance is computed


@dataclass(frozen=True, kw_only=True)
class NextText:
    """A text that should be judged.

    Args:
        row: its number in the table, from 1.
        gain: how much its answer is expected to lower the mean loss of the texts in the table, those before it being
            judged.
    """

    row: int
    text: str
    gain: float


@checked_arguments
def next_texts(
    run: str | Path,
    data: Any,
    *,
    attribute: str,
    value: str,
    count: int = 10,
    backbone: str | Path | None = None,
    **reading: Unpack[Reading],
) -> list[NextText]:
    """Choose the texts of a table whose answers would tell most about a value, in order.

    Args:
        run: folder of a finished run.
        data: anything `read_table` takes, with the run's text columns; other attributes may be missing.
        attribute: name of the attribute that has the value.
        value: a value that the model knows, or a new one.
        count: maximum number of texts.
        backbone: new location of the backbone's weights, if they were moved.
        **reading: how files are read, as in `read_table`.

    Raises:
        ConfigError: for a model, task or attribute that this does not support, or a count below 1.
        DataError: naming file, row or column and the cure.
    """
    if count < 1:
        raise ConfigError(f"count is {count}: give at least 1")
    data = with_reading(data, reading)
    recipe, predictor = load_run(run, backbone=backbone)
    fitted = _checked(predictor, attribute)
    table, source = read_table(data), table_source_name(data)
    nothing = {name: [None] for name in predictor.schema.sources}
    encoded, report = predictor.schema.encode(nothing | {fitted.column: [value]})
    if report.attributes[attribute].missing:
        raise ConfigError(f"{value!r} means that there is no value of {attribute!r}: name the value to be learned")
    id_ = int(encoded[0, fitted.columns.start])
    ids = np.zeros((1, predictor.schema.slots), dtype=np.int64)
    ids[0, fitted.columns.start] = id_
    columns = np.zeros(predictor.schema.slots, dtype=bool)
    columns[fitted.columns] = True
    model: ConditionedModel = predictor.model.neural()
    cells = {fitted.column: value} if attribute in model.written else {}
    with numbered_in_file(range(len(table)), source):
        panel = Panel(names=(value,), ids=ids, columns=columns)
        rows = panel.encode(predictor, table, source=source, cells=cells)
    readable = np.flatnonzero(~rows.empty)
    if not len(readable):
        raise DataError(f"{source} has no row with a text in {', '.join(recipe.data.texts)}: name the table of texts")
    rows = rows.take(readable)
    known = _Vector.of(predictor, fitted, rows, value=id_)
    text_input = recipe.data.text_input()
    texts = text_input.read_all({name: table[name] for name in text_input.names})
    return [
        NextText(row=int(readable[row]) + 1, text=texts[readable[row]], gain=gain) for row, gain in known.choose(count)
    ]


def _checked(predictor: Predictor, attribute: str) -> FittedAttribute:
    """Return the attribute, if the model has vectors of its values and a task with answers."""
    check_panel(predictor, verb=NEXT)
    values, fitted = predictor.model.values, predictor.schema[attribute]
    check_listed(fitted)
    if fitted.spec.is_nested:
        raise ConfigError(
            f"{attribute!r} is a hierarchy, whose levels add up, and {NEXT.name} is for attributes of which a text has "
            "one value: name another attribute"
        )
    if fitted.size < 2:
        raise ConfigError(
            f"the model knows no value of {attribute!r}, so it cannot tell what an answer would change: train with "
            "its values"
        )
    others = sorted({*values.owners().values()})
    if attribute not in others:
        choice = f"choose {' or '.join(map(repr, others))}, or train" if others else "train"
        raise ConfigError(
            f"the model has no vector for each value of {attribute!r} that could be learned: {choice} with a method "
            f"that has: {as_call('train', method=DEFAULT_METHOD)}"
        )
    if (numbers := values.size(attribute)) > _NUMBERS:
        raise ConfigError(
            f"a value of {attribute!r} has {numbers:,} numbers in this model, too many for their covariance: "
            f"train a method with at most {_NUMBERS:,}, such as injector"
        )
    return fitted


@dataclass(kw_only=True)
class _Vector:
    """What is known of a value's vector, and what the answers to n texts would tell of it.

    Attributes:
        G: (n, D, K), of which the outer product is the information that an answer is expected to give.
        Sigma: (D, D), the covariance.
        texts: (n,) the number of each row's text, of which each is chosen once; None where all differ.
    """

    G: Tensor
    Sigma: Tensor
    texts: npt.NDArray[np.int64] | None = None

    @classmethod
    def of(cls, predictor: Predictor, attribute: FittedAttribute, rows: EncodedRows, *, value: int) -> Self:
        """Compute the slopes of texts, and the covariance of a value with as many rows as it was learned from."""
        model: ConditionedModel = predictor.model.neural()
        needed = 24 * len(rows) * model.task.outputs * model.values.size(attribute.name)
        require_memory(needed, what=f"what {len(rows):,} texts say of a value", cure="give fewer texts")
        ids = np.full(len(rows), value)
        found = value_slopes(model, attribute, rows, predictor.autocast, own=ids, described=ids)
        if found is None:
            raise ConfigError(
                f"predictions do not depend on {attribute.name!r}, so no text tells anything about it: name another "
                "attribute"
            )
        G = torch.einsum("ncd,nck->ndk", found.J, _information_root(model.task, found.logits))
        weight = model.config.prior_weight(attribute.name)
        Sigma = torch.eye(found.J.shape[2], dtype=found.J.dtype) / weight
        seen = int(attribute.counts[value]) if value else 0
        if seen:
            every = torch.einsum("ndk,nek->de", G, G) * (seen / len(rows))
            Sigma = torch.linalg.inv(torch.linalg.inv(Sigma) + every)
        return cls(G=G, Sigma=Sigma, texts=rows.text_numbers())

    def choose(self, count: int) -> list[tuple[int, float]]:
        """Choose texts one after the other; returns the row of each and its gain."""
        chosen: list[tuple[int, float]] = []
        M = torch.einsum("ndk,nek->de", self.G, self.G) / len(self.G)
        texts = np.arange(len(self.G)) if self.texts is None else self.texts
        for _ in range(min(count, len(self.G))):
            gains = functional.prediction_gain(self.Sigma, self.G, M)
            gains[np.isin(texts, texts[[row for row, _ in chosen]])] = -1
            best = int(gains.argmax())
            if gains[best] < 0:
                break
            chosen.append((best, float(gains[best])))
            self.Sigma = functional.value_covariance_after(self.Sigma, self.G[best])
        return chosen


def _information_root(task: Task, logits: Tensor) -> Tensor:
    """Return (n, C, K), whose outer products are the information of answers about the logits (n, C).

    For K answers it is the expected outer product of the gradients of their losses, for numbers the Hessian of the
    squared error.
    """
    p = task.codec.answers(logits.numpy())
    if p is None:
        return torch.full((len(logits), 1, 1), 2**0.5, dtype=logits.dtype)
    parts, is_soft = [], any(choice.codec.has_shares for choice in task.codec.choices)
    for answer in range(p.shape[1]):
        at = logits.clone().requires_grad_()
        labels = torch.full((len(logits),), answer)
        given = torch.nn.functional.one_hot(labels, p.shape[1]).to(logits) if is_soft else labels
        (gradient,) = torch.autograd.grad(task.row_losses(at, given).sum(), at)
        parts.append(gradient * torch.from_numpy(p[:, answer]).sqrt().unsqueeze(1))
    return torch.stack(parts, dim=2)

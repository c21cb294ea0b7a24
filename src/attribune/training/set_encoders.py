"""Training of the encoders that turn the rows of a new value into its vector: by episodes, the model frozen.

In an episode a value of the training rows is taken as if it were new: some of its rows are encoded, and the loss of
others, whose vector is the encoding, teaches the encoder. Logits are taken as linear in the vector around the unknown
one, as they are for the prior (`attribune.training.value_priors`), so that the model reads every row once, and an
episode costs nothing more. Values that are left out say which step was the best, if any is better than no vector.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from attribune.data.readers.base import EncodedRows
from attribune.models.base import ConditionedModel
from attribune.models.model import AttributeModel
from attribune.models.set_encoder import LabelledDocuments, SetEncoder
from attribune.models.value_slopes import ValueSlopes, value_slopes
from attribune.schema.attributes import FittedAttribute
from attribune.schema.revision import is_listed
from attribune.tasks import Task
from attribune.tasks.capabilities import SET_ENCODERS, can

__all__ = ["LearnedEncoder", "can_encode_sets", "learn_set_encoder"]

_ROWS, _PASSES, _DERIVATIVES = 6_000, 12_000, 20_000_000  # rows, backward passes of a row, and numbers at once
_MOST, _FEWEST, _VALUES = 40, 4, 20  # rows of a value, at most and if there are too many values; and fewest values
_SUPPORT, _QUERIES, _CHECKED = (
    20,
    4,
    20,
)  # rows of a value that are encoded, that teach, and that say which step is best
_BATCH, _STEPS, _EVERY, _PATIENCE = (
    32,
    1_500,
    50,
    400,
)  # values of a step; steps, between two looks, without a better one
_HELD_OUT, _DRAWS = 0.2, 4  # share of the values that are left out, and episodes of each
_RATE, _KAPPA_RATE, _DECAY = 2e-3, 2e-2, 0.1


@dataclass(frozen=True, kw_only=True)
class LearnedEncoder:
    """What came of it.

    Attributes:
        values: number of values that taught the encoder.
        loss_without: mean loss of rows of values that were left out, known by no vector.
        loss_with: with vectors from 1 to 20 other rows; not above `loss_without`.
    """

    values: int
    loss_without: float
    loss_with: float

    def __str__(self) -> str:
        return (
            f"trained on {self.values:,} values; rows of others have the loss {self.loss_with:.4f} with it, and "
            f"{self.loss_without:.4f} without"
        )


def can_encode_sets(model: ConditionedModel, attribute: FittedAttribute) -> bool:
    """Whether the vectors of an attribute's new values can be encoded from rows."""
    if not can(model.task, SET_ENCODERS):
        return False
    if not model.values.are_apart() or not is_listed(attribute):
        return False
    numbers = model.task.outputs * model.values.size(attribute.name)
    return 0 < numbers <= _DERIVATIVES // (_VALUES * _FEWEST)


def learn_set_encoder(
    model: AttributeModel,
    attribute: FittedAttribute,
    rows: Callable[[npt.NDArray[np.int64]], EncodedRows],
    attribute_ids: npt.NDArray[np.int64],
    *,
    run: Callable[[], AbstractContextManager[Any]],
    seed: int = 0,
    batch_size: int = 32,
) -> LearnedEncoder | None:
    """Add an encoder of an attribute's new values to a trained model, which does not change otherwise.

    Args:
        attribute: one for which `can_encode_sets`.
        rows: returns encoded rows with labels, by their indices.
        attribute_ids: (n, slots) of all training rows.
        run: makes the context of a forward pass.

    Returns:
        None for too few values with two rows, or predictions that do not depend on them; no encoder is added.
    """
    ids, C, D = attribute_ids[:, attribute.columns], model.task.outputs, model.values.size(attribute.name)
    limit = min(_ROWS, _PASSES // C, _DERIVATIVES // (C * D))
    chosen = _rows_of_episodes(ids, np.random.default_rng(seed), limit=limit)
    if chosen is None:
        return None
    owners = ids[chosen].max(axis=1)
    hidden = np.zeros_like(owners)
    slopes = value_slopes(model, attribute, rows(chosen), run, own=hidden, described=owners, batch_size=batch_size)
    if slopes is None:
        return None
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return _learn(model, attribute, _Episodes.of(model.task, slopes, owners), np.random.default_rng(seed))


def _rows_of_episodes(
    ids: npt.NDArray[np.int64], chance: np.random.Generator, *, limit: int
) -> npt.NDArray[np.int64] | None:
    """Choose at most `limit` rows with one value, of values with two rows or more; (n,), or None."""
    single = np.flatnonzero((ids != 0).sum(axis=1) == 1)
    values = ids[single].max(axis=1)
    _, starts, counts = np.unique(np.sort(values), return_index=True, return_counts=True)
    several = chance.permutation(np.flatnonzero(counts > 1))
    if len(several) < _VALUES or limit < _VALUES * 2:
        return None
    by_value, each = single[np.argsort(values, kind="stable")], min(_MOST, max(_FEWEST, limit // len(several)))
    of_value = [chance.permutation(by_value[starts[v] : starts[v] + counts[v]])[:each] for v in several]
    fitting = np.cumsum([len(rows) for rows in of_value]) <= limit
    return np.sort(np.concatenate([rows for rows, fits in zip(of_value, fitting, strict=True) if fits]))


@dataclass(frozen=True, kw_only=True)
class _Episodes:
    """Rows whose values are hidden: what an encoder reads of them, and how their losses depend on a vector.

    Attributes:
        logits: (n, C).
        J: (n, C, D).
        labels: (n, ...).
        of_value: the rows of each value.
    """

    task: Task
    documents: LabelledDocuments
    logits: Tensor
    J: Tensor
    labels: Tensor
    of_value: list[npt.NDArray[np.intp]]

    @classmethod
    def of(cls, task: Task, slopes: ValueSlopes, owners: npt.NDArray[np.int64]) -> _Episodes:
        logits, labels = slopes.logits.float(), torch.stack(slopes.labels)
        return cls(
            task=task,
            documents=LabelledDocuments.of(task, slopes.documents, logits, labels),
            logits=logits,
            J=slopes.J.float(),
            labels=labels,
            of_value=[np.flatnonzero(owners == value) for value in np.unique(owners)],
        )

    def draw(self, value: int, chance: np.random.Generator, *, queries: int) -> _Episode:
        """Draw rows of a value that are encoded, and others that are scored."""
        mixed = chance.permutation(self.of_value[value])
        k = int(chance.integers(1, min(_SUPPORT, len(mixed) - 1) + 1))
        return mixed[:k], mixed[k : k + queries]

    def loss(self, encoder: SetEncoder, drawn: list[_Episode]) -> Tensor:
        """Return the mean loss of the rows that are scored."""
        vectors = encoder.of_sets(self.documents, [support for support, _ in drawn])
        owner = np.repeat(np.arange(len(drawn)), [len(queries) for _, queries in drawn])
        rows = torch.from_numpy(np.concatenate([queries for _, queries in drawn]))
        logits = self.logits[rows] + torch.einsum("ncd,nd->nc", self.J[rows], vectors[torch.from_numpy(owner)])
        return self.task.row_losses(logits, self.labels[rows]).mean()


_Episode = tuple[npt.NDArray[np.intp], npt.NDArray[np.intp]]


def _learn(
    model: AttributeModel, attribute: FittedAttribute, episodes: _Episodes, chance: np.random.Generator
) -> LearnedEncoder:
    """Train an encoder, and add it to the model as it was at its best step."""
    values = chance.permutation(len(episodes.of_value))
    count = max(_VALUES // 4, int(_HELD_OUT * len(values)))
    held_out = [episodes.draw(int(v), chance, queries=_CHECKED) for v in values[:count] for _ in range(_DRAWS)]
    encoder = model.build_set_encoder(attribute.name)
    maps = [parameter for name, parameter in encoder.named_parameters() if name != "kappa"]
    groups: list[dict[str, Any]] = [
        {"params": maps},
        {"params": [encoder.kappa], "lr": _KAPPA_RATE, "weight_decay": 0.0},
    ]
    optimizer = torch.optim.AdamW(groups, lr=_RATE, weight_decay=_DECAY)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, _STEPS)
    with torch.no_grad():
        without = least = float(episodes.loss(encoder, held_out))
    best, state = 0, {name: x.clone() for name, x in encoder.state_dict().items()}
    for step in range(1, _STEPS + 1):
        drawn = chance.choice(values[count:], _BATCH)
        optimizer.zero_grad()
        loss = episodes.loss(encoder, [episodes.draw(int(value), chance, queries=_QUERIES) for value in drawn])
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        schedule.step()
        if step % _EVERY:
            continue
        with torch.no_grad():
            now = float(episodes.loss(encoder, held_out))
        if now < least:
            least, best, state = now, step, {name: x.clone() for name, x in encoder.state_dict().items()}
        elif step - best >= _PATIENCE:
            break
    encoder.load_state_dict(state)
    encoder.change_units(model.values.spread(attribute).cpu())
    model.add_set_encoder(attribute.name, encoder.eval().requires_grad_(False))
    return LearnedEncoder(values=len(values) - count, loss_without=without, loss_with=least)

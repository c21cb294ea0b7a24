"""Scores of the same texts with other attributes, of which only rows that differ are scored anew."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from attribune.prediction import Predictor, ReadyRows
from attribune.schema.attributes import FittedAttribute

__all__ = ["Rescored", "columns_of", "numbers_of"]

Array = npt.NDArray[np.float32]
Ids = npt.NDArray[np.int64]


@dataclass(frozen=True, kw_only=True)
class Rescored:
    """Rows with their logits.

    Args:
        predictor: that scored them.
        rows: as they are.
        logits: (n, outputs), as they are.
    """

    predictor: Predictor
    rows: ReadyRows
    logits: Array
    _hidden: dict[tuple[str, ...], Array] = field(default_factory=dict, compare=False, repr=False)

    @classmethod
    def of(cls, predictor: Predictor, rows: ReadyRows) -> Rescored:
        """Score the rows as they are."""
        return cls(predictor=predictor, rows=rows, logits=predictor.score(rows))

    def with_ids(self, ids: Ids) -> Array:
        """Logits (n, outputs) of the same texts with other ids (n, slots)."""
        found = self.logits.copy()
        other = np.flatnonzero((ids != self.rows.attribute_ids).any(axis=1))
        if len(other):
            found[other] = self.predictor.score(self.rows.picked(other).with_ids(ids[other]))
        return found

    def hidden(self, attributes: Sequence[FittedAttribute]) -> Array:
        """Logits with attributes hidden in every row; scored once, since several questions ask for them."""
        key = tuple(attribute.name for attribute in attributes)
        if key not in self._hidden:
            ids = self.rows.attribute_ids.copy()
            for attribute in attributes:
                ids[:, columns_of(attribute)] = 0
            self._hidden[key] = self.with_ids(ids)
        return self._hidden[key]

    def shuffled(self, attributes: Sequence[FittedAttribute], *, seed: int) -> Array:
        """Logits with the values of attributes dealt out anew over the rows, those of one row together."""
        ids = self.rows.attribute_ids.copy()
        order = np.random.default_rng(seed).permutation(len(ids))
        for attribute in attributes:
            ids[:, columns_of(attribute)] = self.rows.attribute_ids[order][:, columns_of(attribute)]
        return self.with_ids(ids)


def columns_of(attribute: FittedAttribute) -> slice:
    """The slots of an attribute."""
    return slice(attribute.start, attribute.start + attribute.slots)


def numbers_of(predictor: Predictor, logits: Array) -> tuple[npt.NDArray[np.float64], list[str]]:
    """What is predicted as numbers (n, k), with k names: probabilities, or the predicted number of a regression."""
    decoded = predictor.task.decode(logits)
    if decoded.probabilities is not None:
        names = [name.removeprefix("probability_") for name in decoded.probability_columns]
        return np.asarray(decoded.probabilities, dtype=np.float64), names
    return np.stack([np.asarray(v, dtype=np.float64) for v in decoded.predictions.values()], axis=1), list(
        decoded.predictions
    )

"""The scores of the rows of a table with different attributes hidden, for each of which a network runs once."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import numpy as np

from attribune.core.arrays import Array
from attribune.models.predictor import Predictor


class TableScores:
    """What a predictor says of the rows of a table, also after its temperature or its blend were fitted.

    Args:
        predictor: whose network does not change.
        table: that has the predictor's columns.
    """

    def __init__(self, predictor: Predictor, table: Any) -> None:
        self.predictor, self.table = predictor, table
        self._known: dict[tuple[str, ...] | bool, Array] = {}  # of the network
        self._temperature = predictor.model.temperature

    def logits(self, hide_attributes: bool | Collection[str] = False, *, blend: bool = True) -> Array:
        """Return the scores of every row; errors are those of `Predictor.logits`.

        Args:
            hide_attributes: treat every attribute as missing, or those of some names or columns.
            blend: whether the simple models beside the network count, if there are some.
        """
        is_hidden = hide_attributes if isinstance(hide_attributes, bool) else tuple(hide_attributes)
        if not isinstance(is_hidden, bool) and set(is_hidden) == set(self.predictor.model.input_schema.sources):
            is_hidden = True
        if is_hidden not in self._known:
            self._known[is_hidden] = self.predictor.without_blend().logits(self.table, hide_attributes=is_hidden)[0]
        scores = self._known[is_hidden]
        if (temperature := self.predictor.model.temperature) != self._temperature:
            factor = np.float32((self._temperature or 1.0) / (temperature or 1.0))
            scores = scores * factor
        if not blend or self.predictor.blend is None:
            return scores
        return self.predictor.logits(self.table, hide_attributes=is_hidden, network=scores)[0]

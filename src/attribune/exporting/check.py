"""Whether an export gives the logits of the run."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import cycle
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from attribune.data.tables import read_table, table_source_name
from attribune.errors import ConfigError, DataError, numbered_in_file
from attribune.exporting.graph import Scorer
from attribune.model import AttributeModel
from attribune.prediction import Predictor, ReadyRows
from attribune.schema import EncodingReport

__all__ = ["TOLERANCE", "Rows", "largest_difference", "rows_at_random", "rows_of"]

TOLERANCE = 1e-4
_ROWS = 200
_SIZES = (5, 1, 8, 3)  # of the batches, so that the graph is seen to take any
_LONGEST = 48  # ids of rows at random


class Rows(NamedTuple):
    """Rows to check with.

    Attributes:
        ready: as the model takes them.
        real: whether they come from a table.
    """

    ready: ReadyRows
    real: bool

    def batches(self, predictor: Predictor) -> Iterator[dict[str, Tensor]]:
        """The rows in batches of several sizes, in their order."""
        sizes, start = cycle(_SIZES), 0
        while start < len(self.ready):
            part = slice(start, start + next(sizes))
            yield predictor.batch(self.ready.picked(part))
            start = part.stop


def rows_of(predictor: Predictor, data: Any, *, given: npt.NDArray[np.int64] | None, encoding: str | None) -> Rows:
    """The first rows of a table.

    Args:
        predictor: that encodes them.
        data: anything `read_table` takes.
        given: (slots,), values that take the place of the rows' own, whose columns are then not read.
        encoding: of the file.

    Raises:
        DataError: naming file, row or column.
    """
    table, source = read_table(data, encoding=encoding), table_source_name(data)
    if not len(table):
        raise DataError(f"{source} has no rows to check the export with")
    table = table.select(range(min(_ROWS, len(table))))
    if given is not None:
        absent = {name: [None] * len(table) for name in predictor.schema.names}
        table = {name: table[name] for name in predictor.text_input.columns if name in table.column_names} | absent
    predictor.check_columns(list(table) if isinstance(table, dict) else table.column_names, source=source)
    with numbered_in_file(range(_ROWS), source):
        rows = predictor.encode(table)
    return Rows(rows.with_ids(_or_given(rows.attribute_ids, given)), real=True)


def rows_at_random(predictor: Predictor, *, given: npt.NDArray[np.int64] | None) -> Rows:
    """Rows of ids at random, the same at every call."""
    model = predictor.model
    assert isinstance(model, AttributeModel)
    chance = np.random.default_rng(0)
    longest = min(_LONGEST, model.longest_text() or _LONGEST)
    vocabulary = model.config.text_config.vocab_size
    texts = [chance.integers(vocabulary, size=chance.integers(2, longest + 1)).tolist() for _ in range(50)]
    sizes = [slots.size for slots in model.slots for _ in range(slots.count)] if predictor.reads_attributes else []
    ids = np.stack([chance.integers(sizes) for _ in texts]) if sizes else np.zeros((len(texts), 0), dtype=np.int64)
    return Rows(ReadyRows(texts=texts, attribute_ids=_or_given(ids, given), report=EncodingReport({})), real=False)


def _or_given(ids: npt.NDArray[np.int64], given: npt.NDArray[np.int64] | None) -> npt.NDArray[np.int64]:
    return ids if given is None else np.repeat(given[None], len(ids), axis=0)


def largest_difference(predictor: Predictor, rows: Rows, score: Scorer) -> float:
    """The largest difference between a logit of the run's model, in float32, and of an export.

    Raises:
        ConfigError: above the tolerance.
    """
    model, largest = predictor.model, 0.0
    assert isinstance(model, AttributeModel)
    for batch in rows.batches(predictor):
        with torch.no_grad():
            expected = model(**batch).logits
        found = score(batch)
        largest = max(largest, _gap(expected, found))
    if not largest <= TOLERANCE:
        raise ConfigError(
            f"the export differs from the run by up to {largest:.2g} in a logit, more than {TOLERANCE:g}: nothing was "
            "written; please report it with the method and the backbone"
        )
    return largest


def _gap(expected: Tensor, found: Tensor) -> float:
    gap = (expected - found).abs().max().item()
    return float("inf") if np.isnan(gap) else gap

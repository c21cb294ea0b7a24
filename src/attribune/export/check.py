"""Checks of an export: does it give the logits of the run?"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import cycle
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from attribune.core.arrays import IntArray
from attribune.core.door import as_argument
from attribune.data.readers.base import EncodedRows, TextRows
from attribune.data.tables import read_table, table_source_name
from attribune.errors import ConfigError, DataError, numbered_in_file
from attribune.export.graph import ScoreFunction
from attribune.models.base import ConditionedModel
from attribune.models.predictor import Predictor
from attribune.tasks import Task

TOLERANCE = 1e-4
"""The largest difference of a logit."""
ROUNDED_TOLERANCE = 0.05
"""The largest difference of a probability where the weights are rounded."""
_TABLE_ROWS = 200
_RANDOM_ROWS = 50
_BATCH_SIZES = (5, 1, 8, 3)  # several, since a graph has to take any
_MAX_RANDOM_LENGTH = 48  # token ids


class Rows(NamedTuple):
    """Rows to check with, and whether they come from a table."""

    encoded: EncodedRows
    from_table: bool

    def batches(self, model: ConditionedModel) -> Iterator[dict[str, Tensor]]:
        """Yield the rows in batches of several sizes, in their order."""
        sizes, start = cycle(_BATCH_SIZES), 0
        while start < len(self.encoded):
            batch = slice(start, start + next(sizes))
            yield model.batch(self.encoded.take(batch))
            start = batch.stop


def table_rows(predictor: Predictor, data: Any, *, ids: IntArray | None) -> Rows:
    """Read and encode the first rows of a table.

    Args:
        data: anything `read_table` takes.
        ids: (slots,), fixed for all rows, whose own attribute columns are then not read.

    Raises:
        DataError: naming file, row or column.
    """
    table, source = read_table(data), table_source_name(data)
    if not len(table):
        raise DataError(f"{source} has no rows to check the export with")
    table = table.select(range(min(_TABLE_ROWS, len(table))))
    if ids is not None:
        absent = {name: [None] * len(table) for name in predictor.schema.sources}
        table = {name: table[name] for name in predictor.text_input.names if name in table.column_names} | absent
    predictor.check_columns(list(table) if isinstance(table, dict) else table.column_names, source=source)
    with numbered_in_file(range(_TABLE_ROWS), source):
        encoded = predictor.encode_rows(table)
    return Rows(encoded.with_attribute_ids(_fixed(encoded.attribute_ids, ids)), from_table=True)


def random_rows(model: ConditionedModel, predictor: Predictor, *, ids: IntArray | None) -> Rows:
    """Draw rows of random tokens and of random attribute ids, unless these are fixed (slots,); the same every time."""
    rng = np.random.default_rng(0)
    max_length = min(_MAX_RANDOM_LENGTH, model.longest_text() or _MAX_RANDOM_LENGTH)
    vocabulary = model.config.text_config.vocab_size
    texts = [rng.integers(vocabulary, size=rng.integers(2, max_length + 1)).tolist() for _ in range(_RANDOM_ROWS)]
    sizes = [slots.size for slots in model.slots for _ in range(slots.count)] if predictor.reads_attributes else []
    drawn = np.stack([rng.integers(sizes) for _ in texts]) if sizes else np.zeros((len(texts), 0), dtype=np.int64)
    row = {name: [None] if name in predictor.schema.sources else ["a"] for name in predictor.columns}
    example = predictor.encode_rows(row)
    segments = isinstance(example, TextRows) and example.segment_starts is not None
    starts = np.array([rng.integers(1, len(text) + 1) for text in texts]) if segments else None
    written = None if example.labels is None else texts
    encoded = TextRows.without_attributes(texts, segment_starts=starts, labels=written)
    return Rows(encoded.with_attribute_ids(_fixed(drawn, ids)), from_table=False)


def _fixed(own: IntArray, ids: IntArray | None) -> IntArray:
    return own if ids is None else np.repeat(ids[None], len(own), axis=0)


def largest_difference(model: ConditionedModel, rows: Rows, score: ScoreFunction, *, rounded: bool = False) -> float:
    """Return the largest difference between a calibrated logit of the run's model, in float32, and of an export.

    Those of a model that writes are at the ids of the responses.

    Args:
        rounded: whether the weights of the export are rounded; then the difference is that of a probability.

    Raises:
        ConfigError: above the tolerance.
    """
    largest = 0.0
    limit, number = (ROUNDED_TOLERANCE, "probability") if rounded else (TOLERANCE, "logit")
    for batch in rows.batches(model):
        with torch.no_grad():
            expected = model.calibrated(model(**batch).logits)
        found = score(batch)
        if "labels" in batch:
            expected, found = (logits[batch["labels"] >= 0] for logits in (expected, found))
        if rounded:
            expected, found = (_probabilities(model.task, logits) for logits in (expected, found))
        difference = (expected - found).abs().max().item()
        largest = max(largest, float("inf") if np.isnan(difference) else difference)
    if not largest <= limit:
        cure = (
            f"leave {as_argument('quantise')} out" if rounded else "please report it with the method and the backbone"
        )
        raise ConfigError(
            f"the export differs from the run by up to {largest:.2g} in a {number}, more than {limit:g}: nothing was "
            f"written; {cure}"
        )
    return largest


def _probabilities(task: Task, logits: Tensor) -> Tensor:
    probabilities = task.decode(logits.numpy()).probabilities
    assert probabilities is not None
    return torch.from_numpy(probabilities)

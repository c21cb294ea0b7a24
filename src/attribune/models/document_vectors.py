"""Vectors of texts, as a model reads them with the attributes of their rows."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from typing import Any, Literal, get_args

import numpy as np
import torch

from attribune.core.arrays import FloatArray
from attribune.core.device import computing_in
from attribune.data.readers.base import EncodedRows
from attribune.data.texts import TextInput
from attribune.errors import ConfigError
from attribune.models.base import ConditionedModel
from attribune.models.row_inputs import RowInput, RowNames
from attribune.schema.columns import column_batches
from attribune.tasks.capabilities import ENCODE, require

__all__ = ["DocumentReader", "TextOf", "encode_documents"]

_ROWS = 4096  # encoded and sorted by length at once

TextOf = Literal["text", "text_pair"]
"""Which of two texts that a model compares."""


class DocumentReader:
    """Reads whatever `Predictor.predict` takes as the rows of a model whose texts have vectors.

    Args:
        text_input: which columns are the text; by default as saved with the model.
        of: which of two texts that the model compares.

    Raises:
        ConfigError: for a task that scores tokens or prefers a text, a second text of a model that reads one, or a
            model without text columns.
    """

    def __init__(self, model: ConditionedModel, text_input: TextInput | None = None, *, of: TextOf = "text") -> None:
        text = text_input or model.text_input
        if text is None:
            raise ConfigError("the model does not say which column is its text: give text_input='text', with its name")
        require(model.task, ENCODE)
        place = get_args(TextOf).index(of) if of in get_args(TextOf) else None
        encoder = model.row_encoder(text)
        alone = None if place is None else encoder.of_single_texts(text, place=place)
        if place is None or alone is None:
            raise ConfigError(
                f"of is {of!r}: give text, or for the task similarity text_pair; the task is {model.task.kind!r}"
            )
        encoder, text = alone
        self.text, self._model, self._encoder = text, model, encoder
        names = model.input_schema.names
        read = [name for name in names if model.task.head.reads_attribute(name, place=place)]
        self._unread = [name for name in names if name not in read]
        self._names = RowNames(
            texts=text.names,
            needed=(*text.names, *read),
            known=(*(n for n in model.schema.names if n not in self._unread), *encoder.columns),
        )

    def parts(self, given: Any, attributes: Mapping[str, Any]) -> tuple[Iterator[EncodedRows], bool]:
        """Return encoded rows, some thousands at once, and whether one text or row was given.

        Args:
            attributes: beside a text, or several; see `RowInput.read`.

        Raises:
            DataError: as `Predictor.predict` does.
        """
        rows = RowInput.read(given, self._names, attributes)
        wanted = self._encoder.columns_in(rows.columns, self._names.needed)
        batches = column_batches(rows.columns, wanted, batch_size=_ROWS, first_row=1)
        return (self._encoded(columns, first) for first, columns in batches), rows.is_single

    def _encoded(self, columns: dict[str, Any], first_row: int) -> EncodedRows:
        """Encode a batch; attributes with which the text is not read are missing."""
        texts = next(iter(columns.values()))
        columns |= dict.fromkeys(self._unread, [None] * len(texts))
        schema = self._model.input_schema  # with the values that the model knows now
        return self._encoder.encode(columns, schema, text=self.text, first_row=first_row)


def encode_documents(
    model: ConditionedModel,
    given: Any,
    attributes: Mapping[str, Any],
    *,
    text_input: TextInput | None = None,
    batch_size: int = 64,
    normalize: bool = False,
    of: TextOf = "text",
    run: Callable[[], AbstractContextManager[Any]] | None = None,
) -> FloatArray:
    """Return the vectors (n, H) of what `Predictor.predict` takes, as the head of the model reads them.

    Args:
        attributes: beside a text, or several; see `RowInput.read`.
        text_input: which columns are the text; by default as saved with the model.
        batch_size: rows in one pass; they are sorted by length.
        normalize: whether vectors have the length 1, so that their products are cosines.
        of: which of two texts that the model compares.
        run: the context of a pass; by default without gradients, in the precision of the model's training.

    Returns:
        For one text or one row a vector (H,).

    Raises:
        ConfigError: as `DocumentReader` does.
        DataError: as `Predictor.predict` does.
    """
    parts, is_single = DocumentReader(model, text_input, of=of).parts(given, attributes)
    nothing = np.zeros((0, model.document_size), dtype=np.float32)
    run = partial(_pass, model) if run is None else run
    found = np.concatenate([nothing, *(_vectors_of(model, rows, size=batch_size, run=run) for rows in parts)])
    if normalize:
        found /= np.maximum(np.linalg.norm(found, axis=1, keepdims=True), np.finfo(np.float32).tiny)
    return found[0] if is_single else found


@contextmanager
def _pass(model: ConditionedModel) -> Iterator[None]:
    with torch.inference_mode(), computing_in(model.precision, model.device.type):
        yield


def _vectors_of(
    model: ConditionedModel, rows: EncodedRows, *, size: int, run: Callable[[], AbstractContextManager[Any]]
) -> FloatArray:
    found = np.zeros((len(rows), model.document_size), dtype=np.float32)
    was_training = model.training
    model.train(False)
    try:
        for index, batch in model.batches(rows, size=size):
            with run():
                found[index] = model.document_vectors(**batch).float().cpu().numpy()
    finally:
        model.train(was_training)
    return found

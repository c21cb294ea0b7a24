"""Vectors and rewards of texts, as a model reads them with the attributes of their rows."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from typing import Any, Literal, get_args

import numpy as np
import torch
from torch import Tensor

from attribune.core.arrays import FloatArray
from attribune.core.device import computing_in
from attribune.data.readers.base import EncodedRows
from attribune.data.texts import TextInput
from attribune.errors import ConfigError, DataError
from attribune.models.base import ConditionedModel
from attribune.models.row_inputs import RowInput, RowNames
from attribune.schema.columns import column_batches
from attribune.tasks.capabilities import ENCODE, REWARD, Verb, require

_ROWS = 4096  # encoded and sorted by length at once

TextOf = Literal["text", "text_pair"]
"""Which of two texts that a model compares."""


class DocumentReader:
    """Reads whatever `Predictor.predict` takes as the rows of a model whose texts have vectors.

    Args:
        text_input: which columns are the text; by default as saved with the model.
        of: which of two texts that the model compares.
        verb: what is computed of the texts.

    Raises:
        ConfigError: for a task whose texts have nothing of the kind, a second text of a model that reads one, or a
            model without text columns.
    """

    def __init__(
        self,
        model: ConditionedModel,
        text_input: TextInput | None = None,
        *,
        of: TextOf = "text",
        verb: Verb = ENCODE,
    ) -> None:
        text = text_input or model.text_input
        if text is None:
            raise ConfigError("the model does not say which column is its text: give text_input='text', with its name")
        require(model.task, verb)
        place = get_args(TextOf).index(of) if of in get_args(TextOf) else None
        encoder = model.row_encoder(text)
        alone = None if place is None else encoder.of_single_texts(text, place=place)
        if place is None or alone is None:
            raise ConfigError(
                f"of is {of!r}: give text, or for the task similarity text_pair; the task is {model.task.kind!r}"
            )
        self._prompt = text.prompt
        encoder, text = alone
        self.text, self._model, self._encoder = text, model, encoder
        names = model.input_schema.sources
        read = [name for name in names if model.task.head.reads_attribute(name, place=place)]
        self._unread = [name for name in names if name not in read]
        self._names = RowNames(
            texts=tuple(name for name in text.names if name not in self._prompt),
            needed=(*text.names, *read),
            known=(*(n for n in model.schema.sources if n not in self._unread), *encoder.columns),
            nested=model.schema.nested,
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
        if lacking := [name for name in self._prompt if columns[name].null_count == len(columns[name])]:
            raise DataError(
                f"no text has a prompt ({lacking[0]}), which the model reads in front of it: give {lacking[0]}=..., "
                "one for all or a list with one for each text, empty where there is none"
            )
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
    """Return the vectors (n, H) of texts, (H,) for one text or row; arguments and errors as in `AttributeModel.encode`.

    Args:
        given: texts or rows.
        text_input: which columns are the text; by default as saved with the model.
        run: the context of a pass; by default without gradients, in the precision of the model's training.
    """
    parts, is_single = DocumentReader(model, text_input, of=of).parts(given, attributes)
    nothing = np.zeros((0, model.document_size), dtype=np.float32)
    computed = (_computed(model, rows, model.document_vectors, size=batch_size, run=run) for rows in parts)
    found = np.concatenate([nothing, *computed])
    if normalize:
        found /= np.maximum(np.linalg.norm(found, axis=1, keepdims=True), np.finfo(np.float32).tiny)
    return found[0] if is_single else found


def reward_documents(
    model: ConditionedModel,
    given: Any,
    attributes: Mapping[str, Any],
    *,
    text_input: TextInput | None = None,
    batch_size: int = 64,
    run: Callable[[], AbstractContextManager[Any]] | None = None,
) -> FloatArray:
    """Return the reward of each text (n,), a number for one text or one row; the rest is as in `encode_documents`."""
    parts, is_single = DocumentReader(model, text_input, verb=REWARD).parts(given, attributes)
    computed = (_computed(model, rows, model.rewards, size=batch_size, run=run) for rows in parts)
    found = np.concatenate([np.zeros(0, dtype=np.float32), *computed])
    return found[0] if is_single else found


@contextmanager
def _pass(model: ConditionedModel) -> Iterator[None]:
    with torch.inference_mode(), computing_in(model.precision, model.device.type):
        yield


def _computed(
    model: ConditionedModel,
    rows: EncodedRows,
    compute: Callable[..., Tensor],
    *,
    size: int,
    run: Callable[[], AbstractContextManager[Any]] | None,
) -> FloatArray:
    """Return what is computed of each row, (n, ...), in the order of the rows."""
    found: FloatArray | None = None
    was_training = model.training
    model.train(False)
    try:
        for index, batch in model.batches(rows, size=size):
            with (run or partial(_pass, model))():
                numbers = compute(**batch).float().cpu().numpy()
            found = np.zeros((len(rows), *numbers.shape[1:]), dtype=np.float32) if found is None else found
            found[index] = numbers
    finally:
        model.train(was_training)
    assert found is not None  # a part of a table has rows
    return found

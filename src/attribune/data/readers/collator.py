"""Collator: encoded rows to one padded batch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch

from attribune.core.hashing import checksum
from attribune.core.wording import shortened
from attribune.data.windows import FILLER
from attribune.errors import ConfigError, DataError
from attribune.schema import Schema

__all__ = ["Collator", "text_key"]


def text_key(*texts: Any, segment_start: Any = None) -> int:
    """Return a number of 64 bits that is the same for equal texts, and different for others as far as can be told.

    Args:
        texts: the ids of a text, or of each of several that are compared.
        segment_start: where the second of two texts begins, or of each.
    """
    parts = (*texts, () if segment_start is None else segment_start)
    numbers = [np.atleast_1d(np.asarray(part, dtype=np.int64)) for part in parts]
    content = (piece for each in numbers for piece in (len(each).to_bytes(8, "little"), each.tobytes()))
    return int.from_bytes(bytes.fromhex(checksum(content)), "little", signed=True)


class Collator:
    """Pad encoded rows to a batch; the `data_collator` of the stock Trainer.

    Padding is on the tokenizer's side. A tokenizer without a padding token, such as that of many decoders, pads with
    its end token; the attention mask hides both. `token_type_ids` are added only for pairs of texts.

    Args:
        pad_to_multiple_of: round the length up, for hardware that prefers it.

    Raises:
        ConfigError: for a tokenizer with neither padding nor end token.
    """

    def __init__(self, tokenizer: Any, schema: Schema, *, pad_to_multiple_of: int | None = None) -> None:
        ends = (tokenizer.pad_token_id, tokenizer.eos_token_id)
        padding = next((token for token in ends if token is not None), None)
        if padding is None:
            raise ConfigError(
                f"{type(tokenizer).__name__} has neither a padding nor an end token: set tokenizer.pad_token"
            )
        if pad_to_multiple_of is not None and pad_to_multiple_of < 1:
            raise ConfigError(f"pad_to_multiple_of={pad_to_multiple_of} must be at least 1, or None")
        self.pad_id = int(padding)
        self.left = tokenizer.padding_side == "left"
        self.slots = schema.slots
        self.multiple = pad_to_multiple_of or 1

    def __call__(self, rows: Sequence[Mapping[str, Any]]) -> dict[str, torch.Tensor]:
        """Make a batch.

        Args:
            rows: `input_ids` and `attribute_ids` of each row, and `labels`, `weights` and `segment_start` in all rows
                or none; the rest is ignored.

        Returns:
            `input_ids` and `attention_mask` (B, length) and `attribute_ids` (B, slots), int64; `text_keys` (B,), int64,
            equal for rows with the same text; `labels` (B,) or (B, k), int64 or float32 as the rows have them;
            `weights` (B,), float32; `token_type_ids` (B, length), 1 in the second segment.

        Raises:
            DataError: for no rows, rows of another schema, or labels in some rows only.
        """
        if not rows:
            raise DataError("a batch needs at least one row")
        keys = [text_key(row["input_ids"], segment_start=row.get("segment_start")) for row in rows]
        batch, length = self._texts(rows, keys)
        batch["attribute_ids"] = self._attribute_ids(rows)
        batch["text_keys"] = torch.tensor(keys)
        return batch | self.targets(rows, length=length)

    def _texts(self, rows: Sequence[Mapping[str, Any]], keys: Sequence[int]) -> tuple[dict[str, torch.Tensor], int]:
        """Pad the texts of rows, each distinct one once; returns what the backbone reads, and the length."""
        numbers: dict[int, int] = {}
        index = [numbers.setdefault(key, len(numbers)) for key in keys]
        distinct = list(dict(zip(keys, rows, strict=True)).values())
        texts = [torch.as_tensor(row["input_ids"], dtype=torch.int64) for row in distinct]
        real = [text != FILLER for text in texts]
        texts = [text.where(is_real, self.pad_id) for text, is_real in zip(texts, real, strict=True)]
        longest = max(len(text) for text in texts)
        length = -(-longest // self.multiple) * self.multiple
        batch = {
            "input_ids": self.padded(texts, length=length, filler=self.pad_id, left=self.left),
            "attention_mask": self.padded(real, length=length, filler=0, left=self.left),
        }
        if "segment_start" in rows[0]:
            kinds = [
                torch.arange(len(text)) >= int(row["segment_start"]) for text, row in zip(texts, distinct, strict=True)
            ]
            batch["token_type_ids"] = self.padded(kinds, length=length, filler=0, left=self.left)
        return {name: x[index] for name, x in batch.items()}, length

    @staticmethod
    def padded(lists: Sequence[Any], *, length: int, filler: int, left: bool) -> torch.Tensor:
        """Pad lists of numbers on one side to a tensor (B, length), int64."""
        matrix = torch.full((len(lists), length), filler)
        for row, numbers in enumerate(lists):
            span = slice(length - len(numbers), length) if left else slice(0, len(numbers))
            matrix[row, span] = torch.as_tensor(numbers, dtype=torch.int64)
        return matrix

    def targets(self, rows: Sequence[Mapping[str, Any]], *, length: int) -> dict[str, torch.Tensor]:
        """Return labels and weights of a batch of texts of this length, where the rows have them."""
        labels, found = self.labels(rows, length=length), {}
        if labels is not None:
            found["labels"] = labels
        if "weights" in rows[0]:
            found["weights"] = torch.tensor([float(row["weights"]) for row in rows])
        return found

    def labels(self, rows: Sequence[Mapping[str, Any]], *, length: int) -> torch.Tensor | None:
        """Return the labels of a batch of texts of this length; None if the rows have none."""
        labelled = [row["labels"] for row in rows if row.get("labels") is not None]
        if not labelled:
            return None
        if len(labelled) < len(rows):
            raise DataError(
                f"{len(rows) - len(labelled)} of {len(rows)} rows have no labels: leave them out, or give them one"
            )
        try:
            labels = np.array(labelled)
        except ValueError as error:
            raise DataError("the rows have different numbers of labels: encode them with one task") from error
        if labels.dtype.kind not in "iufb":
            raise DataError(
                f"labels such as {shortened(str(labelled[0]), 40)!r} are not numbers: encode the rows with a task"
            )
        return torch.as_tensor(labels.astype(np.float32 if labels.dtype.kind == "f" else np.int64))

    def _attribute_ids(self, rows: Sequence[Mapping[str, Any]]) -> torch.Tensor:
        widths = {len(row["attribute_ids"]) for row in rows}
        if widths != {self.slots}:
            raise DataError(
                f"the rows have {', '.join(map(str, sorted(widths)))} attribute ids, but the schema has {self.slots} "
                "slots: encode the rows with the same schema"
            )
        return torch.as_tensor(np.array([row["attribute_ids"] for row in rows], dtype=np.int64))

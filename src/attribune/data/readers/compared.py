"""Texts of a row that are compared: each read for itself, perhaps after the same prompt."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import torch
from datasets import Dataset

from attribune.data.readers.base import Reader, Reading, TextRows
from attribune.data.readers.collator import Collator, text_key
from attribune.data.readers.text import TextEncoder
from attribune.data.texts import TextInput
from attribune.schema import Schema

__all__ = ["CandidateCollator", "CandidateEncoder", "ComparedRows"]


@dataclass(frozen=True, kw_only=True)
class ComparedRows(TextRows):
    """Rows of several texts: the ids of each.

    Attributes:
        segment_starts: (rows, texts) where the second part of each begins, for backbones that tell segments apart.
    """

    inputs: Sequence[tuple[list[int], ...]]  # type: ignore[assignment]

    @property
    def lengths(self) -> npt.NDArray[np.int64]:
        """Number of ids of each row's longest text, (rows,)."""
        sizes = (max(map(len, texts)) for texts in self.inputs)
        return np.fromiter(sizes, dtype=np.int64, count=len(self.inputs))

    def _key(self, row: int, segment_start: Any) -> int:
        return text_key(*self.inputs[row], segment_start=segment_start)

    def _ids_column(self) -> pa.Array:
        return pa.array(self.inputs, type=pa.list_(pa.list_(pa.int32())))


class CandidateEncoder(Reader):
    """Makes ids of the texts of a row, `TextInput.columns` and `pair`; with a prompt each is the second of a pair.

    Args:
        encoder: of single texts and pairs.
        negative: the columns of a third text; where there are none, it is the second one.
    """

    name: ClassVar[str] = "compared"

    def __init__(self, encoder: TextEncoder, *, negative: Sequence[str] = ()) -> None:
        self.encoder, self.window, self.columns = encoder, encoder.window, tuple(negative)

    @classmethod
    def of(cls, reading: Reading, text: TextInput | None) -> Self:
        """Return the reader of a model; see `Reader.of`."""
        negative = text.negative if reading.task.head.texts > 2 and text is not None else ()
        return cls(TextEncoder.of(reading, text), negative=negative)

    @classmethod
    def collator(cls, reading: Reading, schema: Schema) -> Collator:
        """Return a `CandidateCollator`."""
        return CandidateCollator(reading.tokenizer, schema)

    def of_single_texts(self, text: TextInput, *, place: int) -> tuple[Reader, TextInput]:
        """Return what reads the first text alone, or the second."""
        columns = text.pair if place else text.columns
        return self.encoder, replace(text, columns=columns, pair=(), negative=())

    @classmethod
    def shared_texts(cls, rows: Dataset) -> None:
        """Return nothing: the stored rows are no single texts."""

    def rows(self, text: TextInput, columns: Mapping[str, Sequence[Any]], *, first_row: int = 1) -> ComparedRows:
        """Encode the rows of some columns, as `TextEncoder` does; a row that lacks one of the texts is empty."""
        parts, present = [], []
        has_third = bool(self.columns) and all(name in columns for name in self.columns)
        for names in (text.columns, text.pair, *([self.columns] if has_third else [])):
            alone = replace(text, columns=names, prompt=(), pair=())
            one = replace(alone, columns=text.prompt, pair=names) if text.prompt else alone
            parts.append(self.encoder.rows(one, columns, first_row=first_row))
            present.append([bool(read) for read in alone.read(columns, first_row=first_row)])
        if self.columns and not has_third:
            parts.append(parts[-1])
        starts = [part.segment_starts for part in parts if part.segment_starts is not None]
        return ComparedRows.without_attributes(
            list(zip(*(part.inputs for part in parts), strict=True)),
            empty=~np.all(present, axis=0),
            shortened=np.any([part.shortened for part in parts], axis=0),
            segment_starts=np.stack(starts, axis=1) if starts else None,
        )


class CandidateCollator(Collator):
    """Pads rows of two texts, or three, to a batch; its arguments are those of `Collator`."""

    def __call__(self, rows: Sequence[Mapping[str, Any]]) -> dict[str, torch.Tensor]:
        """Make a batch as `Collator` does, whose `input_ids`, `attention_mask` and `token_type_ids` are (B, C, length).

        `text_keys` are (B, C). Rows of single texts are padded as there.

        Args:
            rows: `input_ids` and perhaps `segment_start` of all C texts; `attribute_ids`, `labels` and `weights` of the
                row.
        """
        if not rows or np.ndim(next(iter(rows[0]["input_ids"]), 0)) == 0:
            return super().__call__(rows)
        count = len(rows[0]["input_ids"])
        texts = [
            {name: row[name][place] for name in ("input_ids", "segment_start") if name in row}
            | {"attribute_ids": row["attribute_ids"]}
            for row in rows
            for place in range(count)
        ]
        batch = super().__call__(texts)
        attribute_ids = batch.pop("attribute_ids")[::count]
        batch = {name: values.view(len(rows), count, *values.shape[1:]) for name, values in batch.items()}
        targets = self.targets(rows, length=batch["input_ids"].shape[2])
        return batch | {"attribute_ids": attribute_ids} | targets

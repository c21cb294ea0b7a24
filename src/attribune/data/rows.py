"""Encoded rows: what a model reads of each row of a table."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from hashlib import blake2b
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from attribune.schema import EncodingReport

__all__ = ["EncodedRows", "text_key"]

Flags = npt.NDArray[np.bool_]


def text_key(ids: Any, segment_start: Any = None) -> int:
    """Return a number of 64 bits that is the same for equal texts, and different for others as far as can be told.

    Args:
        ids: of a text, or of several that are compared.
        segment_start: where the second of two texts begins, or of each.
    """
    parts = ids if isinstance(ids, tuple) else (ids,)
    digest = blake2b(digest_size=8)
    for part in (*parts, () if segment_start is None else segment_start):
        numbers = np.atleast_1d(np.asarray(part, dtype=np.int64))
        digest.update(len(numbers).to_bytes(8, "little"))
        digest.update(numbers.tobytes())
    return int.from_bytes(digest.digest(), "little", signed=True)


@dataclass(frozen=True, kw_only=True)
class EncodedRows:
    """Rows as a model reads them.

    Attributes:
        inputs: the ids of each row's text, special tokens included; for a task that compares texts a tuple of those of
            each, for a baseline the text itself, for a task that scores tokens a `TokenRow`.
        attribute_ids: (rows, slots).
        empty: (rows,) whether the row has no text.
        shortened: (rows,) whether its text did not fit the window.
        labels: for generative models the ids to write; otherwise labels, if they were added.
        segment_starts: (rows,) where the second of two texts begins, for backbones that tell segments apart; (rows,
            texts) of texts that are compared.
    """

    inputs: list[Any]
    attribute_ids: npt.NDArray[np.int64]
    empty: Flags
    shortened: Flags
    labels: Sequence[Any] | npt.NDArray[Any] | None = None
    segment_starts: npt.NDArray[np.int64] | None = None
    report: EncodingReport = field(default_factory=lambda: EncodingReport({}))

    @classmethod
    def without_attributes(
        cls,
        inputs: list[Any],
        *,
        empty: Sequence[bool] | None = None,
        shortened: Sequence[bool] | None = None,
        labels: Sequence[Any] | None = None,
        segment_starts: Sequence[int] | npt.NDArray[np.int64] | None = None,
    ) -> Self:
        """Make rows of texts alone; by default none is empty or shortened."""
        none = np.zeros(len(inputs), dtype=bool)
        return cls(
            inputs=inputs,
            attribute_ids=np.zeros((len(inputs), 0), dtype=np.int64),
            empty=none if empty is None else np.asarray(empty, dtype=bool),
            shortened=none if shortened is None else np.asarray(shortened, dtype=bool),
            labels=labels,
            segment_starts=None if segment_starts is None else np.asarray(segment_starts, dtype=np.int64),
        )

    def __len__(self) -> int:
        return len(self.inputs)

    @property
    def has_candidates(self) -> bool:
        """Whether rows have texts that are compared."""
        return bool(self.inputs) and isinstance(self.inputs[0], tuple)

    @property
    def lengths(self) -> npt.NDArray[np.int64]:
        """Number of ids of each row, (rows,); of texts that are compared that of the longest."""
        sizes = (max(map(len, ids)) if isinstance(ids, tuple) else len(ids) for ids in self.inputs)
        return np.fromiter(sizes, dtype=np.int64, count=len(self.inputs))

    def text_numbers(self) -> npt.NDArray[np.int64]:
        """Number the distinct texts in their order: (rows,), equal for rows with the same text."""
        starts = [None] * len(self) if self.segment_starts is None else self.segment_starts
        known: dict[int, int] = {}
        keys = (text_key(ids, start) for ids, start in zip(self.inputs, starts, strict=True))
        return np.fromiter((known.setdefault(key, len(known)) for key in keys), dtype=np.int64, count=len(self))

    def with_attribute_ids(self, attribute_ids: npt.NDArray[np.int64], *, report: EncodingReport | None = None) -> Self:
        """Return the same texts with other attributes, (rows, slots)."""
        return replace(self, attribute_ids=attribute_ids, report=self.report if report is None else report)

    def hide_attributes(self, columns: Iterable[slice] = (slice(None),)) -> Self:
        """Return the same rows with every attribute missing, or those in some columns of `attribute_ids`."""
        ids = self.attribute_ids.copy()
        for some in columns:
            ids[:, some] = 0
        return self.with_attribute_ids(ids)

    def take(self, rows: Sequence[int] | slice | npt.NDArray[Any]) -> Self:
        """Select rows by index, slice or mask."""
        index = np.arange(len(self))[rows]
        return replace(
            self,
            inputs=[self.inputs[row] for row in index],
            attribute_ids=self.attribute_ids[index],
            empty=self.empty[index],
            shortened=self.shortened[index],
            labels=None if self.labels is None else [self.labels[row] for row in index],
            segment_starts=None if self.segment_starts is None else self.segment_starts[index],
        )

    @classmethod
    def concat(cls, parts: Sequence[Self]) -> Self:
        """Join at least one batch of rows, in order; the reports add up."""
        starts = [part.segment_starts for part in parts]
        return cls(
            inputs=[text for part in parts for text in part.inputs],
            attribute_ids=np.concatenate([part.attribute_ids for part in parts]),
            empty=np.concatenate([part.empty for part in parts]),
            shortened=np.concatenate([part.shortened for part in parts]),
            labels=None if parts[0].labels is None else [label for part in parts for label in part.labels or ()],
            segment_starts=None if starts[0] is None else np.concatenate([one for one in starts if one is not None]),
            report=sum((part.report for part in parts), EncodingReport({})),
        )

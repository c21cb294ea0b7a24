"""The values of an attribute: ten million of them in a third of a gigabyte, each found by its hash."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import Self, overload

import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow as pa

from attribune.core.arrays import IntArray
from attribune.core.files import draft_of, move_into_place
from attribune.core.hashing import checksum
from attribune.schema.columns import other_spellings

_COLUMNS = ("value", "count", "hash", "place")
_TYPES = [pa.large_string(), pa.int64(), pa.uint64(), pa.int64()]
_BLOCK = 1 << 18  # values that are Python objects at a time
_LARGEST_COPY = 1 << 26  # bytes of a file that is read into memory, where nobody can change it


class Vocabulary(Sequence[str]):
    """Texts in their order, which can be looked up; equal to any sequence of the same texts.

    Stored as one Arrow array, with a sorted array of hashes that is made at the first lookup. Texts of equal hash are
    compared, so that hash collisions do no harm. A large file of a vocabulary is not read but mapped:
    the system reads the pages that lookups touch.
    """

    def __init__(self, values: Iterable[str] = ()) -> None:
        self._texts: pa.Array = pa.array(values, type=pa.large_string())

    def added(self, values: Sequence[str]) -> Vocabulary:
        """Return these texts and others behind them; hashes are computed of the others alone."""
        found, hashes, (known, order) = Vocabulary(), _hashes(values), self._index
        own = np.argsort(hashes, kind="stable")
        places = np.searchsorted(known, hashes[own], side="right")
        found._texts = pa.concat_arrays([self._texts, pa.array(values, type=pa.large_string())])
        found.__dict__["_index"] = (np.insert(known, places, hashes[own]), np.insert(order, places, own + len(self)))
        return found

    def write(self, folder: Path, stem: str, *, counts: IntArray) -> Path:
        """Write a file for `read`, named by its content; returns its path.

        Args:
            stem: how its name begins.
            counts: (len(self),), stored with the values.

        Raises:
            OSError: when it cannot be written; there is no file then.
        """
        hashes, order = self._index
        digest = checksum(np.ascontiguousarray(array).data for array in (hashes, order, counts))
        path = folder / f"{stem}-{digest}.arrow"
        columns = [self._texts, *(pa.array(array) for array in (counts, hashes, order))]
        batch = pa.record_batch(columns, names=list(_COLUMNS))
        draft = draft_of(path)
        try:
            with pa.OSFile(str(draft), "wb") as sink, pa.ipc.new_file(sink, batch.schema) as file:
                file.write_batch(batch)
            move_into_place(draft, path)
        finally:
            draft.unlink(missing_ok=True)
        return path

    @classmethod
    def read(cls, path: Path) -> tuple[Self, IntArray]:
        """Read a file that `write` made, or map a large one; returns the values and their counts.

        Raises:
            OSError: for a missing file.
            ValueError: for one that is truncated or foreign.
        """
        try:
            is_large = path.stat().st_size > _LARGEST_COPY
            source = pa.memory_map(str(path)) if is_large else pa.BufferReader(path.read_bytes())
            with pa.ipc.open_file(source) as file:
                if file.num_record_batches != 1 or file.schema.types != _TYPES:
                    raise ValueError(f"it holds {file.num_record_batches} batches of {file.schema.types}")
                batch = file.get_batch(0)
            batch.validate(full=True)
        except pa.ArrowException as error:
            raise ValueError(str(error)) from error
        texts, counts, hashes, order = batch.columns
        vocabulary = cls()
        vocabulary._texts, positions = texts, order.to_numpy()
        if any(column.null_count for column in batch.columns):
            raise ValueError("it has empty places")
        if len(positions) and not 0 <= positions.min() <= positions.max() < len(positions):
            raise ValueError("its index points outside")
        vocabulary.__dict__["_index"] = (hashes.to_numpy(), positions)
        return vocabulary, counts.to_numpy()

    def __len__(self) -> int:
        return len(self._texts)

    @overload
    def __getitem__(self, index: int) -> str: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[str, ...]: ...
    def __getitem__(self, index: int | slice) -> str | tuple[str, ...]:
        selected = self._texts[index]
        return tuple(selected.to_pylist()) if isinstance(index, slice) else str(selected.as_py())

    def __iter__(self) -> Iterator[str]:
        for start in range(0, len(self), _BLOCK):
            yield from self._texts.slice(start, _BLOCK).to_pylist()

    def __contains__(self, value: object) -> bool:
        return isinstance(value, str) and bool(self.ids([value])[0])

    def __eq__(self, other: object) -> bool:
        if isinstance(other, Vocabulary):
            return bool(self._texts.equals(other._texts))
        if isinstance(other, str) or not isinstance(other, Sequence):
            return NotImplemented
        return len(self) == len(other) and all(one == another for one, another in zip(self, other, strict=True))

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        shown = ", ".join(map(repr, self[:5])) + (", ..." if len(self) > 5 else "")
        return f"Vocabulary([{shown}], {len(self):,} values)"

    def ids(self, texts: Sequence[str]) -> IntArray:
        """Look texts up: (len(texts),), the position of each, counted from 1; 0 for one that is not there.

        A boolean that is not there as it is written is looked up as other tables write it.
        """
        ids = self._ids(texts)
        for place in np.flatnonzero(ids == 0).tolist():
            if others := other_spellings(texts[place]):
                ids[place] = self._ids(others).max()
        return ids

    def _ids(self, texts: Sequence[str]) -> IntArray:
        ids = np.zeros(len(texts), dtype=np.int64)
        if not len(texts) or not len(self):
            return ids
        hashes, (known, order) = _hashes(texts), self._index
        position = np.searchsorted(known, hashes)
        pending = np.arange(len(texts))
        while len(pending):  # more than once where two values have one hash
            pending = pending[position[pending] < len(known)]
            pending = pending[known[position[pending]] == hashes[pending]]
            candidates = order[position[pending]]
            values = self._texts.take(pa.array(candidates)).to_pylist()
            matches = np.array([texts[i] == text for i, text in zip(pending, values, strict=True)], dtype=bool)
            ids[pending[matches]] = candidates[matches] + 1
            pending = pending[~matches]
            position[pending] += 1
        return ids

    def repeated(self) -> str | None:
        """Return a text that is there twice; None without any."""
        known, order = self._index
        for first in np.flatnonzero(known[1:] == known[:-1]):
            run = order[known == known[first]]
            texts = self._texts.take(pa.array(run)).to_pylist()
            if len(set(texts)) < len(texts):
                return str(max(texts, key=texts.count))
        return None

    @cached_property
    def _index(self) -> tuple[npt.NDArray[np.uint64], IntArray]:
        """The hashes in ascending order, and the position of each one's text."""
        blocks = [_hashes(self[start : start + _BLOCK]) for start in range(0, len(self), _BLOCK)]
        hashes = np.concatenate([np.zeros(0, dtype=np.uint64), *blocks])
        order = np.argsort(hashes, kind="stable")
        return hashes[order], order


def _hashes(texts: Sequence[str]) -> npt.NDArray[np.uint64]:
    """Hash each text to 64 bits, the same in every process."""
    return np.asarray(pd.util.hash_array(np.array(texts, dtype=object), categorize=False), dtype=np.uint64)

"""The learned vectors of an attribute's values, by value: read, set, to and from a DataFrame."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import torch
from torch import nn

from attribune.core.door import as_call
from attribune.errors import DataError
from attribune.schema.attributes import FittedAttribute
from attribune.schema.columns import canonical

__all__ = ["AttributeVectors"]


class AttributeVectors(Mapping[str, npt.NDArray[np.float64]]):
    """The vector (D,) of each value of an attribute, which can be set.

        vectors = model.attribute_vectors("user")
        vectors["u17"] = vectors["u3"]

    A vector has all that the model learned of the value alone: its rows of all tables, one behind the other. Values are
    compared as in tables, so that 17 and ``"17"`` are one; what their descriptions give is not among the vectors.

    Args:
        attribute: its values are those that the model knows now.
        tables: (ids, ...) each, the model's own; what is set is changed there, and `save_pretrained` writes it.
    """

    def __init__(self, attribute: FittedAttribute, tables: Sequence[nn.Parameter]) -> None:
        self.attribute, self._values, self._tables = attribute.name, attribute.values, tuple(tables)

    @property
    def size(self) -> int:
        """D, the number of numbers of a vector."""
        return sum(table[0].numel() for table in self._tables)

    def __repr__(self) -> str:
        return f"<vectors of {len(self):,} values of {self.attribute!r}, {self.size:,} numbers each>"

    def __len__(self) -> int:
        return len(self._values)

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __contains__(self, value: object) -> bool:
        return self._find(value) is not None

    def __getitem__(self, value: object) -> npt.NDArray[np.float64]:
        vectors = self._rows([self._id(value)])
        return vectors.reshape(-1)

    def get(self, value: object, default: Any = None) -> Any:
        """Return the vector of a value, or `default` for one that the model does not know."""
        found = self._find(value)
        return default if found is None else self._rows([found])[0]

    def __setitem__(self, value: object, vector: npt.ArrayLike) -> None:
        self._set(np.array([self._id(value)]), self._numbers([vector], what=f"the vector of {value!r:.80}"))

    def to_pandas(self) -> pd.DataFrame:
        """Return a row for each value, with the values as index and the numbers as columns 0 to D - 1."""
        return pd.DataFrame(self._rows(range(1, len(self) + 1)), index=pd.Index(list(self), name=self.attribute))

    def load(self, frame: pd.DataFrame) -> None:
        """Set the vectors of a DataFrame as `to_pandas` returns it, of all values or of some.

        Raises:
            DataError: for a value that the model does not know, or rows that are no vectors; then nothing is set.
        """
        if not isinstance(frame, pd.DataFrame):
            raise DataError(f"the vectors are {type(frame).__name__}: give a DataFrame, with the values as its index")
        ids = np.array([self._id(value) for value in frame.index], dtype=np.int64)
        if (repeated := pd.Series(ids).duplicated()).any():
            raise DataError(f"the value {frame.index[repeated][0]!r} has several rows: keep one")
        columns = [str(name) for name in frame.columns]
        places = [str(place) for place in range(self.size)]
        if columns != places and sorted(columns) == sorted(places):  # those of `to_pandas` in another order
            frame = frame.iloc[:, [columns.index(place) for place in places]]
        self._set(ids, self._numbers(frame, what="the DataFrame"))

    def _find(self, value: object) -> int | None:
        """Return the id of a value, None for one that is not known."""
        text = canonical(value)
        found = 0 if text is None else int(self._values.ids([text])[0])
        return found if found > 0 else None

    def _id(self, value: object) -> int:
        if (found := self._find(value)) is None:
            raise DataError(
                f"the model does not know the value {value!r:.80} of {self.attribute!r}: choose one of its "
                f"{len(self):,} values, or add it with {as_call('enrol')}"
            )
        return found

    def _rows(self, ids: Iterable[int]) -> npt.NDArray[np.float64]:
        """Return the vectors (n, D) of ids."""
        rows = [table.detach()[list(ids)].flatten(1) for table in self._tables]
        return np.asarray(torch.cat([part.double() for part in rows], dim=1).cpu().numpy())

    def _numbers(self, vectors: Any, *, what: str) -> npt.NDArray[np.float64]:
        try:
            numbers = np.array(vectors, dtype=np.float64, order="C")  # a copy, which torch can read
        except (TypeError, ValueError) as error:
            raise DataError(
                f"{what} has something that is not a number ({error}): give {self.size} numbers for a value"
            ) from None
        if numbers.ndim != 2 or numbers.shape[1] != self.size or not np.isfinite(numbers).all():
            shape = numbers.shape[1:]
            raise DataError(f"{what} has the shape {shape}: give {self.size} finite numbers for a value")
        return numbers

    @torch.no_grad()
    def _set(self, ids: npt.NDArray[np.int64], numbers: npt.NDArray[np.float64]) -> None:
        """Set the vectors (n, D) of ids."""
        start, index = 0, torch.from_numpy(ids)
        for table in self._tables:
            width = table[0].numel()
            part = torch.from_numpy(numbers[:, start : start + width]).reshape(len(ids), *table.shape[1:])
            table[index.to(table.device)] = part.to(table.device, table.dtype)
            start += width

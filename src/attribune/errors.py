"""Errors and warnings of the package: each names the thing, the value seen and the cure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt


class AttribuneError(ValueError):
    """Base of every error that a user can fix; the command line shows only its message, without a traceback."""


class ConfigError(AttribuneError):
    """A wrong option, an unknown name, or settings that do not fit together."""


class DataError(AttribuneError):
    """A table, file, row or value that cannot be used as it is."""


class RowError(DataError):
    """A cell that cannot be used.

    Args:
        before: the message up to the number of the row.
        row: number of the row, the first being 1, in whatever was read.
        after: the rest of the message.
    """

    def __init__(self, before: str, row: int, after: str) -> None:
        super().__init__(f"{before}row {row}{after}")
        self.before, self.row, self.after = before, int(row), after


@contextmanager
def numbered_in_file(rows: Sequence[int] | npt.NDArray[np.int64], source: str) -> Iterator[None]:
    """Make errors inside name a row as its file numbers it, not as a part does that was cut from the file.

    Args:
        rows: for each row of the part, its index in the file, from 0.
        source: the file.
    """
    try:
        yield
    except RowError as error:
        raise RowError(f"{source}: {error.before}", int(rows[error.row - 1]) + 1, error.after) from error


@contextmanager
def of_column(names: Sequence[str]) -> Iterator[None]:
    """Make errors inside name the column, where only one is read."""
    try:
        yield
    except RowError as error:
        if len(names) != 1:
            raise
        raise RowError(f"column {names[0]!r}: {error.before}", error.row, error.after) from error


class ModelFolderError(AttribuneError):
    """A run or model folder with a missing, truncated or foreign file."""


class AttribuneWarning(UserWarning):
    """Something was trimmed, dropped or replaced; the message counts it and says what to do."""

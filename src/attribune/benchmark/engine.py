"""What runs the cells of a benchmark: the contract."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

__all__ = ["Engine", "Outcome"]


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """What became of a cell.

    Args:
        done: whether it has its results; None where another process has it or had it.
        word: for the user.
    """

    path: str
    done: bool | None
    word: str


class Engine(Protocol):
    """Runs cells, some at a time."""

    def has_room(self) -> bool:
        """Whether another cell may be started."""
        ...

    def start(self, path: str) -> None:
        """Begin with a cell."""
        ...

    def wait(self) -> Sequence[Outcome]:
        """Wait until a cell has ended."""
        ...

    def close(self) -> None:
        """Stop the cells that still run; they go on from their checkpoints when they are started again."""
        ...

"""The protocol of engines, which run the cells of a benchmark."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

__all__ = ["Engine", "Outcome"]


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """The outcome of a cell, with a word for the user; `done` is None if another process has or had the cell."""

    path: str
    done: bool | None
    word: str


class Engine(Protocol):
    """Runs cells, some at a time."""

    def has_room(self) -> bool:
        """Whether another cell may be started."""

    def start(self, path: str) -> None:
        """Start a cell."""

    def wait(self) -> Sequence[Outcome]:
        """Wait until a cell has ended."""

    def close(self) -> None:
        """Stop the running cells; they resume from their checkpoints when they are started again."""

"""What of a benchmark is done, what remains, and how long that may take."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from attribune.benchmark.experiment import Cell
from attribune.benchmark.results import BenchmarkFolder, CellResult

__all__ = ["Status", "duration", "status_of"]


@dataclass(frozen=True, kw_only=True)
class Status:
    """The state of a benchmark.

    Args:
        done: cells with results.
        left: cells without.
        seconds: of one process for the remaining cells, estimated from those done; None before any is.
    """

    done: tuple[Cell, ...]
    left: tuple[Cell, ...]
    seconds: float | None

    def text(self, *, workers: int = 1) -> str:
        """One line."""
        total = len(self.done) + len(self.left)
        line = f"{len(self.done)} of {total} cells done"
        if not self.left:
            return line
        if self.seconds is None:
            return f"{line}; no estimate before the first is"
        return f"{line}; about {duration(self.seconds / workers)} left with {workers} at a time"


def status_of(folder: BenchmarkFolder, sets: Sequence[str] | None = None) -> Status:
    """Read the folder.

    Args:
        sets: of which the cells are counted; all unless given.

    Raises:
        ModelFolderError: for a folder that holds no benchmark.
    """
    experiment = folder.experiment()
    cells = list((experiment if sets is None else experiment.on(sets)).cells())
    done = [cell for cell in cells if folder.is_done(cell)]
    left = [cell for cell in cells if not folder.is_done(cell)]
    took = [(cell, float(CellResult(cell, folder.place(cell)).record["seconds"])) for cell in done]
    guessed = [_guess(cell, took) for cell in left] if took else []
    return Status(done=tuple(done), left=tuple(left), seconds=sum(guessed) if took else None)


def _guess(cell: Cell, took: Sequence[tuple[Cell, float]]) -> float:
    """The mean of the cells most like this one: same set and setting, same set, any."""
    for alike in (
        [s for other, s in took if (other.set.name, other.setting.name) == (cell.set.name, cell.setting.name)],
        [s for other, s in took if other.set.name == cell.set.name],
        [s for _, s in took],
    ):
        if alike:
            return sum(alike) / len(alike)
    return 0.0


def duration(seconds: float) -> str:
    """Seconds in words."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"

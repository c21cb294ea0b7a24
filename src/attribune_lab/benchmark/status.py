"""The state of a benchmark: cells that are done, cells that remain, and the time they may take."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean

from attribune_lab.benchmark.experiment import Cell
from attribune_lab.benchmark.results import BenchmarkFolder, CellResult

__all__ = ["Status", "duration", "status_of"]


@dataclass(frozen=True, kw_only=True)
class Status:
    """The state of a benchmark.

    Args:
        done: cells with results.
        left: cells without.
        seconds: of one process for the remaining cells, estimated from those that are done; None without any.
    """

    done: tuple[Cell, ...]
    left: tuple[Cell, ...]
    seconds: float | None

    def text(self, *, workers: int = 1) -> str:
        """Return the state in one line."""
        total = len(self.done) + len(self.left)
        line = f"{len(self.done)} of {total} cells done"
        if not self.left:
            return line
        if self.seconds is None:
            return f"{line}; no estimate before the first is"
        return f"{line}; about {duration(self.seconds / workers)} left with {workers} at a time"


def status_of(folder: BenchmarkFolder, sets: Sequence[str] | None = None) -> Status:
    """Read the state of a folder, or only of some of its sets; ModelFolderError if it holds no benchmark."""
    experiment = folder.experiment()
    cells = list((experiment if sets is None else experiment.on(sets)).cells())
    done = [cell for cell in cells if folder.is_done(cell)]
    left = [cell for cell in cells if not folder.is_done(cell)]
    took = [(cell, CellResult(cell, folder.place(cell)).record.seconds) for cell in done]
    seconds = sum(_estimate(cell, took) for cell in left) if took else None
    return Status(done=tuple(done), left=tuple(left), seconds=seconds)


def _estimate(cell: Cell, took: Sequence[tuple[Cell, float]]) -> float:
    """Return the mean seconds of the most similar cells: same set and setting, else same set, else all."""
    same_set = [(other, s) for other, s in took if other.set.name == cell.set.name]
    same_setting = [(other, s) for other, s in same_set if other.setting.name == cell.setting.name]
    return fmean(s for _, s in same_setting or same_set or took)


def duration(seconds: float) -> str:
    """Return seconds in words."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"

"""The console: notes and progress on stderr, and the silence of the libraries below."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import datasets
import transformers
from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from attribune.core.logs import LOGGER, is_quiet
from attribune.core.progress import Reporter, epoch_name
from attribune.core.terminal import one_line

__all__ = ["ConsoleReporter", "quiet_libraries"]

_STEPS_PER_LINE = 50  # without a terminal for a bar


def quiet_libraries() -> None:
    """Hide the progress bars and messages of the libraries below, unless more than the default level is asked for."""
    level = min(LOGGER.getEffectiveLevel() + 10, logging.ERROR)
    datasets.disable_progress_bars()
    datasets.utils.logging.set_verbosity(level)
    transformers.utils.logging.set_verbosity(level)
    transformers.utils.logging.disable_progress_bar()
    logging.getLogger("accelerate").setLevel(level)


class ConsoleReporter(Reporter):
    """Shows notes, a bar with epoch, loss and times, and validation metrics on stderr, if not quiet."""

    def __init__(self) -> None:
        self.console = Console(stderr=True, highlight=False, soft_wrap=True, quiet=is_quiet())
        self._progress: Progress | None = None
        self._bar: TaskID | None = None
        self._total = 0
        self._epochs: float | None = None

    def note(self, text: str) -> None:
        """Print a line."""
        self.console.print(one_line(text), markup=False)

    @contextmanager
    def training(self) -> Iterator[None]:
        """Show a progress bar during a training."""
        if not self.console.is_terminal:
            yield
            return
        columns = (
            TextColumn("{task.description}"),
            BarColumn(bar_width=None),
            TextColumn("{task.completed} of {task.total} steps, loss {task.fields[loss]},"),
            TimeElapsedColumn(),
            TextColumn("elapsed,"),
            TimeRemainingColumn(),
            TextColumn("left"),
        )
        with Progress(*columns, console=self.console, transient=True) as self._progress:
            yield
        self._progress = self._bar = None

    def started(self, *, done: int, total: int, epochs: float | None = None) -> None:
        """Set the ends of the bar."""
        self._total, self._epochs = total, epochs
        if done:
            self.note(f"resuming from step {done} of {total}")
        if self._progress is not None:
            self._bar = self._progress.add_task("training", total=total, completed=done, loss="-")

    def step(self, *, done: int, loss: float | None, epoch: float | None = None) -> None:
        """Move the bar, or print a line now and then."""
        shown = "-" if loss is None else f"{loss:.3f}"
        if self._progress is not None and self._bar is not None:
            self._progress.update(self._bar, completed=done, loss=shown, description=epoch_name(epoch, self._epochs))
        elif done % _STEPS_PER_LINE == 0:
            self.note(f"step {done} of {self._total}, loss {shown}")

    def checked(self, *, epoch: float, metrics: Mapping[str, float]) -> None:
        """Print the metrics of a check."""
        skipped = {"runtime", "samples_per_second", "steps_per_second", "model_preparation_time"}
        values = ", ".join(f"{name} {value:.4f}" for name, value in metrics.items() if name not in skipped)
        self.note(f"epoch {epoch:.4g}, validation: {values}")

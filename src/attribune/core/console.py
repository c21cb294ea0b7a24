"""The console: notes and progress on stderr, and the silence of the libraries below."""

from __future__ import annotations

import io
import logging
import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, redirect_stdout

import datasets
import transformers
from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from attribune.core.logs import LOGGER, is_quiet
from attribune.core.progress import Reporter, epoch_name
from attribune.core.terminal import one_line

__all__ = ["ConsoleReporter", "quiet_libraries", "quiet_ray"]

_STEPS_PER_LINE = 50  # without a terminal for a bar


def quiet_libraries() -> None:
    """Hide the progress bars and messages of the libraries below, unless more than the default level is asked for."""
    level = min(LOGGER.getEffectiveLevel() + 10, logging.ERROR)
    datasets.disable_progress_bars()
    datasets.utils.logging.set_verbosity(level)
    transformers.utils.logging.set_verbosity(level)
    transformers.utils.logging.disable_progress_bar()
    logging.getLogger("accelerate").setLevel(level)


@contextmanager
def quiet_ray() -> Iterator[None]:
    """Hide what Ray writes to stdout, and what its core writes to stderr past Python; its log files have it.

    What Python writes to stderr is shown as before.
    """
    stderr, devnull = os.dup(2), os.open(os.devnull, os.O_WRONLY)
    python = sys.stderr
    try:
        if python is sys.__stderr__ and python is not None:
            python.flush()
            sys.stderr = os.fdopen(
                stderr, "w", buffering=1, encoding=python.encoding, errors=python.errors, closefd=False
            )
        os.dup2(devnull, 2)
        with redirect_stdout(io.StringIO()):
            yield
    finally:
        os.dup2(stderr, 2)
        sys.stderr = python
        os.close(stderr)
        os.close(devnull)


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

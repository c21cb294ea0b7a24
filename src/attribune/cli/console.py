"""What the verbs show on stderr while they work, and how results look."""

from __future__ import annotations

import io
import logging
import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, redirect_stdout
from typing import Any

import datasets
import transformers
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeRemainingColumn

from attribune.cli.verbosity import LOGGER, is_quiet
from attribune.evaluation.report import comparison_lines, text_table
from attribune.evaluation.results import result_rows
from attribune.training.progress import Reporter

__all__ = ["ConsoleReporter", "quiet_libraries", "quiet_ray", "results_text"]

_PLAIN_EVERY = 50  # steps between two lines where there is no terminal


def quiet_libraries() -> None:
    """Keep the bars of the libraries below off the screen, and their remarks, unless more than ours is asked for."""
    level = min(LOGGER.getEffectiveLevel() + 10, logging.ERROR)
    datasets.disable_progress_bars()
    datasets.utils.logging.set_verbosity(level)
    transformers.utils.logging.set_verbosity(level)
    transformers.utils.logging.disable_progress_bar()
    logging.getLogger("accelerate").setLevel(level)


@contextmanager
def quiet_ray() -> Iterator[None]:
    """Keep what Ray writes to stdout, and its core past Python to stderr, off the screen; its log files have it.

    What Python writes to stderr shows as before.
    """
    kept, nowhere = os.dup(2), os.open(os.devnull, os.O_WRONLY)
    python = sys.stderr
    try:
        if python is sys.__stderr__ and python is not None:
            python.flush()
            sys.stderr = os.fdopen(
                kept, "w", buffering=1, encoding=python.encoding, errors=python.errors, closefd=False
            )
        os.dup2(nowhere, 2)
        with redirect_stdout(io.StringIO()):
            yield
    finally:
        os.dup2(kept, 2)
        sys.stderr = python
        os.close(kept)
        os.close(nowhere)


class ConsoleReporter(Reporter):
    """Notes, a bar with loss and time left, and the metrics of every check, on stderr, if not quiet."""

    def __init__(self) -> None:
        self.console = Console(stderr=True, highlight=False, soft_wrap=True, quiet=is_quiet())
        self._progress: Progress | None = None
        self._bar: TaskID | None = None
        self._total = 0

    def note(self, text: str) -> None:
        """One line."""
        self.console.print(text, markup=False)

    @contextmanager
    def training(self) -> Iterator[None]:
        """Open the progress bar for a training."""
        if not self.console.is_terminal:
            yield
            return
        columns = (
            TextColumn("training"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("loss {task.fields[loss]}"),
            TimeRemainingColumn(),
        )
        with Progress(*columns, console=self.console, transient=True) as self._progress:
            yield
        self._progress = self._bar = None

    def started(self, *, done: int, total: int) -> None:
        """Set the bar's ends."""
        self._total = total
        if done:
            self.note(f"going on from step {done} of {total}")
        if self._progress is not None:
            self._bar = self._progress.add_task("training", total=total, completed=done, loss="-")

    def step(self, *, done: int, loss: float | None) -> None:
        """Move the bar, or write a line now and then."""
        shown = "-" if loss is None else f"{loss:.3f}"
        if self._progress is not None and self._bar is not None:
            self._progress.update(self._bar, completed=done, loss=shown)
        elif done % _PLAIN_EVERY == 0:
            self.note(f"step {done} of {self._total}, loss {shown}")

    def checked(self, *, epoch: float, metrics: Mapping[str, float]) -> None:
        """The metrics of a check."""
        skipped = {"runtime", "samples_per_second", "steps_per_second", "model_preparation_time"}
        values = ", ".join(f"{name} {value:.4f}" for name, value in metrics.items() if name not in skipped)
        self.note(f"epoch {epoch:.4g}, validation: {values}")


def results_text(results: Mapping[str, Any]) -> str:
    """The tables of a run, from what its metrics.json holds."""
    blocks = []
    for part in ("validation", "test"):
        rows = result_rows(results["results"], part=part)
        if rows:
            blocks.append(f"{part}, {results['rows'][part]:,} rows\n{text_table(rows)}")
    blocks.append("\n".join(comparison_lines(results["comparisons"])))
    training = results["training"]
    sizes = training["parameters"]
    blocks.append(
        f"{sizes['trained']:,} of {sizes['total']:,} parameters trained, {sizes['stored']:,} stored "
        f"({sizes['stored_bytes'] / 1e6:.1f} MB); trained in {training['seconds']:,.0f} s"
    )
    return "\n\n".join(block for block in blocks if block)

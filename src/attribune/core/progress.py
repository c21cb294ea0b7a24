"""Progress of long jobs: written to the log, unless a subclass shows it; and the silence of the libraries below."""

from __future__ import annotations

import logging
import math
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from attribune.core.logs import LOGGER, is_quiet, show_note, write_line
from attribune.core.wording import one_line

_BAR = "{desc} |{bar}| {n_fmt} of {total_fmt} steps, {elapsed} elapsed, {remaining} left{postfix}"
_STEPS_PER_LINE = 50  # without a terminal for a bar
_log = logging.getLogger(__name__)


class Reporter:
    """Writes progress to the log; the command line has a subclass that shows it."""

    def note(self, text: str) -> None:
        """Report what was read, dropped or chosen."""
        _log.info("%s", text)

    def notes(self, texts: Iterable[str]) -> None:
        """Report several of them."""
        for text in texts:
            self.note(text)

    def started(self, *, done: int, total: int, epochs: float | None = None) -> None:
        """Report that training begins, or continues, at step `done` of `total`; `epochs` if it has a number of them."""
        _log.info("training from step %d to %d", done, total)

    def step(self, *, done: int, loss: float | None, epoch: float | None = None) -> None:
        """Report a step; the loss is the last one logged, `epoch` how many passes over the rows are done."""
        _log.debug("step %d, loss %s", done, loss)

    def checked(self, *, epoch: float, metrics: Mapping[str, float]) -> None:
        """Report metrics on the validation rows."""
        _log.info("epoch %.4g, validation: %s", epoch, dict(metrics))

    @contextmanager
    def training(self) -> Iterator[None]:
        """Surround a training, so that a subclass can open and close a display."""
        yield


class ProgressBar(Reporter):
    """Shows notes through the log, and a bar with epoch, time and loss, in a terminal and in notebooks."""

    _stays = True  # at the end of a training

    def __init__(self) -> None:
        self._bar: Any = None
        self._epochs: float | None = None

    def note(self, text: str) -> None:
        """Show what was read, dropped or chosen."""
        show_note(text)

    @contextmanager
    def training(self) -> Iterator[None]:
        """Close the bar at the end of a training."""
        try:
            yield
        finally:
            if self._bar is not None:
                self._bar.close()
            self._bar = None

    def started(self, *, done: int, total: int, epochs: float | None = None) -> None:
        """Open the bar; there is none where nobody looks: stderr is a file, or only errors are to be shown."""
        from tqdm.auto import tqdm  # here, since it looks for notebooks

        super().started(done=done, total=total, epochs=epochs)
        self._epochs = epochs
        self._bar = tqdm(
            total=total,
            initial=done,
            desc="training",
            bar_format=_BAR,
            disable=True if is_quiet() else None,
            leave=self._stays,
            file=sys.stderr,
        )

    def step(self, *, done: int, loss: float | None, epoch: float | None = None) -> None:
        """Move the bar."""
        super().step(done=done, loss=loss, epoch=epoch)
        if self._bar is not None:
            self._bar.set_description(self._epoch_name(epoch), refresh=False)
            self._bar.set_postfix({} if loss is None else {"loss": f"{loss:.3f}"}, refresh=False)
            self._bar.update(done - self._bar.n)

    def _epoch_name(self, epoch: float | None) -> str:
        """Return the epoch that a step belongs to, such as ``epoch 2 of 5``."""
        if epoch is None:
            return "training"
        number = math.ceil(epoch) or 1
        return (
            f"epoch {number}"
            if self._epochs is None
            else f"epoch {min(number, math.ceil(self._epochs))} of {self._epochs:g}"
        )


class ConsoleReporter(ProgressBar):
    """Shows on stderr what a command reports, if not quiet: notes, a bar, or now and then a line, and validations."""

    _stays = False

    def note(self, text: str) -> None:
        """Print a line."""
        if not is_quiet():
            write_line(one_line(text))

    def started(self, *, done: int, total: int, epochs: float | None = None) -> None:
        """Open the bar, and say where a training goes on."""
        if done:
            self.note(f"resuming from step {done} of {total}")
        super().started(done=done, total=total, epochs=epochs)

    def step(self, *, done: int, loss: float | None, epoch: float | None = None) -> None:
        """Move the bar; without a terminal for it, print a line now and then."""
        super().step(done=done, loss=loss, epoch=epoch)
        if (self._bar is None or self._bar.disable) and done % _STEPS_PER_LINE == 0:
            of = "" if self._bar is None else f" of {self._bar.total}"
            self.note(f"step {done}{of}, loss {'-' if loss is None else f'{loss:.3f}'}")

    def checked(self, *, epoch: float, metrics: Mapping[str, float]) -> None:
        """Print the metrics of a check."""
        skipped = {"runtime", "samples_per_second", "steps_per_second", "model_preparation_time"}
        values = ", ".join(f"{name} {value:.4f}" for name, value in metrics.items() if name not in skipped)
        self.note(f"epoch {epoch:.4g}, validation: {values}")


def quiet_libraries() -> None:
    """Hide the progress bars and messages of the libraries below, unless more than the default level is asked for."""
    import datasets
    import transformers

    level = min(LOGGER.getEffectiveLevel() + 10, logging.ERROR)
    datasets.disable_progress_bars()
    datasets.utils.logging.set_verbosity(level)
    transformers.utils.logging.set_verbosity(level)
    transformers.utils.logging.disable_progress_bar()
    logging.getLogger("accelerate").setLevel(level)

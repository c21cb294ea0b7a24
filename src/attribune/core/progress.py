"""Progress of long jobs: written to the log, unless a subclass shows it."""

from __future__ import annotations

import logging
import math
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from attribune.core.logs import is_quiet, show_note

__all__ = ["ProgressBar", "Reporter", "epoch_name"]

_BAR = "{desc} |{bar}| {n_fmt} of {total_fmt} steps, {elapsed} elapsed, {remaining} left{postfix}"
_log = logging.getLogger(__name__)


class Reporter:
    """Writes progress to the log; the command line has a subclass that shows it."""

    def note(self, text: str) -> None:
        """Report what was read, dropped or chosen."""
        _log.info("%s", text)

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


def epoch_name(epoch: float | None, epochs: float | None) -> str:
    """Return the epoch that a step belongs to as a bar names it, such as ``epoch 2 of 5``."""
    if epoch is None:
        return "training"
    number = math.ceil(epoch) or 1
    return f"epoch {number}" if epochs is None else f"epoch {min(number, math.ceil(epochs))} of {epochs:g}"


class ProgressBar(Reporter):
    """Shows notes as a command does, and a bar with epoch, time and loss, in a terminal and in notebooks."""

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
        )

    def step(self, *, done: int, loss: float | None, epoch: float | None = None) -> None:
        """Move the bar."""
        super().step(done=done, loss=loss, epoch=epoch)
        if self._bar is not None:
            self._bar.set_description(epoch_name(epoch, self._epochs), refresh=False)
            self._bar.set_postfix({} if loss is None else {"loss": f"{loss:.3f}"}, refresh=False)
            self._bar.update(done - self._bar.n)

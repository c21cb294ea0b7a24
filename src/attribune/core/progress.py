"""Progress of long jobs: written to the log, unless a subclass shows it."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

__all__ = ["Reporter"]

_log = logging.getLogger(__name__)


class Reporter:
    """Writes progress to the log; the command line has a subclass that shows it."""

    def note(self, text: str) -> None:
        """Report what was read, dropped or chosen."""
        _log.info("%s", text)

    def started(self, *, done: int, total: int) -> None:
        """Report that training begins, or continues, at step `done` of `total`."""
        _log.info("training from step %d to %d", done, total)

    def step(self, *, done: int, loss: float | None) -> None:
        """Report a step; the loss is the last one logged."""
        _log.debug("step %d, loss %s", done, loss)

    def checked(self, *, epoch: float, metrics: Mapping[str, float]) -> None:
        """Report metrics on the validation rows."""
        _log.info("epoch %.4g, validation: %s", epoch, dict(metrics))

    @contextmanager
    def training(self) -> Iterator[None]:
        """Surround a training, so that a subclass can open and close a display."""
        yield

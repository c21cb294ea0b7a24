"""What a long job tells whoever waits for it: through the log, unless somebody shows it otherwise."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

__all__ = ["Reporter"]

_log = logging.getLogger(__name__)


class Reporter:
    """Writes what it is told to the log, which is silent unless it is shown; the command line has a screen instead."""

    def note(self, text: str) -> None:
        """Something worth a line: what was read, dropped, chosen."""
        _log.info("%s", text)

    def started(self, *, done: int, total: int) -> None:
        """Training begins, or goes on, at step `done` of `total`."""
        _log.info("training from step %d to %d", done, total)

    def step(self, *, done: int, loss: float | None) -> None:
        """A step was made; the loss is the last one logged."""
        _log.debug("step %d, loss %s", done, loss)

    def checked(self, *, epoch: float, metrics: Mapping[str, float]) -> None:
        """The model was checked on the validation rows."""
        _log.info("epoch %.4g, validation: %s", epoch, dict(metrics))

    @contextmanager
    def training(self) -> Iterator[None]:
        """Surrounds a training, so that a display can be opened and closed."""
        yield

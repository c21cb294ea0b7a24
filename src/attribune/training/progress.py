"""What a long job tells whoever waits for it; the library itself prints nothing."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

__all__ = ["Reporter"]


class Reporter:
    """Silent; the command line shows what it is told instead."""

    def note(self, text: str) -> None:
        """Something worth a line: what was read, dropped, chosen."""

    def started(self, *, done: int, total: int) -> None:
        """Training begins, or goes on, at step `done` of `total`."""

    def step(self, *, done: int, loss: float | None) -> None:
        """A step was made; the loss is the last one logged."""

    def checked(self, *, epoch: float, metrics: Mapping[str, float]) -> None:
        """The model was checked on the validation rows."""

    @contextmanager
    def training(self) -> Iterator[None]:
        """Surrounds a training, so that a display can be opened and closed."""
        yield

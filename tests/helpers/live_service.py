"""A service that listens, on a thread of the tests, and models that answer when they may."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from attribune.apps.serve import ServedModel, ServeSettings
from attribune.apps.serve.server import make_server


class Gated:
    """Stands in for a model: it answers when it is allowed to, and remembers what it was asked together."""

    def __init__(self) -> None:
        self.open, self.asked = threading.Event(), list[list[Any]]()

    def answer(self, columns: dict[str, list[Any]]) -> list[Any]:
        """What came in, once the gate is open."""
        self.asked.append(columns["text"])
        assert self.open.wait(20)
        return columns["text"]

    def answer_together(self, rows: dict[Gated, dict[str, list[Any]]]) -> dict[Gated, list[Any]]:
        """Rows of this model alone."""
        return {model: model.answer(columns) for model, columns in rows.items()}

    def shares_batches_with(self, other: object) -> bool:
        """With no other."""
        return self is other


def until(true: Callable[[], bool], *, seconds: float = 20) -> None:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if true():
            return
        time.sleep(0.001)
    raise AssertionError(f"it did not become true in {seconds} seconds")


@contextmanager
def listening(models: Mapping[str, ServedModel], **settings: Any) -> Iterator[tuple[str, int]]:
    """Serve models; the address."""
    server = make_server(models, host="127.0.0.1", settings=ServeSettings(**settings))
    with socket.create_server(("127.0.0.1", 0), backlog=500) as listener:
        thread = threading.Thread(target=lambda: server.run(sockets=[listener]))
        thread.start()
        try:
            until(lambda: server.started)
            yield listener.getsockname()
        finally:
            server.should_exit = True
            thread.join()

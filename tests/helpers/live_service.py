"""A service that listens on a thread of the tests, models that answer when they may, and time that passes on demand."""

from __future__ import annotations

import asyncio
import shutil
import socket
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import uvicorn
from fastapi.testclient import TestClient

from attribune.apps.serve import ServedModel, ServeSettings, create_app
from attribune.apps.serve.server import make_server
from attribune.apps.serve.service import Service
from attribune.apps.serve.settings import Keys

PATIENCE = 300
"""Seconds after which something is taken for something that never happens, also where many wait for one processor."""


class Gated:
    """Stands in for a model: it answers when it is allowed to, and remembers what it was asked together."""

    def __init__(self) -> None:
        self.open, self.asked = threading.Event(), list[list[Any]]()

    def answer(self, columns: dict[str, list[Any]]) -> list[Any]:
        """What came in, once the gate is open."""
        self.asked.append(columns["text"])
        assert self.open.wait(PATIENCE)
        return columns["text"]

    def answer_together(self, rows: dict[Gated, dict[str, list[Any]]]) -> dict[Gated, list[Any]]:
        """Rows of this model alone."""
        return {model: model.answer(columns) for model, columns in rows.items()}

    def shares_batches_with(self, other: object) -> bool:
        """With no other."""
        return self is other


class Clock:
    """The time by which an event loop ends what takes too long: it stands still, and passes when it is told to."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop, self._running, self._now = loop, loop.time, loop.time()
        loop.time = lambda: self._now  # type: ignore[method-assign]

    @classmethod
    def of(cls, client: TestClient) -> Clock:
        """The clock of a service that is asked in this process, from now on."""

        async def loop() -> asyncio.AbstractEventLoop:
            return asyncio.get_running_loop()

        assert client.portal is not None
        return cls(client.portal.call(loop))

    def pass_time(self, seconds: float) -> None:
        """Let time pass at once, also from another thread."""
        self._now += seconds
        self._loop.call_soon_threadsafe(lambda: None)  # it looks at its clock when it has something to do

    def run(self) -> None:
        """Let time pass by itself from here on."""
        ahead = self._now - self._running()
        self._loop.time = lambda: self._running() + ahead  # type: ignore[method-assign]


def until(true: Callable[[], bool], *, seconds: float = PATIENCE) -> None:
    """Wait for an event that can only be seen by looking again and again."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if true():
            return
        time.sleep(0.005)
    raise AssertionError(f"it did not become true in {seconds} seconds")


def service_of(app: Any) -> Service:
    """What the handlers of an application share while it runs."""
    found: Service = app.state.service
    return found


@contextmanager
def client_of(models: Any, *, keys: Keys | None = None, **settings: Any) -> Iterator[TestClient]:
    """Ask a service in this process; a request may take long, and what fails in it is an answer."""
    app = create_app(models, settings=ServeSettings(**{"timeout": PATIENCE, **settings}), keys=keys)
    with TestClient(app, raise_server_exceptions=False) as client:
        yield client


class Running(NamedTuple):
    """A service that listens at an address."""

    server: uvicorn.Server
    host: str
    port: int

    @property
    def loop(self) -> asyncio.AbstractEventLoop:
        """On which it answers."""
        return self.server.servers[0].get_loop()

    @property
    def url(self) -> str:
        """Where it is asked."""
        return f"http://{self.host}:{self.port}"


@contextmanager
def running(models: Mapping[str, ServedModel], **settings: Any) -> Iterator[Running]:
    """Serve models; a request may take long, unless the settings say otherwise."""
    server = make_server(models, host="127.0.0.1", settings=ServeSettings(**{"timeout": PATIENCE, **settings}))
    with socket.create_server(("127.0.0.1", 0), backlog=500) as listener:
        thread = threading.Thread(target=lambda: server.run(sockets=[listener]))
        thread.start()
        try:
            until(lambda: server.started)
            yield Running(server, *listener.getsockname())
        finally:
            server.should_exit = True
            thread.join()


def point(link: Path, run: Path) -> None:
    """Let a link lead to another run, at once."""
    link.with_suffix(".new").symlink_to(run)
    link.with_suffix(".new").replace(link)


def broken(runs: Path, folder: Path) -> Path:
    """A copy of a run whose weights are cut off."""
    shutil.copytree(runs / "pln", folder)
    weights = next((folder / "model").glob("*.safetensors"))
    weights.write_bytes(weights.read_bytes()[:100])
    return folder


@contextmanager
def listening(models: Mapping[str, ServedModel], **settings: Any) -> Iterator[tuple[str, int]]:
    """Serve models; the address."""
    with running(models, **settings) as service:
        yield service.host, service.port

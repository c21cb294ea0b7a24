"""The process of a service, which answers until it is stopped."""

from __future__ import annotations

import functools
import logging
import os
import signal
import socket
import threading
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from types import FrameType
from typing import Any

import uvicorn

from attribune.apps.serve.app import create_app
from attribune.apps.serve.limits import LimitedConnection
from attribune.apps.serve.models import RunLoader, ServedModel
from attribune.apps.serve.service import Service
from attribune.apps.serve.settings import Keys, ServeSettings, hosts_for
from attribune.core.logs import EVENT
from attribune.errors import AttribuneError, ConfigError

_LOG = logging.getLogger(__name__)


def serve(
    loader: RunLoader,
    *,
    host: str = "127.0.0.1",
    port: int = 8000,
    settings: ServeSettings | None = None,
    say: Callable[[str], None] = lambda _: None,
) -> None:
    """Answer requests until the process is interrupted or stopped (SIGINT, SIGTERM); a second signal ends it.

    Args:
        loader: loads the runs, and loads them again at SIGHUP, unless the terminal has gone: that stops the service.
            A signal that comes while they are loaded counts once requests are answered.
        host: address to listen on. Callers from other machines must send a key of `ATTRIBUNE_SERVE_KEYS`.
        port: 0 takes a free one.
        say: called with a line on each model that is loaded, and with the URL once requests are answered.

    Raises:
        ConfigError: for a host beyond this machine without keys, or an address that cannot be listened on.
    """
    with _noting_hangups() as early:
        server = make_server(loader.load(), host=host, settings=settings or ServeSettings())
        for line in server.service.summaries():  # no name here keeps a model that is replaced
            say(line)
        reload = server.on_hangup = functools.partial(Reloader(server.service, loader).in_background, say)
        with listen(host, port) as listener:
            address = url(host, listener)

            def started() -> None:
                say(f"serving at {address}, described at {address}/docs; press Ctrl-C to stop")
                if early:
                    reload()

            server.on_start = started
            server.run(sockets=[listener])


def url(host: str, listener: socket.socket) -> str:
    """Return the address of a service."""
    return f"http://{f'[{host}]' if ':' in host else host}:{listener.getsockname()[1]}"


def make_server(models: Mapping[str, ServedModel], *, host: str, settings: ServeSettings) -> Server:
    """Make the server of a host, whose `run` answers requests.

    Raises:
        ConfigError: for a host beyond this machine without keys, or for callers who need keys of their own to change
            values, and have none.
    """
    settings = settings.model_copy(update={"allowed_hosts": hosts_for(host, settings.allowed_hosts)})
    limit = settings.max_connections + max(settings.max_connections // 2, 16)  # some ask, others wait
    connection: Any = functools.partial(LimitedConnection, timeout=settings.timeout, limit=limit)
    app = create_app(models, settings=settings, keys=Keys.of_environment(host, enrol=settings.enrol))
    config = uvicorn.Config(
        app,
        http=connection,
        ws="none",
        log_config=None,
        access_log=False,
        timeout_graceful_shutdown=int(settings.timeout) + 1,
        server_header=False,
    )
    return Server(config, app.state.service)


class Server(uvicorn.Server):
    """Stops at a signal when it has answered what it was asked, and at a second one at once.

    Attributes:
        on_start: called once requests are answered.
        on_hangup: called at SIGHUP, which otherwise stops the server.
    """

    def __init__(self, config: uvicorn.Config, service: Service) -> None:
        super().__init__(config)
        self.service = service
        self.on_start: Callable[[], None] | None = None
        self.on_hangup: Callable[[], None] | None = None
        self._had_terminal = has_terminal()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Begin to answer, and say so."""
        await super().startup(sockets)
        if self.on_start is not None and not self.should_exit:
            self.on_start()

    @contextmanager
    def capture_signals(self) -> Generator[None, None, None]:
        """Handle SIGHUP too."""
        with super().capture_signals(), _at_hangup(self._hang_up):
            yield

    def _hang_up(self, sig: int, frame: FrameType | None) -> None:
        """Do what SIGHUP asks for; it stops a service whose terminal was closed."""
        if self.on_hangup is None or self.should_exit or (self._had_terminal and not has_terminal()):
            self.handle_exit(sig, frame)
        else:
            self.on_hangup()

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Stop."""
        if self.should_exit:
            end_at_once(sig, frame)
        super().handle_exit(sig, frame)


@contextmanager
def _at_hangup(handler: Callable[[int, FrameType | None], None]) -> Generator[None, None, None]:
    """Handle SIGHUP while the block runs, unless it is ignored, as under nohup."""
    hangup = getattr(signal, "SIGHUP", None)
    if hangup is None or threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.getsignal(hangup)
    if before is not signal.SIG_IGN:
        signal.signal(hangup, handler)
    try:
        yield
    finally:
        signal.signal(hangup, before)


@contextmanager
def _noting_hangups() -> Generator[list[int], None, None]:
    """Note each SIGHUP in a list, except the one of a terminal that was closed, which ends the process."""
    noted, had_terminal = list[int](), has_terminal()

    def note(sig: int, _: FrameType | None) -> None:
        if had_terminal and not has_terminal():
            _end_as_without_handler(sig)
        noted.append(sig)

    with _at_hangup(note):
        yield noted


class Reloader:
    """Loads runs again beside the models that answer, and puts them in their place; where that fails, nothing changes.

    Args:
        service: whose models they are; requests that have theirs keep them.
        loader: loaded them.
    """

    def __init__(self, service: Service, loader: RunLoader) -> None:
        self._service, self._loader = service, loader
        self._turn = threading.Lock()
        self._asked = self._begun = 0

    def __call__(self) -> list[str]:
        """Load the runs as they are now, and serve them; returns a line on each.

        A call waits for the one before it. Of several that wait, one loads for all, and the others return no line.

        Raises:
            AttribuneError: for a run that cannot be loaded.
        """
        self._asked += 1
        mine = self._asked
        with self._turn:
            if mine <= self._begun:
                return []
            self._begun = self._asked
            if self._loader.enrol:
                raise ConfigError(
                    "with --enrol the service itself changes its runs, and a value learned during a reload would be "
                    "lost: stop the service, and start it again"
                )
            self._service.models = self._loader.load_beside()
            return self._service.summaries()

    def in_background(self, say: Callable[[str], None]) -> None:
        """Load the runs again on a thread of its own.

        Args:
            say: called with a line on each model; where none is loaded, the log says why.
        """

        def run() -> None:
            try:
                for line in self():
                    say(f"loaded again: {line}")
            except Exception as error:
                is_bug = not isinstance(error, AttribuneError)
                _LOG.warning(
                    "the runs were not reloaded, and the old ones are still served: %s",
                    error,
                    exc_info=is_bug,
                    extra=EVENT,
                )

        threading.Thread(target=run, name="attribune-reload", daemon=True).start()


def has_terminal() -> bool:
    """Whether this process has a terminal that it would be stopped with."""
    try:
        os.close(os.open("/dev/tty", os.O_RDONLY | getattr(os, "O_NOCTTY", 0)))
    except OSError:
        return False
    return True


def end_at_once(sig: int, _: FrameType | None) -> None:
    """End the process as the signal does without a handler; for SIGINT with the exit code of an interrupted verb."""
    os.write(2, b"\nattribune serve: ended at once; what was being answered is lost\n")
    if sig == signal.SIGINT:
        os._exit(130)
    _end_as_without_handler(sig)


def _end_as_without_handler(sig: int) -> None:
    signal.signal(sig, signal.SIG_DFL)
    signal.raise_signal(sig)


def listen(host: str, port: int) -> socket.socket:
    """Listen at an address; ConfigError where that cannot be."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family, backlog=2048)
    except OSError as error:
        raise ConfigError(
            f"the service cannot listen on {host}:{port} ({error.strerror or error}): another program may have the "
            "port, or the address is not this machine's; choose another with --port or --host"
        ) from error

"""The server process: it listens, and finishes the requests in progress when it is stopped."""

from __future__ import annotations

import functools
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
from attribune.apps.serve.connections import Connection
from attribune.apps.serve.models import ServedModel
from attribune.apps.serve.settings import ServeSettings, hosts_for, keys_for
from attribune.errors import ConfigError

__all__ = ["end_at_once", "make_server", "serve"]


def serve(
    models: Mapping[str, ServedModel],
    *,
    host: str = "127.0.0.1",
    port: int = 8000,
    settings: ServeSettings | None = None,
    on_start: Callable[[str], None] = lambda _: None,
) -> None:
    """Answer requests until the process is interrupted or stopped (SIGINT, SIGTERM, SIGHUP); a second signal ends it.

    Args:
        models: by name, as `load_models` returns them.
        host: address to listen on. Callers from other machines must send a key of `ATTRIBUNE_SERVE_KEYS`.
        port: 0 takes a free one.
        on_start: called with the URL once requests are answered.

    Raises:
        ConfigError: for a host beyond this machine without keys, or an address that cannot be listened on.
    """
    server = make_server(models, host=host, settings=settings or ServeSettings())
    with _listen(host, port) as listener:
        name = f"[{host}]" if ":" in host else host
        on_start(f"http://{name}:{listener.getsockname()[1]}")
        server.run(sockets=[listener])


def make_server(models: Mapping[str, ServedModel], *, host: str, settings: ServeSettings) -> uvicorn.Server:
    """Make the server of a host, whose `run` answers requests.

    Raises:
        ConfigError: for a host beyond this machine without keys.
    """
    settings = settings.model_copy(update={"allowed_hosts": hosts_for(host, settings.allowed_hosts)})
    limit = settings.max_connections + max(settings.max_connections // 2, 16)  # some ask, others wait
    connection: Any = functools.partial(Connection, timeout=settings.timeout, limit=limit)
    config = uvicorn.Config(
        create_app(models, settings=settings, keys=keys_for(host)),
        http=connection,
        ws="none",
        log_config=None,
        access_log=False,
        timeout_graceful_shutdown=int(settings.timeout) + 1,
        server_header=False,
    )
    return _Server(config)


class _Server(uvicorn.Server):
    """Stops at a signal when it has answered what it was asked, and at a second one at once."""

    @contextmanager
    def capture_signals(self) -> Generator[None, None, None]:
        """Handle SIGHUP as SIGTERM, unless it is ignored, as under nohup."""
        hangup = getattr(signal, "SIGHUP", None)
        with super().capture_signals():
            if hangup is None or threading.current_thread() is not threading.main_thread():
                yield
                return
            before = signal.getsignal(hangup)
            if before is not signal.SIG_IGN:
                signal.signal(hangup, self.handle_exit)
            try:
                yield
            finally:
                signal.signal(hangup, before)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Stop."""
        if self.should_exit:
            end_at_once(sig, frame)
        super().handle_exit(sig, frame)


def end_at_once(sig: int, _: FrameType | None) -> None:
    """End the process as the signal does without a handler; for SIGINT with the exit code of an interrupted verb."""
    os.write(2, b"\nattribune serve: ended at once; what was being answered is lost\n")
    if sig == signal.SIGINT:
        os._exit(130)
    signal.signal(sig, signal.SIG_DFL)
    signal.raise_signal(sig)


def _listen(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family, backlog=2048)
    except OSError as error:
        raise ConfigError(
            f"{host}:{port} cannot be listened on ({error.strerror or error}): another program may have the port, or "
            "the address is not this machine's; choose another with --port or --host"
        ) from error

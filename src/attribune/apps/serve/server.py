"""The server process: it listens, and finishes the requests in progress when it is stopped."""

from __future__ import annotations

import socket
from collections.abc import Callable, Mapping

import uvicorn

from attribune.apps.serve.app import create_app
from attribune.apps.serve.models import ServedModel
from attribune.apps.serve.settings import ServeSettings, keys_for
from attribune.errors import ConfigError

__all__ = ["serve"]


def serve(
    models: Mapping[str, ServedModel],
    *,
    host: str = "127.0.0.1",
    port: int = 8000,
    settings: ServeSettings | None = None,
    on_start: Callable[[str], None] = lambda _: None,
) -> None:
    """Answer requests until the process is interrupted or stopped (SIGINT, SIGTERM).

    Args:
        models: by name, as `load_models` returns them.
        host: address to listen on. Callers from other machines must send a key of `ATTRIBUNE_SERVE_KEYS`.
        port: 0 takes a free one.
        on_start: called with the URL once requests are answered.

    Raises:
        ConfigError: for a host beyond this machine without keys, or an address that cannot be listened on.
    """
    settings = settings or ServeSettings()
    app = create_app(models, settings=settings, keys=keys_for(host))
    config = uvicorn.Config(
        app,
        log_config=None,
        access_log=False,
        limit_concurrency=settings.max_connections,
        timeout_graceful_shutdown=int(settings.timeout) + 1,
        server_header=False,
    )
    with _listen(host, port) as listener:
        name = f"[{host}]" if ":" in host else host
        on_start(f"http://{name}:{listener.getsockname()[1]}")
        uvicorn.Server(config).run(sockets=[listener])


def _listen(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family, backlog=2048)
    except OSError as error:
        raise ConfigError(
            f"{host}:{port} cannot be listened on ({error.strerror or error}): another program may have the port, or "
            "the address is not this machine's; choose another with --port or --host"
        ) from error

"""What stands in front of the application: hosts, keys, limits of size, time and connections, and counts."""

from __future__ import annotations

import asyncio
import hmac
import sys
import time
from collections.abc import Sequence
from typing import Any

from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol

from attribune.apps.serve.requests import LEFT, printable, refusal
from attribune.apps.serve.service import Service
from attribune.apps.serve.settings import VALUE_KEYS, Keys
from attribune.core.hosts import is_allowed, replayed

ENROL, VALUES = "/v1/enrol", "/v1/values"  # which take keys of their own
_OPEN = ("/health",)  # a container's probe sends no key

_CLOSE = {"connection": "close"}
_BODIES = 32  # of the largest size, which there is memory for at once
_MAX_AHEAD = 1 << 21  # bytes of the requests that a caller sends before it has the answer to the last one


# Starlette's `TrustedHostMiddleware` does not say which names are allowed, and nothing of its limits or times a body.
# uvicorn's `limit_concurrency` counts connections that only wait, and refuses the probes of /health with the others.
class Gate:
    """Passes on requests with an allowed host, a valid key and a complete body within the limits; counts and times all.

    Args:
        app: the application behind it.
        keys: of which callers must send one as a bearer token.
        paths: of the service; others are counted together.
    """

    def __init__(self, app: ASGIApp, *, service: Service, keys: Keys, paths: set[str]) -> None:
        self._app, self._keys, self._paths = app, keys, paths
        self._settings, self._metrics = service.settings, service.metrics
        self._answering = self._held = 0
        self._largest = int(service.settings.max_body_mb * 2**20)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle a request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        started, status = time.perf_counter(), 500
        body: bytes | JSONResponse | None = None

        async def send_and_record(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        try:
            body = await self._read_body(scope, receive)
            if body is None:
                status = LEFT
            elif isinstance(body, bytes):
                await self._answer(body, scope, receive, send_and_record)
            else:
                await body(scope, receive, send_and_record)
        finally:
            self._held -= len(body) if isinstance(body, bytes) else 0
            path = getattr(scope.get("route"), "path_format", scope["path"])  # as it is declared, without names in it
            path = path if path in self._paths else "other"
            self._metrics.requests.labels(path, str(status)).inc()
            seconds = time.perf_counter() - started
            self._metrics.durations.labels(path).observe(seconds)
            if self._settings.access_log:
                host, _ = scope.get("client") or ("-", 0)
                sys.stderr.write(f"{host} {scope['method']} {path} {status} in {1000 * seconds:.0f} ms\n")

    async def _answer(self, body: bytes, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, unless as many are being answered as there may be; those still being sent do not count."""
        if self._answering >= self._settings.max_connections and scope["path"] not in _OPEN:
            reason = f"{self._answering} requests are being answered, the maximum at once: try again later"
            answer = refusal(scope["path"], 503, "body", reason, {**_CLOSE, "retry-after": "1"})
            await answer(scope, receive, send)
            return
        self._answering += 1
        try:
            await self._app(scope, replayed(body, receive), send)
        finally:
            self._answering -= 1

    async def _read_body(self, scope: Scope, receive: Receive) -> bytes | JSONResponse | None:
        """Return the body of a request, or a refusal of it; None when the caller has left."""
        hosts, host = self._settings.allowed_hosts, dict(scope["headers"]).get(b"host", b"").decode("latin-1")
        if hosts and not is_allowed(host, hosts):
            cure = f"use {' or '.join(hosts)}, or allow it by --allowed-hosts"
            reason = f"{printable(host[:60])!r} is not a name of this service: {cure}"
            return refusal(scope["path"], 421, "header.host", reason, _CLOSE)
        # By how it begins: routes ignore a line end behind their path.
        changes_values = self._settings.enrol and scope["path"].startswith((ENROL, VALUES))
        if changes_values and self._keys.callers and not self._keys.values:
            reason = f"the keys of all callers do not change values: set {VALUE_KEYS} for those who may"
            return refusal(scope["path"], 403, "path", reason)
        keys, whose = self._keys.callers, "one of the service's keys"
        if changes_values:
            keys, whose = self._keys.values, f"a key for values, one of {VALUE_KEYS}"
        if scope["path"] not in _OPEN and not _is_authorized(scope, keys):
            reason = f"send {whose}, as in 'Authorization: Bearer KEY'"
            return refusal(scope["path"], 401, "header.authorization", reason, {"www-authenticate": "Bearer"})
        declared = dict(scope["headers"]).get(b"content-length", b"0")
        if declared.isdigit() and int(declared[:20]) > self._largest:
            return self._too_large(scope["path"])
        try:
            return await asyncio.wait_for(self._body(scope["path"], receive), self._settings.timeout)
        except TimeoutError:
            reason = f"the body did not arrive within {self._settings.timeout:g} seconds: send it again"
            return refusal(scope["path"], 408, "body", reason, _CLOSE)

    async def _body(self, path: str, receive: Receive) -> bytes | JSONResponse | None:
        body, is_whole = bytearray(), False
        try:
            while not is_whole:
                message = await receive()
                if message["type"] == "http.disconnect":
                    return None
                more = message.get("body", b"")
                body += more
                self._held += len(more)
                if len(body) > self._largest:
                    return self._too_large(path)
                if self._held > _BODIES * self._largest:
                    reason = f"bodies of {self._held:,} bytes wait already: try again later"
                    return refusal(path, 503, "body", reason, {**_CLOSE, "retry-after": "1"})
                is_whole = not message.get("more_body", False)
            return bytes(body)
        finally:
            if not is_whole:
                self._held -= len(body)

    def _too_large(self, path: str) -> JSONResponse:
        reason = f"the body has more than {self._largest:,} bytes: send fewer texts at once"
        return refusal(path, 413, "body", reason, _CLOSE)


def _is_authorized(scope: Scope, keys: Sequence[str]) -> bool:
    """Whether a request has one of the keys, or there are none."""
    scheme, _, given = dict(scope["headers"]).get(b"authorization", b"").partition(b" ")
    matches = [hmac.compare_digest(given, key.encode()) for key in keys]  # all of them, in constant time
    return (any(matches) and scheme.lower() == b"bearer") or not keys


# uvicorn's `timeout_keep_alive` runs after an answer alone: not before the first request, within its head, or while the
# caller does not read.
class LimitedConnection(H11Protocol):
    """A connection that waits for its caller for a limited time, and no longer than there is room.

    It is closed when the head of a request has not come within the time since the connection was made, or since the
    last answer; and when the caller does not read what it is sent. The time of the body and of the answer is the
    application's.

    Args:
        timeout: seconds.
        limit: connections open at once. Beyond it those that wait for their callers are closed, from the one that has
            waited longest.
    """

    def __init__(self, *args: Any, timeout: float, limit: int, **options: Any) -> None:
        super().__init__(*args, **options)
        self._timeout, self._limit = timeout, limit
        self._timer: asyncio.TimerHandle | None = None
        self._since = 0.0  # when it began to wait

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin to wait for a request, in the place of others if need be."""
        super().connection_made(transport)
        self._wait()
        others = [
            one for one in self.connections if isinstance(one, LimitedConnection) and one is not self and one.is_waiting
        ]
        others.sort(key=lambda one: one._since)
        for one in others[: max(0, len(self.connections) - self._limit)]:
            one._close()

    def data_received(self, data: bytes) -> None:
        """Handle a part of a request."""
        super().data_received(data)
        if len(self.conn.trailing_data[0]) > _MAX_AHEAD:
            self._close()
        if self._is_asking and not self.flow.write_paused:
            self._stop_timer()

    def on_response_complete(self) -> None:
        """Begin to wait for the next request, if it is not there yet."""
        super().on_response_complete()
        if not self._is_asking:
            self._wait()

    def pause_writing(self) -> None:
        """Begin to wait until the caller reads."""
        super().pause_writing()
        self._wait()

    def resume_writing(self) -> None:
        """Write on."""
        super().resume_writing()
        if self._is_asking:
            self._stop_timer()

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the connection."""
        super().connection_lost(exc)
        self._stop_timer()

    @property
    def is_waiting(self) -> bool:
        """Whether the connection waits for its caller, to ask or to send the rest of a body."""
        flushed = not self.transport.get_write_buffer_size()
        return flushed and (not self._is_asking or self.cycle.more_body)

    @property
    def _is_asking(self) -> bool:
        """Whether the head of a request has come, and not yet all of its answer gone."""
        return self.cycle is not None and not self.cycle.response_complete

    def _wait(self) -> None:
        self._stop_timer()
        self._since = time.monotonic()
        self._timer = self.loop.call_later(self._timeout, self._close)

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _close(self) -> None:
        self.connections.discard(self)
        self.transport.abort()

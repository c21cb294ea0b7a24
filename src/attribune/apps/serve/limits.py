"""The middleware in front of the service: hosts, keys, limits of size and time, counts of requests."""

from __future__ import annotations

import asyncio
import hmac
import sys
import time
from collections.abc import Sequence

from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from attribune.apps.serve.faults import refusal
from attribune.apps.serve.metrics import ServiceMetrics
from attribune.apps.serve.settings import ADMIN_KEYS, VALUE_KEYS, ServeSettings
from attribune.core.hosts import is_allowed

__all__ = ["ENROL", "LEFT", "RELOAD", "VALUES", "Gate"]

LEFT = 499  # what logs and metrics show of a request whose caller left; it is never sent
RELOAD = "/v1/reload"  # which takes the keys of administrators alone
ENROL, VALUES = "/v1/enrol", "/v1/values"  # which take keys of their own
_OPEN = ("/health",)  # a container's probe sends no key

_CLOSE = {"connection": "close"}
_BODIES = 32  # of the largest size, which there is memory for at once


class Gate:
    """Passes on requests with an allowed host, a valid key and a complete body within the limits; counts and times all.

    Args:
        app: the application behind it.
        keys: callers must send one of them as a bearer token; none is required if empty.
        admin_keys: one of them must be sent to have the runs loaded again; nobody may if empty.
        value_keys: one of them must be sent to add and forget values; if empty, whoever needs no key may, if any.
        paths: of the service; others are counted together.
    """

    def __init__(
        self,
        app: ASGIApp,
        *,
        settings: ServeSettings,
        keys: Sequence[str],
        admin_keys: Sequence[str] = (),
        value_keys: Sequence[str] = (),
        metrics: ServiceMetrics,
        paths: set[str],
    ) -> None:
        self._app, self._settings, self._metrics, self._paths = app, settings, metrics, paths
        self._answering = self._held = 0
        self._largest = int(settings.max_body_mb * 2**20)
        self._keys, self._admin_keys, self._value_keys = (
            [key.encode() for key in some] for some in (keys, admin_keys, value_keys)
        )

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
            await self._app(scope, _replay(body, receive), send)
        finally:
            self._answering -= 1

    async def _read_body(self, scope: Scope, receive: Receive) -> bytes | JSONResponse | None:
        """Return the body of a request, or a refusal of it; None when the caller has left."""
        hosts, host = self._settings.allowed_hosts, dict(scope["headers"]).get(b"host", b"").decode("latin-1")
        if hosts and not is_allowed(host, hosts):
            named = host[:60].encode("ascii", "backslashreplace").decode()
            reason = (
                f"{named!r} is not a name of this service: use {' or '.join(hosts)}, or allow it by --allowed-hosts"
            )
            return refusal(scope["path"], 421, "header.host", reason, _CLOSE)
        # By how it begins: routes ignore a line end behind their path.
        reloads = scope["path"].startswith(RELOAD)
        changes_values = self._settings.enrol and scope["path"].startswith((ENROL, VALUES))
        if reloads and not self._admin_keys:
            reason = f"reloading is disabled: set {ADMIN_KEYS}, or send the process SIGHUP"
            return refusal(RELOAD, 403, "path", reason)
        if changes_values and self._keys and not self._value_keys:
            reason = f"the keys of all callers do not change values: set {VALUE_KEYS} for those who may"
            return refusal(scope["path"], 403, "path", reason)
        keys, whose = self._keys, "one of the service's keys"
        if reloads:
            keys, whose = self._admin_keys, "an administrator's key"
        elif changes_values:
            keys, whose = self._value_keys, f"a key for values, one of {VALUE_KEYS}"
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


def _is_authorized(scope: Scope, keys: Sequence[bytes]) -> bool:
    """Whether a request has one of the keys, or there are none."""
    scheme, _, given = dict(scope["headers"]).get(b"authorization", b"").partition(b" ")
    matches = [hmac.compare_digest(given, key) for key in keys]  # all of them, in constant time
    return (any(matches) and scheme.lower() == b"bearer") or not keys


def _replay(body: bytes, receive: Receive) -> Receive:
    """Receive a body that has been read already, then what follows it."""
    messages: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def replay() -> Message:
        return messages.pop() if messages else await receive()

    return replay

"""The middleware in front of the service: keys, limits of size and time, counts of requests."""

from __future__ import annotations

import asyncio
import hmac
import json
import time
from collections.abc import Sequence
from typing import Any

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from attribune.apps.serve.metrics import ServiceMetrics
from attribune.apps.serve.settings import ServeSettings

__all__ = ["Gate", "fault_body"]

_OPEN = ("/health",)  # a container's probe sends no key


def fault_body(field: str, reason: str) -> bytes:
    """Return the body of an answer that refuses a request."""
    return json.dumps({"errors": [{"field": field, "reason": reason}]}).encode()


class Gate:
    """Passes on requests with a valid key and a complete body within the limits; counts and times all of them.

    Args:
        app: the application behind it.
        settings: the limits.
        keys: a caller must send one of them as a bearer token; none is asked for if empty.
        metrics: for the counts.
        paths: of the service; others are counted together.
    """

    def __init__(
        self, app: ASGIApp, *, settings: ServeSettings, keys: Sequence[str], metrics: ServiceMetrics, paths: set[str]
    ) -> None:
        self._app, self._settings, self._metrics, self._paths = app, settings, metrics, paths
        self._keys = [f"Bearer {key}".encode() for key in keys]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle a request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        started, status = time.perf_counter(), 500

        async def send_and_record(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        try:
            await self._handle(scope, receive, send_and_record)
        finally:
            path = scope["path"] if scope["path"] in self._paths else "other"
            self._metrics.requests.labels(path, str(status)).inc()
            self._metrics.durations.labels(path).observe(time.perf_counter() - started)

    async def _handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        if not self._is_authorized(scope):
            reason = "send one of the service's keys, as in 'Authorization: Bearer KEY'"
            await _refuse(send, 401, "header.authorization", reason, [(b"www-authenticate", b"Bearer")])
            return
        limit = int(self._settings.max_body_mb * 2**20)
        too_large = f"the body has more than {limit:,} bytes: send fewer texts at once"
        declared = dict(scope["headers"]).get(b"content-length", b"0")
        if declared.isdigit() and int(declared[:20]) > limit:
            await _refuse(send, 413, "body", too_large, [(b"connection", b"close")])
            return
        try:
            body = await asyncio.wait_for(_body(receive, limit), self._settings.timeout)
        except TimeoutError:
            reason = f"the body did not come within {self._settings.timeout:g} seconds: send it again"
            await _refuse(send, 408, "body", reason, [(b"connection", b"close")])
            return
        if body is None:
            return  # the caller has left
        if len(body) > limit:
            await _refuse(send, 413, "body", too_large, [(b"connection", b"close")])
            return
        await self._app(scope, _replay(body, receive), send)

    def _is_authorized(self, scope: Scope) -> bool:
        if not self._keys or scope["path"] in _OPEN:
            return True
        header = dict(scope["headers"]).get(b"authorization", b"")
        matches = [hmac.compare_digest(header, key) for key in self._keys]  # all of them, in constant time
        return any(matches)


async def _body(receive: Receive, limit: int) -> bytes | None:
    """Read the body, or a little more than the limit of it; None when the caller has left."""
    body = bytearray()
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            return None
        body += message.get("body", b"")
        if len(body) > limit or not message.get("more_body", False):
            return bytes(body)


def _replay(body: bytes, receive: Receive) -> Receive:
    """Receive a body that has been read already, then what follows it."""
    replayed = False

    async def again() -> Message:
        nonlocal replayed
        if replayed:
            return await receive()
        replayed = True
        return {"type": "http.request", "body": body, "more_body": False}

    return again


async def _refuse(send: Send, status: int, field: str, reason: str, headers: list[Any]) -> None:
    body = fault_body(field, reason)
    headers = [*headers, (b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})

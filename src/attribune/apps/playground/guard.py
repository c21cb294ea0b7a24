"""The middleware in front of the page: of what gradio can do it lets through what the page needs."""

from __future__ import annotations

import asyncio
import json
import re
from typing import Any

from starlette.datastructures import Headers
from starlette.responses import PlainTextResponse, Response
from starlette.types import ASGIApp, Receive, Scope, Send

from attribune.core.hosts import LOOPBACK, is_allowed, replayed

_READ = re.compile(
    r"/|/(?:config|theme\.css|favicon\.ico|manifest\.json|robots\.txt)/?|/(?:assets|static|svelte)/.+"
    r"|/gradio_api/(?:info|user|app_id|theme\.css|startup-events|queue/data|heartbeat/[^/]+|call/[^/]+/[^/]+)/?"
)
_WRITTEN = re.compile(r"/gradio_api/(?:queue/join|call/[^/]+|cancel|reset)/?")
_MAX_BODY = 1 << 21  # bytes; a text of 100,000 characters takes 1.2 million at most
_TIMEOUT = 30  # seconds for a body
_CLOSE = {"connection": "close"}


class PageGuard:
    """Passes on what the page asks for, and refuses other hosts, other origins, files, and other paths of gradio.

    What the controls of the page give are texts and lists of texts. Objects, by which gradio names files and addresses
    to fetch, are refused.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle a request."""
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
        elif scope["type"] == "http":  # and no other: the page has no websockets
            refused = _refusal(scope)
            if refused is None and scope["method"] == "POST":
                body = await _body(receive)
                refused = body if isinstance(body, Response) else None
                receive = receive if isinstance(body, Response) else replayed(body, receive)
            await (refused or self._app)(scope, receive, send)


def _refusal(scope: Scope) -> Response | None:
    headers, method = Headers(scope=scope), scope["method"]
    host, origin = headers.get("host", ""), headers.get("origin")
    if not is_allowed(host, LOOPBACK):
        return PlainTextResponse(f"the playground is at {' or '.join(LOOPBACK)} alone", 421)
    if origin is not None and origin != f"http://{host}":
        return PlainTextResponse("the playground answers its own page alone", 403)
    paths = _WRITTEN if method == "POST" else _READ
    if method not in ("GET", "HEAD", "POST") or not paths.fullmatch(scope["path"]):
        return PlainTextResponse("the playground has no such path", 404)
    return None


async def _body(receive: Receive) -> bytes | Response:
    body, more = bytearray(), True
    try:
        async with asyncio.timeout(_TIMEOUT):
            while more:
                message = await receive()
                body += message.get("body", b"")
                more = message.get("more_body", False)
                if len(body) > _MAX_BODY:
                    return PlainTextResponse(
                        f"the body has more than {_MAX_BODY:,} bytes", 413, {"connection": "close"}
                    )
        content = json.loads(body)
        data = content.get("data", []) if isinstance(content, dict) else None
    except TimeoutError:
        return PlainTextResponse("the body did not come in time", 408, _CLOSE)
    except (ValueError, RecursionError):
        return PlainTextResponse("the body is not JSON", 400)
    if not isinstance(data, list) or not all(_is_plain(value) for value in data):
        return PlainTextResponse("the controls of the page give texts and lists of texts alone", 400)
    return bytes(body)


def _is_plain(value: Any) -> bool:
    values = value if isinstance(value, list) else [value]
    return not any(isinstance(one, dict | list) for one in values)

"""What the handlers of all paths share: the models, and how an answer is waited for."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping
from concurrent.futures import Executor
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, TypeVar

from fastapi import Request

from attribune.apps.serve.batching import Batcher, Overloaded, Stopping
from attribune.apps.serve.metrics import ServiceMetrics
from attribune.apps.serve.models import ServedModel
from attribune.apps.serve.requests import Refused
from attribune.apps.serve.settings import ServeSettings
from attribune.core.job_folder import HeldError
from attribune.errors import AttribuneError, ModelFolderError

__all__ = ["AbandonedError", "Service", "in_time", "while_connected"]

Asked = TypeVar("Asked")
_LARGE_BODY = 1 << 16  # bytes; reading a smaller one takes the event loop a few milliseconds at most


@dataclass(frozen=True, kw_only=True)
class Service:
    """The models of a service, and what computes their answers.

    Args:
        reader: the thread that reads large bodies.
    """

    models: Mapping[str, ServedModel]
    settings: ServeSettings
    metrics: ServiceMetrics
    batcher: Batcher
    reader: Executor

    async def read(self, body: bytes, parse: Callable[[], Asked]) -> Asked:
        """Return what a body asks for; a large one is read on a thread, one at a time."""
        if len(body) < _LARGE_BODY:
            return parse()
        return await asyncio.get_running_loop().run_in_executor(self.reader, parse)


Result = TypeVar("Result")


class AbandonedError(Exception):
    """Nobody waits for an answer any more."""


@asynccontextmanager
async def in_time(settings: ServeSettings) -> AsyncIterator[None]:
    """Refuse a request whose work within the block fails, or takes too long."""
    try:
        async with asyncio.timeout(settings.timeout):
            yield
    except Overloaded:
        raise Refused(
            429, "body", f"more than {settings.max_queue_size:,} texts wait already: try again later"
        ) from None
    except Stopping:
        raise Refused(503, "body", "the service is stopping: try again later") from None
    except TimeoutError:
        raise Refused(
            503, "body", f"no answer within {settings.timeout:g} seconds: send fewer texts, or later"
        ) from None
    except AttribuneError as error:
        status, field = (503, "model") if isinstance(error, ModelFolderError | HeldError) else (422, "body")
        raise Refused(status, field, str(error).encode("ascii", "backslashreplace").decode()) from None


async def while_connected(request: Request, work: Coroutine[Any, Any, Result]) -> Result | None:
    """Wait for the result of work on a request; when its caller leaves, the work is cancelled, and there is None."""
    working, leaving = asyncio.ensure_future(work), asyncio.ensure_future(_leave(request))
    try:
        await asyncio.wait((working, leaving), return_when=asyncio.FIRST_COMPLETED)
        return working.result() if working.done() else None
    finally:
        working.cancel()
        leaving.cancel()


async def _leave(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass

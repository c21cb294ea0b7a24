"""What the handlers of all paths share: the models, and how an answer is waited for."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from typing import Any, TypeVar

from fastapi import Request

from attribune.apps.serve.batching import Batcher, Overloaded, Stopping
from attribune.apps.serve.limits import LEFT
from attribune.apps.serve.metrics import ServiceMetrics
from attribune.apps.serve.models import ServedModel
from attribune.apps.serve.requests import Refused
from attribune.apps.serve.settings import ServeSettings
from attribune.core.job_folder import HeldError
from attribune.errors import AttribuneError, ModelFolderError

__all__ = ["AbandonedError", "Service"]

Result = TypeVar("Result")
_LARGE_BODY = 1 << 16  # bytes; reading a smaller one takes the event loop a few milliseconds at most


class AbandonedError(Exception):
    """Nobody waits for an answer any more."""


class Service:
    """The models of a service, and what computes their answers.

    Attributes:
        batcher: on whose thread the models predict.
        reader: the thread that reads large bodies.
    """

    def __init__(self, models: Mapping[str, ServedModel], settings: ServeSettings, metrics: ServiceMetrics) -> None:
        self.models, self.settings, self.metrics = models, settings, metrics
        self.batcher = Batcher(max_queue_size=settings.max_queue_size, observe=metrics.batch_sizes.observe)
        self.reader = ThreadPoolExecutor(max_workers=1, thread_name_prefix="attribune-reader")
        metrics.watch(self.batcher)

    async def read(self, request: Request, parse: Callable[..., Result]) -> Result:
        """Return what a request asks for; a large body is read on a thread, one at a time.

        Args:
            parse: is called with the body, its type, the models and the settings.
        """
        body = await request.body()
        kind = request.headers.get("content-type", "")
        read = functools.partial(parse, body, kind, self.models, self.settings)
        if len(body) < _LARGE_BODY:
            return read()
        return await asyncio.get_running_loop().run_in_executor(self.reader, read)

    @asynccontextmanager
    async def in_time(self) -> AsyncIterator[None]:
        """Refuse a request whose work within the block fails, or takes too long."""
        settings = self.settings
        try:
            async with asyncio.timeout(settings.timeout):
                yield
        except Overloaded:
            reason = f"more than {settings.max_queue_size:,} texts wait already: try again later"
            raise Refused(429, "body", reason) from None
        except Stopping:
            raise Refused(503, "body", "the service is stopping: try again later") from None
        except TimeoutError:
            reason = f"no answer within {settings.timeout:g} seconds: send fewer texts, or later"
            raise Refused(503, "body", reason) from None
        except AttribuneError as error:
            status, field = (503, "model") if isinstance(error, ModelFolderError | HeldError) else (422, "body")
            raise Refused.because_of(error, status, field) from None

    async def answer(self, request: Request, work: Coroutine[Any, Any, Result]) -> Result:
        """Wait for the result of work on a request, as long as there is time and its caller is there.

        Raises:
            Refused: where the work fails, takes too long, or its caller has left; it is cancelled then.
        """
        await request.body()  # what comes after it says that the caller has left
        async with self.in_time():
            working, leaving = asyncio.ensure_future(work), asyncio.ensure_future(_leave(request))
            try:
                await asyncio.wait((working, leaving), return_when=asyncio.FIRST_COMPLETED)
                if not working.done():
                    raise Refused(LEFT, "body", "the caller has left")
                return working.result()
            finally:
                working.cancel()
                leaving.cancel()


async def _leave(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass

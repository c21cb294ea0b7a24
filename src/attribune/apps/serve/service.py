"""What the handlers of all paths share: the models, how an answer is waited for, and metrics for Prometheus."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from typing import TypeVar

from fastapi import Request
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

from attribune.apps.serve.batching import Batcher, Overloaded, Stopping
from attribune.apps.serve.models import Answer, ServedModel
from attribune.apps.serve.requests import LEFT, Refused
from attribune.apps.serve.settings import ServeSettings
from attribune.core.job_folder import HeldError
from attribune.errors import AttribuneError, ModelFolderError

_DURATIONS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30)  # seconds
_SIZES = (1, 2, 4, 8, 16, 32, 64, 128, 256)


class ServiceMetrics:
    """The metrics of one service, in its own registry."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.requests = Counter(
            "attribune_requests", "Requests by path and status.", ("path", "status"), registry=self.registry
        )
        self.durations = Histogram(
            "attribune_request_duration_seconds",
            "Duration of requests.",
            ("path",),
            buckets=_DURATIONS,
            registry=self.registry,
        )
        self.batch_sizes = Histogram(
            "attribune_batch_size", "Texts scored together.", buckets=_SIZES, registry=self.registry
        )
        self.texts = Counter("attribune_texts", "Texts scored.", ("model",), registry=self.registry)
        self.attribute_values = Counter(
            "attribune_attribute_values",
            "Texts by the status of an attribute's value: known, unknown or missing.",
            ("model", "attribute", "status"),
            registry=self.registry,
        )
        self.enrolments = Counter("attribune_enrolments", "Values added.", ("model",), registry=self.registry)
        self.removals = Counter("attribune_removals", "Values forgotten.", ("model",), registry=self.registry)
        self.tokens = Counter("attribune_tokens", "Tokens read and written.", ("model", "kind"), registry=self.registry)

    def watch(self, batcher: Batcher) -> None:
        """Read the queue whenever the metrics are asked for."""
        waiting = Gauge("attribune_queue_size", "Texts that wait.", registry=self.registry)
        waiting.set_function(lambda: batcher.waiting)

    def answered(self, model: ServedModel, answers: Sequence[Answer]) -> None:
        """Count the texts of a request, and what is known of their attributes."""
        self.texts.labels(model.name).inc(len(answers))
        for attribute in model.attributes:
            for answer in answers:
                status = "missing" if attribute.column in answer.missing else "known"
                status = "unknown" if attribute.name in answer.unknown else status
                self.attribute_values.labels(model.name, attribute.name, status).inc()

    def wrote(self, model: ServedModel, usage: Mapping[str, int]) -> None:
        """Count the tokens of a request for texts."""
        for kind in ("prompt", "completion"):
            self.tokens.labels(model.name, kind).inc(usage[f"{kind}_tokens"])

    def text(self) -> bytes:
        """Render all metrics in Prometheus' text format."""
        return generate_latest(self.registry)


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

    def __init__(self, models: Mapping[str, ServedModel], settings: ServeSettings) -> None:
        self.models, self.settings, self.metrics = models, settings, ServiceMetrics()
        self.batcher = Batcher(max_queue_size=settings.max_queue_size, observe=self.metrics.batch_sizes.observe)
        self.reader = ThreadPoolExecutor(max_workers=1, thread_name_prefix="attribune-reader")
        self.metrics.watch(self.batcher)

    def summaries(self) -> list[str]:
        """Return a line on each model."""
        return [model.summary() for model in self.models.values()]

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

    async def answer(self, request: Request, work: Awaitable[Result]) -> Result:
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

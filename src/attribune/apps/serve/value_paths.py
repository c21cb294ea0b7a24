"""The paths that change what a service knows: new values are learned from rows, and values are forgotten."""

from __future__ import annotations

import asyncio
import functools
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from datasets import Dataset
from fastapi import Request
from fastapi.responses import JSONResponse, Response

from attribune.apps.serve.answering import AbandonedError, in_time, while_connected
from attribune.apps.serve.bodies import Refused
from attribune.apps.serve.limits import LEFT
from attribune.apps.serve.service import Service
from attribune.apps.serve.value_requests import Enrolment, read_enrolment, read_removal
from attribune.apps.serve.value_writing import ValueWriter
from attribune.core.job_folder import HeldError
from attribune.errors import ConfigError
from attribune.values.live_run import LearnedValue

__all__ = ["ValuePaths"]


class ValuePaths:
    """The handlers of the paths."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self._writer = ValueWriter(service.models.values(), service.batcher)
        self._adding: set[tuple[str, str, str]] = set()

    def close(self) -> None:
        """Write what waits."""
        self._writer.close()

    async def enrol(self, request: Request) -> Response:
        """Learn the vectors of a new value from the rows of a request."""
        self._check_open()
        body = await request.body()
        async with in_time(self._service.settings):
            answer = await while_connected(request, self._enrol(body, request.headers.get("content-type", "")))
        return Response(status_code=LEFT) if answer is None else JSONResponse(answer)

    async def remove(self, request: Request, model: str | None) -> Response:
        """Forget the value that the path of a request names."""
        self._check_open()
        await request.body()
        async with in_time(self._service.settings):
            path = request.scope.get("raw_path") or request.url.path.encode()
            answer = await while_connected(request, self._remove(path.partition(b"?")[0], model))
        return Response(status_code=LEFT) if answer is None else JSONResponse(answer)

    def _check_open(self) -> None:
        if not self._service.settings.enrol:
            raise Refused(403, "path", "this service changes no run: start it with `attribune serve --enrol`")

    async def _enrol(self, body: bytes, content_type: str) -> dict[str, Any]:
        read = functools.partial(read_enrolment, body, content_type, self._service.models, self._service.settings)
        asked = await self._service.read(body, read)
        key = (asked.model.name, asked.attribute, asked.value)
        if key in self._adding:
            raise Refused(409, "value", "another request is adding it now: try again later")
        self._adding.add(key)
        abandoned = threading.Event()
        try:
            learn = functools.partial(_learn, asked, functools.partial(self._give_way, abandoned))
            learned = await asyncio.wrap_future(self._service.batcher.call(learn, rows=asked.rows))
            await asyncio.wrap_future(self._writer.add(asked.model, learned))
        finally:
            abandoned.set()
            self._adding.discard(key)
        self._service.metrics.enrolments.labels(asked.model.name).inc()
        enrolled = learned.enrolled
        return {
            "model": asked.model.name,
            "attribute": enrolled.attribute,
            "value": enrolled.value,
            "rows": enrolled.rows,
            "loss_before": enrolled.loss_before,
            "loss_after": enrolled.loss_after,
            "seconds": learned.seconds,
            "stored": True,
        }

    def _give_way(self, abandoned: threading.Event) -> None:
        """Answer those who wait, between two batches of what is learned."""
        if abandoned.is_set():
            raise AbandonedError
        self._service.batcher.give_way()

    async def _remove(self, path: bytes, name: str | None) -> dict[str, Any]:
        model, attribute, value = read_removal(path, name, self._service.models)
        assert model.live is not None
        folder = model.live.folder.path
        for other in self._service.models.values():
            if folder in Path(other.source).resolve().parents and other is not model:
                reason = f"model {other.name!r}, which was trained beside it, is served too, and would know the value: "
                raise Refused(409, "model", f"{reason}stop the service, and use `attribune forget`")
        try:
            done = await asyncio.wrap_future(self._writer.remove(model, attribute, value))
        except HeldError:
            raise
        except ConfigError as error:
            raise Refused(404, "value", str(error).encode("ascii", "backslashreplace").decode()) from None
        self._service.metrics.removals.labels(model.name).inc()
        places = [str(Path(place).relative_to(folder)) for place in done.places]
        return {
            "model": model.name,
            "attribute": attribute,
            "value": value,
            "models": len(done.models),
            "predictions": done.predictions,
            "checkpoints": len(done.checkpoints),
            "notes": done.notes,
            "remaining": [*places, *done.undecided],
        }


def _learn(asked: Enrolment, pause: Callable[[], None]) -> LearnedValue:
    assert asked.model.live is not None
    rows = Dataset.from_dict(dict(asked.columns))
    return asked.model.live.learn(asked.attribute, asked.value, rows, pause=pause)

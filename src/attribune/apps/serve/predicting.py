"""Predictions: of the rows of a request, or of a batch of requests, one on a line, answered line by line."""

from __future__ import annotations

import asyncio
import io
import itertools
import json
from collections.abc import AsyncIterator, Iterator
from concurrent.futures import Future
from contextlib import suppress
from typing import Any, NamedTuple

from fastapi import Request
from fastapi.responses import JSONResponse, Response, StreamingResponse

from attribune.apps.serve.batching import Overloaded
from attribune.apps.serve.models import Answer, ServedModel
from attribune.apps.serve.requests import LINES, Refused, media_type, parse_body, read_prediction, read_request
from attribune.apps.serve.service import Service

__all__ = ["PredictionPaths"]

_PAUSE = 0.02  # seconds until the next look whether there is room in the queue
_Request = tuple[ServedModel, dict[str, list[Any]], Any]


class _Line(NamedTuple):
    """A line of a batch: its number from 1, and what it asks, or why that is refused."""

    number: int
    asked: _Request | Refused


class PredictionPaths:
    """The handler of the path."""

    def __init__(self, service: Service) -> None:
        self._service = service

    async def predict(self, request: Request) -> Response:
        """Predict one text with its attributes, or many rows.

        Attributes may be left out, and values that the model has never seen are accepted: the answer lists them under
        `unknown`, unless the service hides that, and is the prediction for a text without them. With
        `content-type: application/x-ndjson` there is a request on each line, and an answer on each line of the same
        type.
        """
        if media_type(request.headers.get("content-type", "")) == LINES:
            return self._predict_lines(await request.body())
        model, answers = await self._service.answer(request, self._predict(request))
        self._service.metrics.answered(model, answers)
        predictions = [answer.shown(hide_unknown=self._service.settings.hide_unknown) for answer in answers]
        return JSONResponse({"model": model.name, "predictions": predictions})

    async def _predict(self, request: Request) -> tuple[ServedModel, list[Answer]]:
        asked = await self._service.read(request, read_request)
        return asked[0], await asyncio.wrap_future(self._service.batcher.submit(*asked))

    def _predict_lines(self, body: bytes) -> Response:
        """Predict the text on each line; the answers come in their order, and a bad line has its errors as its answer.

        As many lines as a request may have rows are read and scored together. Where the queue is full, they wait.
        """
        if not body.strip():
            raise Refused(422, "body", "there is no line: give a request on each")
        return StreamingResponse(self._answers(body), media_type=LINES)

    async def _answers(self, body: bytes) -> AsyncIterator[str]:
        numbered = ((number, line) for number, line in enumerate(io.BytesIO(body), start=1) if line.strip())
        loop = asyncio.get_running_loop()
        while lines := await loop.run_in_executor(self._service.reader, self._read, numbered):
            waiting: list[Future[list[Answer]]] = []
            try:
                for one in lines:
                    waiting += [await self._submit(one)]
                for one, future in zip(lines, waiting, strict=True):
                    yield f"{json.dumps({'line': one.number, **await self._answer(one, future)})}\n"
            finally:
                for future in waiting:
                    future.cancel()

    def _read(self, numbered: Iterator[tuple[int, bytes]]) -> list[_Line]:
        """Read as many of the lines that are left as a request may have rows."""
        some = itertools.islice(numbered, self._service.settings.max_rows)
        return [_Line(number, self._request(line)) for number, line in some]

    def _request(self, line: bytes) -> _Request | Refused:
        try:
            given = parse_body(line, "application/json")
            if isinstance(given, dict) and "rows" in given:
                raise Refused(422, "rows", "a line has one text: give each row a line of its own")
            return read_prediction(given, self._service.models, self._service.settings)
        except Refused as refused:
            return refused

    async def _submit(self, line: _Line) -> Future[list[Answer]]:
        """Queue a line when there is room for it, within the time of a request."""
        refused = Future[list[Answer]]()
        if isinstance(line.asked, Refused):
            refused.set_exception(line.asked)
            return refused
        try:
            async with self._service.in_time():
                while True:
                    with suppress(Overloaded):
                        return self._service.batcher.submit(*line.asked)
                    await asyncio.sleep(_PAUSE)
        except Refused as error:
            refused.set_exception(error)
            return refused

    async def _answer(self, line: _Line, future: Future[list[Answer]]) -> dict[str, Any]:
        try:
            async with self._service.in_time():
                (answer,) = await asyncio.wrap_future(future)
        except Refused as refused:
            return {"errors": [fault.model_dump() for fault in refused.faults]}
        assert not isinstance(line.asked, Refused)
        model = line.asked[0]
        self._service.metrics.answered(model, [answer])
        return {"model": model.name, **answer.shown(hide_unknown=self._service.settings.hide_unknown)}

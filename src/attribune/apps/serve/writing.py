"""The paths of OpenAI's interface: texts by attributes, whole or as they are written."""

from __future__ import annotations

import asyncio
import functools
import json
import secrets
import threading
import time
from collections.abc import AsyncIterator, Callable
from concurrent.futures import CancelledError, Future
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from fastapi import Request
from fastapi.responses import JSONResponse, Response, StreamingResponse

from attribune.apps.serve.answering import AbandonedError, in_time, while_connected
from attribune.apps.serve.batching import Batcher
from attribune.apps.serve.bodies import Refused
from attribune.apps.serve.faults import openai_error
from attribune.apps.serve.limits import LEFT
from attribune.apps.serve.models import Answer
from attribune.apps.serve.service import Service
from attribune.apps.serve.writing_requests import Writing, read_writing
from attribune.models.writer import WrittenText
from attribune.schema import Schema

__all__ = ["EVENTS", "WritingPaths"]

EVENTS = "text/event-stream"


@dataclass(frozen=True)
class _Written:
    """All texts of a request, and how many ids its prompts had."""

    texts: list[WrittenText]
    prompt_tokens: int

    def usage(self) -> dict[str, int]:
        """Count tokens as OpenAI does."""
        written = sum(text.tokens for text in self.texts)
        return {
            "prompt_tokens": self.prompt_tokens,
            "completion_tokens": written,
            "total_tokens": self.prompt_tokens + written,
        }


_Part = tuple[int, str]


class WritingPaths:
    """The handlers of the paths. Requests are written one after the other; between two tokens others are predicted."""

    def __init__(self, service: Service) -> None:
        self._service = service

    async def write(self, request: Request, *, is_chat: bool) -> Response:
        """Write the texts that a request asks for."""
        body = await request.body()
        read = functools.partial(
            read_writing,
            body,
            request.headers.get("content-type", ""),
            self._service.models,
            self._service.settings,
            is_chat=is_chat,
        )
        asked, loop = await self._service.read(body, read), asyncio.get_running_loop()
        async with in_time(self._service.settings):
            job = _Job(asked, self._service.batcher, hide_unknown=self._service.settings.hide_unknown)
            job.future.add_done_callback(lambda _: loop.call_soon_threadsafe(self._count, job))
            try:
                if asked.streams:
                    return await self._stream(request, job)
                written = await while_connected(request, _result(job.future))
            except BaseException:
                job.abandon()
                raise
        job.abandon()
        return Response(status_code=LEFT) if written is None else JSONResponse(job.answer(written))

    async def _stream(self, request: Request, job: _Job) -> Response:
        """Answer with the first part at hand, so that what goes wrong before it has its own status."""
        deadline = time.monotonic() + self._service.settings.timeout
        first = await while_connected(request, _next(job))
        if first is None:
            job.abandon()
            return Response(status_code=LEFT)
        events = self._events(job, first[0], deadline)
        return StreamingResponse(events, media_type=EVENTS, headers={"cache-control": "no-cache"})

    async def _events(self, job: _Job, part: _Part | None, deadline: float) -> AsyncIterator[str]:
        try:
            for index in range(job.asked.count if job.asked.is_chat else 0):
                yield _event(job.chunk(index, {"role": "assistant", "content": ""}))
            while part is not None:
                yield _event(job.chunk(part[0], part[1]))
                async with in_time(self._service.settings):
                    part = await asyncio.wait_for(job.next_part(), max(0.0, deadline - time.monotonic()))
            written = job.future.result()
            for index, text in enumerate(written.texts):
                yield _event(job.chunk(index, "", finish=_reason(text)))
            if job.asked.includes_usage:
                yield _event({**job.head(chunk=True), "choices": [], "usage": written.usage()})
            yield "data: [DONE]\n\n"
        except Refused as refused:
            yield _event(openai_error(refused.status, refused.faults[0]))
        finally:
            job.abandon()

    def _count(self, job: _Job) -> None:
        """Count what was written."""
        with suppress(CancelledError):
            if job.future.exception() is None:
                self._service.metrics.wrote(job.asked.model, job.future.result().usage())
                answer = Answer(output={}, unknown=job.unknown, missing=job.missing)
                self._service.metrics.answered(job.asked.model, [answer] * job.asked.count)


class _Job:
    """A request while it is written on the thread of the models.

    Raises:
        Overloaded, Stopping: as `Batcher.call`.
    """

    def __init__(self, asked: Writing, batcher: Batcher, *, hide_unknown: bool) -> None:
        self.asked, self._batcher, self._hide_unknown = asked, batcher, hide_unknown
        self._id, self._created = secrets.token_hex(12), int(time.time())
        self._parts = asyncio.Queue[_Part | None]()
        self._loop = asyncio.get_running_loop()
        self._abandoned = threading.Event()
        self._schema: Schema | None = None  # by which the text is written that is in hand
        self.unknown, self.missing = asked.model.unknown_and_missing(asked.attributes)
        self.future: Future[_Written] = batcher.call(self._write, rows=asked.count)
        self.future.add_done_callback(lambda _: self._put(None))

    def abandon(self) -> None:
        """End the work, if it is not done."""
        self._abandoned.set()
        self.future.cancel()

    async def next_part(self) -> _Part | None:
        """Return the number of a text and what was added to it; None at the end, or the error of the work."""
        part = await self._parts.get()
        if part is None:
            self.future.result()
        return part

    def head(self, *, chunk: bool = False) -> dict[str, Any]:
        """Return what an answer, or a part of it, has beside the texts."""
        kind = f"chat.completion{'.chunk' if chunk else ''}" if self.asked.is_chat else "text_completion"
        return {
            "id": f"{'chatcmpl' if self.asked.is_chat else 'cmpl'}-{self._id}",
            "object": kind,
            "created": self._created,
            "model": self.asked.model.name,
            **({} if self._hide_unknown else {"unknown": self.unknown}),
        }

    def answer(self, written: _Written) -> dict[str, Any]:
        """Return the whole answer."""
        choices: list[dict[str, Any]] = []
        for index, text in enumerate(written.texts):
            message = {"role": "assistant", "content": text.text}
            said = {"message": message} if self.asked.is_chat else {"text": text.text}
            choices.append({"index": index, **said, "logprobs": None, "finish_reason": _reason(text)})
        return {**self.head(), "choices": choices, "usage": written.usage()}

    def chunk(self, index: int, added: str | dict[str, str], *, finish: str | None = None) -> dict[str, Any]:
        """Return a part of the answer."""
        if self.asked.is_chat:
            delta = added if isinstance(added, dict) else {"content": added} if added else {}
            said: dict[str, Any] = {"delta": delta}
        else:
            said = {"text": added}
        choice = {"index": index, **said, "logprobs": None, "finish_reason": finish}
        return {**self.head(chunk=True), "choices": [choice]}

    def _put(self, part: _Part | None) -> None:
        with suppress(RuntimeError):  # the loop has ended, and nobody waits
            self._loop.call_soon_threadsafe(self._parts.put_nowait, part)

    def _write(self) -> _Written:
        """Write the texts of all prompts, on the thread of the models."""
        asked, writer = self.asked, self.asked.model.writer
        assert writer is not None
        asked.model.check_files()
        texts, prompt_tokens = list[WrittenText](), 0
        for number, prompt in enumerate(asked.prompts):
            ids = writer.prompt_ids(prompt) if isinstance(prompt, str) else writer.chat_ids(prompt)
            prompt_tokens += len(ids)
            self._schema = writer.model.schema
            texts += writer.write_one(
                ids,
                asked.attributes,
                asked.decoding(number=number, room=writer.room(ids)),
                stop=asked.stop,
                on_text=self._passing_on(number * asked.n),
                on_token=self._pause,
            )
        return _Written(texts, prompt_tokens)

    def _passing_on(self, first: int) -> Callable[[int, str], None]:
        return lambda number, added: self._put((first + number, added))

    def _pause(self) -> None:
        """Predict for those who wait, as if no text were being written."""
        if self._abandoned.is_set():
            raise AbandonedError
        assert self.asked.model.writer is not None
        with torch.inference_mode(False), torch.autocast(self.asked.model.writer.device.type, enabled=False):
            self._batcher.give_way()
        self._check_values()

    def _check_values(self) -> None:
        """Refuse to write on by ids that are of other values, since one was taken away meanwhile."""
        assert self.asked.model.writer is not None
        before, now = self._schema, self.asked.model.writer.model.schema
        if before is now or before is None:
            return
        columns = {name: [self.asked.attributes.get(name)] for name in now.names}
        if not np.array_equal(before.encode(columns)[0], now.encode(columns)[0]):
            raise Refused(503, "attributes", "a value was forgotten while the text was written: send it again")


async def _result(future: Future[_Written]) -> _Written:
    return await asyncio.wrap_future(future)


async def _next(job: _Job) -> tuple[_Part | None]:
    return (await job.next_part(),)


def _reason(text: WrittenText) -> str:
    return "stop" if text.is_whole else "length"


def _event(data: dict[str, Any]) -> str:
    return f"data: {json.dumps(data)}\n\n"

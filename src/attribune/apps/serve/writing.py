"""The paths of OpenAI's interface: texts by attributes, whole or as they are written."""

from __future__ import annotations

import asyncio
import functools
import json
import secrets
import threading
import time
from collections.abc import AsyncIterator, Callable, Collection, Mapping
from concurrent.futures import CancelledError, Future
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import torch
from fastapi import Request
from fastapi.responses import JSONResponse, Response, StreamingResponse
from pydantic import BaseModel, ConfigDict, Field, SkipValidation, StrictBool, StrictFloat, StrictInt, StrictStr

from attribune.apps.serve.batching import Batcher
from attribune.apps.serve.models import ServedModel
from attribune.apps.serve.requests import (
    ModelRequest,
    Refused,
    RequestBody,
    Scalar,
    attribute_names,
    check_characters,
    checked,
    choose_model,
    openai_error,
    parse_body,
    read_row,
    shown,
)
from attribune.apps.serve.service import AbandonedError, Service
from attribune.apps.serve.settings import ServeSettings
from attribune.core.arguments import as_list
from attribune.models.writer import Decoding, Writer, WrittenText
from attribune.schema import Schema

_NEUTRAL: dict[str, tuple[Any, ...]] = {  # fields of OpenAI's that change nothing with these values
    "best_of": (None, 1),
    "echo": (None, False),
    "frequency_penalty": (None, 0),
    "logit_bias": (None, {}),
    "logprobs": (None, False),
    "modalities": (None, ["text"]),
    "parallel_tool_calls": (None, False, True),
    "presence_penalty": (None, 0),
    "response_format": (None, {"type": "text"}),
    "service_tier": (None, "auto", "default"),
    "store": (None, False),
    "suffix": (None, ""),
    "tool_choice": (None, "auto", "none"),
    "tools": (None, []),
    "top_logprobs": (None,),
}
_NOTES = ("metadata", "prompt_cache_key", "safety_identifier", "user")
"""Fields of OpenAI's that say who asks and what for, and change no text."""
_MOST_STOPS = 4
_SEEDS = 2**32
EVENTS = "text/event-stream"
_Part = tuple[int, str]


class StreamOptions(RequestBody):
    """What a stream has beside the text."""

    include_usage: StrictBool = Field(default=False, description="Whether the last part reports the number of tokens.")


class _WritingRequest(ModelRequest):
    """What requests for a text and for an answer have in common."""

    attributes: SkipValidation[dict[str, Scalar | list[Scalar]]] = Field(
        default_factory=dict, description="Values of the text by attribute, any subset."
    )
    max_tokens: StrictInt | None = Field(
        default=None, ge=1, description="Maximum number of tokens; by default 64, or what fits."
    )
    temperature: StrictFloat | StrictInt = Field(
        default=1.0, ge=0, le=2, description="Sampling temperature; 0 takes the most likely token."
    )
    top_p: StrictFloat | StrictInt = Field(default=1.0, gt=0, le=1)
    n: StrictInt = Field(default=1, ge=1, description="Number of texts for each prompt.")
    seed: StrictInt | None = Field(default=None, description="Seed of the draw; the same seed gives the same text.")
    stop: StrictStr | list[StrictStr] | None = Field(
        default=None, description="Strings at which the text ends, before them; at most 4."
    )
    stream: StrictBool = Field(default=False, description="Whether to send parts of the text as they are written.")
    stream_options: StreamOptions | None = None


class CompletionRequest(_WritingRequest):
    """A prompt, or several, that the model writes on from."""

    prompt: StrictStr | list[StrictStr] = Field(default="", description="Beginning of the text, or what it is about.")


class TextPart(RequestBody):
    """A part of a message."""

    type: Literal["text"]
    text: StrictStr


class Message(RequestBody):
    """A message of a conversation."""

    role: StrictStr
    content: StrictStr | list[TextPart]


class ChatRequest(_WritingRequest):
    """A conversation that the model answers; one message for a model that was trained without a chat template."""

    messages: list[Message] = Field(min_length=1)
    max_completion_tokens: StrictInt | None = Field(default=None, ge=1, description="Another name of `max_tokens`.")


class CompletionAnswer(BaseModel):
    """The texts, as OpenAI's clients read them, with the values that the model does not know."""

    model_config = ConfigDict(extra="allow")

    id: str
    object: str
    created: int
    model: str
    choices: list[dict[str, Any]]
    usage: dict[str, int]
    unknown: dict[str, list[str]] = Field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Writing:
    """A request for texts.

    Attributes:
        is_chat: whether it is answered as a conversation.
        prompts: texts, or conversations as pairs of role and text.
        attributes: a value of each attribute that is given.
        max_tokens: maximum length of a text, if the request gives one.
    """

    model: ServedModel
    writer: Writer
    is_chat: bool
    prompts: list[str | list[tuple[str, str]]]
    attributes: Mapping[str, Any]
    temperature: float
    top_p: float
    n: int
    seed: int
    max_tokens: int | None
    stop: tuple[str, ...]
    streams: bool
    includes_usage: bool

    @property
    def count(self) -> int:
        """How many texts are written."""
        return len(self.prompts) * self.n

    def decoding(self, *, number: int, room: int | None) -> Decoding:
        """Return how the tokens of a prompt are chosen.

        Args:
            number: of the prompt, from 0; each has its own draws.
            room: new tokens that the backbone has positions for.
        """
        default = Decoding().max_new_tokens
        fitting = default if room is None else max(1, min(default, room))
        return Decoding(
            sample=self.temperature > 0,
            temperature=self.temperature or 1.0,
            top_p=self.top_p if self.temperature else 1.0,
            n=self.n,
            seed=(self.seed + number) % _SEEDS,
            max_new_tokens=self.max_tokens or fitting,
        )


def read_writing(
    body: bytes, content_type: str, models: Mapping[str, ServedModel], settings: ServeSettings, *, is_chat: bool
) -> Writing:
    """Read the body of a request for texts.

    Raises:
        Refused: naming the field, the value seen and the cure.
    """
    kind, names = ChatRequest if is_chat else CompletionRequest, attribute_names(models)
    given = _without_neutral(parse_body(body, content_type), kind, names)
    request: Any = checked(kind, given, "", attributes=names)
    writes = {name: model for name, model in models.items() if model.writer is not None}
    if not writes:
        raise Refused(404, "model", "no model of this service writes text: serve a run of the task generation")
    model = choose_model(writes, request.model)
    writer = model.writer
    assert writer is not None
    prompts = _conversations(request, writer) if is_chat else _prompts(request)
    _check_sizes(prompts, request, settings)
    stop = tuple(as_list(request.stop))
    if len(stop) > _MOST_STOPS or not all(stop):
        raise Refused(422, "stop", f"give up to {_MOST_STOPS} texts, none of them empty")
    read = read_row({"text": {}, "attributes": request.attributes}, "", model, settings)
    return Writing(
        model=model,
        writer=writer,
        is_chat=is_chat,
        prompts=prompts,
        attributes=read,
        temperature=request.temperature,
        top_p=request.top_p,
        n=request.n,
        seed=secrets.randbelow(_SEEDS) if request.seed is None else request.seed % _SEEDS,
        max_tokens=_max_tokens(request, settings),
        stop=stop,
        streams=request.stream,
        includes_usage=request.stream_options is not None and request.stream_options.include_usage,
    )


def _without_neutral(given: Any, kind: type[BaseModel], attributes: Collection[str]) -> Any:
    """Leave out what changes nothing, such as a field that is null, and refuse what would.

    Args:
        attributes: their names; a note of such a name is an attribute at the wrong place, which `checked` refuses.
    """
    if not isinstance(given, dict):
        return given
    for name, values in _NEUTRAL.items():
        if name in given and given[name] not in values:
            raise Refused(422, name, "this service does not have it: leave it out")
    left_out = {*_NEUTRAL, *_NOTES} - set(attributes)
    unset = {name for name in (*kind.model_fields, *_NOTES) if given.get(name) is None}
    return {name: value for name, value in given.items() if name not in left_out | unset}


def _prompts(request: CompletionRequest) -> list[str | list[tuple[str, str]]]:
    prompts = [request.prompt] if isinstance(request.prompt, str) else list(request.prompt)
    if not prompts:
        raise Refused(422, "prompt", "the list is empty: give a prompt")
    for number, prompt in enumerate(prompts):
        check_characters(prompt, "prompt" if isinstance(request.prompt, str) else f"prompt[{number}]")
    return [*prompts]


def _conversations(request: ChatRequest, writer: Writer) -> list[str | list[tuple[str, str]]]:
    """Return the conversation, or for a model without a chat template its one message as a prompt."""
    turns = [(message.role, _content(message)) for message in request.messages]
    for number, (_, text) in enumerate(turns):
        check_characters(text, f"messages[{number}].content")
    if writer.text_input.chat:
        return [turns]
    if len(turns) > 1 or turns[0][0] != "user":
        roles = ", ".join(shown(role) for role, _ in turns[:5])
        raise Refused(
            422, "messages", f"roles {roles}, but this model was trained without a chat template: send one of role user"
        )
    return [turns[0][1]]


def _content(message: Message) -> str:
    return message.content if isinstance(message.content, str) else "".join(part.text for part in message.content)


def _check_sizes(prompts: list[Any], request: _WritingRequest, settings: ServeSettings) -> None:
    field = "messages" if isinstance(request, ChatRequest) else "prompt"
    for prompt in prompts:
        length = len(prompt) if isinstance(prompt, str) else sum(len(text) for _, text in prompt)
        if length > settings.max_text_length:
            limit = f"at most {settings.max_text_length:,} are read"
            raise Refused(422, field, f"{length:,} characters, but {limit}: shorten it")
    if len(prompts) * request.n > settings.max_rows:
        raise Refused(
            422, "n", f"{len(prompts)} prompts, {request.n} texts each, but at most {settings.max_rows} in a request"
        )
    if request.n > 1 and not request.temperature:
        raise Refused(422, "n", f"at temperature 0 these would be {request.n} equal texts: raise it, or ask for one")


def _max_tokens(request: Any, settings: ServeSettings) -> int | None:
    given: int | None = getattr(request, "max_completion_tokens", None) or request.max_tokens
    if given is not None and given > settings.max_new_tokens:
        raise Refused(422, "max_tokens", f"{given:,}, but at most {settings.max_new_tokens:,} are written")
    return given


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


class WritingPaths:
    """The handlers of the paths. Requests are written one after the other; between two tokens others are predicted."""

    def __init__(self, service: Service) -> None:
        self._service = service

    async def complete(self, request: Request) -> Response:
        """Write on from a prompt, by attributes, with a run of the task `generation`; as OpenAI's completions.

        With `stream` the text comes in parts, as events.
        """
        return await self._write(request, is_chat=False)

    async def chat(self, request: Request) -> Response:
        """Answer a conversation, by attributes, with a run of the task `generation`; as OpenAI's chat completions.

        A model that was trained without a chat template takes one message, as its prompt.
        """
        return await self._write(request, is_chat=True)

    async def _write(self, request: Request, *, is_chat: bool) -> Response:
        asked = await self._service.read(request, functools.partial(read_writing, is_chat=is_chat))
        loop, deadline = asyncio.get_running_loop(), time.monotonic() + self._service.settings.timeout
        async with self._service.in_time():
            job = _Job(asked, self._service.batcher, hide_unknown=self._service.settings.hide_unknown)
        job.future.add_done_callback(lambda _: loop.call_soon_threadsafe(self._count, job))
        try:
            if not asked.streams:
                return JSONResponse(job.answer(await self._service.answer(request, asyncio.wrap_future(job.future))))
            # With the first part at hand: what goes wrong before it has its own status.
            events = self._events(job, await self._service.answer(request, job.next_part()), deadline)
        except BaseException:
            job.abandon()
            raise
        return StreamingResponse(events, media_type=EVENTS, headers={"cache-control": "no-cache"})

    async def _events(self, job: _Job, part: _Part | None, deadline: float) -> AsyncIterator[str]:
        try:
            for index in range(job.asked.count if job.asked.is_chat else 0):
                yield _event(job.chunk(index, {"role": "assistant", "content": ""}))
            while part is not None:
                yield _event(job.chunk(part[0], part[1]))
                async with self._service.in_time():
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
        with suppress(CancelledError):
            if job.future.exception() is None:
                self._service.metrics.wrote(job.asked.model, job.future.result().usage())
                self._service.metrics.answered(job.asked.model, [job.values] * job.asked.count)


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
        columns = {name: [asked.attributes.get(name)] for name in asked.model.inputs}
        (self.values,) = asked.model.answers_of([{}], columns)  # what is known of them, without an output
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
            **({} if self._hide_unknown else {"unknown": self.values.unknown}),
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
        asked, writer = self.asked, self.asked.writer
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
        with torch.inference_mode(False), torch.autocast(self.asked.writer.device.type, enabled=False):
            self._batcher.give_way()
        self._check_values()

    def _check_values(self) -> None:
        """Refuse to write on by ids that are of other values, since one was taken away meanwhile."""
        before, now = self._schema, self.asked.writer.model.schema
        if before is now or before is None:
            return
        columns = {name: [self.asked.attributes.get(name)] for name in now.columns}
        if not np.array_equal(before.encode(columns)[0], now.encode(columns)[0]):
            raise Refused(503, "attributes", "a value was forgotten while the text was written: send it again")


def _reason(text: WrittenText) -> str:
    return "stop" if text.is_whole else "length"


def _event(data: dict[str, Any]) -> str:
    return f"data: {json.dumps(data)}\n\n"

"""The bodies of requests for texts, as OpenAI's clients send them, with attributes beside."""

from __future__ import annotations

import secrets
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, SkipValidation, StrictBool, StrictFloat, StrictInt, StrictStr

from attribune.apps.serve.bodies import Refused, RequestBody, Scalar
from attribune.apps.serve.models import ServedModel
from attribune.apps.serve.requests import (
    attribute_names,
    check_characters,
    checked,
    choose_model,
    parse_body,
    read_row,
    shown,
)
from attribune.apps.serve.settings import ServeSettings
from attribune.core.arguments import as_list
from attribune.models.writer import Decoding

__all__ = ["ChatRequest", "CompletionAnswer", "CompletionRequest", "Writing", "read_writing"]

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


class StreamOptions(RequestBody):
    """What a stream has beside the text."""

    include_usage: StrictBool = Field(default=False, description="Whether the last part reports the number of tokens.")


class _WritingRequest(RequestBody):
    """What requests for a text and for an answer have in common."""

    model: StrictStr | None = Field(default=None, description="Name of the model; required if the service has several.")
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
    prompts = _conversations(request, model) if is_chat else _prompts(request)
    _check_sizes(prompts, request, settings)
    stop = tuple(as_list(request.stop))
    if len(stop) > _MOST_STOPS or not all(stop):
        raise Refused(422, "stop", f"give up to {_MOST_STOPS} texts, none of them empty")
    read = read_row({"text": {}, "attributes": request.attributes}, "", model, settings)
    return Writing(
        model=model,
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


def _conversations(request: ChatRequest, model: ServedModel) -> list[str | list[tuple[str, str]]]:
    """Return the conversation, or for a model without a chat template its one message as a prompt."""
    assert model.writer is not None
    turns = [(message.role, _content(message)) for message in request.messages]
    for number, (_, text) in enumerate(turns):
        check_characters(text, f"messages[{number}].content")
    if model.writer.text_input.chat:
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

"""The bodies of requests and answers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, SkipValidation, StrictBool, StrictFloat, StrictInt, StrictStr

__all__ = [
    "ErrorAnswer",
    "Fault",
    "ModelsAnswer",
    "NamedModel",
    "OpenAIErrorAnswer",
    "PredictAnswer",
    "PredictRequest",
    "Refused",
    "ReloadAnswer",
    "ReloadRequest",
    "RequestBody",
    "Row",
    "Scalar",
]

Scalar = StrictStr | StrictBool | StrictInt | StrictFloat | None
Words = StrictStr | list[StrictStr]


class RequestBody(BaseModel):
    """A body, or a part of one, with no other fields than its own."""

    model_config = ConfigDict(extra="forbid")


class Row(RequestBody):
    """A text with its attributes."""

    text: Words | dict[str, Words | None] = Field(
        description="The text; for a model of several text columns, an object with each one's text; for a model of "
        "words, a list of words, or text with spaces between them."
    )
    attributes: dict[str, Scalar | list[Scalar]] = Field(
        default_factory=dict,
        description="Values by attribute, any subset; use null, or leave out, unknown values; a list for an "
        "attribute with several values.",
    )


class PredictRequest(RequestBody):
    """One text with its attributes, or many as `rows`."""

    # What is skipped here is checked row by row, so that a body is refused at its first bad row.

    model: StrictStr | None = Field(default=None, description="Name of the model; required if the service has several.")
    text: SkipValidation[Words | dict[str, Words | None] | None] = Field(
        default=None, description="The text; leave it out if you send `rows`."
    )
    attributes: SkipValidation[dict[str, Scalar | list[Scalar]]] = Field(
        default_factory=dict, description="Values of `text` by attribute, any subset."
    )
    rows: SkipValidation[list[Row] | None] = Field(
        default=None, description="Many texts, instead of `text` and `attributes`."
    )
    panel: StrictStr | None = Field(
        default=None,
        description="An attribute: predict what all of its values together would say of each text. The output is "
        "that of `attribune predict --panel`, without names.",
    )


class Prediction(BaseModel):
    """The prediction for one text."""

    output: dict[str, Any] = Field(
        description="Prediction and probabilities, by the column names that `attribune predict` writes."
    )
    unknown: dict[str, list[str]] = Field(
        default_factory=dict,
        description="Values that the model does not know, by attribute; it answered as if they were missing. Left out "
        "by a service with `--hide-unknown`.",
    )


class PredictAnswer(BaseModel):
    """A prediction for each text, in the order of the request."""

    model: str
    predictions: list[Prediction]


class NamedModel(BaseModel):
    """A model, as OpenAI's clients read it."""

    id: str
    object: Literal["model"] = "model"
    created: int = Field(description="When the service started, in seconds since 1970.")
    owned_by: Literal["attribune"] = "attribune"


class ModelsAnswer(BaseModel):
    """The models of this service, for OpenAI's clients as `data` too."""

    object: Literal["list"] = "list"
    data: list[NamedModel]
    models: list[dict[str, Any]]


class ReloadRequest(RequestBody):
    """Which runs to load in place of those that are served."""

    runs: list[StrictStr] | None = Field(
        default=None,
        description="Folders, or NAME=FOLDER, as on the command line; by default those that are served, loaded again.",
    )


class ReloadAnswer(BaseModel):
    """What is served from now on."""

    models: list[str] = Field(description="A line on each model.")


class Fault(BaseModel):
    """Why a request is refused."""

    field: str = Field(description="The place in the request, such as rows[3].attributes.user.")
    reason: str


class ErrorAnswer(BaseModel):
    """Why a request is refused."""

    errors: list[Fault]


class OpenAIErrorAnswer(BaseModel):
    """Why a request is refused, as OpenAI's clients read it."""

    error: dict[str, Any]


class Refused(Exception):  # noqa: N818 - an answer, not a mistake
    """A request that is answered with an HTTP status and faults: the field and the reason of each, with the cure."""

    def __init__(self, status: int, field: str = "body", reason: str = "", faults: Sequence[Fault] = ()) -> None:
        self.status, self.faults = status, list(faults) or [Fault(field=field, reason=reason)]
        super().__init__(self.faults[0].reason)

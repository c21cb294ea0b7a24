"""The bodies of requests and answers: read into the columns of a model, or refused."""

from __future__ import annotations

import gc
import json
from collections.abc import Collection, Mapping, Sequence
from typing import Any, Literal, Self, TypeVar

import pyarrow as pa
from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    SkipValidation,
    StrictBool,
    StrictFloat,
    StrictInt,
    StrictStr,
    ValidationError,
)
from starlette.responses import JSONResponse

from attribune.apps.serve.models import ServedModel
from attribune.apps.serve.settings import ServeSettings
from attribune.core.wording import closest, did_you_mean_or
from attribune.errors import DataError
from attribune.schema import FittedAttribute, Schema
from attribune.schema.columns import canonical, number_of

Scalar = StrictStr | StrictBool | StrictInt | StrictFloat | None
Words = StrictStr | list[StrictStr]
OPENAI_PATHS = ("/v1/completions", "/v1/chat/completions")
LEFT = 499
"""What logs and metrics show of a request whose caller left; it is never sent."""
_CODES = {401: "invalid_api_key", 404: "model_not_found", 429: "rate_limit_exceeded"}
Body = TypeVar("Body", bound=BaseModel)
_MAX_VALUES = 1_000  # of one attribute of one text
_MAX_FAULTS = 10  # in an answer
_LONGEST_NAME = 60  # characters of a field for which a similar one is sought
_FORM = "application/x-www-form-urlencoded"  # the type that curl gives a body by default


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


class ModelRequest(RequestBody):
    """A body that names the model it is for."""

    model: StrictStr | None = Field(default=None, description="Name of the model; required if the service has several.")


class PredictRequest(ModelRequest):
    """One text with its attributes, or many as `rows`."""

    # What is skipped here is checked row by row, so that a body is refused at its first bad row.

    text: SkipValidation[Words | dict[str, Words | None] | None] = Field(
        default=None, description="The text; leave it out if you send `rows`."
    )
    attributes: SkipValidation[dict[str, Scalar | list[Scalar]]] = Field(
        default_factory=dict, description="Values of `text` by attribute, any subset."
    )
    rows: SkipValidation[list[Row] | None] = Field(
        default=None, description="Many texts, instead of `text` and `attributes`."
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

    @classmethod
    def because_of(cls, error: Exception, status: int, field: str) -> Self:
        """Return a refusal for an error of the library, which is the reason."""
        return cls(status, field, printable(str(error)))


def refusal(path: str, status: int, field: str, reason: str, headers: Mapping[str, str] | None = None) -> JSONResponse:
    """Make the answer that refuses a request for one reason."""
    return refusals(path, status, [Fault(field=field, reason=reason)], headers)


def refusals(path: str, status: int, faults: Sequence[Fault], headers: Mapping[str, str] | None = None) -> JSONResponse:
    """Make the answer that refuses a request of a path."""
    if path not in OPENAI_PATHS:
        return JSONResponse({"errors": [fault.model_dump() for fault in faults]}, status, headers)
    return JSONResponse(openai_error(status, faults[0]), 400 if status == 422 else status, headers)


def openai_error(status: int, fault: Fault) -> dict[str, Any]:
    """Return a fault as OpenAI's clients read it."""
    kind = "server_error" if status >= 500 else "invalid_request_error"
    message = f"{fault.field}: {fault.reason}"
    return {"error": {"message": message, "type": kind, "param": fault.field, "code": _CODES.get(status)}}


def read_request(
    body: bytes, content_type: str, models: Mapping[str, ServedModel], settings: ServeSettings
) -> tuple[ServedModel, dict[str, list[Any]]]:
    """Read the body of a request: its model, and the columns that this reads.

    Whatever is in the body, the work and the memory are a small multiple of its size: how many rows, fields and values
    there are is checked before the values, and the first bad row ends it.

    Raises:
        Refused: naming the field, the value seen and the cure.
    """
    request = checked(PredictRequest, parse_body(body, content_type), "", attributes=attribute_names(models))
    model = choose_model(models, request.model)
    return model, _columns(request, model, settings)


def parse_body(body: bytes, content_type: str) -> Any:
    """Return what the JSON of a body says."""
    kind = content_type.partition(";")[0].strip().lower()
    if kind != "application/json" and not (kind.startswith("application/") and kind.endswith("+json")):
        cure = "send JSON, with 'content-type: application/json'"
        if kind == _FORM:
            cure += ", which curl does with -H 'content-type: application/json'"
        seen = f"its type is {shown(kind)!r}" if kind else "it has no content-type"
        raise Refused(415, "body", f"{seen}: {cure}")
    if not body:
        raise Refused(422, "body", "Field required: the body is empty")
    collects = gc.isenabled()
    gc.disable()  # millions of new lists would be visited again and again, which takes most of the time
    try:
        return json.loads(body)
    except json.JSONDecodeError as error:
        raise Refused(400, "body", f"it is not JSON, from character {error.pos} on: {error.msg}") from None
    except UnicodeDecodeError as error:
        raise Refused(400, "body", f"it is not JSON, from character {error.start} on: not UTF-8") from None
    except (ValueError, RecursionError) as error:
        reason = "too deep" if isinstance(error, RecursionError) else "a number of too many digits"
        raise Refused(400, "body", f"it is not JSON that can be read: {reason}") from None
    finally:
        if collects:
            gc.enable()


def attribute_names(models: Mapping[str, ServedModel]) -> list[str]:
    """Return the names of the attributes of all models."""
    return list(dict.fromkeys(name for model in models.values() for name in model.inputs))


def choose_model(models: Mapping[str, ServedModel], name: str | None) -> ServedModel:
    """Return the model of a name, which may be left out where there is one."""
    listed = ", ".join(models)
    if name is None:
        if len(models) > 1:
            raise Refused(422, "model", f"several models are served: name one of {listed}")
        return next(iter(models.values()))
    if (model := models.get(name)) is None:
        raise Refused(404, "model", f"there is no such model: name one of {listed}")
    return model


def _columns(request: PredictRequest, model: ServedModel, settings: ServeSettings) -> dict[str, list[Any]]:
    rows: Any = request.rows
    if rows is None:
        if request.text is None:
            raise Refused(422, "text", "there is neither text nor rows: give one of them")
        rows, prefix = [{"text": request.text, "attributes": request.attributes}], ""
    else:
        if request.text is not None or request.attributes:
            field = "attributes" if request.text is None else "text"
            raise Refused(422, field, f"rows and {field} cannot be combined: put it into each row")
        check_rows(rows, settings)
        prefix = "rows[{}]."
    columns: dict[str, list[Any]] = {name: [] for name in model.predictor.columns}
    for number, row in enumerate(rows):
        read = read_row(row, prefix.format(number), model, settings)
        for name, column in columns.items():
            column.append(read.get(name))
    return columns


def check_rows(rows: Any, settings: ServeSettings) -> None:
    """Refuse rows that are no list, and too many of them."""
    if not isinstance(rows, list):
        raise Refused(422, "rows", "Input should be a valid list")
    if not rows:
        raise Refused(422, "rows", "the list is empty: give at least one row")
    if len(rows) > settings.max_rows:
        raise Refused(422, "rows", f"{len(rows)} rows, but at most {settings.max_rows} in a request: send several")


def read_row(given: Any, prefix: str, model: ServedModel, settings: ServeSettings) -> dict[str, Any]:
    """Read a row: the values of its text columns and attributes."""
    known = model.inputs
    if isinstance(given, dict):
        missing, listed = f"model {model.name!r} has no such attribute", f"it has {', '.join(known) or 'none'}"
        _check_names(given.get("attributes"), known, f"{prefix}attributes.", missing, listed)
        names = model.predictor.text_input.names
        missing, listed = "this model has no such text column", f"give {', '.join(names)}"
        _check_names(given.get("text"), names, f"{prefix}text.", missing, listed)
        _check_words(given.get("text"), f"{prefix}text", model, settings)
        attributes = given.get("attributes")
        for name, value in attributes.items() if isinstance(attributes, dict) else ():
            _check_number(value, f"{prefix}attributes.{as_name(name)}")
    row = checked(Row, given, prefix, attributes=known)
    schema = model.predictor.schema
    values: dict[str, Any] = {
        name: _value(value, known[name], f"{prefix}attributes.{as_name(name)}", schema)
        for name, value in row.attributes.items()
    }
    values |= _texts(row.text, prefix, model, settings)
    return values


def checked(kind: type[Body], given: Any, prefix: str, *, attributes: Collection[str] = ()) -> Body:
    """Check an object of a body by its types.

    Args:
        attributes: names that a caller may have put beside `attributes` instead of into it.
    """
    if not isinstance(given, dict):
        raise Refused(422, prefix.removesuffix(".") or "body", "Input should be a valid dictionary or object")
    unknown = next((name for name in given if name not in kind.model_fields), None)
    if unknown is not None:
        hint = _meant(unknown, kind.model_fields, attributes, prefix)
        raise Refused(422, f"{prefix}{as_name(unknown)}", f"there is no such field{hint}")
    try:
        return kind.model_validate(given)
    except ValidationError as error:
        raise Refused(422, faults=_faults(error.errors(include_url=False, include_input=False), prefix)) from None


def _meant(name: str, fields: Collection[str], attributes: Collection[str], prefix: str) -> str:
    """Return the hint to what a field may mean: an attribute that is in the wrong place, or a similar name."""
    if "attributes" in fields and name in attributes:
        return f": did you mean {prefix}attributes.{as_name(name)}? Put it into the object `attributes`"
    close = closest(name, fields) if len(name) <= _LONGEST_NAME else None
    return f": did you mean {prefix}{close}?" if close else ""


def _check_names(given: Any, known: Collection[str], prefix: str, missing: str, listed: str) -> None:
    unknown = next((name for name in given if name not in known), None) if isinstance(given, dict) else None
    if unknown is not None:
        rest = did_you_mean_or(unknown[:_LONGEST_NAME], known, listed)
        raise Refused(422, f"{prefix}{as_name(unknown)}", f"{missing}{rest}")


def _check_number(values: Any, field: str) -> None:
    if isinstance(values, list) and len(values) > _MAX_VALUES:
        raise Refused(422, field, f"{len(values):,} values, but at most {_MAX_VALUES:,} are read: leave some out")


def _check_words(given: Any, field: str, model: ServedModel, settings: ServeSettings) -> None:
    """Refuse lists of words where texts are read, and lists that are too long."""
    for value in given.values() if isinstance(given, dict) else [given]:
        if not isinstance(value, list):
            continue
        if not model.predictor.task.input.reads_words:
            raise Refused(422, field, "a list, but this model reads a text: give it as one")
        _check_length(len(value), "words", field, settings)


def _check_length(length: int, of: str, field: str, settings: ServeSettings) -> None:
    if length > settings.max_text_length:
        limit = f"at most {settings.max_text_length:,} are read"
        raise Refused(422, field, f"{length:,} {of}, but {limit}: cut the text")


def _texts(text: Any, prefix: str, model: ServedModel, settings: ServeSettings) -> Any:
    names = model.predictor.text_input.names
    if not isinstance(text, dict):
        if len(names) > 1:
            listed = ", ".join(names)
            raise Refused(422, f"{prefix}text", f"this model reads {listed}: give an object with the text of each")
        text = {names[0]: text}
    for name, value in text.items():
        if value is not None:
            field = f"{prefix}text" if len(names) == 1 else f"{prefix}text.{as_name(name)}"
            joined = value if isinstance(value, str) else "".join(value)
            check_characters(joined, field)
            _check_length(len(joined), "characters", field, settings)
    if not model.predictor.task.input.reads_words:
        return dict(text)
    # Lists in every row, since one column of the requests that are answered together has one type.
    return {name: value.split() if isinstance(value, str) else value for name, value in text.items()}


def _value(value: Any, attribute: FittedAttribute, field: str, schema: Schema) -> Any:
    """Read a value, or for a multi-label attribute a list of them, as canonical text; None where it is missing."""
    spec = attribute.spec
    if spec.takes_several:
        if isinstance(value, str) and spec.separator is not None:
            value = value.split(spec.separator)
        values = value if isinstance(value, list) else [value]
        _check_number(values, field)  # also those of one text with separators
        texts = [read_text(item, f"{field}[{index}]") for index, item in enumerate(values)]
        return [text for text in texts if not schema.means_missing(text)] or None
    if isinstance(value, list):
        raise Refused(422, field, "a list, but a text has one value of this attribute: give a single value")
    text = read_text(value, field)
    if text is None or schema.means_missing(text):
        return None
    _check_value(text, attribute, field)
    return text


def _check_value(text: str, attribute: FittedAttribute, field: str) -> None:
    spec = attribute.spec
    if spec.is_date:
        if spec.value_of(text) is None:
            raise Refused(422, field, f"{shown(text)!r} is not {spec.words}: give one, or null where it is missing")
    elif spec.is_numeric:
        if number_of(text) is None:
            raise Refused(422, field, f"{shown(text)!r} is not a finite number: give one, or null where it is missing")
    elif spec.derives_values or spec.unseen == "error":
        try:
            unknown = attribute.unknown(pa.array([text]), missing=frozenset())[0]
        except DataError as error:
            raise Refused.because_of(error, 422, field) from None
        if unknown and spec.unseen == "error":
            raise Refused(422, field, f"{shown(text)!r} was not seen in training, and this model refuses such values")


def read_text(value: Any, field: str) -> str | None:
    """Return a value as canonical text, None where it is missing."""
    if isinstance(value, str):
        check_characters(value, field)
    return canonical(value)


def check_characters(text: str, field: str) -> None:
    """Refuse text that is not valid Unicode."""
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise Refused(
            422, field, f"character {error.start + 1} is half of a surrogate pair, not text: send valid Unicode"
        ) from None


def shown(text: str) -> str:
    """Return text of the caller for a message: short, and in ASCII."""
    return printable(_short(text))


def printable(text: str) -> str:
    """Return text in ASCII, as every log and terminal can show it."""
    return text.encode("ascii", "backslashreplace").decode()


def as_name(text: str) -> str:
    """Return a name that the caller sent, as a field of an error has it: short, and as JSON can carry it."""
    return _short(text).encode("utf-8", "backslashreplace").decode()


def _short(text: str) -> str:
    return text if len(text) <= 60 else f"{text[:57]}..."


def _faults(errors: Sequence[Any], prefix: str) -> list[Fault]:
    """Translate pydantic's errors in an object, each with its field as a caller would write it."""
    faults: dict[str, str] = {}
    for error in errors:
        field = prefix
        for part in error["loc"]:
            if isinstance(part, int):
                field = f"{field.removesuffix('.')}[{part}]."
            elif not _is_branch(part):
                field += f"{as_name(part)}."
        faults.setdefault(field.removesuffix(".") or "body", printable(error["msg"]))
    return [Fault(field=field, reason=reason) for field, reason in list(faults.items())[:_MAX_FAULTS]]


def _is_branch(part: str) -> bool:
    """Whether a part of a location is pydantic's name of one of several types, not a field."""
    return part in ("str", "bool", "int", "float", "none") or part.startswith(("dict[", "list[", "nullable["))

"""The bodies of requests and answers, and the columns that a model reads from a request."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa
from pydantic import BaseModel, ConfigDict, Field, StrictBool, StrictFloat, StrictInt, StrictStr

from attribune.apps.serve.models import ServedModel
from attribune.apps.serve.settings import ServeSettings
from attribune.errors import DataError
from attribune.schema import FittedAttribute, MultiLabel, Numeric, Schema
from attribune.schema.columns import canonical

__all__ = ["ErrorAnswer", "Fault", "ModelsAnswer", "PredictAnswer", "PredictRequest", "Refused", "columns_of"]

Scalar = StrictStr | StrictBool | StrictInt | StrictFloat | None
_MAX_VALUES = 1_000  # of one attribute of one text


class _Body(BaseModel):
    model_config = ConfigDict(extra="forbid")


class Row(_Body):
    """A text with its attributes."""

    text: StrictStr | dict[str, StrictStr | None] = Field(
        description="The text; for a model of several text columns, an object with each one's text."
    )
    attributes: dict[str, Scalar | list[Scalar]] = Field(
        default_factory=dict,
        description="Values by attribute, any subset: null or left out where a value is not known; a list for an "
        "attribute with several values.",
    )


class PredictRequest(_Body):
    """One text with its attributes, or many as `rows`."""

    model_config = ConfigDict(
        extra="forbid",
        json_schema_extra={"example": {"text": "A joy from start to end.", "attributes": {"user": "u17"}}},
    )

    model: StrictStr | None = Field(default=None, description="Name of the model; needed where several are served.")
    text: StrictStr | dict[str, StrictStr | None] | None = Field(
        default=None, description="The text, unless `rows` are given."
    )
    attributes: dict[str, Scalar | list[Scalar]] = Field(
        default_factory=dict, description="Of `text`: values by attribute, any subset."
    )
    rows: list[Row] | None = Field(default=None, description="Many texts, in place of `text` and `attributes`.")


class Prediction(BaseModel):
    """The prediction for one text."""

    output: dict[str, Any] = Field(
        description="Prediction and probabilities, by the column names that `attribune predict` writes."
    )
    unknown: dict[str, list[str]] = Field(
        description="By attribute, the values that the model does not know; it answered as if they were missing."
    )


class PredictAnswer(BaseModel):
    """A prediction for each text, in the order of the request."""

    model: str
    predictions: list[Prediction]


class ModelsAnswer(BaseModel):
    """The models of this service."""

    models: list[dict[str, Any]]


class Fault(BaseModel):
    """Why a request is refused."""

    field: str = Field(description="The place in the request, such as rows[3].attributes.user.")
    reason: str


class ErrorAnswer(BaseModel):
    """Why a request is refused."""

    errors: list[Fault]


class Refused(Exception):  # noqa: N818 - an answer, not a mistake
    """A request that is answered with an HTTP status and a fault: the field and the reason, with the cure."""

    def __init__(self, status: int, field: str, reason: str) -> None:
        super().__init__(reason)
        self.status, self.fault = status, Fault(field=field, reason=reason)


def columns_of(request: PredictRequest, model: ServedModel, settings: ServeSettings) -> dict[str, list[Any]]:
    """Check a request, and return the columns that the model reads.

    Raises:
        Refused: naming the field, the value seen and the cure.
    """
    if request.rows is None:
        if request.text is None:
            raise Refused(422, "text", "there is neither text nor rows: give one of them")
        rows, prefixes = [Row.model_construct(text=request.text, attributes=request.attributes)], [""]
    else:
        if request.text is not None or request.attributes:
            field = "attributes" if request.text is None else "text"
            raise Refused(422, field, f"there are rows beside {field}: put it into each row")
        rows, prefixes = request.rows, [f"rows[{number}]." for number in range(len(request.rows))]
        if not rows:
            raise Refused(422, "rows", "the list is empty: give at least one row")
        if len(rows) > settings.max_rows:
            raise Refused(422, "rows", f"{len(rows)} rows, but at most {settings.max_rows} in a request: send several")
    known = {attribute.name: attribute for attribute in model.attributes}
    columns: dict[str, list[Any]] = {name: [] for name in model.predictor.columns}
    for row, prefix in zip(rows, prefixes, strict=True):
        read = _attributes(row.attributes, known, prefix, model) | _texts(row.text, prefix, model, settings)
        for name, column in columns.items():
            column.append(read.get(name))
    return columns


def _texts(text: str | Mapping[str, str | None], prefix: str, model: ServedModel, settings: ServeSettings) -> Any:
    names = model.predictor.text_input.columns
    if isinstance(text, str):
        if len(names) > 1:
            listed = ", ".join(names)
            raise Refused(422, f"{prefix}text", f"this model reads {listed}: give an object with the text of each")
        text = {names[0]: text}
    for name, value in text.items():
        field = f"{prefix}text" if len(names) == 1 and name == names[0] else f"{prefix}text.{_shown(name)}"
        if name not in names:
            raise Refused(422, field, f"this model has no such text column: give {', '.join(names)}")
        if value is not None:
            _check_characters(value, field)
            if len(value) > settings.max_text_length:
                limit = f"at most {settings.max_text_length:,} are read"
                raise Refused(422, field, f"{len(value):,} characters, but {limit}: cut the text")
    return dict(text)


def _attributes(
    attributes: Mapping[str, Any], known: Mapping[str, FittedAttribute], prefix: str, model: ServedModel
) -> dict[str, Any]:
    read = {}
    for name, value in attributes.items():
        field = f"{prefix}attributes.{_shown(name)}"
        if name not in known:
            listed = ", ".join(known) or "none"
            raise Refused(422, field, f"model {model.name!r} has no such attribute: it has {listed}")
        read[name] = _value(value, known[name], field, model.predictor.schema)
    return read


def _value(value: Any, attribute: FittedAttribute, field: str, schema: Schema) -> Any:
    """Read a value, or for a multi-label attribute a list of them, as canonical text; None where it is missing."""
    spec = attribute.spec
    if isinstance(spec, MultiLabel):
        if isinstance(value, str) and spec.separator is not None:
            value = value.split(spec.separator)
        values = value if isinstance(value, list) else [value]
        if len(values) > _MAX_VALUES:
            raise Refused(422, field, f"{len(values):,} values, but at most {_MAX_VALUES:,} are read: leave some out")
        texts = [_text(item, f"{field}[{index}]") for index, item in enumerate(values)]
        return [text for text in texts if not schema.means_missing(text)] or None
    if isinstance(value, list):
        raise Refused(422, field, "a list, but a text has one value of this attribute: give it alone")
    text = _text(value, field)
    if text is None or schema.means_missing(text):
        return None
    _check_value(text, attribute, field)
    return text


def _check_value(text: str, attribute: FittedAttribute, field: str) -> None:
    spec = attribute.spec
    if isinstance(spec, Numeric):
        try:
            finite = "_" not in text and math.isfinite(float(text))
        except ValueError:
            finite = False
        if not finite:
            raise Refused(422, field, f"{_shown(text)!r} is not a finite number: give one, or null where it is missing")
    elif spec.derives_values or spec.unseen == "error":
        try:
            unknown = attribute.unknown(pa.array([text]), missing=frozenset())[0]
        except DataError as error:
            raise Refused(422, field, str(error).encode("ascii", "backslashreplace").decode()) from None
        if unknown and spec.unseen == "error":
            raise Refused(422, field, f"{_shown(text)!r} was not seen in training, and this model refuses such values")


def _text(value: Any, field: str) -> str | None:
    if isinstance(value, str):
        _check_characters(value, field)
    return canonical(value)


def _check_characters(text: str, field: str) -> None:
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise Refused(
            422, field, f"character {error.start + 1} is half of a surrogate pair, not text: send valid Unicode"
        ) from None


def _shown(text: str) -> str:
    short = text if len(text) <= 60 else f"{text[:57]}..."
    return short.encode("ascii", "backslashreplace").decode()


def faults_of(errors: Sequence[Any], *, limit: int = 10) -> list[Fault]:
    """Translate pydantic's errors in a body, each with its field as a caller would write it."""
    faults: dict[str, str] = {}
    for error in errors:
        if error["type"] == "json_invalid":
            reason, position = error.get("ctx", {}).get("error", ""), error["loc"][-1]
            return [Fault(field="body", reason=f"it is not JSON, from character {position} on: {reason}")]
        field = ""
        for part in error["loc"]:
            if isinstance(part, int):
                field += f"[{part}]"
            elif part != "body" and not _is_branch(part):
                field += f".{_shown(part)}" if field else _shown(part)
        reason = "there is no such field" if error["type"] == "extra_forbidden" else str(error["msg"])
        faults.setdefault(field or "body", reason.encode("ascii", "backslashreplace").decode())
        if len(faults) == limit:
            break
    return [Fault(field=field, reason=reason) for field, reason in faults.items()]


def _is_branch(part: str) -> bool:
    """Whether a part of a location is pydantic's name of one of several types, not a field."""
    return part in ("str", "bool", "int", "float", "none") or part.startswith(("dict[", "list[", "nullable["))

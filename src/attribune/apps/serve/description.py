"""How a service describes itself: OpenAPI with the limits and attributes of its models, examples, and /docs."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from typing import Any

from fastapi import FastAPI, Request
from fastapi.responses import HTMLResponse
from fastapi_offline import FastAPIOffline
from jinja2 import Environment, PackageLoader, StrictUndefined
from pydantic import BaseModel

from attribune.apps.serve.models import ServedModel
from attribune.apps.serve.requests import OPENAI_PATHS, PredictRequest, Refused, read_row
from attribune.apps.serve.service import Service
from attribune.apps.serve.settings import ServeSettings
from attribune.apps.serve.values import EnrolRequest, check_label, check_new_value
from attribune.apps.serve.writing import EVENTS, ChatRequest, CompletionRequest
from attribune.errors import ConfigError
from attribune.schema import FittedAttribute

_BODIES = (PredictRequest, EnrolRequest, CompletionRequest, ChatRequest)
_SCHEMAS = "#/components/schemas/{model}"
_ASSETS = "/static-offline-docs"  # of fastapi_offline
_TEMPLATES = Environment(
    loader=PackageLoader("attribune.apps.serve"), autoescape=True, undefined=StrictUndefined, trim_blocks=True
)
_TEXT = "A joy from start to end."
_NEW = "a new one"


def _prediction_example(model: ServedModel, settings: ServeSettings) -> dict[str, Any]:
    """Return a text with attributes of a model, each with its most frequent value, unless those are hidden."""
    names = model.predictor.text_input.names
    text: Any = _TEXT if len(names) == 1 else dict.fromkeys(names, _TEXT)
    return {"text": text, "attributes": _attributes(model, settings)}


def _completion_example(model: ServedModel, settings: ServeSettings) -> dict[str, Any] | None:
    """Return a prompt with attributes; None for a model that writes no text."""
    example = _chat_example(model, settings)
    return None if example is None else {"prompt": example.pop("messages")[0]["content"], **example}


def _chat_example(model: ServedModel, settings: ServeSettings) -> dict[str, Any] | None:
    """Return a message with attributes; None for a model that writes no text."""
    if model.writer is None:
        return None
    messages = [{"role": "user", "content": "A joy"}]
    return {"messages": messages, "attributes": _attributes(model, settings), "max_tokens": 8}


def _enrolment_example(model: ServedModel, settings: ServeSettings) -> dict[str, Any] | None:
    """Return a new value of an attribute with a labelled text; None for a model that learns none."""
    attribute = next((one for one in model.inputs.values() if one.spec.lists_values and one.name == one.column), None)
    if model.live is None or model.live.refusal is not None or attribute is None:
        return None
    row = _prediction_example(model, settings)
    row["attributes"].pop(attribute.column, None)
    label = next((label for label in _labels(model) if _passes(check_label, label, 0, model)), None)
    if label is None or not _passes(check_new_value, _NEW, attribute, model):
        return None
    return {"attribute": attribute.name, "value": _NEW, "rows": [{**row, "label": label}]}


def _attributes(model: ServedModel, settings: ServeSettings) -> dict[str, Any]:
    attributes = [one for one in model.inputs.values() if one.spec.is_numeric or not settings.hide_unknown]
    found: dict[str, Any] = {}
    for attribute in attributes:
        value = _value(attribute)
        row = {"text": {}, "attributes": {attribute.column: value}}
        if value is not None and _passes(read_row, row, "", model, settings):  # others are derived from what is written
            found[attribute.column] = value
    return found


def _value(attribute: FittedAttribute) -> Any:
    """Return the most frequent value of an attribute; None where none is listed."""
    if attribute.spec.is_date:
        return "2024-05-31"
    if attribute.spec.is_numeric:
        return attribute.edges[0] if attribute.edges else 0.0
    if not len(attribute.values):
        return None
    return attribute.spec.cell(attribute.values[int(attribute.counts[1:].argmax())])


def _passes(check: Callable[..., Any], *given: Any) -> bool:
    try:
        check(*given)
    except (Refused, ConfigError):
        return False
    return True


def _labels(model: ServedModel) -> list[Any]:
    """Return what may be a label: a class, several, or what is predicted when all scores are 0."""
    task = model.predictor.task
    classes: Any = getattr(task, "class_names", ())
    predicted = task.decode(task.empty_scores(1)).columns().get("prediction", [None])[0]
    return [*classes[:1], [*classes[:1]], *([predicted] if isinstance(predicted, str | float | int) else []), 1.0]


_EXAMPLES: dict[str, Callable[[ServedModel, ServeSettings], dict[str, Any] | None]] = {
    "/v1/predict": _prediction_example,
    "/v1/enrol": _enrolment_example,
    "/v1/completions": _completion_example,
    "/v1/chat/completions": _chat_example,
}


def body_of(request: type[BaseModel]) -> dict[str, Any]:
    """Describe a body, which the handler reads itself, within its limits."""
    schema = {"application/json": {"schema": {"$ref": _SCHEMAS.format(model=request.__name__)}}}
    return {"requestBody": {"required": True, "content": schema}}


def describe(app: FastAPI, service: Service) -> None:
    """Let an application describe itself, each time anew: models and values come and go.

    An example has the most frequent value of each attribute, so that a value that was forgotten is in none.
    """
    document = app.openapi()
    for body in _BODIES:
        schema = body.model_json_schema(ref_template=_SCHEMAS)
        document["components"]["schemas"] |= schema.pop("$defs", {}) | {body.__name__: schema}
    for path in OPENAI_PATHS:
        document["paths"][path]["post"]["responses"]["200"]["content"][EVENTS] = {"schema": {"type": "string"}}

    def described() -> dict[str, Any]:
        found = copy.deepcopy(document)
        _add_limits(found["components"]["schemas"], service.models, service.settings)
        _add_examples(found["paths"], service.models, service.settings)
        return found

    app.openapi = described  # type: ignore[method-assign]


def _add_limits(schemas: dict[str, Any], models: Mapping[str, ServedModel], settings: ServeSettings) -> None:
    """Write the names of the models and the limits into the schemas."""
    request, row, enrolment = (schemas[name]["properties"] for name in ("PredictRequest", "Row", "EnrolRequest"))
    for body in _BODIES:
        _of_type("string", schemas[body.__name__]["properties"]["model"])["enum"] = [*models]
    for one in (_of_type("array", request["rows"]), enrolment["rows"]):
        one |= {"minItems": 1, "maxItems": settings.max_rows}
    for text in (request["text"], row["text"], schemas["LabelledRow"]["properties"]["text"]):
        _of_type("string", text)["maxLength"] = settings.max_text_length
    reads = "; ".join(f"{model.name} reads {', '.join(model.inputs) or 'none'}" for model in models.values())
    request["attributes"]["description"] += f" {reads}."


def _of_type(name: str, schema: dict[str, Any]) -> dict[str, Any]:
    """Return the schema of a type among those that a field may have."""
    found: dict[str, Any] = next(kind for kind in schema["anyOf"] if kind.get("type") == name)
    return found


def _add_examples(paths: dict[str, Any], models: Mapping[str, ServedModel], settings: ServeSettings) -> None:
    """Write an example for each model into the bodies of the paths."""
    for path, make in _EXAMPLES.items():
        made = {name: make(model, settings) for name, model in models.items()}
        if examples := {
            name: {"summary": name, "value": {"model": name, **example} if len(models) > 1 else example}
            for name, example in made.items()
            if example is not None
        }:
            paths[path]["post"]["requestBody"]["content"]["application/json"]["examples"] = examples


def documented_app(**options: Any) -> FastAPI:
    """Make an application with its page at ``/docs``; options are those of FastAPI."""
    app = FastAPIOffline(docs_url=None, **options)

    async def page(request: Request) -> HTMLResponse:
        root = request.scope.get("root_path", "")
        text = _TEMPLATES.get_template("docs.html.j2").render(
            title=app.title, assets=f"{root}{_ASSETS}", description=f"{root}{app.openapi_url}"
        )
        return HTMLResponse(text)

    app.get("/docs", include_in_schema=False)(page)
    return app

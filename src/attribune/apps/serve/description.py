"""The OpenAPI description of a service, with the names, limits and attributes of the models that it serves now."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Mapping
from typing import Any

from fastapi import FastAPI
from pydantic import BaseModel

from attribune.apps.serve.bodies import PredictRequest, ReloadRequest
from attribune.apps.serve.examples import chat_example, completion_example, enrolment_example, prediction_example
from attribune.apps.serve.faults import OPENAI_PATHS
from attribune.apps.serve.lines import LINES
from attribune.apps.serve.models import ServedModel
from attribune.apps.serve.settings import ServeSettings
from attribune.apps.serve.value_requests import EnrolRequest
from attribune.apps.serve.writing import EVENTS
from attribune.apps.serve.writing_requests import ChatRequest, CompletionRequest

__all__ = ["body_of", "describe"]

_BODIES = (PredictRequest, EnrolRequest, ReloadRequest, CompletionRequest, ChatRequest)
_SCHEMAS = "#/components/schemas/{model}"
_EXAMPLES: dict[str, Callable[[ServedModel, ServeSettings], dict[str, Any] | None]] = {
    "/v1/predict": prediction_example,
    "/v1/enrol": enrolment_example,
    "/v1/completions": completion_example,
    "/v1/chat/completions": chat_example,
}


def body_of(request: type[BaseModel]) -> dict[str, Any]:
    """Describe a body, which the handler reads itself, within its limits."""
    schema = {"application/json": {"schema": {"$ref": _SCHEMAS.format(model=request.__name__)}}}
    return {"requestBody": {"required": True, "content": schema}}


def describe(app: FastAPI, models: Mapping[str, ServedModel], settings: ServeSettings) -> None:
    """Let an application describe itself, each time anew: models and values come and go.

    An example has the most frequent value of each attribute, so that a value that was forgotten is in none.
    """
    document = app.openapi()
    for body in _BODIES:
        schema = body.model_json_schema(ref_template=_SCHEMAS)
        document["components"]["schemas"] |= schema.pop("$defs", {}) | {body.__name__: schema}
    lines = {"schema": {"type": "string", "description": "A request on each line, without `rows`."}}
    document["paths"]["/v1/predict"]["post"]["requestBody"]["content"][LINES] = lines
    for path, kind in (("/v1/predict", LINES), *((path, EVENTS) for path in OPENAI_PATHS)):
        document["paths"][path]["post"]["responses"]["200"]["content"][kind] = {"schema": {"type": "string"}}

    def described() -> dict[str, Any]:
        found = copy.deepcopy(document)
        _add_limits(found["components"]["schemas"], models, settings)
        _add_examples(found["paths"], models, settings)
        return found

    app.openapi = described  # type: ignore[method-assign]


def _add_limits(schemas: dict[str, Any], models: Mapping[str, ServedModel], settings: ServeSettings) -> None:
    """Write the names of the models and the limits into the schemas."""
    request, row, enrolment = (schemas[name]["properties"] for name in ("PredictRequest", "Row", "EnrolRequest"))
    for name in ("PredictRequest", "EnrolRequest", "CompletionRequest", "ChatRequest"):
        next(kind for kind in schemas[name]["properties"]["model"]["anyOf"] if kind.get("type") == "string")["enum"] = [
            *models
        ]
    rows = next(kind for kind in request["rows"]["anyOf"] if kind.get("type") == "array")
    for one in (rows, enrolment["rows"]):
        one |= {"minItems": 1, "maxItems": settings.max_rows}
    for text in (request["text"], row["text"], schemas["LabelledRow"]["properties"]["text"]):
        next(kind for kind in text["anyOf"] if kind.get("type") == "string")["maxLength"] = settings.max_text_length
    reads = "; ".join(
        f"{model.name} reads {', '.join(attribute.name for attribute in model.attributes) or 'none'}"
        for model in models.values()
    )
    request["attributes"]["description"] += f" {reads}."


def _add_examples(paths: dict[str, Any], models: Mapping[str, ServedModel], settings: ServeSettings) -> None:
    """Write an example for each model into the bodies of the paths."""
    for path, make in _EXAMPLES.items():
        made = {name: make(model, settings) for name, model in models.items()}
        values = {
            name: {"model": name, **example} if len(models) > 1 else example
            for name, example in made.items()
            if example is not None
        }
        if values:
            content = paths[path]["post"]["requestBody"]["content"]
            content["application/json"]["examples"] = {
                name: {"summary": name, "value": value} for name, value in values.items()
            }
            if LINES in content:
                content[LINES]["example"] = "".join(f"{json.dumps(value)}\n" for value in values.values())

"""The application: its paths, and what they answer besides predictions, texts and values."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Collection, Mapping
from contextlib import asynccontextmanager
from importlib import metadata
from typing import Any

from fastapi import FastAPI, Request
from fastapi.responses import JSONResponse, RedirectResponse, Response
from fastapi.routing import APIRoute
from pydantic import BaseModel
from starlette.convertors import PathConvertor, register_url_convertor
from starlette.exceptions import HTTPException

from attribune.apps.serve.description import body_of, describe, documented_app
from attribune.apps.serve.limits import ENROL, VALUES, Gate
from attribune.apps.serve.models import Answer, ServedModel
from attribune.apps.serve.requests import (
    ErrorAnswer,
    ModelsAnswer,
    NamedModel,
    OpenAIErrorAnswer,
    PredictAnswer,
    PredictRequest,
    Refused,
    choose_model,
    read_request,
    refusal,
    refusals,
)
from attribune.apps.serve.service import Service
from attribune.apps.serve.settings import Keys, ServeSettings
from attribune.apps.serve.values import EnrolAnswer, EnrolRequest, RemoveAnswer, ValuePaths
from attribune.apps.serve.writing import ChatRequest, CompletionAnswer, CompletionRequest, WritingPaths
from attribune.core.logs import EVENT

_LOG = logging.getLogger(__name__)
_RETRY = {"Retry-After": "1"}
_Faults = dict[int | str, dict[str, Any]]
_FAULTS: _Faults = {
    status: {"model": ErrorAnswer, "description": text}
    for status, text in {
        400: "The body is not JSON, or cannot be used.",
        401: "The key is missing or wrong.",
        403: "The service does not change: it was started without --enrol, or without a key for that.",
        404: "There is no such model, attribute or value.",
        408: "The body did not come in time.",
        409: "The value is known already, or is being added.",
        413: "The body is too large.",
        415: "The body is of another type than JSON.",
        421: "The host that the request names is not one of this service.",
        422: "A field is invalid; the answer has its name and the reason.",
        429: "Too many texts wait: try again later.",
        503: "The service stops, its models have changed, a run cannot be written, or the answer took too long: try "
        "again later.",
    }.items()
}
_OF_VALUES = (403, 409)
_PREDICTIONS, _TEXTS, _VALUES, _SERVICE = "Predictions", "Generated texts", "New values", "Service"
_TAGS = {
    _PREDICTIONS: "labels of texts",
    _TEXTS: "the OpenAI API, for runs that write text",
    _VALUES: "learn a value from a few labelled texts, and forget one",
    _SERVICE: "models, health and metrics",
}


def create_app(
    models: Mapping[str, ServedModel],
    *,
    settings: ServeSettings | None = None,
    keys: Keys | None = None,
) -> FastAPI:
    """Make the ASGI application of a service; `attribune.apps.serve.serve` runs it.

    Args:
        models: by name, as `load_models` returns them.
        keys: which callers must send; none by default.
    """
    service = Service(models, settings or ServeSettings())
    values = ValuePaths(service)

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        """Answer, and at the end answer what waits."""
        values.writer.open()
        yield
        service.reader.shutdown(wait=False, cancel_futures=True)
        await asyncio.to_thread(values.writer.close)
        await asyncio.to_thread(service.batcher.close)

    app = documented_app(
        title="Attribune",
        version=metadata.version("attribune"),
        summary="Predictions and generated texts that depend on the attributes of a text.",
        openapi_tags=[{"name": name, "description": text} for name, text in _TAGS.items()],
        lifespan=lifespan,
    )
    _add_paths(app, WritingPaths(service), values, _ServicePaths(service))
    app.state.service, app.state.values = service, values
    app.add_exception_handler(Refused, _refused)
    app.add_exception_handler(HTTPException, _http_error)
    app.add_exception_handler(Exception, _failed)
    describe(app, service)
    paths = {path for route in app.routes if (path := getattr(route, "path_format", None))}
    app.add_middleware(Gate, service=service, keys=keys or Keys(), paths=paths)
    return app


class _AnyText(PathConvertor):
    """The rest of a path, line ends included, which `PathConvertor` does not match."""

    regex = "(?s:.*)"


register_url_convertor("any", _AnyText())


def _add_paths(app: FastAPI, texts: WritingPaths, values: ValuePaths, service: _ServicePaths) -> None:
    def post(path: str, tag: str, body: type[BaseModel], answer: type[BaseModel], faults: _Faults) -> Any:
        return app.post(path, tags=[tag], response_model=answer, responses=faults, openapi_extra=body_of(body))

    def get(path: str, faults: Collection[int], **options: Any) -> Any:
        return app.get(path, tags=[_SERVICE], responses={status: _FAULTS[status] for status in faults}, **options)

    faults = {status: fault for status, fault in _FAULTS.items() if status not in _OF_VALUES}
    written = {status: {**fault, "model": OpenAIErrorAnswer} for status, fault in faults.items() if status != 422}
    without_body = {status: fault for status, fault in _FAULTS.items() if status != 400}
    post("/v1/predict", _PREDICTIONS, PredictRequest, PredictAnswer, faults)(service.predict)
    post("/v1/completions", _TEXTS, CompletionRequest, CompletionAnswer, written)(texts.complete)
    post("/v1/chat/completions", _TEXTS, ChatRequest, CompletionAnswer, written)(texts.chat)
    post(ENROL, _VALUES, EnrolRequest, EnrolAnswer, _FAULTS)(values.enrol)
    remove = f"{VALUES}/{{attribute}}/{{value:any}}"
    app.delete(remove, tags=[_VALUES], response_model=RemoveAnswer, responses=without_body)(values.remove)
    get("/v1/models", (401, 421), response_model=ModelsAnswer)(service.list_models)
    get("/v1/models/{model:any}", (401, 421, 404), response_model=NamedModel)(service.find_model)
    get("/health", (421, 503))(service.health)
    app.head("/health", include_in_schema=False)(service.health)  # as probes ask
    get("/metrics", (401, 421), response_class=Response)(service.metrics)
    app.get("/", include_in_schema=False)(_to_docs)
    for route in app.routes:
        if isinstance(route, APIRoute) and route.description:
            route.summary = route.description.splitlines()[0].rstrip(".")


class _ServicePaths:
    """The handlers of the paths of predictions, and of those about the service itself."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self._started = int(time.time())

    async def predict(self, request: Request) -> Response:
        """Predict one text with its attributes, or many rows.

        Attributes may be left out, and values that the model has never seen are accepted: the answer lists them under
        `unknown`, unless the service hides that, and is the prediction for a text without them.
        """
        model, answers = await self._service.answer(request, self._predict(request))
        self._service.metrics.answered(model, answers)
        predictions = [answer.shown(hide_unknown=self._service.settings.hide_unknown) for answer in answers]
        return JSONResponse({"model": model.name, "predictions": predictions})

    async def _predict(self, request: Request) -> tuple[ServedModel, list[Answer]]:
        model, columns = await self._service.read(request, read_request)
        return model, await asyncio.wrap_future(self._service.batcher.submit(model, columns))

    async def list_models(self) -> Response:
        """List the models, with the texts and attributes that each reads."""
        models = [model.describe() for model in self._service.models.values()]
        return JSONResponse(
            {"object": "list", "data": [self._named(model["name"]) for model in models], "models": models}
        )

    async def find_model(self, model: str) -> Response:
        """Name a model, as OpenAI's clients read it, if it is served."""
        return JSONResponse(self._named(choose_model(self._service.models, model).name))

    def _named(self, name: str) -> dict[str, Any]:
        return NamedModel(id=name, created=self._started).model_dump()

    async def health(self) -> Response:
        """Say whether requests are answered."""
        status = "ok" if self._service.batcher.alive else "stopping"
        if any(model.files.changed() for model in self._service.models.values()):
            status = "the files of a model were written to"
        return JSONResponse({"status": status}, status_code=200 if status == "ok" else 503)

    async def metrics(self) -> Response:
        """Return metrics in Prometheus' text format."""
        return Response(self._service.metrics.text(), media_type="text/plain; version=1.0.0; charset=utf-8")


async def _to_docs(_: Request) -> Response:
    return RedirectResponse("docs")


async def _refused(request: Request, error: Exception) -> Response:
    assert isinstance(error, Refused)
    headers = _RETRY if error.status in (429, 503) else None
    return refusals(request.url.path, error.status, error.faults, headers)


async def _http_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    taken = (error.headers or {}).get("Allow", "another method")
    reasons = {
        404: "there is no such path: see /docs",
        405: f"this path takes {taken}, not {request.method}: see /docs",
    }
    reason = reasons.get(error.status_code, str(error.detail))
    field = "body" if error.status_code == 400 else "path"
    return refusal(request.url.path, error.status_code, field, reason, error.headers)


async def _failed(request: Request, error: Exception) -> Response:
    """Answer an unexpected error without its details, which go to the log."""
    _LOG.error("a request failed", exc_info=error, extra=EVENT)
    return refusal(request.url.path, 500, "body", "the service failed; its log says why")

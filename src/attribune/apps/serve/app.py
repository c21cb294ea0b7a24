"""The paths of the service: predictions, models, health and metrics."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from importlib import metadata
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, Response
from fastapi_offline import FastAPIOffline
from starlette.exceptions import HTTPException

from attribune.apps.serve.batching import Batcher, Overloaded, Stopping
from attribune.apps.serve.limits import Gate, refusal
from attribune.apps.serve.metrics import ServiceMetrics
from attribune.apps.serve.models import ServedModel
from attribune.apps.serve.requests import (
    ErrorAnswer,
    ModelsAnswer,
    PredictAnswer,
    PredictRequest,
    Refused,
    columns_of,
    faults_of,
)
from attribune.apps.serve.settings import ServeSettings
from attribune.errors import AttribuneError

__all__ = ["create_app"]

_LOG = logging.getLogger(__name__)
_RETRY = {"Retry-After": "1"}
_FAULTS: dict[int | str, dict[str, Any]] = {
    status: {"model": ErrorAnswer, "description": text}
    for status, text in {
        400: "The body is not JSON.",
        401: "The key is missing or wrong.",
        404: "There is no such model.",
        408: "The body did not come in time.",
        413: "The body is too large.",
        422: "A field cannot be used; its name and the reason are said.",
        429: "Too many texts wait: try again later.",
        503: "The service stops, or the answer took too long: try again later.",
    }.items()
}


def create_app(
    models: Mapping[str, ServedModel], *, settings: ServeSettings | None = None, keys: Sequence[str] = ()
) -> FastAPI:
    """Make the ASGI application of a service; `attribune.apps.serve.serve` runs it.

    Args:
        models: by name, as `load_models` returns them.
        keys: callers must send one of them as a bearer token; none is required if empty.
    """
    settings = settings or ServeSettings()
    metrics = ServiceMetrics(models.values())
    service = _Service(models, settings, metrics)
    app = FastAPIOffline(
        title="Attribune",
        version=metadata.version("attribune"),
        summary="Predictions for texts and the attributes they come with.",
        lifespan=service.lifespan,
    )
    app.post("/v1/predict", response_model=PredictAnswer, responses=_FAULTS)(service.predict)
    app.get("/v1/models", response_model=ModelsAnswer, responses={401: _FAULTS[401]})(service.list_models)
    app.get("/health", responses={503: _FAULTS[503]})(service.health)
    app.get("/metrics", response_class=Response, responses={401: _FAULTS[401]})(service.metrics)
    app.add_exception_handler(RequestValidationError, _invalid)
    app.add_exception_handler(Refused, _refused)
    app.add_exception_handler(HTTPException, _http_error)
    app.add_exception_handler(Exception, _failed)
    _document_limits(app, models, settings)
    paths = {path for route in app.routes if (path := getattr(route, "path", None))}
    app.add_middleware(Gate, settings=settings, keys=keys, metrics=metrics, paths=paths)
    return app


def _document_limits(app: FastAPI, models: Mapping[str, ServedModel], settings: ServeSettings) -> None:
    """Write the names of the models and the limits into the OpenAPI schema."""
    schemas = app.openapi()["components"]["schemas"]
    request, row = (schemas[name]["properties"] for name in ("PredictRequest", "Row"))
    strings = {kind.get("type"): kind for kind in (*request["model"]["anyOf"], *request["rows"]["anyOf"])}
    strings["string"]["enum"] = list(models)
    strings["array"] |= {"minItems": 1, "maxItems": settings.max_rows}
    for text in (request["text"], row["text"]):
        next(kind for kind in text["anyOf"] if kind.get("type") == "string")["maxLength"] = settings.max_text_length
    reads = "; ".join(
        f"{model.name} reads {', '.join(attribute.name for attribute in model.attributes) or 'none'}"
        for model in models.values()
    )
    request["attributes"]["description"] += f" {reads}."


class _Service:
    """The handlers of the paths."""

    def __init__(self, models: Mapping[str, ServedModel], settings: ServeSettings, metrics: ServiceMetrics) -> None:
        self._models, self._settings, self._metrics = models, settings, metrics
        self._batcher: Batcher | None = None

    @asynccontextmanager
    async def lifespan(self, _: FastAPI) -> AsyncIterator[None]:
        """Start the batcher, and at the end let it answer what waits."""
        self._batcher = Batcher(max_queue_size=self._settings.max_queue_size, observe=self._metrics.batch_sizes.observe)
        self._metrics.watch(self._batcher)
        yield
        await asyncio.to_thread(self._batcher.close)

    async def predict(self, request: PredictRequest) -> Response:
        """Predict one text with its attributes, or many rows.

        Attributes may be left out, and values that the model has never seen are accepted: the answer lists them under
        `unknown`, and is the prediction for a text without them.
        """
        model = self._model(request.model)
        columns = columns_of(request, model, self._settings)
        assert self._batcher is not None
        try:
            future = asyncio.wrap_future(self._batcher.submit(model, columns))
            answers = await asyncio.wait_for(future, self._settings.timeout)
        except Overloaded:
            raise Refused(
                429, "body", f"more than {self._settings.max_queue_size:,} texts wait already: try again later"
            ) from None
        except Stopping:
            raise Refused(503, "body", "the service stops: try again later") from None
        except TimeoutError:
            raise Refused(
                503, "body", f"no answer within {self._settings.timeout:g} seconds: send fewer texts, or later"
            ) from None
        except AttribuneError as error:
            raise Refused(422, "body", str(error).encode("ascii", "backslashreplace").decode()) from None
        self._metrics.answered(model, answers)
        predictions = [{"output": answer.output, "unknown": answer.unknown} for answer in answers]
        return JSONResponse({"model": model.name, "predictions": predictions})

    def _model(self, name: str | None) -> ServedModel:
        listed = ", ".join(self._models)
        if name is None:
            if len(self._models) > 1:
                raise Refused(422, "model", f"several models are served: name one of {listed}")
            return next(iter(self._models.values()))
        if name not in self._models:
            raise Refused(404, "model", f"there is no such model: name one of {listed}")
        return self._models[name]

    async def list_models(self) -> Response:
        """List the models, with the texts and attributes that each reads."""
        return JSONResponse({"models": [model.describe() for model in self._models.values()]})

    async def health(self) -> Response:
        """Say whether requests are answered."""
        alive = self._batcher is not None and self._batcher.alive
        return JSONResponse({"status": "ok" if alive else "stopping"}, status_code=200 if alive else 503)

    async def metrics(self) -> Response:
        """Return metrics in Prometheus' text format."""
        return Response(self._metrics.text(), media_type="text/plain; version=1.0.0; charset=utf-8")


async def _invalid(_: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)
    broken = any(item["type"] == "json_invalid" for item in error.errors())
    faults = [fault.model_dump() for fault in faults_of(error.errors())]
    return JSONResponse({"errors": faults}, status_code=400 if broken else 422)


async def _refused(_: Request, error: Exception) -> Response:
    assert isinstance(error, Refused)
    headers = _RETRY if error.status in (429, 503) else None
    return refusal(error.status, error.fault.field, error.fault.reason, headers)


async def _http_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    reasons = {404: "there is no such path: see /docs", 405: "this path takes another method: see /docs"}
    reason = reasons.get(error.status_code, str(error.detail))
    field = "body" if error.status_code == 400 else "path"
    return refusal(error.status_code, field, reason, error.headers)


async def _failed(_: Request, error: Exception) -> Response:
    """Answer an unexpected error without its details, which go to the log."""
    _LOG.error("a request failed", exc_info=error)
    return refusal(500, "body", "the service failed; its log says why")

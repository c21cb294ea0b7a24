"""How a refusal is written: in the service's own form, or on the paths of OpenAI's interface in its form."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from starlette.responses import JSONResponse

from attribune.apps.serve.bodies import Fault

__all__ = ["OPENAI_PATHS", "openai_error", "refusal", "refusals"]

OPENAI_PATHS = ("/v1/completions", "/v1/chat/completions")
_CODES = {401: "invalid_api_key", 404: "model_not_found", 429: "rate_limit_exceeded"}


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

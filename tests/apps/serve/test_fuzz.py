"""The service under requests made from its own description: none fails, and every answer is one that is described."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
import schemathesis
from fastapi.testclient import TestClient
from hypothesis import HealthCheck, given, settings
from live_service import PATIENCE
from schemathesis import GenerationMode
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)
from tally import tell

from attribune.apps.serve import ServedModel, ServeSettings, create_app, load_models

pytestmark = pytest.mark.exhaustive

CHECKS = [not_a_server_error, status_code_conformance, content_type_conformance, response_schema_conformance]
EXAMPLES = 60  # for each path
PATHS = ("/v1/models", "/health", "/metrics")


CHANGING = ("/v1/enrol", "/v1/values/{attribute}/{value}")


@pytest.mark.parametrize("mode", [GenerationMode.POSITIVE, GenerationMode.NEGATIVE])
def test_requests_from_the_description(mode: GenerationMode, models: dict[str, ServedModel]) -> None:
    app = create_app(models, settings=ServeSettings(max_text_length=1000, timeout=PATIENCE))
    asked: dict[str, set[int]] = {}
    for found in schemathesis.openapi.from_asgi("/openapi.json", app).get_all_operations():
        if mode == GenerationMode.POSITIVE or found.ok().method == "post":  # a GET without parameters is never wrong
            asked[found.ok().path] = statuses_of(found.ok(), mode)
    assert asked["/v1/predict"] & {404, 422}
    assert asked.pop("/v1/enrol") == {403}
    assert asked.pop("/v1/completions") | asked.pop("/v1/chat/completions") <= {400, 404}
    assert asked.pop("/v1/values/{attribute}/{value}", set()) <= {403, 404}  # names of dots are part of the path
    assert asked.pop("/v1/models/{model}", set()) <= {200, 404}
    if mode == GenerationMode.POSITIVE:
        assert asked == {"/v1/predict": asked["/v1/predict"], **{path: {200} for path in PATHS}}


@pytest.mark.parametrize("mode", [GenerationMode.POSITIVE, GenerationMode.NEGATIVE])
def test_requests_that_change_a_run(mode: GenerationMode, runs: Path, tmp_path: Path) -> None:
    models = load_models([str(shutil.copytree(runs / "injector", tmp_path / "injector"))], enrol=True)
    app = create_app(models, settings=ServeSettings(max_text_length=1000, enrol=True, timeout=PATIENCE))
    with TestClient(app, raise_server_exceptions=False) as client:
        for found in schemathesis.openapi.from_asgi("/openapi.json", app).get_all_operations():
            if found.ok().path in CHANGING:
                assert statuses_of(found.ok(), mode) <= {200, 400, 404, 409, 422}
        assert client.get("/health").status_code == 200


def statuses_of(operation: Any, mode: GenerationMode) -> set[int]:
    """Ask many times; every answer is checked."""
    statuses = set()

    @settings(max_examples=EXAMPLES, derandomize=True, deadline=None, suppress_health_check=list(HealthCheck))
    @given(case=operation.as_strategy(generation_mode=mode))
    def ask(case: Any) -> None:
        answer = case.call()
        statuses.add(answer.status_code)
        case.validate_response(answer, checks=CHECKS)
        tell("survived" if answer.status_code < 400 else "refused")

    ask()
    return statuses

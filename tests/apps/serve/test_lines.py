"""Batches of requests, one on a line, and what a newcomer gets wrong first."""

from __future__ import annotations

import json
import threading
from typing import Any

import httpx
import pytest
from fastapi.testclient import TestClient
from live_service import PATIENCE, Clock, Gated, running

from attribune.apps.serve import ServedModel, ServeSettings, create_app

pytestmark = pytest.mark.slow

NDJSON = {"content-type": "application/x-ndjson; charset=utf-8"}
GOOD = {"model": "injector", "text": "a great film", "attributes": {"user": "u1"}}


def lines_of(client: TestClient, *lines: Any) -> list[dict[str, Any]]:
    body = "\n".join(line if isinstance(line, str) else json.dumps(line) for line in lines)
    answer = client.post("/v1/predict", content=body, headers=NDJSON)
    assert answer.status_code == 200, answer.text
    assert answer.headers["content-type"].startswith("application/x-ndjson")
    return [json.loads(line) for line in answer.text.splitlines()]


def test_each_line_has_its_answer_or_its_errors(client: TestClient) -> None:
    panel = {**GOOD, "panel": "user", "attributes": {}}
    found = lines_of(
        client, GOOD, "", "{", {**GOOD, "attributes": {"user": "u77"}}, {"rows": [GOOD]}, {**GOOD, "user": 1}, panel
    )
    assert [one["line"] for one in found] == [1, 3, 4, 5, 6, 7]
    alone = client.post("/v1/predict", json=GOOD).json()["predictions"][0]
    assert found[0]["model"] == "injector"
    assert found[0]["output"] == pytest.approx(alone["output"], abs=1e-6)
    assert found[2]["unknown"] == {"user": ["u77"]}
    assert [one["errors"][0]["field"] for one in (found[1], *found[3:5])] == ["body", "rows", "user"]
    expected = client.post("/v1/predict", json=panel).json()["predictions"][0]["output"]
    assert found[5]["output"] == pytest.approx(expected, abs=1e-6)
    assert client.post("/v1/predict", content=" \n", headers=NDJSON).status_code == 422


def test_more_lines_than_may_wait_are_answered_in_their_order(models: dict[str, ServedModel]) -> None:
    settings = ServeSettings(max_rows=20, max_queue_size=7, timeout=PATIENCE)
    with TestClient(create_app({"none": models["none"]}, settings=settings)) as client:
        found = lines_of(client, *({"text": f"film n{number}"} for number in range(60)))
        assert [one["line"] for one in found] == [*range(1, 61)]
        rows = [{"text": f"film n{number}"} for number in range(7)]
        expected = client.post("/v1/predict", json={"rows": rows}).json()["predictions"]
        for one, other in zip(found, expected, strict=False):
            assert one["output"] == pytest.approx(other["output"], abs=1e-6)


def test_the_time_of_a_request_is_that_of_a_line(
    models: dict[str, ServedModel], slow: Gated, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All of them together take longer, and each is answered."""
    slow.open.set()
    predictor, settings = models["none"].predictor, ServeSettings(max_rows=1, timeout=5)
    score = predictor.score
    with TestClient(create_app({"none": models["none"]}, settings=settings)) as client:
        clock = Clock.of(client)

        def late(rows: Any) -> Any:
            clock.pass_time(4)
            return score(rows)

        monkeypatch.setattr(predictor, "score", late)
        found = lines_of(client, *[{"text": "x"}] * 3)
        clock.run()
    assert [(one["line"], "output" in one) for one in found] == [(1, True), (2, True), (3, True)]


def test_answers_come_before_the_last_line_is_scored(
    models: dict[str, ServedModel], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The model holds the second line until the answer to the first one has come."""
    answered, asked, predictor = threading.Event(), list[int](), models["none"].predictor
    score = predictor.score

    def wait(rows: Any) -> Any:
        asked.append(len(asked))
        assert len(asked) == 1 or answered.wait(PATIENCE)
        return score(rows)

    monkeypatch.setattr(predictor, "score", wait)
    body = b'{"text": "x"}\n' * 3
    with (
        running({"none": models["none"]}, max_rows=1) as service,
        httpx.stream("POST", f"{service.url}/v1/predict", content=body, headers=NDJSON, timeout=PATIENCE) as answer,
    ):
        lines = answer.iter_lines()
        assert json.loads(next(lines))["line"] == 1
        answered.set()
        assert [json.loads(line)["line"] for line in lines] == [2, 3]


@pytest.mark.parametrize(
    ("body", "headers", "field", "hint"),
    [
        ({**GOOD, "user": "u1"}, {}, "user", "did you mean attributes.user? Put it into the object `attributes`"),
        (
            {"model": "injector", "rows": [{"text": "x", "tags": ["war"]}]},
            {},
            "rows[0].tags",
            "rows[0].attributes.tags",
        ),
        ({"model": "injector", "txt": "x"}, {}, "txt", "did you mean text?"),
        (GOOD, {"content-type": "application/x-www-form-urlencoded"}, "body", "-H 'content-type: application/json'"),
        (
            GOOD,
            {"content-type": ""},
            "body",
            "it has no content-type: send JSON, with 'content-type: application/json'",
        ),
    ],
)
def test_a_newcomers_mistake_has_its_cure(
    body: dict[str, Any], headers: dict[str, str], field: str, hint: str, client: TestClient
) -> None:
    answer = client.post(
        "/v1/predict", content=json.dumps(body), headers={"content-type": "application/json", **headers}
    )
    assert answer.status_code == (415 if "content-type" in headers else 422)
    (fault,) = answer.json()["errors"]
    assert fault["field"] == field
    assert hint in fault["reason"]


def test_the_root_leads_to_the_description(client: TestClient) -> None:
    answer = client.get("/")
    assert answer.status_code == 200
    assert answer.url.path == "/docs"
    assert "/openapi.json" in answer.text

"""Requests that cannot be used: each gets a reason that names the field, none an error of the server."""

from __future__ import annotations

import json
from typing import Any

import pytest
from fastapi.testclient import TestClient
from live_service import client_of

from attribune.apps.serve import ServedModel
from attribune.apps.serve.batching import _answer, _Waiting
from attribune.errors import DataError

pytestmark = pytest.mark.slow

GOOD: dict[str, Any] = {"model": "injector", "text": "a great film"}
ROW = {"text": "a great film"}
DEEP = "[" * 100_000 + "]" * 100_000


def attributes(**values: Any) -> dict[str, Any]:
    return {**GOOD, "attributes": values}


def rows(*given: Any) -> dict[str, Any]:
    return {"model": "injector", "rows": list(given)}


WRONG: list[tuple[Any, int, str, str]] = [
    # the body as a whole
    (b"", 422, "body", "Field required"),
    (b"{", 400, "body", "not JSON, from character"),
    (b"text=a+great+film", 400, "body", "not JSON, from character"),
    (b"\xff\xfe\x00{", 400, "body", "not JSON, from character"),
    (b'{"model": "injector", "text": "a\x00b"', 400, "body", "not JSON, from character"),
    (b'{"model": "injector", "text": "unfinished', 400, "body", "not JSON, from character"),
    (DEEP.encode(), 400, "body", "too deep"),
    (b'{"text": ' + b"1" * 5000 + b"}", 400, "body", "too many digits"),
    ([], 422, "body", "valid dictionary or object"),
    ("a great film", 422, "body", "valid dictionary or object"),
    (None, 422, "body", ""),
    (17, 422, "body", "valid dictionary or object"),
    ([ROW], 422, "body", "valid dictionary or object"),
    # the model
    ({"text": "a great film"}, 422, "model", "name one of injector, pln, linear, none"),
    ({**GOOD, "model": "stars"}, 404, "model", "name one of injector, pln, linear, none"),
    ({**GOOD, "model": ""}, 404, "model", "there is no such model"),
    ({**GOOD, "model": 1}, 422, "model", "valid string"),
    ({**GOOD, "model": ["injector"]}, 422, "model", "valid string"),
    ({**GOOD, "model": "../injector"}, 404, "model", "there is no such model"),
    ({**GOOD, "model": "\ud800"}, 404, "model", "there is no such model"),
    # fields
    ({**GOOD, "user": "u1"}, 422, "user", "there is no such field"),
    ({**GOOD, "Text": "x"}, 422, "Text", "there is no such field"),
    ({**GOOD, "\ud800": 1}, 422, "\\ud800", "there is no such field"),
    ({"model": "injector"}, 422, "text", "neither text nor rows"),
    ({**GOOD, "rows": [ROW]}, 422, "text", "rows and text cannot"),
    (
        {"model": "injector", "attributes": {"user": "u1"}, "rows": [ROW]},
        422,
        "attributes",
        "rows and attributes cannot",
    ),
    # the text
    ({**GOOD, "text": 17}, 422, "text", "valid string"),
    ({**GOOD, "text": ["a great film"]}, 422, "text", "a list, but this model reads a text"),
    ({**GOOD, "text": True}, 422, "text", "valid string"),
    ({**GOOD, "text": {"title": "a great film"}}, 422, "text.title", "no such text column: give text"),
    ({**GOOD, "text": {"text": 17}}, 422, "text.text", "valid string"),
    ({**GOOD, "text": {"text": {"text": "deep"}}}, 422, "text.text", "valid string"),
    ({**GOOD, "text": "half \ud800"}, 422, "text", "character 6 is half of a surrogate pair"),
    ({**GOOD, "text": "x" * 100_001}, 422, "text", "100,001 characters, but at most 100,000 are read"),
    # attributes
    ({**GOOD, "attributes": "u1"}, 422, "attributes", "valid dictionary"),
    ({**GOOD, "attributes": [{"user": "u1"}]}, 422, "attributes", "valid dictionary"),
    ({**GOOD, "attributes": None}, 422, "attributes", "valid dictionary"),
    (attributes(author="u1"), 422, "attributes.author", "'injector' has no such attribute: it has user, tags, price"),
    (attributes(User="u1"), 422, "attributes.User", "no such attribute; did you mean 'user'? It has user, tags"),
    ({"model": "none", "text": "x", "attributes": {"user": "u1"}}, 422, "attributes.user", "it has none"),
    (attributes(**{"\udfff": "u1"}), 422, "attributes.\\udfff", "no such attribute"),
    (attributes(**{"Prix payé (€)": "12,5"}), 422, "attributes.Prix payé (€)", "no such attribute"),
    (attributes(**{"x" * 500: "u1"}), 422, f"attributes.{'x' * 57}...", "no such attribute"),
    (attributes(user=["u1"]), 422, "attributes.user", "one value of this attribute"),
    (attributes(user=[]), 422, "attributes.user", "one value of this attribute"),
    (attributes(user={"id": "u1"}), 422, "attributes.user", "valid string"),
    (attributes(user="u\ud8001"), 422, "attributes.user", "character 2 is half of a surrogate pair"),
    (attributes(tags=[["war"]]), 422, "attributes.tags[0]", "valid string"),
    (attributes(tags=["war", {"name": "drama"}]), 422, "attributes.tags[1]", "valid string"),
    (attributes(tags=["war", "\udc00"]), 422, "attributes.tags[1]", "half of a surrogate pair"),
    (attributes(tags=[str(number) for number in range(1001)]), 422, "attributes.tags", "1,001 values, but at most"),
    (attributes(price="cheap"), 422, "attributes.price", "'cheap' is not a finite number"),
    (attributes(price="1_000"), 422, "attributes.price", "'1_000' is not a finite number"),
    (attributes(price=True), 422, "attributes.price", "'true' is not a finite number"),
    (attributes(price=[3]), 422, "attributes.price", "one value of this attribute"),
    (attributes(price="x" * 200), 422, "attributes.price", f"'{'x' * 57}...' is not a finite number"),
    (b'{"model": "injector", "text": "x", "attributes": {"price": 1e999}}', 422, "attributes.price", "not a finite"),
    (
        b'{"model": "injector", "text": "x", "attributes": {"price": -Infinity}}',
        422,
        "attributes.price",
        "not a finite",
    ),
    # rows
    (rows(), 422, "rows", "the list is empty"),
    (rows(*[ROW] * 257), 422, "rows", "257 rows, but at most 256 in a request"),
    ({"model": "injector", "rows": ROW}, 422, "rows", "valid list"),
    ({"model": "injector", "rows": "a great film"}, 422, "rows", "valid list"),
    (rows(ROW, "a great film"), 422, "rows[1]", "valid dictionary or object"),
    (rows(ROW, None), 422, "rows[1]", "valid dictionary or object"),
    (rows(ROW, {}), 422, "rows[1].text", "Field required"),
    (rows(ROW, {"attributes": {"user": "u1"}}), 422, "rows[1].text", "Field required"),
    (rows({**ROW, "model": "none"}), 422, "rows[0].model", "there is no such field"),
    (rows(ROW, {"text": None}), 422, "rows[1].text", "valid string"),
    (rows(ROW, {"text": "\udbff"}), 422, "rows[1].text", "half of a surrogate pair"),
    (rows(ROW, {**ROW, "attributes": {"author": 1}}), 422, "rows[1].attributes.author", "no such attribute"),
    (rows(ROW, {**ROW, "attributes": {"price": "dear"}}), 422, "rows[1].attributes.price", "not a finite number"),
    (rows(ROW, {**ROW, "attributes": {"user": [1]}}), 422, "rows[1].attributes.user", "one value"),
    (rows(*[{"text": "x" * 40_000}] * 300), 413, "body", "more than 8,388,608 bytes"),
]


@pytest.mark.parametrize(("body", "status", "field", "reason"), WRONG, ids=range(len(WRONG)))
def test_a_bad_request_gets_a_reason_that_names_the_field(
    body: Any, status: int, field: str, reason: str, client: TestClient
) -> None:
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    answer = client.post("/v1/predict", content=content, headers={"content-type": "application/json"})
    assert answer.status_code == status, answer.text
    faults = answer.json()["errors"]
    assert any(fault["field"] == field and reason in fault["reason"] for fault in faults), faults
    assert len(answer.content) < 2000
    assert client.post("/v1/predict", json=GOOD).status_code == 200, "the service goes on"


@pytest.mark.parametrize(
    ("method", "path", "status", "reason"),
    [
        ("GET", "/v1/predict", 405, "this path takes POST, not GET"),
        ("DELETE", "/v1/models", 405, "this path takes GET, not DELETE"),
        ("PUT", "/health", 405, "this path takes GET, not PUT"),
        ("GET", "/v1/models/../../etc/passwd", 404, ""),
        ("GET", "/%00", 404, ""),
        ("POST", "/v2/predict", 404, ""),
    ],
)
def test_other_paths_and_methods(method: str, path: str, status: int, reason: str, client: TestClient) -> None:
    answer = client.request(method, path)
    (error,) = answer.json()["errors"]
    assert (answer.status_code, error["field"], reason in error["reason"]) == (status, "path", True), error


def test_a_slash_too_many_is_redirected_and_a_probe_may_ask_for_the_head_alone(client: TestClient) -> None:
    assert client.post("/v1/predict/", follow_redirects=False).status_code == 307
    answer = client.head("/health")
    assert (answer.status_code, answer.content) == (200, b"")


def test_a_body_without_its_type_is_refused(client: TestClient) -> None:
    answer = client.post("/v1/predict", content=b'{"model": "injector", "text": "x"}', headers={"content-type": "a/b"})
    assert (answer.status_code, answer.json()["errors"][0]["field"]) == (415, "body")


@pytest.mark.parametrize(
    "text", ["", " ", "\n\t", "\x00\x01", "\u202e\u2066", "\U0001f4a9" * 500, "x" * 100_000, "<script>", "é" * 999]
)
def test_odd_texts_are_texts(text: str, client: TestClient) -> None:
    answer = client.post("/v1/predict", json={"model": "injector", "text": text, "attributes": {"user": "u1"}})
    assert answer.status_code == 200
    output = answer.json()["predictions"][0]["output"]
    assert output["probability_bad"] + output["probability_good"] == pytest.approx(1)


@pytest.mark.parametrize("user", [0, 1.5, True, -0.0, 10**40, "", "u1\x00", "x" * 10_000, "'; DROP TABLE users; --"])
def test_odd_values_are_unknown_values(user: Any, client: TestClient) -> None:
    answer = client.post("/v1/predict", json={"model": "injector", "text": "x", "attributes": {"user": user}})
    assert answer.status_code == 200
    assert bool(answer.json()["predictions"][0]["unknown"]) == (user != "")


def test_one_bad_request_does_not_spoil_those_beside_it(
    models: dict[str, ServedModel], monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the checks in front of the model let pass, and the model refuses, is the fault of its request alone."""
    model = models["injector"]
    encode = model.predictor.encode_rows

    def refuse(columns: Any, **more: Any) -> Any:
        if "evil" in columns["text"]:
            raise DataError("row 1 is evil")
        return encode(columns, **more)

    monkeypatch.setattr(model.predictor, "encode_rows", refuse)
    columns = [{"text": [text], "user": ["u1"], "tags": [None], "price": [None]} for text in ("a", "evil", "b")]
    waiting = [_Waiting(model=model, columns=one, rows=1) for one in columns]
    _answer(waiting)
    assert [one.answers.exception() is None for one in waiting] == [True, False, True]
    with client_of({"injector": model}) as client:
        answer = client.post("/v1/predict", json={"text": "evil"})
    assert (answer.status_code, answer.json()) == (422, {"errors": [{"field": "body", "reason": "row 1 is evil"}]})


def test_what_should_not_happen_is_said_without_details(
    models: dict[str, ServedModel], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(_: Any) -> Any:
        raise RuntimeError("secret of the machine")

    monkeypatch.setattr(models["pln"].predictor, "score", fail)
    with client_of({"pln": models["pln"]}) as client:
        answer = client.post("/v1/predict", json={"text": "x"})
        assert (answer.status_code, "secret" in answer.text) == (500, False)
        assert "secret of the machine" in caplog.text
        monkeypatch.undo()
        assert client.post("/v1/predict", json={"text": "x"}).status_code == 200


def test_limits_are_those_of_the_settings(models: dict[str, ServedModel]) -> None:
    with client_of({"none": models["none"]}, max_rows=2, max_text_length=5, max_body_mb=0.001) as client:
        for body, status in (
            ({"rows": [{"text": "12345"}] * 2}, 200),
            ({"rows": [{"text": "x"}] * 3}, 422),
            ({"text": "123456"}, 422),
            ({"text": "x" * 1200}, 413),
        ):
            assert client.post("/v1/predict", json=body).status_code == status, body

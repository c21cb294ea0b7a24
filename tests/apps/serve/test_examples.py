"""The examples of the description: whatever is served, each of them is answered."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
from every_task import LABELS
from fastapi.testclient import TestClient
from live_service import client_of
from trained_runs import TrainedRuns
from transformers import AutoTokenizer

from attribune.apps.serve import ServedModel, load_models
from attribune.data.texts import TextInput
from attribune.methods import Injector
from attribune.models.generator import AttributeGenerator
from attribune.models.model import AttributeModel
from attribune.schema import Categorical, MultiLabel, Number, Numeric, Schema
from attribune.tasks import TASKS, fit_task

TEXTS: dict[str, TextInput] = {
    "preference": TextInput.of("one", pair="two", prompt="ask"),
    "similarity": TextInput.of("query", pair="document"),
    "spans": TextInput.of("question", pair="context"),
}
ATTRIBUTES = {
    "user": ["u1", "u2", "u2"],
    "shop": ["s1", "s2", "s3"],
    "tags": [["war", "drama"], ["drama"], []],
    "price": [3.0, 4.5, 10.0],
    "age": [30, 40, 50],
}
KINDS = [
    Categorical("user", unseen="error"),
    Categorical("shop", unseen="hash", buckets=8),
    MultiLabel("tags", separator=";"),
    Numeric("price", bins=2),
    Number("age"),
]


def save_model(kind: str, folder: Path, backbones: dict[bool, Path]) -> str:
    """Save an untrained model of a task, with all kinds of attributes."""
    columns, options = LABELS[kind]
    backbone = str(backbones[kind == "generation"])
    tokenizer = AutoTokenizer.from_pretrained(backbone)
    made: Any = AttributeGenerator if kind == "generation" else AttributeModel
    model = made.build(
        backbone,
        Schema.fit(ATTRIBUTES, KINDS),
        task=fit_task(kind, columns, **options),
        method=Injector(bottleneck=4, vector_size=4),
        tokenizer=tokenizer,
        text_input=TEXTS.get(kind, TextInput.of("text")),
    )
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return str(folder)


@pytest.fixture(scope="module")
def every_task(trained_runs: TrainedRuns, tmp_path_factory: pytest.TempPathFactory) -> dict[str, ServedModel]:
    """A model of every task."""
    root = tmp_path_factory.mktemp("tasks")
    backbones = {False: trained_runs.backbone(), True: trained_runs.backbone("llama", is_generative=True)}
    return load_models([save_model(kind, root / kind, backbones) for kind in TASKS])


def examples(client: TestClient) -> dict[str, dict[str, Any]]:
    """The bodies of each path, by type."""
    found = {}
    for path, request in client.get("/openapi.json").json()["paths"].items():
        body = request.get("post", {}).get("requestBody", {}).get("content", {}).get("application/json", {})
        found[path] = {name: one["value"] for name, one in body.get("examples", {}).items()}
    return found


@pytest.mark.slow
def test_the_example_of_every_task_is_answered(every_task: dict[str, ServedModel]) -> None:
    assert set(LABELS) == set(TASKS) == set(every_task)
    with client_of(every_task) as client:
        found = examples(client)
        assert set(found["/v1/predict"]) == set(TASKS)
        for kind, body in found["/v1/predict"].items():
            age = body["attributes"]["age"]
            assert body["attributes"] == {"user": "u2", "tags": ["drama"], "price": 4.5, "age": age}
            answer = client.post("/v1/predict", json=body)
            assert answer.status_code == 200, (kind, answer.text)
            assert answer.json()["predictions"][0]["unknown"] == {}
        for path in ("/v1/completions", "/v1/chat/completions"):
            assert set(found[path]) == {"generation"}
            assert client.post(path, json=found[path]["generation"]).status_code == 200
        assert found["/v1/enrol"] == {}
    with client_of({"rating": every_task["rating"]}) as client:
        (body,) = examples(client)["/v1/predict"].values()
        assert "model" not in body
        assert client.post("/v1/predict", json=body).status_code == 200


@pytest.mark.slow
def test_examples_know_what_was_learned_and_forgotten(runs: Path, tmp_path: Path) -> None:
    run = shutil.copytree(runs / "injector", tmp_path / "injector")
    with client_of(load_models([str(run)], enrol=True), enrol=True) as client:
        found = examples(client)
        (body,) = found["/v1/enrol"].values()
        answer = client.post("/v1/enrol", json=body)
        assert answer.status_code == 200, answer.text
        assert examples(client)["/v1/enrol"] == {}, "the value is known now"
        user = found["/v1/predict"]["injector"]["attributes"]["user"]
        assert client.delete(f"/v1/values/user/{user}").status_code == 200
        assert f'"{user}"' not in client.get("/openapi.json").text
        body = examples(client)["/v1/predict"]["injector"]
        assert body["attributes"]["user"] != user
        assert client.post("/v1/predict", json=body).status_code == 200

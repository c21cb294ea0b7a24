"""The description of a service and its page: whatever is served, each example is answered."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import browser
import pytest
from every_task import LABELS
from fastapi.testclient import TestClient
from live_service import PATIENCE, client_of, listening
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


# The page


@pytest.mark.slow
def test_the_page_reads_the_description_below_the_proxy_s_path(client: TestClient) -> None:
    page = client.get("/docs").text
    assert 'url: "/openapi.json"' in page
    assert 'src="/static-offline-docs/swagger-ui-bundle.js"' in page
    assert client.get("/static-offline-docs/swagger-ui-bundle.js").status_code == 200
    below = TestClient(client.app, root_path="/models").get("/docs").text
    assert 'url: "/models/openapi.json"' in below
    assert 'src="/models/static-offline-docs/swagger-ui-bundle.js"' in below


@pytest.mark.slow
def test_paths_have_sentences_and_groups(client: TestClient) -> None:
    document = client.get("/openapi.json").json()
    described = [(path, one) for path, methods in document["paths"].items() for one in methods.values()]
    summaries = {path: one["summary"] for path, one in described}
    assert summaries["/v1/predict"] == "Predict one text with its attributes, or many rows"
    assert all(len(summary.split()) > 3 for summary in summaries.values())
    assert {tag for _, one in described for tag in one["tags"]} == {tag["name"] for tag in document["tags"]}


@pytest.mark.slow
@pytest.mark.exhaustive
@browser.needs_browser
@pytest.mark.parametrize("size", browser.SIZES)
@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_in_a_browser(size: str, dark: bool, models: dict[str, ServedModel], tmp_path: Path) -> None:
    from selenium.webdriver.common.by import By
    from selenium.webdriver.support.ui import WebDriverWait

    with listening(models) as (host, port), browser.open_browser(tmp_path, size=size, dark=dark) as driver:
        driver.get(f"http://{host}:{port}/docs")
        opened = WebDriverWait(driver, PATIENCE).until(
            lambda d: d.find_element(By.CSS_SELECTOR, ".opblock-post button")
        )
        opened.click()
        WebDriverWait(driver, PATIENCE).until(lambda d: d.find_element(By.CSS_SELECTOR, ".examples-select select"))
        assert browser.serious_findings(driver) == []
        assert driver.execute_script("return document.documentElement.scrollWidth") <= browser.SIZES[size][0]
        assert ("dark-mode" in driver.execute_script("return document.documentElement.className")) == dark

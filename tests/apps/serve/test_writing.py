"""Texts over HTTP, in the form of OpenAI's interface: whole and streamed, by attributes, with errors in its form."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import httpx
import pytest
import torch
from fastapi.testclient import TestClient
from live_service import PATIENCE, client_of, running
from trained_runs import TrainedRuns
from transformers import AutoTokenizer

from attribune.apps.serve import ServedModel, load_models, writing
from attribune.apps.serve.batching import Batcher
from attribune.apps.serve.settings import Keys
from attribune.data.texts import TextInput
from attribune.methods import Injector
from attribune.models.generator import AttributeGenerator
from attribune.models.writer import Decoding, TextStream, Writer
from attribune.schema import Categorical, MultiLabel, Schema
from attribune.schema.schema import Revision

pytestmark = pytest.mark.slow

TABLE = {"user": ["u0", "u1", "u1"], "tags": [["war"], ["drama", "war"], []], "ask": ["n1"] * 3, "text": ["a film"] * 3}
CHAT = "{% for m in messages %}{{ m.role }} {{ m.content }} {% endfor %}"
LONG = {"model": "plain", "prompt": "a", "max_tokens": 25, "logit_bias": {}, "temperature": 0, "stop": "never"}
ASKED = {"prompt": "the film", "attributes": {"user": "u1"}, "max_tokens": 6, "temperature": 0}


def save_model(folder: Path, backbone: Path, *, chat: bool) -> str:
    """Save a model whose attributes matter, untrained; returns its folder."""
    tokenizer = AutoTokenizer.from_pretrained(backbone)
    tokenizer.chat_template = CHAT if chat else None
    schema = Schema.fit(TABLE, [Categorical("user"), MultiLabel("tags")])
    text = TextInput.of("text", prompt="ask", chat=True) if chat else TextInput.of("text")
    model = AttributeGenerator.build(
        str(backbone), schema, method=Injector(bottleneck=8, vector_size=8), tokenizer=tokenizer, text_input=text
    )
    generator = torch.Generator().manual_seed(2)
    for parameter in model.method.parameters():
        parameter.data.normal_(std=0.5, generator=generator)
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return str(folder)


@pytest.fixture(scope="module")
def backbone(trained_runs: TrainedRuns) -> Path:
    return trained_runs.backbone("llama", is_generative=True)


@pytest.fixture(scope="module")
def writers(backbone: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, ServedModel]:
    """A model that writes on, and one that answers a conversation."""
    root = tmp_path_factory.mktemp("written")
    return load_models([save_model(root / name, backbone, chat=name == "chat") for name in ("plain", "chat")])


@pytest.fixture(scope="module")
def client(writers: dict[str, ServedModel]) -> Iterator[TestClient]:
    with client_of({"plain": writers["plain"]}) as client:
        yield client


@pytest.fixture(scope="module")
def chat(writers: dict[str, ServedModel]) -> Iterator[TestClient]:
    with client_of(writers) as client:
        yield client


@pytest.fixture
def endless(writers: dict[str, ServedModel], monkeypatch: pytest.MonkeyPatch) -> ServedModel:
    """The model that writes on, which never ends a text by itself."""
    monkeypatch.setattr(writers["plain"].predictor.model.generation_config, "eos_token_id", 10**6)
    return writers["plain"]


def complete(client: TestClient, **more: Any) -> dict[str, Any]:
    answer = client.post("/v1/completions", json={**ASKED, **more})
    assert answer.status_code == 200, answer.text
    return dict(answer.json())


def texts(answer: dict[str, Any]) -> list[str]:
    return [choice["text"] for choice in answer["choices"]]


def events(client: TestClient, path: str = "/v1/completions", **body: Any) -> list[dict[str, Any]]:
    """The events of a stream, but for its end."""
    answer = client.post(path, json={**body, "stream": True})
    assert answer.status_code == 200, answer.text
    assert answer.headers["content-type"].startswith("text/event-stream")
    *parts, last, rest = answer.text.split("\n\n")
    assert (last, rest) == ("data: [DONE]", "")
    return [json.loads(part.removeprefix("data: ")) for part in parts]


def test_a_text_is_that_of_the_writer(client: TestClient, writers: dict[str, ServedModel]) -> None:
    model = writers["plain"].predictor.model
    for user in ("u0", "u1"):
        expected, _ = Writer(model).write(["the film"], {"user": [user]}, Decoding(max_new_tokens=6))
        answer = complete(client, attributes={"user": user})
        assert [text.strip() for text in texts(answer)] == expected[0]
        assert (answer["object"], answer["model"], answer["unknown"]) == ("text_completion", "plain", {})
        written = answer["usage"]["completion_tokens"]
        assert answer["choices"][0]["finish_reason"] == ("length" if written == 6 else "stop")
        assert answer["usage"] == {"prompt_tokens": 3, "completion_tokens": written, "total_tokens": 3 + written}
    assert texts(complete(client, attributes={"user": "u0"})) != texts(complete(client, attributes={"user": "u1"}))
    new = complete(client, attributes={"user": "u9", "tags": ["war", "mime"]})
    assert new["unknown"] == {"user": ["u9"], "tags": ["mime"]}
    assert texts(new) == texts(complete(client, attributes={"tags": ["war"]}))


def test_draws_follow_the_seed(client: TestClient) -> None:
    drawn = {"temperature": 1.5, "n": 3, "prompt": ["a", "the film"], "top_p": 0.95}
    one, same, other = (texts(complete(client, seed=seed, **drawn)) for seed in (5, 5, 6))
    assert one == same != other
    assert len(one) == 6
    assert len(set(one)) > 2
    unseeded = [tuple(texts(complete(client, **drawn))) for _ in range(3)]
    assert len(set(unseeded)) > 1


def test_a_stream_has_the_same_text(client: TestClient, chat: TestClient) -> None:
    drawn = {**ASKED, "temperature": 1.2, "seed": 3, "n": 2, "stream_options": {"include_usage": True}}
    whole = complete(client, **{key: value for key, value in drawn.items() if key != "stream_options"})
    *parts, last = events(client, **drawn)
    found = ["", ""]
    for part in parts:
        (choice,) = part["choices"]
        found[choice["index"]] += choice["text"]
    assert found == texts(whole)
    ends = [part["choices"][0]["finish_reason"] for part in parts][-2:]
    assert ends == [choice["finish_reason"] for choice in whole["choices"]]
    assert (last["choices"], last["usage"]) == ([], whole["usage"])
    assert len({part["id"] for part in parts}) == 1

    messages = [{"role": "system", "content": "a"}, {"role": "user", "content": [{"type": "text", "text": "the film"}]}]
    body = {"model": "chat", "messages": messages, "temperature": 0, "max_completion_tokens": 5}
    answer = chat.post("/v1/chat/completions", json=body).json()
    message = answer["choices"][0]["message"]
    assert (answer["object"], message["role"]) == ("chat.completion", "assistant")
    first, *parts = events(chat, "/v1/chat/completions", **body)
    assert first["choices"][0]["delta"] == {"role": "assistant", "content": ""}
    assert "".join(part["choices"][0]["delta"].get("content", "") for part in parts) == message["content"] != ""
    assert {part["object"] for part in parts} == {"chat.completion.chunk"}


def test_a_stop_text_ends_it_and_is_never_sent(client: TestClient) -> None:
    asked = [{"temperature": 1.5, "seed": seed, "max_tokens": 12} for seed in range(30)]
    found = ((body, texts(complete(client, **body))[0]) for body in asked)
    body, whole = next((body, text) for body, text in found if len(set(text.split()[:4])) == 4)
    word = whole.split()[2]
    before = whole[: whole.index(word)]
    answer = complete(client, **body, stop=[word, "never"])
    assert texts(answer) == [before]
    assert answer["choices"][0]["finish_reason"] == "stop"
    assert answer["usage"]["completion_tokens"] < 12
    parts = events(client, **{**ASKED, **body, "stop": word})
    assert "".join(part["choices"][0]["text"] for part in parts) == before


def test_parts_of_stop_texts_and_of_characters_are_held_back() -> None:
    class Letters:
        """Ids that are bytes."""

        def decode(self, ids: list[int], *, skip_special_tokens: bool) -> str:
            assert skip_special_tokens
            return bytes(ids).decode("utf-8", "replace")

    passed = list[tuple[int, str]]()
    stream = TextStream(
        Letters(), count=2, ends=[0], stop=["STOP"], on_text=lambda number, text: passed.append((number, text))
    )
    one, other = "aéSTx".encode(), b"bSTOPzz"
    for index in range(7):
        ids = torch.tensor([[one[index] if index < len(one) else 0], [other[index]]])
        done = stream(ids, None)
    assert done.tolist() == [True, True]
    assert [text for number, text in passed if number == 0] == ["a", "é", "STx"]
    assert [text for number, text in passed if number == 1] == ["b"]
    first, second = stream.finish()
    assert (first.text, first.tokens, first.is_whole) == ("aéSTx", 7, True)
    assert (second.text, second.tokens, second.is_whole) == ("b", 5, True)


WRONG: list[tuple[dict[str, Any], int, str, str]] = [
    ({"attributes": {"usr": "u1"}}, 400, "attributes.usr", "It has user, tags"),
    ({"user": "u1"}, 400, "user", "did you mean attributes.user"),
    ({"max_tokens": 2000}, 400, "max_tokens", "at most 1,024 are written"),
    ({"prompt": "film " * 600}, 400, "body", "does not fit into the window"),
    ({"prompt": [1, 2]}, 400, "prompt", ""),
    ({"prompt": "\ud800"}, 400, "prompt", "surrogate"),
    ({"prompt": []}, 400, "prompt", "the list is empty"),
    ({"n": 2}, 400, "n", "at temperature 0 these would be 2 equal texts"),
    ({"n": 400, "temperature": 1}, 400, "n", "at most 256 in a request"),
    ({"temperature": -1}, 400, "temperature", ""),
    ({"stop": ["a", ""]}, 400, "stop", "none of them empty"),
    ({"logprobs": 3}, 400, "logprobs", "this service does not have it"),
    ({"model": "none"}, 404, "model", "name one of plain"),
]


@pytest.mark.parametrize(("more", "status", "field", "reason"), WRONG, ids=lambda value: str(value)[:30])
@pytest.mark.parametrize("streams", [False, True])
def test_errors_are_in_the_form_that_clients_read(
    more: dict[str, Any], status: int, field: str, reason: str, streams: bool, client: TestClient
) -> None:
    content, headers = json.dumps({**ASKED, **more, "stream": streams}), {"content-type": "application/json"}
    answer = client.post("/v1/completions", content=content, headers=headers)
    error = answer.json()["error"]
    assert (answer.status_code, error["type"], error["param"]) == (status, "invalid_request_error", field), error
    assert reason in error["message"]


def test_what_changes_nothing_is_taken(client: TestClient, models: dict[str, ServedModel]) -> None:
    assert texts(complete(client, presence_penalty=0, logprobs=None, best_of=1)) == texts(complete(client))
    answer = client.post("/v1/chat/completions", json={"messages": [{"role": "system", "content": "a"}]})
    assert "trained without a chat template" in answer.json()["error"]["message"]
    prompt = {"messages": [{"role": "user", "content": "the film"}], "temperature": 0, "max_tokens": 6}
    asked = client.post("/v1/chat/completions", json={**prompt, "attributes": {"user": "u1"}}).json()
    assert asked["choices"][0]["message"]["content"] == texts(complete(client))[0]
    # What clients send beside: who asks, what is their default, null for what is not set.
    notes = {"user": "end-user-7", "safety_identifier": "x", "metadata": {"a": "b"}, "service_tier": "auto"}
    nulls = dict.fromkeys(["top_p", "n", "stop", "seed", "stream", "stream_options", "max_completion_tokens"])
    with_notes = client.post("/v1/chat/completions", json={**prompt, **nulls, **notes, "user": None})
    assert with_notes.status_code == 200, with_notes.text
    assert texts(complete(client, metadata={"a": "b"}, seed=None)) == texts(complete(client))
    refused = client.post("/v1/completions", json={**ASKED, **notes}).json()["error"]
    assert refused["param"] == "user"  # which is an attribute here
    listed = client.get("/v1/models").json()
    assert (listed["object"], [one["id"] for one in listed["data"]]) == ("list", ["plain"])
    assert client.get("/v1/models/plain").json() == listed["data"][0]
    assert client.get("/v1/models/other").status_code == 404
    assert client.get("/v1/completions").json()["error"]["param"] == "path"
    with client_of(models, keys=Keys(callers=("0123456789abcdef",))) as other:
        assert other.post("/v1/completions", json=ASKED).json()["error"]["code"] == "invalid_api_key"
        key = {"authorization": "Bearer 0123456789abcdef"}
        answer = other.post("/v1/completions", json=ASKED, headers=key)
        assert (answer.status_code, answer.json()["error"]["code"]) == (404, "model_not_found")


def test_the_perplexity_of_a_text_is_predicted(client: TestClient) -> None:
    answer = client.post("/v1/predict", json={"text": "a great film", "attributes": {"user": "u1"}}).json()
    output = answer["predictions"][0]["output"]
    assert (output["tokens"], output["perplexity"] > 1) == (4, True)


def test_others_are_answered_between_two_tokens(
    endless: ServedModel, models: dict[str, ServedModel], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The third token waits for a request for a prediction, and the fifth for its answer."""
    steps, begun, queued, answered = list[int](), threading.Event(), threading.Event(), threading.Event()
    forward, submit = AttributeGenerator._run, Batcher.submit

    def wait(self: AttributeGenerator, *args: Any, **kwargs: Any) -> Any:
        steps.append(len(steps))
        begun.set()
        assert len(steps) != 3 or queued.wait(PATIENCE)
        assert len(steps) != 5 or answered.wait(PATIENCE)
        return forward(self, *args, **kwargs)

    def noted(self: Batcher, *given: Any) -> Any:
        future = submit(self, *given)
        queued.set()
        return future

    monkeypatch.setattr(AttributeGenerator, "_run", wait)
    monkeypatch.setattr(Batcher, "submit", noted)
    with client_of({"plain": endless, "none": models["none"]}) as client, ThreadPoolExecutor(1) as pool:
        asked = pool.submit(client.post, "/v1/completions", json=LONG)
        assert begun.wait(PATIENCE)
        answer = client.post("/v1/predict", json={"model": "none", "text": "a great film"})
        assert answer.status_code == 200, answer.text
        answered.set()
        asked.result()
        page = client.get("/metrics").text
    assert len(steps) == 25
    assert 'attribune_tokens_total{kind="completion",model="plain"} 25.0' in page


def test_who_leaves_ends_what_is_written(endless: ServedModel, monkeypatch: pytest.MonkeyPatch) -> None:
    """The fifth token waits until the service knows that the caller has left; who asks then has an answer."""
    steps, left, forward, abandon = list[int](), threading.Event(), AttributeGenerator._run, writing._Job.abandon

    def wait(self: AttributeGenerator, *args: Any, **kwargs: Any) -> Any:
        steps.append(len(steps))
        assert len(steps) != 5 or left.wait(PATIENCE)
        return forward(self, *args, **kwargs)

    def noted(job: Any) -> None:
        abandon(job)
        left.set()

    monkeypatch.setattr(AttributeGenerator, "_run", wait)
    monkeypatch.setattr(writing._Job, "abandon", noted)
    with running({"plain": endless}) as service, httpx.Client(base_url=service.url, timeout=PATIENCE) as client:
        with client.stream("POST", "/v1/completions", json={**LONG, "stream": True}) as stream:
            next(stream.iter_lines())
        assert client.post("/v1/completions", json={**LONG, "max_tokens": 1}).status_code == 200
    assert len(steps) <= 5 + 1


def forget(model: AttributeGenerator, user: str) -> None:
    """Take a value from a model in memory, as a service does."""
    known = model.values.known()
    model.values.use(known.revised(Revision.removing(known.schema, {"user": (user,)})))


def test_values_are_those_that_the_model_knows_now(
    backbone: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """When a value is forgotten the ids of others move up, for texts to come and for one that is being written."""
    models = load_models([save_model(tmp_path / "plain", backbone, chat=False)])
    model = models["plain"].predictor.model
    known, steps = model.values.known(), list[int]()
    first, second = known.schema["user"].values

    def forgets(_: Batcher) -> None:
        steps.append(len(steps))
        if len(steps) == 2:
            forget(model, first)

    with client_of(models) as client:
        before = {user: texts(complete(client, attributes={"user": user})) for user in (first, second)}
        assert before[first] != before[second]
        forget(model, first)
        assert texts(complete(client, attributes={"user": second})) == before[second]
        assert complete(client, attributes={"user": first})["unknown"] == {"user": [first]}
        model.values.use(known)
        monkeypatch.setattr(Batcher, "give_way", forgets)
        answer = client.post("/v1/completions", json={**ASKED, "attributes": {"user": second}})
        assert (answer.status_code, len(steps)) == (503, 2), answer.text
        assert "a value was forgotten while the text was written" in answer.json()["error"]["message"]
        assert texts(complete(client, attributes={"user": second})) == before[second]


def test_a_stream_that_takes_too_long_says_so(endless: ServedModel, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its time is over when its first part has come."""
    times = iter([0.0])
    clock = SimpleNamespace(monotonic=lambda: next(times, PATIENCE + 1), time=lambda: 0.0)
    monkeypatch.setattr(writing, "time", clock)
    with client_of({"plain": endless}) as client:
        answer = client.post("/v1/completions", json={**ASKED, "max_tokens": 20, "stream": True})
    *_, last = answer.text.strip().split("\n\n")
    assert json.loads(last.removeprefix("data: "))["error"]["type"] == "server_error"

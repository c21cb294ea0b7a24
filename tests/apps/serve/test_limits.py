"""Overload, time, keys, and the end of a service."""

from __future__ import annotations

import asyncio
import json
import socket
import threading
from collections.abc import Awaitable, Callable
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import pytest
from live_service import PATIENCE, Clock, Gated, client_of, service_of, until

from attribune.apps.serve import ServedModel, ServeSettings, create_app, load_models
from attribune.apps.serve.batching import Batcher, Overloaded, Stopping
from attribune.apps.serve.settings import KEYS, VALUE_KEYS, Keys
from attribune.errors import ConfigError, DataError
from attribune.models.shared_pass import SharedPass

KEY = "0123456789abcdef"


def ask(batcher: Batcher, model: Gated, *texts: int) -> Future[Any]:
    return batcher.submit(model, {"text": [*texts]})


def waiting_for_first(batcher: Batcher, gated: Gated) -> Future[Any]:
    """Occupy the model."""
    first = ask(batcher, gated, 0)
    until(lambda: bool(gated.asked))
    return first


def test_requests_gather_while_the_model_works() -> None:
    gated, batcher = Gated(), Batcher(max_queue_size=100, max_batch_size=5)
    futures = [waiting_for_first(batcher, gated)]
    futures += [ask(batcher, gated, *[n] * n) for n in (2, 3, 1, 7, 2)]
    assert batcher.waiting == 15
    gated.open.set()
    batcher.close()
    assert gated.asked == [[0], [2, 2, 3, 3, 3], [1, 2, 2], [7] * 7]
    assert [future.result() for future in futures] == [[0], [2, 2], [3, 3, 3], [1], [7] * 7, [2, 2]]


class Watched(threading.Condition):
    """Counts how often a thread went to wait."""

    waits = 0

    def wait(self, timeout: float | None = None) -> bool:
        self.waits += 1
        return super().wait(timeout)


def test_after_several_the_next_batch_waits_for_as_many_and_after_one_it_does_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The time itself is not measured: patience without end, or none, shows who waits."""
    monkeypatch.setattr("attribune.apps.serve.batching._PATIENCE", 1e8)
    gated, batcher = Gated(), Batcher(max_queue_size=100)
    batcher._changed = changed = Watched()
    futures = [waiting_for_first(batcher, gated), ask(batcher, gated, 1), ask(batcher, gated, 2)]
    assert changed.waits == 0
    gated.open.set()
    assert [future.result(PATIENCE) for future in futures] == [[0], [1], [2]], "one alone is not followed by waiting"
    until(lambda: changed.waits == 1)
    third = ask(batcher, gated, 3)
    until(lambda: changed.waits == 2 or third.done())
    assert not third.done(), "it was looked at, and more are waited for"
    fourth = ask(batcher, gated, 4)
    assert (third.result(PATIENCE), fourth.result(PATIENCE)) == ([3], [4])
    assert gated.asked == [[0], [1, 2], [3, 4]]
    last = ask(batcher, gated, 5)
    batcher.close()
    assert last.result(PATIENCE) == [5], "closing waits for nobody"


def test_a_mistake_of_ours_stops_the_service_and_nobody_waits_for_ever() -> None:
    def wrong(_: int) -> None:
        raise RuntimeError("the figures cannot be kept")

    gated, batcher = Gated(), Batcher(max_queue_size=100, observe=wrong)
    gated.open.set()
    asked = ask(batcher, gated, 0)
    until(lambda: not batcher.alive)
    with pytest.raises(Stopping):
        ask(batcher, gated, 1)
    batcher.close()
    assert isinstance(asked.exception(PATIENCE), RuntimeError)


def test_long_work_lets_others_through_and_what_fails_says_so() -> None:
    batcher = Batcher(max_queue_size=10)
    begun, seen = threading.Event(), list[str]()

    def long() -> list[str]:
        begun.set()
        until(lambda: bool(batcher._jobs))
        batcher.give_way()
        return [*seen]

    first = batcher.call(long, rows=1)
    assert begun.wait(PATIENCE)
    short, broken = batcher.call(lambda: seen.append("short")), batcher.call(lambda: 1 // 0)
    assert (first.result(), short.result()) == (["short"], None)
    assert isinstance(broken.exception(), ZeroDivisionError)
    batcher.close()


def test_models_take_turns() -> None:
    one, other, batcher = Gated(), Gated(), Batcher(max_queue_size=100)
    other.open.set()
    futures = [waiting_for_first(batcher, one)]
    futures += [ask(batcher, model, n) for n, model in enumerate((other, one, other), 1)]
    one.open.set()
    batcher.close()
    assert (one.asked, other.asked) == ([[0], [2]], [[1, 3]])
    assert [future.result() for future in futures] == [[0], [1], [2], [3]]


def test_models_of_one_backbone_are_answered_in_one_batch(
    models: dict[str, ServedModel], monkeypatch: pytest.MonkeyPatch
) -> None:
    """And a request that cannot be answered fails alone."""
    columns = {"text": ["a great film", "dull cast"], "user": ["u1", None], "tags": [None] * 2, "price": [3, None]}
    expected = {name: models[name].answer(columns) for name in ("injector", "pln", "linear")}
    passes, logits = list[list[int]](), SharedPass.logits

    def counted(self: SharedPass, batches: Any) -> Any:
        passes.append([len(batch["input_ids"]) for batch in batches.values()])
        return logits(self, batches)

    monkeypatch.setattr(SharedPass, "logits", counted)
    for wrong in (None, {**columns, "price": ["dear", 3]}):
        gated = Gated()
        batcher = Batcher(max_queue_size=100)
        first = waiting_for_first(batcher, gated)
        futures = [(name, batcher.submit(models[name], columns)) for name in ("pln", "linear", "injector", "pln")]
        refused = wrong and batcher.submit(models["injector"], wrong)
        gated.open.set()
        batcher.close()
        assert first.result() == [0]
        if refused:
            with pytest.raises(DataError, match="'dear'"):
                refused.result()
        for name, future in futures:
            for answer, alone in zip(future.result(), expected[name], strict=True):
                assert answer._replace(output={}) == alone._replace(output={})
                assert answer.output == {
                    key: pytest.approx(value, abs=1e-6) if isinstance(value, float) else value
                    for key, value in alone.output.items()
                }
    assert passes == [[2, 4]], "the second time, one request is wrong, and each is answered alone"


def test_the_queue_does_not_grow() -> None:
    gated, batcher = Gated(), Batcher(max_queue_size=4)
    futures = [waiting_for_first(batcher, gated), *(ask(batcher, gated, n) for n in range(4))]
    with pytest.raises(Overloaded):
        ask(batcher, gated, 9)
    gated.open.set()
    assert [len(future.result(PATIENCE)) for future in futures] == [1] * 5
    assert ask(batcher, gated, *[1] * 50).result(PATIENCE), "a large one is taken when nothing waits"
    batcher.close()
    with pytest.raises(Stopping):
        ask(batcher, gated, 1)


def test_who_has_left_is_not_scored() -> None:
    gated, batcher = Gated(), Batcher(max_queue_size=9)
    first, left, stays = waiting_for_first(batcher, gated), ask(batcher, gated, 1), ask(batcher, gated, 2)
    assert left.cancel()
    gated.open.set()
    batcher.close()
    assert (first.result(), stays.result(), gated.asked) == ([0], [2], [[0], [2]])


def refusal(answer: httpx.Response) -> tuple[int, str]:
    """The status and the first reason."""
    return answer.status_code, answer.json()["errors"][0]["reason"]


@pytest.mark.slow
def test_overload_is_answered_at_once(models: dict[str, ServedModel], slow: Gated) -> None:
    with client_of({"none": models["none"]}, max_queue_size=3) as client, ThreadPoolExecutor(12) as pool:

        def ask(_: int) -> int:
            return client.post("/v1/predict", json={"text": "x"}).status_code

        first = pool.submit(ask, 0)
        until(lambda: bool(slow.asked))
        others = [pool.submit(ask, number) for number in range(11)]
        until(lambda: sum(other.done() for other in others) == 8)
        answer = client.post("/v1/predict", json={"text": "x"})
        slow.open.set()
        statuses = [future.result() for future in (first, *others)]
    assert refusal(answer) == (429, "more than 3 texts wait already: try again later")
    assert answer.headers["retry-after"] == "1"
    assert sorted(statuses) == [200] * 4 + [429] * 8


@pytest.mark.slow
def test_no_answer_in_time(models: dict[str, ServedModel], slow: Gated) -> None:
    with client_of({"none": models["none"]}, timeout=5) as client, ThreadPoolExecutor(1) as pool:
        clock = Clock.of(client)
        asked = pool.submit(client.post, "/v1/predict", json={"text": "x"})
        until(lambda: bool(slow.asked))
        clock.pass_time(5.1)
        answer = asked.result(PATIENCE)
        slow.open.set()
        clock.run()
        assert (answer.status_code, answer.headers["retry-after"]) == (503, "1")
        assert "no answer within 5 seconds" in refusal(answer)[1]


@pytest.mark.slow
def test_a_service_that_stops(models: dict[str, ServedModel]) -> None:
    with client_of({"none": models["none"]}) as client:
        assert client.get("/health").json() == {"status": "ok"}
        client.portal.call(asyncio.to_thread, service_of(client.app).batcher.close)
        assert (client.get("/health").status_code, client.get("/health").json()) == (503, {"status": "stopping"})
        answer = client.post("/v1/predict", json={"text": "x"})
    assert refusal(answer) == (503, "the service is stopping: try again later")


# Keys


@pytest.mark.slow
@pytest.mark.parametrize(
    ("keys", "status"),
    [
        ([None, "", KEY, f"Basic {KEY}", f"Bearer {KEY[:-1]}", f"Bearer {KEY}x", b"Bearer \xff\xfe"], 401),
        ([f"Bearer {KEY}", f"bearer {KEY}", f"Bearer {KEY[::-1]}"], 200),
    ],
    ids=["wrong", "right"],
)
def test_keys(keys: list[Any], status: int, models: dict[str, ServedModel]) -> None:
    with client_of({"none": models["none"]}, keys=Keys(callers=(KEY, KEY[::-1]))) as client:
        for key in keys:
            header = {} if key is None else {"authorization": key}
            predicted = client.post("/v1/predict", json={"text": "x"}, headers=header)
            others = [client.get(path, headers=header) for path in ("/v1/models", "/metrics", "/openapi.json")]
            assert {answer.status_code for answer in (predicted, *others)} == {status}, key
            assert client.get("/health").status_code == 200
            if status == 401:
                assert (predicted.headers["www-authenticate"], KEY in predicted.text) == ("Bearer", False)


@pytest.mark.parametrize("host", ["127.0.0.1", "127.1.2.3", "::1", "localhost"])
def test_this_machine_needs_no_key(host: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(KEYS, raising=False)
    assert Keys.of_environment(host, enrol=False).callers == ()


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.1", "example.org", ""])
@pytest.mark.parametrize("keys", [None, "", " , "])
def test_other_machines_need_a_key(host: str, keys: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(KEYS, raising=False)
    if keys is not None:
        monkeypatch.setenv(KEYS, keys)
    with pytest.raises(ConfigError, match=f"can be reached from other machines: set {KEYS}"):
        Keys.of_environment(host, enrol=False)
    monkeypatch.setenv(KEYS, f"{KEY}, {KEY[::-1]}")
    assert Keys.of_environment(host, enrol=False).callers == (KEY, KEY[::-1])


@pytest.mark.parametrize(
    ("callers", "own", "enrol", "reason"),
    [
        (f"{KEY},short", "", False, "key 2 of ATTRIBUNE_SERVE_KEYS has .* use 16 or more"),
        (f"{KEY},ключключключключ", "", False, "key 2 of ATTRIBUNE_SERVE_KEYS has .* use 16 or more"),
        (KEY, "", True, f"set {VALUE_KEYS} to one or several other keys"),
        (KEY, KEY, True, "so that every caller could delete values"),
        (KEY, f"{KEY}0,{KEY}", True, "so that every caller could delete values"),
        ("", "short", True, f"key 1 of {VALUE_KEYS} has 5 characters"),
        (KEY, f"{KEY}0", True, None),
        (KEY, "", False, None),
        ("", "", True, None),
    ],
)
def test_keys_that_will_do(
    callers: str, own: str, enrol: bool, reason: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(KEYS, callers)
    monkeypatch.setenv(VALUE_KEYS, own)
    if reason is None:
        assert Keys.of_environment("127.0.0.1", enrol=enrol).values == tuple(filter(None, [own]))
    else:
        with pytest.raises(ConfigError, match=reason) as error:
            Keys.of_environment("127.0.0.1", enrol=enrol)
        assert not [key for key in (*callers.split(","), own) if key and key in str(error.value)]


# The command


@pytest.mark.slow
@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["nowhere"], "nowhere: there is no such folder"),
        (["{runs}/none/recipe.yaml"], "recipe.yaml is a file: give the folder of a run"),
        (["{runs}/injector", "{runs}/injector"], "two runs are named 'injector': give them names, as in NAME=FOLDER"),
        (["x={runs}/none", "x={runs}/pln"], "two runs are named 'x'"),
        (["={runs}/none"], "write NAME=FOLDER"),
        (["x="], "write NAME=FOLDER"),
        (["{runs}/none", "--port", "70000"], "--port 70000: give a number from 0 to 65,535"),
        (["{runs}/none", "--port", "-1"], "--port -1"),
        (["{runs}/none", "--dtype", "int3"], "--dtype int3: choose float32 or bfloat16"),
        (["{runs}/none", "--host", "0.0.0.0"], "set ATTRIBUNE_SERVE_KEYS"),
        (["{runs}/none", "--host", "203.0.113.9"], "set ATTRIBUNE_SERVE_KEYS"),
        (["{runs}/none", "--max-rows", "0"], "max_rows: Input should be greater than or equal to 1, it is 0"),
        (["{runs}/none", "--timeout", "nan"], "timeout: Input should be"),
        (["{runs}/none", "--max-body-mb", "inf"], "max_body_mb: Input should be a finite number"),
        (["{runs}/none", "--backbone", "{runs}"], "the backbone"),
        (["{runs}/none", "--port", "{taken}"], "the service cannot listen on"),
    ],
)
def test_the_command_refuses(
    words: list[str], message: str, runs: Path, fails: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(KEYS, raising=False)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        given = [word.format(runs=runs, taken=taken.getsockname()[1]) for word in words]
        assert message in fails("serve", *given)


# Bodies


def asking(app: Any, receive: Callable[[], Awaitable[Any]], *headers: tuple[bytes, bytes]) -> list[Any]:
    """What is sent to a caller whose body comes as it wants."""
    sent: list[Any] = []

    async def send(message: Any) -> None:
        sent.append(message)

    scope = {"type": "http", "method": "POST", "path": "/v1/predict", "headers": [*headers], "query_string": b""}
    asyncio.run(app(scope, receive, send))
    return sent


@pytest.mark.slow
def test_slow_bodies_are_cut_off(models: dict[str, ServedModel]) -> None:
    """A caller who sends a byte now and then holds nothing for longer than the time of a request."""
    clocks = list[Clock]()

    async def receive() -> Any:
        if not clocks:
            clocks.append(Clock(asyncio.get_running_loop()))
        clocks[0].pass_time(0.06)
        await asyncio.sleep(0)
        return {"type": "http.request", "body": b"{", "more_body": True}

    start, body = asking(create_app({"none": models["none"]}, settings=ServeSettings(timeout=0.1)), receive)
    assert start["status"] == 408
    assert "did not arrive within 0.1 seconds" in json.loads(body["body"])["errors"][0]["reason"]


@pytest.mark.slow
def test_a_body_larger_than_it_says(models: dict[str, ServedModel]) -> None:
    async def receive() -> Any:
        return {"type": "http.request", "body": b"x" * 1000, "more_body": True}

    app = create_app({"none": models["none"]}, settings=ServeSettings(max_body_mb=0.01, timeout=PATIENCE))
    for declared in (None, b"17", b"99999999999999999999999999", b"-1", b"many"):
        headers = [] if declared is None else [(b"content-length", declared)]
        assert asking(app, receive, *headers)[0]["status"] == 413


@pytest.mark.slow
def test_bodies_of_many_callers_have_a_limit_together(models: dict[str, ServedModel]) -> None:
    """Each is below the limit of one body, and none is ever finished; those who leave make room."""
    app = create_app({"none": models["none"]}, settings=ServeSettings(max_body_mb=0.1, timeout=PATIENCE))
    scope = {"type": "http", "method": "POST", "path": "/v1/predict", "headers": [], "query_string": b""}
    part = b" " * (int(0.1 * 2**20) - 100)

    async def ask_all() -> list[list[int]]:
        leave, rounds = asyncio.Event(), list[list[int]]()
        for _ in range(2):
            callers = [Caller(part, leave) for _ in range(40)]
            asked = [asyncio.ensure_future(app(scope, one.receive, one.send)) for one in callers]
            for one in callers:  # each has been read before it waits, or is refused
                await asyncio.wait_for(one.seen.wait(), PATIENCE)
            rounds.append([one.status for one in callers])
            leave.set()
            await asyncio.gather(*asked)
            leave.clear()
        return rounds

    class Caller:
        def __init__(self, part: bytes, leave: asyncio.Event) -> None:
            self.parts, self.leave, self.seen, self.status = [part], leave, asyncio.Event(), 0

        async def receive(self) -> Any:
            if self.parts:
                return {"type": "http.request", "body": self.parts.pop(), "more_body": True}
            self.seen.set()
            await self.leave.wait()
            return {"type": "http.disconnect"}

        async def send(self, message: Any) -> None:
            if message["type"] == "http.response.start":
                self.status = message["status"]
            self.seen.set()

    first, second = asyncio.run(ask_all())
    assert sorted(first) == [0] * 32 + [503] * 8
    assert second == first, "nothing is held of those who left"


def test_a_service_needs_a_run() -> None:
    with pytest.raises(ConfigError, match="there is no run to serve"):
        load_models([])


@pytest.mark.slow
def test_requests_are_logged_on_demand_without_their_values(
    models: dict[str, ServedModel], capsys: pytest.CaptureFixture[str]
) -> None:
    for has_log in (False, True):
        with client_of(models, access_log=has_log) as client:
            client.get("/health")
            client.delete("/v1/values/user/u17")
        lines = [line.partition(" in ")[0] for line in capsys.readouterr().err.splitlines() if "testclient" in line]
        assert lines == (
            ["testclient GET /health 200", "testclient DELETE /v1/values/{attribute}/{value} 403"] if has_log else []
        )

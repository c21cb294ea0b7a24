"""A service under ill will: bodies, hosts, slow callers and those who leave, signals, and files that change."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
import torch
from fastapi.testclient import TestClient
from live_service import Gated, listening, until
from tally import tell
from torch import nn

from attribune.apps.serve import ServedModel, ServeSettings, create_app, load_models
from attribune.apps.serve.model_files import copy_into_memory
from attribune.apps.serve.settings import KEYS, hosts_for

pytestmark = pytest.mark.slow

ATTACKS = int(os.environ.get("ATTRIBUNE_ATTACKS", "1"))
JSON = {"content-type": "application/json"}
GOOD = {"text": "a great film", "attributes": {"user": "u1"}}

# 1. Bodies

VALUES = {
    "null": "null",
    "number": "1",
    "float": "-1.5e3",
    "bool": "true",
    "text": '"u1"',
    "half": '"\\ud800"',
    "list": "[]",
    "object": "{}",
    "deep": "[[[[]]]]",
    "row": '{"text": 1, "attributes": {"user": [{}]}}',
    "field": '{"a": 1, "b": 2}',
}
PLACES = {  # before and after a list of values
    "body": ("[", "]"),
    "rows": ('{"rows": [', "]}"),
    "text": ('{"text": [', "]}"),
    "texts": ('{"text": {"text": [', "]}}"),
    "user": ('{"text": "x", "attributes": {"user": [', "]}}"),
    "tags": ('{"text": "x", "attributes": {"tags": [', "]}}"),
    "price": ('{"text": "x", "attributes": {"price": [[', "]]}}"),
    "attributes": ('{"text": "x", "attributes": [', "]}"),
    "model": ('{"text": "x", "model": [', "]}"),
    "of a row": ('{"rows": [{"text": "x", "attributes": {"tags": [', "]}}]}"),
    "unknown": ('{"text": "x", "many": [', "]}"),
}
NAMES = {  # before and after many names with values
    "fields": ("{", "}"),
    "fields of a row": ('{"rows": [{', "}]}"),
    "texts by name": ('{"text": {', "}}"),
    "attributes by name": ('{"text": "x", "attributes": {', "}}"),
    "attributes of a row": ('{"rows": [{"text": "x", "attributes": {', "}}]}"),
}


def body_of(place: str, value: str, size: int) -> bytes:
    """A body of some bytes that repeats a value at a place."""
    before, after = {**PLACES, **NAMES}[place]
    many = size // (len(value) + (10 if place in NAMES else 1))
    items = [f'"{number}":{value}' for number in range(many)] if place in NAMES else [value] * many
    return f"{before}{','.join(items)}{after}".encode()


@pytest.fixture(scope="module")
def alone(models: dict[str, ServedModel]) -> Iterator[TestClient]:
    with TestClient(create_app({"injector": models["injector"]})) as client:
        yield client


@pytest.mark.parametrize("value", VALUES)
@pytest.mark.parametrize("place", [*PLACES, *NAMES])
def test_many_wrong_values_are_refused_at_the_first_ones(place: str, value: str, alone: TestClient) -> None:
    body = body_of(place, VALUES[value], 200_000 * ATTACKS)
    started = time.monotonic()
    answer = alone.post("/v1/predict", content=body, headers=JSON)
    assert time.monotonic() - started < 5 + ATTACKS
    assert answer.status_code in (413, 422), answer.text
    faults = answer.json()["errors"]
    assert 1 <= len(faults) <= 10
    assert len(answer.content) < 2000
    assert alone.post("/v1/predict", json=GOOD).status_code == 200
    tell("refused")


def test_as_many_values_as_there_may_be_are_answered(alone: TestClient) -> None:
    row = {**GOOD, "attributes": {"user": "u1", "price": 3, "tags": [f"t{number}" for number in range(1000)]}}
    answer = alone.post("/v1/predict", json={"rows": [row] * 256})
    assert (answer.status_code, len(answer.json()["predictions"])) == (200, 256)
    row["attributes"]["tags"] = [{}] * 1000
    answer = alone.post("/v1/predict", json={"rows": [row] * 256})
    assert (answer.status_code, len(answer.json()["errors"])) == (422, 10)


@pytest.mark.parametrize("value", ["null", "deep", "row"])
def test_health_is_answered_while_large_bodies_are_read(value: str, models: dict[str, ServedModel]) -> None:
    bodies = [body_of(place, VALUES[value], 8 * 2**20 - 1000) for place in ("rows", "tags", "body")]
    statuses, waited = [], []
    with listening({"injector": models["injector"]}) as (host, port), httpx.Client(timeout=60) as client:
        url = f"http://{host}:{port}"

        def send() -> None:
            statuses.extend(httpx.post(f"{url}/v1/predict", content=b, headers=JSON, timeout=60) for b in bodies)

        sending = threading.Thread(target=send)
        sending.start()
        while sending.is_alive():
            started = time.monotonic()
            assert client.get(f"{url}/health").status_code == 200
            waited.append(time.monotonic() - started)
            time.sleep(0.01)
    assert [answer.status_code for answer in statuses] == [422] * len(bodies)
    assert max(waited) < 5, "the reading of one body is what it waits for at most"


def test_bodies_of_many_callers_have_a_limit_together(models: dict[str, ServedModel]) -> None:
    """Each is below the limit of one body, and none is ever finished."""
    length, sent = 1 << 20, b" " * ((1 << 20) - 1000)
    with contextlib.ExitStack() as stack:
        address = stack.enter_context(listening({"none": models["none"]}, max_body_mb=1, timeout=20))
        callers = [stack.enter_context(socket.create_connection(address)) for _ in range(40)]
        answers = []
        for caller in callers:
            caller.settimeout(5)
            caller.sendall(HEAD + f"content-length: {length}\r\n\r\n".encode() + sent)
        time.sleep(0.5)
        for caller in callers:
            caller.settimeout(0.05)
            with contextlib.suppress(TimeoutError):
                answers.append(caller.recv(100).split(b" ")[1])
        assert set(answers) == {b"503"}
        assert 4 <= len(answers) <= 12
        for caller in callers:
            caller.close()
        url = f"http://{address[0]}:{address[1]}/v1/predict"
        until(lambda: httpx.post(url, json={"text": "x"}).status_code == 200)


# 2. Slow callers

HEAD = b"POST /v1/predict HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n"
ASK = b"GET /health HTTP/1.1\r\nhost: localhost\r\n\r\n"
SLOW: dict[str, tuple[bytes, bytes]] = {  # what is sent at first, and then again and again
    "nothing": (b"", b""),
    "half a line": (b"POST /v1/pre", b""),
    "half a head": (HEAD, b""),
    "a head without end": (HEAD, b"x-more: x\r\n"),
    "a line without end": (b"GET /", b"x"),
    "empty lines": (b"", b"\r\n"),
    "no body": (HEAD + b"content-length: 100\r\n\r\n", b""),
    "half a body": (HEAD + b"content-length: 100\r\n\r\n{", b""),
    "a body by bytes": (HEAD + b"content-length: 100000\r\n\r\n{", b" "),
    "chunks without end": (HEAD + b"transfer-encoding: chunked\r\n\r\n", b"1\r\n \r\n"),
    "half a chunk": (HEAD + b"transfer-encoding: chunked\r\n\r\nff\r\n", b""),
    "expects to be told": (HEAD + b"content-length: 9\r\nexpect: 100-continue\r\n\r\n", b""),
    "no second head": (ASK, b""),
    "half a second head": (ASK + b"GET /hea", b""),
    "a websocket": (b"GET / HTTP/1.1\r\nhost: localhost\r\nconnection: upgrade\r\nupgrade: websocket\r\n", b""),
    "not HTTP": (b"\x16\x03\x01\x02\x00\x01", b"\x00"),
}


CALLERS = 50  # more than may be open


@pytest.mark.parametrize("kind", SLOW)
def test_slow_callers_are_closed_and_hold_no_place(kind: str, models: dict[str, ServedModel]) -> None:
    first, again = SLOW[kind]
    with contextlib.ExitStack() as stack:
        address = stack.enter_context(listening({"none": models["none"]}, max_connections=20, timeout=1))
        callers = [stack.enter_context(socket.create_connection(address)) for _ in range(CALLERS)]
        for caller in callers:
            caller.setblocking(False)
            with contextlib.suppress(OSError):  # it may have made room already
                caller.send(first)
        url = f"http://{address[0]}:{address[1]}"
        assert httpx.get(f"{url}/health").status_code == 200
        assert httpx.post(f"{url}/v1/predict", json={"text": "x"}).status_code == 200, "they do not count"
        deadline, closed = time.monotonic() + 20, set[int]()
        while len(closed) < len(callers) and time.monotonic() < deadline:
            closed |= {number for number, caller in enumerate(callers) if number not in closed and ends(caller, again)}
            time.sleep(0.05)
        assert len(closed) == len(callers), "each is closed when the time is over"
    tell("refused", CALLERS)


def ends(caller: socket.socket, more: bytes) -> bool:
    """Send something, and say whether the connection is closed."""
    try:
        caller.send(more)
        while caller.recv(1 << 16):
            pass
    except BlockingIOError:
        return False
    except OSError:
        return True
    return True


@pytest.mark.parametrize("at_once", [20, 100_000], ids=["some", "many"])
def test_who_does_not_read_is_closed(at_once: int, models: dict[str, ServedModel]) -> None:
    def send() -> None:
        for _ in range(2_000_000 // at_once):
            caller.sendall(b"GET /openapi.json HTTP/1.1\r\nhost: localhost\r\n\r\n" * at_once)

    with listening({"none": models["none"]}, timeout=1) as address, socket.socket() as caller:
        caller.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        caller.connect(address)
        caller.settimeout(20)
        with pytest.raises(OSError, match=r"reset|[Bb]roken pipe"):
            send()
        assert httpx.get(f"http://{address[0]}:{address[1]}/health").status_code == 200


def test_more_callers_than_there_is_room_for_are_told(models: dict[str, ServedModel], slow: Gated) -> None:
    with listening({"none": models["none"]}, max_connections=3, timeout=20) as (host, port):
        url, statuses = f"http://{host}:{port}/v1/predict", list[int]()

        def ask() -> None:
            statuses.append(httpx.post(url, json={"text": "x"}, timeout=30).status_code)

        asking = [threading.Thread(target=ask) for _ in range(3)]
        for one in asking:
            one.start()
        until(lambda: bool(slow.asked))
        until(lambda: httpx.get(f"http://{host}:{port}/metrics").status_code == 503)
        assert httpx.get(f"http://{host}:{port}/health").status_code == 200
        slow.open.set()
        for one in asking:
            one.join()
    assert statuses == [200] * 3


# 3. Hosts

FOREIGN = ["evil.example", "evil.example:8000", "localhost.evil.example", "127.0.0.1.nip.io", "192.0.2.1", "0.0.0.0"]
FOREIGN += ["", "localhost@evil.example", "evil.example@localhost", "[::ffff:7f00:1]", "localhost/x", "localhost:x"]
FOREIGN += ["xlocalhost", "local host", "[::1", "::1", "127.0.0.1, evil.example", "localhost#", "\xe9.example"]


@pytest.mark.parametrize("header", FOREIGN)
def test_a_foreign_host_is_refused_on_this_machine(header: str, models: dict[str, ServedModel]) -> None:
    settings = ServeSettings(allowed_hosts=hosts_for("127.0.0.1"))
    with TestClient(create_app({"none": models["none"]}, settings=settings)) as client:
        headers = {"host": header.encode("latin-1")}
        for answer in (
            client.post("/v1/predict", json={"text": "x"}, headers=headers),
            *(client.get(path, headers=headers) for path in ("/health", "/metrics", "/v1/models", "/docs", "/x")),
        ):
            assert (answer.status_code, answer.json()["errors"][0]["field"]) == (421, "header.host")
        assert "--allowed-hosts" in answer.json()["errors"][0]["reason"]
    tell("refused", 6)


@pytest.mark.parametrize(
    ("host", "allowed", "header", "status"),
    [
        *(
            ("127.0.0.1", (), name, 200)
            for name in ("localhost", "LOCALHOST:80", "localhost.", "127.0.0.1:1", "[::1]:9")
        ),
        ("127.1.2.3", (), "127.1.2.3:8000", 200),
        ("::1", (), "[::1]", 200),
        ("0.0.0.0", (), "anything.example", 200),
        ("127.0.0.1", ("example.org",), "Example.ORG:443", 200),
        ("127.0.0.1", ("example.org",), "localhost", 421),
        ("0.0.0.0", ("*.example.org",), "a.example.org", 200),
        ("0.0.0.0", ("*.example.org",), "example.org", 421),
        ("0.0.0.0", ("*.example.org",), "evilexample.org", 421),
        ("127.0.0.1", ("*",), "anything", 200),
    ],
)
def test_allowed_hosts(host: str, allowed: Any, header: str, status: int, models: dict[str, ServedModel]) -> None:
    settings = ServeSettings(allowed_hosts=hosts_for(host, allowed))
    with TestClient(create_app({"none": models["none"]}, settings=settings)) as client:
        assert client.get("/health", headers={"host": header}).status_code == status


# 4. Callers who leave


@pytest.mark.parametrize("size", [1, 100])
def test_texts_of_who_has_left_are_not_scored(size: int, models: dict[str, ServedModel], slow: Gated) -> None:
    with listening({"none": models["none"]}, max_queue_size=5 * size, timeout=20) as (host, port):
        body = json.dumps({"rows": [{"text": "left"}] * size}).encode()
        url, statuses = f"http://{host}:{port}", list[int]()

        def ask(text: str) -> threading.Thread:
            post = lambda: httpx.post(f"{url}/v1/predict", json={"text": text}, timeout=30)  # noqa: E731
            thread = threading.Thread(target=lambda: statuses.append(post().status_code))
            thread.start()
            return thread

        def waiting() -> float:
            found = re.search(r"(?m)^attribune_queue_size (\S+)$", httpx.get(f"{url}/metrics").text)
            assert found is not None
            return float(found[1])

        threads = [ask("first")]
        until(lambda: bool(slow.asked))
        leaving = [socket.create_connection((host, port)) for _ in range(5)]
        for caller in leaving:
            caller.sendall(HEAD + f"content-length: {len(body)}\r\n\r\n".encode() + body)
        until(lambda: waiting() == 5 * size)
        for caller in leaving:
            caller.close()
        until(lambda: waiting() == 0)
        threads.append(ask("last"))
        until(lambda: waiting() == 1)
        slow.open.set()
        for thread in threads:
            thread.join()
        assert 'status="499"' in httpx.get(f"{url}/metrics").text
    assert statuses == [200, 200]
    assert len(slow.asked) == 2, "nothing of those who left has been scored"


# 5. Signals

SERVE = """
import signal, sys, time
signal.signal(signal.SIGHUP, signal.SIG_DFL)  # ignored where the tests run under nohup
from attribune.apps.cli import main
from attribune.apps.serve.models import ServedModel
answer = ServedModel.answer_together
def slow(rows):
    time.sleep(max((float(text) for columns in rows.values() for text in columns["text"] if text), default=0))
    return answer(rows)
ServedModel.answer_together = staticmethod(slow)
sys.exit(main(sys.argv[1:]))
"""
ENDS = [  # signals, seconds that the answer takes, status of the answer, exit code
    (("SIGTERM",), 2, 200, -15),
    (("SIGINT", "SIGINT"), 60, None, 130),
    (("SIGTERM", "SIGTERM"), 60, None, -15),
    (("SIGTERM", "SIGINT"), 60, None, 130),
][: 2 if ATTACKS == 1 else None]


@pytest.mark.skipif(not hasattr(signal, "SIGHUP"), reason="needs POSIX signals")
def test_a_signal_ends_the_service_and_a_second_one_at_once(runs: Path) -> None:
    """Several processes at once, since each takes seconds to start."""
    command = [sys.executable, "-c", SERVE, "serve", str(runs / "none"), "--port", "0"]
    environment = {name: value for name, value in os.environ.items() if name != KEYS} | {"OMP_NUM_THREADS": "1"}
    with contextlib.ExitStack() as stack:
        processes = [
            stack.enter_context(subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=environment))
            for _ in ENDS
        ]
        stack.callback(lambda: [process.kill() for process in processes])
        for process, (signals, seconds, status, code) in zip(processes, ENDS, strict=True):
            assert process.stderr is not None
            lines = iter(process.stderr.readline, "")
            url = next(found[1] for line in lines if (found := re.search(r"serving at (http://[\d.:]+),", line)))
            statuses = list[int | None]()

            def ask(url: str = url, text: str = str(seconds), statuses: list[int | None] = statuses) -> None:
                try:
                    statuses.append(httpx.post(f"{url}/v1/predict", json={"text": text}, timeout=90).status_code)
                except httpx.TransportError:
                    statuses.append(None)

            asking = threading.Thread(target=ask)
            asking.start()
            until(lambda url=url: "attribune_batch_size_count 1.0" in httpx.get(f"{url}/metrics").text)
            started = time.monotonic()
            for name in signals:
                process.send_signal(getattr(signal, name))
                time.sleep(0.5)
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(30)
            assert (process.poll(), time.monotonic() - started < 20) == (code, True)
            rest = process.stderr.read()
            asking.join()
            assert statuses == [status]
            assert "Traceback" not in rest
            assert ("ended at once" in rest) == (len(signals) == 2)


# 6. Files that change


def overwrite(path: Path) -> None:
    content = path.read_bytes()
    with path.open("r+b") as file:
        file.write(content[: len(content) // 2] + bytes(len(content) - len(content) // 2))


def truncate(path: Path) -> None:
    os.truncate(path, 100)


def exchange(path: Path) -> None:
    other = path.with_name("other")
    other.write_bytes(path.read_bytes()[:-4] + bytes(4))
    other.replace(path)


CHANGES: list[Callable[[Path], None]] = [overwrite, truncate, exchange, Path.unlink]


@pytest.fixture
def served(runs: Path, tmp_path: Path) -> Path:
    """A run with its backbone that a test may damage."""
    for name in ("injector", "backbone"):
        shutil.copytree(runs / name, tmp_path / name)
    return tmp_path


@pytest.mark.parametrize("change", CHANGES)
def test_files_that_change_do_not_change_answers(change: Callable[[Path], None], served: Path) -> None:
    models = load_models([str(served / "injector")], backbone=str(served / "backbone"))
    assert not models["injector"].files.stamps, "a mapped file could end this process"
    with TestClient(create_app(models)) as client:
        before = client.post("/v1/predict", json=GOOD).json()
        files = [path for path in served.rglob("*") if path.suffix in (".safetensors", ".json", ".arrow")]
        assert len([path for path in files if path.suffix == ".safetensors"]) >= 2
        for path in files:
            change(path)
        after = client.post("/v1/predict", json=GOOD)
        assert (after.status_code, after.json()) == (200, before)
        assert client.get("/health").status_code == 200


@pytest.mark.parametrize("file", ["injector/model/model.safetensors", "backbone/model.safetensors"])
@pytest.mark.parametrize("change", CHANGES)
def test_a_change_of_a_file_that_is_too_large_to_copy_is_noticed(
    change: Callable[[Path], None], file: str, served: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    psutil = pytest.importorskip("psutil")
    if not hasattr(psutil.Process, "memory_maps"):
        pytest.skip("without a list of mapped files all is copied")
    monkeypatch.setattr("attribune.apps.serve.model_files._LARGEST_COPY", 0)
    models = load_models([str(served / "injector")], backbone=str(served / "backbone"))
    mapped = [Path(path) for path in models["injector"].files.stamps]
    if served / file not in mapped:
        pytest.skip(f"{file} is not mapped by this release of its library")
    with TestClient(create_app(models)) as client:
        assert client.post("/v1/predict", json=GOOD).status_code == 200
        change(served / file)
        answer = client.post("/v1/predict", json=GOOD)
        assert (answer.status_code, answer.json()["errors"][0]["field"]) == (503, "model")
        assert f"{file} has changed since it was loaded" in answer.json()["errors"][0]["reason"]
        assert client.get("/health").status_code == 503


def test_models_of_one_backbone_share_its_copy(models: dict[str, ServedModel]) -> None:
    first, second = ({p.data_ptr() for p in models[name].predictor.model.parameters()} for name in ("injector", "pln"))  # type: ignore[union-attr]
    assert len(first & second) > 10


def test_a_copy_is_never_taken_for_what_it_replaced() -> None:
    """Copies that get the addresses of what was copied before, in modules that are seen several times."""
    modules = [nn.Module() for _ in range(200)]
    for number, module in enumerate(modules):
        module.register_buffer("number", torch.full((32,), number))
    copy_into_memory([*modules, *modules])
    assert [int(module.number[0]) for module in modules] == list(range(200))  # type: ignore[index]

"""A service under ill will: bodies, hosts, slow callers and those who leave, signals, and files that change."""

from __future__ import annotations

import contextlib
import functools
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import pytest
import torch
from fastapi.testclient import TestClient
from live_service import PATIENCE, Clock, Gated, Running, client_of, running, until
from tally import tell
from torch import nn

from attribune.apps.serve import ServedModel, load_models, requests
from attribune.apps.serve.models import copy_into_memory
from attribune.apps.serve.requests import read_request
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
    with client_of({"injector": models["injector"]}) as client:
        yield client


PAIRS = [  # without the exhaustive ones, each place with one of the values in turn
    pytest.param(place, value, marks=[] if row % len(VALUES) == column else pytest.mark.exhaustive)
    for row, place in enumerate([*PLACES, *NAMES])
    for column, value in enumerate(VALUES)
]


@pytest.mark.one_in(4)
@pytest.mark.parametrize(("place", "value"), PAIRS)
def test_many_wrong_values_are_refused_at_the_first_ones(
    place: str, value: str, alone: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    body, found, faults_of = body_of(place, VALUES[value], 200_000 * ATTACKS), list[int](), requests._faults

    def counted(errors: Any, prefix: str) -> Any:
        found.append(len(errors))
        return faults_of(errors, prefix)

    monkeypatch.setattr(requests, "_faults", counted)
    answer = alone.post("/v1/predict", content=body, headers=JSON)
    assert answer.status_code in (413, 422), answer.text
    faults = answer.json()["errors"]
    assert 1 <= len(faults) <= 10
    assert sum(found) <= 10_000, "of as many values as there may be, each has an error for each type it could have"
    assert len(answer.content) < 2000
    assert alone.post("/v1/predict", json=GOOD).status_code == 200
    tell("refused")


@pytest.mark.parametrize(("rows", "tags"), [(1, 1000), (256, 1), pytest.param(256, 1000, marks=pytest.mark.exhaustive)])
def test_as_many_values_as_there_may_be_are_answered(rows: int, tags: int, alone: TestClient) -> None:
    row = {**GOOD, "attributes": {"user": "u1", "price": 3, "tags": [f"t{number}" for number in range(tags)]}}
    answer = alone.post("/v1/predict", json={"rows": [row] * rows})
    assert (answer.status_code, len(answer.json()["predictions"])) == (200, rows)
    row["attributes"]["tags"] = [{}] * tags
    answer = alone.post("/v1/predict", json={"rows": [row] * rows})
    assert answer.status_code == 422
    assert 1 <= len(answer.json()["errors"]) <= 10


@pytest.mark.exhaustive
@pytest.mark.parametrize("value", ["null", "deep", "row"])
@pytest.mark.parametrize("place", ["rows", "tags", "body"])
def test_bodies_as_large_as_they_may_be_are_refused(place: str, value: str, alone: TestClient) -> None:
    body = body_of(place, VALUES[value], 8 * 2**20 - 1000)
    assert alone.post("/v1/predict", content=body, headers=JSON).status_code == 422
    assert alone.get("/health").status_code == 200


def test_health_is_answered_while_large_bodies_are_read(
    models: dict[str, ServedModel], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The reading stops until health was asked, as if the body were without end."""
    begun, free = threading.Event(), threading.Event()

    def read(*given: Any) -> Any:
        begun.set()
        assert free.wait(PATIENCE)
        return read_request(*given)

    monkeypatch.setattr("attribune.apps.serve.app.read_request", read)
    with (
        running({"none": models["none"]}) as service,
        httpx.Client(base_url=service.url, timeout=PATIENCE) as client,
        ThreadPoolExecutor(1) as pool,
    ):
        sent = pool.submit(client.post, "/v1/predict", content=body_of("rows", VALUES["row"], 100_000), headers=JSON)
        assert begun.wait(PATIENCE)
        assert [client.get(path).status_code for path in ("/health", "/metrics")] == [200, 200]
        free.set()
        assert sent.result().status_code == 422


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


NO_REQUEST = ("empty lines", "not HTTP")  # answered 400 and closed as soon as they are read
CALLERS = 50  # more than may be open
LAST = {"connection": "close"}  # so that the next request has a connection of its own
SECONDS = 4.0  # of a request; a connection that is kept for the next one has a limit of its own, which is longer


@pytest.fixture(scope="module")
def timed(models: dict[str, ServedModel]) -> Iterator[tuple[Running, Clock]]:
    """A service whose time passes when a test says so."""
    with running({"none": models["none"]}, max_connections=20, timeout=SECONDS) as service:
        clock = Clock(service.loop)
        yield service, clock
        clock.run()


@pytest.mark.parametrize("kind", SLOW)
def test_slow_callers_are_closed_and_hold_no_place(kind: str, timed: tuple[Running, Clock]) -> None:
    (first, again), (service, clock) = SLOW[kind], timed
    with contextlib.ExitStack() as stack:
        client = stack.enter_context(httpx.Client(base_url=service.url, timeout=PATIENCE))
        callers = [stack.enter_context(socket.create_connection((service.host, service.port))) for _ in range(CALLERS)]
        for caller in callers:
            caller.setblocking(False)
            with contextlib.suppress(OSError):  # it may have made room already
                caller.send(first)
        assert client.get("/health", headers=LAST).status_code == 200
        answer = client.post("/v1/predict", json={"text": "x"}, headers=LAST)
        assert answer.status_code == 200, "they do not count"
        closed = set[int]()

        def ask_on() -> bool:
            closed.update(number for number, one in enumerate(callers) if number not in closed and ends(one, again))
            return len(closed) == len(callers)

        ask_on()
        assert len(closed) < len(callers) or kind in NO_REQUEST, "they have some time"
        clock.pass_time(0.6 * SECONDS)
        ask_on()
        assert client.get("/health", headers=LAST).status_code == 200, "what was sent before has been read"
        assert len(closed) < len(callers) or kind in NO_REQUEST
        clock.pass_time(0.6 * SECONDS)
        until(ask_on)  # each is closed when the time is over, though it sent more
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
def test_who_does_not_read_is_closed(at_once: int, timed: tuple[Running, Clock]) -> None:
    """In time; and at once where very much is asked ahead."""
    (service, clock), errors = timed, list[OSError]()

    def send() -> None:
        try:
            for _ in range(2_000_000 // at_once):
                caller.sendall(b"GET /openapi.json HTTP/1.1\r\nhost: localhost\r\n\r\n" * at_once)
        except OSError as error:
            errors.append(error)

    def later() -> bool:
        if at_once == 20:
            clock.pass_time(SECONDS)
        return not sending.is_alive()

    with socket.socket() as caller:
        caller.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        caller.connect((service.host, service.port))
        caller.settimeout(PATIENCE)
        sending = threading.Thread(target=send)
        sending.start()
        until(later)
    assert isinstance(errors[0], ConnectionResetError | BrokenPipeError), errors
    assert httpx.get(f"{service.url}/health", timeout=PATIENCE).status_code == 200


def test_more_callers_than_there_is_room_for_are_told(models: dict[str, ServedModel], slow: Gated) -> None:
    with (
        running({"none": models["none"]}, max_connections=3) as service,
        httpx.Client(base_url=service.url, timeout=PATIENCE) as client,
        ThreadPoolExecutor(3) as pool,
    ):
        asked = [pool.submit(client.post, "/v1/predict", json={"text": "x"}) for _ in range(3)]
        until(lambda: bool(slow.asked))
        until(lambda: client.get("/metrics").status_code == 503)
        assert client.get("/health").status_code == 200
        slow.open.set()
        assert [one.result().status_code for one in asked] == [200] * 3


# 3. Hosts

FOREIGN = ["evil.example", "evil.example:8000", "localhost.evil.example", "127.0.0.1.nip.io", "192.0.2.1", "0.0.0.0"]
FOREIGN += ["", "localhost@evil.example", "evil.example@localhost", "[::ffff:7f00:1]", "localhost/x", "localhost:x"]
FOREIGN += ["xlocalhost", "local host", "[::1", "::1", "127.0.0.1, evil.example", "localhost#", "\xe9.example"]


@pytest.fixture(scope="module")
def service_for(models: dict[str, ServedModel]) -> Iterator[Callable[..., TestClient]]:
    """A service at a host, under the names that it may have; one for each of them."""
    with contextlib.ExitStack() as stack:

        @functools.cache
        def service(host: str, allowed: tuple[str, ...] = ()) -> TestClient:
            return stack.enter_context(client_of({"none": models["none"]}, allowed_hosts=hosts_for(host, allowed)))

        yield service


@pytest.mark.parametrize("header", FOREIGN)
def test_a_foreign_host_is_refused_on_this_machine(header: str, service_for: Callable[..., TestClient]) -> None:
    client, headers = service_for("127.0.0.1"), {"host": header.encode("latin-1")}
    for answer in (
        client.post("/v1/predict", json={"text": "x"}, headers=headers),
        *(client.get(path, headers=headers) for path in ("/health", "/metrics", "/v1/models", "/docs", "/x")),
    ):
        (error,) = answer.json()["errors"]
        assert (answer.status_code, error["field"]) == (421, "header.host")
        assert "--allowed-hosts" in error["reason"]
    tell("refused", 6)


@pytest.mark.parametrize(
    ("host", "allowed", "headers", "status"),
    [
        ("127.0.0.1", (), ("localhost", "LOCALHOST:80", "localhost.", "127.0.0.1:1", "[::1]:9"), 200),
        ("127.1.2.3", (), ("127.1.2.3:8000",), 200),
        ("::1", (), ("[::1]",), 200),
        ("0.0.0.0", (), ("anything.example",), 200),
        ("127.0.0.1", ("example.org",), ("Example.ORG:443",), 200),
        ("127.0.0.1", ("example.org",), ("localhost",), 421),
        ("0.0.0.0", ("*.example.org",), ("a.example.org",), 200),
        ("0.0.0.0", ("*.example.org",), ("example.org", "evilexample.org"), 421),
        ("127.0.0.1", ("*",), ("anything",), 200),
    ],
)
def test_allowed_hosts(
    host: str, allowed: tuple[str, ...], headers: tuple[str], status: int, service_for: Callable[..., TestClient]
) -> None:
    for header in headers:
        assert service_for(host, allowed).get("/health", headers={"host": header}).status_code == status, header


# 4. Callers who leave


@pytest.mark.parametrize("size", [1, 100])
def test_texts_of_who_has_left_are_not_scored(size: int, models: dict[str, ServedModel], slow: Gated) -> None:
    body = json.dumps({"rows": [{"text": "left"}] * size}).encode()
    with (
        running({"none": models["none"]}, max_queue_size=5 * size) as service,
        httpx.Client(base_url=service.url, timeout=PATIENCE) as client,
        ThreadPoolExecutor(2) as pool,
    ):

        def waiting() -> float:
            (found,) = re.findall(r"(?m)^attribune_queue_size (\S+)$", client.get("/metrics").text)
            return float(found)

        first = pool.submit(client.post, "/v1/predict", json={"text": "first"})
        until(lambda: bool(slow.asked))
        leaving = [socket.create_connection((service.host, service.port)) for _ in range(5)]
        for caller in leaving:
            caller.sendall(HEAD + f"content-length: {len(body)}\r\n\r\n".encode() + body)
        until(lambda: waiting() == 5 * size)
        for caller in leaving:
            caller.close()
        until(lambda: waiting() == 0)
        last = pool.submit(client.post, "/v1/predict", json={"text": "last"})
        until(lambda: waiting() == 1)
        slow.open.set()
        assert [first.result().status_code, last.result().status_code] == [200, 200]
        until(lambda: client.get("/metrics").text.count('status="499"') > 0)
    assert len(slow.asked) == 2, "nothing of those who left has been scored"


# 5. Signals

SERVE = """
import signal, sys
signal.signal(signal.SIGHUP, signal.SIG_DFL)  # ignored where the tests run under nohup
from attribune.apps.cli import main
from attribune.apps.serve.models import ServedModel
answer = ServedModel.answer_together
def slow(rows):
    for file in [text for columns in rows.values() for text in columns["text"] if text]:
        open(file).close()  # a pipe, which opens when the test opens its other end
    return answer(rows)
ServedModel.answer_together = staticmethod(slow)
sys.exit(main(sys.argv[1:]))
"""
ENDS = [  # signals, status of the answer, exit code
    (("SIGINT",), 200, 130),
    (("SIGTERM", "SIGTERM"), None, -15),
    (("SIGTERM",), 200, -15),
    (("SIGINT", "SIGINT"), None, 130),
    (("SIGTERM", "SIGINT"), None, 130),
][: 4 if ATTACKS == 1 else None]


@pytest.mark.exhaustive
@pytest.mark.skipif(not hasattr(signal, "SIGHUP"), reason="needs POSIX signals")
@pytest.mark.parametrize(("signals", "status", "code"), ENDS)
def test_a_signal_ends_the_service_and_a_second_one_at_once(
    signals: tuple[str, ...], status: int | None, code: int, runs: Path, tmp_path: Path
) -> None:
    """What it was asked before the first one is answered when its answer is ready, which it never is for the second."""
    command = [sys.executable, "-c", SERVE, "serve", str(runs / "none"), "--port", "0", "--timeout", str(PATIENCE)]
    environment = {name: value for name, value in os.environ.items() if name != KEYS} | {"OMP_NUM_THREADS": "1"}
    ready = tmp_path / "ready"
    os.mkfifo(ready)

    def ask() -> int | None:
        try:
            return httpx.post(f"{url}/v1/predict", json={"text": str(ready)}, timeout=PATIENCE).status_code
        except httpx.TransportError:
            return None

    with (
        subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=environment) as process,
        ThreadPoolExecutor(1) as pool,
    ):
        try:
            lines = iter(process.stderr.readline, "")
            url = next(found[1] for line in lines if (found := re.search(r"serving at (http://[\d.:]+),", line)))
            asked = pool.submit(ask)
            with httpx.Client(base_url=url, timeout=PATIENCE, headers=LAST) as client:
                until(lambda: "attribune_batch_size_count 1.0" in client.get("/metrics").text)
                process.send_signal(getattr(signal, signals[0]))
                until(lambda: has_ended(client))
            if len(signals) == 2:
                process.send_signal(getattr(signal, signals[1]))
            else:
                ready.write_text("")
            rest = process.stderr.read()
            assert (process.wait(PATIENCE), asked.result()) == (code, status)
        finally:
            process.kill()
    assert "Traceback" not in rest
    assert ("ended at once" in rest) == (len(signals) == 2)
    assert ("interrupted; all requests were answered" in rest) == (signals == ("SIGINT",))


def has_ended(client: httpx.Client) -> bool:
    """Whether nobody listens any more."""
    try:
        client.get("/health")
    except httpx.TransportError:
        return True
    return False


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


WRITES: list[Callable[[Path], None]] = [overwrite, truncate]
REPLACEMENTS: list[Callable[[Path], None]] = [exchange, Path.unlink]


@pytest.fixture
def served(runs: Path, tmp_path: Path) -> Path:
    """A run with its backbone that a test may damage."""
    for name in ("injector", "backbone"):
        shutil.copytree(runs / name, tmp_path / name)
    return tmp_path


def test_files_that_change_do_not_change_answers(served: Path) -> None:
    """One after the other, all changes are made to all files."""
    models = load_models([str(served / "injector")], backbone=str(served / "backbone"))
    assert not models["injector"].files.stamps, "a mapped file could end this process"
    with client_of(models) as client:
        before = client.post("/v1/predict", json=GOOD).json()
        files = [path for path in served.rglob("*") if path.suffix in (".safetensors", ".json", ".arrow")]
        assert [path.suffix for path in files].count(".safetensors") >= 2
        for change in [*WRITES, *REPLACEMENTS]:
            for path in files:
                change(path)
            after = client.post("/v1/predict", json=GOOD)
            assert (after.status_code, after.json()) == (200, before)
            assert client.get("/health").status_code == 200


@contextlib.contextmanager
def undone(path: Path) -> Iterator[None]:
    """What happens to a file within the block has not happened after it: the file is the same one as before."""
    content, stamp, kept = path.read_bytes(), path.stat(), path.with_name("kept")
    os.link(path, kept)
    try:
        yield
    finally:
        path.unlink(missing_ok=True)
        kept.rename(path)
        with path.open("r+b") as file:
            file.write(content)
        os.utime(path, ns=(stamp.st_atime_ns, stamp.st_mtime_ns))


def test_a_change_of_a_file_that_is_too_large_to_copy_is_noticed(served: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    psutil = pytest.importorskip("psutil")
    if not hasattr(psutil.Process, "memory_maps"):
        pytest.skip("without a list of mapped files all is copied")
    monkeypatch.setattr("attribune.apps.serve.models._LARGEST_COPY", 0)
    models = load_models([str(served / "injector")], backbone=str(served / "backbone"))
    stamps, names = models["injector"].files.stamps, ("injector/model/model.safetensors", "backbone/model.safetensors")
    files = [name for name in names if str(served / name) in stamps]
    if not files:
        pytest.skip("no file is mapped by this release of their library")
    with client_of(models) as client:
        health = lambda: client.get("/health").status_code  # noqa: E731
        for file in files:
            for change in REPLACEMENTS:
                with undone(served / file):
                    change(served / file)
                    assert client.post("/v1/predict", json=GOOD).status_code == 200, "the old file is still read"
                    assert health() == 200
            for change in WRITES:
                assert client.post("/v1/predict", json=GOOD).status_code == 200
                with undone(served / file):
                    change(served / file)
                    answer = client.post("/v1/predict", json=GOOD)
                    (error,) = answer.json()["errors"]
                    assert (answer.status_code, error["field"]) == (503, "model"), change
                    assert f"{file} was written to while the model is read from it" in error["reason"]
                    assert health() == 503
                assert health() == 200


def test_a_copy_is_never_taken_for_what_it_replaced() -> None:
    """Copies that get the addresses of what was copied before, in modules that are seen several times."""
    modules = [nn.Module() for _ in range(200)]
    for number, module in enumerate(modules):
        module.register_buffer("number", torch.full((32,), number))
    copy_into_memory([*modules, *modules])
    assert [int(module.number[0]) for module in modules] == list(range(200))

"""The page of the playground, asked over HTTP and, where one is installed, in a browser."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import browser
import httpx
import numpy as np
import pytest
from live_service import PATIENCE
from trained_runs import ROWS

from attribune.apps.playground import Session

pytestmark = [
    pytest.mark.slow,
    pytest.mark.exhaustive,
    pytest.mark.skipif(find_spec("gradio") is None, reason="the page needs gradio"),
]

ILL = {"GRADIO_ALLOWED_PATHS": "/", "GRADIO_SHARE": "true", "GRADIO_ROOT_PATH": "/other", "GRADIO_VIBE_MODE": "1"}
ROUNDING = 2e-3  # of three decimals, and of bf16 in another process
OWN = ("GRADIO_ANALYTICS_ENABLED", "GRADIO_RUN_HISTORY")  # what the command sets


@contextlib.contextmanager
def playground(*words: object) -> Iterator[subprocess.Popen[str]]:
    """The command in a process of its own: gradio leaves sockets and event loops to the garbage collector."""
    command = [sys.executable, "-m", "attribune", "playground", *map(str, words)]
    environment = os.environ | ILL | dict.fromkeys(OWN, "True")
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=environment) as process:
        try:
            yield process
        finally:
            process.kill()  # or the end of the block waits for one that does not stop


def address_of(process: subprocess.Popen[str]) -> str:
    """Where it says that the page is."""
    told = ""
    for line in iter(process.stderr.readline, ""):
        told += line
        if found := re.search(r"the playground is at (http://127\.0\.0\.1:\d+)", line):
            return found[1]
    raise AssertionError(f"it ended and named no address:\n{told}")


@pytest.fixture(scope="module")
def address(run: Path) -> Iterator[str]:
    """Where a page is."""
    with playground(run, "--port", 0) as process:
        yield address_of(process)


@pytest.fixture(scope="module")
def client() -> Iterator[httpx.Client]:
    with httpx.Client(timeout=PATIENCE) as client:
        yield client


def test_a_process_serves_the_page_until_it_is_interrupted(run: Path, client: httpx.Client) -> None:
    with playground(run, "--port", 0) as process:
        address = address_of(process)
        assert "no text" in call(client, address, "predict", " ", None, "", [])
        for path in ("other", "gradio_api/file=/etc/passwd", "gradio_api/vibe-edit"):
            assert client.get(f"{address}/{path}").status_code == 404
        process.send_signal(signal.SIGINT)
        assert process.wait(PATIENCE) == 130
        assert process.stderr.read().endswith("\nattribune playground: interrupted\n")


def call(client: httpx.Client, address: str, name: str, *given: Any) -> str:
    """What the page's own call gives."""
    began = client.post(f"{address}/gradio_api/call/{name}", json={"data": list(given)}).json()["event_id"]
    answer = client.get(f"{address}/gradio_api/call/{name}/{began}").text
    (data,) = re.findall(r"^event: complete\ndata: (.*)$", answer, re.MULTILINE)
    (found,) = json.loads(data)
    return str(found)


def shown(page: str) -> list[float]:
    return [float(number) for number in re.findall(r"<td>(\d\.\d{3})", page)]


def test_the_page_answers_over_http(address: str, client: httpx.Client, session: Session) -> None:
    found = call(client, address, "predict", "the film was great", "u1", "3", ["war"])
    expected = session.ask("the film was great", {"user": ["u1"], "price": ["3"], "tags": ["war"]})
    numbers = [number for place in np.argsort(-expected.numbers[0]) for number in expected.numbers[:, place]]
    assert shown(found) == pytest.approx(numbers, abs=ROUNDING)
    for part, name, given in (
        ("no text", "predict", (" ", None, "", [])),
        ("read as unknown", "predict", ("the film", "stranger", "", [])),
        ("two different values", "compare", ("film", "user", "u1", "u1", None, "", [])),
        ("has no value", "compare", ("film", "user", "u1", "stranger", None, "", [])),
        ("Nearest vectors, by cosine", "compare", ("the film", "user", "u1", "u2", None, "", [])),
        ("no text", "panel", (" ", "user", None, "", [])),
    ):
        assert part in call(client, address, name, *given)
    asked = session.ask_panel("the film was great", {"tags": ["war"]}, "user")
    found = call(client, address, "panel", "the film was great", "user", None, "", ["war"])
    names = sorted(asked.shares, key=asked.shares.get)[::-1]
    numbers = [number for name in names for number in (asked.probabilities[name], asked.shares[name])]
    assert shown(found) == pytest.approx(numbers, abs=ROUNDING)


# Ill will


def test_the_page_and_what_it_is_made_of_are_there(address: str, client: httpx.Client) -> None:
    page = client.get(address)
    assert page.status_code == 200
    made_of = {link for link in re.findall(r'(?:href|src)="([^"]+)"', page.text) if not link.startswith("http")}
    assert made_of
    for link in ("config", "gradio_api/info", "theme.css", *(made_of - {"./"})):
        assert client.get(f"{address}/{link.removeprefix('.').removeprefix('/')}").status_code == 200, link


HOSTS = ["evil.example", "evil.example:7860", "localhost.evil.example", "127.0.0.1.nip.io", "0.0.0.0", "192.0.2.1"]
HOSTS += ["", "localhost@evil.example", "evil.example@localhost", "[::ffff:7f00:1]", "localhost:x", "local host"]


@pytest.mark.parametrize("host", HOSTS)
def test_another_host_is_refused(host: str, address: str, client: httpx.Client) -> None:
    for path in ("/", "/config", "/gradio_api/info", "/assets/x.js", "/gradio_api/upload"):
        assert client.get(f"{address}{path}", headers={"host": host}).status_code in (400, 421)
    asked = client.post(f"{address}/gradio_api/call/predict", json={"data": []}, headers={"host": host})
    assert asked.status_code != 200


@pytest.mark.parametrize("origin", ["http://evil.example", "null", "https://{host}", "http://localhost:1", ""])
def test_another_origin_is_refused(origin: str, address: str, client: httpx.Client) -> None:
    headers = {"origin": origin.format(host=address.removeprefix("http://"))}
    body = json.dumps({"data": ["the film", "u1", "", []]})
    for path, kind in (("call/predict", "application/json"), ("queue/join", "text/plain")):
        headers["content-type"] = kind
        assert client.post(f"{address}/gradio_api/{path}", content=body, headers=headers).status_code == 403


@pytest.mark.parametrize("path", ["/etc/passwd", "{run}/recipe.yaml", "/proc/self/environ", "{tmp}"])
@pytest.mark.parametrize("by", ["file=", "file/", "stream/", "proxy=http://127.0.0.1:1/", "custom_component/0/client/"])
def test_no_file_is_opened(by: str, path: str, address: str, client: httpx.Client, run: Path, tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("secret")
    path = path.format(run=run, tmp=tmp_path / "secret")
    for prefix in ("/gradio_api/", "/"):
        assert client.get(f"{address}{prefix}{by}{path}").status_code == 404
    for known in ("/assets/", "/static/", "/svelte/"):
        for up in ("../" * 12, "..%2f" * 12, "/"):
            assert client.get(f"{address}{known}{up}{path}").status_code in (403, 404)


OTHER = ["upload", "upload/", "component_server", "process_recording", "vibe-edit", "run/predict", "api/predict"]
OTHER += ["call/v2/predict", "stream/x", "run-history/connect", "login", "profiling/clear", "../upload", "%75pload"]


@pytest.mark.parametrize("path", OTHER)
def test_nothing_is_uploaded(path: str, address: str, client: httpx.Client) -> None:
    for prefix in ("/gradio_api/", "/"):
        files = {"files": ("a.txt", b"x" * 1000)}
        assert client.post(f"{address}{prefix}{path}", files=files).status_code == 404
        for method in ("PUT", "DELETE", "PATCH", "OPTIONS"):
            assert client.request(method, f"{address}{prefix}{path}").status_code == 404


FILE = {"path": "/etc/passwd", "meta": {"_type": "gradio.FileData"}}
DATA = [[FILE], [[FILE]], [[[FILE]]], {"0": FILE}, FILE, "text", 1, None, ["film", {"path": "http://127.0.0.1:1/x"}]]


@pytest.mark.parametrize("data", DATA, ids=range(len(DATA)))
def test_objects_are_refused(data: Any, address: str, client: httpx.Client) -> None:
    for path in ("call/predict", "queue/join"):
        answer = client.post(f"{address}/gradio_api/{path}", json={"data": data, "session_hash": "x"})
        assert (answer.status_code, "texts alone" in answer.text) == (400, True)


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b"[" * 100_000, b"\xff", b'{"data": [' + b"1" * 5000 + b"]}"])
def test_bodies_that_are_no_calls_are_refused(body: bytes, address: str, client: httpx.Client) -> None:
    assert client.post(f"{address}/gradio_api/call/predict", content=body).status_code == 400


@pytest.mark.parametrize("size", [2**21 + 1, 2**24])
def test_large_bodies_are_refused(size: int, address: str, client: httpx.Client) -> None:
    def parts() -> Iterator[bytes]:
        yield from [b"x" * 2**16] * (size // 2**16 + 1)

    with contextlib.suppress(httpx.TransportError):  # it is closed before all has been sent
        assert client.post(f"{address}/gradio_api/call/predict", content=parts()).status_code == 413
    assert client.get(f"{address}/config").status_code == 200


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["nowhere"], ""),
        (["{run}", "--port", "70000"], ""),
        (["{run}", "--port", "-1"], ""),
        (["{run}", "--port", "{taken}"], "{taken}"),
    ],
)
def test_mistakes_are_told(words: list[str], said: str, run: Path, address: str) -> None:
    taken = address.rpartition(":")[2]
    with playground(*(word.format(run=run, taken=taken) for word in words)) as process:
        assert process.wait(PATIENCE) == 1
        error = process.stderr.read()
    assert (said.format(taken=taken) in error, "Traceback" in error) == (True, False)


@browser.needs_browser
@pytest.mark.parametrize("size", browser.SIZES)
@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_in_a_browser(size: str, dark: bool, address: str, tmp_path: Path) -> None:
    from selenium.webdriver.common.by import By
    from selenium.webdriver.support.ui import WebDriverWait

    with browser.open_browser(tmp_path, size=size, dark=dark) as driver:
        driver.get(address)
        answer = WebDriverWait(driver, PATIENCE).until(lambda d: d.find_element(By.CSS_SELECTOR, "#answer table"))
        assert driver.find_element(By.ID, "label").text == f"Its label: {ROWS[0]['stars']}"
        assert driver.find_element(By.CSS_SELECTOR, "#value-user input").get_attribute("value") == ROWS[0]["user"]
        assert "as given" in answer.text
        wide = driver.execute_script("return document.documentElement.scrollWidth")
        assert wide <= browser.SIZES[size][0], "nothing lies beyond the edge of the screen"
        asked = [json.loads(entry["message"])["message"] for entry in driver.get_log("performance")]
        urls = [one["params"]["request"]["url"] for one in asked if one["method"] == "Network.requestWillBeSent"]
        assert urls
        assert [url for url in urls if not url.startswith((address.rstrip("/"), "data:", "blob:", "chrome"))] == []
        assert browser.serious_findings(driver) == []

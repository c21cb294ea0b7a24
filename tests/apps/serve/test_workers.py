"""A service of several processes: one address, one page of metrics, one copy of the weights."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import httpx
import psutil
import pytest
from live_service import until
from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest

from attribune.apps.cli import main
from attribune.apps.serve import ServedModel
from attribune.apps.serve.settings import KEYS
from attribune.apps.serve.worker_metrics import WorkerMetrics

SIGNALS = hasattr(signal, "SIGHUP")


@pytest.fixture
def run(runs: Path, tmp_path: Path) -> Path:
    """A copy of a run, which a test may damage."""
    return shutil.copytree(runs / "injector", tmp_path / "stars")


@pytest.fixture
def service(run: Path) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """A service of two processes, and its address."""
    command = [sys.executable, "-m", "attribune", "serve", str(run), "--port", "0", "--workers", "2"]
    environment = {name: value for name, value in os.environ.items() if name != KEYS} | {"OMP_NUM_THREADS": "1"}
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=environment) as parent:
        try:
            assert parent.stderr is not None
            lines = iter(parent.stderr.readline, "")
            yield (
                parent,
                next(found[1] for line in lines if (found := re.search(r"serving at (http://[\d.:]+),", line))),
            )
        finally:
            parent.kill()


def processes(parent: subprocess.Popen[str]) -> list[psutil.Process]:
    """Return those that answer."""
    found = []
    for child in psutil.Process(parent.pid).children():
        with contextlib.suppress(psutil.NoSuchProcess):
            if any("spawn_main" in word for word in child.cmdline()):
                found.append(child)
    return found


def ask(url: str, text: str = "a great film", user: str = "u1") -> httpx.Response:
    """Ask for one prediction, on a connection of its own."""
    return httpx.post(f"{url}/v1/predict", json={"text": text, "attributes": {"user": user}}, timeout=60)


def texts(url: str) -> dict[str, float]:
    """Return the number of texts that each process has scored."""
    page = httpx.get(f"{url}/metrics").text
    found = re.findall(r'^attribune_texts_total\{model="stars",worker="(\d)"\} (\S+)$', page, re.MULTILINE)
    return {worker: float(count) for worker, count in found}


@pytest.mark.slow
@pytest.mark.skipif(not SIGNALS, reason="needs POSIX signals")
def test_two_processes_answer_as_one(
    service: tuple[subprocess.Popen[str], str], models: dict[str, ServedModel], run: Path
) -> None:
    parent, url = service
    rows = [{"text": f"a great film {n}", "attributes": {"user": f"u{n % 9}"}} for n in range(40)]
    answers = [ask(url, str(row["text"]), row["attributes"]["user"]).json() for row in rows]  # type: ignore[index]
    columns = {name: [None] * len(rows) for name in models["injector"].predictor.columns}
    columns |= {"text": [row["text"] for row in rows], "user": [row["attributes"]["user"] for row in rows]}  # type: ignore[index]
    expected = [answer.output for answer in models["injector"].answer(columns)]
    for answer, output in zip(answers, expected, strict=True):
        found = answer["predictions"][0]["output"]
        assert found.pop("prediction") == output.pop("prediction")
        assert found == pytest.approx(output, abs=1e-5)
    until(lambda: sum(texts(url).values()) == len(rows))

    first, second = processes(parent)
    for one in (first, second):
        mapped = [entry.path for entry in one.memory_maps() if entry.path.endswith(".safetensors")]
        assert any("backbone" in path for path in mapped), "the weights stay in the file, of which there is one copy"
    first.kill()
    first.wait(30)
    assert ask(url).status_code == 200, "the other one answers"
    until(lambda: len(processes(parent)) == 2, seconds=60)
    until(lambda: len(texts(url)) == 2, seconds=60)

    weights = next((run / "model").glob("*.safetensors"))
    stamp = weights.stat()
    os.utime(weights, ns=(stamp.st_atime_ns, stamp.st_mtime_ns + 10**9))
    assert httpx.get(f"{url}/health").status_code == 503
    assert "has changed since it was loaded" in ask(url).text
    os.utime(weights, ns=(stamp.st_atime_ns, stamp.st_mtime_ns))

    statuses = list[int]()
    body = {"rows": [dict(row, text="a great film " * 40) for row in rows] * 6}
    asking = threading.Thread(
        target=lambda: statuses.append(httpx.post(f"{url}/v1/predict", json=body, timeout=60).status_code)
    )
    asking.start()
    until(lambda: sum(texts(url).values()) > 0 and "attribune_queue_size" in httpx.get(f"{url}/metrics").text)
    left = processes(parent)
    parent.send_signal(signal.SIGINT)
    asking.join()
    assert parent.stderr is not None
    rest = parent.stderr.read()
    assert parent.wait(60) == 130
    assert statuses == [200]
    assert "process 0 of the service ended with exit code -9 and is restarted" in rest
    assert "attribune serve: interrupted; all requests were answered" in rest
    assert "Traceback" not in rest
    assert not any(one.is_running() and one.status() != psutil.STATUS_ZOMBIE for one in left)


@pytest.mark.slow
@pytest.mark.skipif(not SIGNALS, reason="needs POSIX signals")
def test_processes_end_with_their_parent(service: tuple[subprocess.Popen[str], str]) -> None:
    parent, _ = service
    left = processes(parent)
    parent.kill()
    assert len(left) == 2
    assert psutil.wait_procs(left, timeout=30)[1] == []


@pytest.mark.slow
def test_what_is_wrong_is_said_once(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["serve", str(tmp_path), "--workers", "3", "--port", "0"]) == 1
    out, error = capfd.readouterr()
    assert error.count(str(tmp_path)) == 1, error
    assert (out, error.count("Traceback")) == ("", 0)


def test_metrics_of_all_processes_are_on_one_page(tmp_path: Path) -> None:
    pages = []
    for number in (0, 1):
        registry = CollectorRegistry()
        Counter("asked", "Requests.", ("path",), registry=registry).labels("/a").inc(number + 1)
        Histogram("size", "Sizes.", buckets=(1, 2), registry=registry).observe(number + 1)
        pages.append(generate_latest(registry))
    WorkerMetrics(tmp_path, 1).write(pages[1])
    page = WorkerMetrics(tmp_path, 0).text(pages[0]).decode()
    assert 'asked_total{path="/a",worker="0"} 1.0' in page
    assert 'asked_total{path="/a",worker="1"} 2.0' in page
    assert 'size_bucket{le="1.0",worker="0"} 1.0' in page
    assert 'size_bucket{le="1.0",worker="1"} 0.0' in page
    assert page.count("# TYPE asked_total counter") == 1
    assert sorted(path.name for path in tmp_path.iterdir()) == ["0.prom", "1.prom"]

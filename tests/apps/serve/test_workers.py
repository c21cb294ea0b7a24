"""A service of several processes: one address, one page of metrics, one copy of the weights."""

from __future__ import annotations

import contextlib
import functools
import multiprocessing
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from multiprocessing.connection import Connection
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import httpx
import psutil
import pytest
from live_service import PATIENCE, broken, point, until
from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest

from attribune.apps.cli import main
from attribune.apps.serve import RunLoader, ServedModel, ServeSettings, named_runs, server
from attribune.apps.serve.metrics import WorkerMetrics
from attribune.apps.serve.settings import ADMIN_KEYS, KEYS

ADMIN = "administrator-of-0123456789"
SIGNALS = hasattr(signal, "SIGHUP")


class Service:
    """A service of two processes, and what it says."""

    def __init__(self, link: Path) -> None:
        command = [sys.executable, "-c", "import signal, sys; signal.signal(signal.SIGHUP, signal.SIG_DFL)\n"]
        command[2] += "from attribune.apps.cli import main; sys.exit(main(sys.argv[1:]))"
        command += ["serve", f"stars={link}", "--port", "0", "--workers", "2", "--timeout", str(PATIENCE)]
        environment = {name: value for name, value in os.environ.items() if name != KEYS}
        environment |= {"OMP_NUM_THREADS": "1", ADMIN_KEYS: ADMIN}
        self.parent = subprocess.Popen(
            command, stderr=subprocess.PIPE, text=True, env=environment, start_new_session=True
        )
        self.log = list[str]()
        self.listening = threading.Thread(target=self._listen)
        self.listening.start()

    def _listen(self) -> None:
        assert self.parent.stderr is not None
        with self.parent.stderr as lines:
            self.log.extend(lines)

    def until_it_says(self, words: str) -> str:
        """Wait for a line; returns it."""
        until(lambda: any(words in line for line in [*self.log]) or not self.listening.is_alive())
        return next(line for line in self.log if words in line)


@pytest.fixture
def link(runs: Path, tmp_path: Path) -> Path:
    """A link to a copy of a run, which a test may damage."""
    shutil.copytree(runs / "injector", tmp_path / "injector")
    (tmp_path / "current").symlink_to(tmp_path / "injector")
    return tmp_path / "current"


@pytest.fixture
def service(link: Path) -> Iterator[tuple[Service, str]]:
    """A service of two processes, and its address."""
    service = Service(link)
    try:
        found = re.search(r"serving at (http://[\d.:]+),", service.until_it_says("serving at"))
        assert found is not None
        yield service, found[1]
    finally:
        service.parent.kill()
        service.parent.wait()
        service.listening.join()


def all_say(url: str, expected: float) -> bool:
    """Whether connections of their own are told the same, by both processes."""
    answers = [ask(url) for _ in range(12)]
    assert {answer.status_code for answer in answers} == {200}
    found = [answer.json()["predictions"][0]["output"]["probability_good"] for answer in answers]
    return found == pytest.approx([expected] * len(found), abs=1e-5)


def expected_of(model: ServedModel) -> float:
    """What a model says to `ask`."""
    columns = {name: [None] for name in model.predictor.columns} | {"text": ["a great film"], "user": ["u1"]}
    return float(model.answer(columns)[0].output["probability_good"])


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
    return httpx.post(f"{url}/v1/predict", json={"text": text, "attributes": {"user": user}}, timeout=PATIENCE)


def texts(url: str) -> dict[str, float]:
    """Return the number of texts that each process has scored."""
    page = httpx.get(f"{url}/metrics", timeout=PATIENCE).text
    found = re.findall(r'^attribune_texts_total\{model="stars",worker="(\d)"\} (\S+)$', page, re.MULTILINE)
    return {worker: float(count) for worker, count in found}


def batches(url: str) -> float:
    """Return how many batches the processes have begun to score."""
    page = httpx.get(f"{url}/metrics", timeout=PATIENCE).text
    return sum(map(float, re.findall(r"^attribune_batch_size_count\{.*\} (\S+)$", page, re.MULTILINE)))


@pytest.mark.slow
@pytest.mark.exhaustive
@pytest.mark.skipif(not SIGNALS, reason="needs POSIX signals")
def test_two_processes_answer_as_one(
    service: tuple[Service, str], models: dict[str, ServedModel], runs: Path, link: Path, tmp_path: Path
) -> None:
    parent, url, run = service[0].parent, service[1], tmp_path / "injector"
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
    first.wait(PATIENCE)
    assert ask(url).status_code == 200, "the other one answers"
    until(lambda: len(processes(parent)) == 2)
    until(lambda: ask(url).status_code == 200 and len(texts(url)) == 2)  # the new one answers, too

    before, after = (expected_of(models[name]) for name in ("injector", "pln"))
    weights = next((run / "model").glob("*.safetensors"))
    content = weights.read_bytes()
    weights.write_bytes(content[:100])
    assert all_say(url, before), "each has a copy of the small file"
    weights.write_bytes(content)
    run.rename(tmp_path / "elsewhere")
    assert all_say(url, before)
    assert httpx.get(f"{url}/health", timeout=PATIENCE).status_code == 200
    (tmp_path / "elsewhere").rename(run)

    point(link, broken(runs, tmp_path / "broken"))
    parent.send_signal(signal.SIGHUP)
    service[0].until_it_says("were not reloaded, and the old ones are still served")
    headers = {"authorization": f"Bearer {ADMIN}"}
    assert httpx.post(f"{url}/v1/reload", headers=headers, timeout=PATIENCE).status_code == 422
    assert all_say(url, before)
    point(link, runs / "pln")
    parent.send_signal(signal.SIGHUP)
    service[0].until_it_says("loaded again: stars")
    until(lambda: all_say(url, after))  # the second process is told after the first
    reloaded = httpx.post(f"{url}/v1/reload", json={"runs": [f"stars={run}"]}, headers=headers, timeout=PATIENCE)
    assert reloaded.status_code == 200
    until(lambda: all_say(url, before))

    statuses, begun = list[int](), batches(url)
    body = {"rows": [dict(row, text="a great film " * 40) for row in rows] * 6}
    asking = threading.Thread(
        target=lambda: statuses.append(httpx.post(f"{url}/v1/predict", json=body, timeout=PATIENCE).status_code)
    )
    asking.start()
    until(lambda: batches(url) > begun)
    left = processes(parent)
    parent.send_signal(signal.SIGINT)
    asking.join()
    assert parent.wait(PATIENCE) == 130
    service[0].listening.join()
    rest = "".join(service[0].log)
    assert statuses == [200]
    assert "process 0 of the service ended with exit code -9 and is restarted" in rest
    assert "attribune serve: interrupted; all requests were answered" in rest
    assert "Traceback" not in rest
    assert not any(one.is_running() and one.status() != psutil.STATUS_ZOMBIE for one in left)


@pytest.mark.slow
@pytest.mark.exhaustive
@pytest.mark.skipif(not SIGNALS, reason="needs POSIX signals")
def test_processes_end_with_their_parent(service: tuple[Service, str]) -> None:
    parent = service[0].parent
    left = processes(parent)
    parent.kill()
    assert len(left) == 2
    assert psutil.wait_procs(left, timeout=PATIENCE)[1] == []


class OnThread:
    """Stands in for a process of the service: what it would do is done on a thread of this one."""

    def __init__(self, *, target: Callable[..., None], args: tuple[Any, ...], name: str) -> None:
        self.server: Any = None
        self.exitcode: int | None = None
        self.sentinel, self._alive = multiprocessing.Pipe(duplex=False)
        self._work = functools.partial(target, *map(_own, args))
        self._thread = threading.Thread(target=self._run, name=name)
        self._thread.process = self  # type: ignore[attr-defined]

    def _run(self) -> None:
        try:
            self._work()
        finally:
            self.exitcode = self.exitcode or 0
            self._alive.close()

    def start(self) -> None:
        self._thread.start()

    def is_alive(self) -> bool:
        return self._thread.is_alive()

    def join(self) -> None:
        self._thread.join()

    @property
    def answers(self) -> bool:
        """Whether its server has begun to."""
        return self.server is not None and self.server.started

    def terminate(self) -> None:
        self.server.should_exit = True

    def kill(self) -> None:
        self.exitcode = -9
        self.terminate()


def _own(given: Any) -> Any:
    """What a process would have of its own: it closes it, and the others still have theirs."""
    if isinstance(given, socket.socket):
        return socket.socket(given.family, given.type, fileno=os.dup(given.fileno()))
    return Connection(os.dup(given.fileno())) if isinstance(given, Connection) else given


class Parent:
    """A service of two processes, which are threads; it is told what signals tell it."""

    def __init__(self, run: Path, patch: pytest.MonkeyPatch) -> None:
        self.processes, self.raised, self.url, self.reloaded = list[OnThread](), list[int](), "", list[list[str]]()
        make_server, work = server.make_server, server._Workers.run

        def process(**given: Any) -> OnThread:
            self.processes.append(OnThread(**given))
            return self.processes[-1]

        def noted_server(*given: Any, **more: Any) -> Any:
            server = make_server(*given, **more)
            threading.current_thread().process.server = server  # type: ignore[attr-defined]
            return server

        def noted_run(parent: server._Workers, on_start: Any) -> int | None:
            self.parent = parent
            return work(parent, on_start)

        patch.setattr(server, "_CONTEXT", SimpleNamespace(Pipe=multiprocessing.Pipe, Process=process))
        patch.setattr(server, "make_server", noted_server)
        patch.setattr(server._Workers, "run", noted_run)
        patch.setattr(os, "setsid", lambda: None, raising=False)
        patch.setattr(signal, "raise_signal", self.raised.append)
        patch.setenv(ADMIN_KEYS, ADMIN)
        patch.delenv(KEYS, raising=False)
        self.thread = threading.Thread(target=self._serve, args=(run,))

    def _serve(self, run: Path) -> None:
        def started(url: str, _: list[str]) -> None:
            self.url = url

        server.serve_in_workers(
            RunLoader(sources=named_runs([f"stars={run}"]), mapped=True),
            workers=2,
            port=0,
            settings=ServeSettings(timeout=PATIENCE),
            on_start=started,
            on_reload=self.reloaded.append,
        )

    def stop(self) -> None:
        """End the service, also one that has not begun to answer."""
        for process in self.processes:
            until(lambda process=process: process.server is not None or not process.is_alive())
        self.parent._stop(signal.SIGTERM, None)
        self.thread.join()


@pytest.mark.exhaustive
@pytest.mark.slow
def test_the_parent_of_two_processes(
    runs: Path,
    models: dict[str, ServedModel],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """They answer as one; one that ends is started again; all load other runs, or none does; all stop."""
    before, after = (expected_of(models[name]) for name in ("injector", "pln"))
    run = shutil.copytree(runs / "injector", tmp_path / "run")
    service = Parent(run, monkeypatch)
    service.thread.start()
    try:
        until(lambda: bool(service.url) or not service.thread.is_alive())

        def reload(run: Path) -> int:
            body, headers = {"runs": [f"stars={run}"]}, {"authorization": f"Bearer {ADMIN}"}
            return httpx.post(f"{service.url}/v1/reload", json=body, headers=headers, timeout=PATIENCE).status_code

        assert all_say(service.url, before)
        until(lambda: sum(texts(service.url).values()) == 12)
        assert len(service.processes) == 2
        service.processes[0].kill()
        assert ask(service.url).status_code == 200, "the other one answers"
        until(lambda: len(service.processes) == 3 and service.processes[2].answers)
        until(lambda: all_say(service.url, before) and set(texts(service.url)) == {"0", "1"})
        assert reload(broken(runs, tmp_path / "broken")) == 422
        assert all_say(service.url, before)
        run.rename(tmp_path / "old")
        assert all_say(service.url, before), "they go on with what they have loaded"
        shutil.copytree(runs / "pln", run)
        service.processes[1].kill()
        until(lambda: "is another model than the other processes have loaded" in caplog.text)
        assert all_say(service.url, before), "none answers with another model"
        service.parent._hang_up(1, None)
        until(lambda: bool(service.reloaded))
        until(lambda: all_say(service.url, after) and set(texts(service.url)) == {"0", "1"})
        service.reloaded.clear()
        assert reload(runs / "pln") == 200
        until(lambda: all_say(service.url, after))
        service.parent._hang_up(1, None)
        until(lambda: bool(service.reloaded))
        assert service.reloaded[0][0].startswith(f"stars: classification from {runs / 'pln'}")
    finally:
        service.stop()
    assert service.raised[0] == signal.SIGTERM
    assert not any(process.is_alive() for process in service.processes)


@pytest.mark.slow
@pytest.mark.exhaustive
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

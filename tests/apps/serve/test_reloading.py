"""Runs that are exchanged while the service answers: no request is refused, and a broken folder changes nothing."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import signal
import threading
import weakref
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from live_service import PATIENCE, broken, client_of, point, service_of, until

from attribune.apps.serve import RunLoader, ServeSettings, named_runs, server
from attribune.apps.serve.models import compute
from attribune.apps.serve.server import Reloader
from attribune.errors import AttribuneError, ConfigError

pytestmark = pytest.mark.slow

BODY = {"model": "stars", "text": "a great film", "attributes": {"user": "u1"}}


@pytest.fixture
def link(runs: Path, tmp_path: Path) -> Path:
    """A link to the run that is served."""
    (tmp_path / "current").symlink_to(runs / "injector")
    return tmp_path / "current"


def loader_of(link: Path, **options: bool) -> RunLoader:
    return RunLoader(sources=named_runs([f"stars={link}"]), **options)


def test_another_run_takes_over_while_requests_are_answered(link: Path, runs: Path, tmp_path: Path) -> None:
    loader = loader_of(link)
    statuses, outputs, over = list[int](), list[float](), threading.Event()
    with client_of(loader.load()) as client, ThreadPoolExecutor(3) as pool, contextlib.ExitStack() as at_the_end:
        at_the_end.callback(over.set)
        reload = Reloader(service_of(client.app), loader)

        def ask() -> None:
            while not over.is_set():
                answer = client.post("/v1/predict", json=BODY)
                statuses.append(answer.status_code)
                outputs.append(answer.json()["predictions"][0]["output"]["probability_good"])

        asking = [pool.submit(ask) for _ in range(3)]
        until(lambda: len(statuses) > 5)
        point(link, runs / "pln")
        assert reload() == [f"stars: classification from {link}, reads user, tags, price"]
        count = len(statuses)
        until(lambda: len(statuses) > count + 5)

        point(link, broken(runs, tmp_path / "broken"))
        with pytest.raises(AttribuneError):
            reload()
        over.set()
        for one in asking:
            one.result()
    assert set(statuses) == {200}
    first, last = outputs[0], outputs[-1]
    assert abs(first - last) > 1e-3, "the other run has other weights"
    assert all(found in (pytest.approx(first, abs=1e-5), pytest.approx(last, abs=1e-5)) for found in outputs)


def test_models_that_are_replaced_are_freed(link: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    loader, lines, freed = loader_of(link), list[str](), list[bool]()

    def reload(running: server.Server, *, sockets: Any) -> None:
        first = weakref.ref(running.service.models["stars"])
        Reloader(running.service, loader)()
        gc.collect()
        freed.append(first() is None)

    monkeypatch.setattr(server.Server, "run", reload)
    server.serve(loader, port=0, say=lines.append)
    assert freed == [True]
    assert lines == [f"stars: classification from {link}, reads user, tags, price"]


@pytest.fixture
def raise_hangup(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[], None]]:
    """Sends this process SIGHUP, which a test that has no handler of its own ignores."""
    before = signal.signal(signal.SIGHUP, lambda *_: None)
    yield lambda: signal.raise_signal(signal.SIGHUP)
    signal.signal(signal.SIGHUP, before)


@pytest.mark.skipif(not hasattr(signal, "SIGHUP"), reason="needs POSIX signals")
@pytest.mark.parametrize("is_early", [True, False])
def test_a_signal_while_runs_are_loaded_counts_when_the_service_answers(
    is_early: bool, link: Path, monkeypatch: pytest.MonkeyPatch, raise_hangup: Callable[[], None]
) -> None:
    lines, asked = list[str](), list[str]()

    def load(loader: RunLoader) -> Any:
        if is_early:
            raise_hangup()
        return compute(loader._load)

    async def startup(*_: Any, **__: Any) -> None:
        assert not asked, "nothing is loaded again before requests are answered"

    def run(running: server.Server, *, sockets: Any) -> None:
        asyncio.run(running.startup(sockets))

    monkeypatch.setattr(RunLoader, "load", load)
    monkeypatch.setattr(Reloader, "in_background", lambda *_: asked.append("again"))
    monkeypatch.setattr("uvicorn.Server.startup", startup)
    monkeypatch.setattr(server.Server, "run", run)
    server.serve(loader_of(link), port=0, say=lines.append)
    assert asked == ["again"] * is_early
    assert "serving at" in lines[-1]


def test_a_reload_while_another_runs_comes_after_it_and_once(link: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What changes after a reload has read its files is loaded, too."""
    loader = loader_of(link)
    began, go_on, loads = threading.Event(), threading.Event(), list[int]()

    def load(one: RunLoader) -> Any:
        loads.append(1)
        began.set()
        assert go_on.wait(PATIENCE)
        return {}

    with client_of(loader.load()) as client, ThreadPoolExecutor(4) as pool:
        reload = Reloader(service_of(client.app), loader)
        monkeypatch.setattr(RunLoader, "load_beside", load)
        first = pool.submit(reload)
        assert began.wait(PATIENCE)
        others = [pool.submit(reload) for _ in range(3)]
        until(lambda: reload._asked == 4)
        go_on.set()
        assert all(one.result() == [] for one in [first, *others])
    assert len(loads) == 2


def test_a_service_that_changes_its_runs_is_not_reloaded(link: Path) -> None:
    loader = loader_of(link, enrol=True)
    with (
        client_of(loader.load()) as client,
        pytest.raises(ConfigError, match="with --enrol the service itself changes its runs"),
    ):
        Reloader(service_of(client.app), loader)()


def test_the_end_of_a_terminal_is_the_end_of_the_service(link: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As long as it is there, or where there was none, the same signal is a wish to load the runs again."""
    models = loader_of(link).load()
    for before, after, ends in ((True, True, False), (False, False, False), (True, False, True)):
        asked = list[str]()
        monkeypatch.setattr(server, "has_terminal", lambda there=before: there)
        one: Any = server.make_server(models, host="127.0.0.1", settings=ServeSettings())
        one.on_hangup = lambda asked=asked: asked.append("again")
        monkeypatch.setattr(server, "has_terminal", lambda there=after: there)
        one._hang_up(1, None)
        assert (one.should_exit, asked) == (ends, [] if ends else ["again"])
    one = server.make_server(models, host="127.0.0.1", settings=ServeSettings())
    one._hang_up(1, None)
    assert one.should_exit, "nobody said how to load the runs again"
    ended = list[int]()
    monkeypatch.setattr(server, "end_at_once", lambda sig, _: ended.append(sig))
    one._hang_up(1, None)
    one.handle_exit(2, None)
    assert ended == [1, 2], "a second signal does not wait for what is being answered"

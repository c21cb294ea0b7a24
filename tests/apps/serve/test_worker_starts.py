"""Processes of a service that cannot be started: they are tried again, and never answer with another model."""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from attribune.apps.serve import ServeSettings, server
from attribune.apps.serve.models import RunLoader
from attribune.apps.serve.server import _Loaded, _Missing, _Workers
from attribune.core.checksums import CHECKSUMS
from attribune.core.logs import logging_to_stderr
from attribune.errors import AttribuneError, ModelFolderError

LINES = ["stars: classification"]


def saved_model(folder: Path, content: str) -> Path:
    """What tells a saved model from others."""
    folder.mkdir(exist_ok=True)
    for name in ("config.json", "model.safetensors", CHECKSUMS):
        (folder / name).write_text(content)
    return folder


@pytest.fixture
def loader(tmp_path: Path) -> RunLoader:
    """Loads a saved model."""
    return RunLoader(sources={"stars": str(saved_model(tmp_path / "model", "first"))}, mapped=True)


def vanish(folder: Path) -> None:
    folder.rename(folder.with_name("gone"))


def retrain(folder: Path) -> None:
    vanish(folder)
    saved_model(folder, "second")


def write_over(folder: Path) -> None:
    (folder / CHECKSUMS).write_text("second")


CHANGES: list[Callable[[Path], None]] = [vanish, retrain, write_over]


@pytest.mark.parametrize("change", CHANGES)
def test_a_process_loads_only_what_the_others_serve(
    change: Callable[[Path], None], loader: RunLoader, tmp_path: Path
) -> None:
    served = loader.marks()
    change(tmp_path / "model")
    loaded = list[str]()
    with pytest.raises(ModelFolderError, match=r"model is gone, or is another model .* SIGHUP"):
        _Loaded.by(lambda: loaded, loader, same_as=served)
    assert _Loaded.by(lambda: LINES, loader).marks == loader.marks() != served


def test_a_copy_is_the_same_model(loader: RunLoader, tmp_path: Path) -> None:
    served = loader.marks()
    vanish(tmp_path / "model")
    saved_model(tmp_path / "model", "first")
    assert _Loaded.by(lambda: LINES, loader, same_as=served).lines == LINES


@pytest.mark.parametrize("change", CHANGES)
def test_what_changes_while_it_is_loaded_is_not_served(
    change: Callable[[Path], None], loader: RunLoader, tmp_path: Path
) -> None:
    def load() -> list[str]:
        change(tmp_path / "model")
        return LINES

    with pytest.raises(ModelFolderError, match="was changed while it was loaded"):
        _Loaded.by(load, loader)


def test_any_failure_is_told(loader: RunLoader) -> None:
    """A parent that waits for the result of a thread would wait for ever."""

    def load() -> list[str]:
        raise OSError(5, "Input/output error")

    with pytest.raises(ModelFolderError, match=r"cannot be loaded .*Input/output error"):
        _Loaded.by(load, loader)


class Process:
    """Stands in for a process that has ended."""

    def join(self) -> None:
        """Nothing is left to wait for."""


class Started:
    """A parent whose processes start as a test says, on a clock that it sets."""

    def __init__(self, loader: RunLoader, patch: pytest.MonkeyPatch, *, running: int = 1) -> None:
        self.now, self.attempts, self.failure = 0.0, list[float](), AttribuneError("it is gone")
        self.parent = _Workers(loader, 2, None, "127.0.0.1", ServeSettings(), Path(), lambda _: None)  # type: ignore[arg-type]
        self.parent.running = {number: self.worker() for number in range(running)}
        self.parent.missing = {number: _Missing() for number in range(running, 2)}
        patch.setattr(server, "time", SimpleNamespace(monotonic=lambda: self.now))
        patch.setattr(_Workers, "_start", self.start)
        patch.setattr(_Workers, "_started", self.started)
        self.is_whole = False

    @staticmethod
    def worker() -> Any:
        """A process, as the parent knows it."""
        return SimpleNamespace(process=Process())

    def start(self, number: int) -> Any:
        self.attempts.append(self.now)
        self.parent.running[number] = self.worker()

    def started(self, _: Any) -> list[str]:
        if not self.is_whole:
            raise self.failure
        return LINES

    def wait(self) -> None:
        """Let the time of the next attempt come."""
        pause = self.parent._until_next_attempt()
        assert pause is not None
        self.now += pause
        self.parent._start_missing()


def test_a_process_is_tried_again_until_it_starts(
    loader: RunLoader, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    one = Started(loader, monkeypatch)
    with caplog.at_level(logging.WARNING):
        for _ in range(9):
            one.wait()
        pauses = [later - before for before, later in zip(one.attempts, one.attempts[1:], strict=False)]
        assert pauses == [2, 4, 8, 16, 32, 60, 60, 60]
        assert [record.getMessage() for record in caplog.records] == [
            "process 1 of the service was not started, which is tried again; 1 of 2 answer: it is gone"
        ]
        one.failure = AttribuneError("it is damaged")
        one.wait()
        assert "it is damaged" in caplog.records[-1].getMessage()
        one.is_whole = True
        one.wait()
    assert caplog.records[-1].getMessage() == "process 1 of the service was started"
    assert (sorted(one.parent.running), one.parent.missing, one.parent._until_next_attempt()) == ([0, 1], {}, None)


def test_a_service_without_any_process_goes_on_trying(loader: RunLoader, monkeypatch: pytest.MonkeyPatch) -> None:
    one = Started(loader, monkeypatch, running=0)
    for _ in range(3):
        one.wait()
    assert (one.parent.running, sorted(one.parent.missing)) == ({}, [0, 1])
    one.is_whole = True
    one.wait()
    assert sorted(one.parent.running) == [0, 1]


def test_a_reload_has_missing_processes_tried_at_once(loader: RunLoader, monkeypatch: pytest.MonkeyPatch) -> None:
    one = Started(loader, monkeypatch, running=0)
    for _ in range(5):
        one.wait()
    one.is_whole = True
    one.parent.hangups[1].send_bytes(b"")
    one.parent._reload_if_asked([one.parent.hangups[0]])
    assert one.parent._until_next_attempt() == 0
    one.parent._start_missing()
    assert sorted(one.parent.running) == [0, 1]


def test_a_service_that_stops_tries_nothing(loader: RunLoader, monkeypatch: pytest.MonkeyPatch) -> None:
    one = Started(loader, monkeypatch, running=0)
    one.wait()
    one.parent._stop(15, None)
    one.parent._watch()
    assert one.attempts == [0, 0]


def test_what_happens_again_is_said_again(capsys: pytest.CaptureFixture[str]) -> None:
    """A process that ends a second time ends with the same words."""
    with logging_to_stderr(logging.WARNING):
        for _ in range(2):
            server._say("process %d of the service was started", 0)
    assert capsys.readouterr().err == "warning: process 0 of the service was started\n" * 2

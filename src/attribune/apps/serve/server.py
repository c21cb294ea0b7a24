"""The processes of a service: one, or several over one copy of the weights, until they are stopped."""

from __future__ import annotations

import contextlib
import functools
import logging
import multiprocessing
import os
import queue
import signal
import socket
import tempfile
import threading
import time
from collections.abc import Callable, Collection, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from multiprocessing.connection import Connection, wait
from multiprocessing.context import SpawnProcess
from pathlib import Path
from types import FrameType
from typing import Any

import uvicorn

from attribune.apps.serve.app import create_app
from attribune.apps.serve.limits import LimitedConnection
from attribune.apps.serve.metrics import WorkerMetrics
from attribune.apps.serve.models import (
    AlreadyLoadingError,
    LiveModels,
    Marks,
    Reload,
    Reloader,
    RunLoader,
    ServedModel,
    in_background,
)
from attribune.apps.serve.settings import Keys, ServeSettings, hosts_for
from attribune.core.threads import core_count
from attribune.errors import AttribuneError, ConfigError, ModelFolderError

__all__ = [
    "end_at_once",
    "has_terminal",
    "listen",
    "make_server",
    "serve",
    "serve_in_workers",
    "url",
]

_LOG = logging.getLogger(__name__)
_CONTEXT = multiprocessing.get_context("spawn")  # a fork of a process with OpenMP's threads hangs
_THREADS = "OMP_NUM_THREADS"
_FIRST_PAUSE, _LONGEST_PAUSE = 2.0, 60.0  # seconds between attempts to start a process


def serve(
    models: Mapping[str, ServedModel],
    *,
    host: str = "127.0.0.1",
    port: int = 8000,
    settings: ServeSettings | None = None,
    loader: RunLoader | None = None,
    on_start: Callable[[str], None] = lambda _: None,
    on_reload: Callable[[list[str]], None] = lambda _: None,
) -> None:
    """Answer requests until the process is interrupted or stopped (SIGINT, SIGTERM); a second signal ends it.

    Args:
        models: by name, as `load_models` returns them.
        host: address to listen on. Callers from other machines must send a key of `ATTRIBUNE_SERVE_KEYS`.
        port: 0 takes a free one.
        loader: loaded them, and loads them again at SIGHUP, or for callers with a key of `ATTRIBUNE_SERVE_ADMIN_KEYS`.
            Without it, or when the terminal has gone, SIGHUP stops the service.
        on_start: called with the URL once requests are answered.
        on_reload: called with a line on each model when they were loaded again at SIGHUP.

    Raises:
        ConfigError: for a host beyond this machine without keys, or an address that cannot be listened on.
    """
    live = LiveModels(models)
    reload = None if loader is None else Reloader(live, loader)
    with listen(host, port) as listener:
        address = url(host, listener)
        server = make_server(
            live,
            host=host,
            settings=settings or ServeSettings(),
            reload=reload,
            on_start=lambda: on_start(address),
            on_hangup=None if reload is None else functools.partial(in_background, reload, on_reload),
        )
        server.run(sockets=[listener])


def url(host: str, listener: socket.socket) -> str:
    """Return the address of a service."""
    return f"http://{f'[{host}]' if ':' in host else host}:{listener.getsockname()[1]}"


def make_server(
    models: Mapping[str, ServedModel],
    *,
    host: str,
    settings: ServeSettings,
    workers: WorkerMetrics | None = None,
    reload: Reload | None = None,
    on_start: Callable[[], None] = lambda: None,
    on_hangup: Callable[[], None] | None = None,
) -> uvicorn.Server:
    """Make the server of a host, whose `run` answers requests.

    Args:
        workers: where the processes of the service leave their metrics, if there are several.
        reload: loads the runs again.
        on_start: called once requests are answered.
        on_hangup: called at SIGHUP, which otherwise stops the server.

    Raises:
        ConfigError: for a host beyond this machine without keys, or for callers who need keys of their own to change
            values, and have none.
    """
    settings = settings.model_copy(update={"allowed_hosts": hosts_for(host, settings.allowed_hosts)})
    limit = settings.max_connections + max(settings.max_connections // 2, 16)  # some ask, others wait
    connection: Any = functools.partial(LimitedConnection, timeout=settings.timeout, limit=limit)
    config = uvicorn.Config(
        create_app(
            models,
            settings=settings,
            keys=Keys.of_environment(host, enrol=settings.enrol),
            workers=workers,
            reload=reload,
        ),
        http=connection,
        ws="none",
        log_config=None,
        access_log=False,
        timeout_graceful_shutdown=int(settings.timeout) + 1,
        server_header=False,
    )
    return _Server(config, on_start, on_hangup)


class _Server(uvicorn.Server):
    """Stops at a signal when it has answered what it was asked, and at a second one at once."""

    def __init__(
        self, config: uvicorn.Config, on_start: Callable[[], None], on_hangup: Callable[[], None] | None
    ) -> None:
        super().__init__(config)
        self._on_start, self._on_hangup = on_start, on_hangup
        self._had_terminal = has_terminal()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Begin to answer, and say so."""
        await super().startup(sockets)
        if not self.should_exit:
            self._on_start()

    @contextmanager
    def capture_signals(self) -> Generator[None, None, None]:
        """Handle SIGHUP too, unless it is ignored, as under nohup."""
        hangup = getattr(signal, "SIGHUP", None)
        with super().capture_signals():
            if hangup is None or threading.current_thread() is not threading.main_thread():
                yield
                return
            before = signal.getsignal(hangup)
            if before is not signal.SIG_IGN:
                signal.signal(hangup, self._hang_up)
            try:
                yield
            finally:
                signal.signal(hangup, before)

    def _hang_up(self, sig: int, frame: FrameType | None) -> None:
        """Do what SIGHUP asks for; it stops a service whose terminal was closed."""
        if self._on_hangup is None or self.should_exit or (self._had_terminal and not has_terminal()):
            self.handle_exit(sig, frame)
        else:
            self._on_hangup()

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Stop."""
        if self.should_exit:
            end_at_once(sig, frame)
        super().handle_exit(sig, frame)


def has_terminal() -> bool:
    """Whether this process has a terminal that it would be stopped with."""
    try:
        os.close(os.open("/dev/tty", os.O_RDONLY | getattr(os, "O_NOCTTY", 0)))
    except OSError:
        return False
    return True


def end_at_once(sig: int, _: FrameType | None) -> None:
    """End the process as the signal does without a handler; for SIGINT with the exit code of an interrupted verb."""
    os.write(2, b"\nattribune serve: ended at once; what was being answered is lost\n")
    if sig == signal.SIGINT:
        os._exit(130)
    signal.signal(sig, signal.SIG_DFL)
    signal.raise_signal(sig)


def listen(host: str, port: int) -> socket.socket:
    """Listen at an address; ConfigError where that cannot be."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family, backlog=2048)
    except OSError as error:
        raise ConfigError(
            f"the service cannot listen on {host}:{port} ({error.strerror or error}): another program may have the "
            "port, or the address is not this machine's; choose another with --port or --host"
        ) from error


def serve_in_workers(
    loader: RunLoader,
    *,
    workers: int,
    host: str = "127.0.0.1",
    port: int = 8000,
    settings: ServeSettings | None = None,
    on_start: Callable[[str, list[str]], None] = lambda *_: None,
    on_reload: Callable[[list[str]], None] = lambda _: None,
) -> None:
    """Answer requests in several processes until this one is stopped; a second signal ends them at once.

    They accept connections of one socket, and the limits of `settings` hold for each. A process that ends on its own is
    started again, and tried again from time to time while it cannot be: the others go on with what they have loaded,
    and no process answers with another model than they do.

    Args:
        loader: loads the models in each process, with ``mapped=True`` for one copy of the weights. All load them again,
            and then serve them, at SIGHUP, or for callers with a key of `ATTRIBUNE_SERVE_ADMIN_KEYS`.
        workers: number of processes.
        host: address to listen on. Callers from other machines must send a key of `ATTRIBUNE_SERVE_KEYS`.
        port: 0 takes a free one.
        on_start: called with the URL, and a line on each model, once all processes answer.
        on_reload: called with a line on each model when they were loaded again at SIGHUP.

    Raises:
        AttribuneError: whatever loading raises when the service starts.
        ConfigError: for no process, with `enrol`, for a host beyond this machine without keys, or an address that
            cannot be listened on.
    """
    settings = settings or ServeSettings()
    if workers < 1:
        raise ConfigError(f"--workers {workers}: give at least 1")
    if settings.enrol:
        raise ConfigError(
            f"--workers {workers} with --enrol: a value learned in one process would be unknown to the others, so "
            "leave one of them out"
        )
    Keys.of_environment(host, enrol=False)
    with listen(host, port) as listener, tempfile.TemporaryDirectory(prefix="attribune-serve-") as folder:
        stopped_by = _Workers(loader, workers, listener, host, settings, Path(folder), on_reload).run(on_start)
    if stopped_by is not None:
        signal.raise_signal(stopped_by)  # as uvicorn does, so that the process ends as callers of signals expect


@dataclass(frozen=True)
class _Worker:
    """A process that answers, as its parent knows it.

    Args:
        pipe: on which it says that it answers, or why it does not; it stops when the other end is closed.
    """

    process: SpawnProcess
    pipe: Connection


@dataclass(frozen=True)
class _Loaded:
    """What a process has loaded.

    Args:
        lines: one on each model.
        marks: of the runs, from before and after they were loaded.
    """

    lines: list[str]
    marks: Marks

    @classmethod
    def by(cls, load: Callable[[], list[str]], loader: RunLoader, *, same_as: Marks | None = None) -> _Loaded:
        """Load runs.

        Args:
            load: does it, and returns the lines.
            same_as: what the other processes serve, if there are any.

        Raises:
            AttribuneError: where that fails, a run was changed meanwhile, or is not what the others serve.
        """
        before = loader.marks()
        if same_as is not None and (changed := _differing(same_as, before)):
            raise ModelFolderError(
                f"{loader.sources[changed[0]]} is gone, or is another model than the other processes have loaded. "
                "They go on with theirs; SIGHUP or POST /v1/reload has all of them load what is there"
            )
        try:
            lines = load()
        except AttribuneError:
            raise
        except Exception as error:
            raise ModelFolderError(f"the runs cannot be loaded ({type(error).__name__}: {error})") from error
        if changed := _differing(before, loader.marks()):
            raise _changed_meanwhile(loader, changed[0])
        return cls(lines, before)


def _differing(first: Marks, second: Marks) -> list[str]:
    return [name for name in first if first[name] != second.get(name)]


def _changed_meanwhile(loader: RunLoader, name: str) -> ModelFolderError:
    return ModelFolderError(f"{loader.sources[name]} was changed while it was loaded: have it loaded again")


@dataclass
class _Missing:
    """A process that cannot be started now.

    Args:
        reason: why; what was said already is not said again.
        pause: seconds until the next attempt.
        due: when that is, on the clock of `time.monotonic`.
    """

    reason: str = ""
    pause: float = _FIRST_PAUSE
    due: float = 0.0


# uvicorn's own supervisor restarts processes one by one, with whatever model there is by then; these serve one model,
# exchange it together, and go on with it where it cannot be loaded again.
@dataclass
class _Workers:
    loader: RunLoader
    count: int
    listener: socket.socket
    host: str
    settings: ServeSettings
    folder: Path
    on_reload: Callable[[list[str]], None]
    running: dict[int, _Worker] = field(default_factory=dict)
    missing: dict[int, _Missing] = field(default_factory=dict)
    marks: Marks | None = None  # of what all serve
    stopped_by: int | None = None
    had_terminal: bool = field(default_factory=has_terminal)
    hangups: tuple[Connection, Connection] = field(default_factory=lambda: _CONTEXT.Pipe(duplex=False))

    @property
    def stopping(self) -> bool:
        return self.stopped_by is not None

    def run(self, on_start: Callable[[str, list[str]], None]) -> int | None:
        """Answer until a signal comes, which is returned."""
        try:
            with self._stopped_by_signals():
                lines = self._started(self._start(0))  # alone, so that an error of all is shown once
                later = [self._start(number) for number in range(1, self.count) if not self.stopping]
                for worker in later:
                    self._started(worker)
                if not self.stopping:
                    on_start(url(self.host, self.listener), lines)
                self._watch()
            return self.stopped_by
        finally:
            for worker in self.running.values():
                worker.process.kill()
                worker.process.join()

    def _start(self, number: int) -> _Worker:
        pipe, others = _CONTEXT.Pipe()
        before = os.environ.get(_THREADS)
        os.environ[_THREADS] = before or str(max(1, core_count() // self.count))
        metrics = WorkerMetrics(self.folder, number)
        serving = self.marks if self.running else None
        try:
            process = _CONTEXT.Process(
                target=_work,
                args=(self.loader, serving, self.listener, others, self.host, self.settings, metrics),
                name=f"attribune-serve-{number}",
            )
            process.start()
        finally:
            if before is None:
                del os.environ[_THREADS]
        others.close()
        self.running[number] = _Worker(process, pipe)
        if self.stopping:  # the signal came while it was started
            process.terminate()
        return self.running[number]

    def _started(self, worker: _Worker) -> list[str]:
        """Wait until a process answers, and return its lines on the models; raise what went wrong."""
        try:
            said = worker.pipe.recv()
        except EOFError:
            worker.process.join()
            if self.stopping:
                return []
            said = ConfigError(
                f"a process of the service ended before it answered, with exit code {worker.process.exitcode}: "
                "the memory may be too small for so many; give fewer --workers"
            )
        if isinstance(said, Exception):
            raise said
        assert isinstance(said, _Loaded)
        self.marks = said.marks
        return said.lines

    def _watch(self) -> None:
        """Wait until all have ended; restart those that end unasked, and let all load what is asked for."""
        while self.running or (self.missing and not self.stopping):
            workers = list(self.running.values())
            ready = wait(
                [*(one.process.sentinel for one in workers), *(one.pipe for one in workers), self.hangups[0]],
                timeout=self._until_next_attempt(),
            )
            self._reload_if_asked(ready)
            for number, worker in list(self.running.items()):
                if worker.process.is_alive():
                    continue
                worker.process.join()
                del self.running[number]
                if not self.stopping:
                    code = worker.process.exitcode
                    _say("process %d of the service ended with exit code %s and is restarted", number, code)
                    self.missing[number] = _Missing()
            self._start_missing()

    def _until_next_attempt(self) -> float | None:
        if self.stopping or not self.missing:
            return None
        return max(0.0, min(one.due for one in self.missing.values()) - time.monotonic())

    def _start_missing(self) -> None:
        """Try to start the processes whose time has come."""
        for number, missing in list(self.missing.items()):
            if self.stopping or missing.due > time.monotonic():
                continue
            try:
                self._started(self._start(number))
                del self.missing[number]
            except AttribuneError as error:
                self.running.pop(number).process.join()
                if str(error) != missing.reason:
                    _say(
                        "process %d of the service was not started, which is tried again; %d of %d answer: %s",
                        number,
                        len(self.running),
                        self.count,
                        error,
                    )
                self.missing[number] = _Missing(
                    reason=str(error),
                    pause=min(2 * missing.pause, _LONGEST_PAUSE),
                    due=time.monotonic() + missing.pause,
                )
            else:
                if missing.reason and not self.stopping:
                    _say("process %d of the service was started", number)

    def _start_now(self) -> None:
        """Let the next attempts to start missing processes come at once."""
        self.missing = {number: _Missing(reason=one.reason) for number, one in self.missing.items()}

    def _reload_if_asked(self, ready: Collection[object]) -> None:
        """Let all processes load the runs again, for a caller of one of them, or since the signal came."""
        if self.hangups[0] in ready:
            self.hangups[0].recv_bytes()
            if self.stopping:
                return
            result = self._reload(None)
            if isinstance(result, AttribuneError):
                _say("the runs were not reloaded, and the old ones are still served: %s", result)
            elif result:
                self.on_reload(result)
        for worker in list(self.running.values()):
            if worker.pipe in ready and (asked := _received(worker)) is not None:
                _tell(worker, "answer", self._reload(asked[1]))

    def _reload(self, runs: Sequence[str] | None) -> list[str] | AttribuneError:
        """Let all processes load runs, and serve them once all have; returns a line on each, or why it was not done."""
        try:
            loader = self.loader.of(runs)
        except AttribuneError as error:
            return error
        workers = list(self.running.values())
        for worker in workers:
            _tell(worker, "load", runs)
        said = [found for worker in workers if (found := self._reply(worker)) is not None]  # one that ended starts anew
        errors = [found for found in said if isinstance(found, AttribuneError)]
        loaded = [found for found in said if isinstance(found, _Loaded)]
        changed = {name for one in loaded for name in _differing(loaded[0].marks, one.marks)}
        errors += [_changed_meanwhile(loader, name) for name in changed]
        for worker in workers:
            _tell(worker, "drop" if errors else "swap")
        if errors:
            return errors[0]
        self.loader = loader
        self._start_now()
        if not loaded:
            return []
        self.marks = loaded[0].marks
        return loaded[0].lines

    def _reply(self, worker: _Worker) -> Any:
        """Return what a process says of its loading; None if it has ended. Others that ask meanwhile are refused."""
        while (message := _received(worker)) is not None:
            if message[0] == "loaded":
                return message[1]
            _tell(worker, "answer", AlreadyLoadingError())
        return None

    @contextmanager
    def _stopped_by_signals(self) -> Generator[None, None, None]:
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        names = ("SIGINT", "SIGTERM", "SIGHUP")
        signals = [one for name in names if (one := getattr(signal, name, None)) is not None]
        before = {one: signal.getsignal(one) for one in signals}
        for one, handler in before.items():
            if handler is not signal.SIG_IGN:
                signal.signal(one, self._hang_up if one == getattr(signal, "SIGHUP", None) else self._stop)
        try:
            yield
        finally:
            for one, handler in before.items():
                signal.signal(one, handler)

    def _hang_up(self, sig: int, frame: FrameType | None) -> None:
        """Have the runs loaded again; when the terminal was closed, stop."""
        if self.stopping or (self.had_terminal and not has_terminal()):
            self._stop(sig, frame)
        else:
            self.hangups[1].send_bytes(b"")

    def _stop(self, sig: int, frame: FrameType | None) -> None:
        """Let all answer what they were asked; at a second signal end them at once."""
        for worker in self.running.values():
            if self.stopping:
                worker.process.kill()
            else:
                worker.process.terminate()
        if self.stopping:
            end_at_once(sig, frame)
        self.stopped_by = sig
        self.hangups[1].send_bytes(b"")  # also where no process is left whose end would be waited for


def _say(text: str, *arguments: Any) -> None:
    """Log what happened to the service, each time that it does."""
    _LOG.warning(text, *arguments, extra={"is_event": True})


def _tell(worker: _Worker, *message: Any) -> None:
    with contextlib.suppress(OSError):  # it has ended
        worker.pipe.send(message)


def _received(worker: _Worker) -> Any:
    """Return a message of a process; None if it has ended."""
    try:
        return worker.pipe.recv()
    except (EOFError, OSError):
        return None


def _work(
    loader: RunLoader,
    marks: Marks | None,
    listener: socket.socket,
    pipe: Connection,
    host: str,
    settings: ServeSettings,
    metrics: WorkerMetrics,
) -> None:
    """Answer in this process until the parent stops it or has ended.

    Args:
        marks: of the runs that the others serve.
    """
    if hasattr(os, "setsid"):
        os.setsid()  # Ctrl-C in a terminal is for the parent, which tells its processes
    try:
        models = LiveModels({})

        def load() -> list[str]:
            models.replace(loader.load())
            return [model.summary() for model in models.values()]

        loaded = _Loaded.by(load, loader, same_as=marks)
        parent = _Parent(pipe, Reloader(models, loader))
        server = make_server(
            models,
            host=host,
            settings=settings,
            workers=metrics,
            reload=parent.reload,
            on_start=lambda: pipe.send(loaded),
            on_hangup=lambda: None,  # the parent handles it
        )
    except AttribuneError as error:
        pipe.send(error)
        return
    threading.Thread(target=parent.obey, daemon=True).start()
    server.run(sockets=[listener])


class _Parent:
    """The process that started this one, as this one knows it.

    Args:
        pipe: on which it tells what to do.
        reloader: loads what the parent asks for.
    """

    def __init__(self, pipe: Connection, reloader: Reloader) -> None:
        self._pipe, self._reloader = pipe, reloader
        self._answers = queue.SimpleQueue[Any]()
        self._asking, self._sending = threading.Lock(), threading.Lock()

    def reload(self, runs: Sequence[str] | None = None) -> list[str]:
        """Ask that all processes load runs; see `Reloader`."""
        if not self._asking.acquire(blocking=False):
            raise AlreadyLoadingError
        try:
            self._send("reload", runs)
            answer = self._answers.get()
        finally:
            self._asking.release()
        if isinstance(answer, AttribuneError):
            raise answer
        return list(answer)

    def obey(self) -> None:
        """Do what it tells, until it has ended; then stop."""
        try:
            while True:
                kind, *rest = self._pipe.recv()
                if kind == "load":
                    self._send("loaded", self._prepared(*rest))
                elif kind == "answer":
                    self._answers.put(*rest)
                else:
                    (self._reloader.swap if kind == "swap" else self._reloader.drop)()
        except (EOFError, OSError):
            signal.raise_signal(signal.SIGTERM)

    def _prepared(self, runs: Sequence[str] | None) -> _Loaded | AttribuneError:
        try:
            return _Loaded.by(lambda: self._reloader.prepare(runs), self._reloader.loader_of(runs))
        except AttribuneError as error:
            return error

    def _send(self, *message: Any) -> None:
        with self._sending:
            self._pipe.send(message)

"""The engine that runs the cells of a benchmark: processes of this machine.

Each cell has its own process, so that one that runs out of memory ends no other, and its memory can be measured.
"""

from __future__ import annotations

import logging
import multiprocessing
import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing import resource_tracker
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any

import torch

from attribune.core.logs import logging_to_stderr
from attribune.core.progress import ConsoleReporter, Reporter, quiet_libraries
from attribune.core.threads import core_count
from attribune_lab.benchmark.results import BenchmarkFolder
from attribune_lab.benchmark.runner import Outcome, run_cell


class Processes:
    """Processes of this machine, which share its cores; with `show`, cells show their progress on stderr.

    Where there are several GPUs, each process sees the one that the fewest of them use.
    """

    def __init__(self, folder: BenchmarkFolder, *, workers: int, show: bool) -> None:
        # A forked process need not import the libraries, but cannot use a device that its parent has initialised.
        self._context: Any = multiprocessing.get_context("spawn" if torch.version.cuda else "forkserver")
        if not torch.version.cuda:
            self._context.set_forkserver_preload(["attribune_lab.benchmark.runner", "attribune.core.progress"])
        self._folder, self._workers, self._show = folder, workers, show
        _ensure_quiet_tracker()
        threads = os.environ.get("OMP_NUM_THREADS", "")
        self._threads = int(threads) if threads.isdigit() and int(threads) else max(1, core_count() // workers)
        self._running: dict[Connection, tuple[Any, str]] = {}
        self._devices = _visible_devices()
        self._used: dict[Connection, str] = {}  # the device of each process, if there are several

    def has_room(self) -> bool:
        """Whether fewer than `workers` run."""
        return len(self._running) < self._workers

    def start(self, path: str) -> None:
        """Start a cell."""
        ours, theirs = self._context.Pipe()
        level = logging.getLogger("attribune").getEffectiveLevel()
        arguments = (theirs, str(self._folder.path.resolve()), path, self._threads, self._show, level, os.getcwd())
        process = self._context.Process(target=_in_process, args=arguments)
        if len(self._devices) > 1:
            busy = list(self._used.values())
            self._used[ours] = min(self._devices, key=busy.count)
            with _variable("CUDA_VISIBLE_DEVICES", self._used[ours]):
                process.start()
        else:
            process.start()
        theirs.close()
        self._running[ours] = (process, path)

    def wait(self) -> list[Outcome]:
        """Wait until a process has ended, or was killed."""
        outcomes = []
        for ready in wait(list(self._running)):
            assert isinstance(ready, Connection)
            process, path = self._running[ready]
            try:
                outcomes.append(ready.recv())
            except (EOFError, ConnectionResetError):
                process.join()
                outcomes.append(Outcome(path=path, done=False, word=f"failed: {_end(process.exitcode)}"))
            del self._running[ready]
            self._used.pop(ready, None)
            ready.close()
            process.join()
        return outcomes

    def close(self) -> None:
        """Stop the running processes."""
        for process, _ in self._running.values():
            process.terminate()
        for connection, (process, _) in self._running.items():
            process.join()
            connection.close()
        self._running.clear()


def _visible_devices() -> list[str]:
    """Return the GPUs that this process may use, by the names with which a process is given them."""
    count = torch.cuda.device_count()
    given = os.environ.get("CUDA_VISIBLE_DEVICES")
    return (given.split(",") if given else [str(number) for number in range(count)])[:count]


@contextmanager
def _variable(name: str, value: str) -> Iterator[None]:
    """Set an environment variable for the processes that start within a block."""
    before = os.environ.get(name)
    os.environ[name] = value
    try:
        yield
    finally:
        del os.environ[name]
        if before is not None:
            os.environ[name] = before


def _ensure_quiet_tracker() -> None:
    """Start Python's resource tracker without its warnings about locks that imported libraries leave to it."""
    with _variable("PYTHONWARNINGS", "ignore:resource_tracker:UserWarning"):
        resource_tracker.ensure_running()


def _end(code: int) -> str:
    if code == -signal.SIGKILL:
        return (
            "its process was killed, as the system does when memory runs out: use fewer workers, a smaller "
            "batch_size or a shorter max_length"
        )
    return f"its process ended with exit code {code}"


def _in_process(
    connection: Connection, folder: str, path: str, threads: int, show: bool, level: int, begun_in: str
) -> None:
    """Run one cell, and exit when the parent process has ended."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent decides
    threading.Thread(target=_leave_with, args=(connection,), daemon=True).start()
    with logging_to_stderr(level):
        connection.send(run_in_this_process(folder, path, threads, ConsoleReporter() if show else Reporter(), begun_in))


def _leave_with(connection: Connection) -> None:
    try:
        connection.recv()
    except (EOFError, OSError):
        os._exit(1)


def run_in_this_process(folder: str, path: str, threads: int, reporter: Reporter, begun_in: str) -> Outcome:
    """Run one cell here, with the working directory of the process that started the benchmark."""
    os.chdir(begun_in)  # paths of an experiment are relative to it
    torch.set_num_threads(threads)
    quiet_libraries()
    benchmark = BenchmarkFolder(Path(folder))
    experiment = benchmark.experiment()
    cell = next(cell for cell in experiment.cells() if cell.path == path)
    return run_cell(experiment, cell, benchmark, reporter=reporter)

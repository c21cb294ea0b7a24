"""The cells of a benchmark on several machines, by Ray; the folder must be one that all of them see."""

from __future__ import annotations

import importlib.util
import logging
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from attribune.benchmark.experiment import Cell
from attribune.benchmark.results import BenchmarkFolder
from attribune.benchmark.runner import Progress, is_ready, run_cell
from attribune.errors import ConfigError
from attribune.training.progress import Reporter

__all__ = ["run_on_ray"]

_RETRIES = 5


def run_on_ray(
    folder: BenchmarkFolder, sets: Sequence[str], *, workers: int, tell: Callable[[Cell, str], None]
) -> list[Cell]:
    """Run the cells that are missing as tasks of a Ray cluster; returns those that failed.

    The cluster is the one that ``RAY_ADDRESS`` names, else one on this machine. A task whose worker dies is begun
    again, and goes on from the cell's last checkpoint.

    Args:
        folder: of the benchmark.
        sets: whose cells are run.
        workers: tasks at a time on this machine, which share its cores; of a cluster, what its nodes have room for.
        tell: told what happens to a cell.

    Raises:
        ConfigError: where Ray is not installed.
    """
    if importlib.util.find_spec("ray") is None:
        raise ConfigError("--engine ray needs Ray: pip install 'attribune[ray]', or run with --workers on one machine")
    # As a plain process would run; by default Ray's give way to everything else on the machine.
    os.environ.setdefault("RAY_worker_niceness", "0")
    import ray

    cores = os.cpu_count() or 1
    address = os.environ.get("RAY_ADDRESS")
    own = None if address else max(cores, workers)
    ray.init(address=address, num_cpus=own, include_dashboard=False, log_to_driver=False, logging_level=logging.ERROR)
    try:
        share = max(1, (own or cores) // workers)
        threads = max(1, cores // workers)
        task = ray.remote(num_cpus=share, max_retries=_RETRIES)(_one)
        return _drive(ray, task, folder, sets, tell, threads=threads)
    finally:
        ray.shutdown()


def _drive(
    ray: Any,
    task: Any,
    folder: BenchmarkFolder,
    sets: Sequence[str],
    tell: Callable[[Cell, str], None],
    *,
    threads: int,
) -> list[Cell]:
    """Hand out cells as soon as the trials that they wait for are done."""
    experiment = folder.experiment().on(sets)
    cells = list(experiment.cells())
    running: dict[Any, Cell] = {}
    handed: set[str] = set()
    failed: list[Cell] = []
    while True:
        for cell in cells:
            if cell.path not in handed and is_ready(experiment, cell, folder):
                handed.add(cell.path)
                tell(cell, "handed out")
                running[task.remote(str(folder.path.resolve()), cell.path, threads)] = cell
        if not running:
            return failed
        (ended, *_), _ = ray.wait(list(running), num_returns=1)
        cell = running.pop(ended)
        try:
            done, words = ray.get(ended)
        except ray.exceptions.RayError as error:
            done, words = False, f"failed: {type(error).__name__}: {str(error).strip().splitlines()[0]}"
        if done is False:
            failed.append(cell)
        tell(cell, words)


def _one(folder: str, path: str, threads: int) -> tuple[bool | None, str]:
    """In a worker: run one cell; whether it is done, and a word for it."""
    import torch

    from attribune.cli.console import quiet_libraries

    torch.set_num_threads(threads)
    quiet_libraries()
    benchmark = BenchmarkFolder(Path(folder))
    experiment = benchmark.experiment()
    cell = next(cell for cell in experiment.cells() if cell.path == path)
    said: list[str] = []
    progress = Progress(cell=lambda _, word: said.append(word), reporter=Reporter())
    return run_cell(experiment, cell, benchmark, progress=progress), said[-1] if said else "run elsewhere"

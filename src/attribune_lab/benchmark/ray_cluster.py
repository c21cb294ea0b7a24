"""Cells as tasks of a Ray cluster."""

from __future__ import annotations

import os
from typing import Any

from attribune.core.cluster import connect
from attribune.core.progress import Reporter
from attribune_lab.benchmark.engine import Outcome
from attribune_lab.benchmark.processes import run_in_this_process
from attribune_lab.benchmark.results import BenchmarkFolder

__all__ = ["RayCluster"]


_RETRIES = 5


class RayCluster:
    """Tasks of the Ray cluster of ``RAY_ADDRESS``, or of one on this machine.

    The folder and the data must have the same paths on all nodes. If a worker dies, Ray restarts its task, which
    resumes from the cell's last checkpoint.

    Args:
        workers: tasks at a time, which share the cores and the devices of the cluster.

    Raises:
        ConfigError: if Ray is not installed, or the cluster has no node with a core.
    """

    def __init__(self, folder: BenchmarkFolder, *, workers: int) -> None:
        self._cluster = cluster = connect(workers=workers)
        self._ray = cluster.ray
        self._task = self._ray.remote(
            num_cpus=cluster.cores, num_gpus=cluster.devices, max_retries=_RETRIES, max_calls=1
        )(run_in_this_process)
        self._folder, self._workers = folder, workers
        self._threads = cluster.cores
        self._running: dict[Any, str] = {}

    def has_room(self) -> bool:
        """Whether fewer than `workers` run."""
        return len(self._running) < self._workers

    def start(self, path: str) -> None:
        """Start a cell."""
        folder = str(self._folder.path.resolve())
        reference = self._task.remote(folder, path, self._threads, Reporter(), os.getcwd())
        self._running[reference] = path

    def wait(self) -> list[Outcome]:
        """Wait until a task has ended, or has failed after all retries."""
        (ended, *_), _ = self._ray.wait(list(self._running), num_returns=1)
        path = self._running.pop(ended)
        try:
            return [self._ray.get(ended)]
        except self._ray.exceptions.RayError as error:
            first = str(error).strip().splitlines()[0]
            return [Outcome(path=path, done=False, word=f"failed: {type(error).__name__}: {first}")]

    def close(self) -> None:
        """Leave the cluster."""
        self._cluster.close()

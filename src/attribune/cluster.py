"""A Ray cluster: the one that ``RAY_ADDRESS`` names, else one on this machine, without a dashboard or statistics."""

from __future__ import annotations

import importlib
import importlib.util
import logging
import os
from dataclasses import dataclass
from typing import Any

from attribune.errors import ConfigError

__all__ = ["Cluster", "connect", "cores"]


@dataclass(frozen=True, kw_only=True)
class Cluster:
    """A cluster with what each of its workers may use.

    Args:
        ray: the module.
        workers: at a time.
        cores: of each worker, which are its threads.
        devices: GPUs of each worker, also a part of one.
        own: whether `connect` began the connection, so that `close` ends it.
    """

    ray: Any
    workers: int
    cores: int
    devices: float
    own: bool

    def close(self) -> None:
        """Leave the cluster; one on this machine ends with it."""
        if self.own:
            self.ray.shutdown()


def connect(*, workers: int | None) -> Cluster:
    """Connect to the cluster of ``RAY_ADDRESS``, or start one here; a connection that this process has is used.

    Args:
        workers: that share its cores and devices; None takes one for each GPU, or for each core where there is none.

    Raises:
        ConfigError: where Ray is not installed, or the cluster has no node with a core.
    """
    if importlib.util.find_spec("ray") is None:
        raise ConfigError("--engine ray needs Ray: pip install 'attribune[ray]', or leave --engine out")
    # As a plain process would run; by default Ray's give way to everything else on the machine.
    os.environ.setdefault("RAY_worker_niceness", "0")
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    ray: Any = importlib.import_module("ray")
    address = os.environ.get("RAY_ADDRESS")
    own = not ray.is_initialized()
    if own:
        ray.init(
            address=address,
            num_cpus=None if address else max(cores(), workers or 1),
            include_dashboard=False,
            log_to_driver=False,
            logging_level=logging.ERROR,
        )
    nodes = [int(node["Resources"].get("CPU", 0)) for node in ray.nodes() if node["Alive"]]
    if not any(nodes):
        if own:
            ray.shutdown()
        raise ConfigError(f"the Ray cluster {address} has no node with a core: start its workers")
    devices = ray.cluster_resources().get("GPU", 0.0)
    workers = workers or int(devices) or sum(nodes)
    share = max(1, min(max(nodes), sum(nodes) // workers))
    return Cluster(ray=ray, workers=workers, cores=share, devices=min(1.0, devices / workers), own=own)


def cores() -> int:
    """Cores of the processor, as many as this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1

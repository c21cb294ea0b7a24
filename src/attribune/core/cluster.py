"""A Ray cluster: the one that ``RAY_ADDRESS`` names, else one on this machine, without a dashboard or statistics."""

from __future__ import annotations

import importlib
import importlib.util
import logging
import os
from dataclasses import dataclass
from typing import Any

from attribune.core.door import as_argument
from attribune.core.threads import core_count
from attribune.errors import ConfigError

__all__ = ["Cluster", "connect"]


@dataclass(frozen=True, kw_only=True)
class Cluster:
    """A connection to a cluster, and the share of each worker.

    Args:
        ray: the module.
        cores: cores, and threads, of each worker.
        devices: GPUs of each worker; may be a fraction.
        own: whether `connect` opened the connection, so that `close` ends it.
    """

    ray: Any
    workers: int
    cores: int
    devices: float
    own: bool

    def close(self) -> None:
        """Close the connection; a cluster on this machine ends with it."""
        if self.own:
            self.ray.shutdown()


def connect(*, workers: int | None) -> Cluster:
    """Connect to the cluster of ``RAY_ADDRESS``, or start one here; an open connection is used again.

    Args:
        workers: number of workers that share cores and devices; None takes one per GPU, or per core without a GPU.

    Raises:
        ConfigError: if Ray is not installed, or the cluster has no node with a core.
    """
    if importlib.util.find_spec("ray") is None:
        raise ConfigError(f"{as_argument('engine', 'ray')} needs Ray: pip install 'attribune[ray]', or leave it out")
    # By default Ray's workers give way to everything else on the machine.
    os.environ.setdefault("RAY_worker_niceness", "0")
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    ray: Any = importlib.import_module("ray")
    address = os.environ.get("RAY_ADDRESS")
    own = not ray.is_initialized()
    if own:
        ray.init(
            address=address,
            num_cpus=None if address else max(core_count(), workers or 1),
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

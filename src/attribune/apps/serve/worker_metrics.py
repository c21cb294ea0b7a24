"""The metrics of several processes on one page, whichever of them is asked."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import Metric
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.registry import Collector

__all__ = ["WorkerMetrics"]


@dataclass(frozen=True)
class WorkerMetrics(Collector):
    """The last metrics of every process, which they leave in a folder, with a label ``worker``.

    Args:
        folder: of all processes.
        number: of this one.
    """

    folder: Path
    number: int

    def write(self, text: bytes) -> None:
        """Leave the metrics of this process for the others, in Prometheus' text format."""
        path = self._path(self.number)
        partial = path.with_suffix(".partial")
        partial.write_bytes(text)
        os.replace(partial, path)

    def text(self, own: bytes) -> bytes:
        """Render the metrics of all processes, given those of this one."""
        self.write(own)
        registry = CollectorRegistry()
        registry.register(self)
        return generate_latest(registry)

    def collect(self) -> Iterator[Metric]:
        """Yield each metric with the samples of all processes."""
        found: dict[str, Metric] = {}
        for path in sorted(self.folder.glob("*.prom"), key=lambda path: int(path.stem)):
            for metric in text_string_to_metric_families(path.read_text(encoding="utf-8")):
                whole = found.setdefault(metric.name, Metric(metric.name, metric.documentation, metric.type))
                for sample in metric.samples:
                    whole.samples.append(sample._replace(labels={**sample.labels, "worker": path.stem}))
        yield from found.values()

    def _path(self, number: int) -> Path:
        return self.folder / f"{number}.prom"

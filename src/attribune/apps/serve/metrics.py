"""Metrics of a service for Prometheus, of all its processes on one page."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.registry import Collector

from attribune.apps.serve.batching import Batcher
from attribune.apps.serve.models import Answer, ServedModel

__all__ = ["ServiceMetrics", "WorkerMetrics"]

_DURATIONS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30)  # seconds
_BEAT = 1  # seconds
_SIZES = (1, 2, 4, 8, 16, 32, 64, 128, 256)


# The multi-process mode of prometheus_client has no collectors that are read when they are asked for, such as those of
# the queue and the caches, and adds up counters of all processes.
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


class ServiceMetrics:
    """The metrics of one service, in its own registry; where it has several processes, with those of the others."""

    def __init__(self, models: Mapping[str, ServedModel], workers: WorkerMetrics | None = None) -> None:
        self._workers = workers
        self.registry = CollectorRegistry()
        self.requests = Counter(
            "attribune_requests", "Requests by path and status.", ("path", "status"), registry=self.registry
        )
        self.durations = Histogram(
            "attribune_request_duration_seconds",
            "Duration of requests.",
            ("path",),
            buckets=_DURATIONS,
            registry=self.registry,
        )
        self.batch_sizes = Histogram(
            "attribune_batch_size", "Texts scored together.", buckets=_SIZES, registry=self.registry
        )
        self.texts = Counter("attribune_texts", "Texts scored.", ("model",), registry=self.registry)
        self.attribute_values = Counter(
            "attribune_attribute_values",
            "Texts by the status of an attribute's value: known, unknown or missing.",
            ("model", "attribute", "status"),
            registry=self.registry,
        )
        self.enrolments = Counter("attribune_enrolments", "Values added.", ("model",), registry=self.registry)
        self.removals = Counter("attribune_removals", "Values forgotten.", ("model",), registry=self.registry)
        self.tokens = Counter("attribune_tokens", "Tokens read and written.", ("model", "kind"), registry=self.registry)
        self._models = models

    def watch(self, batcher: Batcher) -> None:
        """Read the queue and the weight caches whenever the metrics are asked for."""
        self.registry.register(_State(batcher, self._models))

    def answered(self, model: ServedModel, answers: Sequence[Answer]) -> None:
        """Count the texts of a request, and what is known of their attributes."""
        self.texts.labels(model.name).inc(len(answers))
        for attribute in model.attributes:
            for answer in answers:
                status = "missing" if attribute.name in answer.missing else "known"
                status = "unknown" if attribute.name in answer.unknown else status
                self.attribute_values.labels(model.name, attribute.name, status).inc()

    def wrote(self, model: ServedModel, usage: Mapping[str, int]) -> None:
        """Count the tokens of a request for texts."""
        for kind in ("prompt", "completion"):
            self.tokens.labels(model.name, kind).inc(usage[f"{kind}_tokens"])

    def text(self) -> bytes:
        """Render all metrics in Prometheus' text format."""
        own = generate_latest(self.registry)
        return own if self._workers is None else self._workers.text(own)

    async def keep_written(self) -> None:
        """Leave the metrics of this process to the others every second, until cancelled."""
        while self._workers is not None:
            with suppress(OSError):  # a full disk; who asks for the metrics meanwhile gets an error
                self._workers.write(generate_latest(self.registry))
            await asyncio.sleep(_BEAT)


class _State(Collector):
    def __init__(self, batcher: Batcher, models: Mapping[str, ServedModel]) -> None:
        self._batcher, self._models = batcher, models

    def collect(self) -> Iterator[Metric]:
        yield GaugeMetricFamily("attribune_queue_size", "Texts that wait.", value=self._batcher.waiting)
        labels = ("model", "attribute")
        cached = GaugeMetricFamily("attribune_weight_cache_bytes", "Size of the weight cache.", labels=labels)
        hits = CounterMetricFamily("attribune_weight_cache_hits", "Values found in the weight cache.", labels=labels)
        misses = CounterMetricFamily("attribune_weight_cache_misses", "Values not found in it.", labels=labels)
        for model in self._models.values():
            for attribute, cache in model.weight_caches.items():
                cached.add_metric((model.name, attribute), cache.megabytes * 2**20)
                hits.add_metric((model.name, attribute), cache.hits)
                misses.add_metric((model.name, attribute), cache.misses)
        yield from (cached, hits, misses)

"""Figures of a service for Prometheus: requests and times, the queue, the cache, and values that no model knows."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Sequence

from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from attribune.conditioned import ConditionedModel
from attribune.serve.batching import Batcher
from attribune.serve.models import Answer, ServedModel

__all__ = ["ServiceMetrics"]

_WINDOW = 10_000  # texts over which the share of unknown values is taken
_TIMES = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30)
_SIZES = (1, 2, 4, 8, 16, 32, 64, 128, 256)


class ServiceMetrics:
    """The figures of one service, in a registry of their own.

    The shares of unknown and of missing values are those of the last 10,000 texts: they rise when the people who are
    asked about are no longer those of training.

    Args:
        models: that are served.
    """

    def __init__(self, models: Iterable[ServedModel]) -> None:
        self.registry = CollectorRegistry()
        self.requests = Counter(
            "attribune_requests", "Requests, by path and status.", ("path", "status"), registry=self.registry
        )
        self.seconds = Histogram(
            "attribune_request_seconds", "Time of a request.", ("path",), buckets=_TIMES, registry=self.registry
        )
        self.batches = Histogram(
            "attribune_batch_texts", "Texts that were scored together.", buckets=_SIZES, registry=self.registry
        )
        self.texts = Counter("attribune_texts", "Texts that were scored.", ("model",), registry=self.registry)
        self.values = Counter(
            "attribune_attribute_texts",
            "Texts by what is known of an attribute: known, unknown or missing.",
            ("model", "attribute", "value"),
            registry=self.registry,
        )
        self._models = list(models)
        self._last: dict[tuple[str, str], deque[str]] = {
            (model.name, attribute.name): deque(maxlen=_WINDOW)
            for model in self._models
            for attribute in model.attributes
        }

    def watch(self, batcher: Batcher) -> None:
        """Read queue and caches whenever the figures are asked for."""
        self.registry.register(_State(batcher, self._models, self._last))

    def answered(self, model: ServedModel, answers: Sequence[Answer]) -> None:
        """Count what was said of texts."""
        self.texts.labels(model.name).inc(len(answers))
        for attribute in model.attributes:
            last = self._last[model.name, attribute.name]
            for answer in answers:
                value = "missing" if attribute.name in answer.missing else "known"
                value = "unknown" if attribute.name in answer.unknown else value
                last.append(value)
                self.values.labels(model.name, attribute.name, value).inc()

    def text(self) -> bytes:
        """All figures in Prometheus' text format."""
        return generate_latest(self.registry)


class _State(Collector):
    def __init__(
        self, batcher: Batcher, models: Sequence[ServedModel], last: dict[tuple[str, str], deque[str]]
    ) -> None:
        self._batcher, self._models, self._last = batcher, models, last

    def collect(self) -> Iterator[Metric]:
        yield GaugeMetricFamily("attribune_waiting_texts", "Texts in the queue.", value=self._batcher.waiting)
        shares = GaugeMetricFamily(
            "attribune_attribute_share",
            f"Share of the last {_WINDOW:,} texts whose value of an attribute is unknown, or missing.",
            labels=("model", "attribute", "value"),
        )
        for (model, attribute), last in self._last.items():
            seen = tuple(last)
            for value in ("unknown", "missing"):
                shares.add_metric((model, attribute, value), seen.count(value) / max(len(seen), 1))
        yield shares
        yield from self._caches()

    def _caches(self) -> Iterator[Metric]:
        megabytes = GaugeMetricFamily(
            "attribune_cache_megabytes", "Generated weights that are kept.", labels=("model", "attribute")
        )
        hits = GaugeMetricFamily(
            "attribune_cache_hit_share", "Values whose weights were kept.", labels=("model", "attribute")
        )
        for served in self._models:
            model = served.predictor.model
            for name, kept in model.method.kept_weights.items() if isinstance(model, ConditionedModel) else ():
                megabytes.add_metric((served.name, name), kept.megabytes)
                hits.add_metric((served.name, name), kept.hits / max(kept.hits + kept.misses, 1))
        yield megabytes
        yield hits

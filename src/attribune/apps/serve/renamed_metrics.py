"""Metrics by the names that they had before, which dashboards may use for one more release."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping

from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from attribune.apps.serve.models import ServedModel

__all__ = ["RenamedMetrics"]

_WINDOW = 10_000  # texts over which the share of unknown values is taken


class RenamedMetrics(Collector):
    """Old metrics of the served models, made from the new ones; `renamed` has the new metric by the old name."""

    def __init__(self, models: Mapping[str, ServedModel], renamed: Mapping[str, Collector]) -> None:
        self._models, self._renamed = models, renamed
        self._statuses: dict[tuple[str, str], deque[str]] = {}

    def observe(self, model: str, attribute: str, status: str) -> None:
        """Record the status of an attribute's value in one text."""
        self._statuses.setdefault((model, attribute), deque(maxlen=_WINDOW)).append(status)

    def collect(self) -> Iterator[Metric]:
        """Yield the old metrics."""
        for old, collector in self._renamed.items():
            for metric in collector.collect():
                renamed = Metric(old, f"Deprecated: {metric.name}.", metric.type)
                renamed.samples = [
                    sample._replace(name=sample.name.replace(metric.name, old), labels=_old_labels(sample.labels))
                    for sample in metric.samples
                ]
                yield renamed
        yield self._shares()
        yield from self._caches()

    def _shares(self) -> Metric:
        shares = GaugeMetricFamily(
            "attribune_attribute_share",
            "Deprecated: rate(attribune_attribute_values_total).",
            labels=("model", "attribute", "value"),
        )
        for (model, attribute), observed in self._statuses.items():
            statuses = tuple(observed)
            for status in ("unknown", "missing"):
                shares.add_metric((model, attribute, status), statuses.count(status) / max(len(statuses), 1))
        return shares

    def _caches(self) -> Iterator[Metric]:
        labels = ("model", "attribute")
        megabytes = GaugeMetricFamily(
            "attribune_cache_megabytes", "Deprecated: attribune_weight_cache_bytes.", labels=labels
        )
        shares = GaugeMetricFamily(
            "attribune_cache_hit_share", "Deprecated: rate(attribune_weight_cache_hits_total).", labels=labels
        )
        for model in self._models.values():
            for attribute, cache in model.weight_caches.items():
                megabytes.add_metric((model.name, attribute), cache.megabytes)
                shares.add_metric((model.name, attribute), cache.hits / max(cache.hits + cache.misses, 1))
        yield from (megabytes, shares)


def _old_labels(labels: Mapping[str, str]) -> dict[str, str]:
    return {"value" if name == "status" and "attribute" in labels else name: value for name, value in labels.items()}

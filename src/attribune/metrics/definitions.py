"""The direction of each metric and how it is shown."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["METRICS", "MetricInfo", "metric_info"]


@dataclass(frozen=True, kw_only=True)
class MetricInfo:
    """A metric as tables, plots and sentences show it; shares of rows or classes are shown in per cent."""

    name: str
    higher_is_better: bool = True
    is_share: bool = False

    @property
    def scale(self) -> int:
        """The factor by which shown values are multiplied."""
        return 100 if self.is_share else 1

    @property
    def is_score(self) -> bool:
        """Whether it is a share or a correlation, of which a mean over data sets can be taken."""
        return self.is_share or self.name in _CORRELATIONS

    @property
    def words(self) -> str:
        """The name in a sentence."""
        return self.name.replace("_", " ")

    @property
    def label(self) -> str:
        """The name beside an axis, with its unit."""
        return f"{self.words}{self.unit and f' ({self.unit})'}"

    @property
    def unit(self) -> str:
        """The unit of shown values; empty for numbers in the unit of the labels."""
        return "%" if self.is_share else ""


_SHARES = (
    *("accuracy", "subset_accuracy", "mean_accuracy", "exact_match"),
    *("error_rate", "f1", "macro_f1", "micro_f1", "precision", "recall"),
    *("recall_at_1", "recall_at_5", "recall_at_10"),
)
_ERRORS = (
    *("loss", "rmse", "mae", "log_loss", "perplexity"),
    *("cross_entropy", "manhattan", "jensen_shannon", "wasserstein", "absolute_distance", "worst_tenth"),
)
_CORRELATIONS = ("matthews", "kappa", "pearson", "spearman")  # no shares: they go below 0
METRICS = {
    **{name: MetricInfo(name=name, is_share=True, higher_is_better=name != "error_rate") for name in _SHARES},
    **{name: MetricInfo(name=name, higher_is_better=False) for name in _ERRORS},
    **{name: MetricInfo(name=name) for name in ("r2", "mrr", *_CORRELATIONS)},
}


def metric_info(name: str) -> MetricInfo:
    """Return the definition of a metric by its name; the accuracy of one aspect is called ``accuracy_ASPECT``."""
    if name.startswith("accuracy_"):
        return MetricInfo(name=name, is_share=True)
    return METRICS.get(name) or MetricInfo(name=name)

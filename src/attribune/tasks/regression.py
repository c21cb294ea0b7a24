"""A number per row."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Self

import numpy as np
from pydantic import BeforeValidator, ValidationInfo

from attribune.core.config import checked_dataclass
from attribune.errors import ConfigError, DataError
from attribune.metrics import formulas as metric
from attribune.metrics.metric import Metric
from attribune.schema.columns import MISSING, NO_NUMBER
from attribune.tasks.base import Decoded, ScoreBy, Task, check_metrics, checked_logits
from attribune.tasks.labels import Array, Column, MissingTexts, label_numbers, outside_of, require_columns

if TYPE_CHECKING:
    from torch import Tensor

__all__ = ["Regression"]


def _finite(value: Any, info: ValidationInfo) -> float:
    is_number = isinstance(value, int | float) and math.isfinite(value)
    if not is_number or (info.field_name == "std" and value <= 0):
        raise ConfigError(f"{info.field_name} is {value!r} and cannot standardise: give finite numbers, std above 0")
    return float(value)


Finite = Annotated[float, BeforeValidator(_finite)]
_USUAL = ("rmse", "mae", "r2")
_METRICS = {make.__name__: make for make in (metric.rmse, metric.mae, metric.r2, metric.pearson, metric.spearman)}


@checked_dataclass(kw_only=True)
class Regression(Task):
    """Predict a number per row, learned by the mean squared error of standardised targets.

    Labels are standardised, float32 (n,): (value - mean) / std; the loss ignores NaN labels. Predictions, RMSE and MAE
    are in the unit of the values.

    Args:
        mean: mean of the training values.
        std: their standard deviation, above 0.
        missing: texts that mean a missing label.
        score_by: metrics that come first, beginning with the main one: ``rmse``, ``mae``, ``r2``, ``pearson`` or
            ``spearman``. Correlations are computed when they are named.
    """

    kind: ClassVar[str] = "regression"
    no_label: ClassVar[tuple[str, ...]] = NO_NUMBER
    outputs: ClassVar[int] = 1
    mean: Finite = 0.0
    std: Finite = 1.0
    missing: MissingTexts = MISSING
    score_by: ScoreBy = ()

    def __post_init__(self) -> None:
        """Check the names of metrics."""
        check_metrics(self.score_by, _METRICS, task="a regression")

    @classmethod
    def fit(
        cls, label_columns: Sequence[Column], *, missing: Sequence[str] = MISSING, score_by: str | Sequence[str] = ()
    ) -> Self:
        """Fit mean and standard deviation on training rows; DataError for text and for a constant column."""
        require_columns(label_columns, ["label"], task=cls.kind)
        values = label_numbers(label_columns[0], missing=missing)
        values = values[~np.isnan(values)]
        if len(values) == 0:
            raise DataError("the label column has no labelled training row: name the column that holds the labels")
        if values.min() == values.max():
            raise DataError(
                f"every training label is {values[0]:g}: nothing can be learned; give rows of different values"
            )
        return cls(mean=float(values.mean()), std=float(values.std()), missing=missing, score_by=score_by)  # type: ignore[arg-type]

    @property
    def main_metric(self) -> str:
        """The first of `score_by`, else `rmse`."""
        return (*self.score_by, *_USUAL)[0]

    def encode_labels(self, columns: Sequence[Column], *, first_row: int = 1) -> tuple[Array, Array]:
        """Return standardised labels float32 (n,) and the mask of labelled rows; DataError for text."""
        require_columns(columns, ["label"], task=self.kind)
        values = label_numbers(columns[0], missing=self.missing, first_row=first_row)
        return ((values - self.mean) / self.std).astype(np.float32), ~np.isnan(values)

    @classmethod
    def bad_labels(cls, columns: Sequence[Column], options: Mapping[str, Any]) -> Array:
        """Return (n,) whether a label is no finite number."""
        return outside_of(columns[0], missing=options.get("missing", MISSING), known=None, as_numbers=True)

    def unseen_labels(self, columns: Sequence[Column]) -> Counter[str]:
        """Return an empty count: every number can be predicted."""
        require_columns(columns, ["label"], task=self.kind)
        return Counter()

    def loss(self, logits: Tensor, labels: Tensor) -> Tensor:
        """Return the mean squared error of logits (B, 1) and standardised labels (B,)."""
        from attribune.tasks.losses import squared_error

        return squared_error(logits, labels)

    def _numbers(self, logits: Array) -> Array:
        return np.asarray(checked_logits(logits, 1)[:, 0] * self.std + self.mean)

    @property
    def has_free_dispersion(self) -> bool:
        """It has: the variance of the noise."""
        return True

    def numbers(self, labels: Array) -> Array:
        """Return the numbers in the unit of the values."""
        return np.asarray(labels.reshape(-1).astype(np.float64) * self.std + self.mean)

    def row_losses(self, logits: Tensor, labels: Tensor) -> Tensor:
        """Return the squared error of each row; zero without a label."""
        from attribune.tasks.losses import row_squared_error

        return row_squared_error(logits, labels)

    def row_counts(self, labels: Tensor) -> Tensor:
        """Return 1 for rows with a label, and 0 for others."""
        return labels.isfinite().float()

    def decode(self, logits: Array) -> Decoded:
        """Return the numbers in the unit of the values."""
        return Decoded(predictions={"prediction": self._numbers(logits)}, probabilities=None, probability_columns=())

    def metrics(self, logits: Array, labels: Array) -> dict[str, Metric]:
        """Return the metrics of `score_by`, then RMSE, MAE and R²."""
        predicted, true = self._numbers(logits), np.asarray(labels, dtype=np.float64) * self.std + self.mean
        if not np.isfinite(true).all():
            raise DataError(
                f"{int((~np.isfinite(true)).sum())} of {len(true)} labels are missing: leave these rows out"
            )
        return {name: _METRICS[name](true, predicted) for name in dict.fromkeys([*self.score_by, *_USUAL])}

    def proper_score(self, logits: Array, labels: Array) -> Metric | None:
        """Return the root of the mean squared error."""
        true = np.asarray(labels, dtype=np.float64) * self.std + self.mean
        return metric.rmse(true, self._numbers(logits))

    def prior(self, train_labels: Array) -> Array:
        """Return the mean of the labels."""
        return np.array([train_labels.mean(dtype=np.float64)])

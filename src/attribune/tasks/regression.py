"""A number per row."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, ClassVar, Self

import numpy as np
from pydantic import BeforeValidator, ValidationInfo

from attribune.core.arrays import Array
from attribune.core.config import checked_dataclass
from attribune.errors import ConfigError, DataError
from attribune.metrics import formulas as metric
from attribune.metrics.metric import Metric
from attribune.schema.columns import MISSING, NO_NUMBER
from attribune.tasks.base import Decoded, ScoreBy, Task, check_metrics, checked_logits
from attribune.tasks.codecs import Numbers
from attribune.tasks.labels import Column, MissingTexts, label_numbers, require_columns


def _finite(value: Any, info: ValidationInfo) -> float:
    is_number = isinstance(value, int | float) and math.isfinite(value)
    if not is_number or (info.field_name == "std" and value <= 0):
        raise ConfigError(f"{info.field_name} is {value!r} and cannot standardise: give finite numbers, std above 0")
    return float(value)


Finite = Annotated[float, BeforeValidator(_finite)]
_USUAL = ("rmse", "mae", "r2")


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
        check_metrics(self.score_by, metric.OF_NUMBERS, task="a regression")

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

    @classmethod
    def codec_for(cls, options: Mapping[str, Any]) -> Numbers:
        """Return standardised numbers."""
        known = {name: options[name] for name in ("mean", "std") if name in options}
        return Numbers(missing=options.get("missing", MISSING), **known)

    def _numbers(self, logits: Array) -> Array:
        return np.asarray(checked_logits(logits, 1)[:, 0] * self.std + self.mean)

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
        return {name: metric.OF_NUMBERS[name](true, predicted) for name in dict.fromkeys([*self.score_by, *_USUAL])}

    def proper_score(self, logits: Array, labels: Array) -> Metric | None:
        """Return the root of the mean squared error."""
        true = np.asarray(labels, dtype=np.float64) * self.std + self.mean
        return metric.rmse(true, self._numbers(logits))

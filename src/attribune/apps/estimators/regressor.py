"""The estimator of numbers."""

from __future__ import annotations

from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from sklearn.base import RegressorMixin
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import column_or_1d, validate_data

from attribune.apps.estimators.base import AttributeEstimator, can_continue
from attribune.errors import DataError


class AttributeRegressor(RegressorMixin, AttributeEstimator):
    """A regression on texts with attributes; `AttributeEstimator` documents its parameters."""

    _kind: ClassVar[str] = "regression"

    @available_if(can_continue)  # type: ignore[untyped-decorator]
    def partial_fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Train the model for one more epoch; new values of attributes are added."""
        return self._fit(X, y, sample_weight, continues=self.__sklearn_is_fitted__(), epochs=1)

    def predict(self, X: Any) -> npt.NDArray[np.float64]:
        """Return the numbers (n,)."""
        return np.asarray(self._predict(X)["prediction"], dtype=np.float64)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.regressor_tags.poor_score = True  # where numbers are read as texts
        return tags

    def _fit(self, X: Any, y: Any, weight: Any, *, continues: bool, epochs: float | None = None) -> Self:
        y = validate_data(self, X="no_validation", y=y, y_numeric=True)
        self._train(X, self._label_column(y), weight, task={}, continues=continues, epochs=epochs)
        return self

    def _label_column(self, y: Any) -> pa.Array:
        numbers = column_or_1d(y)
        if numbers.dtype.kind in "mM":
            raise DataError(f"y has values of the type {numbers.dtype}: give numbers, such as those of days")
        return pa.array(numbers.astype(np.float64))

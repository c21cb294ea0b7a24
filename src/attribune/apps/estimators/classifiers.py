"""Estimators of classes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow as pa
from sklearn.base import ClassifierMixin
from sklearn.utils.metaestimators import available_if
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import column_or_1d, validate_data

from attribune.apps.estimators.base import AttributeEstimator, can_continue
from attribune.apps.estimators.saved import plain_classes, restored_classes
from attribune.errors import ConfigError, DataError
from attribune.schema.columns import canonical
from attribune.tasks.labels import number_of


class AttributeClassifier(ClassifierMixin, AttributeEstimator):
    """A classifier of texts with attributes; `AttributeEstimator` documents its parameters.

        AttributeClassifier("review", attributes=["user", "product"]).fit(df, df["stars"]).predict_proba(df)

    Attributes:
        classes_: (C,) the classes, sorted.
    """

    _kind: ClassVar[str] = "classification"
    classes_: npt.NDArray[Any]

    @available_if(can_continue)  # type: ignore[untyped-decorator]
    def partial_fit(self, X: Any, y: Any, classes: Any = None, sample_weight: Any = None) -> Self:
        """Train the model for one more epoch; new values of attributes are added.

        Args:
            X: rows, as for `fit`.
            y: (n,) labels.
            classes: all classes, for the first call; by default those of `y`.
            sample_weight: as for `fit`.
        """
        return self._fit(X, y, sample_weight, continues=self.__sklearn_is_fitted__(), epochs=1, classes=classes)

    def predict_proba(self, X: Any) -> npt.NDArray[np.float64]:
        """Return the probabilities (n, C) of the classes."""
        found = self._predict(X)
        return np.column_stack([found[f"probability_{name}"] for name in _names(self.classes_)]).astype(np.float64)

    def predict(self, X: Any) -> npt.NDArray[Any]:
        """Return the most probable class of each row, (n,)."""
        likeliest = self.predict_proba(X).argmax(axis=1)
        return np.asarray(self.classes_[likeliest])

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.poor_score = True  # where numbers are read as texts
        return tags

    def _fit(
        self,
        X: Any,
        y: Any,
        weight: Any,
        *,
        continues: bool,
        epochs: float | None = None,
        classes: Any = None,
    ) -> Self:
        order = _categories_of(y) if classes is None else classes
        y = validate_data(self, X="no_validation", y=y)
        try:
            check_classification_targets(y)
        except (TypeError, ValueError) as error:
            raise DataError(
                f"{error} Give classes as texts, whole numbers or booleans, none of them missing; classes with "
                "fractions, such as 1.5 stars, as texts (y.astype(str)); and other numbers to AttributeRegressor"
            ) from error
        known = self.classes_ if continues else self._sorted(np.unique(y if classes is None else classes), order)
        if continues and classes is not None and set(_names(np.asarray(classes))) != set(_names(known)):
            raise ConfigError(
                f"classes is {list(classes)!r:.200}, and at the first call it was {known.tolist()!r:.200}: leave it "
                "out, or fit a new model"
            )
        if len(unknown := np.setdiff1d(y, known)):
            raise ConfigError(
                f"y has {', '.join(map(repr, unknown.tolist()[:5]))}, which is none of the classes "
                f"({', '.join(_names(known))}): name all classes at the first call of partial_fit, or fit a new model"
            )
        self._train(
            X, self._label_column(y), weight, task={"classes": _names(known)}, continues=continues, epochs=epochs
        )
        self.classes_ = known
        return self

    def _label_column(self, y: Any) -> pa.Array:
        return pa.array(_names(np.asarray(column_or_1d(y))), type=pa.string())

    def _own_record(self) -> dict[str, Any]:
        return {"classes": plain_classes(self.classes_)}

    def _restore(self, record: Mapping[str, Any]) -> None:
        super()._restore(record)
        self.classes_ = restored_classes(record["classes"])

    def _sorted(self, classes: npt.NDArray[Any], order: Any) -> npt.NDArray[Any]:
        """Return sorted classes in the order of the model's.

        Args:
            order: the classes as they are given, if they are.
        """
        return classes


class AttributeOrdinal(AttributeClassifier):
    """A classifier whose classes are ordered, such as stars: one score and cut points decide.

    Labels are numbers, or an ordered categorical of pandas, which tells the order of names such as ``low``, ``high``.

    The task is `Ordinal`; ``settings`` sets its options, such as ``{"task.personal_cut_points": ["user"]}``.
    `AttributeEstimator` documents the parameters.

    Attributes:
        classes_: (C,) the classes, from the lowest.
    """

    _kind: ClassVar[str] = "ordinal"

    def _sorted(self, classes: npt.NDArray[Any], order: Any) -> npt.NDArray[Any]:
        numbers = [number_of(name) for name in _names(classes)]
        known = [number for number in numbers if number is not None]
        if len(known) == len(classes):
            return classes[np.argsort(known)]
        if order is None:
            raise DataError(
                f"y has {', '.join(map(repr, classes.tolist()[:5]))}, of which nothing tells the order: give numbers, "
                "or an ordered categorical, as in pandas.Categorical(y, categories=[...], ordered=True)"
            )
        return np.asarray(list(order))


def _categories_of(y: Any) -> Any:
    """Return the categories of an ordered categorical of pandas, from the lowest; None for other labels."""
    column = y.iloc[:, 0] if isinstance(y, pd.DataFrame) and y.shape[1] == 1 else y
    dtype = getattr(column, "dtype", None)
    return dtype.categories if isinstance(dtype, pd.CategoricalDtype) and dtype.ordered else None


def _names(values: npt.NDArray[Any]) -> list[str]:
    """Return the texts of classes, by which the model knows them."""
    return [canonical(value) or "" for value in values.tolist()]

"""Estimators of classes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt
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

__all__ = ["AttributeClassifier", "AttributeOrdinal"]


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
        y = validate_data(self, X="no_validation", y=y)
        try:
            check_classification_targets(y)
        except (TypeError, ValueError) as error:
            raise DataError(
                f"{error} Give classes as texts, whole numbers or booleans, none of them missing; classes with "
                "fractions, such as 1.5 stars, as texts (y.astype(str)); and other numbers to AttributeRegressor"
            ) from error
        known = self.classes_ if continues else self._sorted(np.unique(y if classes is None else classes))
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

    def _sorted(self, classes: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Return sorted classes in the order of the model's."""
        return classes


class AttributeOrdinal(AttributeClassifier):
    """A classifier whose classes are ordered numbers, such as stars: one score and cut points decide.

    The task is `Ordinal`; ``settings`` sets its options, such as ``{"task.personal_cut_points": ["user"]}``.
    `AttributeEstimator` documents the parameters.

    Attributes:
        classes_: (C,) the classes, sorted by number.
    """

    _kind: ClassVar[str] = "ordinal"

    def _sorted(self, classes: npt.NDArray[Any]) -> npt.NDArray[Any]:
        numbers = []
        for name in _names(classes):
            number = number_of(name)
            if number is None:
                raise DataError(
                    f"y has {name!r}, which is no number, and ordered classes are numbers: give them, as in "
                    "y.map({'bad': 1, 'good': 2}), or train an AttributeClassifier"
                )
            numbers.append(number)
        return classes[np.argsort(numbers)]


def _names(values: npt.NDArray[Any]) -> list[str]:
    """Return the texts of classes, by which the model knows them."""
    return [canonical(value) or "" for value in values.tolist()]

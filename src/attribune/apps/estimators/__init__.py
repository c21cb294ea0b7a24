"""Estimators of scikit-learn: a training and its predictor, with `fit`, `predict` and `score`."""

from attribune.apps.estimators.classifiers import AttributeClassifier, AttributeOrdinal
from attribune.apps.estimators.regressor import AttributeRegressor

__all__ = ["AttributeClassifier", "AttributeOrdinal", "AttributeRegressor"]

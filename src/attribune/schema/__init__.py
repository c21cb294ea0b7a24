"""The schema room: attribute kinds, vocabularies, and how columns become `attribute_ids`."""

from __future__ import annotations

from attribune.schema.attributes import AttributeCounts, Categorical, FittedAttribute, MultiLabel, Numeric
from attribune.schema.columns import MISSING, canonical
from attribune.schema.fitting import AttributeFit
from attribune.schema.schema import EncodingReport, FitReport, Schema

__all__ = [
    "MISSING",
    "AttributeCounts",
    "AttributeFit",
    "Categorical",
    "EncodingReport",
    "FitReport",
    "FittedAttribute",
    "MultiLabel",
    "Numeric",
    "Schema",
    "canonical",
]

"""Attribute kinds, vocabularies, and how columns become `attribute_ids`."""

from __future__ import annotations

from attribune.core.plugins import load_plugins
from attribune.schema.attributes import FittedAttribute, Slots
from attribune.schema.columns import MISSING, canonical
from attribune.schema.description_kinds import Text, ValueDescriptions, Vector
from attribune.schema.descriptions import ValueTable
from attribune.schema.kinds import (
    KINDS,
    Categorical,
    Date,
    Hierarchy,
    MultiLabel,
    Number,
    Numeric,
    VocabularyKind,
)
from attribune.schema.reports import AttributeCounts, AttributeFit, EncodingReport, FitReport
from attribune.schema.schema import Schema

__all__ = [
    "MISSING",
    "AttributeCounts",
    "AttributeFit",
    "Categorical",
    "Date",
    "EncodingReport",
    "FitReport",
    "FittedAttribute",
    "Hierarchy",
    "MultiLabel",
    "Number",
    "Numeric",
    "Schema",
    "Slots",
    "Text",
    "ValueDescriptions",
    "ValueTable",
    "Vector",
    "canonical",
]

KINDS |= load_plugins("attributes", VocabularyKind) | KINDS  # a plugin replaces none of ours

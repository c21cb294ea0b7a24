"""The tables of scikit_learn.md: the parameters of the estimators, and what `fit` leaves, from their docstrings."""

from __future__ import annotations

import inspect
import re

from attribune.apps.estimators.base import AttributeEstimator
from attribune.apps.estimators.classifiers import AttributeClassifier
from pages.cells import table


def parameters() -> list[str]:
    """What the class describes, with defaults; in the last row the parameters that are settings of a recipe."""
    described = _section(AttributeEstimator, "Args")
    given = inspect.signature(AttributeEstimator).parameters
    rows = [[f"`{name}`", f"`{given[name].default!r}`", meaning] for name, meaning in described.items()]
    others = ", ".join(f"`{name}`" for name in given if name not in described)
    rows.append([others, "`None`", "the [settings](recipes.md) with these names; None stands for their defaults"])
    return table(["parameter", "default", "meaning"], rows, words=range(3))


def fitted() -> list[str]:
    """What `fit` leaves."""
    found = _section(AttributeEstimator, "Attributes") | _section(AttributeClassifier, "Attributes")
    return table(["attribute", "meaning"], [[f"`{name}`", meaning] for name, meaning in found.items()], words=range(2))


def _section(kind: type, title: str) -> dict[str, str]:
    """What a docstring says under a title, by the name that it describes."""
    section = (inspect.getdoc(kind) or "").partition(f"\n{title}:\n")[2].partition("\n\n")[0]
    entries = re.findall(r"^ {4}(\w+): (.*(?:\n {8}.*)*)", section, flags=re.MULTILINE)
    return {name: " ".join(words.split()).replace("``", "`").removesuffix(".") for name, words in entries}


TABLES = {"scikit_learn.md": {"parameters": parameters, "fitted": fitted}}

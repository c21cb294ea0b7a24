"""Backbones without pretraining, which packages bring: they are trained in full, from the rows of a training alone."""

from __future__ import annotations

from typing import ClassVar

from attribune.core.config import Settings
from attribune.core.plugins import load_plugins


class UntrainedBackbone(Settings):
    """The options of a backbone without pretraining.

    `model_type` is that of its configuration, which is registered with the Auto classes of transformers, and `builder`
    refers to a function of the recipe's backbone, the method, a `DataPlan`, the `PreparedData` and a `Reporter` that
    returns the untrained model and its tokenizer; it is loaded when a training needs it.
    """

    what: ClassVar[str] = "backbone.options"
    model_type: ClassVar[str]
    builder: ClassVar[str]


UNTRAINED: dict[str, type[UntrainedBackbone]] = load_plugins("networks", UntrainedBackbone)
"""The options of the backbones without pretraining, by the names that recipes give them."""

"""Saved models of either kind, by what their configuration says."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from attribune.conditioned import ConditionedModel
from attribune.configuration import AttributeConfig
from attribune.generation.model import AttributeGenerator
from attribune.model import AttributeModel
from attribune.saving import find_model, read_config

__all__ = ["load_model", "model_class"]


def model_class(config: AttributeConfig) -> type[AttributeModel] | type[AttributeGenerator]:
    """The class of a model with this configuration."""
    return AttributeGenerator if config.writes else AttributeModel


def load_model(name: str | Path, *, revision: str | None = None, **options: Any) -> ConditionedModel:
    """Load a model that `save_pretrained` wrote, of whichever kind it is.

    Args:
        name: a folder, or a name on the hub.
        revision: branch, tag or commit of the model on the hub.
        options: of `AttributeModel.from_pretrained`.

    Raises:
        ModelFolderError: for a missing, truncated or foreign file, or another backbone than in training.
        ConfigError: when the backbone cannot be loaded.
    """
    config = read_config(find_model(name, revision=revision))
    return model_class(config).from_pretrained(name, revision=revision, **options)

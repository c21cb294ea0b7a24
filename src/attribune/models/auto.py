"""Saved models of any kind, by what their folder says."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from attribune.errors import ModelFolderError
from attribune.models.base import ConditionedModel
from attribune.models.classifier import AttributeModel
from attribune.models.config import AttributeConfig
from attribune.models.files import find_model, read_config
from attribune.models.generator import AttributeGenerator
from attribune.models.linear import LinearModel
from attribune.models.scorer import Scorer

__all__ = ["load_model", "load_scorer", "model_class"]


def model_class(config: AttributeConfig) -> type[AttributeModel] | type[AttributeGenerator]:
    """Return the class of a model with this configuration."""
    return AttributeGenerator if config.is_generative else AttributeModel


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


def load_scorer(folder: Path, **options: Any) -> Scorer:
    """Load a linear baseline, or a neural model with its tokenizer.

    Args:
        options: of `AttributeModel.from_pretrained`, where the model is neural.

    Raises:
        ModelFolderError: for a missing, truncated or foreign file, or another backbone than in training.
        ConfigError: when the backbone cannot be loaded.
    """
    if LinearModel.is_in(folder):
        return LinearModel.load(folder)
    model = load_model(folder, **options)
    if model.tokenizer is None:
        raise ModelFolderError(f"{folder} has no tokenizer_config.json: copy the tokenizer's files there again")
    return model

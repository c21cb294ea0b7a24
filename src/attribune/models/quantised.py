"""Models whose backbones compute in int8, for prediction on CPUs."""

from __future__ import annotations

import difflib
from typing import Literal, TypeVar, cast

import torch

from attribune.backbones.int8 import check_int8, quantise_backbone
from attribune.backbones.sharing import SharedBackbones, with_same_tensors
from attribune.core.config import short_repr
from attribune.errors import ConfigError
from attribune.models.base import ConditionedModel
from attribune.models.scorer import Scorer

__all__ = ["Quantisation", "check_quantisation", "in_int8", "quantised"]

Quantisation = Literal["int8"]
Model = TypeVar("Model", bound=Scorer)


def check_quantisation(quantise: Quantisation | None) -> Quantisation | None:
    """Return what is known; ConfigError for anything else."""
    if quantise is None or quantise == "int8":
        return quantise
    close = difflib.get_close_matches(str(quantise).lower(), ["int8"], n=1)
    cure = "; did you mean 'int8'?" if close else ": choose int8, or leave it out"
    raise ConfigError(f"quantise is {short_repr(quantise)}{cure}")


def in_int8(model: Scorer) -> bool:
    """Return whether a model computes in int8."""
    return isinstance(model, ConditionedModel) and model.quantised == "int8"


def quantised(model: Model, quantise: Quantisation | None, *, shared: SharedBackbones | None = None) -> Model:
    """Return a model for prediction whose backbone has int8 weights; the given one does not change.

    Method, head and norms stay in float32 and share their tensors with the given model.

    Args:
        quantise: None returns the model as it is.
        shared: the backbones from which it was loaded; models that share weights then share the int8 weights.

    Raises:
        ConfigError: for a baseline, a model that is quantised already, or one whose backbone or processor has no int8.
    """
    if check_quantisation(quantise) is None:
        return model
    if not isinstance(model, ConditionedModel):
        raise ConfigError("quantise='int8' is for neural models, and this one is a baseline: leave it out")
    if model.quantised is not None:
        raise ConfigError(f"the model is in {model.quantised} already: leave quantise out")
    check_int8(torch.device("cpu"))
    own = (model.schema, model.tokenizer, model.histories, model.text_vectors)
    copy = with_same_tensors(model, shared=[one for one in own if one is not None])
    quantise_backbone(copy.backbone, {} if shared is None else shared.int8)
    copy.quantised = quantise
    return cast(Model, copy.eval())

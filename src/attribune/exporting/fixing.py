"""A model whose attributes are fixed: the same predictions as for given values, from a model that reads none."""

from __future__ import annotations

import copy

import torch
from torch import Tensor

from attribune.methods.fixed import Around, Fixed
from attribune.model import AttributeModel
from attribune.schema import Schema

__all__ = ["fixed_form", "plain_model"]


def fixed_form(model: AttributeModel, ids: Tensor) -> Fixed:
    """What is left of a model's method when every row has the same values.

    Args:
        model: in evaluation mode.
        ids: (slots,), the values.

    Raises:
        ConfigError: saying why a model without attributes cannot be the same.
    """
    with torch.enable_grad():  # without gradients the condition would read weights that are kept for prediction
        condition = model.method.condition(ids.unsqueeze(0), 1)
        around = Around(backbone=model.backbone, head=model.head)
        return model.method.fixed(model.method_config, condition, around)


def plain_model(model: AttributeModel, fixed: Fixed) -> AttributeModel:
    """The model of a fixed method: with its own copy of all weights, an empty schema, and the same task and text.

    Args:
        model: whose method it was.
        fixed: what is left of it.

    Raises:
        ConfigError: where weights of the backbone cannot hold what the values do.
    """
    tensors = {name: tensor for name, tensor in model.state_dict().items() if not name.startswith("method.")}
    changed = {f"backbone.{name}": tensor for name, tensor in fixed.merged(model.backbone).items()}
    tensors |= changed | {f"method.{name}": tensor for name, tensor in fixed.tensors.items()}
    if fixed.head is not None:
        tensors["head.weight"] = fixed.head
    config = copy.deepcopy(model.config)
    config.method = fixed.config.to_dict()
    config.learned = sorted(changed)  # to which the model adds those that learned
    plain = AttributeModel(config, schema=Schema([]), tokenizer=model.tokenizer)
    plain.load_state_dict({name: tensor.detach().clone() for name, tensor in tensors.items()}, assign=True)
    plain.eval()
    return plain

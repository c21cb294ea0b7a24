"""A model whose attributes are fixed: the same predictions as for given values, from a model that reads none."""

from __future__ import annotations

import copy
from dataclasses import replace
from typing import cast

import torch
from torch import Tensor

from attribune.errors import ConfigError
from attribune.methods.merging import MergedMethod, MergeTarget
from attribune.models.base import ConditionedModel
from attribune.models.model import AttributeModel
from attribune.schema import Schema

__all__ = ["merge_model", "merged_model"]


def merge_model(model: ConditionedModel, ids: Tensor) -> MergedMethod:
    """Merge a model's method for rows that all have the same values.

    Args:
        model: in evaluation mode.
        ids: (slots,), of the values.

    Raises:
        ConfigError: saying why no model without attributes gives the same predictions.
    """
    with torch.enable_grad():  # without gradients the condition would read the weight cache
        condition = model.method.condition(ids.unsqueeze(0), 1)
        target = MergeTarget(backbone=model.stack, head=model.head)
        merged = model.method.merge(model.method_config, condition, target)
        if model.link is None or not model.link.attributes:
            return merged
        if "classify" in merged.config.points:
            raise ConfigError(
                f"method {merged.config.name!r} computes logits in its own way, without a place for personal ones"
            )
        link, scale = model.link.merge(cast(AttributeModel, model).linked_vectors(condition))
        return replace(merged, link=link, head_scale=scale)


def merged_model(model: ConditionedModel, merged: MergedMethod) -> ConditionedModel:
    """Make the model of a method merged from `model`: copies of all weights, an empty schema and the same task.

    Raises:
        ConfigError: where weights of the backbone cannot hold what the values do.
    """
    tensors = {name: tensor for name, tensor in model.state_dict().items() if not name.startswith("method.")}
    changed = {f"{model.stack_name}.{name}": tensor for name, tensor in merged.backbone_tensors(model.stack).items()}
    tensors |= changed | {f"method.{name}": tensor for name, tensor in merged.tensors.items()}
    if merged.head is not None:
        tensors["head.weight"] = merged.head
    if merged.head_scale is not None:
        tensors |= {name: merged.head_scale * tensors[name] for name in ("head.weight", "head.bias")}
    if merged.link:
        others = {name: tensor for name, tensor in tensors.items() if not name.startswith("link.")}
        tensors = others | {f"link.{name}": tensor for name, tensor in merged.link.items()}
    config = copy.deepcopy(model.config)
    config.method = merged.config.to_dict()
    config.task = model.task.without_attributes().to_dict()
    config.learned = sorted(changed)  # the model adds those that were trained
    result = type(model)(config, schema=Schema([]), tokenizer=model.tokenizer)
    result.load_state_dict({name: tensor.detach().clone() for name, tensor in tensors.items()}, assign=True)
    result.eval()
    return result

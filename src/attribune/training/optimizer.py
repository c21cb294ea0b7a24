"""The optimiser: AdamW, with one learning rate for what is new and one for what was pretrained."""

from __future__ import annotations

import torch

from attribune.model import AttributeModel

__all__ = ["build_optimizer"]


def build_optimizer(
    model: AttributeModel, *, learning_rate: float, backbone_learning_rate: float, weight_decay: float
) -> torch.optim.AdamW:
    """AdamW over everything that learns. Biases, gains and other vectors do not decay.

    Args:
        model: the model.
        learning_rate: of the method, of LoRA and the head, which start from nothing.
        backbone_learning_rate: of the backbone, which must not forget.
        weight_decay: of matrices.
    """
    groups: dict[tuple[float, float], list[torch.nn.Parameter]] = {}
    for name, parameter in model.named_parameters():
        if parameter.requires_grad:
            pretrained = name.startswith("backbone.") and ".lora_" not in name
            rate = backbone_learning_rate if pretrained else learning_rate
            decay = weight_decay if parameter.dim() > 1 else 0.0
            groups.setdefault((rate, decay), []).append(parameter)
    return torch.optim.AdamW(
        [{"params": found, "lr": rate, "weight_decay": decay} for (rate, decay), found in groups.items()],
        lr=learning_rate,
    )

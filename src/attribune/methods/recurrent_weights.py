"""Weights of recurrent layers that differ between the rows of a batch."""

from __future__ import annotations

import torch
from torch import Tensor

from attribune import functional
from attribune.backbones.recurrent import Recurrent
from attribune.functional.recurrent import RowLSTMWeights

__all__ = ["run_rows"]


def run_rows(module: Recurrent, x: Tensor, attention_mask: Tensor, weights: list[RowLSTMWeights]) -> Tensor:
    """Run the directions of a recurrent layer with weights of each row in place of its own."""
    states = [
        functional.lstm_by_row(x, attention_mask, own, reverse=number == 1, padding=module.padding)
        for number, own in enumerate(weights)
    ]
    return torch.cat(states, dim=-1)

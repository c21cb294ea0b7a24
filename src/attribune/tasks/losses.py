"""The losses of the tasks, in a file of their own, since all else works without torch.

Shapes: B rows of a batch, C classes.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn import functional

from attribune.functional import preference_log_probability
from attribune.tasks.labels import UNSEEN

__all__ = [
    "binary_cross_entropy",
    "cross_entropy",
    "mean_cross_entropy",
    "preference_loss",
    "row_binary_cross_entropy",
    "row_cross_entropy",
    "row_preference_loss",
    "row_squared_error",
    "sample_class",
    "sample_classes",
    "sample_number",
    "squared_error",
    "token_scores",
]


def cross_entropy(logits: Tensor, labels: Tensor, weights: tuple[float, ...] | None = None) -> Tensor:
    """Return the weighted mean over the rows whose label is not UNSEEN; zero without any, where torch returns NaN."""
    logits = logits.float()
    scale = logits.new_ones(logits.shape[1]) if weights is None else logits.new_tensor(weights)
    total = functional.cross_entropy(logits, labels, weight=scale, ignore_index=UNSEEN, reduction="sum")
    weight = torch.where(labels == UNSEEN, 0.0, scale[labels.clamp(min=0)]).sum()
    return total / weight.clamp(min=torch.finfo(torch.float32).tiny)


def row_cross_entropy(logits: Tensor, labels: Tensor, weights: tuple[float, ...] | None = None) -> Tensor:
    """Return the weighted cross-entropy of each row, (B,), which no mean divides by the weights; zero for UNSEEN."""
    scale = None if weights is None else logits.new_tensor(weights, dtype=torch.float32)
    return functional.cross_entropy(logits.float(), labels, weight=scale, ignore_index=UNSEEN, reduction="none")


def token_scores(logits: Tensor, labels: Tensor) -> Tensor:
    """Return sum of the cross-entropies and number, (B, 2), of the labels (B, T) of each row that are not UNSEEN."""
    known = labels != UNSEEN
    nats = functional.cross_entropy(logits[known].float(), labels[known], reduction="none")
    sums = nats.new_zeros(labels.shape).masked_scatter(known, nats).sum(dim=1)
    return torch.stack([sums, known.sum(dim=1).to(sums.dtype)], dim=1)


def mean_cross_entropy(logits: Tensor, labels: Tensor, sizes: Sequence[int]) -> Tensor:
    """Return the mean cross-entropy of heads, which logits (B, outputs) hold side by side; labels are (B, heads)."""
    heads = torch.split(logits, list(sizes), dim=1)
    return torch.stack([cross_entropy(head, labels[:, i]) for i, head in enumerate(heads)]).mean()


def binary_cross_entropy(logits: Tensor, labels: Tensor, weights: tuple[float, ...] | None = None) -> Tensor:
    """Return the binary cross-entropy averaged over rows and classes (B, C); weights are those of the positives."""
    logits = logits.float()
    scale = None if weights is None else logits.new_tensor(weights)
    return functional.binary_cross_entropy_with_logits(logits, labels.float(), pos_weight=scale)


def squared_error(outputs: Tensor, labels: Tensor) -> Tensor:
    """Return the mean squared error of outputs (B, 1) and labels (B,), over the rows whose label is finite."""
    known = torch.isfinite(labels.float())
    return row_squared_error(outputs, labels).sum() / known.sum().clamp(min=1)


def row_squared_error(outputs: Tensor, labels: Tensor) -> Tensor:
    """Return the squared error of each row, (B,); zero where the label is not finite."""
    target = labels.float()
    known = torch.isfinite(target)
    error = torch.where(known, outputs.float().squeeze(1) - torch.where(known, target, 0.0), 0.0)
    return error.square()


def row_binary_cross_entropy(logits: Tensor, labels: Tensor, weights: tuple[float, ...] | None = None) -> Tensor:
    """Return the mean over classes of the binary cross-entropies of each row, (B,)."""
    scale = None if weights is None else logits.new_tensor(weights, dtype=torch.float32)
    losses = functional.binary_cross_entropy_with_logits(
        logits.float(), labels.float(), pos_weight=scale, reduction="none"
    )
    return losses.mean(dim=1)


def preference_loss(rewards: Tensor, labels: Tensor) -> Tensor:
    """Return the mean over rows of ``-log P(preferred > other)``; see `row_preference_loss`."""
    known = (labels != UNSEEN).sum()
    return row_preference_loss(rewards, labels).sum() / known.clamp(min=1)


def row_preference_loss(rewards: Tensor, labels: Tensor) -> Tensor:
    """Return ``-log P(preferred > other)`` of rewards (B, 2) for each row, (B,); zero for UNSEEN.

    Args:
        labels: (B,), which of the two is preferred, 0 or 1.
    """
    preferred = labels.clamp(min=0).unsqueeze(1)
    chosen, rejected = (rewards.float().gather(1, index).squeeze(1) for index in (preferred, 1 - preferred))
    return torch.where(labels == UNSEEN, 0.0, -preference_log_probability(chosen, rejected))


def sample_class(logits: Tensor, generator: torch.Generator) -> Tensor:
    """Draw a class id of each row, (B,)."""
    return logits.softmax(dim=1).multinomial(1, generator=generator).squeeze(1)


def sample_classes(logits: Tensor, generator: torch.Generator) -> Tensor:
    """Draw the classes of each row: (B, C + 1) of ones and zeros, the last for a class that is not known."""
    drawn = logits.sigmoid().bernoulli(generator=generator)
    return torch.cat([drawn, torch.zeros_like(drawn[:, :1])], dim=1)


def sample_number(outputs: Tensor, generator: torch.Generator) -> Tensor:
    """Draw a number of each row, (B,): the mean plus or minus the deviation of the law whose loss is the squared error.

    The law is normal with variance 1/2. Two points have the same first three moments, and square to one number.
    """
    signs = 2 * torch.randint(0, 2, (outputs.shape[0],), generator=generator) - 1
    return outputs.squeeze(1) + math.sqrt(0.5) * signs

"""What of the tasks needs torch: their losses, and the last layer of models with ordered answers or ties.

Shapes: B rows of a batch, C classes.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from attribune.core.device import at_least_float32
from attribune.functional import (
    cosine_similarity,
    multiple_negatives_loss,
    ordinal_log_probabilities,
    preference_log_probability,
    preference_or_tie_logits,
    triplet_margin_loss,
)
from attribune.tasks.labels import UNSEEN


def weighted_mean(losses: Tensor, counts: Tensor, weights: Tensor) -> Tensor:
    """Return ``Σ w l / Σ w c`` of losses, counts and weights (B,); zero where nothing counts."""
    total = (weights * counts).sum()
    return (weights * losses).sum() / total.clamp(min=torch.finfo(torch.float32).tiny)


def each_alone(loss: Callable[[Tensor, Tensor], Tensor], logits: Tensor, labels: Tensor) -> Tensor:
    """Return the loss of each row, (B,), as if it were the only one of its batch."""
    return torch.stack([loss(logits[row : row + 1], labels[row : row + 1]) for row in range(len(logits))])


def known_weights(labels: Tensor, weights: tuple[float, ...] | None = None) -> Tensor:
    """Return the weight of each row's class, (B,), by default 1; zero for UNSEEN."""
    scale = None if weights is None else torch.tensor(weights, device=labels.device)
    of_class = torch.ones(labels.shape, device=labels.device) if scale is None else scale[labels.clamp(min=0)]
    return torch.where(labels == UNSEEN, 0.0, of_class)


def cross_entropy(logits: Tensor, labels: Tensor, weights: tuple[float, ...] | None = None) -> Tensor:
    """Return the weighted mean over the rows whose label is not UNSEEN; zero without any, where torch returns NaN."""
    logits = at_least_float32(logits)
    scale = logits.new_ones(logits.shape[1]) if weights is None else logits.new_tensor(weights)
    total = functional.cross_entropy(logits, labels, weight=scale, ignore_index=UNSEEN, reduction="sum")
    weight = torch.where(labels == UNSEEN, 0.0, scale[labels.clamp(min=0)]).sum()
    return total / weight.clamp(min=torch.finfo(torch.float32).tiny)


def row_cross_entropy(logits: Tensor, labels: Tensor, weights: tuple[float, ...] | None = None) -> Tensor:
    """Return the weighted cross-entropy of each row, (B,), which no mean divides by the weights; zero for UNSEEN."""
    logits = at_least_float32(logits)
    scale = None if weights is None else logits.new_tensor(weights)
    return functional.cross_entropy(logits, labels, weight=scale, ignore_index=UNSEEN, reduction="none")


def row_soft_cross_entropy(logits: Tensor, shares: Tensor, weights: tuple[float, ...] | None = None) -> Tensor:
    """Return ``-Σ_k c_k q_k log p_k`` of each row, (B,), for shares q (B, C) and weights c of the classes."""
    logs = at_least_float32(logits).log_softmax(dim=1)
    return -(_weighted_shares(shares.to(logs), weights) * logs).sum(dim=1)


def share_weights(shares: Tensor, weights: tuple[float, ...]) -> Tensor:
    """Return the mean weight of each row's classes by their shares, (B,)."""
    return _weighted_shares(shares, weights).sum(dim=1)


def _weighted_shares(shares: Tensor, weights: tuple[float, ...] | None) -> Tensor:
    return shares if weights is None else shares * shares.new_tensor(weights)


def token_scores(logits: Tensor, labels: Tensor) -> Tensor:
    """Return sum of the cross-entropies and number, (B, 2), of the labels (B, T) of each row that are not UNSEEN."""
    known = labels != UNSEEN
    nats = functional.cross_entropy(at_least_float32(logits[known]), labels[known], reduction="none")
    sums = nats.new_zeros(labels.shape).masked_scatter(known, nats).sum(dim=1)
    return torch.stack([sums, known.sum(dim=1).to(sums.dtype)], dim=1)


def mean_cross_entropy(
    logits: Tensor, labels: Tensor, sizes: Sequence[int], row_weights: Tensor | None = None
) -> Tensor:
    """Return the mean cross-entropy of heads, which logits (B, outputs) hold side by side; labels are (B, heads)."""
    heads = zip(torch.split(logits, list(sizes), dim=1), labels.unbind(dim=1), strict=True)
    if row_weights is None:
        return torch.stack([cross_entropy(head, ids) for head, ids in heads]).mean()
    losses = [weighted_mean(row_cross_entropy(head, ids), known_weights(ids), row_weights) for head, ids in heads]
    return torch.stack(losses).mean()


def binary_cross_entropy(logits: Tensor, labels: Tensor, weights: tuple[float, ...] | None = None) -> Tensor:
    """Return the binary cross-entropy averaged over rows and classes (B, C); weights are those of the positives."""
    logits = at_least_float32(logits)
    scale = None if weights is None else logits.new_tensor(weights)
    return functional.binary_cross_entropy_with_logits(logits, labels.to(logits), pos_weight=scale)


def row_squared_error(outputs: Tensor, labels: Tensor) -> Tensor:
    """Return the squared error of each row, (B,); zero where the label is not finite."""
    target = at_least_float32(labels)
    known = torch.isfinite(target)
    error = torch.where(known, at_least_float32(outputs).squeeze(1) - torch.where(known, target, 0.0), 0.0)
    return error.square()


def row_binary_cross_entropy(logits: Tensor, labels: Tensor, weights: tuple[float, ...] | None = None) -> Tensor:
    """Return the mean over classes of the binary cross-entropies of each row, (B,)."""
    logits = at_least_float32(logits)
    scale = None if weights is None else logits.new_tensor(weights)
    losses = functional.binary_cross_entropy_with_logits(logits, labels.to(logits), pos_weight=scale, reduction="none")
    return losses.mean(dim=1)


def row_preference_loss(rewards: Tensor, labels: Tensor) -> Tensor:
    """Return ``-log P(preferred > other)`` of rewards (B, 2) for each row, (B,); zero for UNSEEN.

    Args:
        labels: (B,), which of the two is preferred, 0 or 1.
    """
    preferred = labels.clamp(min=0).unsqueeze(1)
    chosen, rejected = (at_least_float32(rewards).gather(1, index).squeeze(1) for index in (preferred, 1 - preferred))
    return torch.where(labels == UNSEEN, 0.0, -preference_log_probability(chosen, rejected))


def cosines_with_first(vectors: Tensor) -> Tensor:
    """Return the cosines (B, C - 1) of the first of C vectors (B, C, H) of each row with the others."""
    first, *others = at_least_float32(vectors).unbind(dim=1)
    return torch.stack([cosine_similarity(first, other) for other in others], dim=1)


def unit_vectors(vectors: Tensor) -> Tensor:
    """Return vectors (B, C, H) of length 1, side by side as (B, C * H)."""
    return functional.normalize(at_least_float32(vectors), dim=2).flatten(1)


def row_multiple_negatives(vectors: Tensor, texts: Tensor, *, scale: float) -> Tensor:
    """Return the loss with multiple negatives of each row, (B,), of two vectors side by side (B, 2 * H)."""
    u, v = at_least_float32(vectors).chunk(2, dim=1)
    with torch.autocast(vectors.device.type, enabled=False):  # cosines in bf16 differ by less than their rounding
        return multiple_negatives_loss(u, v, texts, scale=scale)


def row_triplet_margin(cosines: Tensor, *, margin: float) -> Tensor:
    """Return the triplet loss of each row, (B,), of the cosines (B, 2) with the positive and the negative."""
    c_p, c_n = at_least_float32(cosines).unbind(dim=1)
    return triplet_margin_loss(c_p, c_n, margin=margin)


_CLOSEST = 1e-3  # two cut points of an initial model


class Link(nn.Module):
    """Turns what the linear layer of a model computes into logits.

    Args:
        vector_sizes: of the attributes whose vectors are read.
    """

    def __init__(self, vector_sizes: Mapping[str, int]) -> None:
        super().__init__()
        self.attributes = tuple(vector_sizes)

    @abstractmethod
    def forward(self, outputs: Tensor, vectors: Sequence[Tensor] = ()) -> Tensor:
        """Return the logits (B, K) of the linear layer's outputs, and vectors (B, Z_j) of the attributes."""

    @abstractmethod
    def merge(self, vectors: Sequence[Tensor]) -> tuple[dict[str, Tensor], Tensor]:
        """Return the parameters of a link without attributes, and the factor of its inputs, for vectors of one row."""


class CutPoints(Link):
    """Turns a score into the log-probabilities of ordered answers.

    Args:
        initial: K - 1 cut points in order, where training begins.
        vector_sizes: of the attributes that shift and scale the cut points (`ordinal_log_probabilities`).
    """

    def __init__(self, initial: Sequence[float], *, vector_sizes: Mapping[str, int] | None = None) -> None:
        sizes = vector_sizes or {}
        super().__init__(sizes)
        points = np.asarray(initial, dtype=np.float64)
        gaps = np.maximum(np.diff(points), _CLOSEST)
        self.first = nn.Parameter(torch.tensor(points[:1], dtype=torch.float32))
        self.delta = nn.Parameter(_softplus_inverse(torch.tensor(gaps)).float())
        self.v_a = nn.ParameterList(torch.zeros(size) for size in sizes.values())
        self.v_b = nn.ParameterList(torch.zeros(size) for size in sizes.values())

    def forward(self, outputs: Tensor, vectors: Sequence[Tensor] = ()) -> Tensor:
        """Return the log-probabilities (B, K) of scores (B, 1)."""
        score = outputs.to(self.first.dtype).squeeze(1)
        a, b = self._personal(vectors)
        return ordinal_log_probabilities(score, self.first, self.delta, a=a, b=b)

    def merge(self, vectors: Sequence[Tensor]) -> tuple[dict[str, Tensor], Tensor]:
        """Return the cut points of one row, times its scale, as is the score."""
        a, b = self._personal(vectors)
        if a is None or b is None:
            return {"first": self.first, "delta": self.delta}, self.first.new_ones(())
        scale = a.exp()
        gaps = scale.double() * functional.softplus(self.delta.double())
        return {"first": scale * (self.first + b), "delta": _softplus_inverse(gaps).to(scale.dtype)}, scale.squeeze(0)

    def _personal(self, vectors: Sequence[Tensor]) -> tuple[Tensor | None, Tensor | None]:
        """Return the logarithms of the scales and the shifts, (B,) each."""
        if not vectors:
            return None, None
        each = [vector.to(self.first.dtype) for vector in vectors]
        a = torch.stack([vector @ v_a for vector, v_a in zip(each, self.v_a, strict=True)]).sum(0)
        return a, torch.stack([vector @ v_b for vector, v_b in zip(each, self.v_b, strict=True)]).sum(0)


class Ties(Link):
    """Turns the rewards of two texts into logits of three answers, the third that neither is preferred.

    Args:
        share: of ties among texts with equal rewards, where training begins.
    """

    def __init__(self, share: float) -> None:
        super().__init__({})
        self.log_nu = nn.Parameter(torch.tensor([2 * share / (1 - share)]).log())

    def forward(self, outputs: Tensor, vectors: Sequence[Tensor] = ()) -> Tensor:
        """Return the logits (B, 3) of rewards (B, 2)."""
        r_1, r_2 = outputs.to(self.log_nu.dtype).unbind(dim=1)
        return preference_or_tie_logits(r_1, r_2, self.log_nu)

    def merge(self, vectors: Sequence[Tensor]) -> tuple[dict[str, Tensor], Tensor]:
        """Return the weight of ties, which is that of all."""
        return {"log_nu": self.log_nu}, self.log_nu.new_ones(())


def _softplus_inverse(values: Tensor) -> Tensor:
    return values + torch.log(-torch.expm1(-values))

"""The last layer of models with ordered answers, in a file of its own, since all else works without torch."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor, nn

from attribune import functional

__all__ = ["CutPoints"]

_CLOSEST = 1e-3  # two cut points of an initial model


class CutPoints(nn.Module):
    """Turns a score into the log-probabilities of ordered answers.

    Args:
        initial: K - 1 cut points in order, where training begins.
    """

    def __init__(self, initial: Sequence[float]) -> None:
        super().__init__()
        points = np.asarray(initial, dtype=np.float64)
        gaps = np.maximum(np.diff(points), _CLOSEST)
        self.first = nn.Parameter(torch.tensor(points[:1], dtype=torch.float32))
        # The inverse of softplus
        self.delta = nn.Parameter(torch.tensor(gaps + np.log(-np.expm1(-gaps)), dtype=torch.float32))

    def forward(self, score: Tensor) -> Tensor:
        """Return the log-probabilities (B, K) of scores (B, 1)."""
        score = score.to(self.first.dtype).squeeze(1)
        return functional.ordinal_log_probabilities(score, self.first, self.delta)

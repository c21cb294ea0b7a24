"""The last layer of models with ordered answers, in a file of its own, since all else works without torch."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as torch_functional

from attribune import functional

__all__ = ["CutPoints", "Link"]

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
        vector_sizes: of the attributes that shift and scale the cut points (`functional.ordinal_log_probabilities`).
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
        return functional.ordinal_log_probabilities(score, self.first, self.delta, a=a, b=b)

    def merge(self, vectors: Sequence[Tensor]) -> tuple[dict[str, Tensor], Tensor]:
        """Return the cut points of one row, times its scale, as is the score."""
        a, b = self._personal(vectors)
        if a is None or b is None:
            return {"first": self.first, "delta": self.delta}, self.first.new_ones(())
        scale = a.exp()
        gaps = scale.double() * torch_functional.softplus(self.delta.double())
        return {"first": scale * (self.first + b), "delta": _softplus_inverse(gaps).to(scale.dtype)}, scale.squeeze(0)

    def _personal(self, vectors: Sequence[Tensor]) -> tuple[Tensor | None, Tensor | None]:
        """Return the logarithms of the scales and the shifts, (B,) each."""
        if not vectors:
            return None, None
        each = [vector.to(self.first.dtype) for vector in vectors]
        a = torch.stack([vector @ v_a for vector, v_a in zip(each, self.v_a, strict=True)]).sum(0)
        return a, torch.stack([vector @ v_b for vector, v_b in zip(each, self.v_b, strict=True)]).sum(0)


def _softplus_inverse(values: Tensor) -> Tensor:
    return values + torch.log(-torch.expm1(-values))

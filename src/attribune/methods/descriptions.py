"""The part of a value's vector that its description says."""

from __future__ import annotations

from math import ceil, sqrt

import numpy as np
import numpy.typing as npt
import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from attribune import functional
from attribune.schema.description_kinds import Text, ValueDescriptions

_INNER = 64  # D, of the map's inner layer, and of projected texts
_LARGEST_EMBEDDING = 16


class DescribedValues(nn.Module):
    """Vectors ``f(φ_v)`` of described values: a map of two layers, the second of which starts at zero.

    φ_v are the embeddings of categories (those of several add up), the figures of numbers and vectors, and texts
    projected to D. Where nothing is known, the vector is zero.

    Args:
        counts: (ids,) training rows of each value.
        size: Z.

    Attributes:
        features: (ids, F), as `ValueDescriptions` has them; not learned.
        own_ids: (ids,) the id whose own vector a value has: that of the unknown, where it has no rows, or where no
            value has one of its own.
    """

    features: Tensor
    own_ids: Tensor

    def __init__(self, description: ValueDescriptions, counts: npt.NDArray[np.int64], size: int) -> None:
        super().__init__()
        self._fields = description.fields
        self.register_buffer("own_ids", _own_ids(description, counts), persistent=False)
        self.register_buffer("features", torch.from_numpy(description.features), persistent=False)
        self.embeddings, self.projections = nn.ParameterDict(), nn.ParameterDict()
        inputs = 0
        for number, field in enumerate(self._fields):
            if field.slots:
                width = min(_LARGEST_EMBEDDING, ceil(sqrt(len(field.categories))))
                self.embeddings[str(number)] = nn.Parameter(torch.randn(len(field.categories) + 1, width))
            elif isinstance(field.spec, Text):
                width = _INNER
                self.projections[str(number)] = nn.Parameter(torch.randn(field.width, width) * field.width**-0.5)
            else:
                width = field.width
            inputs += width
        self.W_1 = nn.Parameter(torch.randn(inputs, _INNER) * inputs**-0.5)
        self.b_1 = nn.Parameter(torch.zeros(_INNER))
        self.W_2 = nn.Parameter(torch.zeros(_INNER, size))

    def use_values(self, description: ValueDescriptions, counts: npt.NDArray[np.int64]) -> None:
        """Describe other values, by the same fields."""
        device = self.features.device
        self.own_ids = _own_ids(description, counts).to(device)
        self.features = torch.from_numpy(description.features).to(device)

    def forward(self, ids: Int[Tensor, "..."]) -> Float[Tensor, "... Z"]:
        """Return the vectors of ids."""
        x = self._read(self.features[ids.reshape(-1)]).to(self.W_1.dtype)
        return functional.described_vectors(x, self.W_1, self.b_1, self.W_2).view(*ids.shape, -1)

    def _read(self, features: Float[Tensor, "U F"]) -> Float[Tensor, "U X"]:
        parts, start = [], 0
        for number, field in enumerate(self._fields):
            part, name = features[:, start : start + field.width], str(number)
            start += field.width
            if field.slots:
                known = (part != 0).to(self.W_1.dtype).unsqueeze(-1)
                part = (nn.functional.embedding(part.long(), self.embeddings[name]) * known).sum(dim=1)
            elif isinstance(field.spec, Text):
                part = part.to(self.W_1.dtype) @ self.projections[name]
            parts.append(part)
        return torch.cat(parts, dim=1)


def _own_ids(description: ValueDescriptions, counts: npt.NDArray[np.int64]) -> Int[Tensor, " ids"]:
    own = np.where(counts > 0, np.arange(len(counts)), 0) if description.own_vectors else np.zeros_like(counts)
    return torch.from_numpy(own)

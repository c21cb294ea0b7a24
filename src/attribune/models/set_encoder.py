"""Encoders of sets: the vector of a new value from its labelled rows, in one pass and without gradients."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np
import numpy.typing as npt
import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from attribune import functional
from attribune.tasks import Task

__all__ = ["LabelledDocuments", "SetEncoder"]

_INNER, _LABEL, _ATTENTION = 64, 16, 16  # G, Y and A
_KAPPA = 5.0  # rows at which an encoding has half its size, before training


@dataclass(frozen=True, kw_only=True)
class LabelledDocuments:
    """What an encoder reads of n rows.

    Attributes:
        h: (n, H) document vectors of length 1, the value hidden.
        y: (n, C) labels, as the gradient of their losses at logits of zero, with the other sign: for classes the one
            that it is, less what all have.
        r: (n, C) what is left over, the gradient of the losses in the logits.
    """

    h: Tensor
    y: Tensor
    r: Tensor

    @classmethod
    def of(cls, task: Task, documents: Tensor, logits: Tensor, labels: Tensor) -> Self:
        """Compute it from documents (n, H), their logits (n, C) and labels."""
        h = nn.functional.normalize(documents.float() - documents.float().mean(dim=1, keepdim=True), dim=1)
        y, r = -_gradients(task, torch.zeros_like(logits), labels), _gradients(task, logits, labels)
        return cls(h=h, y=y, r=r)

    @classmethod
    def concat(cls, parts: Sequence[Self], order: npt.NDArray[np.intp]) -> Self:
        """Join parts, whose rows have these numbers."""
        back = torch.from_numpy(np.argsort(order))
        h, y, r = (torch.cat([getattr(part, name) for part in parts])[back] for name in "hyr")
        return cls(h=h, y=y, r=r)


def _gradients(task: Task, logits: Tensor, labels: Tensor) -> Tensor:
    with torch.enable_grad():
        at = logits.detach().float().requires_grad_()
        (gradient,) = torch.autograd.grad(task.row_losses(at, labels).sum(), at)
    return gradient


class SetEncoder(nn.Module):
    """Turns the labelled rows of a value into its vector; see `functional.set_encoding`.

    The last layer starts at zero: before training every vector is that of the unknown value, or what its description
    says.

    Args:
        features: H of document vectors.
        outputs: C of logits.
        numbers: D of a value's vectors in all tables.
    """

    def __init__(self, *, features: int, outputs: int, numbers: int) -> None:
        super().__init__()
        inputs = features + _LABEL + outputs
        self.E = nn.Parameter(torch.randn(outputs, _LABEL) * outputs**-0.5)
        self.W_1 = nn.Parameter(torch.randn(inputs, _INNER) * inputs**-0.5)
        self.b_1 = nn.Parameter(torch.zeros(_INNER))
        self.W_2 = nn.Parameter(torch.zeros(outputs, _INNER, numbers))
        self.U = nn.Parameter(torch.randn(numbers, _ATTENTION) * numbers**-0.5)
        self.q = nn.Parameter(torch.zeros(_ATTENTION))
        self.kappa = nn.Parameter(torch.tensor([_KAPPA]).expm1().log())

    def forward(
        self,
        h: Float[Tensor, "V n H"],
        y: Float[Tensor, "V n C"],
        r: Float[Tensor, "V n C"],
        mask: Bool[Tensor, "V n"],
    ) -> Float[Tensor, "V D"]:
        """Return the vectors of sets of rows, of which the mask says which are there."""
        g = functional.residual_features(h, y, r, E=self.E, W_1=self.W_1, b_1=self.b_1, W_2=self.W_2)
        return functional.set_encoding(g, mask, U=self.U, q=self.q, kappa=nn.functional.softplus(self.kappa))

    @torch.no_grad()
    def change_units(self, units: Float[Tensor, " D"]) -> None:
        """Give vectors in units of their own, which until now were in these units."""
        self.W_2.mul_(units)
        self.U.div_(torch.where(units > 0, units, 1).unsqueeze(1))

    def of_sets(self, documents: LabelledDocuments, sets: Sequence[npt.NDArray[np.intp]]) -> Float[Tensor, "V D"]:
        """Return the vectors of sets, each given by the numbers of its rows."""
        width = max(map(len, sets))
        index = torch.tensor([[*rows, *[0] * (width - len(rows))] for rows in sets], dtype=torch.int64)
        mask = torch.arange(width) < torch.tensor([len(rows) for rows in sets])[:, None]
        vectors: Tensor = self(documents.h[index], documents.y[index], documents.r[index], mask)
        return vectors

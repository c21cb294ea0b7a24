"""``upa``: attention pooling that the attributes steer (Chen et al. 2016)."""

from __future__ import annotations

from typing import ClassVar

import torch
from pydantic import PositiveInt
from torch import nn

from attribune import functional
from attribune.methods.attribute_method import VectorMethod
from attribune.methods.base import Method, Pool
from attribune.methods.condition import Condition
from attribune.methods.config import Point, VectorMethodConfig
from attribune.methods.host import Host
from attribune.methods.shapes import Documents, Mask, States

__all__ = ["Upa"]


class Upa(VectorMethodConfig):
    """The document vector is ``sum_t alpha_t h_t``, alpha the softmax of ``v^T tanh(W_h h_t + sum_j W_j a_j + b)``.

    Chen et al. 2016, *Neural Sentiment Classification with User and Product Attention*, equations 2 and 3, on the last
    states of the backbone, which is tuned in full by default.

    Args:
        attention_size: A, the inner size; by default the hidden size.
    """

    name: ClassVar[str] = "upa"
    points: ClassVar[tuple[Point, ...]] = ("pool",)
    default_tuning: ClassVar[str] = "full"

    attention_size: PositiveInt | None = None

    def build(self, host: Host) -> Method:
        """Build one attention over the tokens."""
        return _UpaMethod(self, host)


class _UpaMethod(VectorMethod):
    def __init__(self, config: Upa, host: Host) -> None:
        super().__init__(config, host)
        A, H, width = config.attention_size or host.hidden, host.hidden, len(host.slots) * config.vector_size
        self.W_h = nn.Parameter(torch.randn(A, H) * H**-0.5)
        self.W = nn.Parameter(torch.randn(A, width))
        self.b = nn.Parameter(torch.zeros(A))
        self.v = nn.Parameter(torch.randn(A) * A**-0.5)

    def pool(self, hidden: States, attention_mask: Mask, condition: Condition, default: Pool) -> Documents:
        states = self.in_own_precision(hidden)
        return functional.attention_pool(states, attention_mask, condition.vectors(), self.W_h, self.W, self.b, self.v)

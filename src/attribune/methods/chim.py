"""``chim``: chunk-wise importance matrices at the classifier (Amplayo 2019)."""

from __future__ import annotations

from typing import ClassVar

import torch
from pydantic import PositiveInt
from torch import nn

from attribune import functional
from attribune.errors import ConfigError
from attribune.methods.attribute_method import VectorMethod
from attribune.methods.base import Method
from attribune.methods.condition import Condition
from attribune.methods.config import MethodConfig, Point, VectorMethodConfig
from attribune.methods.host import Host
from attribune.methods.merging import MergedMethod, MergeTarget
from attribune.methods.plain import Plain
from attribune.methods.shapes import Documents, Logits

__all__ = ["Chim"]

_PAPER = 15


class Chim(VectorMethodConfig):
    """``logits = h (I ⊙ W) + b``: the attributes determine the importance of each weight of the classifier.

    Amplayo 2019, *Rethinking Attribute Representation and Injection for Sentiment Classification*. The importance I is
    a chunk of H / r rows, ``sigmoid(reshape(Q c + b_q))`` of the attributes' vectors c, repeated r times. The backbone
    is tuned in full by default.

    Args:
        repeats: r, a divisor of the hidden size; by default the one nearest to the paper's 15.
    """

    name: ClassVar[str] = "chim"
    points: ClassVar[tuple[Point, ...]] = ("classify",)
    default_tuning: ClassVar[str] = "full"

    repeats: PositiveInt | None = None

    def build(self, host: Host) -> Method:
        """Build one map from the attributes to the chunk."""
        return _ChimMethod(self, host)


class _ChimMethod(VectorMethod):
    def __init__(self, config: Chim, host: Host) -> None:
        super().__init__(config, host)
        chunk = host.classified // divisor(host.classified, config.repeats)
        self.Q = nn.Parameter(torch.randn(chunk * host.outputs, len(host.slots) * config.vector_size))
        self.b_q = nn.Parameter(torch.zeros(chunk * host.outputs))

    def classify(self, document: Documents, condition: Condition, head: nn.Linear) -> Logits:
        c = condition.vectors()
        return functional.chunk_importance_logits(document, c, self.Q, self.b_q, head.weight.T, head.bias)

    def merge(self, config: MethodConfig, condition: Condition, target: MergeTarget) -> MergedMethod:
        """Merge into the weight of the head: its rows are the logits of each feature alone, without the bias."""
        W, no_bias = target.head.weight, torch.zeros_like(target.head.bias)
        features = torch.eye(W.shape[1], dtype=W.dtype, device=W.device)
        c = condition.vectors().expand(len(features), -1)
        weight = functional.chunk_importance_logits(features, c, self.Q, self.b_q, W.T, no_bias)
        return MergedMethod(config=Plain(), head=weight.T)


def divisor(hidden: int, repeats: int | None) -> int:
    """Return the number of repeats; for None the divisor of the hidden size nearest to the paper's 15.

    Raises:
        ConfigError: if `repeats` does not divide the hidden size.
    """
    divisors = [r for r in range(1, hidden + 1) if hidden % r == 0]
    if repeats is None:
        return min(divisors, key=lambda r: (abs(r - _PAPER), r))
    if repeats not in divisors:
        raise ConfigError(
            f"chim: repeats is {repeats}, but the hidden size {hidden} is not divisible by it: choose one of "
            f"{', '.join(map(str, divisors))}"
        )
    return repeats

"""``chim``: chunk-wise importance matrices at the classifier (Amplayo 2019)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor, nn

from attribune import functional
from attribune.condition import Condition
from attribune.errors import ConfigError
from attribune.methods.base import Method, VectorMethod
from attribune.methods.fixed import Around, Fixed
from attribune.methods.host import Host
from attribune.methods.plain import Plain
from attribune.methods.settings import MethodConfig, Point, VectorMethodConfig, check_positive

__all__ = ["Chim"]

_PAPER = 15


@dataclass(frozen=True, kw_only=True)
class Chim(VectorMethodConfig):
    """``logits = h (I ⊙ W) + b``: how much each weight of the classifier counts depends on the attributes.

    Amplayo 2019, *Rethinking Attribute Representation and Injection for Sentiment Classification*. The importance I is
    a chunk of H / r rows, ``sigmoid(reshape(Q c + b_q))`` of the attributes' vectors c, repeated r times. The backbone
    is tuned in full unless told otherwise.

    Args:
        repeats: r, a divisor of the hidden size; the divisor nearest to the paper's 15 unless given.
        vector_size: Z, the size of the attributes' vectors.
        attribute_dropout: probability with which a (row, attribute) is hidden in training.
        initial_vector: standard deviation of the initial vectors.
    """

    name: ClassVar[str] = "chim"
    points: ClassVar[tuple[Point, ...]] = ("classify",)
    default_tuning: ClassVar[str] = "full"

    repeats: int | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        check_positive(self.name, repeats=self.repeats)

    def build(self, host: Host) -> Method:
        """One map from the attributes to the chunk."""
        return _ChimMethod(self, host)


class _ChimMethod(VectorMethod):
    def __init__(self, config: Chim, host: Host) -> None:
        super().__init__(config, host)
        chunk = host.hidden // divisor(host.hidden, config.repeats)
        self.Q = nn.Parameter(torch.randn(chunk * host.outputs, len(host.slots) * config.vector_size))
        self.b_q = nn.Parameter(torch.zeros(chunk * host.outputs))

    def classify(self, document: Tensor, condition: Condition, head: nn.Linear) -> Tensor:
        """The logits (B, L)."""
        return functional.chunk_importance_logits(
            document, condition.vectors(), self.Q, self.b_q, head.weight.T, head.bias
        )

    def fixed(self, config: MethodConfig, condition: Condition, around: Around) -> Fixed:
        """Another matrix of the classifier: that which is left of it without its bias, feature by feature."""
        W = around.head.weight
        features = torch.eye(W.shape[1], dtype=W.dtype, device=W.device)
        c = condition.vectors().expand(len(features), -1)
        weight = functional.chunk_importance_logits(
            features, c, self.Q, self.b_q, W.T, torch.zeros_like(around.head.bias)
        )
        return Fixed(config=Plain(), head=weight.T)


def divisor(hidden: int, repeats: int | None) -> int:
    """The number of repeats: that asked for, or for None the divisor of the hidden size nearest to the paper's 15.

    Raises:
        ConfigError: when the hidden size is not divisible by what was asked; the message names what fits.
    """
    fitting = [r for r in range(1, hidden + 1) if hidden % r == 0]
    if repeats is None:
        return min(fitting, key=lambda r: (abs(r - _PAPER), r))
    if repeats not in fitting:
        raise ConfigError(
            f"chim: repeats is {repeats}, but the hidden size {hidden} is not divisible by it: choose one of "
            f"{', '.join(map(str, fitting))}"
        )
    return repeats

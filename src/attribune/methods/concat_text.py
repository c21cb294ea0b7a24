"""``concat-text``: attributes are concatenated to the document vector."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import ClassVar

import torch
from torch import Tensor, nn

from attribune import functional
from attribune.condition import Condition
from attribune.methods.base import AttributeMethod, Method, Pool
from attribune.methods.host import Host
from attribune.methods.settings import AttributeMethodConfig, Point, check_positive

__all__ = ["ConcatConfig", "ConcatMethod", "ConcatText"]


@dataclass(frozen=True, kw_only=True)
class ConcatConfig(AttributeMethodConfig):
    """Settings of the fusion by concatenation; see the methods."""

    default_tuning: ClassVar[str] = "full"

    vector_size: int | None = None
    initial_vector: float = 0.25

    def __post_init__(self) -> None:
        super().__post_init__()
        check_positive(self.name, vector_size=self.vector_size, initial_vector=self.initial_vector)


@dataclass(frozen=True, kw_only=True)
class ConcatText(ConcatConfig):
    """The document vector h becomes ``tanh(W [h; a_1; ...; a_M])``.

    MA-BERT's baseline "BERT Concat (text)", which in the paper reads a frozen backbone: ``tuning: frozen`` reproduces
    that; otherwise the backbone is tuned in full.

    Args:
        vector_size: of the attributes' vectors; the hidden size unless given.
        initial_vector: the vectors start uniform between minus this and this.
        attribute_dropout: probability with which a (row, attribute) is hidden in training; trains the vector of the
            unknown.
    """

    name: ClassVar[str] = "concat-text"
    points: ClassVar[tuple[Point, ...]] = ("pool",)

    def build(self, host: Host) -> Method:
        """The fusion behind the model's own pooling."""
        return _ConcatText(self, host)


class ConcatMethod(AttributeMethod):
    """The fusion ``tanh(W [h; a_1; ...; a_M])``; the unknown has a learned vector."""

    learns_unknown: ClassVar[bool] = True

    def __init__(self, config: ConcatConfig, host: Host) -> None:
        size, bound = config.vector_size or host.hidden, config.initial_vector
        super().__init__(
            config,
            host,
            sizes=[size] * len(host.slots),
            initial=partial(nn.init.uniform_, a=-bound, b=bound),
        )
        width = host.hidden + size * len(host.slots)
        self.W = nn.Parameter(torch.randn(host.hidden, width) * width**-0.5)


class _ConcatText(ConcatMethod):
    def pool(self, hidden: Tensor, attention_mask: Tensor, condition: Condition, default: Pool) -> Tensor:
        """The fused document vectors (B, H)."""
        document = self.in_own_precision(default(hidden, attention_mask))
        return functional.concatenate(document, condition.vectors(), self.W)

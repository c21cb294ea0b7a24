"""``prefix``: vectors made from the attributes in front of the text."""

from __future__ import annotations

from typing import ClassVar

import torch
from pydantic import PositiveFloat, PositiveInt
from torch import nn

from attribune import functional
from attribune.methods.attribute_method import VectorMethod
from attribune.methods.base import Embedded, Method
from attribune.methods.condition import Condition
from attribune.methods.config import VectorMethodConfig
from attribune.methods.host import Host
from attribune.methods.shapes import InputIds, Mask
from attribune.methods.tokens import FrontMethodConfig

__all__ = ["Prefix"]


class Prefix(FrontMethodConfig, VectorMethodConfig):
    """The text stands behind k vectors ``P_i = P_0i + sum_j Q_ij a_j``, in the places of token embeddings.

    Prompt tuning (Lester, Al-Rfou and Constant 2021) with a part that depends on the attributes; with one vector it is
    Embedding-to-Prefix (Huber et al. 2025). The vectors have positions of their own and count towards the length limit.
    The document vector is pooled from the text's tokens only, which attend to them. Q starts at zero, so that all
    values begin with the same prefix.

    Args:
        length: k.
        initial_prefix: standard deviation of the initial P_0.
    """

    name: ClassVar[str] = "prefix"

    length: PositiveInt = 1
    initial_prefix: PositiveFloat = 0.02

    def build(self, host: Host) -> Method:
        """Build P_0, Q and one table of vectors per attribute."""
        return _PrefixMethod(self, host)


class _PrefixMethod(VectorMethod):
    def __init__(self, config: Prefix, host: Host) -> None:
        super().__init__(config, host)
        self.extra_positions = config.length
        self.P_0 = nn.Parameter(torch.randn(config.length, host.embedding) * config.initial_prefix)
        self.Q = nn.Parameter(torch.zeros(config.length, host.embedding, config.vector_size * len(host.slots)))

    def embed(
        self, input_ids: InputIds, attention_mask: Mask, condition: Condition, embeddings: nn.Module
    ) -> Embedded | None:
        prefix = functional.soft_prefix(condition.vectors(), self.P_0, self.Q)
        present = attention_mask.new_ones(prefix.shape[:2])
        return Embedded(
            *functional.control_tokens(embeddings(input_ids), attention_mask, prefix, present, after_first=False)
        )

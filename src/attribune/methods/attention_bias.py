"""``attention-bias``: attributes steer the attention of a stack of layers, and nothing else."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from attribune.methods.stack import StackConfig

__all__ = ["AttentionBias"]


@dataclass(frozen=True, kw_only=True)
class AttentionBias(StackConfig):
    """The layers of ``maa`` with the attributes in queries and keys only.

    MA-BERT's baseline "BERT Attention (bias)", which in the paper reads a frozen backbone: ``tuning: frozen``
    reproduces that; otherwise the backbone is tuned in full.

    Args:
        layers: N, of the stack.
        heads: K, of each attribute; the backbone's unless given.
        size: of queries, keys and values, and of the attributes' vectors; the hidden size unless given.
        inner: of the feed-forward parts; the backbone's unless given.
        dropout: inside the layers.
        initial: whether the matrices start at random or as those of the backbone's last layers.
        initial_vector: the vectors start uniform between minus this and this.
        attribute_dropout: probability with which a (row, attribute) is hidden in training; trains the vector of the
            unknown.
    """

    name: ClassVar[str] = "attention-bias"
    in_values: ClassVar[bool] = False

"""``maa``: multi-attribute attention in a stack of layers on the backbone (Zhang et al. 2021, MA-BERT)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from attribune.methods.stack import StackConfig

__all__ = ["Maa"]


@dataclass(frozen=True, kw_only=True)
class Maa(StackConfig):
    """Transformer layers whose queries, keys and values are multiplied by the attributes' vectors.

    MA-BERT, equations 2 to 7: ``Q_m = (T W_{q,m}) ⊙ e_m`` and so on, one attention per attribute, side by side into
    one output map; then norm, feed-forward and norm. The backbone is tuned in full unless told otherwise.

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

    name: ClassVar[str] = "maa"

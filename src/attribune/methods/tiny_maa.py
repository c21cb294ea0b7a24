"""``tiny-maa``: MA-BERT's attention in one small layer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from attribune.methods.stack import StackConfig

__all__ = ["TinyMaa"]


@dataclass(frozen=True, kw_only=True)
class TinyMaa(StackConfig):
    """One multi-attribute layer of small sizes, about 1 % of the encoder's parameters.

    The baseline of that name of Amplayo, Yoo and Lee 2022, whose sizes the paper leaves open: with these, two
    attributes on the BERT-base shape come to the 1.01 times of its table 2.

    Args:
        layers: N, of the stack.
        heads: K, of each attribute.
        size: of queries, keys and values, and of the attributes' vectors.
        inner: of the feed-forward parts.
        dropout: inside the layers.
        initial: whether the matrices start at random or, with the backbone's own sizes, as those of its last layers.
        initial_vector: the vectors start uniform between minus this and this.
        attribute_dropout: probability with which a (row, attribute) is hidden in training; trains the vector of the
            unknown.
    """

    name: ClassVar[str] = "tiny-maa"

    layers: int = 1
    heads: int | None = 1
    size: int | None = 64
    inner: int | None = 256

"""``concat-text``, ``concat-word``: attributes concatenated to the text's states (baselines of MA-BERT)."""

from __future__ import annotations

from functools import partial
from typing import ClassVar

import torch
from jaxtyping import Float
from pydantic import PositiveFloat, PositiveInt
from torch import Tensor, nn

from attribune import functional
from attribune.methods.attribute_method import AttributeMethod
from attribune.methods.base import Method, Pool
from attribune.methods.condition import Condition
from attribune.methods.config import AttributeMethodConfig, Point, Probability
from attribune.methods.host import Host
from attribune.methods.ma_bert import build_layers
from attribune.methods.shapes import Documents, Mask, States


class _ConcatConfig(AttributeMethodConfig):
    """Settings of both methods.

    Args:
        vector_size: size of the attributes' vectors; null for the hidden size.
        initial_vector: r of the initial vectors, drawn from U(-r, r).
        attribute_dropout: probability of hiding an attribute of a row in training, which trains the vector of the
            unknown.
    """

    default_tuning: ClassVar[str] = "full"

    vector_size: PositiveInt | None = None
    initial_vector: PositiveFloat = 0.25


class ConcatText(_ConcatConfig):
    """Attributes concatenated to the document vector (Zhang et al. 2021).

    The document vector h becomes ``tanh(W [h; a_1; ...; a_M])``.
    MA-BERT's baseline "BERT Concat (text)". The backbone is fine-tuned by default; the paper's is frozen, as with
    ``tuning: frozen``.
    """

    name: ClassVar[str] = "concat-text"
    points: ClassVar[tuple[Point, ...]] = ("pool",)

    def build(self, host: Host) -> Method:
        """Build the fusion behind the model's own pooling."""
        return _ConcatTextMethod(self, host)


class ConcatWord(_ConcatConfig):
    """Attributes concatenated to every token, with plain Transformer layers on top (Zhang et al. 2021).

    Every state h_t becomes ``tanh(W [h_t; a_1; ...; a_M])``.
    MA-BERT's baseline "BERT Concat (word)". The backbone is fine-tuned by default; the paper's is frozen, as with
    ``tuning: frozen``.

    Args:
        layers: N, the number of layers.
        heads: number of their attention heads; null for as many as the backbone has.
        inner: size of their feed-forward parts; null for that of the backbone.
        dropout: dropout inside the layers.
    """

    name: ClassVar[str] = "concat-word"
    points: ClassVar[tuple[Point, ...]] = ("encode",)

    layers: PositiveInt = 6
    heads: PositiveInt | None = None
    inner: PositiveInt | None = None
    dropout: Probability = 0.1

    def build(self, host: Host) -> Method:
        """Build the fusion and the layers."""
        return _ConcatWordMethod(self, host)


class _ConcatMethod(AttributeMethod):
    """The fusion ``tanh(W [h; a_1; ...; a_M])``; the unknown has a learned vector."""

    learns_unknown: ClassVar[bool] = True

    def __init__(self, config: _ConcatConfig, host: Host) -> None:
        size, bound = config.vector_size or host.hidden, config.initial_vector
        initial = partial(nn.init.uniform_, a=-bound, b=bound)
        super().__init__(config, host, sizes=[size] * len(host.slots), initial=initial)
        width = host.hidden + size * len(host.slots)
        self.W = nn.Parameter(torch.randn(host.hidden, width) * width**-0.5)

    def fuse(self, states: Float[Tensor, "B *T H"], condition: Condition) -> Float[Tensor, "B *T H"]:
        """Fuse the rows' document vectors or states with their attributes."""
        return functional.concatenate(self.in_own_precision(states), condition.vectors(), self.W)


class _ConcatTextMethod(_ConcatMethod):
    def pool(self, hidden: States, attention_mask: Mask, condition: Condition, default: Pool) -> Documents:
        return self.fuse(default(hidden, attention_mask), condition)


class _ConcatWordMethod(_ConcatMethod):
    def __init__(self, config: ConcatWord, host: Host) -> None:
        super().__init__(config, host)
        self.layers = build_layers(
            config.name,
            host,
            count=config.layers,
            size=host.hidden,
            heads=config.heads,
            inner=config.inner,
            attributes=1,
            dropout=config.dropout,
        )

    def encode(self, hidden: States, attention_mask: Mask, condition: Condition) -> States:
        states = self.fuse(hidden, condition)
        for layer in self.layers:
            states = layer(states, attention_mask)
        return states

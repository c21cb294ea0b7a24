"""``concat-word``: attributes are concatenated to every token, with Transformer layers on top."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor, nn

from attribune import functional
from attribune.condition import Condition
from attribune.methods.base import Method
from attribune.methods.concat_text import ConcatConfig, ConcatMethod
from attribune.methods.host import Host
from attribune.methods.settings import Point, check_between, check_positive
from attribune.methods.stack import Layer, check_heads

__all__ = ["ConcatWord"]


@dataclass(frozen=True, kw_only=True)
class ConcatWord(ConcatConfig):
    """Every state h_t becomes ``tanh(W [h_t; a_1; ...; a_M])``, then plain Transformer layers follow.

    MA-BERT's baseline "BERT Concat (word)", which in the paper reads a frozen backbone: ``tuning: frozen`` reproduces
    that; otherwise the backbone is tuned in full.

    Args:
        layers: N, of the stack.
        heads: of its attention; the backbone's unless given.
        inner: of its feed-forward parts; the backbone's unless given.
        dropout: inside the layers.
        vector_size: of the attributes' vectors; the hidden size unless given.
        initial_vector: the vectors start uniform between minus this and this.
        attribute_dropout: probability with which a (row, attribute) is hidden in training; trains the vector of the
            unknown.
    """

    name: ClassVar[str] = "concat-word"
    points: ClassVar[tuple[Point, ...]] = ("encode",)

    layers: int = 6
    heads: int | None = None
    inner: int | None = None
    dropout: float = 0.1

    def __post_init__(self) -> None:
        super().__post_init__()
        check_positive(self.name, layers=self.layers, heads=self.heads, inner=self.inner)
        check_between(self.name, 0, 1, dropout=self.dropout)

    def build(self, host: Host) -> Method:
        """The fusion and the layers."""
        return _ConcatWord(self, host)


class _ConcatWord(ConcatMethod):
    def __init__(self, config: ConcatWord, host: Host) -> None:
        super().__init__(config, host)
        heads, inner = config.heads or host.heads, config.inner or host.at("outer")[0].inputs
        check_heads(config.name, heads=heads, size=host.hidden)
        self.layers = nn.ModuleList(
            Layer(hidden=host.hidden, size=host.hidden, inner=inner, heads=heads, attributes=1, dropout=config.dropout)
            for _ in range(config.layers)
        )

    def encode(self, hidden: Tensor, attention_mask: Tensor, condition: Condition) -> Tensor:
        """The states (B, T, H) after the last layer of the stack."""
        states = functional.concatenate(self.in_own_precision(hidden), condition.vectors(), self.W)
        for layer in self.layers:
            states = layer(states, attention_mask)
        return states

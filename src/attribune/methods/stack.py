"""Transformer layers on top of a backbone, with or without attributes in their attention; shared by several methods."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import ClassVar, Literal

import torch
from torch import Tensor, nn

from attribune import functional
from attribune.condition import Condition
from attribune.errors import ConfigError
from attribune.methods.base import AttributeMethod, Method
from attribune.methods.host import Host
from attribune.methods.settings import AttributeMethodConfig, Point, check_between, check_positive
from attribune.placement import SiteKind

__all__ = ["Layer", "StackConfig", "StackMethod", "check_heads"]

_STANDARD_DEVIATION = 0.02  # of the initial matrices, as in BERT


@dataclass(frozen=True, kw_only=True)
class StackConfig(AttributeMethodConfig):
    """Settings of a stack of multi-attribute Transformer layers; see the methods.

    ``in_values`` says whether the attributes are in the values of the attention, too.
    """

    points: ClassVar[tuple[Point, ...]] = ("encode",)
    default_tuning: ClassVar[str] = "full"
    in_values: ClassVar[bool] = True

    layers: int = 6
    heads: int | None = None
    size: int | None = None
    inner: int | None = None
    dropout: float = 0.1
    initial: Literal["random", "backbone"] = "random"
    initial_vector: float = 0.25

    def __post_init__(self) -> None:
        super().__post_init__()
        check_positive(
            self.name,
            layers=self.layers,
            heads=self.heads,
            size=self.size,
            inner=self.inner,
            initial_vector=self.initial_vector,
        )
        check_between(self.name, 0, 1, dropout=self.dropout)

    def build(self, host: Host) -> Method:
        """The stack."""
        return StackMethod(self, host)


class StackMethod(AttributeMethod):
    """Multi-attribute layers on the backbone's last states; the unknown has a learned vector.

    A zero vector would erase the text in the products of the attention.
    """

    learns_unknown: ClassVar[bool] = True

    def __init__(self, config: StackConfig, host: Host) -> None:
        heads, size = config.heads or host.heads, config.size or host.hidden
        check_heads(config.name, heads=heads, size=size)
        bound = config.initial_vector
        super().__init__(
            config,
            host,
            sizes=[size] * len(host.slots),
            initial=partial(nn.init.uniform_, a=-bound, b=bound),
        )
        inner = config.inner or host.at("outer")[0].inputs
        self.in_values = config.in_values
        self.layers = nn.ModuleList(
            Layer(
                hidden=host.hidden,
                size=size,
                inner=inner,
                heads=heads,
                attributes=len(host.slots),
                dropout=config.dropout,
            )
            for _ in range(config.layers)
        )
        if config.initial == "backbone":
            _copy_backbone(config.name, list(self.layers), host)

    def encode(self, hidden: Tensor, attention_mask: Tensor, condition: Condition) -> Tensor:
        """The states (B, T, H) after the last layer of the stack."""
        states = self.in_own_precision(hidden)
        vectors = torch.stack(condition.each(), dim=1)
        for layer in self.layers:
            states = layer(states, attention_mask, vectors, in_values=self.in_values)
        return states


class Layer(nn.Module):
    """One post-norm Transformer layer whose attention is that of MA-BERT, or plain attention without attributes.

    Args:
        hidden: H.
        size: of queries, keys and values.
        inner: of the feed-forward part.
        heads: of each attribute.
        attributes: M; 1 for plain attention.
        dropout: on the attention's weights and on what is added to the states, as in BERT.
    """

    def __init__(self, *, hidden: int, size: int, inner: int, heads: int, attributes: int, dropout: float) -> None:
        super().__init__()
        self.heads = heads
        self.dropout = nn.Dropout(dropout)
        self.W_q, self.W_k, self.W_v = (_matrix(attributes, hidden, size) for _ in range(3))
        self.W_o = _matrix(attributes * size, hidden)
        self.W_1, self.W_2 = _matrix(hidden, inner), _matrix(inner, hidden)
        self.b_1, self.b_2 = nn.Parameter(torch.zeros(inner)), nn.Parameter(torch.zeros(hidden))
        self.gain_1, self.gain_2 = nn.Parameter(torch.ones(hidden)), nn.Parameter(torch.ones(hidden))
        self.bias_1, self.bias_2 = nn.Parameter(torch.zeros(hidden)), nn.Parameter(torch.zeros(hidden))

    def forward(
        self, states: Tensor, attention_mask: Tensor, vectors: Tensor | None = None, *, in_values: bool = True
    ) -> Tensor:
        """(B, T, H) → (B, T, H); ``vectors`` are (B, M, size)."""
        dropout = self.dropout.p if self.training else 0.0
        attention = functional.multi_attribute_attention(
            states,
            attention_mask,
            vectors,
            self.W_q,
            self.W_k,
            self.W_v,
            self.W_o,
            heads=self.heads,
            in_values=in_values,
            dropout=dropout,
        )
        return functional.multi_attribute_layer(
            states,
            self.dropout(attention),
            self.gain_1,
            self.bias_1,
            self.W_1,
            self.b_1,
            self.W_2,
            self.b_2,
            self.gain_2,
            self.bias_2,
            dropout=dropout,
        )


def check_heads(method: str, *, heads: int, size: int) -> None:
    """Refuse heads that do not divide the size; ConfigError names those that do."""
    if size % heads:
        fitting = ", ".join(str(n) for n in range(1, size + 1) if size % n == 0)
        raise ConfigError(f"{method}: heads is {heads}, but the size {size} is not divisible by it: choose {fitting}")


def _matrix(*shape: int) -> nn.Parameter:
    return nn.Parameter(torch.randn(*shape) * _STANDARD_DEVIATION)


@torch.no_grad()
def _copy_backbone(method: str, layers: list[nn.Module], host: Host) -> None:
    """Start projections and feed-forward maps as those of the backbone's last layers, in their order.

    Every attribute gets a copy of queries, keys and values; their outputs are averaged. Projections have no
    biases here.
    """
    kinds: dict[str, SiteKind] = {
        "W_q": "query",
        "W_k": "key",
        "W_v": "value",
        "W_o": "output",
        "W_1": "inner",
        "W_2": "outer",
    }
    own = len(host.layers)
    if len(layers) > own:
        raise ConfigError(
            f"{method}: initial is 'backbone', but the stack has {len(layers)} layers and the backbone {own} with "
            "weights of their own; choose fewer layers, or initial=random"
        )
    for name, kind in kinds.items():
        sites = host.at(kind)
        last = max(site.layer for site in sites)
        for index, layer in enumerate(reversed(layers)):
            mine = layer.get_parameter(name)
            found = [host.weight(site) for site in sites if site.layer == last - index]
            if len(found) != 1 or found[0].shape[1] != mine.shape[-1]:
                raise ConfigError(
                    f"{method}: initial is 'backbone', but layer {last - index + 1} of the backbone has no {kind} map "
                    f"of the stack's shape; choose fewer layers, the backbone's own sizes, or initial=random"
                )
            W = found[0].to(mine.dtype)
            copies = mine.numel() // W.numel()
            mine.copy_(torch.cat([W / copies] * copies) if name == "W_o" else W.expand_as(mine))
            bias = host.bias(next(site for site in sites if site.layer == last - index))
            if name in ("W_1", "W_2") and bias is not None:
                layer.get_parameter(name.replace("W", "b")).copy_(bias)

"""``maa``, ``tiny-maa``, ``attention-bias``: attributes in the attention of layers on top of the backbone (MA-BERT)."""

from __future__ import annotations

from functools import partial
from typing import ClassVar, Literal

import torch
from jaxtyping import Float
from pydantic import PositiveFloat, PositiveInt
from torch import Tensor, nn

from attribune import functional
from attribune.backbones.placement import SiteKind
from attribune.errors import ConfigError
from attribune.methods.attribute_method import AttributeMethod
from attribune.methods.base import Method
from attribune.methods.condition import Condition
from attribune.methods.config import AttributeMethodConfig, Point, Probability
from attribune.methods.host import Host
from attribune.methods.shapes import Mask, States

_STANDARD_DEVIATION = 0.02  # of the initial matrices, as in BERT


class StackConfig(AttributeMethodConfig):
    """Settings of a stack of multi-attribute Transformer layers.

    ``in_values`` is whether the attributes scale the values of the attention, too.

    Args:
        layers: N, the number of layers.
        heads: K, the number of heads of each attribute; null for as many as the backbone has.
        size: size of queries, keys, values and the attributes' vectors; null for the hidden size.
        inner: size of the feed-forward parts; null for that of the backbone.
        dropout: dropout inside the layers.
        initial: ``random``, or ``backbone``, where the matrices start as copies of those of the backbone's last N
            layers, whose sizes they must have.
        initial_vector: r of the initial vectors, drawn from U(-r, r).
        attribute_dropout: probability of hiding an attribute of a row in training, which trains the vector of the
            unknown.
    """

    points: ClassVar[tuple[Point, ...]] = ("encode",)
    default_tuning: ClassVar[str] = "full"
    in_values: ClassVar[bool] = True

    layers: PositiveInt = 6
    heads: PositiveInt | None = None
    size: PositiveInt | None = None
    inner: PositiveInt | None = None
    dropout: Probability = 0.1
    initial: Literal["random", "backbone"] = "random"
    initial_vector: PositiveFloat = 0.25

    @property
    def feed_forward_option(self) -> str | None:
        """The initial values, where they are copies of maps of the backbone."""
        return "initial=backbone" if self.initial == "backbone" else None

    def build(self, host: Host) -> Method:
        """Build the stack."""
        return _StackMethod(self, host)


class Maa(StackConfig):
    """Transformer layers whose queries, keys and values are multiplied by the attributes' vectors.

    MA-BERT, equations 2 to 7: ``Q_m = (T W_{q,m}) ⊙ e_m`` and so on, one attention per attribute, side by side into
    one output map; then norm, feed-forward and norm. The backbone is fine-tuned by default.
    """

    name: ClassVar[str] = "maa"


class AttentionBias(StackConfig):
    """The layers of ``maa`` with the attributes in queries and keys only.

    MA-BERT's baseline "BERT Attention (bias)". The backbone is fine-tuned by default; the paper's is frozen, as with
    ``tuning: frozen``.
    """

    name: ClassVar[str] = "attention-bias"
    in_values: ClassVar[bool] = False


class TinyMaa(StackConfig):
    """One multi-attribute layer of small sizes, about 1 % of the encoder's parameters.

    The baseline of that name of Amplayo, Yoo and Lee 2022, whose sizes the paper leaves open: with these, two
    attributes on the BERT-base shape give the 1.01 times of its table 2.
    """

    name: ClassVar[str] = "tiny-maa"

    layers: PositiveInt = 1
    heads: PositiveInt | None = 1
    size: PositiveInt | None = 64
    inner: PositiveInt | None = 256


class _StackMethod(AttributeMethod):
    """Multi-attribute layers on the last states; a zero vector for the unknown would erase the text in the products."""

    learns_unknown: ClassVar[bool] = True

    def __init__(self, config: StackConfig, host: Host) -> None:
        size, bound = config.size or host.hidden, config.initial_vector
        initial = partial(nn.init.uniform_, a=-bound, b=bound)
        super().__init__(config, host, sizes=[size] * len(host.slots), initial=initial)
        self.in_values = config.in_values
        self.layers = build_layers(
            config.name,
            host,
            count=config.layers,
            size=size,
            heads=config.heads,
            inner=config.inner,
            attributes=len(host.slots),
            dropout=config.dropout,
        )
        if config.initial == "backbone":
            _copy_backbone(config.name, list(self.layers), host)

    def encode(self, hidden: States, attention_mask: Mask, condition: Condition) -> States:
        states = self.in_own_precision(hidden)
        vectors = torch.stack(condition.vectors_per_attribute(), dim=1)
        for layer in self.layers:
            states = layer(states, attention_mask, vectors, in_values=self.in_values)
        return states


class TransformerLayer(nn.Module):
    """One post-norm Transformer layer with the attention of MA-BERT, or plain attention without attributes.

    Args:
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
        self,
        states: States,
        attention_mask: Mask,
        vectors: Float[Tensor, "B M size"] | None = None,
        *,
        in_values: bool = True,
    ) -> States:
        """Compute the next states, with attributes if their vectors are given."""
        dropout = self.dropout.p if self.training else 0.0
        projections = (self.W_q, self.W_k, self.W_v, self.W_o)
        attention = functional.multi_attribute_attention(
            states, attention_mask, vectors, *projections, heads=self.heads, in_values=in_values, dropout=dropout
        )
        norm_1, norm_2 = (self.gain_1, self.bias_1), (self.gain_2, self.bias_2)
        feed_forward = (self.W_1, self.b_1, self.W_2, self.b_2)
        return functional.multi_attribute_layer(
            states, self.dropout(attention), *norm_1, *feed_forward, *norm_2, dropout=dropout
        )


def build_layers(
    method: str,
    host: Host,
    *,
    count: int,
    size: int,
    heads: int | None,
    inner: int | None,
    attributes: int,
    dropout: float,
) -> nn.ModuleList:
    """Build a stack of layers; by default with as many `heads` and the `inner` size of the backbone.

    Raises:
        ConfigError: for heads that do not divide the size, naming those that do.
    """
    maps = host.at("down_proj")
    heads, inner = heads or host.heads, inner or (maps[0].inputs if maps else 4 * host.hidden)
    if size % heads:
        fitting = ", ".join(str(n) for n in range(1, size + 1) if size % n == 0)
        raise ConfigError(f"{method}: heads is {heads}, but the size {size} is not divisible by it: choose {fitting}")
    sizes = {"hidden": host.hidden, "size": size, "inner": inner, "heads": heads}
    return nn.ModuleList(TransformerLayer(**sizes, attributes=attributes, dropout=dropout) for _ in range(count))


def _matrix(*shape: int) -> nn.Parameter:
    return nn.Parameter(torch.randn(*shape) * _STANDARD_DEVIATION)


@torch.no_grad()
def _copy_backbone(method: str, layers: list[nn.Module], host: Host) -> None:
    """Copy projections, without their biases, and feed-forward maps from the backbone's last layers, in their order.

    Every attribute gets a copy of queries, keys and values; their outputs are averaged.
    """
    kinds: dict[str, SiteKind] = {
        "W_q": "q_proj",
        "W_k": "k_proj",
        "W_v": "v_proj",
        "W_o": "o_proj",
        "W_1": "up_proj",
        "W_2": "down_proj",
    }
    if not host.sites:
        raise ConfigError(f"{method}: initial is 'backbone', which has no Transformer layers: choose initial=random")
    available = len(host.layers)
    if len(layers) > available:
        raise ConfigError(
            f"{method}: initial is 'backbone', but the stack has {len(layers)} layers and the backbone {available} "
            "with weights of their own; choose fewer layers, or initial=random"
        )
    for name, kind in kinds.items():
        last = max(site.layer for site in host.at(kind))
        for index, layer in enumerate(reversed(layers)):
            parameter = layer.get_parameter(name)
            sites = [site for site in host.at(kind) if site.layer == last - index]
            if len(sites) != 1 or sites[0].features != parameter.shape[-1]:
                raise ConfigError(
                    f"{method}: initial is 'backbone', but layer {last - index + 1} of the backbone has no {kind} map "
                    f"of the stack's shape; choose fewer layers, the backbone's own sizes, or initial=random"
                )
            W, bias = host.weight(sites[0]).to(parameter.dtype), host.bias(sites[0])
            copies = parameter.numel() // W.numel()
            parameter.copy_(torch.cat([W / copies] * copies) if name == "W_o" else W.expand_as(parameter))
            if name in ("W_1", "W_2") and bias is not None:
                layer.get_parameter(name.replace("W", "b")).copy_(bias)

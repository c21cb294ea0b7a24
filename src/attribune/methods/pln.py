"""``pln``: personalised LayerNorm, the attributes' part of E2LN (Zhang et al. 2024)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Literal, cast

import torch
from torch import Tensor, nn

from attribune import functional
from attribune.condition import Condition
from attribune.errors import ConfigError
from attribune.methods.base import AttributeMethod, Method, SiteModule
from attribune.methods.fixed import Around, Fixed, add_to_bias, module_at
from attribune.methods.host import Host
from attribune.methods.plain import Plain
from attribune.methods.settings import AttributeMethodConfig, MethodConfig, check_positive
from attribune.placement import SiteKind
from attribune.sites import Site

__all__ = ["NormConfig", "NormMethod", "Pln"]

Part = Literal["none", "attention", "feed_forward", "both"]
_NORMS: dict[str, tuple[SiteKind, ...]] = {
    "none": (),
    "attention": ("attention_norm",),
    "feed_forward": ("feed_forward_norm",),
    "both": ("attention_norm", "feed_forward_norm"),
}
_BIASES: dict[str, tuple[SiteKind, ...]] = {
    "none": (),
    "attention": ("query", "key", "value", "output"),
    "feed_forward": ("inner", "outer"),
    "both": ("query", "key", "value", "output", "inner", "outer"),
}


@dataclass(frozen=True, kw_only=True)
class NormConfig(AttributeMethodConfig):
    """Settings of personalised norms and biases; see the methods."""

    default_tuning: ClassVar[str] = "full"

    norms: Part = "attention"
    bias_terms: Part = "none"
    layers: tuple[int, ...] | None = None
    fusion: Literal["linear", "mlp", "addition", "weighted"] = "linear"
    vector_size: int = 64
    vector_sizes: tuple[int, ...] | None = None

    def __post_init__(self) -> None:
        for option in ("layers", "vector_sizes"):
            numbers = getattr(self, option)
            if numbers is not None:
                valid = isinstance(numbers, list | tuple) and all(type(n) is int and n > 0 for n in numbers)
                if not valid or not numbers:
                    raise ConfigError(f"{self.name}: {option} is {numbers!r}: give a list of numbers of at least 1")
                object.__setattr__(self, option, tuple(numbers))
        super().__post_init__()
        check_positive(self.name, vector_size=self.vector_size)

    def sizes(self, host: Host) -> tuple[int, ...]:
        """Z of each attribute.

        Raises:
            ConfigError: for another number of sizes than attributes.
        """
        sizes = self.vector_sizes or (self.vector_size,) * len(host.slots)
        if len(sizes) != len(host.slots):
            raise ConfigError(
                f"{self.name}: vector_sizes has {len(sizes)} numbers, but the schema has {len(host.slots)} attributes: "
                "give one for each, in schema order, or vector_sizes=null for the same size everywhere"
            )
        return sizes

    def chosen(self, host: Host) -> list[Site]:
        """The sites that are personalised.

        Raises:
            ConfigError: for layers that the backbone does not have.
        """
        sites = host.at(*_NORMS[self.norms], *_BIASES[self.bias_terms])
        last = max((site.layer for site in host.sites), default=-1) + 1
        if self.layers is not None and max(self.layers) > last:
            raise ConfigError(
                f"{self.name}: layers names layer {max(self.layers)}, but the backbone has {last}: choose 1 to {last}"
            )
        return [site for site in sites if self.layers is None or site.layer + 1 in self.layers]


@dataclass(frozen=True, kw_only=True)
class Pln(NormConfig):
    """Gains and biases of LayerNorms depend on the attributes: ``LN(x; (1 + L_g e) ⊙ gain, L_b e + bias)``.

    Zhang et al. 2024 (E2LN), equations 5 and 6, without chunks and their memory. The attributes' vectors e start at
    zero, so that training starts from the plain model. An RMSNorm has the bias 0. The backbone is tuned in full unless
    told otherwise.

    Args:
        norms: which norms are personalised: those that read the residual stream after the attention, after the
            feed-forward sub-layer, ``both`` or ``none``.
        bias_terms: whose linear maps get a personalised bias ``bias + L e`` as well (table 3).
        layers: the layers that are personalised, the first being 1; all unless given.
        fusion: how the vectors become a change of gain or bias: ``linear`` (one map of all side by side), ``mlp`` (two
            with tanh between), ``addition`` (their sum), ``weighted`` (their sum with learned weights). The last two
            need vectors of the size of what they change.
        vector_size: Z, the size of the attributes' vectors.
        vector_sizes: Z of each attribute, in schema order, in place of `vector_size`.
        attribute_dropout: probability with which a (row, attribute) is hidden in training.
    """

    name: ClassVar[str] = "pln"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.norms == self.bias_terms == "none":
            raise ConfigError("pln: norms and bias_terms are both 'none', so nothing is personalised: choose one")

    def build(self, host: Host) -> Method:
        """One module per personalised norm or bias."""
        return NormMethod(self, host)


class NormMethod(AttributeMethod):
    """The module of `Pln`, and the personalised part of E2LN."""

    def __init__(self, config: NormConfig, host: Host) -> None:
        sizes = config.sizes(host)
        super().__init__(config, host, sizes=sizes, initial=nn.init.zeros_)
        for site in config.chosen(host):
            kind = _NormSite if site.kind.endswith("_norm") else _BiasSite
            self.add_site(site, kind(config, site, sizes))

    def fixed(self, config: MethodConfig, condition: Condition, around: Around) -> Fixed:
        """Other gains and biases of the backbone."""
        changed: dict[str, Tensor] = {}
        for site, module in zip(self.acts_at, self.sites, strict=True):
            if isinstance(module, _NormSite):
                gain = cast(Tensor, module_at(around.backbone, site).weight)
                changed[f"{site.path}.weight"] = gain * (1 + module.gain(condition)[0]).to(gain.dtype)
            add_to_bias(changed, around.backbone, site, cast(_NormSite | _BiasSite, module).bias(condition)[0])
        return Fixed(config=Plain(), backbone=changed)


class _Fusion(nn.Module):
    """The attributes' vectors become one of another size; zero where all vectors are zero."""

    def __init__(self, config: NormConfig, site: Site, sizes: tuple[int, ...]) -> None:
        super().__init__()
        width, features = sum(sizes), site.features
        self.kind = config.fusion
        if self.kind in ("addition", "weighted") and set(sizes) != {features}:
            raise ConfigError(
                f"{config.name}: fusion {self.kind!r} adds vectors of sizes {', '.join(map(str, sizes))} to "
                f"the site {site.kind!r}, of size {features}: choose vector_size={features}, or another fusion"
            )
        if self.kind == "linear":
            self.L = nn.Parameter(torch.randn(features, width) * width**-0.5)
        elif self.kind == "mlp":
            self.L_1 = nn.Parameter(torch.randn(width, width) * width**-0.5)
            self.L_2 = nn.Parameter(torch.randn(features, width) * width**-0.5)
        elif self.kind == "weighted":
            self.w = nn.Parameter(torch.ones(len(sizes)))

    def forward(self, condition: Condition) -> Tensor:
        """(B, features)."""
        if self.kind == "linear":
            return condition.vectors() @ self.L.T
        if self.kind == "mlp":
            return torch.tanh(condition.vectors() @ self.L_1.T) @ self.L_2.T
        vectors = torch.stack(condition.each(), dim=-1)
        return vectors.sum(dim=-1) if self.kind == "addition" else vectors @ self.w


class _NormSite(SiteModule):
    def __init__(self, config: NormConfig, site: Site, sizes: tuple[int, ...]) -> None:
        super().__init__()
        self.gain, self.bias = _Fusion(config, site, sizes), _Fusion(config, site, sizes)

    def act(self, module: nn.Module, inputs: tuple[Any, ...], output: Tensor, condition: Condition) -> Tensor:
        """The norm's output (B, T, H) with the gain and bias of each row."""
        bias = getattr(module, "bias", None)
        bias = None if bias is None else bias.to(output.dtype)
        return functional.personalised_norm(output, bias, self.gain(condition), self.bias(condition))


class _BiasSite(SiteModule):
    def __init__(self, config: NormConfig, site: Site, sizes: tuple[int, ...]) -> None:
        super().__init__()
        self.bias = _Fusion(config, site, sizes)

    def forward(self, output: Tensor, condition: Condition) -> Tensor:
        """The map's output (B, T, features) with the bias of each row added: ``W x + bias + L e``."""
        change: Tensor = self.bias(condition)
        return output + change.unsqueeze(1)

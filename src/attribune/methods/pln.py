"""``pln``: personalised LayerNorm, the attributes' part of E2LN (Zhang et al. 2024)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, ClassVar, Literal, Self, cast

import torch
from jaxtyping import Float
from pydantic import Field, PositiveInt, model_validator
from torch import Tensor, nn

from attribune import functional
from attribune.backbones.placement import SiteKind
from attribune.backbones.sites import Site
from attribune.errors import ConfigError
from attribune.methods.attribute_method import AttributeMethod
from attribune.methods.base import Method, SiteModule
from attribune.methods.condition import Condition
from attribune.methods.config import AttributeMethodConfig, LayerMethodConfig, MethodConfig
from attribune.methods.host import Host
from attribune.methods.merging import MergedMethod, MergeTarget, add_to_bias, base_layer
from attribune.methods.plain import Plain
from attribune.methods.plan import LinearPlan, Plan, PlannedRows
from attribune.methods.shapes import States

Part = Literal["none", "attention", "feed_forward", "both"]
# Not strict, since JSON has lists and no tuples.
Numbers = Annotated[tuple[PositiveInt, ...], Field(strict=False, min_length=1)]
_NUMBERS = "a list of numbers of at least 1"
_NORMS: dict[str, tuple[SiteKind, ...]] = {
    "none": (),
    "attention": ("attention_norm",),
    "feed_forward": ("feed_forward_norm",),
    "both": ("attention_norm", "feed_forward_norm"),
}
_BIASES: dict[str, tuple[SiteKind, ...]] = {
    "none": (),
    "attention": ("q_proj", "k_proj", "v_proj", "o_proj"),
    "feed_forward": ("up_proj", "down_proj"),
    "both": ("q_proj", "k_proj", "v_proj", "o_proj", "up_proj", "down_proj"),
}


class NormConfig(AttributeMethodConfig):
    """Settings of personalised norms and biases.

    Args:
        norms: the norms that are personalised: those that read the residual stream after the ``attention``, after the
            ``feed_forward`` sub-layer, ``both`` or ``none``.
        bias_terms: the sub-layers whose linear maps get a personalised bias ``bias + L e`` as well (table 3).
        layers: the layers that are personalised, counted from 1; by default all.
        fusion: how the vectors become a change of gain or bias: ``linear`` (one map of all side by side), ``mlp`` (two
            with tanh between), ``addition`` (their sum), ``weighted`` (their sum with learned weights). The last two
            need vectors of the size of the gain or bias.
        vector_size: Z, the size of the attributes' vectors.
        vector_sizes: Z of each attribute, in schema order, in place of `vector_size`.
    """

    default_tuning: ClassVar[str] = "full"

    norms: Part = "attention"
    bias_terms: Part = "none"
    layers: Numbers | None = Field(default=None, description=_NUMBERS)
    fusion: Literal["linear", "mlp", "addition", "weighted"] = "linear"
    vector_size: PositiveInt = 64
    vector_sizes: Numbers | None = Field(default=None, description=_NUMBERS)

    @property
    def feed_forward_option(self) -> str | None:
        """The biases, where those of the feed-forward sub-layer are among them."""
        return f"bias_terms={self.bias_terms}" if self.bias_terms in ("feed_forward", "both") else None

    def sizes(self, attributes: int) -> tuple[int, ...]:
        """Return Z of each attribute; ConfigError unless there is one for each."""
        sizes = self.vector_sizes or (self.vector_size,) * attributes
        if len(sizes) != attributes:
            raise ConfigError(
                f"{self.name}: vector_sizes has {len(sizes)} numbers, but the schema has {attributes} attributes: "
                "give one for each, in schema order, or vector_sizes=null for the same size everywhere"
            )
        return sizes

    def chosen(self, host: Host) -> list[Site]:
        """Return the sites that are personalised; ConfigError for layers that the backbone lacks."""
        sites = host.at(*_NORMS[self.norms], *_BIASES[self.bias_terms])
        last = max((site.layer for site in host.sites), default=-1) + 1
        if self.layers is not None and max(self.layers) > last:
            raise ConfigError(
                f"{self.name}: layers names layer {max(self.layers)}, but the backbone has {last}: choose 1 to {last}"
            )
        return [site for site in sites if self.layers is None or site.layer + 1 in self.layers]


class Pln(LayerMethodConfig, NormConfig):
    """LayerNorms whose gains and biases depend on the attributes (Zhang et al. 2024, E2LN).

    ``LN(x; (1 + L_g e) ⊙ gain, L_b e + bias)``: equations 5 and 6, without chunks and their memory. The attributes'
    vectors e start at zero, so that training starts from the plain model. An RMSNorm has the bias 0. The backbone is
    fine-tuned by default.
    """

    name: ClassVar[str] = "pln"

    @model_validator(mode="after")
    def _personalises(self) -> Self:
        if self.norms == self.bias_terms == "none":
            raise ConfigError("pln: norms and bias_terms are both 'none', so nothing is personalised: choose one")
        if self.layers is not None and min(self.layers) <= self.first_layer:
            raise ConfigError(
                f"pln: layers names layer {min(self.layers)}, counted from 1, and first_layer is {self.first_layer}, "
                "counted from 0, which leaves it out: give one of the two"
            )
        return self

    def build(self, host: Host) -> Method:
        """Build one module per personalised norm or bias."""
        return NormMethod(self, host)


class NormMethod(AttributeMethod):
    """The module of `Pln`, and the personalised part of E2LN."""

    def __init__(self, config: NormConfig, host: Host) -> None:
        sizes = config.sizes(len(host.slots))
        super().__init__(config, host, sizes=sizes)
        self.unit_norms = host.placement is not None and host.placement.unit_norms
        for site in config.chosen(host):
            kind = NormSite if site.kind.endswith("_norm") else _BiasSite
            self.add_site(site, kind(config, site, sizes))

    def plan(self) -> Plan | None:
        """Return the plan of linear maps; None for other fusions."""
        sites = [cast(NormSite | _BiasSite, site) for site in self.sites]
        if not sites or any(site.bias.kind != "linear" for site in sites):
            return None
        return _NormPlan(sites, self.modules_at)

    def merge(self, config: MethodConfig, condition: Condition, target: MergeTarget) -> MergedMethod:
        """Merge into gains and biases of the backbone."""
        merged: dict[str, Tensor] = {}
        for site, module in zip(self.acts_at, self.sites, strict=True):
            if isinstance(module, NormSite):
                gain = cast(Tensor, base_layer(target.backbone, site).weight)
                one = 1.0 if self.unit_norms else 0.0
                merged[f"{site.path}.weight"] = (one + gain) * (1 + module.gain(condition)[0]).to(gain.dtype) - one
            add_to_bias(merged, target.backbone, site, cast(NormSite | _BiasSite, module).bias(condition)[0])
        return MergedMethod(config=Plain(), backbone=merged)


class _Fusion(nn.Module):
    """Maps the attributes' vectors to one of another size; zero where all vectors are zero."""

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

    def forward(self, condition: Condition) -> Float[Tensor, "B features"]:
        if self.kind == "linear":
            return condition.vectors() @ self.L.T
        if self.kind == "mlp":
            return torch.tanh(condition.vectors() @ self.L_1.T) @ self.L_2.T
        vectors = torch.stack(condition.vectors_per_attribute(), dim=-1)
        return vectors.sum(dim=-1) if self.kind == "addition" else vectors @ self.w


class NormSite(SiteModule):
    """What the attributes add to gain and bias of one norm."""

    def __init__(self, config: NormConfig, site: Site, sizes: tuple[int, ...]) -> None:
        super().__init__()
        self.gain, self.bias = _Fusion(config, site, sizes), _Fusion(config, site, sizes)

    def act(self, module: nn.Module, inputs: tuple[Any, ...], output: States, condition: Condition) -> States:
        """Give the norm the gain and bias of each row."""
        bias = getattr(module, "bias", None)
        bias = None if bias is None else bias.to(output.dtype)
        return functional.personalised_norm(output, bias, self.gain(condition), self.bias(condition))


class _BiasSite(SiteModule):
    def __init__(self, config: NormConfig, site: Site, sizes: tuple[int, ...]) -> None:
        super().__init__()
        self.bias = _Fusion(config, site, sizes)

    def forward(self, output: Float[Tensor, "B T features"], condition: Condition) -> Float[Tensor, "B T features"]:
        """Add the bias of each row: ``W x + bias + L e``."""
        change: Tensor = self.bias(condition)
        return output + change.unsqueeze(1)


class _NormPlan(LinearPlan):
    """A norm is ``gain ⊙ normed + shift`` with ``gain = 1 + L_g a`` and ``shift = (L_b - bias ⊙ L_g) a``.

    That is `functional.personalised_norm`, solved for the norm's output.
    """

    def __init__(self, sites: Sequence[NormSite | _BiasSite], modules: Sequence[nn.Module]) -> None:
        maps: list[Tensor] = []
        constants: list[Tensor] = []
        self.places: list[tuple[int, int | None]] = []  # of each site's terms: the shift, and of norms the gain
        for site, module in zip(sites, modules, strict=True):
            shift, one = site.bias.L, torch.ones(len(site.bias.L), device=site.bias.L.device)
            gain = site.gain.L if isinstance(site, NormSite) else None
            if gain is not None and (bias := getattr(module, "bias", None)) is not None:
                shift = shift - bias.to(shift.dtype).unsqueeze(1) * gain
            self.places.append((len(maps), None if gain is None else len(maps) + 1))
            maps += [shift] if gain is None else [shift, gain]
            constants += [0 * one] if gain is None else [0 * one, one]
        super().__init__(maps, constants)

    def act(self, index: int, rows: PlannedRows, inputs: tuple[Any, ...], output: States) -> Tensor:
        """Scale and shift the output of a norm, or shift that of a linear map."""
        terms, (shift, gain) = rows.terms(output.dtype), self.places[index]
        if gain is None:
            return cast(Tensor, output + terms[shift])
        return torch.addcmul(terms[shift], output, terms[gain])

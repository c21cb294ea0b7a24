"""``plora``: personalised low-rank adaptation of the attention's projections (Zhang et al. 2024)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Any, ClassVar, Literal, cast

import torch
from jaxtyping import Float
from pydantic import Field, PositiveFloat, PositiveInt
from torch import Tensor, nn

from attribune import functional
from attribune.backbones.sites import Site
from attribune.methods.attribute_method import AttributeMethod
from attribune.methods.base import Method, SiteModule
from attribune.methods.condition import Condition
from attribune.methods.config import AttributeMethodConfig, LayerMethodConfig, MethodConfig
from attribune.methods.host import Host
from attribune.methods.merging import LowRank, MergedMethod, MergeTarget
from attribune.methods.plain import Plain

__all__ = ["LowRankConfig", "LowRankMethod", "LowRankSite", "Plora"]

Projection = Literal["q_proj", "k_proj", "v_proj", "o_proj"]
# Not strict, since JSON has lists and no tuples.
Projections = Annotated[tuple[Projection, ...], Field(strict=False, min_length=1)]


class LowRankConfig(LayerMethodConfig, AttributeMethodConfig):
    """Settings of low-rank adaptation with attributes inside.

    Args:
        rank: r.
        alpha: alpha, in the scale alpha / r.
        vector_size: Z, the size of the attributes' vectors.
        target_modules: the projections of the attention that are adapted: ``q_proj``, ``k_proj``, ``v_proj``,
            ``o_proj``.
    """

    rank: PositiveInt = 8
    alpha: PositiveFloat = 16.0
    vector_size: PositiveInt = 64
    target_modules: Projections = ("q_proj", "v_proj")


class Plora(LowRankConfig):
    """Low-rank adaptation with attributes inside (Zhang et al. 2024).

    Queries and values become ``W x + b + (alpha / r) B (A x + sum_j P_j a_j)``.
    Zhang et al. 2024, *Personalized LoRA for Human-Centered Text Understanding*, with attribute dropout as its
    personalised dropout and without its mutual-information objective. B and the attributes' vectors start at zero, so
    that training starts from the plain model.
    """

    name: ClassVar[str] = "plora"

    def build(self, host: Host) -> Method:
        """Build one module for each projection in every layer."""
        return LowRankMethod(self, host, LowRankSite)


class LowRankMethod(AttributeMethod):
    """One module of a class for each projection that is adapted."""

    def __init__(self, config: LowRankConfig, host: Host, module: type[LowRankSite]) -> None:
        super().__init__(config, host, sizes=[config.vector_size] * len(host.slots), initial=nn.init.zeros_)
        for site in host.at(*config.target_modules):
            self.add_site(site, module(config, site, width=config.vector_size * len(host.slots)))

    def merge(self, config: MethodConfig, condition: Condition, target: MergeTarget) -> MergedMethod:
        """Merge into LoRA with a bias, for which the attributes stand in a constant of the inner features."""
        a = condition.vectors()[0]
        sites = zip(self.acts_at, cast(Iterable[LowRankSite], self.sites), strict=True)
        return MergedMethod(config=Plain(), low_rank=tuple(module.merge(site, a) for site, module in sites))


class LowRankSite(SiteModule):
    """A, P and B of one projection."""

    def __init__(self, config: LowRankConfig, site: Site, *, width: int) -> None:
        super().__init__()
        self.scale = config.alpha / config.rank
        self.A = nn.Parameter(torch.randn(config.rank, site.inputs) * site.inputs**-0.5)
        self.P = nn.Parameter(torch.randn(config.rank, width))
        self.B = nn.Parameter(torch.zeros(site.features, config.rank))

    def merge(self, site: Site, a: Float[Tensor, " MZ"]) -> LowRank:
        """For a row's vectors: ``B (A x + P a)`` is ``B A x`` and the bias ``B P a``."""
        return LowRank(site, self.A.detach(), self.B.detach(), self.B @ (self.P @ a), self.scale)

    def act(
        self, module: nn.Module, inputs: tuple[Any, ...], output: Float[Tensor, "B T out"], condition: Condition
    ) -> Float[Tensor, "B T out"]:
        """Add the term to the output of the projection."""
        x = inputs[0].to(output.dtype)
        return functional.personalised_low_rank(
            output, x, condition.vectors(), self.A, self.P, self.B, scale=self.scale
        )

"""``plora``: personalised low-rank adaptation of the attention's projections (Zhang et al. 2024)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, ClassVar, cast

import torch
from jaxtyping import Float
from pydantic import PositiveFloat, PositiveInt
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

__all__ = ["Plora"]


class Plora(LayerMethodConfig, AttributeMethodConfig):
    """Queries and values become ``W x + b + (alpha / r) B (A x + sum_j P_j a_j)``.

    Zhang et al. 2024, *Personalized LoRA for Human-Centered Text Understanding*, with attribute dropout as its
    personalised dropout and without its mutual-information objective. B and the attributes' vectors start at zero, so
    that training starts from the plain model.

    Args:
        rank: r.
        alpha: of the scale alpha / r.
        vector_size: Z, the size of the attributes' vectors.
    """

    name: ClassVar[str] = "plora"

    rank: PositiveInt = 8
    alpha: PositiveFloat = 16.0
    vector_size: PositiveInt = 64

    def build(self, host: Host) -> Method:
        """Build one module for queries and one for values in every layer."""
        return _PloraMethod(self, host)


class _PloraMethod(AttributeMethod):
    def __init__(self, config: Plora, host: Host) -> None:
        super().__init__(config, host, sizes=[config.vector_size] * len(host.slots), initial=nn.init.zeros_)
        for site in host.at("q_proj", "v_proj"):
            self.add_site(site, _PloraSite(config, site, width=config.vector_size * len(host.slots)))

    def merge(self, config: MethodConfig, condition: Condition, target: MergeTarget) -> MergedMethod:
        """Merge into LoRA with a bias: ``B (A x + sum_j P_j a_j)`` is ``B A x`` and the bias ``B sum_j P_j a_j``."""
        a = condition.vectors()[0]
        sites = zip(self.acts_at, cast(Iterable[_PloraSite], self.sites), strict=True)
        low_rank = (LowRank(site, m.A.detach(), m.B.detach(), m.B @ (m.P @ a), m.scale) for site, m in sites)
        return MergedMethod(config=Plain(), low_rank=tuple(low_rank))


class _PloraSite(SiteModule):
    def __init__(self, config: Plora, site: Site, *, width: int) -> None:
        super().__init__()
        self.scale = config.alpha / config.rank
        self.A = nn.Parameter(torch.randn(config.rank, site.inputs) * site.inputs**-0.5)
        self.P = nn.Parameter(torch.randn(config.rank, width))
        self.B = nn.Parameter(torch.zeros(site.features, config.rank))

    def act(
        self, module: nn.Module, inputs: tuple[Any, ...], output: Float[Tensor, "B T out"], condition: Condition
    ) -> Float[Tensor, "B T out"]:
        x = inputs[0].to(output.dtype)
        return functional.personalised_low_rank(
            output, x, condition.vectors(), self.A, self.P, self.B, scale=self.scale
        )

"""``plora``: personalised low-rank adaptation of the attention's projections (Zhang et al. 2024)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, cast

import torch
from torch import Tensor, nn

from attribune import functional
from attribune.condition import Condition
from attribune.methods.base import AttributeMethod, Method, SiteModule
from attribune.methods.fixed import Around, Fixed, LowRank
from attribune.methods.host import Host
from attribune.methods.plain import Plain
from attribune.methods.settings import AttributeMethodConfig, MethodConfig, check_positive
from attribune.sites import Site

__all__ = ["Plora"]


@dataclass(frozen=True, kw_only=True)
class Plora(AttributeMethodConfig):
    """Queries and values become ``W x + b + (alpha / r) B (A x + sum_j P_j a_j)``.

    Zhang et al. 2024, *Personalized LoRA for Human-Centered Text Understanding*, with attribute dropout as its
    personalised dropout and without its mutual-information objective. B and the attributes' vectors start at zero, so
    that training starts from the plain model.

    Args:
        rank: r.
        alpha: of the scale alpha / r.
        vector_size: Z, the size of the attributes' vectors.
        attribute_dropout: probability with which a (row, attribute) is hidden in training.
    """

    name: ClassVar[str] = "plora"

    rank: int = 8
    alpha: float = 16.0
    vector_size: int = 64

    def __post_init__(self) -> None:
        super().__post_init__()
        check_positive(self.name, rank=self.rank, alpha=self.alpha, vector_size=self.vector_size)

    def build(self, host: Host) -> Method:
        """One module for queries and one for values in every layer."""
        return _PloraMethod(self, host)


class _PloraMethod(AttributeMethod):
    def __init__(self, config: Plora, host: Host) -> None:
        super().__init__(config, host, sizes=[config.vector_size] * len(host.slots), initial=nn.init.zeros_)
        for site in host.at("query", "value"):
            self.add_site(site, _PloraSite(config, site, width=config.vector_size * len(host.slots)))

    def fixed(self, config: MethodConfig, condition: Condition, around: Around) -> Fixed:
        """LoRA with a bias, since ``B (A x + sum_j P_j a_j)`` is ``B A x`` and the bias ``B sum_j P_j a_j``."""
        a, found = condition.vectors()[0], []
        for site, module in zip(self.acts_at, self.sites, strict=True):
            own = cast(_PloraSite, module)
            found.append(LowRank(site, own.A.detach(), own.B.detach(), own.B @ (own.P @ a), own.scale))
        return Fixed(config=Plain(), low_rank=tuple(found))


class _PloraSite(SiteModule):
    def __init__(self, config: Plora, site: Site, *, width: int) -> None:
        super().__init__()
        self.scale = config.alpha / config.rank
        self.A = nn.Parameter(torch.randn(config.rank, site.inputs) * site.inputs**-0.5)
        self.P = nn.Parameter(torch.randn(config.rank, width))
        self.B = nn.Parameter(torch.zeros(site.features, config.rank))

    def act(self, module: nn.Module, inputs: tuple[Any, ...], output: Tensor, condition: Condition) -> Tensor:
        """The projection (B, T, features) with its adaptation, which reads the projection's own input."""
        x = inputs[0].to(output.dtype)
        return functional.personalised_low_rank(
            output, x, condition.vectors(), self.A, self.P, self.B, scale=self.scale
        )

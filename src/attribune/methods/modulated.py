"""``modulated``: low-rank adaptation whose inner features the attributes scale and shift."""

from __future__ import annotations

from typing import Any, ClassVar

import torch
from jaxtyping import Float
from torch import Tensor, nn

from attribune import functional
from attribune.backbones.sites import Site
from attribune.methods.condition import Condition
from attribune.methods.merging import LowRank
from attribune.methods.plora import LowRankConfig, LowRankSite


class Modulated(LowRankConfig):
    """`plora` whose inner features the attributes also scale (after IA3, Liu et al. 2022).

    Queries and values become ``W x + b + (alpha / r) B ((1 + sum_j M_j a_j) ⊙ (A x) + sum_j P_j a_j)``: each value has
    a LoRA of its own, of 2 r numbers for each projection, and no row has a matrix product of its own. B and the
    attributes' vectors start at zero, so that training starts from the plain model.
    """

    name: ClassVar[str] = "modulated"

    @property
    def site_class(self) -> type[LowRankSite]:
        """The class of the module of one projection."""
        return ModulatedSite


class ModulatedSite(LowRankSite):
    """A, P, M and B of one projection."""

    def __init__(self, config: LowRankConfig, site: Site, *, width: int) -> None:
        super().__init__(config, site, width=width)
        deviation = config.vector_size**-0.5
        self.M = nn.Parameter(torch.randn(config.rank, width) * deviation)
        nn.init.normal_(self.P, std=deviation)

    def of_rows(self) -> tuple[Float[Tensor, "r MZ"], Float[Tensor, "r MZ"] | None]:
        """Return the maps of a row's vectors: to what is added to the inner features, and to how they are scaled."""
        return self.P, self.M

    def merge(self, site: Site, a: Float[Tensor, " MZ"]) -> LowRank:
        """For a row's vectors: LoRA with the factors ``diag(1 + M a) A`` and B, and the bias ``B P a``."""
        merged = super().merge(site, a)
        return merged._replace(lora_A=(1 + self.M @ a).unsqueeze(1).detach() * self.A.detach())

    def act(
        self, module: nn.Module, inputs: tuple[Any, ...], output: Float[Tensor, "B T out"], condition: Condition
    ) -> Float[Tensor, "B T out"]:
        """Add the term to the output of the projection."""
        x = inputs[0].to(output.dtype)
        return functional.modulated_low_rank(
            output, x, condition.vectors(), self.A, self.M, self.P, self.B, scale=self.scale
        )

"""``plora``: personalised low-rank adaptation of the attention's projections (Zhang et al. 2024)."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import groupby
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
from attribune.methods.plan import LinearPlan, Plan, PlannedRows

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

    @property
    def site_class(self) -> type[LowRankSite]:
        """The class of the module of one projection."""
        return LowRankSite

    def build(self, host: Host) -> Method:
        """Build one module for each projection in every layer."""
        return LowRankMethod(self, host)


class Plora(LowRankConfig):
    """Low-rank adaptation with attributes inside (Zhang et al. 2024).

    Queries and values become ``W x + b + (alpha / r) B (A x + sum_j P_j a_j)``.
    Zhang et al. 2024, *Personalized LoRA for Human-Centered Text Understanding*, with attribute dropout as its
    personalised dropout and without its mutual-information objective. B and the attributes' vectors start at zero, so
    that training starts from the plain model.
    """

    name: ClassVar[str] = "plora"


class LowRankMethod(AttributeMethod):
    """One module for each projection that is adapted."""

    def __init__(self, config: LowRankConfig, host: Host) -> None:
        super().__init__(config, host, sizes=[config.vector_size] * len(host.slots))
        for site in host.at(*config.target_modules):
            self.add_site(site, config.site_class(config, site, width=config.vector_size * len(host.slots)))

    def plan(self) -> Plan:
        """Return the plan, in which projections with the same input share a product."""
        return _LowRankPlan(self)

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

    def of_rows(self) -> tuple[Float[Tensor, "r MZ"], Float[Tensor, "r MZ"] | None]:
        """Return the maps of a row's vectors: to what is added to the inner features, and to how they are scaled."""
        return self.P, None

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


class _LowRankPlan(LinearPlan):
    """Neighbouring projections of one attention read the same states, by the A of all of them side by side.

    A site adds ``B' ((1 + M a) ⊙ A x + P a)``, with the scale in B', to the output of its projection in place.
    """

    def __init__(self, method: LowRankMethod) -> None:
        maps: list[Tensor] = []
        constants: list[Tensor] = []
        self.groups: list[tuple[Tensor, int, int | None]] = []  # A, and the terms that shift and scale A x
        self.places: list[tuple[int, slice, Tensor]] = []  # of each site: its group, its features there, and B'
        of_sites = zip(method.acts_at, cast(Iterable[LowRankSite], method.sites), strict=True)
        for _, group in groupby(of_sites, key=lambda one: (one[0].path.rpartition(".")[0], one[0].kind == "o_proj")):
            sites, start = [site for _, site in group], 0
            for site in sites:
                features = slice(start, start := start + len(site.A))
                self.places.append((len(self.groups), features, site.scale * site.B.T))
            shifts, scales = zip(*(site.of_rows() for site in sites), strict=True)
            terms = [torch.cat(shifts), *([] if scales[0] is None else [torch.cat(scales)])]
            shift, scale = len(maps), None if scales[0] is None else len(maps) + 1
            self.groups.append((torch.cat([site.A for site in sites]).T, shift, scale))
            maps += terms
            constants += [one[:, 0] * 0 + number for number, one in enumerate(terms)]
        super().__init__(maps, constants)

    def pack(self, dtype: torch.dtype) -> tuple[Any, ...]:
        """Return also A of each group and B' of each site."""
        down = [A.to(dtype).contiguous() for A, _, _ in self.groups]
        return *super().pack(dtype), down, [B.to(dtype).contiguous() for _, _, B in self.places]

    def act(self, index: int, rows: PlannedRows, inputs: tuple[Any, ...], output: Float[Tensor, "B T out"]) -> Tensor:
        """Add the term to the output of the projection."""
        group, features, _ = self.places[index]
        known = rows.memory.get(group)
        if known is None or known[0] is not inputs[0]:
            known = rows.memory[group] = inputs[0], self._inner(group, rows, inputs[0], output.dtype)
        inner, B = known[1][:, features], self.packed(output.dtype)[3][index]
        return output.reshape(-1, output.shape[-1]).addmm_(inner, B).view(output.shape)

    def _inner(self, group: int, rows: PlannedRows, x: Float[Tensor, "B T in"], dtype: torch.dtype) -> Tensor:
        """Return the inner features of a group, (B T, features)."""
        terms, (_, shift, scale) = rows.terms(dtype), self.groups[group]
        A = self.packed(dtype)[2][group]
        product = (x.to(dtype).reshape(-1, x.shape[-1]) @ A).view(*x.shape[:-1], -1)
        inner = product.add_(terms[shift]) if scale is None else torch.addcmul(terms[shift], product, terms[scale])
        return inner.view(-1, inner.shape[-1])

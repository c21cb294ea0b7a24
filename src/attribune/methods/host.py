"""The facts about a model that a method needs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Self, cast, get_args

from jaxtyping import Float
from torch import Tensor, nn

from attribune.backbones.families import placement_for
from attribune.backbones.placement import Placement, SiteKind
from attribune.backbones.sites import Site, find_layers, find_sites
from attribune.schema.attributes import Slots


@dataclass(frozen=True, kw_only=True)
class Host:
    """The facts about a model from which a method is built.

    Args:
        hidden: H, the backbone's hidden size.
        outputs: L, the size of the head.
        head_size: P, of a layer in front of the head; None for none.
        document: features of a document vector, where they are not H.
        slots: the attributes, in schema order.
        sites: all places inside the layers where a module can act.
        heads: of the backbone's attention.
        embedding: E, the size of the token embeddings.
        has_start_token: whether a text begins with a special token behind which vectors may stand.
        layers: names of the layers, in the order in which they run.
        placement: the row of the backbone's family.
        backbone: for methods whose initial values come from its weights.
    """

    hidden: int
    outputs: int
    slots: Sequence[Slots]
    head_size: int | None = None
    document: int | None = None
    sites: Sequence[Site] = ()
    heads: int = 1
    embedding: int = 0
    has_start_token: bool = True
    layers: tuple[str, ...] = ()
    placement: Placement | None = None
    backbone: nn.Module | None = field(default=None, repr=False)

    @classmethod
    def of(
        cls,
        backbone: Any,
        *,
        outputs: int,
        slots: Sequence[Slots],
        placement: Placement | None = None,
        head_size: int | None = None,
    ) -> Self:
        """Describe a loaded backbone, by default with the placement of its family.

        Raises:
            ConfigError: for a family that the placement table lacks or does not match.
        """
        placement = placement_for(backbone.config.model_type) if placement is None else placement
        config = getattr(backbone.config, "encoder", backbone.config)  # T5Gemma has one for each stack
        return cls(
            hidden=config.hidden_size,
            outputs=outputs,
            slots=slots,
            head_size=head_size,
            sites=find_sites(backbone, placement, get_args(SiteKind)),
            heads=config.num_attention_heads,
            embedding=backbone.get_input_embeddings().embedding_dim,
            has_start_token=placement.has_start_token,
            layers=tuple(find_layers(backbone, placement)),
            placement=placement,
            backbone=backbone,
        )

    def at(self, *kinds: SiteKind) -> tuple[Site, ...]:
        """Return the sites of these kinds, in the order in which they run."""
        return tuple(site for site in self.sites if site.kind in kinds)

    @property
    def classified(self) -> int:
        """The number of features that the head reads."""
        return self.head_size or self.document or self.hidden

    def module_at(self, site: Site) -> nn.Module:
        """Return the backbone's module at a site."""
        assert self.backbone is not None
        return self.backbone.get_submodule(site.path)

    def weight(self, site: Site) -> Float[Tensor, "inputs features"]:
        """Return the backbone's weight at the site of a linear map, not to be changed."""
        module = self.module_at(site)
        weight = cast(Tensor, module.weight)
        weight = weight.T if isinstance(module, nn.Linear) else weight
        return site.part_of(weight)

    def bias(self, site: Site) -> Float[Tensor, " features"] | None:
        """Return the backbone's bias, if any, at the site of a linear map that is not fused."""
        return cast(Tensor | None, getattr(self.module_at(site), "bias", None))

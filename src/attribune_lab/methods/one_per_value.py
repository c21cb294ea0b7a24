"""``one-per-value``: low-rank maps trained for all rows, then for each value alone, beginning with those of all."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, ClassVar, cast

import torch
from jaxtyping import Float
from pydantic import Field, PositiveFloat, PositiveInt
from torch import Tensor, nn
from torch.nn.functional import embedding

from attribune.backbones.sites import Site
from attribune.errors import ConfigError
from attribune.methods.attribute_method import AttributeMethod
from attribune.methods.base import Method, SiteModule
from attribune.methods.condition import Condition
from attribune.methods.config import LayerMethodConfig, MethodConfig
from attribune.methods.host import Host
from attribune.methods.merging import LowRank, MergedMethod, MergeTarget
from attribune.methods.plain import Plain
from attribune.methods.shapes import AttributeIds, DropoutDraw
from attribune_lab import functional


class OnePerValue(LayerMethodConfig):
    """LoRA for all rows, then a copy of it trained further for each value.

    Queries and values become ``W x + b + (alpha / r) B_u A_u x``. A baseline: the factors are trained for all rows,
    with the head, then copied for each value and trained further on its rows alone. Values with few rows, and the
    unknown, have those of all.

    Args:
        attribute: the attribute whose values have factors; by default the first with one value in a row.
        rank: r.
        alpha: alpha, in the scale alpha / r.
        min_rows: training rows of a value that are needed for factors of its own; windows where the task scores
            tokens.
        epochs: number of epochs over the rows of a value.
        rate: learning rate in these epochs, as a multiple of `training.learning_rate`.
    """

    name: ClassVar[str] = "one-per-value"
    uses_attributes: ClassVar[bool] = True
    stands_alone: ClassVar[bool] = True
    further_training: ClassVar[str] = "attribune_lab.training.own_values:train_own_values"

    attribute: str | None = Field(default=None, description="the name of an attribute, or null for the first one")
    rank: PositiveInt = 8
    alpha: PositiveFloat = 16.0
    min_rows: PositiveInt = 10
    epochs: PositiveInt = 3
    rate: PositiveFloat = 0.5

    def attribute_refusal(self, names: Sequence[str]) -> str | None:
        """Return why there can be no factors for these attributes; None if there can."""
        if self.attribute in (None, *names):
            return None
        known = ", ".join(names) or "none"
        return f"one-per-value: attribute is {self.attribute!r}, which is none of the attributes {known}: name one"

    def build(self, host: Host) -> Method:
        """Build one module for queries and one for values in every layer."""
        return OnePerValueMethod(self, host)


class OnePerValueMethod(AttributeMethod):
    """Factors of all, and what each value's own have beyond them: zero until `training_of` stored any.

    In training, rows have the factors of all.
    """

    def __init__(self, config: OnePerValue, host: Host) -> None:
        super().__init__(config, host)
        if (refusal := config.attribute_refusal([slots.name for slots in host.slots])) is not None:
            raise ConfigError(refusal)
        single = [slots for slots in host.slots if slots.count == 1]
        named = [slots for slots in single if config.attribute in (None, slots.name)]
        if not named:
            wrong, cure = config.attribute or host.slots[0].name, ", ".join(slots.name for slots in single)
            raise ConfigError(
                f"one-per-value: attribute {wrong!r} has several values in a row, which has one pair of factors: "
                + (f"choose {cure} with method.attribute" if single else "name one that has a single value")
            )
        self.attribute = named[0]
        for site in host.at("q_proj", "v_proj"):
            self.add_site(site, _OwnSite(config, site, values=self.attribute.size))
        names = (f"method.sites.{number}.{name}" for number in range(len(self.sites)) for name in ("dA", "dB"))
        self.unused = tuple(names)  # by gradients, since each value is trained in the place of all

    @property
    def own_sites(self) -> list[_OwnSite]:
        """The modules in all layers."""
        return [cast(_OwnSite, site) for site in self.sites]

    def rows_of_values(self) -> Iterator[tuple[nn.Parameter, str]]:
        """Yield each parameter with one row per id of an attribute, and the name of that attribute."""
        for site in self.own_sites:
            yield from ((site.dA, self.attribute.name), (site.dB, self.attribute.name))

    def condition(self, attribute_ids: AttributeIds | None, rows: int, draw: DropoutDraw | None = None) -> Condition:
        """Take the ids of the attribute, (B, 1); none in training."""
        assert attribute_ids is not None
        ids = self.attribute.of(attribute_ids)
        return Condition(rows=rows, ids=torch.zeros_like(ids) if self.training else ids)

    @contextmanager
    def training_of(self, value: int) -> Iterator[list[nn.Parameter]]:
        """Train a copy of the factors of all, in their place, for a value with this id.

        At the end the factors of all are what they were, and those of the value have become its own.
        """
        shared = [(site.A.detach().clone(), site.B.detach().clone()) for site in self.own_sites]
        try:
            yield [parameter for site in self.own_sites for parameter in (site.A, site.B)]
            for site, (A, B) in zip(self.own_sites, shared, strict=True):
                site.dA.data[value] = (site.A.data - A).flatten()
                site.dB.data[value] = (site.B.data - B).flatten()
        finally:
            for site, (A, B) in zip(self.own_sites, shared, strict=True):
                site.A.data.copy_(A)
                site.B.data.copy_(B)

    def merge(self, config: MethodConfig, condition: Condition, target: MergeTarget) -> MergedMethod:
        """Merge into LoRA with the factors of the value."""
        assert condition.ids is not None
        value = int(condition.ids[0, 0])
        sites = zip(self.acts_at, cast(Iterable[_OwnSite], self.sites), strict=True)
        low_rank = tuple(LowRank(site, *own.factors_of(value), None, own.scale) for site, own in sites)
        return MergedMethod(config=Plain(), low_rank=low_rank)


class _OwnSite(SiteModule):
    def __init__(self, config: OnePerValue, site: Site, *, values: int) -> None:
        super().__init__()
        self.scale = config.alpha / config.rank
        self.A = nn.Parameter(torch.randn(config.rank, site.inputs) * site.inputs**-0.5)
        self.B = nn.Parameter(torch.zeros(site.features, config.rank))
        self.dA = nn.Parameter(torch.zeros(values, self.A.numel()))
        self.dB = nn.Parameter(torch.zeros(values, self.B.numel()))

    def factors_of(self, value: int) -> tuple[Tensor, Tensor]:
        """Return A (r, in) and B (out, r) of a value."""
        return (self.A + self.dA[value].view_as(self.A)).detach(), (self.B + self.dB[value].view_as(self.B)).detach()

    def act(
        self, module: nn.Module, inputs: tuple[Any, ...], output: Float[Tensor, "B T out"], condition: Condition
    ) -> Float[Tensor, "B T out"]:
        assert condition.ids is not None
        x, ids = inputs[0].to(output.dtype), condition.ids[:, 0]
        # In training all rows have id 0, whose rows stay zero also where the tables of another run go on.
        own_A, own_B = (self.dA.detach(), self.dB.detach()) if self.training else (self.dA, self.dB)
        dA = embedding(ids, own_A).view(-1, *self.A.shape)
        dB = embedding(ids, own_B).view(-1, *self.B.shape)
        return functional.own_low_rank(output, x, self.A, self.B, dA, dB, scale=self.scale)

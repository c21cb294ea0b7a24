"""``poly``: the Poly layers of the peft library with the first attribute as task, as an external baseline."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, ClassVar, cast

import torch
from jaxtyping import Float, Int
from pydantic import PositiveInt
from torch import Tensor, nn

from attribune.backbones.sites import Site
from attribune.errors import ConfigError
from attribune.methods.attribute_method import AttributeMethod
from attribune.methods.base import Method, SiteModule
from attribune.methods.condition import Condition
from attribune.methods.config import AttributeMethodConfig, LayerMethodConfig, MethodConfig
from attribune.methods.host import Host
from attribune.methods.merging import LowRank, MergedMethod, MergeTarget
from attribune.methods.plain import Plain
from attribune.schema.attributes import Slots


class Poly(LayerMethodConfig, AttributeMethodConfig):
    """A mixture of low-rank maps of the peft library for each value of the first attribute (Ponti et al. 2022).

    The maps are added to queries and values.
    Ponti et al. 2022, *Combining Modular Skills in Multitask Learning*, in the layers of the peft library, every value
    of the first attribute of the schema being a task, and the unknown another; other attributes are not read, and only
    the first of several values counts.

    Args:
        rank: r, of each map.
        skills: number of maps in the mixture.
        splits: number of parts of a map, each mixed with its own weights.
        attribute_dropout: probability of hiding an attribute of a row in training, which trains the unknown.
    """

    name: ClassVar[str] = "poly"
    reads_descriptions: ClassVar[bool] = False

    rank: PositiveInt = 8
    skills: PositiveInt = 4
    splits: PositiveInt = 1

    def build(self, host: Host) -> Method:
        """Build one mixture for queries and one for values in every layer."""
        return _PolyMethod(self, host)


class _PolyMethod(AttributeMethod):
    def __init__(self, config: Poly, host: Host) -> None:
        super().__init__(config, host)
        for site in host.at("q_proj", "v_proj"):
            self.add_site(site, _PolySite(config, site, tasks=host.slots[0].size))

    def use_slots(self, slots: Sequence[Slots]) -> None:
        """Read the same attributes with other values."""
        super().use_slots(slots)
        for site in cast(Iterable[_PolySite], self.sites):
            for router in site.mixture.poly_router.values():
                cast(Any, router).n_tasks = self.slots[0].size

    def rows_of_values(self) -> Iterator[tuple[nn.Parameter, str]]:
        """Yield the weights of the skills in each mixture, one row for each task."""
        for name, parameter in self.named_parameters():
            if name.endswith(".module_logits"):
                yield parameter, self.slots[0].name

    def merge(self, config: MethodConfig, condition: Condition, target: MergeTarget) -> MergedMethod:
        """Merge into LoRA with the mixtures of the value."""
        assert condition.ids is not None
        sites = zip(self.acts_at, cast(Iterable[_PolySite], self.sites), strict=True)
        low_rank = (LowRank(site, *module.mixed(condition.ids[:, 0])) for site, module in sites)
        return MergedMethod(config=Plain(), low_rank=tuple(low_rank))


class _PolySite(SiteModule):
    def __init__(self, config: Poly, site: Site, *, tasks: int) -> None:
        super().__init__()
        from peft.tuners.poly import PolyConfig  # seconds to import, and rarely needed
        from peft.tuners.poly.layer import Linear

        if site.inputs % config.splits or site.features % config.splits:
            raise ConfigError(
                f"poly: splits is {config.splits}, which does not divide the sizes {site.inputs} and {site.features} "
                f"of the {site.kind} projection: choose a divisor of both"
            )
        settings = PolyConfig(r=config.rank, n_tasks=tasks, n_skills=config.skills, n_splits=config.splits)
        self.mixture = Linear(_ZeroLinear(site.inputs, site.features), "default", settings)

    def act(
        self, module: nn.Module, inputs: tuple[Any, ...], output: Float[Tensor, "B T out"], condition: Condition
    ) -> Float[Tensor, "B T out"]:
        assert condition.ids is not None
        change: Tensor = self.mixture(inputs[0].to(output.dtype), task_ids=condition.ids[:, 0])
        return output + change

    def mixed(self, task: Int[Tensor, "1"]) -> tuple[Float[Tensor, "r in"], Float[Tensor, "out r"], None, float]:
        """Return the mixture of one task as LoRA: lora_A, lora_B, no bias, and the scale of peft's layer."""
        (name,) = self.mixture.active_adapters
        weights = self.mixture.poly_router[name](task_ids=task, input_ids=None)
        A = torch.einsum("bqs,qsdr->bqdr", weights, self.mixture.poly_lora_A[name])
        B = torch.einsum("bqs,qsrd->bqrd", weights, self.mixture.poly_lora_B[name])
        rank = A.shape[-1]
        return A.reshape(-1, rank).T, B[0].transpose(0, 1).reshape(rank, -1).T, None, 1 / rank


class _ZeroLinear(nn.Linear):
    """Stand-in for the layer that peft adapts, whose output the backbone has computed already."""

    def __init__(self, inputs: int, features: int) -> None:
        super().__init__(inputs, features, bias=False, device="meta")
        del self.weight

    def forward(self, x: Tensor) -> Tensor:
        return x.new_zeros(*x.shape[:-1], self.out_features)

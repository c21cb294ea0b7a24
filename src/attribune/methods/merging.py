"""Merging: a method for rows that all have the same values, as weights that read no attributes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple, cast

import torch
from jaxtyping import Float
from torch import Tensor, nn

from attribune.backbones.sites import Site
from attribune.errors import ConfigError
from attribune.methods.config import MethodConfig


class LowRank(NamedTuple):
    """The term ``scaling · (lora_B lora_A x + bias)``, in peft's words, added to a projection of the backbone."""

    site: Site
    lora_A: Float[Tensor, "r in"]
    lora_B: Float[Tensor, "out r"]
    bias: Float[Tensor, " out"] | None
    scaling: float


@dataclass(frozen=True, kw_only=True)
class MergeTarget:
    """The model into which a method is merged: where its sites are, and the head behind the document vector, if any."""

    backbone: nn.Module
    head: nn.Linear | None


@dataclass(frozen=True, kw_only=True)
class MergedMethod:
    """The exact equivalent, without attributes, of a method for rows that all have the same values.

    Args:
        config: settings of the remaining method.
        tensors: of its module, by name.
        backbone: tensors that replace the backbone's own, by name.
        head: weight that replaces the head's own.
        low_rank: terms added to projections.
        link: parameters of the link behind the head, by name, where it read attributes.
        head_scale: factor of the head's outputs.
    """

    config: MethodConfig
    tensors: Mapping[str, Tensor] = field(default_factory=dict)
    backbone: Mapping[str, Tensor] = field(default_factory=dict)
    head: Float[Tensor, "labels H"] | None = None
    low_rank: tuple[LowRank, ...] = ()
    link: Mapping[str, Tensor] = field(default_factory=dict)
    head_scale: Float[Tensor, ""] | None = None

    def backbone_tensors(self, backbone: nn.Module) -> Mapping[str, Tensor]:
        """Return the tensors that replace the backbone's own, with `low_rank` merged into them.

        Raises:
            ConfigError: for a projection without a bias where one is needed, or one that is called on positions too.
        """
        merged = dict(self.backbone)
        for site, lora_A, lora_B, bias, scaling in self.low_rank:
            weight = _parameter_name(backbone, site, "weight")
            module = base_layer(backbone, site)
            matrix = merged.get(weight, cast(Tensor, module.weight)).clone()
            rows = matrix if isinstance(module, nn.Linear) else matrix.T
            rows[site.part_of(torch.arange(rows.shape[0]))] += scaling * lora_B @ lora_A
            merged[weight] = matrix
            if bias is not None:
                add_to_bias(merged, backbone, site, scaling * bias)
        return merged


def base_layer(backbone: nn.Module, site: Site) -> nn.Module:
    """Return the backbone's own module at a site, inside the LoRA layer if there is one.

    Raises:
        ConfigError: for a projection that maps relative positions too, where methods do not act.
    """
    if site.relative_attention is not None and site.kind in ("q_proj", "k_proj"):
        raise ConfigError(
            f"the projection {site.path} maps relative positions too, to which the method adds nothing; changed "
            "weights would"
        )
    module = backbone.get_submodule(site.path)
    return cast(nn.Module, getattr(module, "base_layer", module))


def _parameter_name(backbone: nn.Module, site: Site, parameter: str) -> str:
    """Return the full name of a parameter of `base_layer`."""
    inside = ".base_layer" if hasattr(backbone.get_submodule(site.path), "base_layer") else ""
    return f"{site.path}{inside}.{parameter}"


def add_to_bias(merged: dict[str, Tensor], backbone: nn.Module, site: Site, change: Float[Tensor, " features"]) -> None:
    """Add a change to the bias at a site in `merged`; ConfigError for a module without a bias."""
    module = base_layer(backbone, site)
    bias = cast(Tensor | None, getattr(module, "bias", None))
    if bias is None:
        raise ConfigError(f"{site.path}, a {type(module).__name__}, has no bias that could hold what the values add")
    name = _parameter_name(backbone, site, "bias")
    merged[name] = merged.get(name, bias).clone()
    merged[name][site.part_of(torch.arange(len(bias)))] += change.to(bias.dtype)


def own_tensors(module: nn.Module, *, without: str | None = None) -> dict[str, Tensor]:
    """Return a module's parameters and stored buffers by name, except those of the submodule `without`."""
    return {
        name: tensor.detach()
        for name, tensor in [*module.named_parameters(), *stored_buffers(module).items()]
        if without is None or not name.startswith(f"{without}.")
    }


def stored_buffers(module: nn.Module) -> dict[str, Tensor]:
    """Return by name the buffers that belong to a module's state, such as running averages."""
    state = module.state_dict(keep_vars=True)
    return {name: buffer for name, buffer in module.named_buffers() if name in state}


def merge_refusal(config: MethodConfig) -> ConfigError:
    """Return the error for a method whose own layers read the values."""
    points = " and ".join(repr(point) for point in config.points)
    return ConfigError(
        f"method {config.name!r} acts at the point {points} with layers of its own that read the values, for which "
        "a model without attributes has no counterpart"
    )

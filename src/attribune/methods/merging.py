"""Merging: a method whose rows all have the same values, as weights that read no attributes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple, cast

from jaxtyping import Float
from torch import Tensor, nn

from attribune.backbones.sites import Site
from attribune.errors import ConfigError
from attribune.methods.config import MethodConfig

__all__ = [
    "LowRank",
    "MergeTarget",
    "MergedMethod",
    "add_to_bias",
    "base_layer",
    "merge_refusal",
    "own_tensors",
]


class LowRank(NamedTuple):
    """What is added to a projection of the backbone: ``scaling · (lora_B lora_A x + bias)``, in peft's words.

    Attributes:
        site: of the projection.
        lora_A: maps its input to r features.
        lora_B: maps these to its output.
        bias: added to that; None for none.
    """

    site: Site
    lora_A: Float[Tensor, "r in"]
    lora_B: Float[Tensor, "out r"]
    bias: Float[Tensor, " out"] | None
    scaling: float


@dataclass(frozen=True, kw_only=True)
class MergeTarget:
    """The model into which a method is merged: its backbone, and the head behind the document vector."""

    backbone: nn.Module
    head: nn.Linear


@dataclass(frozen=True, kw_only=True)
class MergedMethod:
    """What is left of a method, exactly, when all rows have the same values: a model that reads no attributes.

    Args:
        config: settings of the method that is left.
        tensors: of its module, by name.
        backbone: tensors in place of the backbone's own, by name.
        head: weight in place of the head's own; None leaves it.
        low_rank: what is added to projections.
    """

    config: MethodConfig
    tensors: Mapping[str, Tensor] = field(default_factory=dict)
    backbone: Mapping[str, Tensor] = field(default_factory=dict)
    head: Float[Tensor, "labels H"] | None = None
    low_rank: tuple[LowRank, ...] = ()

    def backbone_tensors(self, backbone: nn.Module) -> Mapping[str, Tensor]:
        """Return the tensors in place of the backbone's own, what is added to projections among them.

        Raises:
            ConfigError: for a projection without a bias where one is needed, or one that is called on positions too.
        """
        merged = dict(self.backbone)
        for site, lora_A, lora_B, bias, scaling in self.low_rank:
            weight, _ = _parameter_names(backbone, site)
            module = base_layer(backbone, site)
            features = slice(None) if site.start is None else slice(site.start, site.start + site.features)
            matrix = merged.get(weight, cast(Tensor, module.weight)).clone()
            (matrix if isinstance(module, nn.Linear) else matrix.T)[features] += scaling * lora_B @ lora_A
            merged[weight] = matrix
            if bias is not None:
                add_to_bias(merged, backbone, site, scaling * bias)
        return merged


def base_layer(backbone: nn.Module, site: Site) -> nn.Module:
    """Return the backbone's own module at a site, under what LoRA puts in its place.

    Raises:
        ConfigError: for one that is called on relative positions too, where methods do not act.
    """
    if site.relative_attention is not None and site.kind in ("q_proj", "k_proj"):
        raise ConfigError(
            f"the projection {site.path} maps relative positions too, to which the method adds nothing; changed "
            "weights would"
        )
    module = backbone.get_submodule(site.path)
    return cast(nn.Module, getattr(module, "base_layer", module))


def _parameter_names(backbone: nn.Module, site: Site) -> tuple[str, str]:
    """Return the names of the weight and the bias of `base_layer`."""
    inside = ".base_layer" if hasattr(backbone.get_submodule(site.path), "base_layer") else ""
    return f"{site.path}{inside}.weight", f"{site.path}{inside}.bias"


def add_to_bias(merged: dict[str, Tensor], backbone: nn.Module, site: Site, change: Float[Tensor, " features"]) -> None:
    """Add a change to the bias at a site, in `merged`, where an earlier one may be.

    Raises:
        ConfigError: for a module without a bias.
    """
    module = base_layer(backbone, site)
    bias = cast(Tensor | None, getattr(module, "bias", None))
    if bias is None:
        raise ConfigError(f"{site.path}, a {type(module).__name__}, has no bias that could hold what the values add")
    _, name = _parameter_names(backbone, site)
    start = site.start or 0
    merged[name] = merged.get(name, bias).clone()
    merged[name][start : start + site.features] += change.to(merged[name].dtype)


def own_tensors(module: nn.Module, *, without: str | None = None) -> dict[str, Tensor]:
    """Return a module's parameters by name, those of one of its parts left out."""
    return {
        name: parameter.detach()
        for name, parameter in module.named_parameters()
        if without is None or not name.startswith(f"{without}.")
    }


def merge_refusal(config: MethodConfig) -> ConfigError:
    """Make the error of a method that has layers of its own for the values."""
    points = " and ".join(repr(point) for point in config.points)
    return ConfigError(
        f"method {config.name!r} acts at the point {points} with layers of its own that read the values, for which "
        "a model without attributes has no counterpart"
    )

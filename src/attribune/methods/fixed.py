"""A method whose attributes are fixed: the same values in every row, so that nothing has to be read from a row."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple, cast

from torch import Tensor, nn

from attribune.errors import ConfigError
from attribune.methods.settings import MethodConfig
from attribune.sites import Site

__all__ = [
    "Around",
    "Fixed",
    "LowRank",
    "add_to_bias",
    "module_at",
    "no_fixed_form",
    "own_tensors",
]


class LowRank(NamedTuple):
    """What is added to a projection of the backbone: ``scale · (B A x + bias)``.

    Attributes:
        site: of the projection.
        A: (r, in).
        B: (out, r).
        bias: (out,), or None.
        scale: of both.
    """

    site: Site
    A: Tensor
    B: Tensor
    bias: Tensor | None
    scale: float


@dataclass(frozen=True, kw_only=True)
class Around:
    """What stands around a method and may take up what the values do.

    Args:
        backbone: with its weights.
        head: behind the document vector.
    """

    backbone: nn.Module
    head: nn.Linear


@dataclass(frozen=True, kw_only=True)
class Fixed:
    """What is left of a method, exactly, when all rows have the same values: a model that reads no attributes.

    Args:
        config: settings of the method that is left.
        tensors: of its module, by name.
        backbone: tensors in place of the backbone's own, by name.
        head: weight (L, H) in place of the head's own; None leaves it.
        low_rank: what is added to projections.
    """

    config: MethodConfig
    tensors: Mapping[str, Tensor] = field(default_factory=dict)
    backbone: Mapping[str, Tensor] = field(default_factory=dict)
    head: Tensor | None = None
    low_rank: tuple[LowRank, ...] = ()

    def merged(self, backbone: nn.Module) -> Mapping[str, Tensor]:
        """The tensors in place of the backbone's own, what is added to projections among them.

        Raises:
            ConfigError: for a projection without a bias where one is needed, or one that is called on positions too.
        """
        changed = dict(self.backbone)
        for site, A, B, bias, scale in self.low_rank:
            weight, _ = _names(backbone, site)
            module = module_at(backbone, site)
            rows = slice(None) if site.start is None else slice(site.start, site.start + site.features)
            matrix = changed.get(weight, cast(Tensor, module.weight)).clone()
            (matrix if isinstance(module, nn.Linear) else matrix.T)[rows] += scale * B @ A
            changed[weight] = matrix
            if bias is not None:
                add_to_bias(changed, backbone, site, scale * bias)
        return changed


def module_at(backbone: nn.Module, site: Site) -> nn.Module:
    """The backbone's own module at a site, under what LoRA puts in its place.

    Raises:
        ConfigError: for one that is called on relative positions too, where methods do not act.
    """
    if site.relative is not None and site.kind in ("query", "key"):
        raise ConfigError(
            f"the projection {site.path} maps relative positions too, to which the method adds nothing; changed "
            "weights would"
        )
    module = backbone.get_submodule(site.path)
    return cast(nn.Module, getattr(module, "base_layer", module))


def _names(backbone: nn.Module, site: Site) -> tuple[str, str]:
    """Names of the weight and the bias of the backbone's own module at a site."""
    inside = ".base_layer" if hasattr(backbone.get_submodule(site.path), "base_layer") else ""
    return f"{site.path}{inside}.weight", f"{site.path}{inside}.bias"


def add_to_bias(changed: dict[str, Tensor], backbone: nn.Module, site: Site, change: Tensor) -> None:
    """Add a change (features,) to the bias at a site, in `changed`, where an earlier one may be.

    Raises:
        ConfigError: for a module without a bias.
    """
    module = module_at(backbone, site)
    bias = cast(Tensor | None, getattr(module, "bias", None))
    if bias is None:
        raise ConfigError(f"{site.path}, a {type(module).__name__}, has no bias that could hold what the values add")
    _, name = _names(backbone, site)
    start = site.start or 0
    whole = changed.get(name, bias).clone()
    whole[start : start + site.features] += change.to(whole.dtype)
    changed[name] = whole


def own_tensors(module: nn.Module, *, without: str | None = None) -> Iterator[tuple[str, Tensor]]:
    """Names and values of a module's parameters, those of one of its parts left out."""
    for name, parameter in module.named_parameters():
        if without is None or not name.startswith(f"{without}."):
            yield name, parameter.detach()


def no_fixed_form(config: MethodConfig) -> ConfigError:
    """The refusal of a method that has layers of its own for the values."""
    points = " and ".join(repr(point) for point in config.points)
    return ConfigError(
        f"method {config.name!r} acts at the point {points} with layers of its own that read the values, for which "
        "a model without attributes has no counterpart"
    )

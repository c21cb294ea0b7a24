"""The places in a backbone where a method can act, found by its row of the table; what does not match is named."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import cast

from torch import Tensor, nn

from attribune.backbones.placement import Placement, SiteKind
from attribune.errors import ConfigError

__all__ = ["Site", "find_layers", "find_norms", "find_sites", "first_position", "most_positions"]


@dataclass(frozen=True, kw_only=True)
class Site:
    """One place in a backbone where a module can act, by changing the output of the module that stands there.

    The kinds: behind a sub-layer before its residual addition (``attention``, ``feed_forward``); the norm that reads
    the residual stream after a sub-layer (``attention_norm``, ``feed_forward_norm``; in pre-norm families that is the
    next norm); the projections of the attention (``q_proj``, ``k_proj``, ``v_proj``, ``o_proj``) and the maps of the
    feed-forward sub-layer (``up_proj``, ``down_proj``).

    Args:
        layer: number of the layer, from 0; layers that share their weights count once.
        kind: what stands there.
        path: name of the module whose output is changed.
        inputs: size of what that module reads.
        features: size of what is changed.
        start: first of the changed features, where a fused projection makes more than these; None for all.
        relative_attention: name of the module that calls this one a second time, on relative positions.
    """

    layer: int
    kind: SiteKind
    path: str
    inputs: int
    features: int
    start: int | None = None
    relative_attention: str | None = None


def find_sites(
    backbone: nn.Module, placement: Placement, kinds: Sequence[SiteKind] = ("attention", "feed_forward")
) -> tuple[Site, ...]:
    """Find the sites of a backbone: layer by layer, and in each layer in the order of `kinds`.

    Raises:
        ConfigError: naming the path that did not match.
    """
    layers = find_layers(backbone, placement)
    return tuple(
        site
        for number in range(len(layers))
        for kind in kinds
        for site in _sites(backbone, placement, layers, number, kind)
    )


def _sites(
    backbone: nn.Module, placement: Placement, layers: Sequence[str], number: int, kind: SiteKind
) -> Iterator[Site]:
    layer = layers[number]
    if kind in ("attention", "feed_forward", "attention_norm", "feed_forward_norm"):
        if kind.endswith("_norm"):
            path = _norm_after(placement, layers, number, kind)
        else:
            path = f"{layer}.{placement.attention if kind == 'attention' else placement.feed_forward}"
        hidden = backbone.get_submodule(_existing(backbone, f"{layer}.{placement.o_proj}"))
        H = _linear_sizes(hidden)[1]
        yield Site(layer=number, kind=kind, path=_existing(backbone, path), inputs=H, features=H)
    elif kind == "up_proj":
        names = {name for name, _ in backbone.named_modules()}
        paths = [f"{layer}.{inside}" for inside in placement.up_proj if f"{layer}.{inside}" in names]
        for path in paths or [_existing(backbone, f"{layer}.{placement.up_proj[0]}")]:
            inputs, features = _linear_sizes(backbone.get_submodule(path))
            yield Site(layer=number, kind=kind, path=path, inputs=inputs, features=features)
    else:
        yield _projection(backbone, placement, layer, number, kind)


def _projection(backbone: nn.Module, placement: Placement, layer: str, number: int, kind: SiteKind) -> Site:
    path = _existing(backbone, f"{layer}.{getattr(placement, kind)}")
    inputs, features = _linear_sizes(backbone.get_submodule(path))
    fused = ("q_proj", "k_proj", "v_proj")
    relative = placement.relative_attention if kind in fused else None
    start = None
    if kind in fused and placement.q_proj == placement.v_proj:
        features //= 3
        start = fused.index(kind) * features
    return Site(
        layer=number,
        kind=kind,
        path=path,
        inputs=inputs,
        features=features,
        start=start,
        relative_attention=None if relative is None else f"{layer}.{relative}",
    )


def _norm_after(placement: Placement, layers: Sequence[str], number: int, kind: SiteKind) -> str:
    """Return the path of the norm that reads the residual stream after a sub-layer."""
    first, second = placement.norms
    if not placement.pre_norm:
        return f"{layers[number]}.{first if kind == 'attention_norm' else second}"
    if kind == "attention_norm":
        return f"{layers[number]}.{second}"
    if number + 1 < len(layers):
        return f"{layers[number + 1]}.{first}"
    return placement.final_norms[0]


def _linear_sizes(module: nn.Module) -> tuple[int, int]:
    """Return the sizes of what a linear map reads and makes; GPT-2 stores its weights the other way round."""
    rows, columns = cast(Tensor, module.weight).shape
    return (columns, rows) if isinstance(module, nn.Linear) else (rows, columns)


def find_norms(backbone: nn.Module, placement: Placement) -> tuple[nn.Module, ...]:
    """Find the LayerNorms or RMSNorms of all layers and those after the last; not that of the embeddings.

    Raises:
        ConfigError: naming the path that did not match.
    """
    paths = [f"{layer}.{inside}" for layer in find_layers(backbone, placement) for inside in placement.norms]
    return tuple(backbone.get_submodule(_existing(backbone, path)) for path in [*paths, *placement.final_norms])


def most_positions(backbone: nn.Module, placement: Placement) -> int | None:
    """Return how many ids the table of absolute positions has room for; None without such a table."""
    table = dict(backbone.named_modules()).get(placement.position_embeddings or "none")
    if not isinstance(table, nn.Embedding):  # DeBERTa may be configured to know relative positions alone
        return None
    return table.num_embeddings - (first_position(backbone, placement) or 0)


def first_position(backbone: nn.Module, placement: Placement) -> int | None:
    """Return the first position of families that leave padding out (RoBERTa, MPNet); None for those that do not."""
    table = dict(backbone.named_modules()).get(placement.position_embeddings or "none")
    return table.padding_idx + 1 if isinstance(table, nn.Embedding) and table.padding_idx is not None else None


def find_layers(backbone: nn.Module, placement: Placement) -> list[str]:
    """Find the names of the layers, in the order in which they run; layers that share their weights stand once.

    Raises:
        ConfigError: when there is none where the placement says.
    """
    pattern = re.compile(re.escape(placement.layers).replace(r"\*", r"\d+"))
    layers = [name for name, _ in backbone.named_modules() if pattern.fullmatch(name)]
    if not layers:
        raise ConfigError(
            f"{type(backbone).__name__} has no layers at {placement.layers!r}: this version of transformers lays the "
            "family out otherwise than the placement table says; install a version in the supported range"
        )
    return layers


def _existing(backbone: nn.Module, path: str) -> str:
    try:
        backbone.get_submodule(path)
    except AttributeError:
        raise ConfigError(
            f"{type(backbone).__name__} has no module {path!r}, which the placement table names: install a "
            "version of transformers in the supported range"
        ) from None
    return path

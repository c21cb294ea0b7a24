"""The places in a backbone where a method can act, found by its placement."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, cast

import torch
from jaxtyping import Shaped
from torch import Tensor, nn

from attribune.backbones.placement import Placement, SiteKind
from attribune.errors import ConfigError

_RESIDUAL: tuple[SiteKind, ...] = ("attention", "feed_forward", "attention_norm", "feed_forward_norm")
_INPUT_PROJECTIONS: tuple[SiteKind, ...] = ("q_proj", "k_proj", "v_proj")


@dataclass(frozen=True, kw_only=True)
class Site:
    """One module of a backbone whose output a method can change.

    The kinds: after a sub-layer, before its residual addition (``attention``, ``feed_forward``); the norm that reads
    the residual stream after a sub-layer (``attention_norm``, ``feed_forward_norm``; in pre-norm families that is the
    next norm); the projections of the attention (``q_proj``, ``k_proj``, ``v_proj``, ``o_proj``) and the maps of the
    feed-forward sub-layer (``up_proj``, ``down_proj``). Of backbones without pretraining: the pooling of the words of a
    sentence (``word_pool``), whose inputs are the states of words, their mask, and the rows of the sentences; the
    linear map of the words (``word_proj``); and the layer over them (``recurrent``), whose inputs are words and mask.

    Args:
        layer: number of the layer, from 0; layers that share their weights count once.
        path: name of the module.
        inputs: size of the module's input.
        features: number of features that can be changed.
        start: the first of these in the output of a fused projection, or in each of its groups; None for all features.
        groups: equal parts, such as heads, in which the output of a fused projection holds them.
        time_first: whether the module sees (T, B, features).
        relative_attention: name of the module that calls this one a second time, on relative positions.
    """

    layer: int
    kind: SiteKind
    path: str
    inputs: int
    features: int
    start: int | None = None
    groups: int = 1
    time_first: bool = False
    relative_attention: str | None = None

    def part_of(self, output: Shaped[Tensor, "*rows all"]) -> Shaped[Tensor, "*rows features"]:
        """Return the features that can be changed, of the output of the module."""
        if self.start is None:
            return output
        return self._grouped(output)[..., self._columns].flatten(-2)

    def with_part(
        self, output: Shaped[Tensor, "*rows all"], part: Shaped[Tensor, "*rows features"]
    ) -> Shaped[Tensor, "*rows all"]:
        """Return the output of the module with other features in the place of those that can be changed."""
        if self.start is None:
            return part
        grouped, columns = self._grouped(output), self._columns
        changed = self._grouped(part)
        return torch.cat([grouped[..., : columns.start], changed, grouped[..., columns.stop :]], dim=-1).flatten(-2)

    def _grouped(self, output: Shaped[Tensor, "*rows all"]) -> Shaped[Tensor, "*rows groups each"]:
        return output.reshape(*output.shape[:-1], self.groups, -1)

    @property
    def _columns(self) -> slice:
        assert self.start is not None
        return slice(self.start, self.start + self.features // self.groups)


def find_sites(
    backbone: nn.Module, placement: Placement, kinds: Sequence[SiteKind] = ("attention", "feed_forward")
) -> tuple[Site, ...]:
    """Find the sites of a backbone: layer by layer, and in each layer in the order of `kinds`.

    Raises:
        ConfigError: naming the path that does not match.
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
    layer, start, groups, relative = layers[number], None, 1, None
    config: Any = backbone.config
    for path in _paths(backbone, placement, layers, number, kind):
        _existing(backbone, path)
        if kind in ("word_pool", "recurrent"):
            size = config.chosen.hidden_size
            inputs = size if kind == "word_pool" else config.chosen.input_size
            yield Site(layer=number, kind=kind, path=path, inputs=inputs, features=size)
            continue
        # Modules on the residual stream may have no weights; their size is that of the attention's output.
        measured = f"{layer}.{placement.o_proj}" if kind in _RESIDUAL else path
        inputs, features = _linear_sizes(backbone.get_submodule(_existing(backbone, measured)))
        if kind in _RESIDUAL:
            inputs = features
        if kind in _INPUT_PROJECTIONS and placement.relative_attention is not None:
            relative = f"{layer}.{placement.relative_attention}"
        if kind in _INPUT_PROJECTIONS and placement.q_proj == placement.v_proj:
            groups = config.num_attention_heads if placement.fused_by_head else 1
            start, features = _part_of_fused(config, features, groups, _INPUT_PROJECTIONS.index(kind))
        yield Site(
            layer=number,
            kind=kind,
            path=path,
            inputs=inputs,
            features=features,
            start=start,
            groups=groups,
            time_first=placement.time_first and kind in _INPUT_PROJECTIONS,
            relative_attention=relative,
        )


def _part_of_fused(config: Any, features: int, groups: int, number: int) -> tuple[int, int]:
    """Return where the queries, keys or values begin in each group of a fused projection, and how many they are."""
    heads = config.num_attention_heads
    shared = getattr(config, "num_key_value_heads", None) or heads
    sizes = [count * features // (heads + 2 * shared) for count in (heads, shared, shared)]
    return sum(sizes[:number]) // groups, sizes[number]


def _paths(
    backbone: nn.Module, placement: Placement, layers: Sequence[str], number: int, kind: SiteKind
) -> Sequence[str]:
    layer = layers[number]
    if kind == "word_pool":
        return [] if placement.word_pool is None else [f"{layer}.{placement.word_pool}"]
    if kind in ("word_proj", "recurrent"):
        path = placement.word_proj if kind == "word_proj" else placement.recurrent
        return [] if path is None or path not in dict(backbone.named_modules()) else [path]
    if not placement.has_sites:
        return []
    if kind in ("attention_norm", "feed_forward_norm"):
        return [_norm_after(placement, layers, number, kind)]
    if kind == "up_proj":
        names = {name for name, _ in backbone.named_modules()}
        paths = [f"{layer}.{path}" for path in placement.up_proj]
        return [path for path in paths if path in names] or paths[:1]
    inside = getattr(placement, kind)
    if inside is None:  # experts in the place of this map
        return []
    path = f"{layer}.{inside}"
    if kind in _INPUT_PROJECTIONS and placement.global_suffix is not None:
        return [path, path + placement.global_suffix]
    return [path]


def _norm_after(placement: Placement, layers: Sequence[str], number: int, kind: SiteKind) -> str:
    """Return the path of the norm that reads the residual stream after a sub-layer."""
    assert placement.norms
    first, second = placement.norms
    if not placement.pre_norm:
        return f"{layers[number]}.{first if kind == 'attention_norm' else second}"
    if kind == "attention_norm":
        return f"{layers[number]}.{second}"
    if number + 1 < len(layers):
        return f"{layers[number + 1]}.{first}"
    return placement.final_norms[0]


def _linear_sizes(module: nn.Module) -> tuple[int, int]:
    """Return input and output size of a linear map, whose weights may be packed; GPT-2 stores them transposed."""
    if isinstance(module, nn.Linear):
        return module.in_features, module.out_features
    rows, columns = cast(Tensor, module.weight).shape
    return rows, columns


def find_norms(backbone: nn.Module, placement: Placement) -> tuple[nn.Module, ...]:
    """Find the LayerNorms or RMSNorms of all layers and those after the last, but not that of the embeddings.

    Raises:
        ConfigError: naming the path that does not match.
    """
    inside = (*placement.norms, *placement.inner_norms)
    paths = [f"{layer}.{norm}" for layer in find_layers(backbone, placement) for norm in inside]
    return tuple(backbone.get_submodule(_existing(backbone, path)) for path in [*paths, *placement.final_norms])


def most_positions(backbone: nn.Module, placement: Placement) -> int | None:
    """Return the size of the table of absolute positions, in ids of a text; None without such a table."""
    table = dict(backbone.named_modules()).get(placement.position_embeddings or "none")
    if not isinstance(table, nn.Embedding):  # DeBERTa may be configured to know relative positions alone
        return None
    offset: int = getattr(table, "offset", 0)  # BART's
    return table.num_embeddings - (first_position(backbone, placement) or offset)


def first_position(backbone: nn.Module, placement: Placement) -> int | None:
    """Return the first position in families that skip padding (RoBERTa, MPNet); None in others."""
    table = dict(backbone.named_modules()).get(placement.position_embeddings or "none")
    return table.padding_idx + 1 if isinstance(table, nn.Embedding) and table.padding_idx is not None else None


def find_layers(backbone: nn.Module, placement: Placement) -> list[str]:
    """Find the names of the layers, in the order in which they run; layers that share their weights count once.

    Raises:
        ConfigError: if no module matches the placement.
    """
    pattern = re.compile(re.escape(placement.layers).replace(r"\*", r"\d+"))
    layers = [name for name, _ in backbone.named_modules() if pattern.fullmatch(name)]
    if not layers:
        raise ConfigError(
            f"{type(backbone).__name__} has no layers at {placement.layers!r}: this version of transformers builds the "
            "family differently from the placement table; install a version in the supported range"
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

"""Where a method can act in a backbone: one row of a table per family, and a check that names what does not match."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

from torch import nn

from attribune.errors import ConfigError

__all__ = ["PLACEMENTS", "Placement", "Pooling", "Site", "find_norms", "find_sites", "most_positions", "placement_for"]

Pooling = Literal["first", "mean", "last"]


@dataclass(frozen=True, kw_only=True)
class Placement:
    """The facts about one backbone family. Paths are module names; ``*`` stands for any number.

    Args:
        model_types: the ``config.model_type`` values that the row covers.
        layers: path of the layers inside the backbone.
        attention: path, inside a layer, of the module whose output is the attention sub-layer's, after its dropout
            and before its residual addition.
        feed_forward: the same for the feed-forward sub-layer.
        norms: paths, inside a layer, of its LayerNorms or RMSNorms.
        positions: path of the table of absolute positions, which limits the length of a text; None where there is none.
        final_norms: paths, inside the backbone, of norms after the last layer.
        pooling: which state stands for the document, unless the weights say otherwise.
        text_model: name of the transformers class, where ``AutoModel`` would give more than the encoder.
        pooler: whether the class builds a pooler by default, which the library does not use.
    """

    model_types: tuple[str, ...]
    layers: str
    attention: str
    feed_forward: str
    norms: tuple[str, ...]
    positions: str | None = None
    final_norms: tuple[str, ...] = ()
    pooling: Pooling = "first"
    text_model: str | None = None
    pooler: bool = False


PLACEMENTS: tuple[Placement, ...] = (
    Placement(
        model_types=("bert", "roberta", "xlm-roberta"),
        layers="encoder.layer.*",
        attention="attention.output.dropout",
        feed_forward="output.dropout",
        norms=("attention.output.LayerNorm", "output.LayerNorm"),
        positions="embeddings.position_embeddings",
        pooler=True,
    ),
    Placement(
        model_types=("electra", "deberta-v2"),
        layers="encoder.layer.*",
        attention="attention.output.dropout",
        feed_forward="output.dropout",
        norms=("attention.output.LayerNorm", "output.LayerNorm"),
        positions="embeddings.position_embeddings",
    ),
    Placement(
        model_types=("mpnet",),
        layers="encoder.layer.*",
        attention="attention.dropout",
        feed_forward="output.dropout",
        norms=("attention.LayerNorm", "output.LayerNorm"),
        positions="embeddings.position_embeddings",
        pooler=True,
    ),
    Placement(
        model_types=("distilbert",),
        layers="transformer.layer.*",
        attention="attention.out_lin",
        feed_forward="ffn.dropout",
        norms=("sa_layer_norm", "output_layer_norm"),
        positions="embeddings.position_embeddings",
    ),
    Placement(
        model_types=("albert",),
        layers="encoder.albert_layer_groups.*.albert_layers.*",
        attention="attention.output_dropout",
        feed_forward="ffn_output",
        norms=("attention.LayerNorm", "full_layer_layer_norm"),
        positions="embeddings.position_embeddings",
        pooler=True,
    ),
    Placement(
        model_types=("modernbert",),
        layers="layers.*",
        attention="attn.out_drop",
        feed_forward="mlp",
        norms=("attn_norm", "mlp_norm"),
        final_norms=("final_norm",),
    ),
    Placement(
        model_types=("gpt2",),
        layers="h.*",
        attention="attn.resid_dropout",
        feed_forward="mlp.dropout",
        norms=("ln_1", "ln_2"),
        positions="wpe",
        final_norms=("ln_f",),
        pooling="last",
    ),
    Placement(
        model_types=("llama", "mistral", "qwen2", "qwen3"),
        layers="layers.*",
        attention="self_attn.o_proj",
        feed_forward="mlp",
        norms=("input_layernorm", "post_attention_layernorm"),
        final_norms=("norm",),
        pooling="last",
    ),
    Placement(
        model_types=("t5",),
        layers="encoder.block.*",
        attention="layer.0.dropout",
        feed_forward="layer.1.dropout",
        norms=("layer.0.layer_norm", "layer.1.layer_norm"),
        final_norms=("encoder.final_layer_norm",),
        pooling="mean",
        text_model="T5EncoderModel",
    ),
)


@dataclass(frozen=True, kw_only=True)
class Site:
    """One place in a backbone where a module can act.

    Args:
        layer: number of the layer, from 0; layers that share their weights count once.
        kind: behind which sub-layer.
        path: name of the module whose output is changed.
    """

    layer: int
    kind: Literal["attention", "feed_forward"]
    path: str


def placement_for(model_type: str) -> Placement:
    """The row of the table for a ``config.model_type``.

    Raises:
        ConfigError: for a family that the table lacks; the message lists those it has.
    """
    for row in PLACEMENTS:
        if model_type in row.model_types:
            return row
    known = ", ".join(sorted(name for row in PLACEMENTS for name in row.model_types))
    raise ConfigError(f"no placement for backbones of type {model_type!r}: choose a backbone of one of {known}")


def find_sites(backbone: nn.Module, placement: Placement) -> tuple[Site, ...]:
    """The sites of a backbone, in the order in which they run.

    Raises:
        ConfigError: naming the path that did not match.
    """
    kinds: tuple[tuple[Literal["attention", "feed_forward"], str], ...] = (
        ("attention", placement.attention),
        ("feed_forward", placement.feed_forward),
    )
    return tuple(
        Site(layer=number, kind=kind, path=_existing(backbone, f"{layer}.{inside}"))
        for number, layer in enumerate(_layers(backbone, placement))
        for kind, inside in kinds
    )


def find_norms(backbone: nn.Module, placement: Placement) -> tuple[nn.Module, ...]:
    """The LayerNorms or RMSNorms of all layers and those after the last; not that of the embeddings.

    Raises:
        ConfigError: naming the path that did not match.
    """
    paths = [f"{layer}.{inside}" for layer in _layers(backbone, placement) for inside in placement.norms]
    return tuple(backbone.get_submodule(_existing(backbone, path)) for path in [*paths, *placement.final_norms])


def most_positions(backbone: nn.Module, placement: Placement) -> int | None:
    """Number of ids that the table of absolute positions has room for; None without such a table."""
    table = dict(backbone.named_modules()).get(placement.positions or "none")
    if not isinstance(table, nn.Embedding):  # DeBERTa may be configured to know relative positions alone
        return None
    unused = 0 if table.padding_idx is None else table.padding_idx + 1  # RoBERTa counts from there
    return table.num_embeddings - unused


def _layers(backbone: nn.Module, placement: Placement) -> list[str]:
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

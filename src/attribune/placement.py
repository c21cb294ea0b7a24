"""Where a method can act in the backbones of a family: one row of a table for each."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

from attribune.errors import ConfigError

__all__ = [
    "DECODERS",
    "PLACEMENTS",
    "Placement",
    "Pooling",
    "SiteKind",
    "placement_for",
]

Pooling = Literal["first", "mean", "last"]
SiteKind = Literal[
    "attention",
    "feed_forward",
    "attention_norm",
    "feed_forward_norm",
    "query",
    "key",
    "value",
    "output",
    "inner",
    "outer",
]


@dataclass(frozen=True, kw_only=True)
class Placement:
    """The facts about one backbone family. Paths are module names; ``*`` stands for any number.

    Args:
        model_types: the ``config.model_type`` values that the row covers.
        layers: path of the layers inside the backbone.
        attention: path, inside a layer, of the module whose output is the attention sub-layer's, after its dropout
            and before its residual addition.
        feed_forward: the same for the feed-forward sub-layer.
        norms: paths, inside a layer, of its two LayerNorms or RMSNorms, in the order in which they run.
        query, key, value: paths, inside a layer, of the projections in front of the attention; the same path for all
            three where one matrix makes them side by side, in this order.
        output: path of the projection behind the attention.
        inner: paths of the maps from the hidden to the inner size of the feed-forward sub-layer, those of every variant
            of the family.
        outer: path of the map back.
        relative: path, inside a layer, of a module that calls its projections a second time, on relative positions.
        pre_norm: whether the norms stand in front of the sub-layers and not behind the residual additions.
        starts: whether a text begins with a special token.
        shared: whether all layers, or groups of them, share one set of weights.
        no_memory: why attention cannot read states of other chunks; None where it can.
        positions: path of the table of absolute positions, which limits the length of a text; None where there is none.
        final_norms: paths, inside the backbone, of norms after the last layer.
        pooling: which state stands for the document, unless the weights say otherwise.
        text_model: name of the transformers class, where ``AutoModel`` would give more than the encoder.
        pooler: whether the class builds a pooler by default, which the library does not use.
        writes: whether the model writes text, token by token, with a head of its own.
    """

    model_types: tuple[str, ...]
    layers: str
    attention: str
    feed_forward: str
    norms: tuple[str, str]
    query: str
    key: str
    value: str
    output: str
    inner: tuple[str, ...]
    outer: str
    relative: str | None = None
    pre_norm: bool = False
    starts: bool = True
    shared: bool = False
    no_memory: str | None = None
    positions: str | None = None
    final_norms: tuple[str, ...] = ()
    pooling: Pooling = "first"
    text_model: str | None = None
    pooler: bool = False
    writes: bool = False


_CAUSAL = "its attention is causal, and a token must not read what comes after it"
_OWN = "the family computes its attention in code of its own, where no keys can be added"

PLACEMENTS: tuple[Placement, ...] = (
    Placement(
        model_types=("bert", "roberta", "xlm-roberta"),
        layers="encoder.layer.*",
        attention="attention.output.dropout",
        feed_forward="output.dropout",
        norms=("attention.output.LayerNorm", "output.LayerNorm"),
        query="attention.self.query",
        key="attention.self.key",
        value="attention.self.value",
        output="attention.output.dense",
        inner=("intermediate.dense",),
        outer="output.dense",
        positions="embeddings.position_embeddings",
        pooler=True,
    ),
    Placement(
        model_types=("electra",),
        layers="encoder.layer.*",
        attention="attention.output.dropout",
        feed_forward="output.dropout",
        norms=("attention.output.LayerNorm", "output.LayerNorm"),
        query="attention.self.query",
        key="attention.self.key",
        value="attention.self.value",
        output="attention.output.dense",
        inner=("intermediate.dense",),
        outer="output.dense",
        positions="embeddings.position_embeddings",
    ),
    Placement(
        model_types=("deberta-v2",),
        layers="encoder.layer.*",
        attention="attention.output.dropout",
        feed_forward="output.dropout",
        norms=("attention.output.LayerNorm", "output.LayerNorm"),
        no_memory=_OWN,
        query="attention.self.query_proj",
        key="attention.self.key_proj",
        value="attention.self.value_proj",
        output="attention.output.dense",
        inner=("intermediate.dense",),
        outer="output.dense",
        relative="attention.self",
        positions="embeddings.position_embeddings",
    ),
    Placement(
        model_types=("mpnet",),
        layers="encoder.layer.*",
        attention="attention.dropout",
        feed_forward="output.dropout",
        norms=("attention.LayerNorm", "output.LayerNorm"),
        no_memory=_OWN,
        query="attention.attn.q",
        key="attention.attn.k",
        value="attention.attn.v",
        output="attention.attn.o",
        inner=("intermediate.dense",),
        outer="output.dense",
        positions="embeddings.position_embeddings",
        pooler=True,
    ),
    Placement(
        model_types=("distilbert",),
        layers="transformer.layer.*",
        attention="attention.out_lin",
        feed_forward="ffn.dropout",
        norms=("sa_layer_norm", "output_layer_norm"),
        query="attention.q_lin",
        key="attention.k_lin",
        value="attention.v_lin",
        output="attention.out_lin",
        inner=("ffn.lin1",),
        outer="ffn.lin2",
        positions="embeddings.position_embeddings",
    ),
    Placement(
        model_types=("albert",),
        layers="encoder.albert_layer_groups.*.albert_layers.*",
        attention="attention.output_dropout",
        feed_forward="ffn_output",
        norms=("attention.LayerNorm", "full_layer_layer_norm"),
        shared=True,
        query="attention.query",
        key="attention.key",
        value="attention.value",
        output="attention.dense",
        inner=("ffn",),
        outer="ffn_output",
        positions="embeddings.position_embeddings",
        pooler=True,
    ),
    Placement(
        model_types=("modernbert",),
        layers="layers.*",
        attention="attn.out_drop",
        feed_forward="mlp",
        norms=("attn_norm", "mlp_norm"),
        query="attn.Wqkv",
        key="attn.Wqkv",
        value="attn.Wqkv",
        output="attn.Wo",
        inner=("mlp.Wi",),
        outer="mlp.Wo",
        pre_norm=True,
        final_norms=("final_norm",),
    ),
    Placement(
        model_types=("gpt2",),
        layers="h.*",
        attention="attn.resid_dropout",
        feed_forward="mlp.dropout",
        norms=("ln_1", "ln_2"),
        no_memory=_CAUSAL,
        query="attn.c_attn",
        key="attn.c_attn",
        value="attn.c_attn",
        output="attn.c_proj",
        inner=("mlp.c_fc",),
        outer="mlp.c_proj",
        pre_norm=True,
        starts=False,
        positions="wpe",
        final_norms=("ln_f",),
        pooling="last",
        writes=True,
    ),
    Placement(
        model_types=("llama", "mistral"),
        layers="layers.*",
        attention="self_attn.o_proj",
        feed_forward="mlp",
        norms=("input_layernorm", "post_attention_layernorm"),
        no_memory=_CAUSAL,
        query="self_attn.q_proj",
        key="self_attn.k_proj",
        value="self_attn.v_proj",
        output="self_attn.o_proj",
        inner=("mlp.gate_proj", "mlp.up_proj"),
        outer="mlp.down_proj",
        pre_norm=True,
        final_norms=("norm",),
        pooling="last",
        writes=True,
    ),
    Placement(
        model_types=("qwen2", "qwen3"),
        layers="layers.*",
        attention="self_attn.o_proj",
        feed_forward="mlp",
        norms=("input_layernorm", "post_attention_layernorm"),
        no_memory=_CAUSAL,
        query="self_attn.q_proj",
        key="self_attn.k_proj",
        value="self_attn.v_proj",
        output="self_attn.o_proj",
        inner=("mlp.gate_proj", "mlp.up_proj"),
        outer="mlp.down_proj",
        pre_norm=True,
        starts=False,
        final_norms=("norm",),
        pooling="last",
        writes=True,
    ),
    Placement(
        model_types=("eurobert",),
        layers="layers.*",
        attention="self_attn.o_proj",
        feed_forward="mlp",
        norms=("input_layernorm", "post_attention_layernorm"),
        query="self_attn.q_proj",
        key="self_attn.k_proj",
        value="self_attn.v_proj",
        output="self_attn.o_proj",
        inner=("mlp.gate_proj", "mlp.up_proj"),
        outer="mlp.down_proj",
        pre_norm=True,
        final_norms=("norm",),
        pooling="mean",
    ),
    Placement(
        model_types=("t5",),
        layers="encoder.block.*",
        attention="layer.0.dropout",
        feed_forward="layer.1.dropout",
        norms=("layer.0.layer_norm", "layer.1.layer_norm"),
        query="layer.0.SelfAttention.q",
        key="layer.0.SelfAttention.k",
        value="layer.0.SelfAttention.v",
        output="layer.0.SelfAttention.o",
        inner=("layer.1.DenseReluDense.wi", "layer.1.DenseReluDense.wi_0", "layer.1.DenseReluDense.wi_1"),
        outer="layer.1.DenseReluDense.wo",
        pre_norm=True,
        starts=False,
        final_norms=("encoder.final_layer_norm",),
        pooling="mean",
        text_model="T5EncoderModel",
    ),
)

# Of an encoder-decoder the decoder alone is conditioned, whose attention to the encoder is left as it is.
DECODERS: tuple[Placement, ...] = (
    *(row for row in PLACEMENTS if row.writes),
    replace(
        next(row for row in PLACEMENTS if "t5" in row.model_types),
        layers="block.*",
        feed_forward="layer.2.dropout",
        norms=("layer.0.layer_norm", "layer.2.layer_norm"),
        no_memory=_CAUSAL,
        inner=("layer.2.DenseReluDense.wi", "layer.2.DenseReluDense.wi_0", "layer.2.DenseReluDense.wi_1"),
        outer="layer.2.DenseReluDense.wo",
        final_norms=("final_layer_norm",),
        text_model=None,
        writes=True,
    ),
)


def placement_for(model_type: str, *, writes: bool = False) -> Placement:
    """The row of the table for a ``config.model_type``.

    Args:
        model_type: of the backbone.
        writes: whether the row is wanted of the stack of layers that writes text, which is `DECODERS`'.

    Raises:
        ConfigError: for a family that the table lacks; the message lists those it has.
    """
    rows = DECODERS if writes else PLACEMENTS
    for row in rows:
        if model_type in row.model_types:
            return row
    known = ", ".join(sorted(name for row in rows for name in row.model_types))
    if writes:
        raise ConfigError(f"backbones of type {model_type!r} write no text here: choose one of {known}")
    raise ConfigError(f"no placement for backbones of type {model_type!r}: choose a backbone of one of {known}")

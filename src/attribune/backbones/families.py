"""The placement table: one row of facts for each backbone family."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from attribune.backbones.placement import Placement
from attribune.backbones.recognised import recognised
from attribune.core.plugins import load_plugins
from attribune.core.wording import did_you_mean_or
from attribune.errors import ConfigError

_OWN_ATTENTION = "the family computes attention in its own code, which cannot take additional keys"


def _projections(inside: str, *names: str, out: str | None = None) -> dict[str, Any]:
    """Return the paths of the projections of the attention: those of queries, keys and values are in one module.

    Args:
        names: of the three in it; one name if they are fused in one matrix.
        out: path of the output projection, where it is not that of the row that this one goes out from.
    """
    query, key, value = (f"{inside}.{name}" for name in (names if len(names) == 3 else names * 3))
    output = {} if out is None else {"o_proj": out}
    return {"q_proj": query, "k_proj": key, "v_proj": value, **output}


_BERT = Placement(
    model_types=("bert", "roberta", "xlm-roberta", "camembert", "ernie"),
    layers="encoder.layer.*",
    attention="attention.output.dropout",
    feed_forward="output.dropout",
    norms=("attention.output.LayerNorm", "output.LayerNorm"),
    **_projections("attention.self", "query", "key", "value", out="attention.output.dense"),
    up_proj=("intermediate.dense",),
    down_proj="output.dense",
    position_embeddings="embeddings.position_embeddings",
    has_pooler=True,
)
_ROTARY = Placement(
    model_types=("nomic_bert",),
    layers="layers.*",
    attention="post_attention_dropout",
    feed_forward="post_mlp_dropout",
    norms=("post_attention_layernorm", "post_mlp_layernorm"),
    **_projections("self_attn", "q_proj", "k_proj", "v_proj", out="self_attn.o_proj"),
    up_proj=("mlp.gate_proj", "mlp.up_proj"),
    down_proj="mlp.down_proj",
    pooling="mean",
)
_MODERN_BERT = Placement(
    model_types=("modernbert",),
    layers="layers.*",
    attention="attn.out_drop",
    feed_forward="mlp",
    norms=("attn_norm", "mlp_norm"),
    **_projections("attn", "Wqkv", out="attn.Wo"),
    up_proj=("mlp.Wi",),
    down_proj="mlp.Wo",
    pre_norm=True,
    final_norms=("final_norm",),
)
_LLAMA = replace(
    _ROTARY,
    model_types=("llama", "mistral", "ministral", "ministral3"),
    attention="self_attn.o_proj",
    feed_forward="mlp",
    norms=("input_layernorm", "post_attention_layernorm"),
    pre_norm=True,
    is_causal=True,
    final_norms=("norm",),
    pooling="last",
    is_generative=True,
)
_GEMMA_2 = replace(
    _LLAMA,
    model_types=("gemma2", "gemma3_text"),
    attention="post_attention_layernorm",
    feed_forward="post_feedforward_layernorm",
    norms=("input_layernorm", "pre_feedforward_layernorm"),
    inner_norms=("post_attention_layernorm", "post_feedforward_layernorm"),
    unit_norms=True,
)
_GLM = replace(_LLAMA, model_types=("glm",), up_proj=("mlp.gate_up_proj",))
_MIXTRAL = replace(_LLAMA, model_types=("mixtral",), up_proj=(), down_proj=None, experts="mlp")
_T5 = Placement(
    model_types=("t5",),
    layers="encoder.block.*",
    attention="layer.0.dropout",
    feed_forward="layer.1.dropout",
    norms=("layer.0.layer_norm", "layer.1.layer_norm"),
    **_projections("layer.0.SelfAttention", "q", "k", "v", out="layer.0.SelfAttention.o"),
    up_proj=("layer.1.DenseReluDense.wi", "layer.1.DenseReluDense.wi_0", "layer.1.DenseReluDense.wi_1"),
    down_proj="layer.1.DenseReluDense.wo",
    pre_norm=True,
    has_start_token=False,
    final_norms=("encoder.final_layer_norm",),
    pooling="mean",
    model_class="T5EncoderModel",
)
_BART = Placement(
    model_types=("bart",),
    layers="encoder.layers.*",
    attention="self_attn.out_proj",
    feed_forward="fc2",
    norms=("self_attn_layer_norm", "final_layer_norm"),
    **_projections("self_attn", "q_proj", "k_proj", "v_proj", out="self_attn.out_proj"),
    up_proj=("fc1",),
    down_proj="fc2",
    position_embeddings="encoder.embed_positions",
    pooling="mean",
    model_class="BartEncoderModel",
)

PLACEMENTS: list[Placement] = [
    _BERT,
    replace(_BERT, model_types=("electra",), has_pooler=False),
    replace(_BERT, model_types=("rembert",), no_extra_attention=_OWN_ATTENTION),
    replace(
        _BERT,
        model_types=("longformer",),
        global_suffix="_global",
        time_first=True,
        has_global_attention=True,
        no_extra_attention=_OWN_ATTENTION,
    ),
    replace(_BERT, model_types=("big_bird",), is_block_sparse=True, no_extra_attention=_OWN_ATTENTION),
    replace(
        _BERT,
        model_types=("deberta-v2",),
        **_projections("attention.self", "query_proj", "key_proj", "value_proj"),
        relative_attention="attention.self",
        no_extra_attention=_OWN_ATTENTION,
        has_pooler=False,
    ),
    replace(
        _BERT,
        model_types=("deberta",),
        **_projections("attention.self", "in_proj"),
        fused_by_head=True,
        mixes_precisions=True,
        no_extra_attention=_OWN_ATTENTION,
        has_pooler=False,
    ),
    replace(
        _BERT,
        model_types=("mpnet",),
        attention="attention.dropout",
        norms=("attention.LayerNorm", "output.LayerNorm"),
        **_projections("attention.attn", "q", "k", "v", out="attention.attn.o"),
        no_extra_attention=_OWN_ATTENTION,
    ),
    replace(
        _BERT,
        model_types=("distilbert",),
        layers="transformer.layer.*",
        attention="attention.out_lin",
        feed_forward="ffn.dropout",
        norms=("sa_layer_norm", "output_layer_norm"),
        **_projections("attention", "q_lin", "k_lin", "v_lin", out="attention.out_lin"),
        up_proj=("ffn.lin1",),
        down_proj="ffn.lin2",
        has_pooler=False,
    ),
    replace(
        _BERT,
        model_types=("albert",),
        layers="encoder.albert_layer_groups.*.albert_layers.*",
        attention="attention.output_dropout",
        feed_forward="ffn_output",
        norms=("attention.LayerNorm", "full_layer_layer_norm"),
        **_projections("attention", "query", "key", "value", out="attention.dense"),
        up_proj=("ffn",),
        down_proj="ffn_output",
        shared_layers=True,
    ),
    replace(
        _BERT,
        model_types=("xlm-roberta-xl",),
        feed_forward="output.dense",
        norms=("attention.self_attn_layer_norm", "LayerNorm"),
        pre_norm=True,
        final_norms=("encoder.LayerNorm",),
    ),
    replace(
        _BERT,
        model_types=("roberta-prelayernorm",),
        norms=("attention.LayerNorm", "intermediate.LayerNorm"),
        pre_norm=True,
        final_norms=("LayerNorm",),
    ),
    _ROTARY,
    replace(_ROTARY, model_types=("jina_embeddings_v3",), up_proj=("mlp.fc1",), down_proj="mlp.fc2", has_pooler=True),
    _MODERN_BERT,
    replace(
        _MODERN_BERT,
        model_types=("modernbert-decoder",),
        **_projections("attn", "q_proj", "k_proj", "v_proj"),
        is_causal=True,
        pooling="last",
        is_generative=True,
    ),
    Placement(
        model_types=("gpt2",),
        layers="h.*",
        attention="attn.resid_dropout",
        feed_forward="mlp.dropout",
        norms=("ln_1", "ln_2"),
        **_projections("attn", "c_attn", out="attn.c_proj"),
        up_proj=("mlp.c_fc",),
        down_proj="mlp.c_proj",
        pre_norm=True,
        has_start_token=False,
        is_causal=True,
        position_embeddings="wpe",
        final_norms=("ln_f",),
        pooling="last",
        is_generative=True,
    ),
    _LLAMA,
    replace(_LLAMA, model_types=("qwen2", "qwen3", "smollm3", "granite"), has_start_token=False),
    replace(_LLAMA, model_types=("gemma",), unit_norms=True),
    _GEMMA_2,
    replace(
        _LLAMA,
        model_types=("phi3",),
        attention="resid_attn_dropout",
        feed_forward="resid_mlp_dropout",
        **_projections("self_attn", "qkv_proj"),
        up_proj=("mlp.gate_up_proj",),
    ),
    _GLM,
    replace(
        _GLM,
        model_types=("glm4",),
        attention="post_self_attn_layernorm",
        feed_forward="post_mlp_layernorm",
        inner_norms=("post_self_attn_layernorm", "post_mlp_layernorm"),
    ),
    _MIXTRAL,
    replace(_MIXTRAL, model_types=("qwen3_moe",), has_start_token=False),
    replace(
        _LLAMA,
        model_types=("olmo2", "olmo3"),
        attention="post_attention_layernorm",
        feed_forward="post_feedforward_layernorm",
        norms=("post_attention_layernorm", "post_feedforward_layernorm"),
        pre_norm=False,
        has_start_token=False,
    ),
    replace(
        _LLAMA,
        model_types=("gpt_neox",),
        attention="post_attention_dropout",
        feed_forward="post_mlp_dropout",
        **_projections("attention", "query_key_value", out="attention.dense"),
        fused_by_head=True,
        up_proj=("mlp.dense_h_to_4h",),
        down_proj="mlp.dense_4h_to_h",
        has_start_token=False,
        final_norms=("final_layer_norm",),
    ),
    replace(_LLAMA, model_types=("eurobert",), is_causal=False, pooling="mean", is_generative=False),
    _T5,
    replace(_T5, model_types=("mt5",), model_class="MT5EncoderModel"),
    replace(_T5, model_types=("umt5",), model_class="UMT5EncoderModel"),
    replace(
        _GEMMA_2,
        model_types=("t5gemma",),
        layers="encoder.layers.*",
        attention="post_self_attn_layernorm",
        norms=("pre_self_attn_layernorm", "pre_feedforward_layernorm"),
        inner_norms=("post_self_attn_layernorm", "post_feedforward_layernorm"),
        is_causal=False,
        final_norms=("encoder.norm",),
        pooling="mean",
        model_class="T5GemmaEncoderModel",
        is_generative=False,
    ),
    _BART,
    # The tokenizers of some models put the language in front of a text, and those of others behind it.
    replace(
        _BART,
        model_types=("mbart",),
        pre_norm=True,
        has_start_token=False,
        final_norms=("encoder.layer_norm",),
        model_class="MBartEncoderModel",
    ),
]
"""Every family; for an encoder-decoder, its encoder."""

# In an encoder-decoder only the decoder is conditioned, without its attention to the encoder.
DECODERS: list[Placement] = [
    replace(
        _T5,
        model_types=("t5", "mt5", "umt5"),
        layers="block.*",
        feed_forward="layer.2.dropout",
        norms=("layer.0.layer_norm", "layer.2.layer_norm"),
        is_causal=True,
        up_proj=("layer.2.DenseReluDense.wi", "layer.2.DenseReluDense.wi_0", "layer.2.DenseReluDense.wi_1"),
        down_proj="layer.2.DenseReluDense.wo",
        final_norms=("final_layer_norm",),
        model_class=None,
        is_generative=True,
    ),
]
"""The decoders of encoder-decoders."""


_ONE_NORM = "its layers have one norm for both sub-layers, and no norm between them"
_GEMMA_3N = "its layers mix several residual streams, and no sub-layer is added to one of them alone"
_GEMMA_4 = "its layers scale the residual stream, and some have no keys or values of their own: choose gemma3_text"
_REFUSED = {
    "cohere": _ONE_NORM,
    "cohere2": _ONE_NORM,
    "falcon": "its configurations lay out norms and projections in four ways; Falcon 3 and later are of type llama",
    "gemma3": "it reads images, too: give its text model, of type gemma3_text",
    "gemma3n": _GEMMA_3N,
    "gemma3n_text": _GEMMA_3N,
    "gemma4": _GEMMA_4,
    "gemma4_text": _GEMMA_4,
    "gpt_oss": "its feed-forward parts return the scores of experts beside the states, and its weights are in 4 bits",
    "ibert": "its layers compute in integers, with scales beside the states, which a method does not know",
    "lfm2": "most of its layers are convolutions and have no attention",
    "mistral3": "it reads images, too: give its text model, of type ministral3",
    "t5gemma2": "its encoder reads images, too: choose t5gemma",
    "xmod": "behind each feed-forward part it has adapters for a language, which must be named with each text",
    "xlnet": "it reads a text in two streams, with the tokens before the rows",
}
"""Families that are asked for and not in the table, and why."""


def placement_for(model_type: str) -> Placement:
    """Return the row of the table for a ``config.model_type``; of an encoder-decoder, that of its encoder.

    Decoders that the table lacks are recognised where their layers are those of Llama.

    Raises:
        ConfigError: for any other family; the message lists those of the table.
    """
    missing = f"no placement for backbones of type {model_type!r}"
    return _row_of(model_type, PLACEMENTS, missing=missing, choose="choose a backbone of one of")


def writing_placement_for(model_type: str) -> Placement:
    """Return the row of a family that writes text; of an encoder-decoder, that of its decoder. Errors are the same."""
    writing = [row for row in (*PLACEMENTS, *DECODERS) if row.is_generative]
    missing = f"backbones of type {model_type!r} write no text here"
    row = _row_of(model_type, writing, missing=missing, choose="choose one of")
    # The state of a start token chooses the first token that is written, so that vectors stand before it.
    return replace(row, has_start_token=False)


def _row_of(model_type: str, rows: Sequence[Placement], *, missing: str, choose: str) -> Placement:
    for row in rows:
        if model_type in row.model_types:
            return row
    if model_type in _REFUSED:
        raise ConfigError(f"no placement for backbones of type {model_type!r}: {_REFUSED[model_type]}")
    if (found := recognised(model_type, _LLAMA)) is not None:
        return found
    names = sorted(name for row in rows for name in row.model_types)
    raise ConfigError(missing + did_you_mean_or(model_type, names, f"{choose} {', '.join(names)}"))


PLACEMENTS += load_plugins("backbones", Placement).values()  # read after ours

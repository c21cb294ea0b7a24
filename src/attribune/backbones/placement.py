"""The facts about a backbone family, which say where a method can act."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Pooling = Literal["first", "mean", "last", "max"]
SiteKind = Literal[
    "attention",
    "feed_forward",
    "attention_norm",
    "feed_forward_norm",
    "q_proj",
    "k_proj",
    "v_proj",
    "o_proj",
    "up_proj",
    "down_proj",
    "word_pool",
    "word_proj",
    "recurrent",
]


@dataclass(frozen=True, kw_only=True)
class Placement:
    """The facts about one backbone family.

    Paths are module names, ``*`` standing for any number: `layers`, `position_embeddings` and `final_norms` inside the
    backbone, all others inside a layer. A backbone without Transformer layers has no paths inside its layers.

    Args:
        model_types: the ``config.model_type`` values that the row covers.
        attention: the module whose output is that of the attention sub-layer, after its dropout and before its
            residual addition.
        feed_forward: the same for the feed-forward sub-layer.
        norms: the two LayerNorms or RMSNorms on the residual stream, in the order in which they run; those inside the
            sub-layers in families that have no others.
        inner_norms: norms inside the sub-layers beside these, before the residual additions.
        unit_norms: whether norms multiply by ``1 + weight``.
        q_proj, k_proj, v_proj: the input projections of the attention; the same path three times if they are fused in
            one matrix, in this order, keys and values for fewer heads where the family shares them.
        fused_by_head: whether a fused matrix has this order inside each head, one head after another.
        o_proj: the output projection of the attention.
        up_proj: the maps from the hidden to the inner size of the feed-forward part, in every variant of the family.
        down_proj: the map from the inner to the hidden size.
        experts: the module with the feed-forward part of a family that chooses experts for each token, and has no
            `up_proj` and `down_proj` that all tokens go through.
        global_suffix: what the names of the projections end in that tokens read everywhere have beside their own.
        time_first: whether the input projections see (T, B, H).
        has_global_attention: whether a mask says which tokens attend to all others and are attended to by all.
        is_block_sparse: whether the attention may be block-sparse.
        relative_attention: a module that calls its projections a second time, on relative positions.
        mixes_precisions: whether the family's code fails under autocast, and therefore runs in the weights' precision.
        pre_norm: whether the norms come before the sub-layers and not after the residual additions.
        has_start_token: whether a text begins with a special token behind which vectors of attributes may stand.
        shared_layers: whether all layers, or groups of them, share one set of weights.
        is_causal: whether a state depends on its token and those before it alone.
        no_extra_attention: why no keys can be added to its attention; None if they can.
        reads_ahead: whether a state depends on its token and those after it alone.
        position_embeddings: the table of absolute positions, which limits the length of a text.
        final_norms: norms after the last layer.
        pooling: the pooling of document vectors, if the weights do not come with another.
        model_class: name of the class of the encoder alone, if ``AutoModel`` is more: of transformers, or of ours.
        states: what the last states are those of.
        word_pool: the module that pools the words of a sentence, inside a layer.
        word_proj: the linear map of the words, if the options have one.
        recurrent: the recurrent layer over the words.
        has_pooler: whether the class builds a pooler by default, which is not used.
        is_generative: whether the model writes text with a language-model head.
        is_pretrained: whether there are pretrained weights; without, ids say beside vectors which words are unknown.
        is_recognised: whether the family is in no table, and a test of each model says what its layers compute.
    """

    model_types: tuple[str, ...]
    layers: str
    attention: str | None = None
    feed_forward: str | None = None
    norms: tuple[str, str] | tuple[()] = ()
    q_proj: str | None = None
    k_proj: str | None = None
    v_proj: str | None = None
    fused_by_head: bool = False
    o_proj: str | None = None
    up_proj: tuple[str, ...] = ()
    down_proj: str | None = None
    experts: str | None = None
    inner_norms: tuple[str, ...] = ()
    unit_norms: bool = False
    global_suffix: str | None = None
    time_first: bool = False
    has_global_attention: bool = False
    is_block_sparse: bool = False
    relative_attention: str | None = None
    mixes_precisions: bool = False
    pre_norm: bool = False
    has_start_token: bool = True
    shared_layers: bool = False
    is_causal: bool = False
    no_extra_attention: str | None = None
    reads_ahead: bool = False
    position_embeddings: str | None = None
    final_norms: tuple[str, ...] = ()
    pooling: Pooling = "first"
    model_class: str | None = None
    states: Literal["token", "sentence", "text"] = "token"
    word_pool: str | None = None
    word_proj: str | None = None
    recurrent: str | None = None
    has_pooler: bool = False
    is_generative: bool = False
    is_pretrained: bool = True
    is_recognised: bool = False

    @property
    def family(self) -> str:
        """The backbones of the row, as messages call them."""
        return f"backbones of type {' or '.join(self.model_types)}"

    @property
    def has_sites(self) -> bool:
        """Whether the layers are Transformer layers, in which methods can act."""
        return self.attention is not None

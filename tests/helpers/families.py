"""One tiny backbone of every family: hidden size 48, distinct inner sizes, random weights in every parameter."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import shape_checks  # noqa: F401  (before the package is imported, whose functions it checks)
import torch
from transformers import AutoConfig, PreTrainedConfig, PreTrainedModel

from attribune.backbones.architecture import ENCODER, LANGUAGE_MODEL
from attribune.backbones.families import placement_for
from attribune.backbones.loading import build_backbone
from attribune.backbones.untrained import UNTRAINED
from attribune.methods import METHODS
from attribune.models.model import AttributeModel

HIDDEN = 48  # divisible by 16, so that O = 4 fits
VOCABULARY = 101
_INNER = 59
_POSITIONS = 67

_BERT: dict[str, Any] = {
    "hidden_size": HIDDEN,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": _INNER,
    "max_position_embeddings": _POSITIONS,
}
_ROBERTA = {**_BERT, "pad_token_id": 1, "bos_token_id": 0, "eos_token_id": 2}
_FROM_ZERO = {"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}
_QWEN2 = {**_BERT, **_FROM_ZERO, "num_key_value_heads": 2}
_LLAMA = {**_QWEN2, "head_dim": 12}
_MODERNBERT = {
    **_BERT,
    **_FROM_ZERO,
    "global_attn_every_n_layers": 2,
    "local_attention": 8,
    "cls_token_id": 1,
    "sep_token_id": 2,
}
_DEBERTA = {
    **_BERT,
    "relative_attention": True,
    "position_biased_input": False,
    "type_vocab_size": 0,
    "pad_token_id": 0,
}
_BART: dict[str, Any] = {
    "d_model": HIDDEN,
    "encoder_layers": 2,
    "encoder_attention_heads": 4,
    "encoder_ffn_dim": _INNER,
    "decoder_layers": 1,
    "decoder_attention_heads": 4,
    "max_position_embeddings": _POSITIONS,
    "pad_token_id": 1,
    "bos_token_id": 0,
    "eos_token_id": 2,
    "decoder_start_token_id": 2,
    "forced_eos_token_id": None,
}
_T5: dict[str, Any] = {
    "d_model": HIDDEN,
    "num_layers": 2,
    "num_heads": 4,
    "d_kv": 12,
    "d_ff": _INNER,
    "relative_attention_num_buckets": 13,
    "pad_token_id": 0,
    "eos_token_id": 1,
    "decoder_start_token_id": 0,
}

_SETTINGS: dict[str, dict[str, Any]] = {
    "bert": {**_BERT, "pad_token_id": 0},
    "roberta": _ROBERTA,
    "xlm-roberta": _ROBERTA,
    "camembert": _ROBERTA,
    "ernie": {**_BERT, "pad_token_id": 0, "use_task_id": True},
    "rembert": {**_BERT, **_FROM_ZERO, "input_embedding_size": 31, "output_embedding_size": 37},
    "roberta-prelayernorm": _ROBERTA,
    "distilbert": {
        "dim": HIDDEN,
        "n_layers": 2,
        "n_heads": 4,
        "hidden_dim": _INNER,
        "max_position_embeddings": _POSITIONS,
        "pad_token_id": 0,
    },
    "electra": {**_BERT, "embedding_size": 31, "pad_token_id": 0},
    "longformer": {**_ROBERTA, "attention_window": [4, 4]},
    "big_bird": {
        **_BERT,
        **_FROM_ZERO,
        "attention_type": "block_sparse",
        "block_size": 2,
        "num_random_blocks": 1,
        "sep_token_id": 3,
    },
    "deberta": {**_DEBERTA, "max_relative_positions": 13, "pos_att_type": ["c2p", "p2c"]},
    "mpnet": _ROBERTA,
    "albert": {
        **_BERT,
        "num_hidden_layers": 3,
        "embedding_size": 31,
        **_FROM_ZERO,
        "bos_token_id": 2,
        "eos_token_id": 3,
    },
    "deberta-v2": {
        **_DEBERTA,
        "position_buckets": 13,
        "max_relative_positions": -1,
        "pos_att_type": ["p2c", "c2p"],
        "share_att_key": True,
        "norm_rel_ebd": "layer_norm",
    },
    "modernbert": _MODERNBERT,
    "xlm-roberta-xl": _ROBERTA,
    "nomic_bert": {**_BERT, "pad_token_id": 0},
    "jina_embeddings_v3": _ROBERTA,
    "modernbert-decoder": _MODERNBERT,
    "gpt2": {
        "n_embd": HIDDEN,
        "n_layer": 2,
        "n_head": 4,
        "n_inner": _INNER,
        "n_positions": _POSITIONS,
        **_FROM_ZERO,
    },
    "llama": _LLAMA,
    "mistral": _LLAMA,
    "ministral": _LLAMA,
    "ministral3": _LLAMA,
    "qwen2": _QWEN2,
    "qwen3": _LLAMA,
    "eurobert": _LLAMA,
    "smollm3": _QWEN2,
    "granite": _QWEN2,
    "gemma": _LLAMA,
    "gemma2": _LLAMA,
    "gemma3_text": _LLAMA,
    "phi3": _QWEN2,
    "glm": _LLAMA,
    "glm4": _LLAMA,
    # Sizes of experts whose rows begin at multiples of 16 bytes, which their products need.
    "mixtral": {**_LLAMA, "intermediate_size": 56, "num_local_experts": 3, "num_experts_per_tok": 2},
    # Its first layer has no experts.
    "qwen3_moe": {
        **_LLAMA,
        "mlp_only_layers": [0],
        "num_experts": 3,
        "num_experts_per_tok": 2,
        "moe_intermediate_size": 40,
        "norm_topk_prob": True,
    },
    "olmo2": _QWEN2,
    "olmo3": _QWEN2,
    "gpt_neox": {**_BERT, "bos_token_id": 1, "eos_token_id": 2},
    "bart": _BART,
    "mbart": _BART,
    "t5gemma": {"encoder": {**_LLAMA, "vocab_size": VOCABULARY}, "decoder": {**_LLAMA, "vocab_size": VOCABULARY}},
    "t5": _T5,
    "mt5": _T5,
    "umt5": _T5,
}

BERT_METHODS = tuple(name for name, method in METHODS.items() if method().refusal(placement_for("bert")) is None)
"""The methods that can act in BERT."""
FAMILIES: tuple[str, ...] = tuple(_SETTINGS)
"""Those with Transformer layers."""
KIN = (
    *("xlm-roberta", "electra", "mistral", "qwen2", "qwen3", "smollm3", "granite", "gemma", "gemma3_text"),
    *("jina_embeddings_v3", "modernbert-decoder", "olmo2", "olmo3", "bart", "mbart", "t5gemma", "mt5", "umt5"),
    *("camembert", "ernie", "rembert", "roberta-prelayernorm", "ministral", "ministral3", "glm", "glm4", "mixtral"),
)
"""Those whose rows of the placement table differ from another's in names alone."""
_WORD_FAMILIES = ("word-cnn", "word-tang-cnn", "word-bilstm", "word-bilstm-cnn", "word-hierarchical")
WORD_FAMILIES = tuple(name for name in _WORD_FAMILIES if name.removeprefix("word-") in UNTRAINED)
"""Those without pretraining, and without Transformer layers."""
EACH_KIND = ("bert", "gpt2", "modernbert", "t5", *(name for name in WORD_FAMILIES if name == "word-bilstm"))
"""One family of each kind, for what holds of all families in the same way."""
_SETTINGS |= {
    "starcoder2": _QWEN2,  # in no table, and recognised
    "word-cnn": {"options": {"embedding_size": 31, "widths": [1, 2, 3], "filters": 16}},
    "word-tang-cnn": {"options": {"embedding_size": 31, "filters": HIDDEN}},
    "word-bilstm": {"options": {"embedding_size": 31, "hidden_size": HIDDEN}},
    "word-bilstm-cnn": {"options": {"embedding_size": 31, "hidden_size": 12, "widths": [3, 4], "filters": 18}},
    "word-hierarchical": {
        "options": {"embedding_size": 31, "hidden_size": HIDDEN, "sentence_length": 3},
        "sentence_end_id": 6,
    },
}


def tiny_config(model_type: str, *, options: Mapping[str, Any] = MappingProxyType({})) -> PreTrainedConfig:
    """Configuration of a tiny backbone: hidden size 48, 2 layers (ALBERT 3, shared), 4 heads, vocabulary 101."""
    settings = dict(_SETTINGS[model_type])
    if options:
        settings["options"] = {**settings["options"], **options}
    return AutoConfig.for_model(model_type, vocab_size=VOCABULARY, **settings)


def tiny_backbone(
    model_type: str, *, seed: int = 0, is_generative: bool = False, options: Mapping[str, Any] = MappingProxyType({})
) -> PreTrainedModel:
    """A tiny backbone in evaluation mode, the same at every call, without touching the global random state.

    With `is_generative` it has its language-model head; `options` are those of a backbone without pretraining.

    Noise is added to every parameter, so that no bias is zero and no gain is one.
    """
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        backbone = build_backbone(
            tiny_config(model_type, options=options), architecture=LANGUAGE_MODEL if is_generative else ENCODER
        )
        with torch.no_grad():
            for parameter in backbone.parameters():
                parameter.add_(0.05 * torch.randn_like(parameter))
    return backbone.eval()


def assert_learns(model: AttributeModel, given: Mapping[str, Any]) -> None:
    """Train on one batch: the loss falls, and is a number in bf16; the model is left in evaluation mode."""
    optimizer, losses = torch.optim.Adam([p for p in model.parameters() if p.requires_grad], lr=0.01), []
    model.train()
    for _ in range(8):
        optimizer.zero_grad()
        loss = model(**given).loss
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert min(losses[4:]) < losses[0], losses  # a step of this size may miss a loss of almost zero
    model.eval()
    with torch.autocast("cpu", dtype=torch.bfloat16), torch.no_grad():
        assert torch.isfinite(model(**given).loss)

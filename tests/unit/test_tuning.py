"""What of each family learns under each tuning, name by name."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from families import FAMILIES
from torch import nn
from transformers import PreTrainedModel

from attribune.errors import ConfigError
from attribune.placement import placement_for
from attribune.tuning import TUNINGS, tune_backbone

Factory = Callable[..., PreTrainedModel]


def learning(backbone: nn.Module) -> set[str]:
    return {name for name, parameter in backbone.named_parameters() if parameter.requires_grad}


@pytest.mark.parametrize("model_type", FAMILIES)
def test_frozen_and_full(model_type: str, tiny_backbone: Factory) -> None:
    backbone, placement = tiny_backbone(model_type), placement_for(model_type)
    everything = {name for name, _ in backbone.named_parameters()}
    tune_backbone(backbone, placement, "frozen")
    assert learning(backbone) == set()
    tune_backbone(backbone, placement, "full")
    assert learning(backbone) == everything


def of_layers(layers: int, *suffixes: str, prefix: str, after: tuple[str, ...] = ()) -> set[str]:
    return {f"{prefix}{layer}.{suffix}" for layer in range(layers) for suffix in suffixes} | set(after)


_BERT_NORMS = of_layers(
    2,
    "attention.output.LayerNorm.weight",
    "attention.output.LayerNorm.bias",
    "output.LayerNorm.weight",
    "output.LayerNorm.bias",
    prefix="encoder.layer.",
)
_LLAMA_NORMS = of_layers(
    2, "input_layernorm.weight", "post_attention_layernorm.weight", prefix="layers.", after=("norm.weight",)
)
LAYERNORM = {
    **dict.fromkeys(("bert", "roberta", "xlm-roberta", "electra", "deberta-v2"), _BERT_NORMS),
    **dict.fromkeys(("llama", "mistral", "qwen2", "qwen3"), _LLAMA_NORMS),
    "mpnet": of_layers(
        2,
        "attention.LayerNorm.weight",
        "attention.LayerNorm.bias",
        "output.LayerNorm.weight",
        "output.LayerNorm.bias",
        prefix="encoder.layer.",
    ),
    "distilbert": of_layers(
        2,
        "sa_layer_norm.weight",
        "sa_layer_norm.bias",
        "output_layer_norm.weight",
        "output_layer_norm.bias",
        prefix="transformer.layer.",
    ),
    "albert": of_layers(
        1,
        "attention.LayerNorm.weight",
        "attention.LayerNorm.bias",
        "full_layer_layer_norm.weight",
        "full_layer_layer_norm.bias",
        prefix="encoder.albert_layer_groups.0.albert_layers.",
    ),
    "modernbert": {"layers.0.mlp_norm.weight", "layers.1.attn_norm.weight", "layers.1.mlp_norm.weight"}
    | {"final_norm.weight"},
    "gpt2": of_layers(
        2, "ln_1.weight", "ln_1.bias", "ln_2.weight", "ln_2.bias", prefix="h.", after=("ln_f.weight", "ln_f.bias")
    ),
    "t5": of_layers(
        2,
        "layer.0.layer_norm.weight",
        "layer.1.layer_norm.weight",
        prefix="encoder.block.",
        after=("encoder.final_layer_norm.weight",),
    ),
}


@pytest.mark.parametrize("model_type", FAMILIES)
def test_layernorm_tuning(model_type: str, tiny_backbone: Factory) -> None:
    """Exactly the norms of the layers and after them: not those of the embeddings, of queries or of keys."""
    backbone, placement = tiny_backbone(model_type), placement_for(model_type)
    tune_backbone(backbone, placement, "layernorm")
    assert learning(backbone) == LAYERNORM[model_type]


def test_tuning_can_be_changed(tiny_backbone: Factory) -> None:
    backbone, placement = tiny_backbone("bert"), placement_for("bert")
    for tuning, expected in (("full", None), ("layernorm", _BERT_NORMS), ("frozen", set()), ("layernorm", _BERT_NORMS)):
        tune_backbone(backbone, placement, tuning)
        assert expected is None or learning(backbone) == expected


def test_unknown_tuning(tiny_backbone: Factory) -> None:
    backbone = tiny_backbone("bert")
    with pytest.raises(ConfigError) as error:
        tune_backbone(backbone, placement_for("bert"), "norms")
    assert "unknown tuning 'norms'" in str(error.value)
    assert all(tuning in str(error.value) for tuning in TUNINGS)

"""What of each family learns under each tuning, name by name."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
import torch
from families import FAMILIES
from tiny_models import make_batch, make_model
from torch import nn
from transformers import PreTrainedModel

from attribune.backbones.families import placement_for
from attribune.backbones.sites import find_layers
from attribune.backbones.tuning import TUNINGS, Tuning, tune_backbone
from attribune.errors import ConfigError
from attribune.methods import method_from_dict

Factory = Callable[..., PreTrainedModel]


def learning(backbone: nn.Module) -> set[str]:
    return {name for name, parameter in backbone.named_parameters() if parameter.requires_grad}


@pytest.mark.slow
@pytest.mark.parametrize("model_type", FAMILIES)
def test_frozen_and_full(model_type: str, tiny_backbone: Factory) -> None:
    backbone, placement = tiny_backbone(model_type), placement_for(model_type)
    everything = {name for name, _ in backbone.named_parameters()}
    tune_backbone(backbone, placement, "frozen")
    assert learning(backbone) == set()
    tune_backbone(backbone, placement, "full")
    assert learning(backbone) == everything


def norms(layers: str, *names: str, after: str = "", biases: bool = True) -> set[str]:
    """The gains, and perhaps biases, of norms in both layers and after the last."""
    paths = {layers.format(layer) + f".{name}" for layer in range(2) for name in names} | ({after} if after else set())
    return {f"{path}.{kind}" for path in paths for kind in ("weight", *(["bias"] if biases else []))}


_BERT_NORMS = norms("encoder.layer.{}", "attention.output.LayerNorm", "output.LayerNorm")
_LLAMA_NORMS = norms("layers.{}", "input_layernorm", "post_attention_layernorm", after="norm", biases=False)
_MORE_NORMS = norms("layers.{}", "pre_feedforward_layernorm", "post_feedforward_layernorm", biases=False)
_MODERN_BERT_NORMS = norms("layers.{}", "attn_norm", "mlp_norm", after="final_norm", biases=False)
_GEMMA_NAMES = [f"{place}_{part}_layernorm" for place in ("pre", "post") for part in ("self_attn", "feedforward")]
_GLM_NAMES = ("post_self_attn_layernorm", "post_mlp_layernorm")
_OLMO_NAMES = ("post_attention_layernorm", "post_feedforward_layernorm")
_XL_NAMES = ("attention.self_attn_layer_norm", "LayerNorm")
_ALBERT_LAYER = "encoder.albert_layer_groups.0.albert_layers.0"
_OF_FAMILIES: list[tuple[tuple[str, ...], set[str]]] = [
    (
        (
            *("bert", "roberta", "xlm-roberta", "camembert", "ernie", "rembert", "electra", "deberta", "deberta-v2"),
            *("longformer", "big_bird"),
        ),
        _BERT_NORMS,
    ),
    (
        ("olmo2", "olmo3"),
        norms("layers.{}", *_OLMO_NAMES, after="norm", biases=False),
    ),
    (("gpt_neox",), norms("layers.{}", "input_layernorm", "post_attention_layernorm", after="final_layer_norm")),
    (("bart",), norms("encoder.layers.{}", "self_attn_layer_norm", "final_layer_norm")),
    (("t5gemma",), norms("encoder.layers.{}", *_GEMMA_NAMES, after="encoder.norm", biases=False)),
    (
        (
            *("llama", "mistral", "ministral", "ministral3", "qwen2", "qwen3", "eurobert", "smollm3", "granite"),
            *("gemma", "phi3", "glm", "mixtral", "qwen3_moe"),
        ),
        _LLAMA_NORMS,
    ),
    (("glm4",), _LLAMA_NORMS | norms("layers.{}", *_GLM_NAMES, biases=False)),
    (
        ("roberta-prelayernorm",),
        norms("encoder.layer.{}", "attention.LayerNorm", "intermediate.LayerNorm", after="LayerNorm"),
    ),
    (
        ("mbart",),
        norms("encoder.layers.{}", "self_attn_layer_norm", "final_layer_norm", after="encoder.layer_norm"),
    ),
    (("gemma2", "gemma3_text"), _LLAMA_NORMS | _MORE_NORMS),
    (("nomic_bert", "jina_embeddings_v3"), norms("layers.{}", "post_attention_layernorm", "post_mlp_layernorm")),
    (
        ("xlm-roberta-xl",),
        norms("encoder.layer.{}", *_XL_NAMES, after="encoder.LayerNorm"),
    ),
    (("mpnet",), norms("encoder.layer.{}", "attention.LayerNorm", "output.LayerNorm")),
    (("distilbert",), norms("transformer.layer.{}", "sa_layer_norm", "output_layer_norm")),
    (("albert",), norms(_ALBERT_LAYER, "attention.LayerNorm", "full_layer_layer_norm")),
    (("modernbert", "modernbert-decoder"), _MODERN_BERT_NORMS - {"layers.0.attn_norm.weight"}),
    (("gpt2",), norms("h.{}", "ln_1", "ln_2", after="ln_f")),
    (
        ("t5", "mt5", "umt5"),
        norms(
            "encoder.block.{}",
            "layer.0.layer_norm",
            "layer.1.layer_norm",
            after="encoder.final_layer_norm",
            biases=False,
        ),
    ),
]
LAYERNORM = {family: expected for families, expected in _OF_FAMILIES for family in families}


@pytest.mark.slow
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


def of(backbone: nn.Module, *parts: str) -> set[str]:
    return {name for name, _ in backbone.named_parameters() if any(part in name for part in parts)}


@pytest.mark.parametrize(
    ("tuning", "parts"),
    [
        ("attention", ("self.query", "self.key", "self.value", "attention.output.dense")),
        ("feed_forward", ("intermediate.dense", "layer.0.output.dense", "layer.1.output.dense")),
        ("top_1", ("encoder.layer.1.",)),
        ("top_2", ("encoder.layer.",)),
        ("layernorm+attention", ("self.", "attention.output.dense")),
    ],
)
def test_parts_of_bert(tuning: str, parts: tuple[str, ...], tiny_backbone: Factory) -> None:
    backbone = tiny_backbone("bert")
    tune_backbone(backbone, placement_for("bert"), tuning)
    expected = of(backbone, *parts)
    if "layernorm" in tuning:
        expected = of(backbone, "self.", "attention.output.dense") | _BERT_NORMS
    assert learning(backbone) == expected


@pytest.mark.slow
@pytest.mark.parametrize("model_type", FAMILIES)
def test_parts_of_every_family(model_type: str, tiny_backbone: Factory) -> None:
    """The parts do not overlap, and together with the norms they are the layers but for what belongs to positions."""
    backbone, placement, found = tiny_backbone(model_type), placement_for(model_type), {}
    for part in ("layernorm", "attention", "feed_forward"):
        tune_backbone(backbone, placement, part)
        found[part] = learning(backbone)
        assert found[part]
    assert not found["layernorm"] & found["attention"]
    assert not found["attention"] & found["feed_forward"]
    tune_backbone(backbone, placement, "+".join(found))
    assert learning(backbone) == set().union(*found.values())
    layers = tuple(f"{layer}." for layer in find_layers(backbone, placement))
    rest = {name for name, _ in backbone.named_parameters() if name.startswith(layers)} - learning(backbone)
    others = ("q_norm", "k_norm", "relative_attention_bias", "pos_proj", "pos_q_proj")
    assert all(any(other in name for other in others) for name in rest), rest


def test_experts_learn_with_what_chooses_them(tiny_backbone: Factory) -> None:
    """The first layer of this Qwen has no experts."""
    backbone = tiny_backbone("qwen3_moe")
    tune_backbone(backbone, placement_for("qwen3_moe"), "feed_forward")
    assert learning(backbone) == of(backbone, ".mlp.")
    assert {name for name in learning(backbone) if name.startswith("layers.1")} == {
        f"layers.1.mlp.{name}" for name in ("experts.gate_up_proj", "experts.down_proj", "gate.weight")
    }


@pytest.mark.slow
@pytest.mark.parametrize("model_type", FAMILIES)
def test_biases(model_type: str, tiny_backbone: Factory) -> None:
    backbone, placement = tiny_backbone(model_type), placement_for(model_type)
    biases = {name for name, _ in backbone.named_parameters() if name.endswith("bias")}
    assert any("q_bias" in name for name in biases) == (model_type == "deberta")
    if not biases:
        with pytest.raises(ConfigError, match="has no biases: choose another tuning"):
            tune_backbone(backbone, placement, "bias")
        return
    tune_backbone(backbone, placement, "bias")
    assert learning(backbone) == biases


@pytest.mark.slow
@pytest.mark.parametrize("model_type", FAMILIES)
def test_lora_starts_as_the_backbone_and_leaves_it_frozen(model_type: str, tiny_backbone: Factory) -> None:
    backbone, placement = tiny_backbone(model_type), placement_for(model_type)
    ids = torch.randint(5, 101, (2, 7))
    plain = backbone(input_ids=ids).last_hidden_state
    before = {name for name, _ in backbone.named_parameters()}
    tune_backbone(backbone, placement, "lora:q,k,v,o:3")
    torch.testing.assert_close(backbone(input_ids=ids).last_hidden_state, plain, rtol=0, atol=1e-5)
    added = {name for name in learning(backbone) if ".lora_" in name}
    assert learning(backbone) == added
    assert len({name.replace(".base_layer", "") for name, _ in backbone.named_parameters()} - before) == len(added)
    ranks = {min(p.shape) for name, p in backbone.named_parameters() if name in added}
    assert ranks == {3}


def test_lora_targets(tiny_backbone: Factory) -> None:
    backbone = tiny_backbone("bert")
    tune_backbone(backbone, placement_for("bert"), "lora+layernorm")
    names = {name for name in learning(backbone) if ".lora_" in name}
    assert {name.split(".lora_")[0].rpartition(".")[2] for name in names} == {"query", "value"}
    assert learning(backbone) - names == _BERT_NORMS
    with pytest.raises(ConfigError, match="makes queries, keys and values with one matrix; name all of q,k,v"):
        tune_backbone(tiny_backbone("gpt2"), placement_for("gpt2"), "lora:q,v")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("frozen+layernorm", "'frozen' cannot be combined"),
        ("attention+full", "'full' cannot be combined"),
        ("layernorm+bias+layernorm", "names layernorm twice"),
        ("top_1+top_2", "names top_N twice"),
        ("lora+lora:q", "names lora twice"),
        ("lora:x", "tuning 'lora:x' cannot be read: write lora, lora:q,v or lora:q,v:16"),
        ("lora:q:0", "cannot be read"),
        ("top_0", "unknown tuning 'top_0'"),
        ("atention", "did you mean 'attention'"),
        ("", "unknown tuning ''"),
        (None, "the tuning is None: give one of frozen"),
        ("norms", f"unknown tuning 'norms'.*{re.escape(', '.join(TUNINGS))}"),
    ],
)
def test_what_cannot_be_read(text: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        Tuning.parse(text)


def test_more_layers_than_there_are(tiny_backbone: Factory) -> None:
    with pytest.raises(ConfigError, match="tuning top_3: the backbone has 2 layers"):
        tune_backbone(tiny_backbone("bert"), placement_for("bert"), "top_3")


@pytest.mark.slow
@pytest.mark.parametrize(("method", "first"), [("injector", 1), ("chim", None), ("upa", None)])
def test_what_is_frozen_below_the_first_site_runs_without_autograd(method: str, first: int | None) -> None:
    """Nothing is kept for a backward pass that never comes there: up to the first site, or the whole backbone."""
    model = make_model("bert", method_from_dict({"name": method}), tuning="frozen").train()
    names = ["embeddings", "encoder.layer.0.attention.self", "encoder.layer.0.output", "encoder.layer.1.output"]
    seen: list[bool] = []
    for name in names:
        model.backbone.get_submodule(name).register_forward_hook(
            lambda _module, _inputs, output: seen.append(
                (output[0] if isinstance(output, tuple) else output).requires_grad
            )
        )
    model(**make_batch(2)).logits.sum().backward()
    reached = len(names) if first is None else first + 1
    assert seen == [False] * reached + [True] * (len(names) - reached)

"""The placement table against the tiny backbones: sites exist, fire, and stand right before the residual addition."""

from __future__ import annotations

import inspect
import re
from collections import defaultdict
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from families import FAMILIES, WORD_FAMILIES, tiny_backbone, tiny_config
from torch import Tensor, nn
from transformers import AutoConfig, AutoModelForSeq2SeqLM, BertConfig, PreTrainedModel, ViTConfig

from attribune.backbones.families import PLACEMENTS, placement_for
from attribune.backbones.loading import build_backbone, load_backbone
from attribune.backbones.placement import Placement
from attribune.backbones.sites import Site, find_norms, find_sites, most_positions
from attribune.errors import ConfigError
from attribune.methods import Adapter, Combined, E2ln, Host, Maa, MethodConfig, Pln, Upa

POST_NORM = (
    *("bert", "roberta", "xlm-roberta", "distilbert", "electra", "mpnet", "albert", "deberta-v2", "longformer"),
    *("big_bird", "deberta", "nomic_bert", "jina_embeddings_v3", "bart", "camembert", "ernie", "rembert"),
)
EXPERTS = ("mixtral", "qwen3_moe")
PRE_NORM = (
    *("modernbert", "modernbert-decoder", "gpt2", "xlm-roberta-xl", "roberta-prelayernorm", "mbart", "t5", "mt5"),
    *("umt5", "llama", "mistral", "ministral", "ministral3", "qwen2", "qwen3", "eurobert", "smollm3", "granite"),
    *("gemma", "phi3", "glm", *EXPERTS),
    *("gemma2", "gemma3_text", "t5gemma", "glm4"),  # with norms after the sub-layers, too
)
INNER_NORM = ("olmo2", "olmo3")  # with no norm on the residual stream inside the layers
PARALLEL = ("gpt_neox",)  # both sub-layers read the same residual stream
RUNS = {"albert": 3}  # times that a site fires in one forward pass


class Watch:
    """Records, call by call, the first input and the output of modules."""

    def __init__(self) -> None:
        self.inputs: dict[str, list[Tensor]] = defaultdict(list)
        self.outputs: dict[str, list[Tensor]] = defaultdict(list)
        self.order: list[str] = []

    def on(self, backbone: nn.Module, path: str) -> None:
        module = backbone.get_submodule(path)
        first = next(iter(inspect.signature(module.forward).parameters))
        module.register_forward_hook(partial(self._seen, path, first), with_kwargs=True)

    def _seen(self, path: str, first: str, _module: nn.Module, args: tuple[Any, ...], kwargs: Any, output: Any) -> None:
        self.inputs[path].append(args[0] if args else kwargs[first])
        self.outputs[path].append(output[0] if isinstance(output, tuple) else output)
        self.order.append(path)


def batch() -> dict[str, Tensor]:
    input_ids = torch.randint(5, 101, (3, 11))
    attention_mask = torch.ones_like(input_ids)
    attention_mask[1, 7:] = 0
    return {"input_ids": input_ids, "attention_mask": attention_mask}


def layer_of(site: Site, placement: Placement) -> str:
    inside = placement.attention if site.kind == "attention" else placement.feed_forward
    return site.path.removesuffix(f".{inside}")


def test_every_family_of_the_table_is_tested() -> None:
    table = [model_type for row in PLACEMENTS for model_type in row.model_types]
    assert sorted(table) == sorted((*FAMILIES, *WORD_FAMILIES))
    assert sorted(FAMILIES) == sorted(POST_NORM + PRE_NORM + INNER_NORM + PARALLEL)
    assert all(placement_for(name).has_sites for name in FAMILIES)
    assert not any(placement_for(name).has_sites for name in WORD_FAMILIES)
    assert [name for name in table if not placement_for(name).is_pretrained] == sorted(WORD_FAMILIES)


@pytest.mark.slow
@pytest.mark.parametrize("model_type", FAMILIES)
def test_sites_are_two_per_layer_and_fire_in_order(
    model_type: str, tiny_backbone: Callable[..., PreTrainedModel]
) -> None:
    backbone, placement = tiny_backbone(model_type), placement_for(model_type)
    sites = find_sites(backbone, placement)
    layers = 1 if model_type == "albert" else 2
    assert [(s.layer, s.kind) for s in sites] == [
        (layer, kind) for layer in range(layers) for kind in ("attention", "feed_forward")
    ]
    watch = Watch()
    for site in sites:
        watch.on(backbone, site.path)
    inputs = batch()
    backbone(**inputs)
    assert watch.order == [site.path for site in sites] * RUNS.get(model_type, 1)
    length = 12 if model_type == "longformer" else 11  # a multiple of its window
    for site in sites:
        assert all(output.shape == (3, length, 48) for output in watch.outputs[site.path])


def with_adapters(backbone: PreTrainedModel) -> None:
    """Sites that change what passes, so that a site whose output is not used is seen."""
    method = Adapter(bottleneck=5, initial_scale=0.5).build(Host.of(backbone, slots=(), outputs=2))
    method.install(backbone)
    method.holder._current = method.condition(None, 3)


@pytest.mark.slow
@pytest.mark.parametrize(
    "adapters", [pytest.param(False, id="plain", marks=pytest.mark.exhaustive), pytest.param(True, id="adapters")]
)
@pytest.mark.parametrize("model_type", FAMILIES)
def test_residual_addition_follows_the_site(
    model_type: str, adapters: bool, tiny_backbone: Callable[..., PreTrainedModel]
) -> None:
    """Exactly: what follows reads the residual stream plus the site's output, after the method has changed it."""
    backbone, placement = tiny_backbone(model_type), placement_for(model_type)
    sites, watch = find_sites(backbone, placement), Watch()
    if adapters:
        with_adapters(backbone)
    layers = [layer_of(site, placement) for site in sites[::2]]
    for path in [*layers, *(site.path for site in sites)]:
        watch.on(backbone, path)
    for layer in layers:
        for norm in placement.norms:
            watch.on(backbone, f"{layer}.{norm}")
    backbone(**batch())
    for layer in layers:
        attention, feed_forward = (f"{layer}.{inside}" for inside in (placement.attention, placement.feed_forward))
        first, second = (f"{layer}.{norm}" for norm in placement.norms)
        for run in range(RUNS.get(model_type, 1)):
            residual = watch.inputs[layer][run]
            after_attention = residual + watch.outputs[attention][run]
            if model_type in POST_NORM:
                assert torch.equal(watch.inputs[first][run], after_attention)
                after_both = watch.outputs[first][run] + watch.outputs[feed_forward][run]
                assert torch.equal(watch.inputs[second][run], after_both)
            elif model_type in PARALLEL:
                assert torch.equal(watch.inputs[first][run], residual)
                assert torch.equal(watch.inputs[second][run], residual)
                both = watch.outputs[feed_forward][run] + watch.outputs[attention][run]
                assert torch.equal(watch.outputs[layer][run], both + residual)
            else:
                if model_type not in INNER_NORM:
                    assert torch.equal(watch.inputs[first][run], residual)
                    assert torch.equal(watch.inputs[second][run], after_attention)
                assert torch.equal(watch.outputs[layer][run], after_attention + watch.outputs[feed_forward][run])


@pytest.mark.parametrize("model_type", ["bert", "gpt2"])
def test_layers_are_counted_as_numbers(model_type: str) -> None:
    """Layer 10 comes after layer 9, not after layer 1."""
    names = {"bert": "num_hidden_layers", "gpt2": "n_layer"}
    with torch.device("meta"):
        backbone = build_backbone(AutoConfig.for_model(model_type, **{names[model_type]: 12}))
    placement = placement_for(model_type)
    sites = find_sites(backbone, placement)
    assert [layer_of(s, placement) for s in sites[::2]] == [placement.layers.replace("*", str(i)) for i in range(12)]
    assert [s.layer for s in sites] == [i // 2 for i in range(24)]


@pytest.mark.parametrize("model_type", ["vit", "", "BERT", "mamba"])
def test_an_unknown_family_lists_the_known(model_type: str) -> None:
    with pytest.raises(ConfigError, match=f"no placement for backbones of type '{model_type}'") as error:
        placement_for(model_type)
    assert all(known in str(error.value) for known in FAMILIES)


@pytest.mark.parametrize(
    ("model_type", "reason"),
    [
        ("cohere", "one norm"),
        ("cohere2", "one norm"),
        ("falcon", "Falcon 3 .* type llama"),
        ("gemma3", "gemma3_text"),
        ("gemma3n", "several residual streams"),
        ("gemma3n_text", "several residual streams"),
        ("gemma4", "scale the residual stream"),
        ("gemma4_text", "scale the residual stream"),
        ("gpt_oss", "scores of experts"),
        ("ibert", "integers"),
        ("lfm2", "convolutions"),
        ("mistral3", "ministral3"),
        ("t5gemma2", "t5gemma"),
        ("xlnet", "streams"),
        ("xmod", "language"),
    ],
)
def test_a_family_that_is_asked_for_is_refused_with_the_reason(model_type: str, reason: str) -> None:
    with pytest.raises(ConfigError, match=f"no placement for backbones of type '{model_type}': .*{reason}"):
        placement_for(model_type)


@pytest.mark.parametrize(
    ("option", "method"),
    [
        ("joined=parallel", Adapter(joined="parallel")),
        ("bias_terms=feed_forward", Pln(bias_terms="feed_forward")),
        ("bias_terms=both", E2ln(bias_terms="both", structured_text=False)),
        ("initial=backbone", Maa(initial="backbone")),
        ("joined=multiplied", Combined(parts=(Upa(), Adapter(joined="multiplied")))),
    ],
)
@pytest.mark.parametrize("model_type", EXPERTS)
def test_experts_have_no_maps_for_all_tokens(model_type: str, option: str, method: MethodConfig) -> None:
    assert not find_sites(tiny_backbone(model_type), placement_for(model_type), ("up_proj", "down_proj"))
    refusal = method.refusal(placement_for(model_type))
    assert refusal is not None
    assert re.search(f"{option} acts on the maps of the feed-forward sub-layer, .* {model_type} have experts", refusal)
    assert method.refusal(placement_for("llama")) is None


@pytest.mark.parametrize(
    "method", [Adapter(), Adapter(joined="parallel", sites="attention"), Pln(bias_terms="attention"), Maa()]
)
def test_methods_beside_these_maps_suit_experts(method: MethodConfig) -> None:
    assert method.refusal(placement_for("mixtral")) is None


def test_an_unknown_family_cannot_be_built() -> None:
    with pytest.raises(ConfigError, match="no placement for backbones of type 'vit'"):
        build_backbone(ViTConfig())


@pytest.mark.parametrize(
    ("find", "change", "message"),
    [
        (find_sites, {"layers": "encoder.layers.*"}, r"no layers at 'encoder\.layers\.\*'.*install"),
        (find_sites, {"attention": "attention.dropout"}, r"no module 'encoder\.layer\.0\.attention\.dropout'.*install"),
        (find_sites, {"feed_forward": "mlp"}, r"no module 'encoder\.layer\.0\.mlp'.*install"),
        (find_norms, {"norms": ("output.norm", "output.LayerNorm")}, r"no module 'encoder\.layer\.0\.output\.norm'"),
    ],
)
def test_a_backbone_laid_out_otherwise_is_named(
    find: Callable[..., Any], change: dict[str, Any], message: str, tiny_backbone: Callable[..., PreTrainedModel]
) -> None:
    with pytest.raises(ConfigError, match=f"BertModel has {message}"):
        find(tiny_backbone("bert"), replace(placement_for("bert"), **change))


def test_chunked_feed_forward_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"chunk_size_feed_forward is 3: .* set it to 0"):
        build_backbone(BertConfig(chunk_size_feed_forward=3))


@pytest.mark.parametrize(
    ("family", "expected"),
    [
        # 4 heads of 12 features; of Phi-3, keys and values have 2 heads.
        ("phi3", {"q_proj": (0, 48), "k_proj": (48, 24), "v_proj": (72, 24)}),
        ("modernbert", {"q_proj": (0, 48), "k_proj": (48, 48), "v_proj": (96, 48)}),
        ("gpt2", {"q_proj": (0, 48), "k_proj": (48, 48), "v_proj": (96, 48)}),
        # Head by head.
        ("gpt_neox", {"q_proj": (0, 48), "k_proj": (12, 48), "v_proj": (24, 48)}),
        ("deberta", {"q_proj": (0, 48), "k_proj": (12, 48), "v_proj": (24, 48)}),
    ],
)
def test_parts_of_a_fused_projection(family: str, expected: dict[str, tuple[int, int]]) -> None:
    backbone = tiny_backbone(family)
    sites = find_sites(backbone, placement_for(family), ("q_proj", "k_proj", "v_proj"))
    assert {(site.kind, site.start, site.features) for site in sites} == {
        (kind, start, features) for kind, (start, features) in expected.items()
    }
    widths = {max(backbone.get_submodule(site.path).weight.shape) for site in sites}
    assert widths == {sum(features for _, features in expected.values())}


@pytest.mark.parametrize("family", ["gpt_neox", "deberta"])
def test_a_projection_fused_by_head_is_read_and_changed_head_by_head(family: str) -> None:
    kinds = ("q_proj", "k_proj", "v_proj")
    sites = find_sites(tiny_backbone(family), placement_for(family), kinds)[:3]
    output = torch.arange(2 * 3 * 144.0).view(2, 3, 144)
    heads = output.view(2, 3, 4, 3, 12)  # heads, then queries, keys and values
    for number, site in enumerate(sites):
        part = site.part_of(output)
        assert torch.equal(part, heads[..., number, :].flatten(-2))
        assert torch.equal(site.with_part(output, part), output)
        expected = heads.clone()
        expected[..., number, :] += 1000
        assert torch.equal(site.with_part(output, part + 1000), expected.flatten(2))


def test_positions_of_bart_begin_at_two() -> None:
    """Its table has two rows more than a text may have tokens."""
    backbone = tiny_backbone("bart")
    assert backbone.encoder.embed_positions.num_embeddings == 69
    assert most_positions(backbone, placement_for("bart")) == 67


@pytest.mark.parametrize("family", ["bart", "mbart", "t5", "mt5", "umt5", "t5gemma"])
def test_the_encoder_is_read_from_the_weights_of_both_stacks(family: str, tmp_path: Path) -> None:
    whole = AutoModelForSeq2SeqLM.from_config(tiny_config(family)).eval()
    whole.save_pretrained(tmp_path)
    encoder = load_backbone(str(tmp_path)).eval()
    inputs = batch()
    expected = whole.get_encoder()(**inputs).last_hidden_state
    assert torch.equal(encoder(**inputs).last_hidden_state, expected)
    assert not any("decoder" in name for name, _ in encoder.named_parameters())

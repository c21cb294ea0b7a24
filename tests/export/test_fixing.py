"""A method whose values are fixed is another model that reads none, and gives the same logits."""

from __future__ import annotations

from itertools import product
from pathlib import Path

import pytest
import torch
from families import tiny_backbone
from tiny_models import at_random, exactly, make_batch, make_model

from attribune.errors import ConfigError
from attribune.export.export import merge_model, merged_model
from attribune.export.peft_folder import load_peft, write_peft
from attribune.methods import (
    Adapter,
    Chim,
    Combined,
    ConcatWord,
    E2ln,
    Injector,
    Maa,
    MethodConfig,
    Modulated,
    Plain,
    Pln,
    Plora,
    Poly,
    Tokens,
    Upa,
)
from attribune.models.model import AttributeModel

INJECTOR = Injector(bottleneck=5, vector_size=13)
PLN, CHIM, PLORA = Pln(vector_size=13), Chim(vector_size=7), Plora(rank=3, vector_size=11)
EXACT: dict[str, tuple[MethodConfig, str]] = {
    "injector": (INJECTOR, "adapter"),
    "injector, bias alone": (INJECTOR.model_copy(update={"weight_injection": False, "task_adapter": False}), "adapter"),
    "injector, sums first": (
        INJECTOR.model_copy(update={"bias_injection": False, "aggregation": "pre", "low_rank": False}),
        "adapter",
    ),
    "injector, parallel": (INJECTOR.model_copy(update={"arrangement": "parallel"}), "adapter"),
    "pln": (PLN, "none"),
    "pln, all": (Pln(vector_sizes=(13, 7), norms="both", bias_terms="both", fusion="mlp"), "none"),
    "e2ln": (E2ln(vector_size=13, norms="both", bias_terms="feed_forward", summary_pooling="attention"), "e2ln"),
    "chim": (CHIM, "none"),
    "upa": (Upa(vector_size=7, attention_size=5), "la"),
    "plora": (PLORA, "none"),
    "modulated": (Modulated(rank=3, vector_size=11), "none"),
    "poly": (Poly(rank=3, splits=2), "none"),
    "injector+chim": (Combined(parts=(INJECTOR, CHIM)), "adapter"),
    "injector+pln": (Combined(parts=(INJECTOR, PLN)), "adapter"),
    "plora+chim": (Combined(parts=(PLORA, CHIM)), "none"),
    "adapter": (Adapter(bottleneck=5, joined="parallel", inner_norm=True, layers=2), "adapter"),
    "none": (Plain(), "none"),
}
FAMILIES = ("bert", "distilbert", "gpt2", "gpt_neox", "albert")
PLACES = ("injector", "pln", "plora")  # one for each place of the backbone where values are fixed


# Every method over the first family, and one for each place over the others.
ENOUGH = {*product(FAMILIES[:1], EXACT), *product(FAMILIES, PLACES)}


def exact_model(family: str, method: MethodConfig, **options: object) -> AttributeModel:
    model = make_model(family, method, **options)
    at_random(model.method, size=0.3)
    exactly(model)
    return model


def gap(model: AttributeModel, *, row: int) -> float:
    """Between the logits of rows that all have the values of one row, and those of the plain model."""
    batch = make_batch(2)
    ids = batch["attribute_ids"][row]
    plain = merged_model(model, merge_model(model, ids))
    exactly(plain)
    assert not plain.method_config.uses_attributes
    assert plain.schema.slots == 0
    with torch.no_grad():
        expected = model(**batch | {"attribute_ids": ids.expand(4, -1)}).logits
        batch.pop("attribute_ids")
        return float((plain(**batch).logits - expected).abs().max())


@pytest.mark.slow
@pytest.mark.one_in(4)
@pytest.mark.parametrize(
    ("family", "name"),
    [pytest.param(*case, marks=() if case in ENOUGH else pytest.mark.exhaustive) for case in product(FAMILIES, EXACT)],
)
def test_equal_logits(family: str, name: str) -> None:
    method, kind = EXACT[name]
    if method.name == "e2ln" and family in ("gpt2", "gpt_neox"):
        method = method.model_copy(update={"structured_text": False})
    model = exact_model(family, method, **({"chunk": 4} if "e2ln" in name else {}))
    assert merge_model(model, torch.zeros(4, dtype=torch.int64)).config.name == kind
    assert max(gap(model, row=row) for row in range(3)) < 1e-9


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:.*is_gradient_checkpointing.*:FutureWarning")
@pytest.mark.parametrize("family", ["bert", "gpt2", "gpt_neox"])
def test_a_folder_of_peft_changes_the_same_outputs(family: str, tmp_path: Path) -> None:
    """Of queries and values that have matrices of their own, and that are parts of a fused one."""
    model = make_model(family, PLORA)
    at_random(model.method, size=0.3)
    batch = make_batch(2)
    ids = batch["attribute_ids"][0]
    write_peft(model, merge_model(model, ids), tmp_path)
    other = load_peft(tmp_path, tiny_backbone(family)).eval()
    inputs = {name: batch[name] for name in ("input_ids", "attention_mask")}
    with torch.no_grad(), model.method.holder.use(model.condition(ids.expand(4, -1), rows=4)):
        expected = model.backbone(**inputs).last_hidden_state
        found = other(**inputs).last_hidden_state
        plain = tiny_backbone(family)(**inputs).last_hidden_state
    real = batch["attention_mask"].bool()
    torch.testing.assert_close(found[real], expected[real], rtol=0, atol=1e-4)
    assert (plain - expected)[real].abs().max() > 0.1


@pytest.mark.one_in(5)
@pytest.mark.parametrize("family", ["llama", "modernbert", "t5"])
@pytest.mark.parametrize("method", [INJECTOR, Combined(parts=(INJECTOR, CHIM)), Poly(rank=3)], ids=lambda m: m.name)
def test_equal_logits_without_biases(family: str, method: MethodConfig) -> None:
    assert gap(exact_model(family, method), row=0) < 1e-9


@pytest.mark.slow
@pytest.mark.parametrize("family", ["bert", "gpt2"])
@pytest.mark.parametrize("method", [INJECTOR, PLN, PLORA], ids=lambda m: m.name)
def test_equal_logits_of_methods_that_begin_in_a_later_layer(family: str, method: MethodConfig) -> None:
    later = method.model_copy(update={"first_layer": 1})
    assert gap(exact_model(family, later), row=0) < 1e-9


@pytest.mark.slow
@pytest.mark.parametrize("tuning", ["lora:q,v:2+layernorm", "bias", "frozen", "full"])
@pytest.mark.parametrize("method", [INJECTOR, Pln(vector_size=13, bias_terms="both")], ids=lambda m: m.name)
def test_equal_logits_over_what_learned(tuning: str, method: MethodConfig) -> None:
    model = exact_model("bert", method, tuning=tuning)
    for name, parameter in model.backbone.named_parameters():
        if "lora_B" in name:
            torch.nn.init.normal_(parameter)
    assert gap(model, row=2) < 1e-9


def test_another_value_is_seen() -> None:
    """The comparison can fail: the plain model of other values has other logits."""
    model, batch = exact_model("bert", INJECTOR), make_batch(2)
    first, third = (merged_model(model, merge_model(model, batch["attribute_ids"][row])) for row in (0, 2))
    batch.pop("attribute_ids")
    with torch.no_grad():
        assert (first(**batch).logits - third(**batch).logits).abs().max() > 1e-3


def test_the_plain_model_shares_nothing() -> None:
    model = exact_model("bert", Pln(vector_size=13))
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    plain = merged_model(model, merge_model(model, make_batch(2)["attribute_ids"][0]))
    with torch.no_grad():
        for parameter in plain.parameters():
            parameter.zero_()
    assert all(torch.equal(tensor, before[name]) for name, tensor in model.state_dict().items())


@pytest.mark.slow
@pytest.mark.parametrize(
    ("family", "method", "reason"),
    [
        ("bert", Tokens(), "method 'tokens' acts at the point 'embed' with layers of its own"),
        ("bert", Chim(places=("attention",)), "'chim' acts at the point 'pool'"),
        ("bert", Chim(places=("classifier", "attention")), "'chim' acts at the point 'classify' and 'pool'"),
        ("bert", Chim(representation="bias"), "'chim' acts at the point 'classify'"),
        ("bert", Maa(layers=1), "'maa' acts at the point 'encode'"),
        ("bert", ConcatWord(layers=1), "'concat-word' acts at the point 'encode'"),
        ("llama", PLN, "layers.0.post_attention_layernorm, a LlamaRMSNorm, has no bias"),
        ("llama", PLORA, r"layers\.0\.self_attn\.q_proj, a Linear, has no bias"),
        ("deberta-v2", PLORA, "query_proj maps relative positions too"),
        (
            "distilbert",
            Combined(parts=(INJECTOR, Pln(bias_terms="both"))),
            "act at transformer.layer.0.attention.out_lin",
        ),
    ],
    ids=lambda value: getattr(value, "name", value),
)
def test_what_has_no_such_form_says_why(family: str, method: MethodConfig, reason: str) -> None:
    model = make_model(family, method)
    with pytest.raises(ConfigError, match=reason):
        merged_model(model, merge_model(model, make_batch(2)["attribute_ids"][0]))

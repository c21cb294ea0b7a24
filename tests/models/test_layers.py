"""Layers for networks of one's own: the same numbers as a model, its weights under their names, and errors."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pandas as pd
import pytest
import torch
from families import tiny_backbone
from peft import LoraConfig, get_peft_model
from tiny_models import at_random, exactly, make_batch, make_model, make_schema
from torch import Tensor, nn

from attribune import (
    AttribuneError,
    AttributeModel,
    ControlTokens,
    Injector,
    InjectorLayer,
    Modulated,
    PersonalisedLinear,
    PersonalisedNorm,
    Pln,
    Plora,
    Tokens,
    ValueVectors,
)

METHODS = {
    "injector": Injector(bottleneck=8, vector_size=6),
    "injector, side by side": Injector(bottleneck=8, vector_size=6, arrangement="parallel", phm=False),
    "pln": Pln(norms="both", fusion="mlp", vector_sizes=[5, 3]),
    "plora": Plora(rank=3, vector_size=5),
    "modulated": Modulated(rank=3, vector_size=5, target_modules=["q_proj", "o_proj"]),
}
ATTRIBUTES = 2


class Placed(nn.Module):
    """A layer in the place of a module of a network, called with the values of the batch under way."""

    def __init__(self, layer: nn.Module, batch: dict[str, Any], inner: nn.Module | None = None) -> None:
        super().__init__()
        self.layer, self.batch, self.inner = layer, batch, inner

    def forward(self, states: Tensor, *rest: Tensor) -> Tensor:
        states = states if self.inner is None else self.inner(states, *rest)
        result: Tensor = self.layer(states, self.batch["attributes"])
        return result


def layer_for(method: Any, module: nn.Module) -> tuple[nn.Module, bool]:
    """A layer for a place in a network, and whether it has the module of that place inside."""
    if isinstance(method, Injector):
        return InjectorLayer(method, hidden=tiny_backbone("bert").config.hidden_size, attributes=ATTRIBUTES), False
    if isinstance(method, Pln):
        return PersonalisedNorm(module, method, attributes=ATTRIBUTES), True
    return PersonalisedLinear(module, method, attributes=ATTRIBUTES), True


@pytest.mark.slow
@pytest.mark.parametrize("method", METHODS.values(), ids=METHODS)
def test_a_network_with_layers_is_the_model(method: Any) -> None:
    model = make_model("bert", method, attributes=ATTRIBUTES)
    at_random(model.method, size=0.3)
    batch = make_batch(ATTRIBUTES)
    inputs = {name: batch[name] for name in ("input_ids", "attention_mask")}
    vectors = ValueVectors(model.schema, method).double()
    network, under_way = copy.deepcopy(tiny_backbone("bert")).double().eval(), dict[str, Any]()
    for site, own in zip(model.method.acts_at, model.method.sites, strict=True):
        module = network.get_submodule(site.path)
        layer, has_module = layer_for(method, module)
        layer.site.load_state_dict(own.state_dict())
        parent, _, name = site.path.rpartition(".")
        placed = Placed(layer, under_way, None if has_module else module)
        setattr(network.get_submodule(parent), name, placed)
    network.double()
    assert vectors.method.tables[0].shape == model.method.tables[0].shape
    for name in model.schema.names:
        vectors.attribute_vectors(name).load(model.attribute_vectors(name).to_pandas())

    exactly(model)
    vectors.eval()
    under_way["attributes"] = vectors(batch["attribute_ids"])
    with torch.no_grad():
        plain = tiny_backbone("bert").double()(**inputs).last_hidden_state
        expected = model(**batch, output_hidden_states=True).hidden_states[-1]
    real = batch["attention_mask"].bool()
    states = network(**inputs).last_hidden_state
    torch.testing.assert_close(states[real], expected[real], rtol=0, atol=1e-10)
    assert (states[real] - plain[real]).abs().max() > 1e-3

    (states[real] ** 2).sum().backward()
    for table in vectors.method.tables:
        assert not table.grad[0].any()  # of id 0, which stays zero
        assert table.grad.any()
    # The vectors of the rows, from wherever they come; one that has several values has their sum.
    if not isinstance(method, Injector):
        under_way["attributes"] = under_way["attributes"].vectors_per_attribute()
        torch.testing.assert_close(network(**inputs).last_hidden_state, states)


def test_tokens_are_those_of_the_model() -> None:
    model = make_model("bert", Tokens(), attributes=ATTRIBUTES)
    at_random(model.method)
    batch = make_batch(ATTRIBUTES, padding="left")
    table = model.backbone.get_input_embeddings()
    for after_first in (True, False):
        model.method.after_first = after_first
        tokens = ControlTokens(model.schema, table, after_first=after_first).eval()
        for name in model.schema.names:
            tokens.attribute_vectors(name).load(model.attribute_vectors(name).to_pandas())
        condition = model.method.condition(batch["attribute_ids"], 4)
        expected = model.method.embed(batch["input_ids"], batch["attention_mask"], condition, table)
        came = tokens(**batch)
        known = came.attention_mask.bool()
        assert torch.equal(came.attention_mask, expected.attention_mask)
        assert torch.equal(came.positions, expected.positions)
        torch.testing.assert_close(came.states[known], expected.states[known])
        text = batch["attention_mask"].bool()
        assert torch.equal(came.text_states(came.states)[text], table(batch["input_ids"])[text])


def test_layers_start_as_what_they_are_put_around_and_keep_its_precision() -> None:
    schema, x = make_schema(1), torch.randn(3, 4, 8)
    ids = torch.tensor([[1, 0, 2], [0, 0, 0], [3, 4, 5]])
    cases: list[tuple[Any, nn.Module, Callable[..., nn.Module]]] = [
        (Pln(), nn.LayerNorm(8), PersonalisedNorm),
        (Pln(), nn.RMSNorm(8), PersonalisedNorm),
        (Plora(), nn.Linear(8, 5), PersonalisedLinear),
    ]
    for method, module, layer in cases:
        came = layer(module, method, attributes=1)(x, ValueVectors(schema, method)(ids))
        assert torch.equal(came, module(x))
        half = layer(module.bfloat16(), method, attributes=1)(x.bfloat16(), ValueVectors(schema, method)(ids))
        assert half.dtype == torch.bfloat16
    method = Injector(bottleneck=4, vector_size=6, hypercomplex=2, attribute_dropout=0.5)
    vectors = ValueVectors(schema, method)
    torch.manual_seed(0)
    dropped = {bool(vectors(ids).ids.any()) for _ in range(20)}
    assert dropped == {True, False}  # in training an attribute is hidden now and then
    assert torch.equal(vectors.eval()(ids).ids, ids)


def test_it_starts_from_a_lora_of_peft_and_from_a_bottleneck_adapter() -> None:
    schema, x, ids = make_schema(1), torch.randn(3, 4, 8), torch.tensor([[1, 0, 2], [0, 0, 0], [3, 4, 5]])
    network = nn.Sequential(nn.Linear(8, 5))
    layer = PersonalisedLinear(copy.deepcopy(network[0]), Plora(rank=2, alpha=6), attributes=1)
    peft_model = get_peft_model(network, LoraConfig(r=2, lora_alpha=6, target_modules=["0"], init_lora_weights=False))
    lora = peft_model.base_model.model[0]
    start = {"A": lora.lora_A["default"].weight, "B": lora.lora_B["default"].weight}
    layer.site.load_state_dict(start, strict=False)
    torch.testing.assert_close(layer(x, ValueVectors(schema, Plora())(ids)), lora(x))
    assert (lora(x) - layer.linear(x)).abs().max() > 1e-3

    down, up = nn.Linear(8, 4), nn.Linear(4, 8)
    method = Injector(bottleneck=4, hypercomplex=2)
    injector = InjectorLayer(method, hidden=8, attributes=1)
    for parameter in injector.site.attributes[0].parameters():
        nn.init.zeros_(parameter)
    start = {"task.W_down": down.weight.T, "task.b_down": down.bias, "task.W_up": up.weight.T, "task.b_up": up.bias}
    injector.site.load_state_dict(start, strict=False)
    expected = x + up(nn.functional.gelu(down(x)))
    torch.testing.assert_close(injector(x, ValueVectors(schema, method)(ids)), expected)


@pytest.fixture(scope="module")
def model() -> AttributeModel:
    return make_model("bert", Pln(), attributes=2)


class HalfLinear(nn.Module):
    """Which says how many numbers it takes, and not how many it gives."""

    in_features = 3


WRONG: list[tuple[Callable[[Any], Any], str]] = [
    (lambda s: ValueVectors(make_schema(0), Pln()), "pln: the schema has no attribute"),
    (lambda s: ValueVectors(s, Pln(vector_sizes=[3])), "vector_sizes has 1 numbers, but the schema has 2 attributes"),
    (lambda s: ValueVectors(s, Pln())(torch.ones(2, 3, dtype=int)), r"shape \(2, 3\), expected \(2, 4\)"),
    (lambda s: ValueVectors(s, Pln())(torch.full((2, 4), 99)), "attribute 'tags' has id 99, outside 0 to 5"),
    (lambda s: ValueVectors(s, Pln()).attribute_vectors("usr"), "the schema has no attribute 'usr'"),
    (
        lambda s: ValueVectors(s, Pln()).attribute_vectors("user").load(pd.DataFrame([[1.0]], index=["v1"])),
        "give 64 finite numbers",
    ),
    (lambda s: PersonalisedNorm(nn.GELU(), Pln(), attributes=1), "has no gain"),
    (lambda s: PersonalisedNorm(nn.LayerNorm(4), Pln(fusion="addition"), attributes=1), "choose vector_size=4"),
    (lambda s: PersonalisedLinear(nn.GELU(), Plora(), attributes=1), "give a torch.nn.Linear"),
    (lambda s: PersonalisedLinear(nn.RNN(2, 3), Plora(), attributes=1), "give a torch.nn.Linear"),
    (lambda s: PersonalisedLinear(HalfLinear(), Plora(), attributes=1), "give a torch.nn.Linear"),
    (lambda s: InjectorLayer(Injector(), hidden=30, attributes=1), "hypercomplex is 4, but the hidden size 30"),
    (
        lambda s: PersonalisedNorm(nn.LayerNorm(4), Pln(), attributes=1)(torch.ones(2, 3, 4), [torch.ones(2, 5)]),
        "PersonalisedNorm: the attributes have vectors of the sizes 5, and the layer reads 64",
    ),
    (
        lambda s: PersonalisedNorm(nn.LayerNorm(4), Pln(), attributes=1)(torch.ones(2, 3, 4), [torch.ones(1, 64)]),
        r"the shape \(1, 64\): give \(B, Z\) for each, with B = 2",
    ),
    (
        lambda s: PersonalisedNorm(nn.LayerNorm(4), Pln(), attributes=1)(torch.ones(2, 4), [torch.ones(2, 64)]),
        r"the states have the shape \(2, 4\): give \(B, T, 4\) with B = 2",
    ),
]


@pytest.mark.parametrize(("call", "message"), WRONG, ids=[message[:40] for _, message in WRONG])
def test_what_does_not_fit_is_named(call: Callable[[Any], Any], message: str, model: AttributeModel) -> None:
    with pytest.raises(AttribuneError, match=message):
        call(model.schema)

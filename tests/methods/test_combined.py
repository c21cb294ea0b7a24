"""Several methods in one model."""

from __future__ import annotations

import copy
import json
import re
from pathlib import Path
from typing import Any

import pytest
import torch
from families import tiny_backbone
from hosts import make_host
from slow_layers import assert_same
from tiny_models import CLASSES, at_random, exactly, make_batch, make_model, recorded, slots_of
from torch import Tensor

from attribune import functional
from attribune.backbones.tuning import TUNINGS
from attribune.errors import ConfigError
from attribune.methods import (
    Adapter,
    Chim,
    Combined,
    ConcatText,
    E2ln,
    Host,
    Injector,
    Maa,
    Method,
    MethodConfig,
    Plain,
    Pln,
    Plora,
    Tokens,
    Upa,
    method_from_dict,
)
from attribune.methods.condition import Condition
from attribune.methods.dropout import drop_attributes
from attribune.models.model import AttributeModel

SETTINGS = {
    "name": "injector+chim",
    "injector": {"bottleneck": 5, "vector_size": 7, "hypercomplex": 2, "attribute_dropout": 0.1},
    "chim": {"vector_size": 3, "repeats": 4},
}
BOTH = Combined(
    parts=(
        Injector(bottleneck=5, vector_size=7, hypercomplex=2, attribute_dropout=0.1),
        Chim(vector_size=3, repeats=4),
    )
)


# Settings


def test_settings_are_found_under_the_names_of_the_methods() -> None:
    before = copy.deepcopy(SETTINGS)
    assert method_from_dict(SETTINGS) == BOTH
    assert before == SETTINGS, "the dictionary given is left as it was"


@pytest.mark.parametrize(
    "config",
    [
        BOTH,
        Combined(parts=(Chim(), Injector(aggregation="pre"))),
        Combined(parts=(Adapter(bottleneck=3), Pln(layers=(1, 2), vector_sizes=(3, 5), fusion="mlp"), Upa())),
        Combined(parts=(Tokens(), Maa(heads=None), Chim(), Plora(rank=3))),
    ],
    ids=lambda config: config.name,
)
def test_settings_come_back_from_json(config: Combined) -> None:
    settings = config.to_dict()
    assert list(settings) == ["name", *(part.name for part in config.parts)]
    found = method_from_dict(json.loads(json.dumps(settings)))
    assert found == config
    assert [type(part) for part in found.parts] == [type(part) for part in config.parts]
    assert settings == config.to_dict()


def test_options_left_out_are_the_defaults() -> None:
    assert method_from_dict({"name": "injector + chim"}) == Combined(parts=(Injector(), Chim()))
    assert method_from_dict({"name": "upa+pln", "pln": {"norms": "both"}}) == Combined(parts=(Upa(), Pln(norms="both")))


def test_what_a_combination_says_of_itself() -> None:
    """Its points are those of all parts, its tuning that of the first."""
    assert (BOTH.name, BOTH.points, BOTH.default_tuning) == ("injector+chim", ("sites", "classify"), "frozen")
    turned = Combined(parts=(Chim(), Injector()))
    assert (turned.name, turned.points, turned.default_tuning) == ("chim+injector", ("classify", "sites"), "full")
    assert Combined(parts=(Adapter(), Injector())).points == ("sites",)
    assert BOTH.uses_attributes
    assert not Combined(parts=(Adapter(), E2ln(norms="none"))).uses_attributes
    assert Combined.name == "combined", "the class is left as it was"
    for config in (BOTH, turned):
        assert config.default_tuning in TUNINGS


# What does not go together


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("upa+concat-text", "upa and concat-text both act at the point 'pool', where there is room for one"),
        ("upa+e2ln", "upa and e2ln both act at the point 'pool'"),
        ("maa+injector+concat-word", "maa and concat-word both act at the point 'encode'"),
        ("tiny-maa+attention-bias", "tiny-maa and attention-bias both act at the point 'encode'"),
        ("injector+injector", "method 'injector+injector': a combination needs two or more different methods"),
        ("chim+injector+chim", "a combination needs two or more different methods"),
        ("injector+none", "method 'injector+none': 'none' acts nowhere; leave it out"),
        ("none+injector", "'none' acts nowhere"),
        ("injector+chym", "unknown method 'chym'; did you mean 'chim'? Choose one of none, adapter, injector"),
        ("injector+", "unknown method ''"),
        ("+", "unknown method ''"),
        ("injector+chim+full", "unknown method 'full'"),
    ],
)
def test_what_does_not_go_together_is_refused(name: str, message: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(message)):
        method_from_dict({"name": name})


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"upa": {}},
            "method 'injector+chim' has no option upa: write each option under the name of its method, as in",
        ),
        ({"bottleneck": 3, "a": 1}, "has no option a, bottleneck: write each option under the name of its method"),
        ({"injector": {"repeats": 3}}, "method 'injector' has no option repeats"),
        ({"chim": 3}, "the options of 'chim' are 3: give a tree of its options"),
        ({"chim": None}, "the options of 'chim' are None: give a tree of its options"),
        ({"chim": {"vector_size": 0}}, "chim: vector_size is 0"),
        (
            {"chim": {"name": "upa", "vector_size": 3}},
            "the options of 'chim' are {'name': 'upa', 'vector_size': 3}: give",
        ),
    ],
)
def test_options_that_belong_nowhere_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(message)):
        method_from_dict({"name": "injector+chim", **options})


SINGLE = "give the settings of two or more single methods"
FEWER = "a combination needs two or more different methods"


@pytest.mark.parametrize(
    ("parts", "message"),
    [
        (None, SINGLE),
        ((Injector(), "chim"), SINGLE),
        ((Injector(), Combined(parts=(Upa(), Chim()))), SINGLE),
        ((), FEWER),
        ((Injector(),), FEWER),
        ((Injector(), Injector(bottleneck=3)), FEWER),
        ((Plain(), Injector()), "'none' acts nowhere"),
        ((Upa(), ConcatText()), "both act at the point 'pool'"),
    ],
)
def test_parts_that_do_not_go_together_are_refused(parts: Any, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        Combined(parts=parts)


# One draw for all parts


def build(config: MethodConfig, **facts: Any) -> Any:
    return config.build(make_host(hidden=12, slots=slots_of(4), outputs=CLASSES, heads=3, **facts))


def parts_of(condition: Condition) -> list[Tensor]:
    assert all(part.ids is not None for part in condition.parts)
    return [part.ids for part in condition.parts if part.ids is not None]


def many_rows(count: int = 400) -> Tensor:
    return torch.randint(1, 6, (count, 7))


def test_parts_hide_the_same_attributes_of_a_row() -> None:
    """A part that hides more hides what the others do; every batch has a draw of its own."""
    little = {"vector_size": 3, "attribute_dropout": 0.2}
    injector, chim = Injector(bottleneck=2, hypercomplex=2, **little), Chim(**little)
    others = (Pln(vector_size=3, attribute_dropout=0.7), Tokens(attribute_dropout=0.0))
    method, ids = build(Combined(parts=(injector, chim, *others)), embedding=5).train(), many_rows()
    first, second, more, nothing = parts_of(method.condition(ids, len(ids)))
    assert torch.equal(first, second)
    assert torch.equal(nothing, ids)
    assert bool((more[first == 0] == 0).all())
    assert 0.1 < float((first == 0).float().mean()) < 0.3 < 0.6 < float((more == 0).float().mean()) < 0.8
    assert not torch.equal(first, parts_of(method.condition(ids, len(ids)))[0])


def test_a_draw_that_is_given_is_used() -> None:
    method, ids, draw = build(Combined(parts=(Chim(), Pln()))).train(), many_rows(), torch.rand(400, 4)
    for part in parts_of(method.condition(ids, len(ids), draw)):
        assert torch.equal(part, drop_attributes(ids, slots_of(4), 0.2, draw))


def test_nothing_is_hidden_in_evaluation() -> None:
    method, ids = build(Combined(parts=(Chim(attribute_dropout=0.9), Pln(attribute_dropout=0.9)))).eval(), many_rows()
    before = torch.get_rng_state()
    for part in parts_of(method.condition(ids, len(ids))):
        assert torch.equal(part, ids)
    assert torch.equal(before, torch.get_rng_state()), "and nothing is drawn"


def test_a_part_that_reads_no_attributes_needs_none() -> None:
    method, ids = build(Combined(parts=(Adapter(), Chim(attribute_dropout=0.5)))).train(), many_rows()
    adapter, chim = method.condition(ids, len(ids)).parts
    assert adapter.ids is None
    assert bool((chim.ids == 0).any())
    assert build(Combined(parts=(Adapter(), Adapter2()))).train().condition(None, 3).rows == 3


class Adapter2(Adapter):
    """A second method without attributes."""

    name = "adapter-2"


# In a model


def made_by_hand(config: MethodConfig, family: str, whole: AttributeModel, index: int) -> Method:
    """One of the methods by itself, with the parameters that it has in the combination."""
    method = config.build(Host.of(tiny_backbone(family), outputs=CLASSES, slots=whole.slots)).double().eval()
    method.load_state_dict(whole.method.parts[index].state_dict())
    return method


@pytest.mark.slow
@pytest.mark.parametrize("padding", ["right", "left"])
@pytest.mark.parametrize("family", ["bert", "t5"])
def test_injector_and_chim_are_both_applied(family: str, padding: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A plain backbone with the Injector's adapters hooked to it by hand, then CHIM's classifier by hand."""
    model, batch = exactly(make_model(family, BOTH)), make_batch(2, padding=padding)
    at_random(model.method, size=0.3)
    injector, chim = (made_by_hand(part, family, model, index) for index, part in enumerate(BOTH.parts))
    backbone, ids, mask = exactly(tiny_backbone(family)), batch["attribute_ids"], batch["attention_mask"]
    condition = injector.condition(ids, 4)
    inside = {
        "bert": ("encoder.layer.{}.attention.output.dropout", "encoder.layer.{}.output.dropout"),
        "t5": ("encoder.block.{}.layer.0.dropout", "encoder.block.{}.layer.1.dropout"),
    }
    paths = [path.format(layer) for layer in (0, 1) for path in inside[family]]
    for path, site in zip(paths, injector.sites, strict=True):
        backbone.get_submodule(path).register_forward_hook(lambda _m, _a, h, site=site: site(h, condition))
    states = backbone(input_ids=batch["input_ids"], attention_mask=mask).last_hidden_state
    rows = zip(states, mask.bool(), strict=True)
    document = torch.stack([h[real].mean(dim=0) if family == "t5" else h[real][0] for h, real in rows])
    expected = chim.classify(document, chim.condition(ids, 4), model.head)
    found, right = [], functional.chunk_importance_logits
    monkeypatch.setattr(functional, "chunk_importance_logits", lambda *args: found.append(right(*args)) or found[-1])
    logits = model(**batch).logits
    assert_same(found[0], expected)
    assert torch.equal(logits, found[0])
    without_chim = model.head(document)
    plain = exactly(tiny_backbone(family))(input_ids=batch["input_ids"], attention_mask=mask).last_hidden_state
    assert float((without_chim - expected).detach().abs().max()) > 1e-2
    assert float((plain - states).detach().abs().max()) > 1e-2


@pytest.mark.slow
@pytest.mark.parametrize(("first", "second"), [(Adapter, Injector), (Injector, Adapter)])
def test_methods_at_the_same_sites_follow_one_another_as_they_are_named(
    first: type[MethodConfig], second: type[MethodConfig]
) -> None:
    config = Combined(parts=(first(bottleneck=5), second(bottleneck=5)))
    model, batch = exactly(make_model("bert", config)), make_batch(2)
    at_random(model.method, size=0.3)
    one, two = (made_by_hand(part, "bert", model, index) for index, part in enumerate(config.parts))
    conditions = [part.condition(batch["attribute_ids"], 4) for part in (one, two)]
    where = model.backbone.encoder.layer[0].attention.output
    with recorded(where.dense) as before, recorded(where.dropout) as after:
        model(**batch)
    right = two.sites[0](one.sites[0](before[0], conditions[0]), conditions[1])
    wrong = one.sites[0](two.sites[0](before[0], conditions[1]), conditions[0])
    assert_same(after[0], right)
    assert float((after[0] - wrong).detach().abs().max()) > 1e-3


WHOLE = {
    "injector+chim": BOTH,
    "tokens+upa": Combined(parts=(Tokens(), Upa(vector_size=3))),
    "tokens+pln+maa+concat-text+chim": Combined(
        parts=(Tokens(), Pln(vector_size=3), Maa(layers=1), ConcatText(vector_size=3), Chim(vector_size=3))
    ),
    "e2ln+chim without attributes in the norms": Combined(parts=(E2ln(norms="none"), Chim(vector_size=3))),
    "e2ln+chim": Combined(parts=(E2ln(vector_size=3), Chim(vector_size=3))),
}


@pytest.mark.slow
@pytest.mark.parametrize("case", WHOLE)
def test_a_combination_learns_and_comes_back(case: str, tmp_path: Path) -> None:
    config = WHOLE[case]
    tiny_backbone("bert").save_pretrained(tmp_path / "backbone")
    model, batch = make_model("bert", config), make_batch(2)
    at_random(model.method, size=0.3)
    model.train()(**batch, labels=torch.tensor([0, 1, 2, 0])).loss.backward()
    for name, parameter in model.method.named_parameters():
        assert parameter.grad is not None, name
        assert bool(parameter.grad.any()), name
    expected = model.eval()(**batch).logits
    model.save_pretrained(tmp_path / "model")
    loaded = AttributeModel.from_pretrained(tmp_path / "model", backbone=str(tmp_path / "backbone"))
    assert loaded.method_config == config
    assert torch.equal(loaded(**batch).logits, expected)
    assert torch.equal(copy.deepcopy(model)(**batch).logits, expected)


def test_each_point_belongs_to_the_part_that_acts_there() -> None:
    """Tokens before the backbone, attention pooling behind it: the places of the values do not reach the pooling."""
    config = Combined(parts=(Upa(attention_size=5, vector_size=3), Tokens()))
    model, batch = exactly(make_model("bert", config)), make_batch(2, padding="left")
    at_random(model.method, size=0.3)
    upa, tokens = (made_by_hand(part, "bert", model, index) for index, part in enumerate(config.parts))
    assert model.method.extra_positions == tokens.extra_positions == 4
    assert model.longest_text() == 67 - 4
    ids, mask = batch["attribute_ids"], batch["attention_mask"]
    backbone = exactly(tiny_backbone("bert"))
    embedded = tokens.embed(batch["input_ids"], mask, tokens.condition(ids, 4), backbone.get_input_embeddings())
    assert embedded is not None
    states = backbone(inputs_embeds=embedded.states, attention_mask=embedded.attention_mask).last_hidden_state
    document = upa.pool(embedded.text_states(states), mask, upa.condition(ids, 4), lambda *_: torch.zeros(0))
    expected = model.head(document)
    with recorded(model.head) as found:
        model(**batch)
    assert_same(found[0], expected)


def test_a_combination_in_chunks_of_the_text() -> None:
    """Parts read the attributes once for each chunk of a row inside the backbone, and once for each row behind it."""
    config = Combined(parts=(Pln(vector_size=3), Chim(vector_size=3)))
    model, batch = exactly(make_model("bert", config, chunk=5)), make_batch(2)
    at_random(model.method, size=0.3)
    expected = model(**batch).logits
    longer = {name: torch.cat([value, 0 * value], dim=1) for name, value in batch.items() if name != "attribute_ids"}
    found = model(**longer, attribute_ids=batch["attribute_ids"]).logits
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-6)

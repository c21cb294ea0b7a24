"""Rows that share a text: it is read once up to the method, and the numbers are those of rows read one by one."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from itertools import product
from typing import Any

import numpy as np
import pytest
import torch
from families import VOCABULARY, tiny_backbone
from lab_methods import needs_lab
from small_tokenizers import pieces
from tiny_models import at_random, exactly, make_batch, make_model, make_schema, recorded
from torch import Tensor, nn

from attribune.backbones.sites import find_layers
from attribune.data.readers.base import EncodedRows, TextRows
from attribune.errors import ConfigError, DataError
from attribune.methods import (
    Adapter,
    Chim,
    Combined,
    E2ln,
    Injector,
    La,
    MethodConfig,
    Plain,
    Pln,
    Plora,
    Poly,
    Tokens,
    Upa,
)
from attribune.models.model import AttributeModel
from attribune.tasks import Preference

ROWS, TEXTS = [0, 1, 0, 3, 1, 1, 2], 4  # the texts of make_batch that the rows have
LATE = 1  # the last layer of two
METHODS: dict[str, MethodConfig] = {
    "none": Plain(),
    "upa": Upa(attention_size=7, vector_size=13),
    "chim": Chim(vector_size=13),
    "injector": Injector(bottleneck=5, vector_size=13, first_layer=LATE),
    "pln": Pln(vector_size=13, norms="both", bias_terms="both", first_layer=LATE),
    "plora+chim": Combined(parts=(Plora(rank=3, vector_size=13, first_layer=LATE), Chim(vector_size=7))),
}
WHOLE = ("none", "upa", "chim")
FAMILIES = ("bert", "gpt2", "llama", "modernbert", "deberta-v2", "t5", "longformer")


def shared_batch(*, attributes: int = 2, padding: str = "right") -> dict[str, Tensor]:
    """Seven rows with four texts, in which rows of one text have different attributes."""
    batch = make_batch(attributes, padding=padding)
    ids = batch["attribute_ids"][[0, 1, 2, 3, 2, 0, 3]]
    keys = torch.tensor([7, -2, 11, 5])
    return {name: x[ROWS] for name, x in batch.items()} | {"attribute_ids": ids, "text_keys": keys[ROWS]}


def apart(batch: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The same rows, of which each is read for itself."""
    return {name: x for name, x in batch.items() if name != "text_keys"}


def rows_read(model: AttributeModel, batch: Mapping[str, Tensor]) -> list[int]:
    """How many rows go through each layer that runs, layer by layer."""
    counts: list[int] = []
    handles = [
        model.backbone.get_submodule(f"{layer}.{model.placement.o_proj}").register_forward_hook(
            lambda _module, args, _output: counts.append(len(args[0]))
        )
        for layer in find_layers(model.backbone, model.placement)
    ]
    model(**batch)
    for handle in handles:
        handle.remove()
    return counts


def gradients(model: nn.Module, batch: Mapping[str, Tensor]) -> tuple[Tensor, dict[str, Tensor]]:
    model.zero_grad()
    logits = model(**batch).logits
    logits.pow(2).sum().backward()
    return logits.detach(), {n: p.grad.clone() for n, p in model.named_parameters() if p.grad is not None}


def check_equal(model: nn.Module, batch: Mapping[str, Tensor], *, slack: float = 1e-12) -> None:
    """Logits and gradients of shared texts are those of rows that are read one by one."""
    expected, expected_gradients = gradients(model, apart(batch))
    found, found_gradients = gradients(model, batch)
    torch.testing.assert_close(found, expected, rtol=0, atol=slack)
    assert found_gradients.keys() == expected_gradients.keys()
    for name, gradient in expected_gradients.items():
        torch.testing.assert_close(found_gradients[name], gradient, rtol=1e-6, atol=1e4 * slack, msg=name)


def tiny(family: str, method: str, **options: Any) -> AttributeModel:
    model = make_model(family, METHODS[method], tuning=options.pop("tuning", "full"), **options)
    at_random(model.method, size=0.5)
    return model


# Each method in one family, and each family with a method whose rows part inside its layers.
CASES = [
    pytest.param(family, method, marks=[] if family == "bert" or method == "injector" else pytest.mark.exhaustive)
    for family, method in product(FAMILIES, METHODS)
]


@pytest.mark.slow
@pytest.mark.parametrize(("family", "method"), CASES)
def test_a_text_is_read_once_and_the_numbers_stay(family: str, method: str) -> None:
    model = tiny(family, method)
    batch = shared_batch(padding="left" if family == "llama" else "right")
    expected = model(**apart(batch)).logits
    torch.testing.assert_close(model(**batch).logits, expected, rtol=0, atol=1e-6)
    check_equal(exactly(model), batch)
    read = rows_read(model, batch)
    assert read == ([TEXTS] * 2 if method in WHOLE else [TEXTS, len(ROWS)])
    assert rows_read(model, apart(batch)) == [len(ROWS)] * 2


@needs_lab
@pytest.mark.parametrize("method", ["upa", "plora+chim"])
def test_sentences_and_lora_are_shared_too(method: str) -> None:
    model = tiny("bert", method, tuning="lora:q,v:3+layernorm")
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if "lora_B" in name:
                parameter.normal_(std=0.3)
    check_equal(model.double(), shared_batch())
    if method == "upa":
        words = make_model("word-hierarchical", La(attention_size=7))
        assert words.shared_depth == 0  # the words of its sentences are weighed inside the backbone
        check_equal(exactly(make_model("word-hierarchical", Plain())), shared_batch())


@pytest.mark.slow
@pytest.mark.parametrize("method", ["none", "upa", "chim", "injector"])
def test_chunks_are_shared(method: str) -> None:
    model = exactly(tiny("bert", method, chunk=2))
    batch = shared_batch(padding="left")
    check_equal(model, batch)
    assert rows_read(model, batch)[0] == TEXTS * 3


@pytest.mark.parametrize("method", ["upa", "plora+chim"])
def test_checkpointed_layers_have_the_gradients_of_others(method: str) -> None:
    model = exactly(tiny("llama", method)).train()  # without dropout
    for module in model.modules():
        if hasattr(module, "attribute_dropout"):
            module.attribute_dropout = 0.0
        if isinstance(module, nn.Dropout):
            module.p = 0.0
    batch = shared_batch()
    expected, expected_gradients = gradients(model, apart(batch))
    assert rows_read(model, batch) == ([TEXTS] * 2 if method == "upa" else [TEXTS, len(ROWS)])
    model.activation_checkpointing_enable()
    found, found_gradients = gradients(model, batch)
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-12)
    assert all(torch.allclose(found_gradients[name], g, atol=1e-9) for name, g in expected_gradients.items())
    # The layers of a text that is read once run again with it; below an inner layer nothing is shared.
    assert rows_read(model, batch) == ([TEXTS] * 2 if method == "upa" else [len(ROWS)] * 2)


def test_dropout_of_a_text_is_not_shared() -> None:
    model = tiny("bert", "upa")
    batch = shared_batch()
    model.train()
    assert rows_read(model, batch) == [len(ROWS)] * 2
    model.backbone.eval()  # frozen without dropout, under a head that learns
    assert rows_read(model, batch) == [TEXTS] * 2
    model.backbone.train()
    for name in ("hidden_dropout_prob", "attention_probs_dropout_prob"):
        setattr(model.backbone.config, name, 0.0)
    assert rows_read(model, batch) == [len(ROWS)] * 2  # the modules drop out yet
    for module in model.backbone.modules():
        if isinstance(module, nn.Dropout):
            module.p = 0.0
    assert rows_read(model, batch) == [TEXTS] * 2


def test_lower_precision_gives_the_same_answers() -> None:
    model, batch = tiny("bert", "injector"), shared_batch()
    with torch.inference_mode(), torch.autocast("cpu", dtype=torch.bfloat16):
        torch.testing.assert_close(model(**batch).logits, model(**apart(batch)).logits, rtol=0, atol=2e-2)
        assert rows_read(model, batch) == [TEXTS, len(ROWS)]


@needs_lab
def test_what_acts_below_is_not_shared() -> None:
    batch = shared_batch()
    for method in (Tokens(), Injector(bottleneck=5), E2ln(vector_size=13)):
        model = make_model("bert", method)
        assert model.shared_depth == 0
        assert rows_read(model, batch) == [len(ROWS)] * 2
    assert make_model("albert", Plora()).shared_depth == 0  # its one layer runs again and again
    assert make_model("albert", METHODS["upa"]).shared_depth is None
    assert make_model("word-bilstm", Chim(places=("encoder",), vector_size=13)).shared_depth == 0


def test_hooks_of_a_method_of_its_own_are_not_below_it() -> None:
    method = make_model("bert", METHODS["injector"]).method
    assert method.first_layer() == LATE

    class Hooked(type(method)):  # type: ignore[misc]
        def install(self, backbone: nn.Module) -> None:
            super().install(backbone)

    method.__class__ = Hooked
    assert method.first_layer() == 0


def test_layers_are_as_they_were_behind_a_pass_that_fails() -> None:
    model, batch = tiny("bert", "injector"), shared_batch()
    layer = model.backbone.encoder.layer[LATE]
    handle = layer.register_forward_pre_hook(_fail)
    with pytest.raises(RuntimeError, match="in the middle"):
        model(**batch)
    handle.remove()
    assert all("forward" not in vars(one) for one in model.backbone.encoder.layer)
    assert not layer._forward_hooks
    torch.testing.assert_close(model(**batch).logits, model(**apart(batch)).logits, rtol=0, atol=1e-6)


def _fail(*_: Any) -> None:
    raise RuntimeError("in the middle")


def test_two_passes_before_one_backward_pass_and_a_copy() -> None:
    model, batch = exactly(tiny("bert", "injector")), shared_batch()
    other = batch | {"input_ids": batch["input_ids"].flip(1), "attention_mask": batch["attention_mask"].flip(1)}
    each = [gradients(model, apart(one))[1] for one in (batch, other)]
    model.zero_grad()
    (model(**batch).logits.pow(2).sum() + model(**other).logits.pow(2).sum()).backward()
    for name, parameter in model.named_parameters():
        if name in each[0]:
            torch.testing.assert_close(parameter.grad, each[0][name] + each[1][name], rtol=1e-9, atol=1e-9)
    torch.testing.assert_close(copy.deepcopy(model)(**batch).logits, model(**batch).logits, rtol=0, atol=0)


def test_keys_for_other_rows_are_refused() -> None:
    batch = shared_batch()
    with pytest.raises(DataError, match="text_keys are 3 numbers, and the batch has 7 texts"):
        tiny("bert", "upa")(**batch | {"text_keys": batch["text_keys"][:3]})


def test_compared_texts_are_shared_between_and_within_rows() -> None:
    model = AttributeModel.build(
        tiny_backbone("bert"), make_schema(2), task=Preference(), method=METHODS["injector"], tuning="full"
    ).eval()
    at_random(model.method, size=0.5)
    one, batch = shared_batch(), {}
    for name in ("input_ids", "attention_mask", "text_keys"):
        batch[name] = torch.stack([one[name], one[name].roll(2, dims=0)], dim=1)
    batch["attribute_ids"] = one["attribute_ids"]
    check_equal(exactly(model), batch)
    assert rows_read(model, batch) == [TEXTS, 2 * len(ROWS)]


def predicted(model: AttributeModel, rows: EncodedRows, **options: Any) -> tuple[np.ndarray, list[int]]:
    scores, sizes = np.zeros((len(rows), 3), dtype=np.float32), []
    for index, batch in model.batches(rows, **options):
        sizes.append(len(index))
        with torch.inference_mode():
            scores[index] = model.score(batch)
    return scores, sizes


def panel_rows(model: AttributeModel, *, texts: int, members: int) -> EncodedRows:
    """Texts of three lengths, one of which is there twice, each for all members, one member after the other."""
    model.tokenizer = pieces()
    drawn = np.random.default_rng(0)
    inputs = [drawn.integers(5, VOCABULARY, size=3 + 2 * (text % 3)).tolist() for text in range(texts)]
    rows = TextRows.without_attributes(inputs * members)
    ids = drawn.integers(0, 5, size=(len(rows), model.schema.slots))
    return rows.with_attribute_ids(ids)


@pytest.mark.slow
@pytest.mark.parametrize(("method", "depth"), [("upa", None), ("chim", None), ("injector", 1)])
def test_a_panel_is_one_pass_and_rows_keep_their_order(method: str, depth: int | None) -> None:
    model = tiny("bert", method)
    assert model.shared_depth == depth
    rows = panel_rows(model, texts=1, members=40)
    with recorded(model.backbone.embeddings) as passes:
        scores, sizes = predicted(model, rows, size=8)
    if depth is None:
        assert (sizes, [len(states) for states in passes]) == ([40], [1])
        assert predicted(model, rows, size=8, strict=True)[1] == [8] * 5
    else:
        assert sizes == [8] * 5
        assert [len(states) for states in passes] == [1, 8] * 5
    each = [predicted(model, rows.take([row]), size=1)[0] for row in range(40)]
    np.testing.assert_allclose(scores, np.concatenate(each), atol=1e-6)


def test_rows_of_one_text_come_together() -> None:
    model = tiny("bert", "injector")
    rows = panel_rows(model, texts=6, members=4)
    assert rows.text_numbers().tolist() == [0, 1, 2, 3, 4, 5] * 4
    batches = [index for index, _ in model.batches(rows, size=4)]
    assert [set(rows.text_numbers()[index]) for index in batches] == [{2}, {5}, {1}, {4}, {0}, {3}]
    # A method that acts everywhere keeps the order, in which a member's weights are generated once for several texts.
    early = make_model("bert", Injector(bottleneck=5, vector_size=13))
    early.tokenizer = model.tokenizer
    assert next(iter(early.batches(rows, size=4)))[0].tolist() == [2, 5, 8, 11]


@pytest.mark.parametrize("method", [Injector(bottleneck=5, first_layer=1), Adapter(first_layer=1), Poly(first_layer=1)])
def test_a_method_acts_from_its_first_layer_on(method: MethodConfig) -> None:
    model = make_model("bert", method)
    assert model.method.site_layers() == (1,)
    assert model.method.first_layer() == 1
    assert len(model.method.sites) == len(make_model("bert", in_all_layers(method)).method.sites) // 2


def in_all_layers(method: MethodConfig) -> MethodConfig:
    return type(method)(**{**method.model_dump(), "first_layer": 0})


def test_a_first_layer_that_is_not_there_is_refused() -> None:
    with pytest.raises(ConfigError, match="plora: first_layer is 2, but the backbone has the layers 0 to 1"):
        make_model("bert", Plora(first_layer=2))
    with pytest.raises(ConfigError, match="plora: first_layer is -1"):
        Plora(first_layer=-1)
    with pytest.raises(ConfigError, match="layers names layer 2, counted from 1, and first_layer is 2"):
        Pln(layers=(2, 3), first_layer=2)
    assert Plora(first_layer=1) == type(Plora()).from_dict({"first_layer": 1})

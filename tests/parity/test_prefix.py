"""Prefixes against sequences put together by hand, row by row, in float64."""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import count
from typing import Any

import pytest
import torch
from families import tiny_backbone
from slow_layers import assert_apart, assert_same, draw, exact_logits
from tiny_models import at_random, exactly, make_batch, make_model, row_vectors
from torch import Tensor, nn
from transformers.masking_utils import ALL_MASK_ATTENTION_FUNCTIONS, sdpa_mask
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

from attribune import functional
from attribune.backbones import extra_attention
from attribune.export.export import merge_model, merged_model
from attribune.methods import Prefix
from attribune.models.model import AttributeModel

KINDS = ("K", "V")


def slow_prefix(a: list[float], P_0: list[list[float]], Q: list[list[list[float]]]) -> list[list[float]]:
    """P_i = P_0i + sum_j Q_ij a_j, number by number."""
    return [
        [P_0[i][e] + sum(q * x for q, x in zip(Q[i][e], a, strict=True)) for e in range(len(P_0[i]))]
        for i in range(len(P_0))
    ]


def by_hand(model: AttributeModel, family: str, batch: dict[str, Tensor]) -> Tensor:
    """The logits of a plain backbone that is given a sequence of embeddings for each row, without padding."""
    backbone, method = exactly(tiny_backbone(family)), model.method
    words, P_0, Q = backbone.get_input_embeddings().weight, method.prefix.P_0.tolist(), method.prefix.Q.tolist()
    logits = []
    vectors = row_vectors(list(method.personal.tables), model.slots, batch["attribute_ids"])
    for ids, real, of_attributes in zip(batch["input_ids"], batch["attention_mask"], vectors, strict=True):
        prefix = slow_prefix([number for vector in of_attributes for number in vector], P_0, Q)
        text = words[ids[real.bool()]].tolist()
        with torch.no_grad():
            given = torch.tensor([[*prefix, *text]], dtype=torch.float64)
            states = backbone(inputs_embeds=given).last_hidden_state[0, len(prefix) :]
        document = {"gpt2": states[-1], "t5": states.mean(dim=0)}.get(family, states[0])
        logits.append(model.head(document).detach())
    return torch.stack(logits)


def slow_attention(
    prefixes: dict[int, tuple[list[list[float]], list[list[float]]]], *, causal: bool
) -> Callable[..., tuple[Tensor, None]]:
    """Attention of one row without padding, number by number, over the prefix of a module and the text."""

    def attend(
        module: nn.Module,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        _mask: Tensor | None,
        scaling: float | None = None,
        position_bias: Tensor | None = None,
        softcap: float | None = None,
        **_: Any,
    ) -> tuple[Tensor, None]:
        heads, T, size = query.shape[1:]
        scale = size**-0.5 if scaling is None else scaling
        output = torch.zeros(1, T, heads, size, dtype=torch.float64)
        for head in range(heads):
            shared = head // (heads // key.shape[1])
            columns = slice(shared * size, (shared + 1) * size)
            prefix_keys, prefix_values = ([row[columns] for row in rows] for rows in prefixes[id(module)])
            for t in range(T):
                readable = range(t + 1 if causal else T)
                keys = [*prefix_keys, *(key[0, shared, s].tolist() for s in readable)]
                values = [*prefix_values, *(value[0, shared, s].tolist() for s in readable)]
                scores = [
                    scale * sum(q * k for q, k in zip(query[0, head, t].tolist(), one, strict=True)) for one in keys
                ]
                if softcap is not None:
                    scores = [softcap * math.tanh(score / softcap) for score in scores]
                if position_bias is not None:
                    biases = [0.0] * len(prefix_keys) + position_bias[0, head, t, : len(readable)].tolist()
                    scores = [score + bias for score, bias in zip(scores, biases, strict=True)]
                weights = [math.exp(score) for score in scores]
                weighted = (sum(w * one[i] for w, one in zip(weights, values, strict=True)) for i in range(size))
                output[0, t, head] = torch.tensor([x / sum(weights) for x in weighted], dtype=torch.float64)
        return output, None

    return attend


ATTENTIONS = {
    "bert": ("attention.self", False),
    "albert": ("attention", False),
    "modernbert": ("attn", False),
    "t5": ("SelfAttention", False),
    "gpt2": ("attn", True),
    "llama": ("self_attn", True),
    "gpt_neox": ("attention", True),
    "gemma2": ("self_attn", True),
}


def with_prefixes_by_hand(model: AttributeModel, family: str, batch: dict[str, Tensor]) -> Tensor:
    """The logits of a plain backbone whose attention is the slow one, row by row and without padding."""
    backbone, method = exactly(tiny_backbone(family)), model.method
    name, causal = ATTENTIONS[family]
    modules = [module for path, module in backbone.named_modules() if path.endswith(f".{name}")]
    assert len(modules) == len(method.sites)
    vectors = row_vectors(list(method.personal.tables), model.slots, batch["attribute_ids"])
    logits = []
    for ids, real, of_attributes in zip(batch["input_ids"], batch["attention_mask"], vectors, strict=True):
        a = [number for vector in of_attributes for number in vector]
        prefixes = {
            id(module): tuple(slow_prefix(a, site[kind].P_0.tolist(), site[kind].Q.tolist()) for kind in KINDS)
            for module, site in zip(modules, method.sites, strict=True)
        }
        ALL_ATTENTION_FUNCTIONS.register("slow_prefix", slow_attention(prefixes, causal=causal))
        ALL_MASK_ATTENTION_FUNCTIONS.register("slow_prefix", sdpa_mask)
        backbone.config._attn_implementation = "slow_prefix"
        with torch.no_grad():
            states = backbone(input_ids=ids[real.bool()].unsqueeze(0)).last_hidden_state[0]
        document = states[-1] if causal else states.mean(dim=0) if family == "t5" else states[0]
        logits.append(model.head(document).detach())
    return torch.stack(logits)


def build(family: str = "bert", *, place: Any = "input", attributes: int = 2) -> AttributeModel:
    model = make_model(family, Prefix(place=place, length=3, vector_size=5), attributes=attributes)
    at_random(model.method, size=0.5)
    return exactly(model)


@pytest.mark.slow
@pytest.mark.one_in(2)
@pytest.mark.parametrize("family", ATTENTIONS)
def test_the_attention(family: str) -> None:
    """With padding, and without, where no mask says that a causal text does not read ahead."""
    model, batch = build(family, place="attention"), make_batch(2)
    whole = {**batch, "attention_mask": torch.ones_like(batch["attention_mask"])}
    for given in (batch, whole):
        assert_same(exact_logits(model, given), with_prefixes_by_hand(model, family, given))


@pytest.mark.parametrize("place", ["input", "attention"])
def test_merged_for_a_row(place: Any) -> None:
    """Prompt or prefix tuning without attributes, with the prefix of the values."""
    model, batch = build(place=place), make_batch(2, rows=(0,))
    merged = merge_model(model, batch["attribute_ids"][0])
    assert merged.config == Prefix(place=place, length=3, vector_size=5, personal=False)
    alone = exactly(merged_model(model, merged))
    assert not alone.schema.names
    expected = exact_logits(model, batch)
    del batch["attribute_ids"]
    assert_same(exact_logits(alone, batch), expected)


@pytest.mark.slow
@pytest.mark.parametrize(("family", "attributes"), [("bert", 2), ("electra", 4), ("gpt2", 2), ("t5", 1)])
def test_the_model(family: str, attributes: int) -> None:
    model, batch = build(family, attributes=attributes), make_batch(attributes)
    assert_same(exact_logits(model, batch), by_hand(model, family, batch))


def test_the_function_and_its_gradients() -> None:
    a, P_0, Q = (draw(*shape).requires_grad_() for shape in ((2, 5), (3, 7), (3, 7, 5)))
    assert_same(functional.soft_prefix(a, P_0, Q), [slow_prefix(row, P_0.tolist(), Q.tolist()) for row in a.tolist()])
    assert torch.autograd.gradcheck(functional.soft_prefix, (a, P_0, Q))


def test_it_starts_with_one_prefix_for_all_rows() -> None:
    model, batch = make_model("bert", Prefix()), make_batch(2)
    nobody = {**batch, "attribute_ids": torch.zeros_like(batch["attribute_ids"])}
    torch.testing.assert_close(model(**batch).logits, model(**nobody).logits, rtol=1e-5, atol=1e-6)
    assert model.method.extra_positions == 1


RIGHT = functional.soft_prefix
CALLS = count()
MISTAKES: dict[str, Callable[[Tensor, Tensor, Tensor], Tensor]] = {
    "backwards": lambda a, P_0, Q: RIGHT(a, P_0, Q).flip(1),
    "vectors of other rows": lambda a, P_0, Q: RIGHT(a.roll(1, 0), P_0, Q),
    "no shared part": lambda a, P_0, Q: RIGHT(a, torch.zeros_like(P_0), Q),
    "one map for all": lambda a, P_0, Q: RIGHT(a, P_0, Q[:1].expand_as(Q)),
    "backwards within keys alone": lambda a, P_0, Q: RIGHT(a, P_0, Q).flip(1) if next(CALLS) % 2 else RIGHT(a, P_0, Q),
}


@pytest.mark.slow
@pytest.mark.parametrize("mistake", ["backwards", "vectors of other rows", "no shared part", "one map for all"])
@pytest.mark.parametrize("place", ["input", "attention"])
def test_planted_mistakes_are_seen(place: Any, mistake: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if (place, mistake) == ("attention", "backwards"):
        mistake = "backwards within keys alone"  # the order of both does not matter: they have no positions
    model, batch, slow = build(place=place), make_batch(2), by_hand if place == "input" else with_prefixes_by_hand
    monkeypatch.setattr(functional, "soft_prefix", MISTAKES[mistake])
    assert_apart(exact_logits(model, batch), slow(model, "bert", batch))


def test_a_causal_text_whose_tokens_read_ahead_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    model, batch = build("gpt2", place="attention"), make_batch(2)
    batch["attention_mask"] = torch.ones_like(batch["attention_mask"])  # so that nothing but a flag says it
    monkeypatch.setattr(extra_attention, "_is_causal", lambda *_: False)
    assert_apart(exact_logits(model, batch), with_prefixes_by_hand(model, "gpt2", batch))

"""Multi-attribute attention against loops written from Zhang et al. 2021, equations 2 to 7, in float64."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import pytest
import torch
from families import tiny_backbone
from hosts import make_host
from slow_layers import Matrix, assert_apart, assert_same, draw, from_right, slow_heads, slow_norm
from slow_layers import Vector as Row
from tiny_models import NUMBERS, at_random, exactly, make_batch, make_model, recorded, row_vectors, slots_of
from torch import Tensor, nn

from attribune import functional
from attribune.errors import ConfigError
from attribune.methods import AttentionBias, ConcatText, ConcatWord, Host, Maa, Method, MethodConfig, TinyMaa
from attribune.methods.ma_bert import StackConfig

MASK = torch.tensor([[1, 1, 1, 1, 1], [1, 1, 0, 0, 0], [0, 0, 1, 1, 1], [0, 1, 0, 0, 1]])


# The paper, slowly


def times(x: Row, e: Row) -> Row:
    return [a * b for a, b in zip(x, e, strict=True)]


def slow_attention(
    T: Matrix,
    real: list[int],
    e: Sequence[Row] | None,
    W_q: list[Matrix],
    W_k: list[Matrix],
    W_v: list[Matrix],
    W_o: Matrix,
    *,
    heads: int,
    in_values: bool = True,
) -> Matrix:
    """Eq. 2 to 7: [U_1; ...; U_M] W_o, each U_m the heads of one attribute side by side."""
    U: list[Row] = [[] for _ in T]
    for m in range(len(W_q)):
        Q, K, V = ([from_right(t, W[m]) for t in T] for W in (W_q, W_k, W_v))
        if e is not None:
            Q, K = [times(q, e[m]) for q in Q], [times(k, e[m]) for k in K]
            V = [times(v, e[m]) for v in V] if in_values else V
        for long, head in zip(U, slow_heads(Q, K, V, real, heads), strict=True):
            long += head
    return [from_right(long, W_o) for long in U]


def slow_rest(T: Matrix, attention: Matrix, p: dict[str, Any]) -> Matrix:
    """Section 2.2: the residual and norm, the feed-forward with ReLU, its residual and norm."""
    result = []
    for t, A in zip(T, attention, strict=True):
        Y = slow_norm([a + b for a, b in zip(A, t, strict=True)], p["gain_1"], p["bias_1"], eps=1e-12)
        inner = [max(0.0, a + b) for a, b in zip(from_right(Y, p["W_1"]), p["b_1"], strict=True)]
        outer = [a + b + y for a, b, y in zip(from_right(inner, p["W_2"]), p["b_2"], Y, strict=True)]
        result.append(slow_norm(outer, p["gain_2"], p["bias_2"], eps=1e-12))
    return result


def slow_stack(
    layers: nn.Module, hidden: Tensor, mask: Tensor, vectors: Sequence[Sequence[Row]], **options: Any
) -> Tensor:
    """All layers, on every row."""
    rows = []
    for T, real, e in zip(hidden.tolist(), mask.tolist(), vectors, strict=True):
        states = T
        for layer in layers.children():
            p = {name: parameter.tolist() for name, parameter in layer.named_parameters()}
            maps = (p[name] for name in ("W_q", "W_k", "W_v", "W_o"))
            states = slow_rest(states, slow_attention(states, real, e, *maps, **options), p)
        rows.append(states)
    return torch.tensor(rows, dtype=torch.float64)


# The functions


@pytest.mark.slow
@pytest.mark.parametrize("in_values", [True, False])
@pytest.mark.parametrize("M", NUMBERS)
@pytest.mark.parametrize(("H", "D", "heads"), [(6, 6, 2), (5, 4, 4), (3, 4, 1), (4, 8, 2)])
def test_attention(H: int, D: int, heads: int, M: int, in_values: bool) -> None:
    """With sizes of queries other than the hidden one, and as many tokens or rows as heads or attributes."""
    T, e = draw(4, 5, H), draw(4, M, D)
    W = {"W_q": draw(M, H, D), "W_k": draw(M, H, D), "W_v": draw(M, H, D), "W_o": draw(M * D, H)}
    found = functional.multi_attribute_attention(T, MASK, e, **W, heads=heads, in_values=in_values)
    plain = functional.multi_attribute_attention(T, MASK, None, **W, heads=heads)
    lists = {name: matrix.tolist() for name, matrix in W.items()}
    for row in range(4):
        mine, real = T[row].tolist(), MASK[row].tolist()
        expected = slow_attention(mine, real, e[row].tolist(), **lists, heads=heads, in_values=in_values)
        assert_same(found[row], expected)
        expected = slow_attention(mine, real, None, **lists, heads=heads)
        assert_same(plain[row], expected)


@pytest.mark.parametrize(("H", "F"), [(6, 11), (5, 3), (1, 1)])
def test_rest_of_the_layer(H: int, F: int) -> None:
    T, attention = draw(4, 5, H), draw(4, 5, H)
    vectors = {name: draw(H) for name in ("gain_1", "bias_1", "b_2", "gain_2", "bias_2")}
    p = {**vectors, "W_1": draw(H, F), "b_1": draw(F), "W_2": draw(F, H)}
    found = functional.multi_attribute_layer(T, attention, **p)
    lists = {name: parameter.tolist() for name, parameter in p.items()}
    expected = [slow_rest(T[row].tolist(), attention[row].tolist(), lists) for row in range(4)]
    assert_same(found, expected)


# The modules


CONFIGS: dict[str, tuple[StackConfig, int]] = {  # and the number of heads
    "maa": (Maa(layers=2, inner=7), 3),
    "maa of other sizes": (Maa(layers=1, heads=4, size=8, inner=5), 4),
    "attention-bias": (AttentionBias(layers=2, inner=7), 3),
    "tiny-maa": (TinyMaa(size=8, inner=5), 1),
    "tiny-maa with heads": (TinyMaa(layers=2, heads=2, size=6, inner=5), 2),
}


def build(config: MethodConfig, M: int) -> Method:
    method = config.build(make_host(hidden=12, slots=slots_of(M), heads=3)).double().eval()
    at_random(method, size=0.7)
    return method


@pytest.mark.slow
@pytest.mark.parametrize("M", NUMBERS)
@pytest.mark.parametrize("case", CONFIGS)
def test_modules(case: str, M: int) -> None:
    """Padding on either side, several values, a value twice, attributes and whole rows without any."""
    config, heads = CONFIGS[case]
    method, ids, hidden = build(config, M), make_batch(M)["attribute_ids"], draw(4, 5, 12)
    vectors = row_vectors(method.tables, slots_of(M), ids, unknown=True)
    options = {"heads": heads, "in_values": config.name != "attention-bias"}
    expected = slow_stack(method.get_submodule("layers"), hidden, MASK, vectors, **options)
    assert_same(method.encode(hidden, MASK, method.condition(ids, 4)), expected)


@pytest.mark.slow
@pytest.mark.parametrize("padding", ["right", "left"])
@pytest.mark.parametrize(
    "config", [Maa(layers=2), AttentionBias(layers=1), TinyMaa(size=8, inner=5)], ids=lambda c: c.name
)
def test_whole_model(config: StackConfig, padding: str) -> None:
    """The stack stands on the backbone's last states, and its first token's state goes to the head."""
    model, batch = exactly(make_model("bert", config)), make_batch(2, padding=padding)
    at_random(model.method, size=0.3)
    with recorded(model.backbone) as states, recorded(model.head) as found:
        model(**batch)
    mask = batch["attention_mask"]
    vectors = row_vectors(model.method.tables, model.slots, batch["attribute_ids"], unknown=True)
    heads = 1 if config.name == "tiny-maa" else 4
    hidden = slow_stack(
        model.method.layers,
        states[0].last_hidden_state,
        mask,
        vectors,
        heads=heads,
        in_values=config.name != "attention-bias",
    )
    document = torch.stack([hidden[row, mask[row].tolist().index(1)] for row in range(4)])
    assert_same(found[0], document @ model.head.weight.T + model.head.bias)


# Sizes and initial values


def test_sizes_unless_given_are_those_of_the_backbone() -> None:
    layers = make_model("bert", Maa()).method.get_submodule("layers")
    assert len(layers) == 6
    shapes = {name: tuple(p.shape) for name, p in layers[0].named_parameters()}
    assert {shapes[name] for name in ("W_q", "W_k", "W_v")} == {(2, 48, 48)}
    assert (shapes["W_o"], shapes["W_1"], shapes["W_2"]) == ((96, 48), (48, 59), (59, 48))
    assert layers[0].heads == 4
    assert {name for name in shapes if name.startswith("b_")} == {"b_1", "b_2"}, "no biases in the attention"


UNKNOWN = [Maa(inner=7), AttentionBias(inner=7), TinyMaa(), ConcatText(), ConcatWord(inner=7)]


@pytest.mark.parametrize("config", UNKNOWN, ids=lambda c: c.name)
def test_vectors_start_uniform_and_the_unknown_has_one(config: MethodConfig) -> None:
    for table in config.build(make_host(hidden=12, slots=slots_of(4), heads=3)).tables:
        assert 0.2 < float(table.detach().abs().max()) <= 0.25
        assert bool((table[0] != 0).all())


@pytest.mark.parametrize("config", [Maa(layers=1, inner=7), ConcatText(vector_size=5)], ids=lambda c: c.name)
def test_the_unknown_learns_from_rows_without_a_value_only(config: MethodConfig) -> None:
    method, ids, weights = build(config, 2), torch.tensor([[3, 0, 5, 1], [2, 2, 0, 0]]), draw(2, 5, 12)

    def learned(*random: Tensor) -> list[Tensor]:
        method.zero_grad()
        condition, hidden = method.condition(ids, 2, *random), draw(2, 5, 12)
        if isinstance(config, ConcatText):
            states = method.pool(hidden, MASK[:2], condition, functional.first_token).unsqueeze(1)
        else:
            states = method.encode(hidden, MASK[:2], condition)
        (states * weights).sum().backward()  # the sum of a norm's output alone is the same for every input
        return [table.grad[0] for table in method.tables]

    tags, user = learned()
    assert not tags.any(), "both rows have a value, beside places left free"
    assert bool((user != 0).all())
    method.train()
    assert bool((learned(torch.tensor([[0.1, 0.9], [0.9, 0.9]]))[0] != 0).all()), "attribute dropout trains it"


def on(family: str, config: StackConfig, M: int = 2) -> tuple[nn.Module, Any]:
    backbone = tiny_backbone(family)
    return backbone, config.build(Host.of(backbone, outputs=2, slots=slots_of(M)))


# Of a layer, its path and the parts that become W_q, W_k, W_v, W_o, W_1 and W_2.
BERT_PARTS = [f"attention.self.{name}" for name in ("query", "key", "value")] + ["attention.output.dense"]
ALBERT_PARTS = [f"attention.{name}" for name in ("query", "key", "value", "dense")]
LAYERS = {
    "bert": ("encoder.layer.{}", [*BERT_PARTS, "intermediate.dense", "output.dense"]),
    "albert": ("encoder.albert_layer_groups.0.albert_layers.0", [*ALBERT_PARTS, "ffn", "ffn_output"]),
    "gpt2": ("h.{}", [*["attn.c_attn"] * 3, "attn.c_proj", "mlp.c_fc", "mlp.c_proj"]),  # the first three are one map
}


@pytest.mark.parametrize("M", NUMBERS)
@pytest.mark.parametrize(("family", "layers"), [("bert", 1), ("bert", 2), ("albert", 1), ("gpt2", 1)])
def test_initial_values_of_the_last_layers(family: str, layers: int, M: int) -> None:
    """Every attribute starts with the queries, keys and values of the backbone; their outputs are averaged."""
    backbone, method = on(family, Maa(layers=layers, initial="backbone"), M)
    layer, parts = LAYERS[family]
    for number, mine in enumerate(method.layers, 2 - layers):
        theirs = [backbone.get_submodule(f"{layer.format(number)}.{part}").weight for part in parts]
        q, k, v, o, first, second = theirs if family == "gpt2" else [weight.T for weight in theirs]
        if family == "gpt2":
            q, k, v = q.split(48, dim=1)
        expected = {name: torch.stack([weight] * M) for name, weight in (("W_q", q), ("W_k", k), ("W_v", v))}
        expected |= {"W_o": torch.cat([o / M] * M), "W_1": first, "W_2": second}
        for name, weight in expected.items():
            assert torch.equal(getattr(mine, name), weight), name


@pytest.mark.parametrize("M", NUMBERS)
def test_copied_layers_start_as_the_attention_of_the_backbone(M: int) -> None:
    """With vectors of ones and no biases the attention is the backbone's, whatever the number of attributes."""
    backbone, method = on("bert", Maa(layers=1, initial="backbone"), M)
    backbone, method = backbone.double(), method.double()
    attention = backbone.encoder.layer[1].attention
    with torch.no_grad():
        for map_ in (attention.self.query, attention.self.key, attention.self.value, attention.output.dense):
            map_.bias.zero_()
    T, layer, real = draw(4, 5, 48), method.layers[0], MASK.bool()[:, None, None, :]
    with recorded(attention.output.dense) as expected:
        attention(T, attention_mask=real)
    e = torch.ones(4, M, 48, dtype=torch.float64)
    W = (layer.W_q, layer.W_k, layer.W_v, layer.W_o)
    found = functional.multi_attribute_attention(T, MASK, e, *W, heads=4)
    assert_same(found, expected[0])


@pytest.mark.parametrize(
    ("family", "config", "message"),
    [
        ("bert", Maa(initial="backbone"), "the stack has 6 layers and the backbone 2 with weights"),
        ("albert", Maa(initial="backbone", layers=2), "the stack has 2 layers and the backbone 1 with weights"),
        ("bert", TinyMaa(initial="backbone"), "layer 2 of the backbone has no q_proj map"),
        ("llama", Maa(initial="backbone", layers=1), "layer 2 of the backbone has no k_proj map"),
        ("modernbert", Maa(initial="backbone", layers=1), "layer 2 of the backbone has no up_proj map"),
    ],
)
def test_what_cannot_be_copied_is_refused(family: str, config: StackConfig, message: str) -> None:
    with pytest.raises(ConfigError, match=f"{config.name}: initial is 'backbone', but .*{message}.*initial=random"):
        on(family, config)


# Planted mistakes


MISTAKES: dict[str, dict[str, Any]] = {
    "none": {},
    "scaled by the whole size": {"queries": 1 / math.sqrt(3)},
    "no attributes in the values": {"in_values": False},
    "an unknown of zeros": {"unknown": False},
    "padding counts": {"mask": torch.ones_like(MASK)},
    "one head": {"heads": 1},
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_planted_mistakes_are_seen(mistake: str) -> None:
    planted: dict[str, Any] = {"queries": 1, "in_values": True, "unknown": True, "mask": MASK, "heads": 3}
    planted |= MISTAKES[mistake]
    method, ids, hidden = build(Maa(layers=2, inner=7), 2), make_batch(2)["attribute_ids"], draw(4, 5, 12)
    layers = method.get_submodule("layers")

    def enlarge_queries(factor: float) -> None:
        with torch.no_grad():
            for layer in layers.children():
                layer.W_q.mul_(factor)

    enlarge_queries(2)
    found = method.encode(hidden, MASK, method.condition(ids, 4))
    enlarge_queries(planted.pop("queries"))
    vectors = row_vectors(method.tables, slots_of(2), ids, unknown=planted.pop("unknown"))
    expected = slow_stack(layers, hidden, planted.pop("mask"), vectors, **planted)
    (assert_same if mistake == "none" else assert_apart)(found, expected)


@pytest.mark.parametrize("mistake", ["none", "attributes side by side in each head", "attribute before the projection"])
def test_planted_mistakes_in_the_attention_are_seen(mistake: str) -> None:
    T, e, W, W_o = draw(5, 6), draw(2, 6), [draw(2, 6, 6) for _ in range(3)], draw(12, 6)
    found = functional.multi_attribute_attention(T[None], MASK[:1], e[None], *W, W_o, heads=2)
    attributes = e.tolist()
    if mistake == "attribute before the projection":
        attributes, W = None, [matrices * e.unsqueeze(2) for matrices in W]
    elif mistake == "attributes side by side in each head":
        W_o = W_o.view(2, 2, 3, 6).transpose(0, 1).flatten(0, 2)
    lists = [matrix.tolist() for matrix in (*W, W_o)]
    expected = slow_attention(T.tolist(), MASK[0].tolist(), attributes, *lists, heads=2)
    (assert_same if mistake == "none" else assert_apart)(found[0], expected)

"""Fusion by concatenation, of the document or of every token, against loops written from MA-BERT, in float64."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import pytest
import torch
from hosts import make_host
from slow_layers import Matrix, assert_apart, assert_same, draw, from_right, slow_heads, slow_norm
from slow_layers import Vector as Row
from tiny_models import NUMBERS, at_random, exactly, make_batch, make_model, recorded, row_vectors, slots_of
from torch import Tensor, nn

from attribune import functional
from attribune.errors import ConfigError
from attribune.methods import ConcatText, ConcatWord, Method

MASK = torch.tensor([[1, 1, 1, 1, 1], [1, 1, 0, 0, 0], [0, 0, 1, 1, 1], [0, 1, 0, 0, 1]])


# The paper, slowly


def slow_fusion(h: Row, vectors: Sequence[Row], W: Matrix) -> Row:
    """tanh(W [h; a_1; ...; a_M])."""
    long = [*h, *(number for vector in vectors for number in vector)]
    assert len(long) == len(W[0])
    return [math.tanh(sum(w * x for w, x in zip(row, long, strict=True))) for row in W]


def slow_layer(layer: nn.Module, states: Matrix, real: list[int], heads: int) -> Matrix:
    """One plain post-norm Transformer layer, with ReLU and without biases in the attention."""
    p = {name: parameter.tolist() for name, parameter in layer.named_parameters()}
    (W_q,), (W_k,), (W_v,) = p["W_q"], p["W_k"], p["W_v"]
    Q, K, V = ([from_right(x, W) for x in states] for W in (W_q, W_k, W_v))
    result = []
    for x, U in zip(states, slow_heads(Q, K, V, real, heads), strict=True):
        added = [a + b for a, b in zip(from_right(U, p["W_o"]), x, strict=True)]
        Y = slow_norm(added, p["gain_1"], p["bias_1"], eps=1e-12)
        inner = [max(0.0, a + b) for a, b in zip(from_right(Y, p["W_1"]), p["b_1"], strict=True)]
        outer = [a + b + y for a, b, y in zip(from_right(inner, p["W_2"]), p["b_2"], Y, strict=True)]
        result.append(slow_norm(outer, p["gain_2"], p["bias_2"], eps=1e-12))
    return result


def slow_text(method: Method, document: Tensor, vectors: list[list[Row]]) -> Tensor:
    W = method.get_parameter("W").tolist()
    rows = [slow_fusion(h, mine, W) for h, mine in zip(document.tolist(), vectors, strict=True)]
    return torch.tensor(rows, dtype=torch.float64)


def slow_word(method: Method, hidden: Tensor, mask: Tensor, vectors: list[list[Row]], *, heads: int) -> Tensor:
    W = method.get_parameter("W").tolist()
    rows = []
    for h, real, mine in zip(hidden.tolist(), mask.tolist(), vectors, strict=True):
        states = [slow_fusion(x, mine, W) for x in h]
        for layer in method.get_submodule("layers"):
            states = slow_layer(layer, states, real, heads)
        rows.append(states)
    return torch.tensor(rows, dtype=torch.float64)


# The function


@pytest.mark.parametrize("M", NUMBERS)
@pytest.mark.parametrize(("H", "Z"), [(7, 3), (3, 7), (4, 4)])
def test_function(M: int, H: int, Z: int) -> None:
    """With as many rows as tokens and features, which would let a wrong broadcast pass."""
    attributes = [draw(4, Z) for _ in range(M)]
    attributes[0][1] = 0
    vectors = [[a[row].tolist() for a in attributes] for row in range(4)]
    W, document, tokens = draw(H, H + M * Z), draw(4, H), draw(4, 4, H)
    found = functional.concatenate(document, torch.cat(attributes, dim=1), W)
    expected = [slow_fusion(document[row].tolist(), vectors[row], W.tolist()) for row in range(4)]
    assert_same(found, expected)
    found = functional.concatenate(tokens, torch.cat(attributes, dim=1), W)
    expected = [[slow_fusion(tokens[row, t].tolist(), vectors[row], W.tolist()) for t in range(4)] for row in range(4)]
    assert_same(found, expected)


# The modules


def build(config: ConcatText | ConcatWord, M: int) -> Method:
    method = config.build(make_host(hidden=12, slots=slots_of(M), heads=3)).double().eval()
    at_random(method, size=0.5)
    return method


@pytest.mark.parametrize("M", NUMBERS)
@pytest.mark.parametrize("size", [None, 5])
@pytest.mark.parametrize("pool", [functional.first_token, functional.last_token, functional.mean_tokens])
def test_text(M: int, size: int | None, pool: Callable[[Tensor, Tensor], Tensor]) -> None:
    method, ids, hidden = build(ConcatText(vector_size=size), M), make_batch(M)["attribute_ids"], draw(4, 5, 12)
    found = method.pool(hidden, MASK, method.condition(ids, 4), pool)
    vectors = row_vectors(method.tables, slots_of(M), ids, unknown=True)
    assert len(vectors[0][0]) == (size or 12)
    assert_same(found, slow_text(method, pool(hidden, MASK), vectors))


@pytest.mark.parametrize("M", NUMBERS)
@pytest.mark.parametrize(("size", "heads", "layers"), [(None, None, 2), (5, 4, 1), (None, 1, 3)])
def test_word(M: int, size: int | None, heads: int | None, layers: int) -> None:
    method = build(ConcatWord(vector_size=size, heads=heads, layers=layers, inner=7), M)
    ids, hidden = make_batch(M)["attribute_ids"], draw(4, 5, 12)
    found = method.encode(hidden, MASK, method.condition(ids, 4))
    vectors = row_vectors(method.tables, slots_of(M), ids, unknown=True)
    assert_same(found, slow_word(method, hidden, MASK, vectors, heads=heads or 3))


@pytest.mark.parametrize("padding", ["right", "left"])
@pytest.mark.parametrize(
    "config", [ConcatText(vector_size=5), ConcatWord(vector_size=5, layers=2)], ids=lambda c: c.name
)
def test_whole_model(config: ConcatText | ConcatWord, padding: str) -> None:
    """The fusion stands between the backbone's last states and the head; sizes unless given are the backbone's."""
    model, batch = exactly(make_model("bert", config)), make_batch(2, padding=padding)
    at_random(model.method, size=0.3)
    with recorded(model.backbone) as states, recorded(model.head) as found:
        model(**batch)
    hidden, mask = states[0].last_hidden_state, batch["attention_mask"]
    vectors = row_vectors(model.method.tables, model.slots, batch["attribute_ids"], unknown=True)
    if isinstance(config, ConcatWord):
        hidden = slow_word(model.method, hidden, mask, vectors, heads=4)
        assert model.method.layers[0].W_1.shape == (48, 59)
    first = [mask[row].tolist().index(1) for row in range(4)]
    document = torch.stack([hidden[row, t] for row, t in enumerate(first)])
    if isinstance(config, ConcatText):
        document = slow_text(model.method, document, vectors)
    assert_same(found[0], document @ model.head.weight.T + model.head.bias)


def test_heads_that_do_not_divide_the_size_are_refused() -> None:
    with pytest.raises(
        ConfigError, match="heads is 5, but the size 12 is not divisible by it: choose 1, 2, 3, 4, 6, 12"
    ):
        ConcatWord(heads=5, inner=7).build(make_host(hidden=12, slots=slots_of(1)))


# Planted mistakes


@pytest.mark.parametrize("mistake", ["none", "an unknown of zeros", "attributes in another order", "no tanh"])
def test_planted_mistakes_are_seen(mistake: str) -> None:
    method, ids, hidden = build(ConcatText(vector_size=5), 2), make_batch(2)["attribute_ids"], draw(4, 5, 12)
    found = method.pool(hidden, MASK, method.condition(ids, 4), functional.first_token)
    vectors = row_vectors(method.tables, slots_of(2), ids, unknown=mistake != "an unknown of zeros")
    if mistake == "attributes in another order":
        vectors = [mine[::-1] for mine in vectors]
    elif mistake == "no tanh":
        found = found.atanh()
    expected = slow_text(method, functional.first_token(hidden, MASK), vectors)
    (assert_same if mistake == "none" else assert_apart)(found, expected)


@pytest.mark.parametrize("mistake", ["none", "padding counts", "scaled by the whole size", "heads are mixed"])
def test_planted_mistakes_in_the_layers_are_seen(mistake: str) -> None:
    method, ids, hidden = build(ConcatWord(layers=1, inner=7), 1), make_batch(1)["attribute_ids"], draw(4, 5, 12)
    queries = method.get_submodule("layers.0").W_q
    queries.data.mul_(3)
    found = method.encode(hidden, MASK, method.condition(ids, 4))
    if mistake == "scaled by the whole size":
        queries.data.div_(math.sqrt(3))
    mask = torch.ones_like(MASK) if mistake == "padding counts" else MASK
    vectors = row_vectors(method.tables, slots_of(1), ids, unknown=True)
    expected = slow_word(method, hidden, mask, vectors, heads=1 if mistake == "heads are mixed" else 3)
    (assert_same if mistake == "none" else assert_apart)(found, expected)

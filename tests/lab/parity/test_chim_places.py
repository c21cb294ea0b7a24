"""Weights of each row at four places of a recurrent model against loops written from Amplayo 2019, in float64."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from slow_layers import (
    Matrix,
    Vector,
    added,
    draw,
    exact_logits,
    gap,
    matrix_times,
    numbers,
    real_words,
    sigmoid,
    slow_attention,
    slow_lstm,
    transposed,
)
from tiny_models import CLASSES, at_random, make_batch, make_model, row_vectors
from torch import Tensor

from attribune import functional
from attribune.functional.recurrent import LSTMWeights, RowLSTMWeights
from attribune.methods import Chim
from attribune.models.model import AttributeModel

TOLERANCE = 1e-10
MASK = torch.tensor([[1, 1, 1, 1, 1, 1], [1, 1, 1, 0, 0, 0], [1, 0, 0, 0, 0, 0], [0, 0, 0, 0, 0, 0]])
SCATTERED = torch.tensor([[1, 1, 1, 1, 1, 1], [0, 1, 0, 1, 1, 0], [0, 0, 0, 0, 0, 1], [0, 0, 0, 0, 0, 0]])


def cut(flat: Vector, columns: int) -> Matrix:
    """Write a vector row by row."""
    return [flat[start : start + columns] for start in range(0, len(flat), columns)]


def slow_weight(c: Vector, Q: Matrix, b_q: Vector, W: Matrix, *, rows: int) -> Matrix:
    """``I ⊙ W`` with ``I[i, j] = sigmoid(q[i mod n, j mod k])`` for a chunk q of n rows."""
    chunk = cut(added(matrix_times(Q, c), b_q), len(b_q) // rows)
    columns = len(chunk[0])
    return [[sigmoid(chunk[i % rows][j % columns]) * W[i][j] for j in range(len(W[0]))] for i in range(len(W))]


@pytest.mark.parametrize(("size", "features", "r"), [(12, 18, 3), (12, 18, 6), (10, 15, 5), (7, 3, 1), (6, 6, 6)])
def test_chunk_importance_weight(size: int, features: int, r: int) -> None:
    n, k = size // r, features // r
    c, Q, b_q, W = draw(4, 5), draw(n * k, 5), draw(n * k), draw(size, features)
    c[2] = 0
    found = functional.chunk_importance_weight(c, Q, b_q, W, repeats=r)
    assert found.shape == (4, size, features)
    for row in range(4):
        expected = slow_weight(c[row].tolist(), Q.tolist(), b_q.tolist(), W.tolist(), rows=n)
        assert gap(found[row], expected) < TOLERANCE


def test_a_chunk_that_is_as_wide_as_the_matrix() -> None:
    """The chunk of a classifier, tiled over the features that it reads alone."""
    c, Q, b_q, W, h = draw(4, 5), draw(4 * 3, 5), draw(4 * 3), draw(12, 3), draw(4, 12)
    weight = functional.chunk_importance_weight(c, Q, b_q, W, repeats=3)
    logits = functional.chunk_importance_logits(h, c, Q, b_q, W, torch.zeros(3).double())
    assert gap((h.unsqueeze(1) @ weight).squeeze(1), logits) < TOLERANCE


def test_a_matrix_that_is_seen_from_the_side() -> None:
    """As the weights of linear layers are."""
    c, Q, b_q, W = draw(4, 5), draw(4 * 6, 5), draw(4 * 6), draw(18, 12).T
    found = functional.chunk_importance_weight(c, Q, b_q, W, repeats=3)
    assert torch.equal(found, functional.chunk_importance_weight(c, Q, b_q, W.contiguous(), repeats=3))


@pytest.mark.parametrize("mistake", ["rows one by one", "columns one by one", "column-major"])
def test_a_chunk_that_is_laid_out_in_another_way_is_another_method(mistake: str) -> None:
    c, Q, b_q, W = draw(4, 5), draw(4 * 6, 5), draw(4 * 6), draw(12, 18)
    q = (c @ Q.T + b_q).sigmoid()
    chunk = q.view(4, 6, 4).mT if mistake == "column-major" else q.view(4, 4, 6)
    rows = chunk.repeat_interleave(3, dim=1) if mistake == "rows one by one" else chunk.repeat(1, 3, 1)
    both = rows.repeat_interleave(3, dim=2) if mistake == "columns one by one" else rows.repeat(1, 1, 3)
    found = functional.chunk_importance_weight(c, Q, b_q, W, repeats=3)
    assert gap(both * W, found) > 1e-3


@pytest.mark.parametrize("mask", [MASK, SCATTERED], ids=["right", "scattered"])
def test_personal_attention_pool(mask: Tensor) -> None:
    hidden, W, b, v = draw(4, 6, 5), draw(4, 5, 3), draw(4, 3), draw(3)
    found = functional.personal_attention_pool(hidden, mask, W, b, v)
    for row in range(3):
        states = [hidden[row, t].tolist() for t in range(6) if mask[row, t]]
        expected = slow_pool(states, W[row].tolist(), b[row].tolist(), v.tolist())
        assert found[row].tolist() == pytest.approx(expected, abs=TOLERANCE)
    assert not found[3].any()


def slow_pool(states: list[Vector], W: Matrix, b: Vector, v: Vector) -> Vector:
    """Attention with ``e_t = v^T tanh(h_t W + b)``."""
    inner = [[math.tanh(x) for x in added(matrix_times(transposed(W), state), b)] for state in states]
    return slow_attention(states, matrix_times(inner, v))


def of_row(weights: RowLSTMWeights, row: int) -> LSTMWeights:
    """The weights of one row as those of a layer, whose second bias is zero."""
    return LSTMWeights(weights.W_x[row].T, weights.W_h[row].T, weights.b[row], torch.zeros_like(weights.b[row]))


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("padding", ["packed", "run"])
@pytest.mark.parametrize("mask", [MASK, SCATTERED], ids=["right", "scattered"])
@pytest.mark.parametrize(("size", "hidden"), [(5, 3), (2, 4)])
def test_lstm_by_row(size: int, hidden: int, mask: Tensor, padding: Any, reverse: bool) -> None:
    weights = RowLSTMWeights(draw(4, size, 4 * hidden), draw(4, hidden, 4 * hidden), draw(4, 4 * hidden))
    x = draw(4, 6, size)
    found = functional.lstm_by_row(x, mask, weights, reverse=reverse, padding=padding)
    expected = torch.zeros(4, 6, hidden, dtype=torch.float64)
    for row in range(4):
        places = [t for t in range(6) if padding == "run" or mask[row, t]]
        places = places[::-1] if reverse else places
        states = slow_lstm([x[row, t].tolist() for t in places], of_row(weights, row))
        for place, state in zip(places, states, strict=True):
            expected[row, place] = torch.tensor(state, dtype=torch.float64)
    assert gap(found, expected) < TOLERANCE


def test_rows_with_the_same_weights_are_those_of_one_layer() -> None:
    one = RowLSTMWeights(draw(1, 5, 12), draw(1, 3, 12), draw(1, 12))
    x, weights = draw(4, 6, 5), RowLSTMWeights(*(part.expand(4, *part.shape[1:]) for part in one))
    found = functional.lstm_by_row(x, SCATTERED, weights, reverse=True)
    assert gap(found, functional.lstm(x, SCATTERED, of_row(one, 0), reverse=True)) < TOLERANCE


def test_gradients_of_rows_stay_apart_and_do_not_reach_padding() -> None:
    weights = RowLSTMWeights(*(draw(4, *shape).requires_grad_() for shape in ((5, 12), (3, 12), (12,))))
    x = draw(4, 6, 5).requires_grad_()
    functional.lstm_by_row(x, SCATTERED, weights)[1].sum().backward()
    for part in weights:
        assert part.grad[1].any()
        assert not part.grad[[0, 2, 3]].any()
    assert x.grad.any(dim=-1).tolist() == [[False] * 6, SCATTERED[1].bool().tolist(), [False] * 6, [False] * 6]


E, H, A, Z, REPEATS = 6, 18, 12, 5, 3
PLACES = ("embedding", "encoder", "attention", "classifier")
CHOICES: list[tuple[str, ...]] = [*((place,) for place in PLACES), PLACES, ("classifier", "encoder")]


def built(places: tuple[str, ...], representation: Any = "chim", **options: Any) -> AttributeModel:
    """A small model with random parameters; the first attribute has several values, the second has one."""
    method = Chim(places=places, representation=representation, repeats=REPEATS, attention_size=A, vector_size=Z)
    backbone = {"embedding_size": E, "hidden_size": H, "projection": True, **options}
    return at_random(make_model("word-bilstm", method, backbone=backbone, dropout=0.0)).double()


def slow_map(own: Any, representation: str, c: Vector, W: Matrix, b: Vector) -> tuple[Matrix, Vector]:
    """The weight (in, out) and the bias of a row, of which its attributes make one or weigh the first."""
    Q, b_q = numbers(own.Q), numbers(own.b_q)
    if representation == "chim":
        return slow_weight(c, Q, b_q, W, rows=len(W) // REPEATS), b
    made = added(matrix_times(Q, c), b_q)
    return (cut(made, len(b)), b) if representation == "matrix" else (W, made)


def affine(x: Vector, W: Matrix, b: Vector) -> Vector:
    """``x W + b``."""
    return added(matrix_times(transposed(W), x), b)


def one_matrix(own: LSTMWeights) -> tuple[Matrix, Vector]:
    """The weight on ``[x_t; h_{t-1}]`` and the one bias of a direction, whose gates are f, i, o, g."""
    inputs, states = transposed(numbers(own.W_ih)), transposed(numbers(own.W_hh))
    h = len(states)
    order = [gate * h + unit for gate in (1, 0, 3, 2) for unit in range(h)]  # in a layer they are i, f, g, o
    bias = added(numbers(own.b_ih), numbers(own.b_hh))
    return [[row[place] for place in order] for row in inputs + states], [bias[place] for place in order]


def slow_direction(words: list[Vector], W: Matrix, b: Vector) -> list[Vector]:
    """One direction with gates f, i, o, g of one map of ``[x_t; h_{t-1}]``."""
    size = len(b) // 4
    h, cell, states = [0.0] * size, [0.0] * size, []
    for word in words:
        f, i, o, g = cut(affine(word + h, W, b), size)
        cell = [sigmoid(f[k]) * cell[k] + sigmoid(i[k]) * math.tanh(g[k]) for k in range(size)]
        h = [sigmoid(o[k]) * math.tanh(cell[k]) for k in range(size)]
        states.append(h)
    return states


def slow_states(model: AttributeModel, words: list[Vector], c: Vector) -> list[Vector]:
    """``tanh(W_e x_t + b_e)``, and the states of all directions over it."""
    backbone, config = model.backbone, model.method_config
    sites = dict(zip((place for place in PLACES[:2] if place in config.places), model.method.sites, strict=True))
    W, b = transposed(numbers(backbone.projection.weight)), numbers(backbone.projection.bias)
    if "embedding" in sites:
        W, b = slow_map(sites["embedding"].weights, config.representation, c, W, b)
    words = [[math.tanh(x) for x in affine(word, W, b)] for word in words]
    states: list[Vector] = [[] for _ in words]
    for number, own in enumerate(backbone.recurrent.directions()):
        W, b = one_matrix(own)
        if "encoder" in sites:
            W, b = slow_map(sites["encoder"].directions[number], config.representation, c, W, b)
        found = slow_direction(words[::-1], W, b)[::-1] if number else slow_direction(words, W, b)
        states = [x + y for x, y in zip(states, found, strict=True)]
    return states


def slow_logits(model: AttributeModel, inputs: dict[str, Tensor]) -> list[Vector]:
    method, config, logits = model.method, model.method_config, []
    for row, vectors in enumerate(row_vectors(method.tables, model.slots, inputs["attribute_ids"])):
        c, words = [x for vector in vectors for x in vector], real_words(model, inputs, row)
        states = slow_states(model, words, c)
        if "attention" in config.places:
            own = method.attention
            W, b = slow_map(own.weights, config.representation, c, numbers(own.W_h), numbers(own.b))
            d = slow_pool(states, W, b, numbers(own.v))
        else:
            d = [max(column) for column in zip(*states, strict=True)]
        W, b = transposed(numbers(model.head.weight)), numbers(model.head.bias)
        if "classifier" in config.places:
            W, b = slow_map(method, config.representation, c, W, b)
        logits.append(affine(d, W, b))
    return logits


def check(model: AttributeModel, inputs: dict[str, Tensor]) -> None:
    assert gap(exact_logits(model, inputs), slow_logits(model, inputs)) < TOLERANCE


@pytest.mark.slow
@pytest.mark.parametrize("representation", ["chim", "matrix", "bias"])
@pytest.mark.parametrize("places", CHOICES, ids="+".join)
def test_logits(places: tuple[str, ...], representation: str) -> None:
    check(built(places, representation), make_batch(2))


@pytest.mark.parametrize("options", [{"bidirectional": False}, {"embedding_size": 9, "hidden_size": 6}], ids=str)
@pytest.mark.parametrize("padding", ["right", "left"])
def test_logits_of_other_sizes(options: dict[str, Any], padding: str) -> None:
    check(built(PLACES, **options), make_batch(2, padding=padding))


def test_the_chunks_of_the_sizes() -> None:
    """An r-th of the rows and columns of each map, but all labels."""
    method = built(PLACES).method
    embedding, encoder = method.sites
    assert len(embedding.weights.b_q) == E // 3 * (E // 3)
    assert [len(own.b_q) for own in encoder.directions] == [(E + H // 2) // 3 * (4 * H // 2 // 3)] * 2
    assert len(method.attention.weights.b_q) == H // 3 * (A // 3)
    assert len(method.b_q) == H // 3 * CLASSES


def test_a_chunk_over_gates_in_another_order_is_another_method(monkeypatch: pytest.MonkeyPatch) -> None:
    """The order of the gates in a layer, and not that of the paper's code."""
    model, inputs = built(("encoder",)), make_batch(2)
    expected = slow_logits(model, inputs)
    monkeypatch.setattr("attribune.methods.chim._reordered", lambda gates, back=False: gates)
    assert gap(exact_logits(model, inputs), expected) > 1e-3


def test_directions_have_chunks_of_their_own() -> None:
    model, inputs = built(("encoder",)), make_batch(2)
    expected = slow_logits(model, inputs)
    (site,) = model.method.sites
    site.directions = torch.nn.ModuleList([*site.directions][::-1])
    assert gap(exact_logits(model, inputs), expected) > 1e-3


def test_a_bias_at_attention_is_attention_with_attributes() -> None:
    """That of Chen et al. 2016."""
    method, inputs, hidden = built(("attention",), "bias").method, make_batch(2), draw(4, 5, H)
    mask, own = inputs["attention_mask"], method.attention
    condition = method.condition(inputs["attribute_ids"], 4)
    weights = own.weights
    expected = functional.attention_pool(hidden, mask, condition.vectors(), own.W_h.T, weights.Q, weights.b_q, own.v)
    found = method.pool(hidden, mask, condition, functional.max_tokens)
    assert gap(found, expected) < TOLERANCE


@pytest.mark.slow
@pytest.mark.parametrize("representation", ["chim", "matrix", "bias"])
@pytest.mark.parametrize("places", CHOICES, ids="+".join)
def test_what_the_attributes_make_is_not_learned_beside(places: tuple[str, ...], representation: str) -> None:
    """All that is trained has a gradient, which training by several processes needs."""
    model = built(places, representation).train()
    model(**make_batch(2), labels=torch.tensor([0, 1, 2, 0])).loss.backward()
    assert [name for name, one in model.named_parameters() if one.requires_grad and one.grad is None] == []
    assert [name for name, one in model.named_parameters() if not one.requires_grad] == list(model.method.unused)

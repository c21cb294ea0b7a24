"""Mixtures of parameters against loops written from Kim et al. 2019, in float64."""

from __future__ import annotations

import math
from collections.abc import Callable
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
    slow_attention,
    slow_states,
    transposed,
)
from tiny_models import CLASSES, at_random, make_batch, make_model, row_vectors
from torch import Tensor

from attribune.functional import attention_pool
from attribune.functional.recurrent import LSTMWeights
from attribune.models.model import AttributeModel
from attribune_lab import functional
from attribune_lab.methods import Basis

TOLERANCE = 1e-10
MASK = torch.tensor([[1, 1, 1, 1, 1], [1, 1, 0, 0, 0], [0, 1, 0, 0, 1], [0, 0, 0, 0, 0]])


def slow_shares(a: Vector, W_q: Matrix, b_q: Vector, K: Matrix) -> Vector:
    """``softmax(K tanh(W_q a + b_q))``."""
    scores = matrix_times(K, [math.tanh(x) for x in added(matrix_times(W_q, a), b_q)])
    total = sum(map(math.exp, scores))
    return [math.exp(score) / total for score in scores]


def slow_mixture(s: Vector, B_n: Any, B_0: Any = None) -> Any:
    """``sum_n s_n B_n + B_0`` of numbers, vectors or matrices, number by number."""
    if isinstance(B_n[0], list):
        rest = [None] * len(B_n[0]) if B_0 is None else B_0
        parts = zip(zip(*B_n, strict=True), rest, strict=True)
        return [slow_mixture(s, part, own) for part, own in parts]
    return sum(w * x for w, x in zip(s, B_n, strict=True)) + (0.0 if B_0 is None else B_0)


@pytest.mark.parametrize(("N", "A", "width"), [(4, 5, 3), (2, 3, 7), (1, 2, 5)])
def test_basis_coefficients(N: int, A: int, width: int) -> None:
    a, W_q, b_q, K = draw(3, width), draw(A, width), draw(A), draw(N, A)
    a[1] = 0  # nothing is known
    found = functional.basis_coefficients(a, W_q, b_q, K)
    for row in range(3):
        expected = slow_shares(a[row].tolist(), W_q.tolist(), b_q.tolist(), K.tolist())
        assert found[row].tolist() == pytest.approx(expected, abs=TOLERANCE)
        assert sum(found[row].tolist()) == pytest.approx(1)


@pytest.mark.parametrize("shape", [(5,), (3, 7), (2, 3, 5)])
@pytest.mark.parametrize("has_rest", [True, False])
def test_mixed_bases(shape: tuple[int, ...], has_rest: bool) -> None:
    s, B_n, B_0 = draw(3, 4), draw(4, *shape), draw(*shape) if has_rest else None
    found = functional.mixed_bases(s, B_n, B_0)
    assert found.shape == (3, *shape)
    for row in range(3):
        expected = slow_mixture(s[row].tolist(), B_n.tolist(), None if B_0 is None else B_0.tolist())
        assert gap(found[row], expected) < TOLERANCE


def test_customised_words() -> None:
    x, theta = draw(3, 6, 5), draw(3, 5, 5)
    found = functional.customised_words(x, theta)
    for row in range(3):
        for t in range(6):
            word, columns = x[row, t].tolist(), transposed(theta[row].tolist())
            expected = [own + math.tanh(y) for own, y in zip(word, matrix_times(columns, word), strict=True)]
            assert found[row, t].tolist() == pytest.approx(expected, abs=TOLERANCE)


def test_the_transposed_matrix_is_another_method() -> None:
    x, theta = draw(3, 6, 5), draw(3, 5, 5)
    assert gap(functional.customised_words(x, theta.mT), functional.customised_words(x, theta)) > 1e-3


def test_context_attention_pool() -> None:
    hidden, z = draw(4, 5, 3), draw(4, 3)
    found = functional.context_attention_pool(hidden, MASK, z)
    for row in range(3):
        states = [hidden[row, t].tolist() for t in range(5) if MASK[row, t]]
        expected = slow_attention(states, matrix_times(states, z[row].tolist()))
        assert found[row].tolist() == pytest.approx(expected, abs=TOLERANCE)
    assert not found[3].any()


def test_scores_are_the_products_themselves() -> None:
    """Without the tanh that other attentions have."""
    hidden, z = draw(4, 5, 3), draw(4, 3)
    wrong = attention_pool(hidden, MASK, z[:, :0], torch.eye(3).double(), draw(3, 0), 0 * z[0], z[0])
    found = functional.context_attention_pool(hidden, MASK, z[:1].expand(4, -1))
    assert gap(wrong, found) > 1e-3


E, H, Z, N = 6, 10, 7, 3
PLACES = ("word", "encoder", "attention", "linear", "bias")


def built(place: Any, *, direct: bool = False, **options: Any) -> AttributeModel:
    """A small model with random parameters; the first attribute has several values, the second has one."""
    method = Basis(place=place, direct=direct, bases=N, vector_size=Z)
    backbone = {"embedding_size": E, "hidden_size": H, **options}
    return at_random(make_model("word-bilstm", method, backbone=backbone, dropout=0.0)).double()


def shares_of(model: AttributeModel, vectors: list[Vector]) -> Vector:
    own = model.method.shares
    return slow_shares([x for a in vectors for x in a], numbers(own.W_q), numbers(own.b_q), numbers(own.K))


def slow_word(model: AttributeModel, word: Vector, vectors: list[Vector]) -> Vector:
    """``x + tanh(x theta)``; a value's own vector is its theta, row by row, and those of several add up."""
    if model.method_config.direct:
        flat = added(*vectors)
        theta = [flat[start : start + E] for start in range(0, E * E, E)]
    else:
        theta = slow_mixture(shares_of(model, vectors), numbers(model.method.B_n), numbers(model.method.B_0))
    return [x + math.tanh(y) for x, y in zip(word, matrix_times(transposed(theta), word), strict=True)]


def mixed_direction(model: AttributeModel, number: int, vectors: list[Vector]) -> LSTMWeights:
    """The weights of a direction for a row: W_ih, W_hh and one bias, each a mixture without a rest."""
    bases = model.method.sites[0].B_n
    W_x, W_h, b = (slow_mixture(shares_of(model, vectors), numbers(bases[3 * number + part])) for part in range(3))
    tensors = [torch.tensor(part, dtype=torch.float64) for part in (transposed(W_x), transposed(W_h), b)]
    return LSTMWeights(*tensors, torch.zeros_like(tensors[2]))


def directions_of(model: AttributeModel, vectors: list[Vector]) -> list[LSTMWeights]:
    directions = model.backbone.recurrent.directions()
    if model.method_config.place != "encoder":
        return directions
    return [mixed_direction(model, number, vectors) for number in range(len(directions))]


def context_of(model: AttributeModel, vectors: list[Vector]) -> Vector:
    """z, which is that of the row where it is customised."""
    method, config = model.method, model.method_config
    if config.place != "attention":
        return numbers(method.z)
    if config.direct:
        return [x for a in vectors for x in a]
    return slow_mixture(shares_of(model, vectors), numbers(method.B_n), numbers(method.z))


def slow_head(model: AttributeModel, d: Vector, vectors: list[Vector]) -> Vector:
    """``W d + y``, where W or y is that of the row."""
    method, config = model.method, model.method_config
    W, y = numbers(model.head.weight), numbers(model.head.bias)
    if config.place == "linear" and config.direct:
        flat = added(*vectors)
        W = transposed([flat[start : start + CLASSES] for start in range(0, H * CLASSES, CLASSES)])
    elif config.place == "linear":
        W = transposed(slow_mixture(shares_of(model, vectors), numbers(method.B_n), transposed(W)))
    elif config.place == "bias" and config.direct:
        y = matrix_times(numbers(method.Y), [x for a in vectors for x in a])
    elif config.place == "bias":
        theta = slow_mixture(shares_of(model, vectors), numbers(method.B_n), numbers(method.B_0))
        y = matrix_times(numbers(method.Y), theta)
    return added(matrix_times(W, d), y)


def slow_logits(model: AttributeModel, inputs: dict[str, Tensor]) -> list[Vector]:
    logits = []
    for row, vectors in enumerate(row_vectors(model.method.tables, model.slots, inputs["attribute_ids"])):
        words = real_words(model, inputs, row)
        if model.method_config.place == "word":
            words = [slow_word(model, word, vectors) for word in words]
        states = slow_states(directions_of(model, vectors), words)
        d = slow_attention(states, matrix_times(states, context_of(model, vectors)))
        logits.append(slow_head(model, d, vectors))
    return logits


def check(model: AttributeModel, inputs: dict[str, Tensor]) -> None:
    assert gap(exact_logits(model, inputs), slow_logits(model, inputs)) < TOLERANCE


@pytest.mark.parametrize("padding", ["right", "left"])
@pytest.mark.parametrize("place", ["word", "encoder", "attention", "linear", "bias"])
def test_mixtures(place: str, padding: str) -> None:
    check(built(place), make_batch(2, padding=padding))


def test_a_recurrent_layer_of_one_direction() -> None:
    check(built("encoder", bidirectional=False), make_batch(2))


def test_the_own_weights_of_the_recurrent_layer_are_not_read() -> None:
    model, inputs = built("encoder"), make_batch(2)
    before = exact_logits(model, inputs)
    at_random(model.backbone.recurrent)
    assert torch.equal(exact_logits(model, inputs), before)


@pytest.mark.parametrize("place", ["word", "attention", "linear", "bias"])
def test_values_whose_vectors_are_the_parameter(place: str) -> None:
    check(built(place, direct=True), make_batch(2))


def swapped_bases(model: AttributeModel) -> None:
    model.method.B_n.copy_(model.method.B_n.roll(1, dims=0))


def other_keys(model: AttributeModel) -> None:
    model.method.shares.K.copy_(model.method.shares.K.roll(1, dims=0))


def attributes_in_another_order(model: AttributeModel) -> None:
    model.method.shares.W_q.copy_(model.method.shares.W_q.roll(Z, dims=1))


@pytest.mark.parametrize("mistake", [swapped_bases, other_keys, attributes_in_another_order])
@pytest.mark.parametrize("place", ["word", "attention", "linear"])
def test_a_mistake_is_seen(place: str, mistake: Callable[[AttributeModel], None]) -> None:
    model, inputs = built(place), make_batch(2)
    expected = slow_logits(model, inputs)
    with torch.no_grad():
        mistake(model)
    assert gap(exact_logits(model, inputs), expected) > 1e-3

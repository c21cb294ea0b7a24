"""Attention pooling against loops written from Chen et al. 2016, equations 2 and 3, in float64."""

from __future__ import annotations

import math

import pytest
import torch
from hosts import make_host
from slow_layers import assert_same, draw
from tiny_models import make_batch, row_vectors, slots_of
from torch import Tensor

from attribune import functional
from attribune.methods import Upa


def slow_pool(hidden: Tensor, mask: Tensor, attributes: list[Tensor], weights: list[Tensor], **p: Tensor) -> Tensor:
    """Score every real token, normalise over the real tokens of its text, add up: number by number."""
    W_h, b, v = (p[name].tolist() for name in ("W_h", "b", "v"))
    h, real = hidden.tolist(), mask.tolist()
    result = torch.zeros(hidden.shape[0], hidden.shape[2], dtype=torch.float64)
    for row in range(hidden.shape[0]):
        scores: dict[int, float] = {}
        for t in range(hidden.shape[1]):
            if not real[row][t]:
                continue
            score = 0.0
            for i in range(len(v)):
                inner = b[i] + sum(W_h[i][k] * h[row][t][k] for k in range(hidden.shape[2]))
                for a, W in zip(attributes, weights, strict=True):
                    inner += sum(float(W[i, k]) * float(a[row, k]) for k in range(a.shape[1]))
                score += v[i] * math.tanh(inner)
            scores[t] = score
        total = sum(math.exp(score) for score in scores.values())
        for t, score in scores.items():
            for k in range(hidden.shape[2]):
                result[row, k] += math.exp(score) / total * h[row][t][k]
    return result


MASK = torch.tensor([[1, 1, 1, 1, 1], [1, 1, 0, 0, 0], [0, 0, 1, 0, 1], [0, 0, 0, 0, 1]])


@pytest.mark.parametrize("M", [1, 2, 4])
@pytest.mark.parametrize(("H", "A", "Z"), [(11, 7, 5), (5, 11, 7), (3, 1, 2)])
def test_function(M: int, H: int, A: int, Z: int) -> None:
    hidden, attributes, weights = draw(4, 5, H), [draw(4, Z) for _ in range(M)], [draw(A, Z) for _ in range(M)]
    attributes[0][1] = 0  # a missing value
    p = {"W_h": draw(A, H), "b": draw(A), "v": draw(A)}
    found = functional.attention_pool(
        hidden, MASK, torch.cat(attributes, dim=1), p["W_h"], torch.cat(weights, dim=1), p["b"], p["v"]
    )
    assert_same(found, slow_pool(hidden, MASK, attributes, weights, **p))


def test_a_row_without_a_real_token_gives_zeros_and_finite_gradients() -> None:
    hidden = draw(2, 3, 5).requires_grad_()
    mask = torch.tensor([[0, 0, 0], [1, 1, 0]])
    found = functional.attention_pool(hidden, mask, draw(2, 4), draw(7, 5), draw(7, 4), draw(7), draw(7))
    assert (found[0] == 0).all()
    found.sum().backward()
    assert torch.isfinite(hidden.grad).all()
    assert (hidden.grad[1, 2] == 0).all()


def test_module_with_several_and_missing_values() -> None:
    host = make_host(hidden=11, sites=2, outputs=3, slots=slots_of(2))
    method = Upa(attention_size=7, vector_size=5, initial_vector=1.0).build(host).double().eval()
    with torch.no_grad():
        method.get_parameter("b").normal_()
    ids, hidden = make_batch(2)["attribute_ids"], draw(4, 5, 11)
    vectors = torch.tensor(row_vectors(method.tables, slots_of(2), ids), dtype=torch.float64)
    W = method.get_parameter("W").detach()
    p = {name: method.get_parameter(name).detach() for name in ("W_h", "b", "v")}
    expected = slow_pool(hidden, MASK, list(vectors.unbind(dim=1)), [W[:, :5], W[:, 5:]], **p)
    assert_same(method.pool(hidden, MASK, method.condition(ids, 4), functional.first_token), expected)

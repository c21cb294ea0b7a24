"""Chunk-wise importance matrices against loops written from Amplayo 2019, in float64."""

from __future__ import annotations

import math

import pytest
import torch
from hosts import make_host
from slow_layers import assert_apart, assert_same, draw
from tiny_models import make_batch, row_vectors, slots_of
from torch import Tensor, nn

from attribune import functional
from attribune.errors import ConfigError
from attribune.methods import Chim
from attribune.methods.chim import divisor


def slow_logits(h: Tensor, c: Tensor, Q: Tensor, b_q: Tensor, W: Tensor, b: Tensor) -> Tensor:
    """Make the whole importance matrix of every row, the chunk laid out again and again, and multiply."""
    H, L = W.shape
    N = Q.shape[0] // L
    result = torch.empty(h.shape[0], L, dtype=torch.float64)
    for row in range(h.shape[0]):
        flat = [float(b_q[k]) + sum(float(Q[k, j]) * float(c[row, j]) for j in range(c.shape[1])) for k in range(N * L)]
        chunk = [[flat[i * L + label] for label in range(L)] for i in range(N)]
        for label in range(L):
            logit = float(b[label])
            for i in range(H):
                importance = 1 / (1 + math.exp(-chunk[i % N][label]))
                logit += float(h[row, i]) * importance * float(W[i, label])
            result[row, label] = logit
    return result


@pytest.mark.parametrize("M", [1, 2, 4])
@pytest.mark.parametrize(("H", "r", "L"), [(12, 3, 5), (12, 1, 2), (12, 12, 3), (30, 15, 7)])
def test_function(M: int, H: int, r: int, L: int) -> None:
    N = H // r
    h, c = draw(4, H), draw(4, 5 * M)
    c[2] = 0
    p = {"Q": draw(N * L, 5 * M), "b_q": draw(N * L), "W": draw(H, L), "b": draw(L)}
    assert_same(functional.chunk_importance_logits(h, c, **p), slow_logits(h, c, **p))


def test_a_chunk_whose_rows_are_repeated_one_by_one_is_another_method() -> None:
    h, c, p = draw(3, 12), draw(3, 5), {"Q": draw(8, 5), "b_q": draw(8), "W": draw(12, 2), "b": draw(2)}
    importance = torch.sigmoid(c @ p["Q"].T + p["b_q"]).view(3, 4, 2).repeat_interleave(3, dim=1)
    wrong = torch.einsum("bi,bil,il->bl", h, importance, p["W"]) + p["b"]
    assert_apart(functional.chunk_importance_logits(h, c, **p), wrong)


def test_module_with_several_and_missing_values() -> None:
    host = make_host(hidden=12, sites=2, outputs=3, slots=slots_of(2))
    method = Chim(repeats=3, vector_size=5, initial_vector=1.0).build(host).double().eval()
    head, ids = nn.Linear(12, 3).double(), make_batch(2, rows=(0, 1, 2))["attribute_ids"]
    c = torch.tensor(row_vectors(method.tables, slots_of(2), ids), dtype=torch.float64).flatten(1)
    h = draw(3, 12)
    Q, b_q = method.get_parameter("Q").detach(), method.get_parameter("b_q").detach()
    expected = slow_logits(h, c, Q, b_q, head.weight.detach().T, head.bias.detach())
    assert_same(method.classify(h, method.condition(ids, 3), head), expected)


def test_the_number_of_repeats() -> None:
    assert [divisor(hidden, None) for hidden in (300, 768, 384, 1024, 7)] == [15, 16, 16, 16, 7]
    assert divisor(768, 12) == 12
    with pytest.raises(ConfigError, match=r"768 is not divisible by it: choose one of 1, 2, 3, 4, 6, 8, 12, 16"):
        divisor(768, 15)

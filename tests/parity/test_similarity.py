"""Similarity: the cosine, and the losses that learn it, against slow loops over rows, in float64."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
import torch
from slow_layers import assert_apart, assert_same
from torch import Tensor

from attribune.functional import cosine_similarity, multiple_negatives_loss, triplet_margin_loss
from attribune.tasks import Similarity

ROWS, SIZE, SCALE, MARGIN = 7, 11, 13.0, 0.3
TEXTS = [4, 9, 4, 2, 9, 1, 4]  # equal numbers for equal second texts


def given(seed: int = 0) -> tuple[Tensor, Tensor, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    u, p, n = (torch.randn(ROWS, SIZE, generator=generator, dtype=torch.float64) for _ in range(3))
    return u, 3 * p + u, 0.2 * n + u


def slow_cosine(u: list[float], v: list[float]) -> float:
    """u v / (|u| |v|), section 3 of Reimers and Gurevych 2019."""
    lengths = [math.sqrt(sum(number * number for number in x)) for x in (u, v)]
    return sum(a * b for a, b in zip(u, v, strict=True)) / lengths[0] / lengths[1]


def slow_multiple_negatives(u: list[list[float]], v: list[list[float]]) -> list[float]:
    """-log of the share of the own response among exp(S(x_i, y_j)), without those that are the same text."""
    losses = []
    for i, x in enumerate(u):
        S = [SCALE * slow_cosine(x, y) for y in v]
        others = [j for j in range(len(v)) if j == i or TEXTS[j] != TEXTS[i]]
        losses.append(-math.log(math.exp(S[i]) / sum(math.exp(S[j]) for j in others)))
    return losses


def slow_triplets(u: list[list[float]], p: list[list[float]], n: list[list[float]]) -> list[float]:
    """max(0, |f(a) - f(p)|² - |f(a) - f(n)|² + α) of embeddings f on the unit sphere."""

    def unit(x: list[float]) -> list[float]:
        length = math.sqrt(sum(number * number for number in x))
        return [number / length for number in x]

    def distance(x: list[float], y: list[float]) -> float:
        return sum((a - b) ** 2 for a, b in zip(unit(x), unit(y), strict=True))

    return [max(0.0, distance(a, near) - distance(a, far) + MARGIN) for a, near, far in zip(u, p, n, strict=True)]


def test_the_cosine_is_that_of_a_slow_loop() -> None:
    u, v, _ = given()
    expected = [slow_cosine(*pair) for pair in zip(u.tolist(), v.tolist(), strict=True)]
    assert_same(cosine_similarity(u, v), expected)
    assert_apart(cosine_similarity(u, v.roll(1, 0)), expected)
    assert cosine_similarity(torch.zeros_like(u), v).tolist() == [0.0] * ROWS


def test_the_loss_with_multiple_negatives_is_that_of_a_slow_loop() -> None:
    u, v, _ = given()
    texts = torch.tensor(TEXTS)
    found = multiple_negatives_loss(u, v, texts, scale=SCALE)
    expected = slow_multiple_negatives(u.tolist(), v.tolist())
    assert_same(found, expected)
    for wrong in ((u, v, torch.arange(ROWS)), (v, u, texts)):
        assert_apart(multiple_negatives_loss(*wrong, scale=SCALE), expected)
    task = Similarity(form="pairs", scale=SCALE, size=SIZE)
    logits = task.codec.logits(torch.stack([u, v], dim=1))
    assert logits.shape == (ROWS, task.outputs)
    assert_same(task.row_losses(logits, texts), found)
    assert_same(task.loss(logits, texts), found.mean())


def test_the_triplet_loss_is_that_of_a_slow_loop() -> None:
    """Where the near text is nearer, and where it is not: rows beyond the margin have no loss."""
    u, p, n = given()
    task, losses = Similarity(form="triplets", margin=MARGIN), []
    for near, far in ((p, n), (n, p)):
        cosines = cosine_similarity(u, near), cosine_similarity(u, far)
        expected = slow_triplets(u.tolist(), near.tolist(), far.tolist())
        assert_same(triplet_margin_loss(*cosines, margin=MARGIN), expected)
        assert_apart(triplet_margin_loss(*cosines[::-1], margin=MARGIN), expected)
        logits = task.codec.logits(torch.stack([u, near, far], dim=1))
        assert_same(logits, torch.stack(cosines, dim=1))
        assert_same(task.row_losses(logits, torch.zeros(ROWS, dtype=torch.long)), expected)
        losses += expected
    assert_apart(2 * (cosines[1] - cosines[0]) + MARGIN, expected)  # not cut off at the margin
    assert min(losses) == 0 < max(losses)


def test_scores_are_learned_by_the_squared_error_of_the_cosine() -> None:
    u, v, _ = given()
    scores, task = torch.linspace(-1, 1, ROWS, dtype=torch.float64), Similarity(form="scores")
    logits = task.codec.logits(torch.stack([u, v], dim=1))
    cosines = [slow_cosine(*pair) for pair in zip(u.tolist(), v.tolist(), strict=True)]
    expected = [(cosine - score) ** 2 for cosine, score in zip(cosines, scores.tolist(), strict=True)]
    assert_same(task.row_losses(logits, scores), expected)
    assert_apart(task.row_losses(logits, scores.flip(0)), expected)
    assert float(task.loss(logits, scores)) == pytest.approx(sum(expected) / ROWS, abs=1e-10)


@pytest.mark.slow
@pytest.mark.parametrize(
    "function",
    [
        lambda u, v: cosine_similarity(u, v),
        lambda u, v: multiple_negatives_loss(u, v, torch.tensor(TEXTS), scale=2.0),
    ],
)
def test_gradients_are_those_of_finite_differences(function: Callable[..., Tensor]) -> None:
    u, v, _ = given(1)
    assert torch.autograd.gradcheck(function, (u.requires_grad_(), v.detach().requires_grad_()))


def test_a_row_alone_has_no_negatives_and_no_loss() -> None:
    u, v, _ = (x[:1].requires_grad_() for x in given())
    loss = multiple_negatives_loss(u, v, torch.tensor([3]), scale=SCALE)
    (gradient,) = torch.autograd.grad(loss.sum(), u)
    assert loss.tolist() == [0.0]
    assert gradient.abs().max() == 0

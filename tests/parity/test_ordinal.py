"""Ordered answers: every equation against a slow loop over rows and answers, in float64."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from attribune.functional import cut_points, ordinal_log_probabilities


def slow_cut_points(first: float, delta: list[float]) -> list[float]:
    points = [first]
    for one in delta:
        points.append(points[-1] + math.log1p(math.exp(one)))
    return points


def slow_probabilities(score: float, points: list[float], a: float, b: float) -> list[float]:
    below = [1 / (1 + math.exp(-math.exp(a) * (point + b - score))) for point in points]
    return [high - low for low, high in zip([0.0, *below], [*below, 1.0], strict=True)]


def given(rows: int, answers: int, seed: int = 0) -> dict[str, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    draw = lambda *shape: torch.randn(*shape, generator=generator, dtype=torch.float64)  # noqa: E731
    return {"score": 2 * draw(rows), "first": draw(1) - 1, "delta": draw(answers - 2), "a": draw(rows), "b": draw(rows)}


@pytest.mark.parametrize("answers", [2, 3, 7])
@pytest.mark.parametrize("personal", [False, True])
def test_probabilities_are_those_of_a_slow_loop(answers: int, personal: bool) -> None:
    x = given(9, answers)
    options = {name: x[name] for name in ("a", "b")} if personal else {}
    found = ordinal_log_probabilities(x["score"], x["first"], x["delta"], **options)
    points = slow_cut_points(float(x["first"]), x["delta"].tolist())
    torch.testing.assert_close(cut_points(x["first"], x["delta"]), torch.tensor(points, dtype=torch.float64))
    for row in range(9):
        a, b = (float(x[name][row]) if personal else 0.0 for name in ("a", "b"))
        expected = torch.tensor(slow_probabilities(float(x["score"][row]), points, a, b), dtype=torch.float64)
        torch.testing.assert_close(found[row].exp(), expected, rtol=1e-10, atol=1e-12)
    torch.testing.assert_close(found.exp().sum(dim=1), torch.ones(9, dtype=torch.float64), rtol=0, atol=1e-12)


def test_far_from_all_cut_points_the_logarithms_are_exact() -> None:
    """Where σ(z_k) - σ(z_{k-1}) is 0 in floating point: 40 below, log p_2 is that of the tail, and not -inf."""
    score = torch.tensor([-40.0, 40.0], dtype=torch.float64)
    first, delta = torch.tensor([0.0], dtype=torch.float64), torch.tensor([math.log(math.e - 1)], dtype=torch.float64)
    found = ordinal_log_probabilities(score, first, delta)  # cut points at 0 and 1
    tail = math.log(1 - math.exp(-1))
    assert found[0].tolist() == pytest.approx([-math.exp(-40), -40 + tail, -41], rel=1e-12)
    assert found[1].tolist() == pytest.approx([-40, -39 + tail, -math.exp(-39)], rel=1e-12)
    tiny = torch.full((1,), -30.0, dtype=torch.float32)  # two cut points that are nearly one
    near = ordinal_log_probabilities(torch.zeros(1), torch.zeros(1), tiny)
    assert near[0, 1].item() == pytest.approx(-30 + math.log(0.25), abs=1e-4)


def test_gradients_are_those_of_finite_differences() -> None:
    x = {name: value.requires_grad_() for name, value in given(4, 5, seed=1).items()}

    def called(score: Tensor, first: Tensor, delta: Tensor, a: Tensor, b: Tensor) -> Tensor:
        return ordinal_log_probabilities(score, first, delta, a=a, b=b)

    assert torch.autograd.gradcheck(called, tuple(x.values()))

"""The evidence of a prior against the marginal likelihood of linear models, and Newton's steps to the mode."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from attribune.functional import value_log_evidence, value_mode_step


def given(values: int, rows: int, variance: float) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(rows)
    X = torch.randn(values, rows, 5, generator=generator, dtype=torch.float64)
    return variance * X @ X.transpose(1, 2), torch.randn(values, rows, generator=generator, dtype=torch.float64)


@pytest.mark.parametrize("rows", [1, 3, 9])
@pytest.mark.parametrize("variance", [1e-3, 0.5, 40.0])
def test_evidence_is_the_marginal_likelihood_of_a_linear_model(rows: int, variance: float) -> None:
    """r = X u + noise, u ~ N(0, variance I): log N(r; 0, I + variance XX') by slow loops; one step is enough."""
    K, r = given(4, rows, variance)
    W, start = torch.eye(rows, dtype=torch.float64).expand(4, -1, -1), torch.zeros_like(r)
    a = value_mode_step(start, -r, K, W)
    error = r - (K @ a.unsqueeze(2)).squeeze(2)
    torch.testing.assert_close(a, error, rtol=1e-10, atol=1e-12)  # where the gradient of the objective is zero
    found = value_log_evidence(error.square().sum(dim=1) / 2, a, K, W)
    for value in range(4):
        covariance = (K[value] + torch.eye(rows)).tolist()
        logdet, solved = _solved(covariance, r[value].tolist())
        product = sum(x * y for x, y in zip(r[value].tolist(), solved, strict=True))
        assert float(found[value]) == pytest.approx(-0.5 * (product + logdet), rel=1e-10, abs=1e-12)


def test_steps_go_to_the_mode_of_a_classifier() -> None:
    """Where the gradient of loss and prior is zero: a = -g, for two classes and rows of one value each."""
    K, r = given(3, 4, 2.0)
    y = (r > 0).double()
    a = torch.zeros_like(r)
    for _ in range(30):
        p = torch.sigmoid((K @ a.unsqueeze(2)).squeeze(2))
        a = value_mode_step(a, p - y, K, torch.diag_embed(p * (1 - p)))
    p = torch.sigmoid((K @ a.unsqueeze(2)).squeeze(2))
    torch.testing.assert_close(a, y - p, rtol=1e-10, atol=1e-12)


def _solved(K: list[list[float]], r: list[float]) -> tuple[float, list[float]]:
    """The logarithm of the determinant, and the solution, by Gaussian elimination."""
    n, logdet = len(r), 0.0
    rows = [[*row, value] for row, value in zip(K, r, strict=True)]
    for i in range(n):
        logdet += math.log(rows[i][i])
        for j in range(i + 1, n):
            factor = rows[j][i] / rows[i][i]
            rows[j] = [b - factor * a for a, b in zip(rows[i], rows[j], strict=True)]
    x = [0.0] * n
    for i in reversed(range(n)):
        x[i] = (rows[i][n] - sum(rows[i][j] * x[j] for j in range(i + 1, n))) / rows[i][i]
    return logdet, x


def test_no_variance_is_the_likelihood_alone() -> None:
    K, r = given(2, 3, 0.0)
    found = value_log_evidence(torch.tensor([1.5, 2.5], dtype=torch.float64), r, K, torch.ones_like(K))
    assert found.tolist() == [-1.5, -2.5]

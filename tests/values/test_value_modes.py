"""The most probable vectors of values with linear logits, against a minimiser that knows nothing of derivatives."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from drawn_values import TASKS, drawn_labels
from scipy.optimize import minimize

from attribune.tasks import Classification
from attribune.values.posterior import value_mode

N, D = 6, 3


def drawn(task: Any, *, rows: int = N, numbers: int = D) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(0)
    C = task.outputs
    logits, J = (torch.randn(shape, generator=generator).double() for shape in ((rows, C), (rows, C, numbers)))
    return logits, J, drawn_labels(task, logits, generator)


@pytest.mark.slow
@pytest.mark.one_in(3)
@pytest.mark.parametrize("kind", list(TASKS))
@pytest.mark.parametrize(("rows", "weight"), [(N, 0.3), (1, 2.0)])
def test_it_is_where_a_slow_search_ends(kind: str, rows: int, weight: float) -> None:
    task = TASKS[kind]
    logits, J, labels = drawn(task, rows=rows)
    found = value_mode(task, logits, J, labels, weight=weight)

    def objective(u: Any) -> float:
        loss = 0.0
        for row in range(rows):
            moved = logits[row] + torch.stack([sum(J[row, c, d] * u[d] for d in range(D)) for c in range(J.shape[1])])
            loss += float(task.row_losses(moved[None], labels[row : row + 1])[0])
        return loss + weight * float(np.square(u).sum()) / 2

    slow = minimize(
        objective, np.zeros(D), method="Nelder-Mead", options={"xatol": 1e-6, "fatol": 1e-9, "maxiter": 4000}
    )
    assert found.numpy() == pytest.approx(slow.x, abs=5e-3)
    assert objective(found.numpy()) <= slow.fun + 1e-6


def test_numbers_have_the_ridge_solution() -> None:
    task = TASKS["regression"]
    logits, J, labels = drawn(task)
    A, y = J[:, 0], labels.double() - logits[:, 0]
    expected = torch.linalg.solve(0.7 * torch.eye(D).double() + 2 * A.T @ A, 2 * A.T @ y)
    torch.testing.assert_close(value_mode(task, logits, J, labels, weight=0.7), expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("kind", list(TASKS))
@pytest.mark.parametrize(("rows", "weight"), [(3, 1e-6), (3, 1e-3), (N, 1e-4), (40, 1.0)])
def test_the_gradient_is_zero_there(kind: str, rows: int, weight: float) -> None:
    """Where a prior is weak, the objective is flat, and gains nothing long before the vector stands still."""
    task = TASKS[kind]
    logits, J, labels = drawn(task, rows=rows)
    u = value_mode(task, logits, J, labels, weight=weight).requires_grad_()

    def objective(v: torch.Tensor) -> torch.Tensor:
        return task.row_losses(logits + J @ v, labels).double().sum() + weight * v.square().sum() / 2

    (gradient,) = torch.autograd.grad(objective(u), u)
    missed = torch.linalg.solve(torch.autograd.functional.hessian(objective, u), gradient)
    assert float(missed.norm()) < 1e-7 * (1 + float(u.detach().norm()))


@pytest.mark.parametrize(("rows", "numbers"), [(2, 50), (50, 2)])
def test_few_rows_or_few_numbers(rows: int, numbers: int) -> None:
    """Where a value has fewer answers than numbers, its vector is a combination of what its rows depend on."""
    task = TASKS["classification"]
    logits, J, labels = drawn(task, rows=rows, numbers=numbers)
    found = value_mode(task, logits, J, labels, weight=1.0)
    u = found.clone().requires_grad_()
    loss = task.row_losses(logits + J @ u, labels).sum() + u.square().sum() / 2
    (gradient,) = torch.autograd.grad(loss, u)
    assert gradient.abs().max() < 1e-3


def test_extreme_priors_and_answers() -> None:
    task = Classification(classes=2)
    logits, J, _ = drawn(task)
    labels = torch.zeros(N, dtype=torch.int64)
    stays = value_mode(task, logits, J, labels, weight=1e12)
    assert stays.abs().max() < 1e-9
    free = value_mode(task, 100 * logits, 100 * J, labels, weight=0.0)
    assert bool(free.isfinite().all())
    assert not value_mode(task, logits, torch.zeros_like(J), labels, weight=1.0).any()

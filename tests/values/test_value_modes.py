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

    options = {"xatol": 1e-6, "fatol": 1e-9, "maxiter": 4000}
    slow = minimize(objective, np.zeros(D), method="Nelder-Mead", options=options)
    assert found.numpy() == pytest.approx(slow.x, abs=5e-3)
    assert objective(found.numpy()) <= slow.fun + 1e-6


@pytest.mark.parametrize("kind", list(TASKS))
@pytest.mark.parametrize(
    ("rows", "numbers", "weight"), [(3, D, 1e-6), (3, D, 1e-3), (N, D, 1e-4), (40, D, 1.0), (2, 50, 1.0), (50, 2, 1.0)]
)
def test_the_gradient_is_zero_there(kind: str, rows: int, numbers: int, weight: float) -> None:
    """Where a prior is weak, the objective is flat, and gains nothing long before the vector stands still.

    With fewer answers than numbers, a vector is a combination of what its rows depend on.
    """
    task = TASKS[kind]
    logits, J, labels = drawn(task, rows=rows, numbers=numbers)
    u = value_mode(task, logits, J, labels, weight=weight).requires_grad_()

    def objective(v: torch.Tensor) -> torch.Tensor:
        return task.row_losses(logits + J @ v, labels).double().sum() + weight * v.square().sum() / 2

    (gradient,) = torch.autograd.grad(objective(u), u)
    missed = torch.linalg.solve(torch.autograd.functional.hessian(objective, u), gradient)
    assert float(missed.norm()) < 1e-7 * (1 + float(u.detach().norm()))


def test_extreme_priors_and_answers() -> None:
    task = Classification(classes=2)
    logits, J, _ = drawn(task)
    labels = torch.zeros(N, dtype=torch.int64)
    stays = value_mode(task, logits, J, labels, weight=1e12)
    assert stays.abs().max() < 1e-9
    free = value_mode(task, 100 * logits, 100 * J, labels, weight=0.0)
    assert bool(free.isfinite().all())
    assert not value_mode(task, logits, torch.zeros_like(J), labels, weight=1.0).any()

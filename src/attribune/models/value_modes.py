"""The most probable vectors of values given rows, with logits that are linear in the vectors."""

from __future__ import annotations

import torch
from torch import Tensor

from attribune.tasks import Task

__all__ = ["value_mode"]

_STEPS, _HALVINGS, _TOLERANCE = 30, 20, 1e-7
_LEAST = 1e-6  # weight of a prior, so that there is a most probable vector


def value_mode(task: Task, logits: Tensor, J: Tensor, labels: Tensor, *, weight: float) -> Tensor:
    """Return the vector u (D,) that minimises ``Σ_i loss(logits_i + J_i u) + weight |u|²/2``, by Newton's method.

    Args:
        logits: (n, C) float64 of the rows at u = 0.
        J: (n, C, D) their derivatives.
        labels: (n, ...).
    """
    (n, C, D), weight = J.shape, max(weight, _LEAST)
    basis = torch.linalg.qr(J.reshape(n * C, D).T)[0]  # (D, m): u is a combination of the rows of J
    slopes = (J.reshape(n * C, D) @ basis).view(n, C, -1)
    v = J.new_zeros(basis.shape[1])

    def objective(v: Tensor) -> Tensor:
        losses = task.row_losses(logits + slopes @ v, labels).double().sum()
        found: Tensor = losses + weight * v.square().sum() / 2
        return found

    reached = objective(v)
    for _ in range(_STEPS):
        g, H = _derivatives(task, logits + slopes @ v, labels)
        gradient = torch.einsum("ncm,nc->m", slopes, g) + weight * v
        hessian = torch.einsum("ncm,ncd,ndk->mk", slopes, H, slopes) + weight * torch.eye(len(v)).to(v)
        step = -torch.linalg.solve(hessian, gradient)
        share, tried = 1.0, objective(v + step)
        while not tried <= reached and share > 0.5**_HALVINGS:
            share /= 2
            tried = objective(v + share * step)
        if not tried <= reached:
            break
        v, gained, reached = v + share * step, float(reached - tried), tried
        if gained < _TOLERANCE * (1 + abs(float(reached))):
            break
    found: Tensor = basis @ v
    return found


def _derivatives(task: Task, logits: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
    """Return the gradients (n, C) and Hessians (n, C, C) of the rows' losses in their logits."""
    with torch.enable_grad():
        at = logits.detach().requires_grad_()
        (g,) = torch.autograd.grad(task.row_losses(at, labels).sum(), at, create_graph=True)
        H = [torch.autograd.grad(g[:, output].sum(), at, retain_graph=True)[0] for output in range(at.shape[1])]
    return g.detach().double(), torch.stack(H, dim=1).double()

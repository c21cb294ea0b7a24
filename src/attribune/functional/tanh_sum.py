"""The sum of hyperbolic tangents in generated weights, fast and in bounded memory.

`attribune.functional` defines the equations and the letters of the shapes.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Any, Literal

import numpy as np
import torch
from jaxtyping import Float
from numpy.polynomial import chebyshev
from torch import Tensor

from attribune.core.device import is_recorded

TanhImplementation = Literal["auto", "polynomial", "exact"]

# Elements of generated weights in memory at once: within a core's cache on a CPU, enough to fill a GPU.
_CHUNK = {"cpu": 1 << 20}
_CHUNK_ELSEWHERE = 1 << 26


def tanh_sum(
    z_hat: Float[Tensor, "U O A"],
    K: Float[Tensor, "O H"],
    membership: Float[Tensor, "B U"],
    *,
    implementation: TanhImplementation = "auto",
) -> Float[Tensor, "B A*H"]:
    """Compute ``sum_u membership[b, u] sum_o tanh(z_hat[u, o] K[o]^T)`` in bounded memory, row-major.

    ``exact`` processes values in chunks and computes tanh again in the backward pass, so that neither pass
    holds more than one chunk of them: 50 tags in each of 32 rows would otherwise take gigabytes. tanh is
    evaluated as ``2 sigmoid(2 x) - 1``, which is exact at 0, within 2.4e-7 in float32, and nine times faster on a CPU.

    ``polynomial`` evaluates no tanh: an odd polynomial of a product is a sum of products of powers,
    ``tanh(x y) = sum_r c_r x^(2r+1) y^(2r+1)``, so that the whole sum, like its gradients, is one matrix product of the
    powers of z_hat and those of K. It is for arguments up to 1.5, far above those of trained models, where its relative
    error is below 1e-6, all of it the rounding of float32. ``auto`` uses it in float32 for the values with such
    arguments, and ``exact`` for the others.

    In a half precision that error would be most of a small weight, so sums are in float32 at least. No gradient flows
    to the membership.
    """
    z_hat = z_hat.to(torch.promote_types(z_hat.dtype, torch.float32))
    if implementation == "auto" and (z_hat.dtype != torch.float32 or is_recorded()):
        implementation = "exact"
    if torch.compiler.is_exporting():  # a loop over chunks would fix the number of values in the graph
        weights = torch.tanh(z_hat.unsqueeze(-1) * K.unsqueeze(-2)).sum(dim=1)
        return membership.to(z_hat.dtype) @ weights.flatten(1)
    if implementation == "exact":
        return _exact(z_hat, K, membership)
    with torch.autocast(z_hat.device.type, enabled=False):
        K, membership = K.to(z_hat.dtype), membership.detach().to(z_hat.dtype)
        if implementation == "polynomial":
            return _polynomial(z_hat, K, membership, _POWERS[-1][1])
        with torch.no_grad():
            terms = terms_within(z_hat, K)
        if terms is not None:
            return _polynomial(z_hat, K, membership, terms)
        limit, terms = _POWERS[-1]
        near = _reach(z_hat.detach(), K.detach()) <= limit
        far = _exact(z_hat[~near], K, membership[:, ~near])
        return far + _polynomial(z_hat[near], K, membership[:, near], terms)


def _exact(z_hat: Tensor, K: Tensor, membership: Tensor) -> Tensor:
    result: Tensor = _SumOfTanh.apply(z_hat, K, membership)  # type: ignore[no-untyped-call]
    return result


def _polynomial(z_hat: Tensor, K: Tensor, membership: Tensor, terms: int) -> Tensor:
    """Compute `tanh_sum` as one matrix product of odd powers, for arguments within the limit of `terms`."""
    U, O, A = z_hat.shape
    B, H = membership.shape[0], K.shape[1]
    left, right = (factor[0] for factor in tanh_factors(z_hat[None], K[None], terms))
    if U * (O * terms + B) < B * O * terms:  # few values: compute their weights, then sum them for each row
        return membership @ (left.reshape(U * A, O * terms) @ right).view(U, A * H)
    return ((membership @ left.view(U, A * O * terms)).view(B * A, O * terms) @ right).view(B, A * H)


def tanh_factors(
    z_hat: Float[Tensor, "S U O A"], K: Float[Tensor, "S O H"], terms: int
) -> tuple[Float[Tensor, "S U A K"], Float[Tensor, "S K H"]]:
    """Factor ``sum_o tanh(z_hat[s, u, o] K[s, o]^T)`` into odd powers of each, so that it is ``left right``.

    Args:
        terms: how many powers, from `terms_within`.
    """
    right, scale = right_factor(K, terms)
    z = (z_hat * scale[:, None, :, None]).transpose(2, 3)
    return odd_powers(z, terms, dim=4).flatten(3), right


def right_factor(K: Float[Tensor, "S O H"], terms: int) -> tuple[Float[Tensor, "S K H"], Float[Tensor, "S O"]]:
    """Return the right one of `tanh_factors`, and what z_hat is multiplied with before its powers are taken."""
    # Scaled to |K| <= 1, so that no power of a number overflows whose product with the other's would not.
    scale = K.detach().abs().amax(dim=2).clamp(min=torch.finfo(K.dtype).tiny)
    c = K.new_tensor(_coefficients(terms))
    return (odd_powers(K / scale[..., None], terms, dim=2) * c[:, None]).flatten(1, 2), scale


def odd_powers(x: Tensor, terms: int, *, dim: int) -> Tensor:
    """Return x, x³, x⁵, ... side by side in a further dimension."""
    powers, squared = [x], x * x
    for _ in range(terms - 1):
        powers.append(powers[-1] * squared)
    return torch.stack(powers, dim=dim)


def terms_within(z_hat: Float[Tensor, "*S U O A"], K: Float[Tensor, "*S O H"]) -> int | None:
    """Return how many odd powers are enough for all products of `tanh_sum`; None where one is too large for them."""
    return terms_for(float(_reach(z_hat, K).max()) if z_hat.numel() else 0.0)


def terms_for(largest: float) -> int | None:
    """Return how many odd powers are enough for arguments up to this; None where it is too large for them."""
    return next((terms for limit, terms in _POWERS if largest <= limit), None)


def _reach(z_hat: Float[Tensor, "*S U O A"], K: Float[Tensor, "*S O H"]) -> Float[Tensor, "*S U"]:
    """Return the largest argument of a tangent for each value."""
    return (z_hat.abs().amax(dim=-1) * K.abs().amax(dim=-1).unsqueeze(-2)).amax(dim=-1)


# The largest argument for which a number of odd powers gives tanh within 3e-9 and its derivative within 2e-7.
_POWERS = ((0.25, 4), (0.5, 6), (1.0, 9), (1.5, 12))
SMALLEST_REACH = _POWERS[0][0]
"""The largest argument for which the fewest powers are enough."""


@cache
def _coefficients(terms: int) -> tuple[float, ...]:
    """Fit the coefficients of x, x³, x⁵, ... to tanh, by least squares of the relative error."""
    limit = next(limit for limit, count in _POWERS if count == terms)
    points = 8 * terms
    t = np.cos((2 * np.arange(points) + 1) * np.pi / (4 * points))  # of tanh(x) / x, which is even
    basis = np.stack([chebyshev.chebval(t, np.eye(2 * terms)[2 * r]) for r in range(terms)], axis=1)
    series = np.zeros(2 * terms - 1)
    ratio = np.tanh(limit * t) / (limit * t)
    series[::2] = np.linalg.lstsq(basis / ratio[:, None], np.ones(points), rcond=None)[0]
    return tuple(chebyshev.cheb2poly(series)[::2] / limit ** (2 * np.arange(terms)))


def _chunks(z_hat: Tensor, K: Tensor) -> Iterator[slice]:
    """Yield slices of the distinct values whose generated weights fit the chunk."""
    U, _, A = z_hat.shape
    step = max(1, _CHUNK.get(z_hat.device.type, _CHUNK_ELSEWHERE) // (A * K.shape[1]))
    for start in range(0, U, step):
        yield slice(start, min(start + step, U))


class _SumOfTanh(torch.autograd.Function):
    """`tanh_sum` by sigmoids, in the precision of z_hat whatever autocast says."""

    @staticmethod
    def forward(ctx: Any, z_hat: Tensor, K: Tensor, membership: Tensor) -> Tensor:
        K, membership = K.to(z_hat.dtype), membership.to(z_hat.dtype)
        ctx.save_for_backward(z_hat, K, membership)
        _, O, A = z_hat.shape
        with torch.autocast(z_hat.device.type, enabled=False):
            out = z_hat.new_zeros(membership.shape[0], A * K.shape[1])
            for part in _chunks(z_hat, K):
                total: Tensor | None = None
                for o in range(O):
                    sigmoid = torch.sigmoid_(z_hat[part, o, :, None] * (2 * K[o]))
                    total = sigmoid if total is None else total.add_(sigmoid)
                assert total is not None
                weights = total.mul_(2).sub_(O).flatten(1)
                out.addmm_(membership[:, part], weights)
        return out

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, Tensor, None]:
        z_hat, K, membership = ctx.saved_tensors
        _, O, A = z_hat.shape
        grad_z, grad_K = torch.empty_like(z_hat), torch.zeros_like(K)
        with torch.autocast(z_hat.device.type, enabled=False):
            grad = grads[0].to(z_hat.dtype)
            for part in _chunks(z_hat, K):
                dW = (membership[:, part].T @ grad).view(-1, K.shape[1])
                for o in range(O):
                    z = z_hat[part, o]
                    sigmoid = torch.sigmoid_(z[..., None] * (2 * K[o])).view(-1, K.shape[1])
                    # d tanh(x) / dx = 1 - tanh² = 4 sigmoid (1 - sigmoid)
                    dx = torch.ops.aten.sigmoid_backward(dW, sigmoid)
                    grad_z[part, o] = 4 * (dx @ K[o]).view(-1, A)
                    grad_K[o].addmv_(dx.T, z.flatten(), alpha=4)
        return grad_z, grad_K, None

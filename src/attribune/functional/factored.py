"""Injectors whose weights are products of two factors, for a processor: fewer and larger operations, less memory.

A generated weight is a sum of odd powers (see `attribune.functional.tanh_sum`), which is a product of a factor of the
row's values and one of the parameters. The factors of all sites are computed together; each site multiplies them, adds
the shared part in place, and uses the weight at once. No weight of a row outlives the site: the backward pass computes
it again. `attribune.functional` defines the equations and the letters; S is the number of sites, K that of terms.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn.functional import gelu

from attribune.functional.fused import product_dtype
from attribune.functional.tanh_sum import tanh_factors, terms_within

__all__ = ["can_be_factored", "factored_adapter", "phm_factors"]

_DTYPES = (torch.float32, torch.bfloat16)
_LARGEST = 1 << 24  # numbers in the factors of the values at all sites: 64 MB in float32


def can_be_factored(z: Float[Tensor, "U Z"], rows: int, *, sites: int, size: int) -> bool:
    """Whether `phm_factors` of vectors are worth computing at once: on a processor, in float32 or bf16.

    Args:
        rows: B.
        size: O·A, the numbers at one site from which a value's weight is made.
    """
    if torch.compiler.is_compiling() or torch.compiler.is_exporting() or torch.jit.is_tracing():
        return False
    if z.device.type != "cpu" or z.dtype != torch.float32 or product_dtype(z) not in _DTYPES:
        return False
    return 0 < sites * size * 4 * (len(z) + rows) <= _LARGEST


def phm_factors(
    z: Float[Tensor, "U Z"],
    membership: Float[Tensor, "B U"] | None,
    sigma: Sequence[Float[Tensor, "O A Z"]],
    s: Sequence[Float[Tensor, "O P"]],
    A_o: Sequence[Float[Tensor, "O O O"]],
) -> tuple[Float[Tensor, "S B A K"], Float[Tensor, "S K H"]] | None:
    """Factor the low-rank hypercomplex weights of all sites: at each ``g = reshape(left right, (H, A))``.

    The sum over o and over the values of a row of `attribune.functional.phm_weight` is one product. None where an
    argument of a hyperbolic tangent is too large for the powers, 1.5.

    Source: Amplayo, Yoo and Lee 2022, eq. 6-9 and 11.

    Args:
        membership: None where z are the vectors of the rows themselves.
        sigma: of each site; likewise s and A_o.
    """
    O, A, Z = sigma[0].shape
    with torch.autocast(z.device.type, enabled=False):
        z_hat = torch.stack([z @ one.view(O * A, Z).T for one in sigma]).view(len(sigma), -1, O, A)
        numbers, matrices = torch.stack(list(s)), torch.stack(list(A_o))
        K = (matrices[:, :, :, None, :] * numbers[:, :, None, :, None]).flatten(2)
        with torch.no_grad():
            terms = terms_within(z_hat, K)
        if terms is None:
            return None
        left, right = tanh_factors(z_hat, K, terms)
        if membership is not None:
            left = (membership.detach() @ left.flatten(2)).view(len(sigma), -1, *left.shape[2:])
    dtype = product_dtype(z)
    return left.to(dtype), right.to(dtype)


def factored_adapter(
    h: Float[Tensor, "B T H"],
    left: Float[Tensor, "B A K"] | None,
    right: Float[Tensor, "K H"] | None,
    C: Float[Tensor, "H A"],
    b: Float[Tensor, "B A"] | Float[Tensor, " A"],
    W_up: Float[Tensor, "A H"],
    b_up: Float[Tensor, " H"],
) -> Float[Tensor, "B T H"]:
    """Apply an adapter with the weight ``W = reshape(left right, (H, A)) + C``: ``h + gelu(h W + b) W_up + b_up``.

    Products run in the precision of `product_dtype`. Gradients can be taken once.

    Source: Amplayo, Yoo and Lee 2022, eq. 1-3 and 11.

    Args:
        left: a factor of each row's weight, from `phm_factors`; None for the weight C, as in eq. 1.
    """
    operands = (h, left, right, C, b, W_up, b_up)
    if torch.is_grad_enabled():
        result: Tensor = _FactoredAdapter.apply(*operands, product_dtype(h))  # type: ignore[no-untyped-call]
        return result
    with torch.autocast(h.device.type, enabled=False):
        return _adapted(*operands, product_dtype(h))[0]


def _weight(left: Tensor | None, right: Tensor | None, C: Tensor, dtype: torch.dtype) -> Tensor:
    """Return the weights (B, H, A) of the rows, or the one (H, A) that all share."""
    if left is None or right is None:
        return C.to(dtype)
    B, A, K = left.shape
    generated = (left.to(dtype).view(B * A, K) @ right.to(dtype)).view(B, A, -1)
    return generated.add_(C.to(dtype).view(A, -1)).view(B, *C.shape)


def _adapted(
    h: Tensor,
    left: Tensor | None,
    right: Tensor | None,
    C: Tensor,
    b: Tensor,
    W_up: Tensor,
    b_up: Tensor,
    dtype: torch.dtype,
) -> tuple[Tensor, Tensor]:
    """Compute `factored_adapter`; returned beside it is what the activation reads."""
    x, W, b = h.to(dtype), _weight(left, right, C, dtype), b.to(dtype)
    if W.dim() == 2 and b.dim() == 1:
        a = torch.addmm(b, x.reshape(-1, len(W)), W).view(*x.shape[:-1], -1)
    else:
        a = torch.baddbmm(b.unsqueeze(-2).expand(len(x), *x.shape[1:-1], -1), x, W.expand(len(x), -1, -1))
    change = torch.addmm(b_up.to(dtype), gelu(a).view(-1, a.shape[-1]), W_up.to(dtype)).view(h.shape)
    return (change.add_(h) if change.dtype == h.dtype else h + change), a


class _FactoredAdapter(torch.autograd.Function):
    """`factored_adapter`, which saves the factors instead of the weights."""

    @staticmethod
    def forward(ctx: Any, *operands: Any) -> Tensor:
        ctx.dtype = operands[-1]
        with torch.autocast(operands[0].device.type, enabled=False):
            out, a = _adapted(*operands)
        ctx.save_for_backward(*operands[:-1], a)
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        h, left, right, C, b, W_up, b_up, a = ctx.saved_tensors
        needed = dict(zip(("h", "left", "right", "C", "b", "W_up", "b_up"), ctx.needs_input_grad, strict=False))
        found: dict[str, Tensor] = {}
        dtype, (H, A) = ctx.dtype, C.shape
        with torch.autocast(h.device.type, enabled=False):
            grad = grads[0].to(dtype)
            flat = grad.reshape(-1, H)
            if needed["W_up"]:
                found["W_up"] = (gelu(a).view(-1, A).T @ flat).to(W_up.dtype)
            if needed["b_up"]:
                found["b_up"] = flat.sum(dim=0, dtype=b_up.dtype)
            da = torch.ops.aten.gelu_backward((flat @ W_up.to(dtype).T).view(a.shape), a)
            if needed["b"]:
                found["b"] = da.sum(dim=1 if b.dim() == 2 else (0, 1), dtype=b.dtype)
            if needed["h"]:
                W = _weight(left, right, C, dtype)
                found["h"] = _input_gradient(grad, da, W).to(h.dtype)
            if needed["C"] or needed["left"] or needed["right"]:
                found |= _weight_gradients(h.to(dtype), da, left, right, C)
        return *(found.get(name) if need else None for name, need in needed.items()), None


def _input_gradient(grad: Tensor, da: Tensor, W: Tensor) -> Tensor:
    """Return the gradient of the states, through the residual and through the weight."""
    if W.dim() == 2:
        return torch.addmm(grad.reshape(-1, len(W)), da.view(-1, da.shape[-1]), W.T).view(grad.shape)
    return torch.baddbmm(grad, da, W.transpose(1, 2))


def _weight_gradients(
    x: Tensor, da: Tensor, left: Tensor | None, right: Tensor | None, C: Tensor
) -> dict[str, Tensor]:
    """Return the gradients of the factors and of the shared part, all by way of that of the weights."""
    H, A = C.shape
    if left is None or right is None:
        return {"C": (x.reshape(-1, H).T @ da.view(-1, A)).to(C.dtype)}
    dW = torch.bmm(x.transpose(1, 2), da)
    flat = dW.view(-1, H)  # row-major in (A, H), as the product of the factors is
    factor = left.to(x.dtype).view(len(flat), -1)
    return {
        "C": dW.sum(dim=0, dtype=C.dtype),
        "left": (flat @ right.to(x.dtype).T).view(left.shape).to(left.dtype),
        "right": (factor.T @ flat).to(right.dtype),
    }

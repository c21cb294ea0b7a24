"""Injectors whose weights are products of two factors, on a CPU: fewer and larger operations, and less memory.

A generated weight is a sum of odd powers (see `attribune.functional.tanh_sum`), and so the product of a factor of the
row's values and one of the parameters. The factors of all sites are computed together; each site multiplies them, adds
the shared part in place, and uses the weight at once. No weight outlives its site: the backward pass computes it again.
`attribune.functional` defines the equations and the letters; S is the number of sites, K that of terms, N that of
adapters side by side.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, TypeAlias

import torch
from jaxtyping import Float
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn.functional import gelu

from attribune.functional.fused import product_dtype
from attribune.functional.injector import kronecker_factors
from attribune.functional.tanh_sum import tanh_factors, terms_within

__all__ = ["can_be_factored", "factored_adapter", "phm_factors"]

Factors: TypeAlias = tuple[Tensor, Tensor]

_DTYPES = (torch.float32, torch.bfloat16)
_LARGEST = 1 << 22  # numbers in one power of the values' factors at all sites; the powers, 4 to 12, take up to 200 MB


def can_be_factored(z: Float[Tensor, "U Z"], rows: int, *, sites: int, size: int) -> bool:
    """Whether `phm_factors` of vectors are worth computing at once: on a CPU, in float32 or bf16.

    Args:
        rows: B.
        size: O·A, the numbers at one site from which a value's weight is made.
    """
    if torch.compiler.is_compiling() or torch.compiler.is_exporting():
        return False
    if z.device.type != "cpu" or z.dtype != torch.float32 or product_dtype(z) not in _DTYPES:
        return False
    return 0 < sites * size * (len(z) + rows) <= _LARGEST


def phm_factors(
    z: Float[Tensor, "U Z"],
    membership: Float[Tensor, "B U"] | None,
    sigma: Float[Tensor, "S O A Z"],
    s: Float[Tensor, "S O P"],
    A_o: Float[Tensor, "S O O O"],
) -> tuple[Float[Tensor, "S B A K"], Float[Tensor, "S K H"]] | None:
    """Factor the low-rank hypercomplex weights of all sites: at each ``g = reshape(left right, (H, A))``.

    The sums over o and over a row's values in `attribune.functional.phm_weight` are one product. None where an argument
    of a hyperbolic tangent is too large for the powers, 1.5.

    Source: Amplayo, Yoo and Lee 2022, eq. 6-9 and 11.

    Args:
        membership: None where z are the vectors of the rows themselves.
    """
    with torch.autocast(z.device.type, enabled=False):
        z_hat, K = kronecker_factors(z, sigma, s, A_o)
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
    factors: Sequence[tuple[Float[Tensor, "B A _"], Float[Tensor, "_ H"]]],
    C: Float[Tensor, "H NA"],
    b: Float[Tensor, "B NA"] | Float[Tensor, " NA"],
    W_up: Float[Tensor, "NA H"],
    b_up: Float[Tensor, " H"],
) -> Float[Tensor, "B T H"]:
    """Apply adapters side by side whose weights have factors: ``h + gelu(h W + b) W_up + b_up``.

    W is C plus ``reshape(left right, (H, A))`` in the columns of each attribute; the columns of a task adapter, which
    has no factors, come first. Products run in the precision of `product_dtype`. Gradients can be taken once.

    Source: Amplayo, Yoo and Lee 2022, eq. 1-3, 5 and 11.

    Args:
        factors: left and right of each attribute, from `phm_factors`, in the order of their columns.
        C: the shared parts side by side; likewise b, and W_up one below the other.
        b_up: the sum of the adapters' own.
    """
    operands = (h, C, b, W_up, b_up, *(factor for pair in factors for factor in pair))
    if torch.is_grad_enabled():
        result: Tensor = _FactoredAdapter.apply(product_dtype(h), *operands)  # type: ignore[no-untyped-call]
        return result
    with torch.autocast(h.device.type, enabled=False):
        return _adapt(product_dtype(h), *operands)[0]


def _parts(width: int, factors: Sequence[Tensor]) -> Iterator[tuple[slice, Factors | None]]:
    """Yield the columns of the adapters and their factors; the first columns may have none."""
    pairs = list(zip(factors[::2], factors[1::2], strict=True))
    start = width - sum(left.shape[1] for left, _ in pairs)
    if start:
        yield slice(0, start), None
    for left, right in pairs:
        yield slice(start, start + left.shape[1]), (left, right)
        start += left.shape[1]


def _weight(C: Tensor, factors: Sequence[Tensor], dtype: torch.dtype) -> Tensor:
    """Return the weights (B, H, NA) of the rows, or the one (H, NA) that all share."""
    C = C.to(dtype)
    if not factors:
        return C
    H, width = C.shape
    B, A, _ = factors[0].shape
    W = None if width == A else C.new_empty(B, H, width)
    for columns, pair in _parts(width, factors):
        if pair is None:
            W[..., columns] = C[:, columns]  # type: ignore[index]
            continue
        left, right = (factor.to(dtype) for factor in pair)
        generated = (left.view(B * A, -1) @ right).view(B, H, A)
        W = generated if W is None else W
        torch.add(generated, C[:, columns], out=W[..., columns])
    assert W is not None
    return W


def _adapt(
    dtype: torch.dtype, h: Tensor, C: Tensor, b: Tensor, W_up: Tensor, b_up: Tensor, *factors: Tensor
) -> tuple[Tensor, Tensor]:
    """Compute `factored_adapter`; returned beside it is what the activation reads."""
    x, W, b = h.to(dtype), _weight(C, factors, dtype), b.to(dtype)
    if W.dim() == 3:
        a = torch.baddbmm(b.unsqueeze(-2).expand(*x.shape[:2], -1), x, W)
    else:
        a = (x.reshape(-1, len(W)) @ W).view(*x.shape[:2], -1).add_(b.unsqueeze(-2))
    change = torch.addmm(b_up.to(dtype), gelu(a).view(-1, a.shape[-1]), W_up.to(dtype)).view(h.shape)
    return (change.add_(h) if change.dtype == h.dtype else h + change), a


class _FactoredAdapter(torch.autograd.Function):
    """`factored_adapter`, which saves the factors instead of the weights."""

    @staticmethod
    def forward(ctx: Any, dtype: torch.dtype, *operands: Tensor) -> Tensor:
        with torch.autocast(operands[0].device.type, enabled=False):
            out, a = _adapt(dtype, *operands)
        ctx.dtype = dtype
        ctx.save_for_backward(*operands, a)
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        h, C, b, W_up, b_up, *factors, a = ctx.saved_tensors
        _, h_needed, C_needed, b_needed, W_up_needed, b_up_needed, *factors_needed = ctx.needs_input_grad
        dh = dC = db = dW_up = None
        d_factors: list[Tensor | None] = [None] * len(factors)
        with torch.autocast(h.device.type, enabled=False):
            flat = grads[0].to(ctx.dtype).reshape(-1, h.shape[-1])
            if W_up_needed:
                dW_up = (gelu(a).view(-1, len(W_up)).T @ flat).to(W_up.dtype)
            da = torch.ops.aten.gelu_backward((flat @ W_up.to(ctx.dtype).T).view(a.shape), a)
            if b_needed:
                db = da.sum(dim=1 if b.dim() == 2 else (0, 1), dtype=b.dtype)
            if h_needed:
                dh = _input_gradient(grads[0], da, _weight(C, factors, ctx.dtype))
            if C_needed or any(factors_needed):
                dC, d_factors = _weight_gradients(h.to(ctx.dtype), da, C, factors)
            db_up = flat.sum(dim=0, dtype=b_up.dtype) if b_up_needed else None
        return None, dh, dC, db, dW_up, db_up, *d_factors


def _input_gradient(grad: Tensor, da: Tensor, W: Tensor) -> Tensor:
    """Return the gradient of the states, through the residual, in its own precision, and through the weight."""
    W = W.expand(len(da), -1, -1).transpose(1, 2)
    return torch.baddbmm(grad, da, W) if grad.dtype == da.dtype else grad + torch.bmm(da, W)


def _weight_gradients(
    x: Tensor, da: Tensor, C: Tensor, factors: Sequence[Tensor]
) -> tuple[Tensor, list[Tensor | None]]:
    """Return the gradients of the shared part and of the factors, all by way of those of the weights."""
    H, shared, of_factors = len(C), [], []
    for columns, pair in _parts(C.shape[1], factors):
        if pair is None:
            shared.append((x.reshape(-1, H).T @ da[..., columns].flatten(0, 1)).to(C.dtype))
            continue
        left, right = (factor.to(x.dtype) for factor in pair)
        dW = torch.bmm(x.transpose(1, 2), da[..., columns])
        shared.append(dW.sum(dim=0, dtype=C.dtype))
        flat = dW.view(-1, H)  # row-major in (A, H), as the product of the factors is
        of_factors += [(flat @ right.T).view(left.shape), left.view(len(flat), -1).T @ flat]
    return torch.cat(shared, dim=1), [
        gradient.to(factor.dtype) for gradient, factor in zip(of_factors, factors, strict=True)
    ]

"""Injectors whose weights are products of two factors: fewer and larger operations, and less memory.

A generated weight is a sum of odd powers (see `attribune.functional.tanh_sum`), and so the product of a factor of the
row's values and one of the parameters. The factors of all sites are computed together; each site multiplies them, adds
the shared part in place, and uses the weight at once. No weight outlives its site: the backward pass computes it again.
`attribune.functional` defines the equations and the letters; S is the number of sites, K that of terms, N that of
adapters side by side.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import accumulate, chain
from typing import Any, NamedTuple, TypeAlias

import torch
from jaxtyping import Float
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn.functional import gelu

from attribune.core.device import is_recorded, product_dtype
from attribune.functional.injector import kronecker_factors
from attribune.functional.tanh_sum import tanh_factors, terms_within

Factors: TypeAlias = tuple[Tensor, Tensor]

PRODUCT_DTYPES = (torch.float32, torch.bfloat16)
LARGEST_POWER = 1 << 22
"""Numbers in one power of the values' factors at all sites; the powers, 4 to 12, take up to 200 MB."""


def can_be_factored(z: Float[Tensor, "U Z"], rows: int, *, sites: int, size: int) -> bool:
    """Whether `phm_factors` of vectors are computed for all sites at once: in float32 and bf16, up to some memory.

    Args:
        rows: B.
        size: O·A, the numbers at one site from which a value's weight is made.
    """
    if is_recorded() or z.dtype != torch.float32 or product_dtype(z) not in PRODUCT_DTYPES:
        return False
    return 0 < sites * size * (len(z) + rows) <= LARGEST_POWER


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


class FactoredAdapter(NamedTuple):
    """Adapters side by side, as one of their widths together; the columns of a task adapter come first.

    Attributes:
        factors: left and right of each attribute, from `phm_factors`, in the order of their columns; a task adapter has
            none.
        C: the shared parts side by side; likewise b, and W_up one below the other.
        b_up: the sum of the adapters' own.
    """

    factors: Sequence[tuple[Float[Tensor, "B A _"], Float[Tensor, "_ H"]]]
    C: Float[Tensor, "H NA"]
    b: Float[Tensor, "B NA"] | Float[Tensor, " NA"]
    W_up: Float[Tensor, "NA H"]
    b_up: Float[Tensor, " H"]


def factored_adapters(h: Float[Tensor, "B T H"], adapters: Sequence[FactoredAdapter]) -> Float[Tensor, "B T H"]:
    """Apply adapters whose weights have factors, one after the other: ``h + gelu(h W + b) W_up + b_up``.

    W is C plus ``reshape(left right, (H, A))`` in the columns of each attribute. Products run in the precision of
    `product_dtype`. Gradients can be taken once.

    Source: Amplayo, Yoo and Lee 2022, eq. 1-3, 5 and 11.
    """
    dtype = product_dtype(h)
    operands = [[*rest, *chain.from_iterable(factors)] for factors, *rest in adapters]
    if torch.is_grad_enabled():
        sizes = tuple(map(len, operands))
        result: Tensor = _FactoredAdapters.apply(dtype, sizes, h, *chain.from_iterable(operands))  # type: ignore[no-untyped-call]
        return result
    with torch.autocast(h.device.type, enabled=False):
        return cast_adapters(h, [[x.to(dtype) for x in own] for own in operands])


def cast_adapters(h: Float[Tensor, "B T H"], operands: Sequence[Sequence[Tensor]]) -> Float[Tensor, "B T H"]:
    """Apply adapters as `factored_adapters` does, without gradients and autocast.

    Args:
        operands: of each adapter C, b, W_up, b_up, and the factors of its attributes, all in the precision of products.
    """
    for own in operands:
        h = _adapt(h, h.to(own[0].dtype), *own)[0]
    return h


def _parts(width: int, factors: Sequence[Tensor]) -> Iterator[tuple[slice, Factors | None]]:
    """Yield the columns of the adapters and their factors; the first columns may have none."""
    pairs = list(zip(factors[::2], factors[1::2], strict=True))
    start = width - sum(left.shape[1] for left, _ in pairs)
    if start:
        yield slice(0, start), None
    for left, right in pairs:
        yield slice(start, start + left.shape[1]), (left, right)
        start += left.shape[1]


def _weight(C: Tensor, factors: Sequence[Tensor]) -> Tensor:
    """Return the weights (B, H, NA) of the rows, or the one (H, NA) that all share."""
    if not factors:
        return C
    H, width = C.shape
    B, A, _ = factors[0].shape
    W = None if width == A else C.new_empty(B, H, width)
    for columns, pair in _parts(width, factors):
        if pair is None:
            W[..., columns] = C[:, columns]  # type: ignore[index]
            continue
        left, right = pair
        generated = (left.view(B * A, -1) @ right).view(B, H, A)
        W = generated if W is None else W
        torch.add(generated, C[:, columns], out=W[..., columns])
    assert W is not None
    return W


def _adapt(
    h: Tensor, x: Tensor, C: Tensor, b: Tensor, W_up: Tensor, b_up: Tensor, *factors: Tensor
) -> tuple[Tensor, Tensor]:
    """Apply an adapter to h, x in the precision of products; returned beside it is what the activation reads."""
    W = _weight(C, factors)
    if W.dim() == 3:
        a = torch.baddbmm(b.unsqueeze(-2).expand(*x.shape[:2], -1), x, W)
    else:
        a = (x.reshape(-1, len(W)) @ W).view(*x.shape[:2], -1).add_(b.unsqueeze(-2))
    change = torch.addmm(b_up, gelu(a).view(-1, a.shape[-1]), W_up).view(h.shape)
    return (change.add_(h) if change.dtype == h.dtype else h + change), a


class _FactoredAdapters(torch.autograd.Function):
    """`factored_adapters`, which saves the factors instead of the weights."""

    @staticmethod
    def forward(ctx: Any, dtype: torch.dtype, sizes: Sequence[int], h: Tensor, *operands: Tensor) -> Tensor:
        own = [x.to(dtype) for x in operands]
        between: list[Tensor] = []  # what each adapter reads, and what its activation reads
        with torch.autocast(h.device.type, enabled=False):
            for place in _places(sizes):
                x = h.to(dtype)
                h, a = _adapt(h, x, *own[place])
                between += [x, a]
        ctx.sizes, ctx.dtypes = sizes, [x.dtype for x in operands]
        ctx.save_for_backward(*own, *between)
        return h

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        grad, saved, needed = grads[0], ctx.saved_tensors, ctx.needs_input_grad[3:]
        operands, between = saved[: len(needed)], saved[len(needed) :]
        found: list[Tensor | None] = []
        with torch.autocast(grad.device.type, enabled=False):
            for number, place in reversed(list(enumerate(_places(ctx.sizes)))):
                x, a = between[2 * number : 2 * number + 2]
                reads_grad = number > 0 or ctx.needs_input_grad[2]
                grad_below, own = _gradients(
                    grad, x, a, operands[place], needed[place], ctx.dtypes[place], reads_grad=reads_grad
                )
                found[:0] = own
                grad = grad if grad_below is None else grad_below
        return None, None, grad if ctx.needs_input_grad[2] else None, *found


def _places(sizes: Sequence[int]) -> list[slice]:
    """Return where the operands of each adapter stand among those of all."""
    ends = list(accumulate(sizes))
    return [slice(end - size, end) for size, end in zip(sizes, ends, strict=True)]


def _gradients(
    grad: Tensor,
    x: Tensor,
    a: Tensor,
    operands: Sequence[Tensor],
    needed: Sequence[bool],
    dtypes: Sequence[torch.dtype],
    *,
    reads_grad: bool,
) -> tuple[Tensor | None, list[Tensor | None]]:
    """Return the gradients of what an adapter reads and of its operands, each if it is needed.

    Args:
        grad: of what it returns.
        dtypes: of the gradients of the operands.
    """
    C, b, W_up, _, *factors = operands
    C_needed, b_needed, W_up_needed, b_up_needed, *factors_needed = needed
    flat = grad.to(x.dtype).reshape(-1, x.shape[-1])
    da = torch.ops.aten.gelu_backward((flat @ W_up.T).view(a.shape), a)
    below = _input_gradient(grad, da, _weight(C, factors)) if reads_grad else None
    dC = db = dW_up = db_up = None
    d_factors: Sequence[Tensor | None] = [None] * len(factors)
    if C_needed or any(factors_needed):
        dC, d_factors = _weight_gradients(x, da, C, factors, dtypes[0])
    if b_needed:
        db = da.sum(dim=1 if b.dim() == 2 else (0, 1), dtype=dtypes[1])
    if W_up_needed:
        dW_up = (gelu(a).view(-1, len(W_up)).T @ flat).to(dtypes[2])
    if b_up_needed:
        db_up = flat.sum(dim=0, dtype=dtypes[3])
    return below, [
        dC,
        db,
        dW_up,
        db_up,
        *(None if x is None else x.to(dtype) for x, dtype in zip(d_factors, dtypes[4:], strict=True)),
    ]


def _input_gradient(grad: Tensor, da: Tensor, W: Tensor) -> Tensor:
    """Return the gradient of the states, through the residual, in its own precision, and through the weight."""
    W = W.expand(len(da), -1, -1).transpose(1, 2)
    return torch.baddbmm(grad, da, W) if grad.dtype == da.dtype else grad + torch.bmm(da, W)


def _weight_gradients(
    x: Tensor, da: Tensor, C: Tensor, factors: Sequence[Tensor], dtype: torch.dtype
) -> tuple[Tensor, list[Tensor]]:
    """Return the gradients of the shared part, in `dtype`, and of the factors, by way of those of the weights."""
    H, shared, of_factors = len(C), [], []
    for columns, pair in _parts(C.shape[1], factors):
        if pair is None:
            shared.append((x.reshape(-1, H).T @ da[..., columns].flatten(0, 1)).to(dtype))
            continue
        left, right = pair
        dW = torch.bmm(x.transpose(1, 2), da[..., columns])
        shared.append(dW.sum(dim=0, dtype=dtype))
        flat = dW.view(-1, H)  # row-major in (A, H), as the product of the factors is
        of_factors += [(flat @ right.T).view(left.shape), left.view(len(flat), -1).T @ flat]
    return shared[0] if len(shared) == 1 else torch.cat(shared, dim=1), of_factors

"""The kernel of `attribune.functional.fused`, in Triton, which must be installed for this module to be imported."""

# ruff: noqa: ANN001, ANN201 - Triton reads the annotations of a kernel itself

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

__all__ = ["launch", "project"]


@triton.jit  # type: ignore[untyped-decorator]
def project(  # type: ignore[no-untyped-def]
    h,
    z_hat,
    K,
    membership,
    C,
    out,
    T,
    U,
    H,
    A,
    O: tl.constexpr,
    BLOCK_T: tl.constexpr,
    BLOCK_H: tl.constexpr,
    BLOCK_A: tl.constexpr,
    BLOCK_U: tl.constexpr,
    PRECISION: tl.constexpr,
):
    """Multiply a block of one row's tokens (BLOCK_T, H) by its weight (H, A), computed BLOCK_H lines at a time."""
    b = tl.program_id(0).to(tl.int64)
    t = tl.program_id(1) * BLOCK_T + tl.arange(0, BLOCK_T)
    a = tl.arange(0, BLOCK_A)
    u = tl.arange(0, BLOCK_U)
    times = tl.load(membership + b * U + u, mask=u < U, other=0.0)
    total = tl.zeros((BLOCK_T, BLOCK_A), dtype=tl.float32)
    for start in range(0, H, BLOCK_H):
        i = start + tl.arange(0, BLOCK_H)
        index = i[:, None] * A + a[None, :]  # in the row-major (H, A), which is that of (A, H) reshaped
        inside = (i[:, None] < H) & (a[None, :] < A)
        line, column = index // H, index % H
        W = tl.load(C + index, mask=inside, other=0.0).to(tl.float32)
        left = tl.where(times != 0, 1, 0)
        for _ in range(tl.sum(left)):
            value = tl.argmax(left, axis=0)
            weight = tl.sum(tl.where(u == value, times, 0.0))
            left = tl.where(u == value, 0, left)
            for o in tl.static_range(O):
                z = tl.load(z_hat + (value * O + o) * A + line, mask=inside, other=0.0)
                k = tl.load(K + o * H + column, mask=inside, other=0.0)
                W += weight * (2 * tl.sigmoid(2 * z * k) - 1)
        x = tl.load(h + (b * T + t[:, None]) * H + i[None, :], mask=(t[:, None] < T) & (i[None, :] < H), other=0.0)
        total = tl.dot(x, W.to(x.dtype), total, input_precision=PRECISION)
    output_mask = (t[:, None] < T) & (a[None, :] < A)
    tl.store(out + (b * T + t[:, None]) * A + a[None, :], total.to(out.dtype.element_ty), mask=output_mask)


def options(T: int, U: int, A: int) -> dict[str, int]:
    """Choose the options of a launch; block sizes are powers of two, at least 16 in matrix products."""
    block_a = max(16, triton.next_power_of_2(A))
    return {
        "BLOCK_T": min(64 if block_a <= 128 else 32, max(16, triton.next_power_of_2(T))),
        "BLOCK_H": max(16, min(64, 2048 // block_a)),
        "BLOCK_A": block_a,
        "BLOCK_U": triton.next_power_of_2(U),
        "num_warps": 8 if block_a <= 128 else 16,
        "enable_fp_fusion": True,
    }


def launch(h: Tensor, z_hat: Tensor, K: Tensor, membership: Tensor, C: Tensor, *, tf32: bool) -> Tensor:
    """Compute `functional.fused.fused_projection` of contiguous tensors, on the device and in the precision of h."""
    B, T, H = h.shape
    U, O, A = z_hat.shape
    out = h.new_empty(B, T, A)
    sizes = options(T, U, A)
    grid = (B, triton.cdiv(T, sizes["BLOCK_T"]))
    precision = "tf32" if tf32 else "ieee"
    # Triton launches on the current device, whichever the tensors are on.
    with torch.cuda.device_of(h):  # type: ignore[no-untyped-call]
        project[grid](h, z_hat, K, membership, C, out, T, U, H, A, O=O, PRECISION=precision, **sizes)
    return out

"""Linear maps with weights and states in int8, and sums in int32 (dynamic quantisation, as in Jacob et al. 2018, 2.1).

A weight has one scale for each output; states have a scale and a zero point for each token, which are found while the
map runs. So the result for a token does not depend on the others of its batch.
"""

from __future__ import annotations

import platform

import torch
from jaxtyping import Float, Int, UInt8
from torch import Tensor


def int8_weight(W: Float[Tensor, "N K"]) -> tuple[Int[Tensor, "N K"], Float[Tensor, " K"]]:
    """Round a weight to int8 with a scale for each output, ``W ≈ q s``.

    Source: Jacob et al. 2018, "Quantization and Training of Neural Networks for Efficient Integer-Arithmetic-Only
    Inference", eq. 1 with zero point 0.
    """
    s = W.abs().amax(dim=0).clamp(min=torch.finfo(W.dtype).tiny) / 127
    return (W / s).round_().to(torch.int8), s


def int8_states(
    x: Float[Tensor, "rows N"],
) -> tuple[UInt8[Tensor, "rows N"], Float[Tensor, "rows 1"], Float[Tensor, "rows 1"]]:
    """Round states to 0 ... 255 between the least and the largest of each row: q, s and m with ``x ≈ q s + m``.

    Source: Jacob et al. 2018, eq. 1, with a zero point that need not be whole.
    """
    if x.dtype == torch.float32 and hasattr(torch.ops.quantized, "embedding_bag_byte_prepack"):
        # Rows of embeddings are rounded in the same way: whole numbers, then the bytes of s and m, in one pass.
        rows = torch.ops.quantized.embedding_bag_byte_prepack(x)
        whole, scales = (
            part.clone(memory_format=torch.contiguous_format) for part in rows.split([x.shape[1], 8], dim=1)
        )
        s, m = scales.view(torch.float32).split(1, dim=1)
        return whole, s, m
    m = x.amin(dim=1, keepdim=True)
    s = (x.amax(dim=1, keepdim=True) - m) / 255
    return (x - m).mul_(torch.where(s > 0, 1 / s, 0)).round_().to(torch.uint8), s, m


def int8_packed(q: Int[Tensor, "N K"]) -> Tensor | None:
    """Lay a weight out as oneDNN multiplies with it; None where PyTorch comes without its products for x86."""
    is_x86 = platform.machine() in ("x86_64", "AMD64")
    has_onednn = torch.backends.mkldnn.is_available()  # type: ignore[no-untyped-call]
    if not (is_x86 and has_onednn and hasattr(torch.ops.onednn, "qlinear_pointwise")):
        return None
    packed: Tensor = torch.ops.onednn.qlinear_prepack(q.T.contiguous(), None)
    return packed


def int8_linear(
    x: Float[Tensor, "*rows N"],
    q: Int[Tensor, "N K"],
    s: Float[Tensor, " K"],
    sums: Float[Tensor, " K"],
    b: Float[Tensor, " K"],
    packed: Tensor | None = None,
) -> Float[Tensor, "*rows K"]:
    """Compute ``x W + b`` with the weight and the states in int8: ``s_x (q_x q) s + m_x sums + b``.

    Source: Jacob et al. 2018, eq. 7.

    Args:
        q: the weight, of `int8_weight`.
        s: its scales.
        sums: of the weights of each output, ``s sum_n q``.
        packed: the weight, of `int8_packed`: two to four times as fast, as oneDNN writes ``(q_x q) s`` at once.
    """
    q_x, s_x, m_x = int8_states(x.reshape(-1, x.shape[-1]))
    if packed is None:
        signed = (q_x ^ 128).view(torch.int8)  # q_x - 128
        y, m_x = torch._int_mm(signed, q) * s, m_x + 128 * s_x
    else:
        y = _scaled_product(q_x, packed, s)
    # The last two terms are a product of rank 2, which is added in place.
    y.mul_(s_x).addmm_(torch.cat([m_x, torch.ones_like(m_x)], dim=1), torch.stack([sums, b]))
    return y.view(*x.shape[:-1], len(s))


def _scaled_product(q_x: UInt8[Tensor, "rows N"], packed: Tensor, s: Float[Tensor, " K"]) -> Float[Tensor, "rows K"]:
    """Compute ``(q_x q) s`` in one operation; the operands that it takes besides stand for no scale and no offset."""
    zeros = torch.zeros(len(s), dtype=torch.int64)
    product: Tensor = torch.ops.onednn.qlinear_pointwise(
        q_x, 1.0, 0, packed, s, zeros, None, 1.0, 0, torch.float32, "none", [], ""
    )
    return product

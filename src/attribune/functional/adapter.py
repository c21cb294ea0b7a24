"""Adapters (Houlsby et al. 2019, "Parameter-Efficient Transfer Learning for NLP", sections 2.1 and 3.6)."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from jaxtyping import Float, Num
from torch import Tensor
from torch.nn.functional import gelu, linear

Activation = Callable[[Tensor], Tensor]


def adapter(
    h: Float[Tensor, "*rows H"],
    W_down: Float[Tensor, "H A"],
    b_down: Float[Tensor, " A"],
    W_up: Float[Tensor, "A H"],
    b_up: Float[Tensor, " H"],
    f: Activation = gelu,
    *,
    norm: Activation | None = None,
    inner: Sequence[tuple[Float[Tensor, "A A"], Float[Tensor, " A"]]] = (),
) -> Float[Tensor, "*rows H"]:
    """Add a `bottleneck` to its input: ``h + f(h W_down + b_down) W_up + b_up``.

    Source: Houlsby et al. 2019, section 2.1; Amplayo, Yoo and Lee 2022, eq. 1.
    """
    return h + bottleneck(h, W_down, b_down, W_up, b_up, f, norm=norm, inner=inner)


def bottleneck(
    x: Float[Tensor, "*rows H"],
    W_down: Float[Tensor, "H A"],
    b_down: Float[Tensor, " A"],
    W_up: Float[Tensor, "A H"],
    b_up: Float[Tensor, " H"],
    f: Activation = gelu,
    *,
    norm: Activation | None = None,
    inner: Sequence[tuple[Float[Tensor, "A A"], Float[Tensor, " A"]]] = (),
) -> Float[Tensor, "*rows H"]:
    """Compute what an adapter adds: ``u_1 = f(N(x W_down + b_down))``, ``u_k+1 = f(u_k V_k + c_k)``, ``u W_up + b_up``.

    The norm N and the inner maps are extensions (i) and (ii) of the paper.

    Source: Houlsby et al. 2019, sections 2.1 and 3.6.

    Args:
        f: the non-linear function; GELU (erf) by default.
        norm: N, such as a LayerNorm or a `batch_normalization`, before the first non-linear function.
        inner: V_k and c_k of every further map.
    """
    u = affine(x, W_down, b_down)
    if norm is not None:
        u = norm(u)
    u = f(u)
    for V, c in inner:
        u = f(affine(u, V, c))
    return affine(u, W_up, b_up)


def batch_normalization(
    u: Float[Tensor, "*rows A"],
    mean: Float[Tensor, " A"],
    variance: Float[Tensor, " A"],
    gain: Float[Tensor, " A"],
    bias: Float[Tensor, " A"],
    *,
    eps: float = 1e-5,
) -> Float[Tensor, "*rows A"]:
    """Compute ``gain (u - mean) / sqrt(variance + eps) + bias``, in float32 or more, in the end in that of the gain.

    Source: Houlsby et al. 2019, section 3.6, extension (i).

    Args:
        mean: of a batch, as `batch_moments` computes it, or of those of the training, as is `variance`.
    """
    wide = _wide(u)
    return ((u - mean.to(wide)) * torch.rsqrt(variance.to(wide) + eps) * gain + bias).to(gain.dtype)


def batch_moments(
    u: Float[Tensor, "*rows A"], mask: Num[Tensor, "*rows"] | None = None
) -> tuple[Float[Tensor, " A"], Float[Tensor, " A"], Float[Tensor, ""]]:
    """Compute mean and variance (of n, not of n - 1) of each number over n tokens, and n, for a `batch_normalization`.

    Source: Houlsby et al. 2019, section 3.6, extension (i).

    Args:
        mask: 1 for the n tokens that count, 0 for padding; by default, all of them count.
    """
    u = u.to(_wide(u))
    counts = u.new_ones(u.shape[:-1]) if mask is None else mask.to(u.dtype)
    n, over = counts.sum(), tuple(range(u.dim() - 1))
    weights = (counts / n).unsqueeze(-1)
    mean = (weights * u).sum(over)
    return mean, (weights * (u - mean) ** 2).sum(over), n


def _wide(u: Tensor) -> torch.dtype:
    """Return float32, or float64 for states of that precision."""
    return torch.promote_types(u.dtype, torch.float32)


def grouped_bottleneck(
    x: Float[Tensor, "B T H"],
    groups: Sequence[tuple[int, slice]],
    W_down: Float[Tensor, "M H A"],
    b_down: Float[Tensor, "M A"],
    W_up: Float[Tensor, "M A H"],
    b_up: Float[Tensor, "M H"],
    f: Activation = gelu,
) -> Float[Tensor, "B T H"]:
    """Compute what one of M adapters adds to each group of rows, as `bottleneck` does, without gradients.

    Source: Houlsby et al. 2019, section 2.1.

    Args:
        groups: the number of an adapter and its rows, in the order of the batch, of which every row has one.
    """
    tokens = x.shape[1]
    places = [(number, slice(rows.start * tokens, rows.stop * tokens)) for number, rows in groups]
    u = f(_grouped_affine(x.reshape(-1, x.shape[-1]), places, W_down, b_down))
    return _grouped_affine(u, places, W_up, b_up).view(x.shape)


def _grouped_affine(
    x: Float[Tensor, "rows N"],
    groups: Sequence[tuple[int, slice]],
    W: Float[Tensor, "M N K"],
    b: Float[Tensor, "M K"],
) -> Float[Tensor, "rows K"]:
    """Compute ``x W + b`` with the weight and the bias of each group."""
    y = x.new_empty(len(x), W.shape[-1])
    for number, rows in groups:
        torch.addmm(b[number], x[rows], W[number], out=y[rows])
    return y


def affine(x: Float[Tensor, "*rows N"], W: Float[Tensor, "N K"], b: Float[Tensor, " K"]) -> Float[Tensor, "*rows K"]:
    """Compute ``x W + b`` in one operation: under autocast in its precision, which adding b later would change."""
    return linear(x, W.T, b)


def parallel_adapter(
    h: Float[Tensor, "*rows H"], delta: Float[Tensor, "*rows H"], *, multiply: bool = False
) -> Float[Tensor, "*rows H"]:
    """Combine an adapter with the sub-layer beside it: ``h + d(x)``, or ``h (1 + d(x))``, extension (v) of the paper.

    Source: Houlsby et al. 2019, section 3.6.

    Args:
        h: the output of the sub-layer for x.
        delta: d(x), the output of `bottleneck` for x.
    """
    return h * (1 + delta) if multiply else h + delta

"""Adapters (Houlsby et al. 2019, "Parameter-Efficient Transfer Learning for NLP", sections 2.1 and 3.6)."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn.functional import gelu, layer_norm, linear

__all__ = ["Activation", "adapter", "bottleneck", "grouped_bottleneck", "parallel_adapter"]


Activation = Callable[[Tensor], Tensor]


def adapter(
    h: Float[Tensor, "*rows H"],
    W_down: Float[Tensor, "H A"],
    b_down: Float[Tensor, " A"],
    W_up: Float[Tensor, "A H"],
    b_up: Float[Tensor, " H"],
    f: Activation = gelu,
    *,
    norm: tuple[Float[Tensor, " A"], Float[Tensor, " A"]] | None = None,
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
    norm: tuple[Float[Tensor, " A"], Float[Tensor, " A"]] | None = None,
    inner: Sequence[tuple[Float[Tensor, "A A"], Float[Tensor, " A"]]] = (),
) -> Float[Tensor, "*rows H"]:
    """Compute what an adapter adds: ``u_1 = f(N(x W_down + b_down))``, ``u_k+1 = f(u_k V_k + c_k)``, ``u W_up + b_up``.

    The norm N and the inner maps are extensions (i) and (ii) of the paper.

    Source: Houlsby et al. 2019, sections 2.1 and 3.6.

    Args:
        f: the non-linear function; GELU (erf) by default.
        norm: gain and bias of a LayerNorm before the first non-linear function.
        inner: V_k and c_k of every further map.
    """
    u = affine(x, W_down, b_down)
    if norm is not None:
        u = layer_norm(u, u.shape[-1:], *norm)
    u = f(u)
    for V, c in inner:
        u = f(affine(u, V, c))
    return affine(u, W_up, b_up)


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

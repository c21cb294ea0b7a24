"""Injectors (Amplayo, Yoo and Lee 2022, "Attribute Injection for Pretrained Language Models", equations 2 to 11).

Throughout, ``z`` holds the vectors of the distinct values of a batch, and ``membership[b, u]`` is how often row b has
value u; a row of zeros is a row without a value. P is H / O².
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn.functional import gelu

from attribune.functional.adapter import Activation, affine
from attribune.functional.tanh_sum import tanh_sum


def attribute_adapter(
    h: Float[Tensor, "B T H"],
    W: Float[Tensor, "B H A"] | Float[Tensor, "H A"],
    b: Float[Tensor, "B A"] | Float[Tensor, " A"],
    W_up: Float[Tensor, "A H"],
    b_up: Float[Tensor, " H"],
    f: Activation = gelu,
) -> Float[Tensor, "B T H"]:
    """Apply an adapter whose down projection belongs to the row: ``h + f(h W_z + b_z) W_up + b_up``.

    Source: Amplayo, Yoo and Lee 2022, eq. 2-3.

    Args:
        W: the weight generated from each row's values, or one that all rows share.
        b: the bias, likewise.
    """
    return projected_adapter(h, h @ W, b, W_up, b_up, f)


def projected_adapter(
    h: Float[Tensor, "B T H"],
    p: Float[Tensor, "B T A"],
    b: Float[Tensor, "B A"] | Float[Tensor, " A"],
    W_up: Float[Tensor, "A H"],
    b_up: Float[Tensor, " H"],
    f: Activation = gelu,
) -> Float[Tensor, "B T H"]:
    """Apply `attribute_adapter`, given the product ``p = h W_z``.

    Source: Amplayo, Yoo and Lee 2022, eq. 3.
    """
    return h + affine(f(p + b.unsqueeze(-2)), W_up, b_up)


def attribute_bias(
    z: Float[Tensor, "U Z"],
    membership: Float[Tensor, "B U"],
    G: Float[Tensor, "A Z"],
    c: Float[Tensor, " A"],
) -> Float[Tensor, "B A"]:
    """Generate the bias of each row: ``b = sum_k G z_k + c``.

    Source: Amplayo, Yoo and Lee 2022, eq. 4 and 10.
    """
    return membership @ (z @ G.T) + c


def attribute_weight(g: Float[Tensor, "B H A"], C: Float[Tensor, "H A"]) -> Float[Tensor, "B H A"]:
    """Add the shared part to each row's generated weight: ``W = sum_k g(z_k) + C``.

    Source: Amplayo, Yoo and Lee 2022, eq. 5 and 11.

    Args:
        g: the sum over the values of each row, from one of the ``*_weight`` functions.
    """
    return g + C


def phm_weight(
    z: Float[Tensor, "U Z"],
    membership: Float[Tensor, "B U"],
    sigma: Float[Tensor, "O A Z"],
    s: Float[Tensor, "O P"],
    A_o: Float[Tensor, "O O O"],
) -> Float[Tensor, "B H A"]:
    """Generate a low-rank hypercomplex weight, summed over each row's values.

    ``g(z) = sum_o reshape(tanh((sigma_o z) s_o^T ⊗ A_o), (H, A))``. The Kronecker product has shape (A·O, H/O), the
    hyperbolic tangent acts on every element of the product of each o before the sum, the reshape is row-major.

    Source: Amplayo, Yoo and Lee 2022, eq. 6-9 and 11.
    """
    z_hat, K = kronecker_factors(z, sigma, s, A_o)
    return tanh_sum(z_hat, K, membership).reshape(-1, K.shape[1], sigma.shape[1])


def kronecker_factors(
    z: Float[Tensor, "U Z"],
    sigma: Float[Tensor, "*S O A Z"],
    s: Float[Tensor, "*S O P"],
    A_o: Float[Tensor, "*S O O O"],
) -> tuple[Float[Tensor, "*S U O A"], Float[Tensor, "*S O P*O*O"]]:
    """Factor the products (A, O, P, O): row a is z_hat[a] times the same H numbers A_o[i, j] s[p], at each site."""
    with torch.autocast(z.device.type, enabled=False):
        z_hat = torch.einsum("...oaz,uz->...uoa", sigma, z)
    return z_hat, (A_o.unsqueeze(-2) * s[..., None, :, None]).flatten(-3)


def low_rank_weight(
    z: Float[Tensor, "U Z"],
    membership: Float[Tensor, "B U"],
    sigma: Float[Tensor, "A Z"],
    s: Float[Tensor, " H"],
) -> Float[Tensor, "B H A"]:
    """Generate a rank-one weight without hypercomplex products: ``g(z) = tanh((sigma z) s^T)^T``.

    Source: Amplayo, Yoo and Lee 2022, eq. 7 and table 3 (without PHM).
    """
    A, H = sigma.shape[0], s.shape[0]
    with torch.autocast(z.device.type, enabled=False):
        z_hat = (z @ sigma.T).unsqueeze(1)
    return tanh_sum(z_hat, s.unsqueeze(0), membership).reshape(-1, A, H).transpose(1, 2)


def phm_full_weight(
    z: Float[Tensor, "U Z"],
    membership: Float[Tensor, "B U"],
    sigma: Float[Tensor, "O A P Z"],
    A_o: Float[Tensor, "O O O"],
) -> Float[Tensor, "B H A"]:
    """Generate a hypercomplex weight whose S_o is a full map of z.

    ``g(z) = sum_o reshape(tanh(S_o ⊗ A_o), (H, A))`` with ``S_o = reshape(sigma_o z, (A, P))``.

    Source: Amplayo, Yoo and Lee 2022, eq. 8-9 and table 3 (without low rank).
    """
    O, A, P, _ = sigma.shape
    total: Tensor | None = None
    for o in range(O):
        S = torch.einsum("apz,uz->uap", sigma[o], z)
        product = torch.tanh(S[:, :, None, :, None] * A_o[o][None, None, :, None, :])
        term = membership @ product.reshape(z.shape[0], -1)
        total = term if total is None else total + term
    assert total is not None
    return total.reshape(-1, P * O * O, A)


def full_weight(
    z: Float[Tensor, "U Z"], membership: Float[Tensor, "B U"], sigma: Float[Tensor, "H A Z"]
) -> Float[Tensor, "B H A"]:
    """Generate a weight by one full linear map of z.

    Source: Amplayo, Yoo and Lee 2022, table 3 (with neither low rank nor PHM).
    """
    return torch.einsum("haz,bz->bha", sigma, membership @ z)


def attribute_dropout(
    z: Int[Tensor, "B slots"], draw: Float[Tensor, "B M"], counts: Sequence[int], *, r_drop: float
) -> Int[Tensor, "B slots"]:
    """Hide each attribute of each row with probability `r_drop`.

    Nothing is rescaled: a hidden attribute is encoded as one never seen in training, with id 0 in all its slots.

    Source: Amplayo, Yoo and Lee 2022, section 4, attribute dropout; Zhang et al. 2024 (PLoRA), personalised dropout.

    Args:
        z: the ids of the values.
        draw: random numbers; an attribute is hidden where its own is below `r_drop`.
        counts: the number of slots of each attribute, in order.
    """
    keep = draw >= r_drop
    return z * torch.cat([keep[:, m : m + 1].expand(-1, count) for m, count in enumerate(counts)], dim=1)

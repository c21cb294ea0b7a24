"""Basis customisation (Kim, Amplayo et al. 2019, "Categorical Metadata Representation")."""

from __future__ import annotations

import torch
from jaxtyping import Float, Shaped
from torch import Tensor

from attribune.functional.pooling import weighted_states


def basis_coefficients(
    a: Float[Tensor, "B MZ"], W_q: Float[Tensor, "A MZ"], b_q: Float[Tensor, " A"], K: Float[Tensor, "N A"]
) -> Float[Tensor, "B N"]:
    """Return the share of each basis: ``s = softmax(K tanh(W_q [a_1; ...; a_M] + b_q))``.

    Source: Kim et al. 2019, the shares of the bases.
    """
    return (torch.tanh(a @ W_q.T + b_q) @ K.T).softmax(dim=-1)


def mixed_bases(
    s: Float[Tensor, "B N"], B_n: Float[Tensor, " N *shape"], B_0: Float[Tensor, "*shape"] | None = None
) -> Float[Tensor, " B *shape"]:
    """Mix a parameter for each row: ``theta = sum_n s_n B_n + B_0``.

    Source: Kim et al. 2019, the customised parameter.
    """
    mixed = (s @ B_n.flatten(1)).view(s.shape[0], *B_n.shape[1:])
    return mixed if B_0 is None else mixed + B_0


def customised_words(x: Float[Tensor, "B T E"], theta: Float[Tensor, "B E E"]) -> Float[Tensor, "B T E"]:
    """Customise word vectors: ``x_t + tanh(x_t theta)``.

    Source: Kim et al. 2019, the customisation of the word embedding.
    """
    return x + torch.tanh(x @ theta)


def context_attention_pool(
    hidden: Float[Tensor, "B T H"], attention_mask: Shaped[Tensor, "B T"], z: Float[Tensor, "B H"]
) -> Float[Tensor, "B H"]:
    """Pool tokens by their products with a context vector of each row: ``e_t = z^T h_t``.

    Source: Kim et al. 2019, the attention of the base model.

    Args:
        attention_mask: 1 for real tokens; a row without one gives zeros.
    """
    return weighted_states((hidden @ z.unsqueeze(-1)).squeeze(-1), hidden, attention_mask)

"""MA-BERT and its baselines (Zhang et al. 2021, "MA-BERT", equations 2 to 7 and section 2.2)."""

from __future__ import annotations

import torch
from jaxtyping import Float, Shaped
from torch import Tensor
from torch.nn.functional import dropout as random_dropout
from torch.nn.functional import layer_norm, relu, scaled_dot_product_attention


def concatenate(
    h: Float[Tensor, "B *T H"], a: Float[Tensor, "B MZ"], W: Float[Tensor, "H H+MZ"]
) -> Float[Tensor, "B *T H"]:
    """Fuse states with attributes by concatenation: ``tanh(W [h; a_1; ...; a_M])``.

    Source: Zhang et al. 2021, section 3, the baselines BERT Concat.

    Args:
        h: document vectors, or the states of every token.
    """
    H = h.shape[-1]
    attributes = a @ W[:, H:].T
    return torch.tanh(h @ W[:, :H].T + (attributes if h.dim() == 2 else attributes.unsqueeze(1)))


def multi_attribute_attention(
    T: Float[Tensor, "B L H"],
    attention_mask: Shaped[Tensor, "B L"],
    e: Float[Tensor, "B M D"] | None,
    W_q: Float[Tensor, "M H D"],
    W_k: Float[Tensor, "M H D"],
    W_v: Float[Tensor, "M H D"],
    W_o: Float[Tensor, "M*D H"],
    *,
    heads: int,
    in_values: bool = True,
    dropout: float = 0.0,
) -> Float[Tensor, "B L H"]:
    """Attend once for each attribute, by queries, keys and values that it scales: ``[U_1; ...; U_M] W_o``.

    ``U_m = softmax(Q_m K_m^T / sqrt(d_E)) V_m`` with ``Q_m = (T W_{q,m}) ⊙ e_m``, K and V likewise, in heads of size
    ``d_E = D / heads``. Without attributes and with M = 1 it is plain attention without biases.

    Source: Zhang et al. 2021, eq. 2-7.

    Args:
        T: the states.
        attention_mask: 1 for real tokens.
        e: the rows' attribute vectors; None for plain attention. D is H in the paper.
        heads: K.
        in_values: whether attributes scale V as well as Q and K; without it this is Attention (bias).
        dropout: on the attention's weights.
    """
    B, L, _ = T.shape
    M, _, D = W_q.shape
    Q, K, V = (torch.einsum("blh,mhd->bmld", T, W) for W in (W_q, W_k, W_v))
    if e is not None:
        Q, K = Q * e.unsqueeze(2), K * e.unsqueeze(2)
        V = V * e.unsqueeze(2) if in_values else V
    # Every attribute has heads of its own: (B, M, L, K·d) -> (B, M·K, L, d).
    Q, K, V = (x.view(B, M, L, heads, -1).transpose(2, 3).reshape(B, M * heads, L, -1) for x in (Q, K, V))
    U = scaled_dot_product_attention(Q, K, V, attn_mask=attention_mask.bool()[:, None, None, :], dropout_p=dropout)
    return U.view(B, M, heads, L, -1).permute(0, 3, 1, 2, 4).reshape(B, L, M * D) @ W_o


def multi_attribute_layer(
    T: Float[Tensor, "B L H"],
    attention: Float[Tensor, "B L H"],
    gain_1: Float[Tensor, " H"],
    bias_1: Float[Tensor, " H"],
    W_1: Float[Tensor, "H F"],
    b_1: Float[Tensor, " F"],
    W_2: Float[Tensor, "F H"],
    b_2: Float[Tensor, " H"],
    gain_2: Float[Tensor, " H"],
    bias_2: Float[Tensor, " H"],
    *,
    eps: float = 1e-12,
    dropout: float = 0.0,
) -> Float[Tensor, "B L H"]:
    """Compute the rest of a multi-attribute Transformer layer: ``Y = LN(A + T)``, ``LN(FFN(Y) + Y)``.

    ``FFN(Y) = relu(Y W_1 + b_1) W_2 + b_2``.

    Source: Zhang et al. 2021, section 2.2.

    Args:
        T: the input of the layer.
        attention: A, the output of `multi_attribute_attention`.
        dropout: on the feed-forward output; A has had its own.
    """
    H = T.shape[-1:]
    Y = layer_norm(attention + T, H, gain_1, bias_1, eps)
    added = random_dropout(relu(Y @ W_1 + b_1) @ W_2 + b_2, dropout)
    return layer_norm(added + Y, H, gain_2, bias_2, eps)

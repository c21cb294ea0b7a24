"""The mathematics of the methods: pure functions with the papers' symbols, no state.

Shapes: B rows, T tokens, H = d_h hidden size, A = d_a bottleneck, Z = d_z attribute vector size, O hypercomplex
dimensions, U distinct values, P = H / O² the length of ``s_o``. Matrices act from the right, ``h @ W``, so a
down projection is ``(H, A)`` and an up projection ``(A, H)``.

Sources: Houlsby et al. 2019, "Parameter-Efficient Transfer Learning for NLP", section 2.1 (adapter);
Amplayo, Yoo and Lee 2022, "Attribute Injection for Pretrained Language Models", equations 1 to 11 (Injectors);
Zhang et al. 2021, "MA-BERT", equations 2 to 7; Zhang et al. 2024, "Improving Personalized Sentiment Representation with
Knowledge-enhanced and Parameter-efficient Layer Normalization", equations 4 to 8 (E2LN); Chen et al. 2016 (UPA);
Amplayo 2019 (CHIM); Zhang et al. 2024, "Personalized LoRA for Human-Centered Text Understanding" (PLoRA).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor
from torch.nn.functional import dropout as random_dropout
from torch.nn.functional import gelu, layer_norm, linear, relu, scaled_dot_product_attention

from attribune.fused import ProjectionWay, fused_projection, is_better_fused
from attribune.tangents import sum_of_tanh

__all__ = [
    "adapter",
    "attention_pool",
    "attribute_adapter",
    "attribute_bias",
    "attribute_weight",
    "bottleneck",
    "chunk_importance_logits",
    "concatenate",
    "control_tokens",
    "first_token",
    "full_weight",
    "last_token",
    "layer_norm_pool",
    "low_rank_weight",
    "max_tokens",
    "mean_tokens",
    "multi_attribute_attention",
    "multi_attribute_layer",
    "parallel_adapter",
    "personalised_low_rank",
    "personalised_norm",
    "phm_full_weight",
    "phm_projection",
    "phm_weight",
    "projected_adapter",
]

Activation = Callable[[Tensor], Tensor]


def adapter(
    h: Tensor,
    W_down: Tensor,
    b_down: Tensor,
    W_up: Tensor,
    b_up: Tensor,
    f: Activation = gelu,
    *,
    norm: tuple[Tensor, Tensor] | None = None,
    inner: Sequence[tuple[Tensor, Tensor]] = (),
) -> Tensor:
    """Bottleneck with a residual: ``h + f(h W_down + b_down) W_up + b_up`` (Houlsby 2.1; Injectors eq. 1).

    Args:
        h: (..., H).
        W_down: (H, A).
        b_down: (A,).
        W_up: (A, H).
        b_up: (H,).
        f: the non-linear function, GELU (erf) unless told otherwise.
        norm: see `bottleneck`.
        inner: see `bottleneck`.

    Returns:
        (..., H).
    """
    return h + bottleneck(h, W_down, b_down, W_up, b_up, f, norm=norm, inner=inner)


def bottleneck(
    x: Tensor,
    W_down: Tensor,
    b_down: Tensor,
    W_up: Tensor,
    b_up: Tensor,
    f: Activation = gelu,
    *,
    norm: tuple[Tensor, Tensor] | None = None,
    inner: Sequence[tuple[Tensor, Tensor]] = (),
) -> Tensor:
    """What an adapter adds: ``u_1 = f(N(x W_down + b_down))``, ``u_k+1 = f(u_k V_k + c_k)``, ``u_last W_up + b_up``.

    The norm N and the inner maps are extensions (i) and (ii) of Houlsby et al. 2019, section 3.6.

    Args:
        x: (..., H).
        W_down: (H, A).
        b_down: (A,).
        W_up: (A, H).
        b_up: (H,).
        f: the non-linear function, GELU (erf) unless told otherwise.
        norm: gain (A,) and bias (A,) of a LayerNorm in front of the first non-linear function; none without.
        inner: V_k (A, A) and c_k (A,) of every further map.

    Returns:
        (..., H).
    """
    u = _affine(x, W_down, b_down)
    if norm is not None:
        u = layer_norm(u, u.shape[-1:], *norm)
    u = f(u)
    for V, c in inner:
        u = f(_affine(u, V, c))
    return _affine(u, W_up, b_up)


def _affine(x: Tensor, W: Tensor, b: Tensor) -> Tensor:
    """``x W + b`` in one operation: under autocast in its precision, which a float32 bias added later would change."""
    return linear(x, W.T, b)


def parallel_adapter(h: Tensor, delta: Tensor, *, multiply: bool = False) -> Tensor:
    """Adapter beside a sub-layer: ``h + d(x)``, or ``h (1 + d(x))`` (extension (v) of Houlsby 2019, section 3.6).

    Args:
        h: (..., H), what the sub-layer made of x.
        delta: (..., H), d(x), what `bottleneck` made of x.
        multiply: whether the two interact by multiplication.

    Returns:
        (..., H).
    """
    return h * (1 + delta) if multiply else h + delta


def attribute_adapter(h: Tensor, W: Tensor, b: Tensor, W_up: Tensor, b_up: Tensor, f: Activation = gelu) -> Tensor:
    """Adapter whose down projection belongs to the row: ``h + f(h W_z + b_z) W_up + b_up`` (Injectors eq. 2-3).

    Args:
        h: (B, T, H).
        W: (B, H, A), the weight generated from each row's values, or (H, A) shared by all rows.
        b: (B, A), the bias generated from each row's values, or (A,) shared by all rows.
        W_up: (A, H).
        b_up: (H,).
        f: the non-linear function.

    Returns:
        (B, T, H).
    """
    return projected_adapter(h, h @ W, b, W_up, b_up, f)


def projected_adapter(h: Tensor, p: Tensor, b: Tensor, W_up: Tensor, b_up: Tensor, f: Activation = gelu) -> Tensor:
    """`attribute_adapter` of states that are multiplied with their rows' weights already.

    Args:
        h: (B, T, H).
        p: (B, T, A), ``h W_z``.
        b: (B, A), or (A,) shared by all rows.
        W_up: (A, H).
        b_up: (H,).
        f: the non-linear function.

    Returns:
        (B, T, H).
    """
    return h + _affine(f(p + b.unsqueeze(-2)), W_up, b_up)


def attribute_bias(z: Tensor, membership: Tensor, G: Tensor, c: Tensor) -> Tensor:
    """Bias of each row: ``b = sum_k G z_k + c`` (Injectors eq. 4 and 10).

    Args:
        z: (U, Z), vectors of the distinct values.
        membership: (B, U), how often row b has value u; a row of zeros is a row without a value.
        G: (A, Z).
        c: (A,).

    Returns:
        (B, A).
    """
    return membership @ (z @ G.T) + c


def attribute_weight(g: Tensor, C: Tensor) -> Tensor:
    """Weight of each row: ``W = sum_k g(z_k) + C`` (Injectors eq. 5 and 11), the sum having been taken in g.

    Args:
        g: (B, H, A), from one of the ``*_weight`` functions.
        C: (H, A).

    Returns:
        (B, H, A).
    """
    return g + C


def phm_weight(z: Tensor, membership: Tensor, sigma: Tensor, s: Tensor, A_o: Tensor) -> Tensor:
    """Low-rank hypercomplex weight, summed over each row's values (Injectors eq. 6-9 and 11).

    ``g(z) = sum_o reshape(tanh((sigma_o z) s_o^T ⊗ A_o), (H, A))``. The Kronecker product has shape (A·O, H/O), the
    hyperbolic tangent acts on every element of the product of each o before the sum, the reshape is row-major.

    Args:
        z: (U, Z), vectors of the distinct values.
        membership: (B, U).
        sigma: (O, A, Z).
        s: (O, P) with P = H / O².
        A_o: (O, O, O), one O x O matrix for each o.

    Returns:
        (B, H, A), the sum over the values of each row.
    """
    z_hat, K = _phm_factors(z, sigma, s, A_o)
    return sum_of_tanh(z_hat, K, membership).reshape(-1, K.shape[1], sigma.shape[1])


def phm_projection(
    h: Tensor,
    z: Tensor,
    membership: Tensor,
    sigma: Tensor,
    s: Tensor,
    A_o: Tensor,
    C: Tensor,
    *,
    way: ProjectionWay = "auto",
) -> Tensor:
    """States times the weights of their rows, ``h (g + C)`` with g of `phm_weight`.

    ``weights`` writes them and multiplies; ``fused`` multiplies while it makes them, on CUDA. The results are the same
    but for the rounding of float32 sums. ``auto`` is fused for up to 128 tokens in float32 and the half precisions,
    where Triton is installed and its kernel gave the right result when it was first tried in the process; the variable
    `ATTRIBUNE_FUSED` overrides it.

    Args:
        h: (B, T, H).
        z: (U, Z); membership, sigma, s and A_o as for `phm_weight`.
        membership: (B, U).
        sigma: (O, A, Z).
        s: (O, P).
        A_o: (O, O, O).
        C: (H, A).
        way: how.

    Returns:
        (B, T, A).

    Raises:
        ConfigError: for a value of the variable that says nothing.
    """
    if way == "fused" or (way == "auto" and is_better_fused(h, membership)):
        return fused_projection(h, *_phm_factors(z, sigma, s, A_o), membership, C)
    return h @ attribute_weight(phm_weight(z, membership, sigma, s, A_o), C)


def _phm_factors(z: Tensor, sigma: Tensor, s: Tensor, A_o: Tensor) -> tuple[Tensor, Tensor]:
    """(U, O, A) and (O, H): row a of the product (A, O, P, O) is z_hat[a] times the same H numbers A_o[i, j] s[p]."""
    O = sigma.shape[0]
    with torch.autocast(z.device.type, enabled=False):
        z_hat = torch.einsum("oaz,uz->uoa", sigma, z)
    return z_hat, (A_o[:, :, None, :] * s[:, None, :, None]).reshape(O, -1)


def low_rank_weight(z: Tensor, membership: Tensor, sigma: Tensor, s: Tensor) -> Tensor:
    """Rank-one weight without hypercomplex products: ``g(z) = tanh((sigma z) s^T)^T`` (Injectors table 3, no PHM).

    Args:
        z: (U, Z).
        membership: (B, U).
        sigma: (A, Z).
        s: (H,).

    Returns:
        (B, H, A).
    """
    A, H = sigma.shape[0], s.shape[0]
    with torch.autocast(z.device.type, enabled=False):
        z_hat = (z @ sigma.T).unsqueeze(1)
    return sum_of_tanh(z_hat, s.unsqueeze(0), membership).reshape(-1, A, H).transpose(1, 2)


def phm_full_weight(z: Tensor, membership: Tensor, sigma: Tensor, A_o: Tensor) -> Tensor:
    """Hypercomplex weight whose S_o is a full map of z (Injectors table 3, no low rank).

    ``g(z) = sum_o reshape(tanh(S_o ⊗ A_o), (H, A))`` with ``S_o = reshape(sigma_o z, (A, P))``.

    Args:
        z: (U, Z).
        membership: (B, U).
        sigma: (O, A, P, Z) with P = H / O².
        A_o: (O, O, O).

    Returns:
        (B, H, A).
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


def full_weight(z: Tensor, membership: Tensor, sigma: Tensor) -> Tensor:
    """Weight by one full linear map Z → H·A (Injectors table 3, neither low rank nor PHM).

    Args:
        z: (U, Z).
        membership: (B, U).
        sigma: (H, A, Z).

    Returns:
        (B, H, A).
    """
    return torch.einsum("haz,bz->bha", sigma, membership @ z)


def control_tokens(
    embeddings: Tensor, attention_mask: Tensor, values: Tensor, present: Tensor, *, after_first: bool | Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """Attribute values as tokens right after the first one: ``[CLS] v_1 ... v_n x_1 ...``.

    A missing value keeps its place, with attention mask 0.

    Args:
        embeddings: (B, T, E), of the text's tokens, before positions are added.
        attention_mask: (B, T), 1 for real tokens; padding may stand on either side.
        values: (B, n, E).
        present: (B, n), 1 where there is a value.
        after_first: whether the first real token comes before the values, for all rows or each (B,); without a special
            token there, it does not.

    Returns:
        (B, T + n, E), (B, T + n), and (B, T), where each token of the text stands.
    """
    B, T, E = embeddings.shape
    n = values.shape[1]
    before = torch.as_tensor(after_first, device=embeddings.device).expand(B).unsqueeze(1).to(torch.int64)
    first = attention_mask.to(torch.int32).argmax(dim=1, keepdim=True) + before
    tokens = torch.arange(T, device=embeddings.device).expand(B, T)
    tokens = torch.where(tokens < first, tokens, tokens + n)
    slots = first + torch.arange(n, device=embeddings.device)
    order = torch.cat([tokens, slots], dim=1)
    states = torch.cat([embeddings, values.to(embeddings.dtype)], dim=1)
    mask = torch.cat([attention_mask, present.to(attention_mask.dtype)], dim=1)
    states = torch.zeros_like(states).scatter(1, order.unsqueeze(-1).expand(-1, -1, E), states)
    return states, torch.zeros_like(mask).scatter(1, order, mask), tokens


def concatenate(h: Tensor, a: Tensor, W: Tensor) -> Tensor:
    """Fusion by concatenation: ``tanh(W [h; a_1; ...; a_M])`` (MA-BERT, the baselines Concat).

    Args:
        h: (B, H), or (B, T, H) for every token.
        a: (B, Z_1 + ... + Z_M), the rows' attribute vectors side by side.
        W: (H, H + Z_1 + ... + Z_M).

    Returns:
        As h.
    """
    H = h.shape[-1]
    attributes = a @ W[:, H:].T
    return torch.tanh(h @ W[:, :H].T + (attributes if h.dim() == 2 else attributes.unsqueeze(1)))


def multi_attribute_attention(
    T: Tensor,
    attention_mask: Tensor,
    e: Tensor | None,
    W_q: Tensor,
    W_k: Tensor,
    W_v: Tensor,
    W_o: Tensor,
    *,
    heads: int,
    in_values: bool = True,
    dropout: float = 0.0,
) -> Tensor:
    """Multi-attribute attention (MA-BERT eq. 2-7): ``[U_1; ...; U_M] W_o``.

    ``U_m = softmax(Q_m K_m^T / sqrt(d_E)) V_m`` with ``Q_m = (T W_{q,m}) ⊙ e_m``, K and V likewise, in heads of size
    ``d_E = D / heads``. Without attributes and with M = 1 it is plain attention without biases.

    Args:
        T: (B, L, H), the states.
        attention_mask: (B, L), 1 for real tokens.
        e: (B, M, D), the rows' attribute vectors; None leaves them out. D is H in the paper.
        W_q: (M, H, D).
        W_k: (M, H, D).
        W_v: (M, H, D).
        W_o: (M·D, H).
        heads: K.
        in_values: whether the attributes are in V too, and not in Q and K only (Attention (bias)).
        dropout: on the attention's weights.

    Returns:
        (B, L, H).
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
    T: Tensor,
    attention: Tensor,
    gain_1: Tensor,
    bias_1: Tensor,
    W_1: Tensor,
    b_1: Tensor,
    W_2: Tensor,
    b_2: Tensor,
    gain_2: Tensor,
    bias_2: Tensor,
    *,
    eps: float = 1e-12,
    dropout: float = 0.0,
) -> Tensor:
    """The rest of a multi-attribute Transformer layer (MA-BERT 2.2): ``Y = LN(A + T)``, ``LN(FFN(Y) + Y)``.

    ``FFN(Y) = relu(Y W_1 + b_1) W_2 + b_2``.

    Args:
        T: (B, L, H), what the layer reads.
        attention: (B, L, H), A, from `multi_attribute_attention`.
        gain_1: (H,); bias_1 likewise.
        bias_1: (H,).
        W_1: (H, F).
        b_1: (F,).
        W_2: (F, H).
        b_2: (H,).
        gain_2: (H,).
        bias_2: (H,).
        eps: of the norms.
        dropout: on what the feed-forward part adds; A comes with its own.

    Returns:
        (B, L, H).
    """
    H = T.shape[-1:]
    Y = layer_norm(attention + T, H, gain_1, bias_1, eps)
    added = random_dropout(relu(Y @ W_1 + b_1) @ W_2 + b_2, dropout)
    return layer_norm(added + Y, H, gain_2, bias_2, eps)


def personalised_norm(normed: Tensor, bias: Tensor | None, g: Tensor, b: Tensor) -> Tensor:
    """Personalised LayerNorm (E2LN eq. 5-6): ``LN(x; (1 + g) ⊙ gain, b + bias)``, made from the plain norm's output.

    ``LN(x; gain, bias) - bias`` is the normalised state times the gain, so that ``normed + g (normed - bias) + b`` is
    the personalised norm, and exactly the plain one where g and b are zero. An RMSNorm has no bias.

    Args:
        normed: (B, T, H), ``LN(x; gain, bias)``.
        bias: (H,), or None.
        g: (B, H), the change of the gain.
        b: (B, H), the change of the bias.

    Returns:
        (B, T, H).
    """
    scaled = normed if bias is None else normed - bias
    return normed + g.unsqueeze(1) * scaled + b.unsqueeze(1)


def layer_norm_pool(normed: Tensor, attention_mask: Tensor) -> Tensor:
    """LayerNorm-based attentive pooling (E2LN eq. 8), made from the norm's output.

    ``score_w = ((f_w - mean) / std) · gain`` is the sum of ``LN(f_w) - bias`` over its features, and the bias, the same
    for every token, falls out of the softmax over the real tokens. The pooled vector is the sum of ``LN(f_w)``,
    weighted by it.

    Args:
        normed: (B, T, H), ``LN(f; gain, bias)``.
        attention_mask: (B, T), 1 for real tokens; a row without one gives zeros.

    Returns:
        (B, H).
    """
    exact = normed.to(torch.promote_types(normed.dtype, torch.float32))
    return (_softmax_over_real(exact.sum(dim=-1), attention_mask).unsqueeze(1) @ exact).squeeze(1).to(normed.dtype)


def personalised_low_rank(
    output: Tensor, x: Tensor, a: Tensor, A: Tensor, P: Tensor, B: Tensor, *, scale: float
) -> Tensor:
    """Personalised low-rank adaptation (PLoRA): ``W x + b + scale · B (A x + sum_j P_j a_j)``.

    Args:
        output: (B, T, out), ``W x + b``.
        x: (B, T, in).
        a: (B, Z_1 + ... + Z_M), the rows' attribute vectors side by side.
        A: (r, in).
        P: (r, Z_1 + ... + Z_M), the P_j side by side.
        B: (out, r).
        scale: alpha / r.

    Returns:
        (B, T, out).
    """
    return output + scale * ((x @ A.T + (a @ P.T).unsqueeze(1)) @ B.T)


def _softmax_over_real(scores: Tensor, attention_mask: Tensor) -> Tensor:
    """Softmax (B, T) over the real tokens; zeros for a row without one."""
    real = attention_mask.bool()
    # The smallest number and not minus infinity: a row without a real token must not become NaN.
    return scores.masked_fill(~real, torch.finfo(scores.dtype).min).softmax(dim=1) * real


def attention_pool(
    hidden: Tensor, attention_mask: Tensor, a: Tensor, W_h: Tensor, W: Tensor, b: Tensor, v: Tensor
) -> Tensor:
    """User and product attention (Chen et al. 2016, eq. 2-3): ``e_t = v^T tanh(W_h h_t + sum_j W_j a_j + b)``.

    The weights are a softmax of e over the real tokens, and the document vector is their sum of the states.

    Args:
        hidden: (B, T, H).
        attention_mask: (B, T), 1 for real tokens; a row without one gives zeros.
        a: (B, M·Z), the rows' attribute vectors side by side, a missing one zero.
        W_h: (A, H).
        W: (A, M·Z), the W_j side by side.
        b: (A,).
        v: (A,).

    Returns:
        (B, H).
    """
    scores = torch.tanh(hidden @ W_h.T + (a @ W.T + b).unsqueeze(1)) @ v
    alpha = _softmax_over_real(scores.to(torch.promote_types(scores.dtype, torch.float32)), attention_mask)
    return (alpha.to(hidden.dtype).unsqueeze(1) @ hidden).squeeze(1)


def chunk_importance_logits(h: Tensor, c: Tensor, Q: Tensor, b_q: Tensor, W: Tensor, b: Tensor) -> Tensor:
    """Chunk-wise importance matrix at the classifier (Amplayo 2019): ``logits = h (I ⊙ W) + b``.

    ``q = reshape(Q c + b_q, (N, L))`` is one chunk, ``I[i, l] = sigmoid(q[i mod N, l])`` the chunk tiled over H.

    Args:
        h: (B, H).
        c: (B, M·Z), the rows' attribute vectors side by side, a missing one zero.
        Q: (N·L, M·Z), N a divisor of H.
        b_q: (N·L,).
        W: (H, L).
        b: (L,).

    Returns:
        (B, L).
    """
    B, H = h.shape
    L = b.shape[0]
    N = Q.shape[0] // L
    importance = torch.sigmoid(c @ Q.T + b_q).view(B, N, L)
    # The same importance falls on every N-th feature, so those are added up first: the (B, H, L) of I is never made.
    parts = torch.einsum("brn,rnl->bnl", h.view(B, H // N, N), W.view(H // N, N, L))
    return (parts * importance).sum(dim=1) + b


def first_token(hidden: Tensor, attention_mask: Tensor) -> Tensor:
    """State of the first real token, wherever padding stands.

    Args:
        hidden: (B, T, H).
        attention_mask: (B, T), 1 for real tokens.

    Returns:
        (B, H).
    """
    index = attention_mask.to(torch.int32).argmax(dim=1)
    return hidden[torch.arange(hidden.shape[0], device=hidden.device), index]


def last_token(hidden: Tensor, attention_mask: Tensor) -> Tensor:
    """State of the last real token, wherever padding stands. Shapes as in `first_token`."""
    T = attention_mask.shape[1]
    index = T - 1 - attention_mask.flip(1).to(torch.int32).argmax(dim=1)
    return hidden[torch.arange(hidden.shape[0], device=hidden.device), index]


def max_tokens(hidden: Tensor, attention_mask: Tensor) -> Tensor:
    """Largest value of each feature over the real tokens. Shapes as in `first_token`; zeros without a real token."""
    real = attention_mask.unsqueeze(-1).bool()
    largest = hidden.masked_fill(~real, torch.finfo(hidden.dtype).min).amax(dim=1)
    return largest.masked_fill(~real.any(dim=1), 0)


def mean_tokens(hidden: Tensor, attention_mask: Tensor) -> Tensor:
    """Mean over the real tokens. Shapes as in `first_token`; a row without a real token gives zeros."""
    real = attention_mask.unsqueeze(-1).bool()
    # float16 sums of a few hundred tokens overflow.
    total = hidden.masked_fill(~real, 0).sum(dim=1, dtype=torch.promote_types(hidden.dtype, torch.float32))
    return (total / real.sum(dim=1).clamp(min=1)).to(hidden.dtype)

"""Cold-start-aware attention (Amplayo et al. 2018, "Cold-Start Aware User and Product Attention", HCSC)."""

from __future__ import annotations

import torch
from jaxtyping import Float, Shaped
from torch import Tensor

_SMALLEST = 1e-6  # of relu(λ), by which frequencies are divided
_LARGEST = 7.0  # of the logarithm of a power: exp(-exp(7)) is 0 in float64


def shared_vector(
    hidden_mean: Float[Tensor, "B H"],
    W_m: Float[Tensor, "Z H"],
    b_m: Float[Tensor, " Z"],
    E: Float[Tensor, "U Z"],
    *,
    left_out: Shaped[Tensor, "B U"] | None = None,
) -> Float[Tensor, "B Z"]:
    """Compose a vector of those of all values: ``beta E`` with ``beta = softmax(E (W_m mean_t h_t + b_m))``.

    Source: Amplayo et al. 2018, the shared vector.

    Args:
        E: vectors of all known values.
        left_out: above 0 for values that a row must not read, such as its own.
    """
    scores = (hidden_mean @ W_m.T + b_m) @ E.T
    if left_out is not None:
        scores = scores.masked_fill(left_out > 0, torch.finfo(scores.dtype).min)
        return scores.softmax(dim=1).masked_fill(left_out > 0, 0) @ E
    return scores.softmax(dim=1) @ E


def frequency_gate(
    f: Float[Tensor, " B"], scale: Float[Tensor, " H"], shape: Float[Tensor, " H"]
) -> Float[Tensor, "B H"]:
    """Return the weight of a value's own vector: ``g = 1 - exp(-(f / relu(λ))^relu(k))``; 0 for a frequency of 0.

    Source: Amplayo et al. 2018, the frequency-guided gate.

    Args:
        f: training rows of the value, by the mean of all values; 0 for an unknown or missing value.
        scale: λ.
        shape: k.
    """
    known = (f > 0).unsqueeze(1)
    # On a base of 1 where the frequency is 0, and without large powers, since their gradients are not finite.
    base = torch.where(known, f.unsqueeze(1), 1.0) / scale.relu().clamp(min=_SMALLEST)
    power = torch.exp((shape.relu() * base.log()).clamp(max=_LARGEST))
    return torch.where(known, 1 - torch.exp(-power), 0.0)


def attribute_gate(
    v: Float[Tensor, "B M H"], W_g: Float[Tensor, "GH MH"], b_g: Float[Tensor, " GH"]
) -> Float[Tensor, "B H"]:
    """Add the vectors of the attributes up, weighted feature by feature.

    For two attributes ``g ⊙ v_1 + (1 - g) ⊙ v_2`` with ``g = sigmoid(W_g [v_1; v_2] + b_g)``; for more the weights are
    the softmax of M rows for each feature; one is taken as it is.

    Source: Amplayo et al. 2018, the gate of user and product; more than two attributes are ours.

    Args:
        W_g: of H rows for two attributes, of M H rows for more.
    """
    B, M, H = v.shape
    if M == 1:
        return v[:, 0]
    scores = v.reshape(B, M * H) @ W_g.T + b_g
    if M == 2:
        g = scores.sigmoid()
        return g * v[:, 0] + (1 - g) * v[:, 1]
    return (scores.view(B, M, H).softmax(dim=1) * v).sum(dim=1)

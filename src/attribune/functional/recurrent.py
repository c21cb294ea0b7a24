"""Long short-term memory over words (Hochreiter and Schmidhuber 1997), in both directions."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, partial
from typing import Literal, NamedTuple, TypeAlias

import torch
from jaxtyping import Float, Int, Shaped
from torch import Tensor

# cuDNN has gradients in training mode alone; there is no dropout that the mode could turn on.
_HAS_GRADIENTS = True

Padding: TypeAlias = Literal["packed", "run"]
"""Whether a direction reads real words alone, or runs over padding as well."""


class LSTMWeights(NamedTuple):
    """The parameters of one direction: gates i, f, g, o one below the other, and two biases, which add up."""

    W_ih: Float[Tensor, "gates E"]
    W_hh: Float[Tensor, "gates H"]
    b_ih: Float[Tensor, " gates"]
    b_hh: Float[Tensor, " gates"]


def bilstm(
    x: Float[Tensor, "B T E"],
    attention_mask: Shaped[Tensor, "B T"],
    forward: LSTMWeights,
    backward: LSTMWeights,
    *,
    padding: Padding = "packed",
) -> Float[Tensor, "B T states"]:
    """Run two directions, each an `lstm` with weights of its own, and put their states side by side.

    Source: Hochreiter and Schmidhuber 1997, section 4.
    """
    first = lstm(x, attention_mask, forward, padding=padding)
    return torch.cat([first, lstm(x, attention_mask, backward, reverse=True, padding=padding)], dim=-1)


def lstm(
    x: Float[Tensor, "B T E"],
    attention_mask: Shaped[Tensor, "B T"],
    weights: LSTMWeights,
    *,
    reverse: bool = False,
    padding: Padding = "packed",
) -> Float[Tensor, "B T H"]:
    """Compute ``c_t = f ⊙ c_{t-1} + i ⊙ g`` and ``h_t = o ⊙ tanh(c_t)`` from zero states, without peepholes.

    The gates are ``i, f, o = sigmoid`` and ``g = tanh`` of ``W_ih x_t + b_ih + W_hh h_{t-1} + b_hh``.

    Source: Hochreiter and Schmidhuber 1997, section 4; Chen et al. 2016 (NSC), its two levels.

    Args:
        attention_mask: 1 for real words, wherever they stand.
        reverse: whether it reads from the last word to the first.
        padding: ``packed`` reads the real words of a row one after the other, and gives zeros at padding; ``run`` reads
            padding as well, as some released code does, so that the states depend on how long other rows are.
    """
    return _in_order(x, attention_mask, partial(_run, weights=weights), reverse=reverse, padding=padding)


def _in_order(
    x: Float[Tensor, "B T E"],
    attention_mask: Shaped[Tensor, "B T"],
    run: Callable[[Tensor], Tensor],
    *,
    reverse: bool,
    padding: Padding,
) -> Float[Tensor, "B T H"]:
    """Run a direction over words in the order in which it reads them, and put the states back in their places."""
    if padding == "run":
        states = run(x.flip(1) if reverse else x)
        return states.flip(1) if reverse else states
    places = real_words_first(attention_mask, reverse=reverse).unsqueeze(-1)
    states = run(x.gather(1, places.expand_as(x)))
    back = torch.zeros_like(states).scatter(1, places.expand_as(states), states)
    return back * attention_mask.unsqueeze(-1).to(back.dtype)


def _run(x: Float[Tensor, "B T E"], weights: LSTMWeights) -> Float[Tensor, "B T H"]:
    """Run one direction from the first word on, in the precision of its weights where autocast's has no LSTM."""
    if x.device.type == "cpu" and torch.is_autocast_enabled("cpu") and not _has_autocast_lstm():
        with torch.autocast("cpu", enabled=False):
            return _states(x.to(weights.W_hh.dtype), weights)
    return _states(x, weights)


def _states(x: Float[Tensor, "B T E"], weights: LSTMWeights) -> Float[Tensor, "B T H"]:
    zeros = x.new_zeros(1, x.shape[0], weights.W_hh.shape[1])
    states: Tensor = torch.lstm(x, (zeros, zeros), list(weights), True, 1, 0.0, _HAS_GRADIENTS, False, True)[0]
    return states


@cache
def _has_autocast_lstm() -> bool:
    """Whether this processor has LSTMs in bf16, with gradients: oneDNN refuses them where instructions are missing."""
    with torch.inference_mode(False), torch.enable_grad(), torch.autocast("cpu", dtype=torch.bfloat16):
        weights = LSTMWeights(*(torch.ones(4, *more, requires_grad=True) for more in ((1,), (1,), (), ())))
        try:
            _states(torch.ones(1, 2, 1), weights).float().sum().backward()  # type: ignore[no-untyped-call]
        except RuntimeError:
            return False
    return True


def real_words_first(attention_mask: Shaped[Tensor, "B T"], *, reverse: bool = False) -> Int[Tensor, "B T"]:
    """Return the places of a row's words in the order in which they are read, and then those of its padding."""
    T = attention_mask.shape[1]
    places = torch.arange(T, device=attention_mask.device)
    rank = (T - places if reverse else places + 1).expand_as(attention_mask)
    return torch.where(attention_mask.bool(), rank, T + 1 + places).argsort(dim=1)


class RowLSTMWeights(NamedTuple):
    """The parameters of one direction for each row: gates i, f, g, o side by side, which ``x W`` makes."""

    W_x: Float[Tensor, "B E gates"]
    W_h: Float[Tensor, "B H gates"]
    b: Float[Tensor, "B gates"]


def lstm_by_row(
    x: Float[Tensor, "B T E"],
    attention_mask: Shaped[Tensor, "B T"],
    weights: RowLSTMWeights,
    *,
    reverse: bool = False,
    padding: Padding = "packed",
) -> Float[Tensor, "B T H"]:
    """Compute `lstm` with weights of its own for each row.

    Source: Hochreiter and Schmidhuber 1997, section 4.

    Args:
        attention_mask: 1 for real words, wherever they stand.
        reverse: whether it reads from the last word to the first.
        padding: as for `lstm`.
    """
    return _in_order(x, attention_mask, partial(_run_rows, weights=weights), reverse=reverse, padding=padding)


def _run_rows(x: Float[Tensor, "B T E"], weights: RowLSTMWeights) -> Float[Tensor, "B T H"]:
    inputs = torch.baddbmm(weights.b.unsqueeze(1), x, weights.W_x)
    B, H = x.shape[0], weights.W_h.shape[1]
    h, c, states = x.new_zeros(B, 1, H), x.new_zeros(B, 1, H), []
    for step in torch.split(inputs, 1, dim=1):
        i, f, g, o = torch.baddbmm(step, h, weights.W_h).chunk(4, dim=-1)
        c = f.sigmoid() * c + i.sigmoid() * g.tanh()
        h = o.sigmoid() * c.tanh()
        states.append(h)
    return torch.cat(states, dim=1)

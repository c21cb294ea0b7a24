"""FTRL-Proximal, the optimiser of wide towers."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor

__all__ = ["FTRL"]

_START = 0.1  # of the sum of squares, as in TensorFlow, so that first steps are finite


class FTRL(torch.optim.Optimizer):
    """FTRL-Proximal with an L1 penalty for parameters with sparse gradients, which start at 0.

    Of a feature that a batch does not have nothing changes, which is exact: the penalty is part of the formula that
    makes the weight of the sums z and n, and not of the gradient.

        sigma = (sqrt(n + g²) - sqrt(n)) / rate;  z <- z + g - sigma w;  n <- n + g²
        w = 0 if |z| <= l1, else -rate (z - sign(z) l1) / sqrt(n)

    After McMahan et al. 2013, "Ad Click Prediction: a View from the Trenches", algorithm 1, with beta = 0, which the
    wide tower of Cheng et al. 2016 is trained by.

    Args:
        rate: above 0.
        l1: at least 0.
    """

    def __init__(self, parameters: Iterable[Tensor], *, rate: float, l1: float) -> None:
        super().__init__(parameters, {"rate": rate, "l1": l1})

    @torch.no_grad()
    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Update the rows that have a gradient."""
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        for group in self.param_groups:
            for parameter in group["params"]:
                if parameter.grad is not None:
                    self._update(parameter, parameter.grad.coalesce(), group["rate"], group["l1"])
        return loss

    def _update(self, table: Tensor, grad: Tensor, rate: float, l1: float) -> None:
        state = self.state[table]
        if not state:
            state["z"], state["n"] = torch.zeros_like(table), torch.full_like(table, _START)
        rows, g = grad.indices()[0], grad.values()
        n = state["n"][rows]
        sums = n + g.square()
        z = state["z"][rows] + g - (sums.sqrt() - n.sqrt()) / rate * table[rows]
        state["z"][rows], state["n"][rows] = z, sums
        table[rows] = torch.where(z.abs() <= l1, 0.0, -rate * (z - z.sign() * l1) / sums.sqrt())

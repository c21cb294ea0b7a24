"""The Injector in loops written from Amplayo, Yoo and Lee 2022, equations 1 to 11, in float64.

The loops run over rows, tokens, attributes, values, o and every index, on Python numbers. Two conventions that the
paper leaves open: matrices act from the right, and reshape is row-major.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from typing import Any

import torch
from slow_layers import Matrix, gelu
from slow_layers import matrix_times as linear
from torch import Tensor, nn

from attribune.methods import Injector
from attribune.methods.condition import Slots


def zeros(rows: int, columns: int) -> Matrix:
    return [[0.0] * columns for _ in range(rows)]


def put(flat: dict[int, float], H: int, A: int) -> Matrix:
    """Row-major reshape of H·A numbers, by their running index."""
    assert len(flat) == H * A
    return [[flat[h * A + a] for a in range(A)] for h in range(H)]


def kronecker_tanh(S: Matrix, A_o: Matrix) -> dict[int, float]:
    """tanh(S ⊗ A_o), each element under its running index in the product of shape (A·O, P·O)."""
    O, P = len(A_o), len(S[0])
    flat = {}
    for a, p, i, j in itertools.product(range(len(S)), range(P), range(O), range(O)):
        row, column = a * O + i, p * O + j
        flat[row * (P * O) + column] = math.tanh(S[a][p] * A_o[i][j])
    return flat


def add(total: Matrix, term: Matrix) -> None:
    for row, other in zip(total, term, strict=True):
        for i, number in enumerate(other):
            row[i] += number


def slow_phm(z: list[float], sigma: Any, s: Any, A_o: Any) -> Matrix:
    """Eq. 6-9: sum over o of reshape(tanh((sigma_o z) s_oᵀ ⊗ A_o), (H, A))."""
    O, A = len(sigma), len(sigma[0])
    H = len(s[0]) * O * O
    total = zeros(H, A)
    for o in range(O):
        z_hat = linear(sigma[o], z)
        S = [[z_hat[a] * s[o][p] for p in range(len(s[o]))] for a in range(A)]
        add(total, put(kronecker_tanh(S, A_o[o]), H, A))
    return total


def slow_phm_full(z: list[float], sigma: Any, A_o: Any) -> Matrix:
    """The same with S_o a full map of z."""
    O, A = len(sigma), len(sigma[0])
    H = len(sigma[0][0]) * O * O
    total = zeros(H, A)
    for o in range(O):
        S = [linear(sigma[o][a], z) for a in range(A)]
        add(total, put(kronecker_tanh(S, A_o[o]), H, A))
    return total


def slow_low_rank(z: list[float], sigma: Any, s: Any) -> Matrix:
    """tanh((sigma z) sᵀ) of shape (A, H), transposed."""
    z_hat = linear(sigma, z)
    return [[math.tanh(z_hat[a] * s[h]) for a in range(len(z_hat))] for h in range(len(s))]


def slow_full(z: list[float], sigma: Any) -> Matrix:
    """One full linear map Z → H·A."""
    return [linear(sigma[h], z) for h in range(len(sigma))]


SLOW: dict[tuple[bool, bool], Callable[..., Matrix]] = {  # by (low_rank, phm)
    (True, True): slow_phm,
    (True, False): slow_low_rank,
    (False, True): slow_phm_full,
    (False, False): slow_full,
}


def bottleneck(h: list[float], W: Matrix, b: list[float], W_up: Matrix, b_up: list[float]) -> list[float]:
    """Eq. 1 and 3 for one token: h + up(f(h W + b))."""
    H, A = len(h), len(b)
    inner = [gelu(b[a] + sum(h[i] * W[i][a] for i in range(H))) for a in range(A)]
    return [h[i] + b_up[i] + sum(inner[a] * W_up[a][i] for a in range(A)) for i in range(H)]


def numbers(module: nn.Module) -> dict[str, Any]:
    return {name: parameter.tolist() for name, parameter in module.named_parameters()}


def generated(config: Injector, p: dict[str, Any], vectors: list[list[float]]) -> tuple[Matrix, list[float]]:
    """Eq. 4, 5, 10, 11: weight and bias of one row, from the vectors of its values."""
    Z = config.vector_size
    if config.aggregation == "pre":
        vectors = [[sum(z[k] for z in vectors) for k in range(Z)]]
    W, b = [list(row) for row in p["W_down"]], list(p["b_down"])
    weights = [p[name] for name in ("g.sigma", "g.s", "g.A_o") if name in p]
    for z in vectors:
        if config.weight_injection:
            add(W, SLOW[config.low_rank, config.phm](z, *weights))
        if config.bias_injection:
            b = [b[a] + number for a, number in enumerate(linear(p["G"], z))]
    return W, b


def slow_site(config: Injector, site: nn.Module, tables: list[Matrix], slots: list[Slots], ids: Tensor, h: Tensor):
    """A whole site: the task adapter, then each attribute's in schema order, row by row and token by token.

    In parallel all of them read what comes to the site, and what they add is summed.
    """
    p = numbers(site)
    result = torch.empty_like(h)
    for row in range(h.shape[0]):
        arrived = h[row].tolist()
        adapters = []
        if config.task_adapter:
            adapters.append(tuple(p[f"task.{name}"] for name in ("W_down", "b_down", "W_up", "b_up")))
        for j, attribute in enumerate(slots):
            mine = {n.removeprefix(f"attributes.{j}."): v for n, v in p.items() if n.startswith(f"attributes.{j}.")}
            columns = range(attribute.start, attribute.start + attribute.count)
            values = [int(ids[row, column]) for column in columns]
            W, b = generated(config, mine, [tables[j][value] for value in values if value != 0])
            adapters.append((W, b, mine["W_up"], mine["b_up"]))
        tokens = arrived
        for adapter in adapters:
            changed = [bottleneck(t, *adapter) for t in (arrived if config.arrangement == "parallel" else tokens)]
            if config.arrangement == "parallel":
                changed = [
                    [n + c - a for n, c, a in zip(*states, strict=True)]
                    for states in zip(tokens, changed, arrived, strict=True)
                ]
            tokens = changed
        result[row] = torch.tensor(tokens, dtype=h.dtype)
    return result

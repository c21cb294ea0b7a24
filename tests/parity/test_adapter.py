"""The adapter against loops written from Houlsby et al. 2019, section 2.1, in float64."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
import torch
from hosts import make_host
from torch import Tensor
from torch.nn.functional import relu

from attribune import functional
from attribune.condition import Condition
from attribune.methods import Adapter

TOLERANCE = 1e-10


def gelu(x: float) -> float:
    return 0.5 * x * (1 + math.erf(x / math.sqrt(2)))


def slow_adapter(
    h: Tensor, W_down: Tensor, b_down: Tensor, W_up: Tensor, b_up: Tensor, f: Callable[[float], float] = gelu
) -> Tensor:
    """Project d features to m, apply the non-linearity, project back, add the input: token by token."""
    d, m = W_down.shape
    h_, down, up = h.tolist(), W_down.tolist(), W_up.tolist()
    b_down_, b_up_ = b_down.tolist(), b_up.tolist()
    result = torch.empty_like(h)
    for b in range(h.shape[0]):
        for t in range(h.shape[1]):
            inner = [f(b_down_[a] + sum(h_[b][t][i] * down[i][a] for i in range(d))) for a in range(m)]
            for i in range(d):
                result[b, t, i] = h_[b][t][i] + b_up_[i] + sum(inner[a] * up[a][i] for a in range(m))
    return result


def parameters(H: int, A: int) -> dict[str, Tensor]:
    shapes = {"W_down": (H, A), "b_down": (A,), "W_up": (A, H), "b_up": (H,)}
    return {name: 0.7 * torch.randn(shape, dtype=torch.float64) for name, shape in shapes.items()}


def difference(a: Tensor, b: Tensor) -> float:
    assert a.shape == b.shape
    assert a.dtype == b.dtype == torch.float64
    return float((a - b).detach().abs().max())


@pytest.mark.parametrize(("H", "A"), [(48, 8), (13, 5), (5, 13), (7, 7), (3, 1)])
def test_function(H: int, A: int) -> None:
    h, weights = torch.randn(3, 5, H, dtype=torch.float64), parameters(H, A)
    assert difference(functional.adapter(h, **weights), slow_adapter(h, **weights)) < TOLERANCE


def test_another_activation() -> None:
    h, weights = torch.randn(2, 3, 11, dtype=torch.float64), parameters(11, 7)
    expected = slow_adapter(h, **weights, f=lambda x: max(x, 0.0))
    assert difference(functional.adapter(h, **weights, f=relu), expected) < TOLERANCE
    assert difference(functional.adapter(h, **weights), expected) > 1e-3


@pytest.mark.parametrize(("H", "A"), [(48, 8), (13, 5)])
def test_module(H: int, A: int) -> None:
    method = Adapter(bottleneck=A).build(make_host(hidden=H, sites=3, slots=(), outputs=2)).double().eval()
    for parameter in method.parameters():
        torch.nn.init.normal_(parameter, std=0.7)
    h = torch.randn(2, 5, H, dtype=torch.float64)
    condition = method.condition(None, rows=2)
    outputs = [site(h, condition) for site in method.sites]
    for site, output in zip(method.sites, outputs, strict=True):
        expected = slow_adapter(h, site.W_down, site.b_down, site.W_up, site.b_up)
        assert difference(output, expected) < TOLERANCE
    assert difference(outputs[0], outputs[1]) > 1e-3, "each site has parameters of its own"


def test_the_condition_is_not_read() -> None:
    site = Adapter(bottleneck=5).build(make_host(hidden=7, sites=1, slots=(), outputs=2)).double().sites[0]
    h = torch.randn(2, 3, 7, dtype=torch.float64)
    assert torch.equal(site(h), site(h, Condition(rows=2, values=())))


PLANTED: dict[str, Callable[..., Tensor]] = {
    "no residual": lambda h, W_down, b_down, W_up, b_up, f: f(h @ W_down + b_down) @ W_up + b_up,
    "no bias down": lambda h, W_down, b_down, W_up, b_up, f: h + (f(h @ W_down) @ W_up + b_up),
    "no bias up": lambda h, W_down, b_down, W_up, b_up, f: h + f(h @ W_down + b_down) @ W_up,
    "no activation": lambda h, W_down, b_down, W_up, b_up, f: h + ((h @ W_down + b_down) @ W_up + b_up),
    "activation on the output": lambda h, W_down, b_down, W_up, b_up, f: h + f(f(h @ W_down + b_down) @ W_up + b_up),
    "transposed down": lambda h, W_down, b_down, W_up, b_up, f: h + (f(h @ W_down.T + b_down) @ W_up + b_up),
    "transposed up": lambda h, W_down, b_down, W_up, b_up, f: h + (f(h @ W_down + b_down) @ W_up.T + b_up),
    "tanh-approximated GELU": lambda h, W_down, b_down, W_up, b_up, f: (
        h + (torch.nn.functional.gelu(h @ W_down + b_down, approximate="tanh") @ W_up + b_up)
    ),
}


@pytest.mark.parametrize("mistake", PLANTED)
def test_planted_mistakes_are_seen(mistake: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A = H, so that a transposed weight passes every check of shapes."""
    site = Adapter(bottleneck=11).build(make_host(hidden=11, sites=1, slots=(), outputs=2)).double().sites[0]
    for parameter in site.parameters():
        torch.nn.init.normal_(parameter, std=0.7)
    h = torch.randn(3, 5, 11, dtype=torch.float64)
    expected = slow_adapter(h, site.W_down, site.b_down, site.W_up, site.b_up)
    assert difference(site(h), expected) < TOLERANCE
    monkeypatch.setattr(functional, "adapter", lambda *weights: PLANTED[mistake](*weights, torch.nn.functional.gelu))
    assert difference(site(h), expected) > 1e-4

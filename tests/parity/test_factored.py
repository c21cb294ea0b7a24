"""Injectors from factors: products against loops in float64, and the module in float32 against the paper's loops."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable

import pytest
import torch
from hosts import make_host
from slow_injector import slow_phm, slow_site
from torch import Tensor

from attribune import functional
from attribune.functional import factored
from attribune.methods import Injector
from attribune.methods.base import Method
from attribune.methods.condition import Slots

TOLERANCE = 1e-10
IN_FLOAT32 = 5e-6
OF_POWERS = 2e-8  # of tanh, by odd powers; twice for three values and several o
MISTAKE = 1e-3
B, T, H, A, O, Z = 3, 2, 12, 5, 2, 7
SLOTS = [
    Slots(name="user", start=0, count=1, size=5),
    Slots(name="tags", start=1, count=3, size=7),
    Slots(name="film", start=4, count=1, size=3),
]
IDS = [[1, 2, 3, 6, 2], [0, 0, 0, 0, 0], [3, 0, 5, 0, 0], [0, 6, 2, 2, 1]]


def draw(*shape: int, scale: float = 1.0, dtype: torch.dtype = torch.float64) -> Tensor:
    """Draw numbers none of which is small."""
    return (scale * (torch.randint(0, 2, shape) * 2 - 1) * (0.2 + torch.rand(shape))).to(dtype).requires_grad_()


# The products


def slow_adapter(
    h: Tensor, factors: list[tuple[Tensor, Tensor]], C: Tensor, b: Tensor, W_up: Tensor, b_up: Tensor
) -> Tensor:
    """The adapters side by side, number by number: h + f(h W + b) U + c for every row and token."""
    first = C.shape[1] - len(factors) * A
    out = []
    for row, t in itertools.product(range(B), range(T)):
        inner = []
        for column in range(C.shape[1]):
            number, a = divmod(column - first, A)
            total = b[row, column] if b.dim() == 2 else b[column]
            for i in range(H):
                w = C[i, column]
                if column >= first:
                    left, right = factors[number]
                    place = i * A + a  # row-major, in (H, A) as in (A, H)
                    w = w + sum(left[row, place // H, k] * right[k, place % H] for k in range(len(right)))
                total = total + h[row, t, i] * w
            inner.append(total * (1 + torch.erf(total / math.sqrt(2))) / 2)
        out += [h[row, t, i] + b_up[i] + sum(u * W_up[n, i] for n, u in enumerate(inner)) for i in range(H)]
    return torch.stack(out).view(B, T, H)


@pytest.mark.slow
@pytest.mark.parametrize("own_bias", [True, False])
@pytest.mark.parametrize(("task", "attributes"), [(3, 2), (0, 1), (4, 0)])
def test_adapters_side_by_side(task: int, attributes: int, own_bias: bool) -> None:
    width = task + attributes * A
    factors = [(draw(B, A, K), draw(K, H, scale=0.3)) for K in (4, 3)[:attributes]]
    shared = (draw(H, width), draw(B, width) if own_bias else draw(width), draw(width, H), draw(H))
    operands = [h := draw(B, T, H), *shared, *(factor for pair in factors for factor in pair)]
    adapter = factored.FactoredAdapter(factors, *shared)
    found, expected = functional.factored_adapters(h, [adapter]), slow_adapter(h, factors, *shared)
    assert float((found - expected).detach().abs().max()) < TOLERANCE
    weights = torch.randn(B, T, H, dtype=torch.float64)
    for one, other in zip(*(torch.autograd.grad(y, operands, weights) for y in (found, expected)), strict=True):
        assert one.shape == other.shape
        assert float((one - other).abs().max()) < TOLERANCE * max(1.0, float(other.abs().max()))
    with torch.no_grad():
        assert float((functional.factored_adapters(h, [adapter]) - expected).abs().max()) < TOLERANCE


@pytest.mark.slow
@pytest.mark.parametrize("of_states", [True, False])
def test_adapters_one_after_the_other(of_states: bool) -> None:
    """A task adapter and two of attributes, the second of which two stand side by side; states may need no gradient."""
    counts, own = (0, 1, 2), []
    for count in counts:
        width = 3 * (count == 0) + count * A
        factors = [(draw(B, A, K), draw(K, H, scale=0.3)) for K in (4, 3)[:count]]
        own.append((factors, draw(H, width), draw(B, width) if count else draw(width), draw(width, H), draw(H)))
    h = draw(B, T, H).requires_grad_(of_states)
    found = functional.factored_adapters(h, [factored.FactoredAdapter(*one) for one in own])
    expected = h
    for one in own:
        expected = slow_adapter(expected, *one)
    operands = [x for factors, *rest in own for x in (*rest, *itertools.chain.from_iterable(factors))]
    operands += [h] if of_states else []
    assert float((found - expected).detach().abs().max()) < TOLERANCE
    weights = torch.randn(B, T, H, dtype=torch.float64)
    for one, other in zip(*(torch.autograd.grad(y, operands, weights) for y in (found, expected)), strict=True):
        assert float((one - other).abs().max()) < TOLERANCE * max(1.0, float(other.abs().max()))


@pytest.mark.parametrize("summed", [True, False])
def test_factors_of_the_papers_weights(summed: bool) -> None:
    """Of every site, for the sums over the values of a row, none among them, and for vectors that are the rows' own."""
    S, P = 2, H // O**2
    z, sigma, s, A_o = draw(4, Z), draw(S, O, A, Z, scale=0.3), draw(S, O, P), draw(S, O, O, O, scale=0.3)
    membership = None if summed else torch.tensor([[1, 0, 2, 0], [0, 0, 0, 0], [0, 1, 1, 1]], dtype=torch.float64)
    factors = functional.phm_factors(z, membership, sigma, s, A_o)
    assert factors is not None
    left, right = factors
    rows = torch.eye(4).tolist() if membership is None else membership.tolist()
    for site, (row, counts) in itertools.product(range(S), enumerate(rows)):
        own = [one[site].tolist() for one in (sigma, s, A_o)]
        matrices = [torch.tensor(slow_phm(vector, *own), dtype=torch.float64) for vector in z.tolist()]
        expected = sum(count * matrix for count, matrix in zip(counts, matrices, strict=True))
        assert float(((left[site, row] @ right[site]).view(H, A) - expected).detach().abs().max()) < OF_POWERS


def test_no_factors_of_large_arguments() -> None:
    given = draw(4, Z), None, draw(1, O, A, Z, scale=9.0), draw(1, O, H // O**2), draw(1, O, O, O)
    assert functional.phm_factors(*given) is None


# The module


SEQUENTIAL, PARALLEL = (
    Injector(hypercomplex=4, bottleneck=8, vector_size=Z, arrangement=arrangement)
    for arrangement in ("sequential", "parallel")
)


def build(config: Injector = SEQUENTIAL, *, scale: float = 0.1) -> Method:
    """The method in float32, the numbers of which are none of them small but for the arguments of tangents."""
    method = config.build(make_host(hidden=48, slots=SLOTS)).eval()
    with torch.no_grad():
        for name, parameter in method.named_parameters():
            size = scale if "sigma" in name else 0.2 if "W_" in name else 0.6
            parameter.copy_(draw(*parameter.shape, scale=size, dtype=torch.float32))
    return method


def worst(method: Method, config: Injector = SEQUENTIAL, *, is_factored: bool = True) -> float:
    """Return the greatest difference between float32 and the loops, over all sites."""
    ids, h = torch.tensor(IDS), torch.randn(len(IDS), 2, 48)
    condition = method.condition(ids, len(ids))
    assert [values.generated is not None for values in condition.values] == [is_factored] * len(SLOTS)
    tables = [table.tolist() for table in method.tables]
    differences = []
    for site in method.sites:
        expected = slow_site(config, site, tables, SLOTS, ids, h.double())
        differences.append(float((site(h, condition) - expected).detach().abs().max()))
    return max(differences)


def test_the_module_in_float32() -> None:
    assert worst(build()) < IN_FLOAT32
    assert worst(build(PARALLEL), PARALLEL) < IN_FLOAT32
    assert worst(build(PARALLEL), SEQUENTIAL) > MISTAKE, "the arrangement matters"
    assert worst(build(scale=9.0), is_factored=False) < 20 * IN_FLOAT32, "too large for powers, and right all the same"


@pytest.mark.parametrize("config", [SEQUENTIAL, PARALLEL], ids=lambda config: config.arrangement)
def test_gradients_are_those_of_the_weights(config: Injector) -> None:
    """In float64 the weights are made one by one, which is compared with the paper elsewhere."""
    method, ids, h = build(config).train(), torch.tensor(IDS), torch.randn(len(IDS), 2, 48)
    method.attribute_dropout = 0.0
    found: list[dict[str, Tensor]] = []
    for dtype in (torch.float32, torch.float64):
        method, x = method.to(dtype), h.detach().to(dtype).requires_grad_()
        condition = method.condition(ids, len(ids))
        for site in method.sites:
            x.retain_grad()
            x = site(x, condition)
        method.zero_grad()
        x.square().sum().backward()
        found.append({name: parameter.grad.double() for name, parameter in method.named_parameters()})
    for name, expected in found[1].items():
        assert float((found[0][name] - expected).abs().max()) < 2e-5 * float(expected.abs().max()), name


def test_rows_that_stand_several_times() -> None:
    """Rows that are cut into chunks use the factors of the document."""
    method, ids, h = build(), torch.tensor(IDS), torch.randn(3 * len(IDS), 2, 48)
    repeated = method.condition(ids, len(ids)).over_chunks(3)
    alone = method.condition(ids.repeat_interleave(3, dim=0), 3 * len(ids))
    torch.testing.assert_close(method.sites[0](h, repeated), method.sites[0](h, alone))


RIGHT = factored._weight
MISTAKES: dict[str, Callable[..., Tensor]] = {
    "column-major reshape": lambda C, factors: (
        (RIGHT(torch.zeros_like(C), factors).flatten(1).view(-1, *C.shape[::-1]).transpose(1, 2) + C) if factors else C
    ),
    "no shared part": lambda C, factors: RIGHT(torch.zeros_like(C) if factors else C, factors),
    "weights of other rows": lambda C, factors: RIGHT(C, [factors[0].flip(0), factors[1]]) if factors else C,
    "factors of another site": lambda C, factors: RIGHT(C, [factors[0], factors[1].flip(0)]) if factors else C,
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_planted_mistakes_are_seen(mistake: str, monkeypatch: pytest.MonkeyPatch) -> None:
    method = build()
    monkeypatch.setattr(factored, "_weight", MISTAKES[mistake])
    assert worst(method) > MISTAKE

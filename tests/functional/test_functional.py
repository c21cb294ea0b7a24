"""Hand-computed answers, gradients and chunking of the equations; parity with the papers is in tests/parity."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch.nn.functional import relu

from attribune import functional
from attribune.functional import tanh_sum as tangents

ONE_VALUE = torch.ones(1, 1)


def draw(*shape: int, grad: bool = False) -> Tensor:
    return torch.randn(shape, dtype=torch.float64).requires_grad_(grad)


def counts(B: int, U: int) -> Tensor:
    return torch.randint(0, 3, (B, U)).double()


@pytest.fixture
def chunk(monkeypatch: pytest.MonkeyPatch) -> Callable[[int], None]:
    return lambda elements: monkeypatch.setattr(tangents, "_CHUNK", {"cpu": elements})


# By hand


def test_adapter_by_hand() -> None:
    h = torch.tensor([1.0, 2.0])
    W_down, b_down = torch.tensor([[1.0, -1.0], [2.0, 0.0]]), torch.tensor([0.5, 0.0])
    W_up, b_up = torch.tensor([[1.0, 10.0], [100.0, 100.0]]), torch.tensor([0.25, -0.25])
    # inner: [1 + 4 + 0.5, -1] → relu → [5.5, 0]
    result = functional.adapter(h, W_down, b_down, W_up, b_up, f=relu)
    assert result.tolist() == [1 + 5.5 + 0.25, 2 + 55 - 0.25]


def test_gelu_is_the_exact_one() -> None:
    one, zero = torch.ones(1, 1), torch.zeros(1)
    expected = 1 + 0.5 * (1 + math.erf(1 / math.sqrt(2)))
    for function in (functional.adapter, functional.attribute_adapter):
        result = function(torch.ones(1, 1, 1), one, zero, one, zero)
        assert float(result) == pytest.approx(expected, abs=1e-7)


def test_phm_weight_by_hand() -> None:
    """H = 4, O = 2, A = 2, P = 1, Z = 1: each element of the product in its row-major place."""
    sigma = torch.tensor([[[1.0], [2.0]], [[0.0], [0.0]]])
    s = torch.tensor([[0.5], [9.0]])
    A_o = torch.tensor([[[1.0, 2.0], [3.0, 4.0]], [[9.0, 9.0], [9.0, 9.0]]])
    # S_1 = [[0.5], [1.0]]; S_1 ⊗ A_1, row after row: 0.5 1 | 1.5 2 | 1 2 | 3 4; the second o has S = 0
    W = functional.phm_weight(ONE_VALUE, ONE_VALUE, sigma, s, A_o)
    expected = [[0.5, 1.0], [1.5, 2.0], [1.0, 2.0], [3.0, 4.0]]
    assert W.shape == (1, 4, 2)
    assert torch.allclose(W[0], torch.tensor(expected).tanh(), atol=1e-6)


def test_phm_full_weight_by_hand() -> None:
    """H = 4, O = 2, A = 1, P = 1, Z = 2: S_1 = 1·2 + 3·(-1) = -1, S_2 = 1."""
    sigma = torch.tensor([[[[1.0, 3.0]]], [[[0.5, 0.0]]]])
    A_o = torch.tensor([[[1.0, 2.0], [3.0, 4.0]], [[0.1, 0.2], [0.3, 0.4]]])
    W = functional.phm_full_weight(torch.tensor([[2.0, -1.0]]), ONE_VALUE, sigma, A_o)
    expected = [math.tanh(-i) + math.tanh(i / 10) for i in (1, 2, 3, 4)]
    assert W.shape == (1, 4, 1)
    assert torch.allclose(W[0, :, 0], torch.tensor(expected), atol=1e-6)


def test_low_rank_weight_by_hand() -> None:
    W = functional.low_rank_weight(ONE_VALUE, ONE_VALUE, torch.tensor([[1.0], [2.0]]), torch.tensor([0.1, 0.2, 0.3]))
    assert torch.allclose(W[0], torch.tensor([[0.1, 0.2], [0.2, 0.4], [0.3, 0.6]]).tanh(), atol=1e-6)


def test_full_weight_by_hand() -> None:
    sigma = torch.tensor([[[1.0, 0.0]], [[0.0, 1.0]], [[1.0, 1.0]]])
    z, membership = torch.tensor([[2.0, 3.0], [10.0, 20.0]]), torch.tensor([[1.0, 0.0], [1.0, 2.0], [0.0, 0.0]])
    W = functional.full_weight(z, membership, sigma)
    assert W[:, :, 0].tolist() == [[2.0, 3.0, 5.0], [22.0, 43.0, 65.0], [0.0, 0.0, 0.0]]


def test_bias_by_hand() -> None:
    z, membership = torch.tensor([[1.0, 2.0], [3.0, -1.0]]), torch.tensor([[1.0, 1.0], [0.0, 2.0], [0.0, 0.0]])
    b = functional.attribute_bias(z, membership, torch.tensor([[1.0, 0.0], [1.0, 1.0]]), torch.tensor([0.5, -0.5]))
    assert b.tolist() == [[4.5, 4.5], [6.5, 3.5], [0.5, -0.5]]


# Gradients


@pytest.mark.slow
def test_gradients_of_the_adapters() -> None:
    weights = (draw(5, 3, grad=True), draw(3, grad=True), draw(3, 5, grad=True), draw(5, grad=True))
    assert torch.autograd.gradcheck(functional.adapter, (draw(2, 2, 5, grad=True), *weights))
    own = (draw(2, 5, 3, grad=True), draw(2, 3, grad=True), *weights[2:])
    assert torch.autograd.gradcheck(functional.attribute_adapter, (draw(2, 2, 5, grad=True), *own))


@pytest.mark.slow
@pytest.mark.parametrize("elements", [pytest.param(1, marks=pytest.mark.exhaustive), 30, 1 << 20])
def test_gradients_of_the_weights(elements: int, chunk: Callable[[int], None]) -> None:
    chunk(elements)
    H, O, A, Z, P = 8, 2, 3, 2, 2
    z, membership = draw(5, Z, grad=True), counts(3, 5)
    for function, weights in (
        (functional.phm_weight, (draw(O, A, Z, grad=True), draw(O, P, grad=True), draw(O, O, O, grad=True))),
        (functional.low_rank_weight, (draw(A, Z, grad=True), draw(H, grad=True))),
        (functional.phm_full_weight, (draw(O, A, P, Z, grad=True), draw(O, O, O, grad=True))),
        (functional.full_weight, (draw(H, A, Z, grad=True),)),
        (functional.attribute_bias, (draw(A, Z, grad=True), draw(A, grad=True))),
    ):
        assert torch.autograd.gradcheck(function, (z, membership, *weights)), function.__name__


@pytest.mark.slow
@pytest.mark.parametrize("elements", [*(pytest.param(n, marks=pytest.mark.exhaustive) for n in (1, 24)), 12, 1 << 20])
def test_gradients_of_the_sum_of_tangents(elements: int, chunk: Callable[[int], None]) -> None:
    chunk(elements)
    inputs = (draw(5, 2, 3, grad=True), draw(2, 4, grad=True), counts(3, 5))
    assert torch.autograd.gradcheck(tangents.tanh_sum, inputs)
    assert torch.autograd.gradgradcheck(tangents.tanh_sum, inputs)


# Chunks


def plain_sum(z_hat: Tensor, K: Tensor, membership: Tensor) -> Tensor:
    return torch.einsum("bu,uoah->bah", membership, torch.tanh(torch.einsum("uoa,oh->uoah", z_hat, K))).flatten(1)


@pytest.mark.slow
@settings(max_examples=40, deadline=None)
@given(U=st.integers(1, 7), O=st.integers(1, 3), A=st.integers(1, 5), H=st.integers(1, 7), elements=st.integers(1, 300))
def test_any_number_of_chunks_gives_the_same(U: int, O: int, A: int, H: int, elements: int) -> None:
    z_hat, K, membership, upstream = draw(U, O, A, grad=True), draw(O, H, grad=True), counts(3, U), draw(3, A * H)
    expected = plain_sum(z_hat, K, membership)
    wanted = torch.autograd.grad(expected, (z_hat, K), upstream)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tangents, "_CHUNK", {"cpu": elements})
        result = tangents.tanh_sum(z_hat, K, membership)
        seen = torch.autograd.grad(result, (z_hat, K), upstream)
    assert torch.allclose(result, expected, rtol=0, atol=1e-11)
    for one, other in zip(seen, wanted, strict=True):
        assert torch.allclose(one, other, rtol=0, atol=1e-11)


def test_chunks_cover_every_value_once_within_the_bound(chunk: Callable[[int], None]) -> None:
    z_hat, K = draw(11, 2, 3), draw(2, 5)
    for elements, size in ((1, 1), (15, 1), (29, 1), (30, 2), (59, 3), (10_000, 11)):
        chunk(elements)
        parts = list(tangents._chunks(z_hat, K))
        assert [u for part in parts for u in range(part.start, part.stop)] == list(range(11))
        assert max(part.stop - part.start for part in parts) == size


# Powers


@pytest.mark.parametrize(("limit", "terms"), tangents._POWERS)
def test_odd_powers_are_within_the_stated_error_of_each_tangent(limit: float, terms: int) -> None:
    x = torch.linspace(-limit, limit, 4001)
    exact = torch.tanh(x.double())
    for z_hat, K in ((x.view(1, 1, -1), torch.ones(1, 1)), (torch.ones(1, 1, 1) * 1e-9, 1e9 * x[None])):
        found = tangents.tanh_sum(z_hat, K, torch.ones(1, 1)).flatten().double()
        assert bool(((found - exact).abs() <= 1e-6 * exact.abs()).all())
        if limit == tangents._POWERS[-1][0]:
            forced = tangents.tanh_sum(z_hat, K, torch.ones(1, 1), implementation="polynomial").flatten().double()
            assert torch.equal(forced, found)


@pytest.mark.slow
@pytest.mark.parametrize(("U", "B"), [(7, 3), pytest.param(2, 9, marks=pytest.mark.exhaustive), (1, 1)])
def test_gradients_of_the_sum_of_powers(U: int, B: int) -> None:
    inputs = (0.3 * draw(U, 2, 3), 0.3 * draw(2, 4), counts(B, U))
    inputs = (inputs[0].requires_grad_(), inputs[1].requires_grad_(), inputs[2])
    powers = partial(tangents.tanh_sum, implementation="polynomial")
    assert torch.autograd.gradcheck(powers, inputs)
    assert torch.autograd.gradgradcheck(powers, inputs)


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(
    U=st.integers(1, 9),
    O=st.integers(1, 3),
    A=st.integers(1, 5),
    H=st.integers(1, 7),
    B=st.integers(1, 6),
    size=st.sampled_from([1e-20, 1e-3, 0.1, 0.5, 1.0, 2.0, 30.0]),
    seed=st.integers(0, 10_000),
)
def test_both_ways_to_the_sum_agree_in_values_and_gradients(
    U: int, O: int, A: int, H: int, B: int, size: float, seed: int
) -> None:
    torch.manual_seed(seed)
    z_hat, K = (size * draw(U, O, A)).float().requires_grad_(), draw(O, H).float().requires_grad_()
    membership, upstream = counts(B, U).float(), draw(B, A * H).float()
    exact = plain_sum(z_hat.double(), K.double(), membership.double())
    wanted = torch.autograd.grad(exact, (z_hat, K), upstream.double())
    found = tangents.tanh_sum(z_hat, K, membership)
    seen = torch.autograd.grad(found, (z_hat, K), upstream)
    # Sums cancel, and where all tangents are saturated, gradients are what rounding leaves of 1 - tanh².
    each = torch.tanh(torch.einsum("uoa,oh->uoah", z_hat.double(), K.double())).abs()
    largest = torch.einsum("bu,uoah->bah", membership.double(), each + 0.5 * (size > 0.01)).flatten(1)
    assert bool(((found.double() - exact).abs() <= 2e-6 * largest + 1e-30).all())
    dW = (membership.T @ upstream.abs()).double().view(U, A, H)
    bounds = (torch.einsum("uah,oh->uoa", dW, K.double().abs()), torch.einsum("uah,uoa->oh", dW, z_hat.double().abs()))
    for one, other, bound in zip(seen, wanted, bounds, strict=True):
        assert bool(((one.double() - other.double()).abs() <= 3e-6 * bound + 1e-30).all())


def test_values_are_sorted_by_what_their_arguments_reach(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[tuple[str, int]] = []
    by_powers, by_tangents = tangents._polynomial, tangents._exact
    monkeypatch.setattr(
        tangents, "_polynomial", lambda z, K, m, n: (seen.append((f"powers {n}", len(z))), by_powers(z, K, m, n))[1]
    )
    monkeypatch.setattr(tangents, "_exact", lambda z, K, m: (seen.append(("exact", len(z))), by_tangents(z, K, m))[1])
    K, membership = torch.tensor([[1.0, -0.5]]), torch.eye(3)
    for reach, expected in (
        ((0.1, 0.2, 0.0), [("powers 4", 3)]),
        ((0.1, -0.4, 0.0), [("powers 6", 3)]),
        ((0.1, 0.9, 0.0), [("powers 9", 3)]),
        ((0.1, 1.5, 0.0), [("powers 12", 3)]),
        ((0.1, 1.6, -9.0), [("exact", 2), ("powers 12", 1)]),
        ((2.0, float("inf"), -3.0), [("exact", 3), ("powers 12", 0)]),
    ):
        seen.clear()
        z_hat = torch.tensor(reach).view(3, 1, 1)
        found = tangents.tanh_sum(z_hat, K, membership)
        assert seen == expected
        assert torch.allclose(found, plain_sum(z_hat, K, membership), atol=1e-6)
    seen.clear()
    tangents.tanh_sum(torch.zeros(3, 1, 1, dtype=torch.float64), K.double(), membership)
    assert seen == [("exact", 3)], "what is computed in float64 is meant to be exact"


def test_what_is_not_a_number_stays_so() -> None:
    z_hat = torch.tensor([[[float("nan")]], [[0.5]]])
    found = tangents.tanh_sum(z_hat, torch.ones(1, 2), torch.eye(2))
    assert bool(found[0].isnan().all())


# Precision and extremes


def test_float32_is_within_the_stated_error() -> None:
    z_hat, K, membership = torch.randn(3, 1, 11), torch.randn(1, 13), torch.eye(3)
    exact = plain_sum(z_hat.double(), K.double(), membership.double())
    assert float((tangents.tanh_sum(z_hat, K, membership) - exact).abs().max()) < 4e-7


def test_zero_gives_exactly_zero() -> None:
    z_hat, K = torch.zeros(2, 4, 3), torch.randn(4, 5)
    assert not tangents.tanh_sum(z_hat, K, torch.ones(3, 2)).any()


def test_huge_numbers_saturate_and_stay_finite() -> None:
    z_hat = torch.tensor([[[1e30, -1e30]]], requires_grad=True)
    K = torch.tensor([[1e30, 1.0]], requires_grad=True)
    result = tangents.tanh_sum(z_hat, K, torch.ones(1, 1))
    assert result.tolist() == [[1.0, 1.0, -1.0, -1.0]]
    result.sum().backward()
    assert not z_hat.grad.any()
    assert not K.grad.any()


def test_inputs_are_left_as_they_were() -> None:
    inputs = (draw(3, 2, 5), draw(2, 7), counts(2, 3))
    before = [tensor.clone() for tensor in inputs]
    tangents.tanh_sum(*inputs)
    assert all(torch.equal(a, b) for a, b in zip(inputs, before, strict=True))


def test_under_autocast_gradients_are_finite_and_close() -> None:
    sigma, s, A_o = torch.randn(2, 5, 3), torch.randn(2, 3), torch.randn(2, 2, 2)
    z, membership = torch.randn(4, 3), counts(3, 4).float()
    leaves = [tensor.requires_grad_() for tensor in (z, sigma, s, A_o)]

    def run() -> tuple[Tensor, ...]:
        W = functional.phm_weight(z, membership, sigma, s, A_o)
        return W.detach(), *torch.autograd.grad(W.float().square().sum(), leaves)

    exact = run()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        rough = run()
    for one, other in zip(rough[1:], exact[1:], strict=True):
        assert one.dtype == torch.float32
        assert float((one - other).norm() / other.norm()) < 0.05
    assert float((rough[0].float() - exact[0]).norm() / exact[0].norm()) < 0.05


@pytest.mark.parametrize("form", ["phm", "low rank"])
def test_small_generated_weights_survive_autocast(form: str) -> None:
    """In bfloat16 the tangent of a small number would mostly be 0: its weights are relative to their own size."""
    generator = torch.Generator().manual_seed(1)

    def draw(*shape: int, scale: float = 1.0) -> torch.Tensor:
        return scale * torch.randn(*shape, generator=generator)

    z, membership = draw(7, 64, scale=0.02), torch.eye(7)
    if form == "phm":
        arguments = (draw(4, 8, 64), draw(4, 3, scale=0.025), draw(4, 4, 4))
        compute = functional.phm_weight
    else:
        arguments = (draw(8, 64), draw(48, scale=0.05))
        compute = functional.low_rank_weight
    exact = compute(z.double(), membership.double(), *(a.double() for a in arguments)).float()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        found = compute(z, membership, *arguments)
    assert found.dtype == torch.float32
    assert (found - exact).norm() < 1e-3 * exact.norm()

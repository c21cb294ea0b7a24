"""Linear maps in int8 against a loop over whole numbers, written from Jacob et al. 2018."""

from __future__ import annotations

import pytest
import torch
from processors import needs_int8
from slow_layers import Matrix, Vector, draw
from torch import Tensor, nn

from attribune.backbones.int8 import quantise_backbone
from attribune.errors import ConfigError
from attribune.functional.int8 import int8_linear, int8_packed, int8_states, int8_weight

ROWS, N, K = 5, 13, 7


def slow_weight(W: Matrix) -> tuple[list[list[int]], Vector]:
    """A scale for each column, with zero point 0."""
    scales = [max(abs(row[k]) for row in W) / 127 for k in range(len(W[0]))]
    return [[round(w / s) for w, s in zip(row, scales, strict=True)] for row in W], scales


def slow_row(x: Vector) -> tuple[list[int], float, float]:
    """Whole numbers from 0, of the least state, to 255, of the largest."""
    scale = (max(x) - min(x)) / 255
    return [round((value - min(x)) / scale) for value in x], scale, min(x)


def slow_linear(x: Matrix, W: Matrix, b: Vector) -> Matrix:
    weight, scales = slow_weight(W)
    result = []
    for row in x:
        states, s, m = slow_row(row)
        outputs = []
        for k, scale in enumerate(scales):
            product = sum(states[n] * weight[n][k] for n in range(len(states)))
            total = sum(one[k] for one in weight)
            outputs.append(s * scale * product + m * scale * total + b[k])
        result.append(outputs)
    return result


@pytest.fixture
def layer() -> tuple[Tensor, Tensor, Tensor]:
    """States of any sign and, as those of an activation, of one; a weight with columns of many sizes; a bias."""
    x, W, b = draw(ROWS, N), draw(N, K) * torch.logspace(-3, 2, K, dtype=torch.float64), draw(K)
    x[1] = x[1].relu()
    x[2] = x[2] * 1e-4 + 3
    return x, W, b


def test_the_whole_numbers(layer: tuple[Tensor, Tensor, Tensor]) -> None:
    x, W, _ = layer
    q, s = int8_weight(W)
    expected, scales = slow_weight(W.tolist())
    assert q.dtype == torch.int8
    assert q.tolist() == expected
    assert q.abs().amax(dim=0).tolist() == [127] * K
    torch.testing.assert_close(s, torch.tensor(scales, dtype=torch.float64), rtol=1e-14, atol=0)
    q, s, m = int8_states(x)
    rows = [slow_row(row) for row in x.tolist()]
    assert q.tolist() == [whole for whole, _, _ in rows]
    assert {(int(row.min()), int(row.max())) for row in q} == {(0, 255)}
    torch.testing.assert_close((s * q + m), x, rtol=0, atol=float(s.max()) / 2 * (1 + 1e-9))


def test_the_linear_map(layer: tuple[Tensor, Tensor, Tensor]) -> None:
    x, W, b = layer
    q, s = int8_weight(W)
    expected = torch.tensor(slow_linear(x.tolist(), W.tolist(), b.tolist()), dtype=torch.float64)
    result = int8_linear(x, q, s, s * q.sum(dim=0), b)
    torch.testing.assert_close(result, expected, rtol=1e-12, atol=1e-12)
    assert float((result - (x @ W + b)).abs().max()) > 1e-6, "it rounds"
    wrong = int8_linear(x, q, s, s * q.sum(dim=0).roll(1), b)
    assert float((wrong - expected).abs().max()) > 1e-2


@needs_int8
@pytest.mark.parametrize("shape", [(5, 13, 7), (1, 1, 1), (3, 64, 17), (70, 33, 129)])
def test_the_linear_map_in_the_layout_of_onednn(shape: tuple[int, int, int]) -> None:
    """In float32, with states of one sign too."""
    rows, n, k = shape
    x, W, b = draw(rows, n).float(), draw(n, k).float(), draw(k).float()
    x[-1] = x[-1].abs() * 100
    q, s = int8_weight(W)
    packed = int8_packed(q)
    if packed is None:
        pytest.skip("PyTorch comes without oneDNN's products of int8 for this processor")
    result = int8_linear(x, q, s, s * q.sum(dim=0), b, packed)
    states, scales, least = int8_states(x)
    expected = (states.double() * scales + least) @ (q.double() * s) + b
    torch.testing.assert_close(result, expected.float(), rtol=1e-5, atol=1e-5 * float(expected.abs().max()))
    torch.testing.assert_close(int8_linear(x, q, s, s * q.sum(dim=0), b), result, rtol=1e-5, atol=1e-3)


@pytest.mark.parametrize("scale", [1e-3, 1.0, 1e4])
def test_states_in_float32_are_rounded_as_in_float64(scale: float) -> None:
    x = (draw(40, 33) * scale).float()
    x[1] = x[1].relu()
    (q, s, m), (exact, s_exact, m_exact) = int8_states(x), int8_states(x.double())
    assert q.dtype == exact.dtype == torch.uint8
    assert int((q.int() - exact.int()).abs().max()) <= 1, "a number halfway between two may go either way"
    assert float((q != exact).double().mean()) < 0.01
    torch.testing.assert_close(s.double(), s_exact, rtol=1e-6, atol=0)
    torch.testing.assert_close(m.double(), m_exact, rtol=1e-6, atol=0)


def test_weights_that_are_no_numbers_are_refused() -> None:
    """Their scale would be none, and the largest of a token's states does not see them."""
    for bad in (float("nan"), float("inf")):
        layer = nn.Linear(N, K)
        layer.weight.data[2, 3] = bad
        with pytest.raises(ConfigError, match="NaN or infinite"):
            quantise_backbone(nn.Sequential(layer), {})


@pytest.mark.parametrize("value", [0.0, 3.7, -250.0, 1e-30])
def test_states_that_are_one_number(value: float) -> None:
    """Which have no range; and a column of zeros, which has no scale."""
    W = draw(N, K)
    W[:, 2] = 0
    q, s = int8_weight(W.float())
    result = int8_linear(torch.full((2, 3, N), value), q, s, s * q.sum(dim=0), torch.ones(K))
    assert result.shape == (2, 3, K)
    expected = 1 + value * (q * s).double().sum(dim=0)
    torch.testing.assert_close(result, expected.float().expand(2, 3, K), rtol=1e-3, atol=1e-3)


@needs_int8
def test_layers_of_both_orientations_and_no_rows() -> None:
    """A layer of torch, and that of GPT-2, whose weight is transposed; without a bias too."""
    from transformers.pytorch_utils import Conv1D

    for layer in (nn.Linear(N, K), nn.Linear(N, K, bias=False), Conv1D(K, N)):
        x = torch.randn(2, 3, N)
        expected, empty = layer(x), layer(x[:0])
        quantise_backbone(host := nn.Sequential(layer), {})
        torch.testing.assert_close(host(x), expected, rtol=0, atol=0.05)
        assert not torch.equal(host(x), expected)
        assert host(x[:0]).shape == empty.shape

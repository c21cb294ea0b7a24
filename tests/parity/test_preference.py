"""Preferences: the equations of Bradley and Terry and of Davidson against slow loops over rows, in float64."""

from __future__ import annotations

import math

import pytest
import torch
from slow_layers import assert_apart, assert_same
from torch import Tensor

from attribune.functional import preference_log_probability, preference_or_tie_logits
from attribune.tasks import Preference

ROWS = 11


def slow_losses(rewards: list[list[float]], labels: list[int]) -> list[float]:
    """-log P(y_1 > y_2 | x, u) with P = π_1 / (π_1 + π_2) of π = exp(r), 1 the preferred text of a row."""
    losses = []
    for both, label in zip(rewards, labels, strict=True):
        preferred, other = math.exp(both[label]), math.exp(both[1 - label])
        losses.append(-math.log(preferred / (preferred + other)))
    return losses


def given(seed: int = 0) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    rewards = 3 * torch.randn(ROWS, 2, generator=generator, dtype=torch.float64)
    return rewards, torch.randint(0, 2, (ROWS,), generator=generator)


def test_the_loss_is_that_of_a_slow_loop() -> None:
    rewards, labels = given()
    expected = torch.tensor(slow_losses(rewards.tolist(), labels.tolist()), dtype=torch.float64)
    rows = torch.arange(ROWS)
    chosen, other = rewards[rows, labels], rewards[rows, 1 - labels]
    assert_same(-preference_log_probability(chosen, other), expected)
    assert_apart(-preference_log_probability(other, chosen), expected)
    task = Preference()
    torch.testing.assert_close(task.row_losses(rewards, labels).double(), expected, rtol=0, atol=1e-5)
    torch.testing.assert_close(task.loss(rewards, labels).double(), expected.mean(), rtol=0, atol=1e-6)
    metrics = task.metrics(rewards.numpy(), labels.numpy())
    assert metrics["log_loss"].value() == pytest.approx(float(expected.mean()), abs=1e-10)


def test_both_orders_of_a_pair_have_probabilities_that_add_up_to_one() -> None:
    rewards, _ = given(1)
    one, other = (preference_log_probability(*rewards[:, places].T) for places in ([0, 1], [1, 0]))
    torch.testing.assert_close(one.exp() + other.exp(), torch.ones(ROWS, dtype=torch.float64), rtol=0, atol=1e-12)
    shifted = preference_log_probability(*(rewards + 7).T)
    torch.testing.assert_close(one, shifted, rtol=0, atol=1e-12)


def test_far_rewards_neither_overflow_nor_lose_their_tail() -> None:
    rewards = torch.tensor([[800.0, 0.0], [0.0, 800.0], [40.0, 0.0]], dtype=torch.float64)
    found = preference_log_probability(*rewards.T)
    assert found.tolist() == pytest.approx([0.0, -800.0, -math.exp(-40)], rel=1e-12)
    rewards = rewards.float().requires_grad_()
    losses = Preference().row_losses(rewards, torch.tensor([1, 0, 0]))
    assert losses.tolist() == pytest.approx([800.0, 800.0, 0.0], abs=1e-6)
    (gradient,) = torch.autograd.grad(losses.sum(), rewards)
    assert gradient.tolist() == [[1.0, -1.0], [-1.0, 1.0], pytest.approx([0.0, 0.0], abs=1e-6)]


def test_gradients_are_those_of_finite_differences() -> None:
    rewards, _ = given(2)
    r_1, r_2 = (rewards[:, place].clone().requires_grad_() for place in range(2))
    assert torch.autograd.gradcheck(preference_log_probability, (r_1, r_2))


def slow_tie_losses(rewards: list[list[float]], labels: list[int], nu: float) -> list[float]:
    """-log of π_1, π_2 or ν sqrt(π_1 π_2), divided by their sum, of π = exp(r)."""
    losses = []
    for (r_1, r_2), label in zip(rewards, labels, strict=True):
        shares = [math.exp(r_1), math.exp(r_2), nu * math.sqrt(math.exp(r_1) * math.exp(r_2))]
        losses.append(-math.log(shares[label] / sum(shares)))
    return losses


def test_ties_have_the_probabilities_of_a_slow_loop() -> None:
    rewards, labels = given(3)
    labels[::3] = 2
    log_nu = torch.tensor([-0.7], dtype=torch.float64)
    logits = preference_or_tie_logits(*rewards.T, log_nu)
    expected = slow_tie_losses(rewards.tolist(), labels.tolist(), math.exp(-0.7))
    found = -logits.log_softmax(dim=1)[torch.arange(ROWS), labels]
    torch.testing.assert_close(found, torch.tensor(expected, dtype=torch.float64), rtol=0, atol=1e-10)
    task = Preference(learn_ties=True)
    assert task.loss(logits, labels).item() == pytest.approx(sum(expected) / ROWS, abs=1e-6)
    assert task.metrics(logits.numpy(), labels.numpy())["log_loss"].value() == pytest.approx(sum(expected) / ROWS)
    decided = preference_log_probability(*rewards.T).exp()
    p_1, p_2, _ = logits.softmax(dim=1).T
    torch.testing.assert_close(p_1 / (p_1 + p_2), decided, rtol=0, atol=1e-12)
    swapped = preference_or_tie_logits(*rewards.flip(1).T, log_nu).softmax(dim=1)
    torch.testing.assert_close(swapped, logits.softmax(dim=1)[:, [1, 0, 2]], rtol=0, atol=1e-12)
    equal = preference_or_tie_logits(torch.zeros(1), torch.zeros(1), torch.tensor([math.log(0.5)])).softmax(dim=1)
    assert equal[0].tolist() == pytest.approx([0.4, 0.4, 0.2])  # ν / (2 + ν)


def test_gradients_of_ties_are_those_of_finite_differences() -> None:
    rewards, _ = given(4)
    r_1, r_2 = (rewards[:, place].clone().requires_grad_() for place in range(2))
    log_nu = torch.tensor([0.3], dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(preference_or_tie_logits, (r_1, r_2, log_nu))
